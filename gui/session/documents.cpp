#include "gui/session/documents.h"

#include <QFileInfo>
#include <QSettings>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/options/command_line.h"
#include "cli/scenarios/saved_report.h"
#include "gui/session/words.h"
#include "hardware_profiles/cluster.h"
#include "models/base/error.h"
#include "models/config.h"
#include "planner/check/readers/read.h"
#include "planner/frameworks/deepspeed/config/keys.h"

namespace zplan::gui {

namespace {

/// A file that was opened or dropped on the window.
struct OpenedFile {
  enum class Kind {
    scenarios,    ///< zplan.scenarios/1
    report,       ///< saved with --json: zplan.report/1
    model,        ///< a config.json, or a folder with one
    ds_config,    ///< of DeepSpeed
    measurements  ///< any format that `zplan check` reads
  };
  Kind kind{};
  std::string path;
  ScenarioFile scenarios{};  ///< of a scenario file
};

OpenedFile open_file(const std::string& path);

namespace fs = std::filesystem;
using Kind = OpenedFile::Kind;

constexpr const char* kAccepted =
    "accepted: scenarios (.zplan), a report saved with --json, a model's config.json, a ds_config, "
    "measurements";

bool is_model_config(const Json& json) {
  return json.is_object() && (json.contains("model_type") || json.contains("architectures") ||
                              (json.contains("hidden_size") && json.contains("num_hidden_layers")));
}

/// True if at least one top-level key is DeepSpeed's; misspelt ones are left to the linter.
bool is_ds_config(const Json& json) {
  const DsSection* top = find_section(ds_keys(), "");
  if (!json.is_object() || top == nullptr) return false;
  return std::ranges::any_of(top->keys, [&json](const std::string& key) { return json.contains(key); });
}

OpenedFile of_folder(const std::string& path) {
  const std::string config = (fs::path(path) / "config.json").string();
  std::error_code ignored;
  if (!fs::exists(config, ignored)) throw InputError(path, "a folder without a config.json", kAccepted);
  OpenedFile opened = open_file(config);
  if (opened.kind != Kind::model) throw InputError(config, "not a model's config.json", kAccepted);
  opened.path = path;
  return opened;
}

constexpr int kMostRecent = 12;
const QString kRecent = QStringLiteral("recent");

QString message(const InputError& error) { return QString::fromUtf8(error.what()); }

/// Reads a file far enough to know its format and that it is usable. Throws InputError that names file and
/// place.
OpenedFile open_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return of_folder(path);
  const check::Document document = check::recognised(read_file(path), path);
  if (document.format) return {Kind::measurements, path};
  const Json& json = document.json;
  if (is_scenario_file(json)) return {Kind::scenarios, path, read_scenarios(json, path)};
  if (is_report(json)) {
    const SavedReport checked = read_saved_report(json, path);
    if (checked.plans.empty()) throw InputError(path, "a report without plans", kAccepted);
    return {Kind::report, path};
  }
  if (is_model_config(json)) {
    const Model checked = read_config(JsonReader(json, path));
    return {Kind::model, path};
  }
  if (is_ds_config(json)) return {Kind::ds_config, path};
  throw InputError(path,
                   json.is_null() ? "neither JSON nor a log that zplan knows" : "no JSON that zplan knows",
                   kAccepted);
}

/// Returns a scenario's name for a file; "Llama-3-8B/config.json" is named after its folder.
std::string name_of_file(const std::string& path) {
  const fs::path file(path);
  const std::string stem = file.stem().string();
  if (stem != "config" || !file.has_parent_path()) return file.has_stem() ? stem : path;
  return fs::absolute(file).parent_path().filename().string();
}

}  // namespace

Documents::Documents(Session& session, QObject* parent) : QObject(parent), session_(session) {
  connect(&session.undo_stack(), &QUndoStack::cleanChanged, this, &Documents::changed);
}

void Documents::add(const QStringList& paths) {
  QStringList problems;
  for (const QString& path : paths) {
    try {
      add_one(path);
    } catch (const InputError& error) {
      problems << message(error);
    }
  }
  if (!problems.isEmpty()) Q_EMIT problem(problems.join(QLatin1Char('\n')));
}

