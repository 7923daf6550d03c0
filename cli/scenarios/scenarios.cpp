#include "cli/scenarios/scenarios.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/options/command_line.h"
#include "models/base/json_reader.h"
#include "models/base/version.h"
#include "models/base/files.h"

namespace zplan {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchema = "zplan.scenarios/1", kFamily = "zplan.scenarios/";
constexpr std::size_t kMostArguments = 200;

/// Options whose value may be a file.
constexpr std::array<std::string_view, 6> kFileOptions{"--model",   "--gpu",       "--node",
                                                       "--network", "--ds-config", "--recipe"};

bool takes_file(std::string_view option) {
  return std::find(kFileOptions.begin(), kFileOptions.end(), option) != kFileOptions.end();
}

fs::path folder_of(const std::string& file) { return fs::absolute(fs::path(file)).parent_path(); }

/// Returns the absolute path where such a file exists, else `value`: names of models look like paths.
std::string found_in(const fs::path& folder, const std::string& value) {
  std::error_code ignored;
  if (value.empty() || fs::path(value).is_absolute() || !fs::exists(folder / value, ignored)) return value;
  return (folder / value).lexically_normal().string();
}

std::string seen_from(const fs::path& folder, const std::string& value) {
  if (!fs::path(value).is_absolute()) return value;
  const fs::path relative = fs::path(value).lexically_relative(folder);
  return relative.empty() || *relative.begin() == ".." ? value : relative.string();
}

/// Returns `arguments` with change(value) for the value of every option that may name a file.
template <class F>
std::vector<std::string> with_paths(const std::vector<std::string>& arguments, const F& change) {
  std::vector<std::string> changed = arguments;
  for (const GivenOption& each : given_options(arguments)) {
    if (!takes_file(each.name) || each.value.empty()) continue;
    const std::string value = change(std::string(each.value));
    if (each.words == 2)
      changed[each.first + 1] = value;
    else
      changed[each.first] = std::string(each.name) + "=" + value;
  }
  return changed;
}

std::vector<std::string> read_words(const JsonReader& at) {
  std::vector<std::string> words;
  for (const JsonReader& each : at.items()) words.push_back(each.text());
  if (words.size() > kMostArguments) at.fail(std::to_string(words.size()) + " words", "accepted: up to 200");
  return words;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Reads a name. Control characters are refused, as names are printed.
std::string name_at(const JsonReader& at) {
  const std::string name = at.text();
  if (std::any_of(name.begin(), name.end(), is_control))
    at.fail(in_quotes(name), "accepted: text without control characters");
  return name;
}

/// Returns the last part of a path, without ".json"; of a config.json the name of its folder.
std::string short_name(const std::string& value) {
  const fs::path path = fs::path(value).lexically_normal();
  const fs::path last = path.has_filename() ? path : path.parent_path();
  if (last.extension() != ".json") return last.filename().string();
  return last.stem() == "config" && last.has_parent_path() ? last.parent_path().filename().string()
                                                           : last.stem().string();
}

/// Returns the GPUs that options name: "5 × 44 GiB", "8 × H100-SXM-80GB", "2 × A100 of 40 GiB", "4 GPUs";
/// empty where none does.
std::string cards_named(const std::vector<std::string>& arguments) {
  if (const auto shape = given_value(arguments, "--instance")) {
    const auto machines = given_value(arguments, "--nodes");
    return machines && *machines != "1" ? *machines + " × " + *shape : *shape;
  }
  const auto count = given_value(arguments, "--gpus"), card = given_value(arguments, "--gpu"),
             memory = given_value(arguments, "--mem");
  if (!count && !card && !memory) return {};
  if (!card && !memory) return *count + (*count == "1" ? " GPU" : " GPUs");
  const std::string size = memory ? *memory + " GiB" : std::string();
  return count.value_or("1") + " × " +
         (card ? short_name(*card) + (memory ? " of " + size : std::string()) : size);
}

std::string model_named(const std::vector<std::string>& arguments) {
  for (const char* option : {"--model", "--recipe", "--ds-config"})
    if (const auto value = given_value(arguments, option)) return short_name(*value);
  return {};
}

Scenario read_scenario(const JsonReader& at, const fs::path& folder) {
  at.only_keys({"name", "arguments", "strategy", "report", "compared"});
  Scenario one{.name = name_at(at.at("name")), .arguments = {}};
  if (at.has("arguments") == at.has("report"))
    at.fail(at.has("report") ? "arguments and a report" : "neither arguments nor a report",
            "accepted: one of them");
  if (at.has("arguments"))
    one.arguments = with_paths(read_words(at.at("arguments")),
                               [&](const std::string& value) { return found_in(folder, value); });
  one.report = found_in(folder, at.text_or("report", ""));
  one.strategy = at.text_or("strategy", "");
  one.compared = at.boolean_or("compared", true);
  return one;
}

Json scenario_json(const Scenario& one, const fs::path& folder) {
  Json out{{"name", one.name}};
  if (one.report.empty())
    out["arguments"] =
        with_paths(one.arguments, [&](const std::string& value) { return seen_from(folder, value); });
  else
    out["report"] = seen_from(folder, one.report);
  if (!one.strategy.empty()) out["strategy"] = one.strategy;
  out["compared"] = one.compared;
  return out;
}

}  // namespace

std::vector<std::string> with_absolute_paths(const std::vector<std::string>& arguments) {
  return with_paths(arguments, [](const std::string& value) { return found_in(fs::current_path(), value); });
}

std::string name_of_question(const std::vector<std::string>& arguments) {
  const std::string model = model_named(arguments), cards = cards_named(arguments);
  const auto method = given_value(arguments, "--method"), nodes = given_value(arguments, "--nodes");
  std::string name = model.empty() ? "no model" : model;
  if (method && *method != "full") name += ", " + *method + (cards.empty() ? "" : ",");
  if (!cards.empty()) name += " on " + cards;
  if (nodes && *nodes != "1" && !given_value(arguments, "--instance")) name += " in " + *nodes + " nodes";
  std::replace_if(name.begin(), name.end(), is_control, ' ');
  return name;
}

bool is_scenario_file(const Json& json) {
  if (!json.is_object()) return false;
  const auto schema = json.find("schema");
  return schema != json.end() && schema->is_string() && schema->get<std::string>().starts_with(kFamily);
}

ScenarioFile read_scenarios(const Json& json, const std::string& file) {
  const JsonReader at(json, file);
  const JsonReader schema = at.at("schema");
  if (schema.text() != kSchema) schema.fail(in_quotes(schema.text()), "accepted: \"zplan.scenarios/1\"");
  at.only_keys({"schema", "zplan_version", "baseline", "differences", "scenarios"});
  ScenarioFile out;
  const std::vector<JsonReader> all = at.at("scenarios").items();
  if (all.size() > kMostScenarios)
    at.at("scenarios").fail(std::to_string(all.size()) + " scenarios", "accepted: up to 200");
  for (const JsonReader& each : all) out.scenarios.push_back(read_scenario(each, folder_of(file)));
  if (const auto baseline = at.find("baseline")) {
    if (all.empty()) baseline->fail("a baseline of no scenarios", "accepted: null");
    out.baseline = static_cast<std::size_t>(baseline->integer(0, static_cast<std::int64_t>(all.size()) - 1));
  }
  out.differences = at.boolean_or("differences", false);
  return out;
}

ScenarioFile read_scenario_file(const std::string& file) {
  return read_scenarios(parse_json(read_file(file), file), file);
}

std::string scenarios_text(const ScenarioFile& scenarios, const std::string& file) {
  Json all = Json::array();
  for (const Scenario& each : scenarios.scenarios) all.push_back(scenario_json(each, folder_of(file)));
  const Json out{{"schema", std::string(kSchema)},
                 {"zplan_version", std::string(version())},
                 {"baseline", scenarios.baseline ? Json(*scenarios.baseline) : Json(nullptr)},
                 {"differences", scenarios.differences},
                 {"scenarios", std::move(all)}};
  return json_text(out);
}

void write_scenario_file(const ScenarioFile& scenarios, const std::string& file) {
  write_file(file, scenarios_text(scenarios, file), file);
}

}  // namespace zplan
