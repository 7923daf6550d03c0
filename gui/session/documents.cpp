#include "gui/session/documents.h"

#include <QFileInfo>
#include <QSettings>

#include "cli/options/command_line.h"
#include "gui/session/opened_file.h"
#include "gui/session/words.h"
#include "models/base/error.h"

namespace zplan::gui {

namespace {

constexpr int kMostRecent = 12;
const QString kRecent = QStringLiteral("recent");

QString message(const InputError& error) { return QString::fromUtf8(error.what()); }

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

/// The current scenario with this file in place of what it says, or a first one.
void Documents::add_variant(const std::string& option, const std::string& path) {
  const std::string file = QFileInfo(qt(path)).absoluteFilePath().toStdString();
  std::vector<std::string> arguments{"--model", "8B"};
  if (const int row = session_.current(); row >= 0 && session_.at(row).scenario.report.empty())
    arguments = session_.at(row).scenario.arguments;
  std::vector<std::pair<std::string, std::string>> changes{{option, file}};
  // A config says these itself, and contradicting it is an error.
  if (option == "--ds-config")
    for (const char* each :
         {"--zero", "--offload", "--tp", "--sp", "--cp", "--ep", "--buckets", "--grad-accum", "--global-batch"})
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