void Documents::add_one(const QString& path) {
  const OpenedFile opened = open_file(path.toStdString());
  switch (opened.kind) {
    case OpenedFile::Kind::scenarios:
      if (session_.is_empty()) {
        Q_EMIT about_to_replace();
        session_.load(opened.scenarios);
        set_file(path, false);
      } else {
        session_.undo_stack().beginMacro(tr("add %1").arg(QFileInfo(path).fileName()));
        for (Scenario each : opened.scenarios.scenarios) {
          each.name = session_.free_name(qt(each.name)).toStdString();
          session_.add(each, session_.size());
        }
        session_.undo_stack().endMacro();
      }
      break;
    case OpenedFile::Kind::report:
      session_.add({.name = session_.free_name(qt(name_of_file(opened.path))).toStdString(),
                    .arguments = {},
                    .report = QFileInfo(path).absoluteFilePath().toStdString()});
      break;
    case OpenedFile::Kind::model: add_variant("--model", opened.path); break;
    case OpenedFile::Kind::ds_config: add_variant("--ds-config", opened.path); break;
    case OpenedFile::Kind::measurements: Q_EMIT measurements(path); return;
  }
  remember(path);
}

/// Adds a copy of the current scenario, or a first one, that reads this file.
void Documents::add_variant(const std::string& option, const std::string& path) {
  const std::string file = QFileInfo(qt(path)).absoluteFilePath().toStdString();
  std::vector<std::string> arguments{"--model", "8B"};
  if (const int row = session_.current(); row >= 0 && session_.at(row).scenario.report.empty())
    arguments = session_.at(row).scenario.arguments;
  std::vector<std::pair<std::string, std::string>> changes{{option, file}};
  // The config sets these; an option that contradicts it is an error.
  if (option == "--ds-config")
    for (const char* each : {"--zero", "--offload", "--tp", "--sp", "--cp", "--ep", "--dp-replicate",
                             "--buckets", "--grad-accum", "--global-batch"})
      changes.emplace_back(each, "");
  session_.add({.name = session_.free_name(qt(name_of_file(path))).toStdString(),
                .arguments = with_options(arguments, changes)});
}

bool Documents::open(const QString& path) {
  try {
    const OpenedFile opened = open_file(path.toStdString());
    if (opened.kind != OpenedFile::Kind::scenarios) {
      add_one(path);
      return true;
    }
    Q_EMIT about_to_replace();
    session_.load(opened.scenarios);
    set_file(path, false);
    remember(path);
    return true;
  } catch (const InputError& error) {
    Q_EMIT problem(message(error));
    return false;
  }
}

bool Documents::save(const QString& path) {
  try {
    write_scenario_file(session_.contents(), path.toStdString());
  } catch (const InputError& error) {
    Q_EMIT problem(message(error));
    return false;
  }
  set_file(path, false);
  remember(path);
  return true;
}

void Documents::close() {
  Q_EMIT about_to_replace();
  session_.load({});
  set_file({}, false);
}

void Documents::set_file(const QString& path, bool modified) {
  file_ = path.isEmpty() ? path : QFileInfo(path).absoluteFilePath();
  modified_before_ = modified;
  session_.undo_stack().setClean();
  Q_EMIT changed();
}

bool Documents::is_modified() const { return modified_before_ || !session_.undo_stack().isClean(); }

QStringList Documents::recent() const {
  QStringList there;
  for (const QString& each : QSettings().value(kRecent).toStringList())
    if (QFileInfo::exists(each)) there << each;
  return there;
}

void Documents::remember(const QString& path) {
  const QString file = QFileInfo(path).absoluteFilePath();
  QStringList all = recent();
  all.removeAll(file);
  all.prepend(file);
  QSettings().setValue(kRecent, all.mid(0, kMostRecent));
  Q_EMIT changed();
}

void Documents::forget_recent() {
  QSettings().remove(kRecent);
  Q_EMIT changed();
}

}  // namespace zplan::gui
