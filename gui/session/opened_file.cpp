#include "gui/session/opened_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/scenarios/saved_report.h"
#include "hardware_profiles/cluster.h"
#include "models/base/error.h"
#include "models/config.h"
#include "planner/check/readers/read.h"
#include "planner/frameworks/deepspeed/config/keys.h"

namespace zplan::gui {

namespace {

namespace fs = std::filesystem;
using Kind = OpenedFile::Kind;

constexpr const char* kAccepted =
    "accepted: scenarios (.zplan), a report saved with --json, a model's config.json, a ds_config, "
    "measurements";

bool is_model_config(const Json& json) {
  return json.is_object() && (json.contains("model_type") || json.contains("architectures") ||
                              (json.contains("hidden_size") && json.contains("num_hidden_layers")));
}

/// Any top-level key of DeepSpeed's makes a config; a misspelt one beside it is the linter's to find.
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

}  // namespace

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

std::string name_of_file(const std::string& path) {
  const fs::path file(path);
  const std::string stem = file.stem().string();
  if (stem != "config" || !file.has_parent_path()) return file.has_stem() ? stem : path;
  return fs::absolute(file).parent_path().filename().string();
}

}  // namespace zplan::gui
