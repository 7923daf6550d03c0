#pragma once
// Scenarios: questions with names, kept in a file (zplan.scenarios/1, docs/scenarios.md) that the window
// writes and the command line reads.

#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

/// A named question, as its command line; or a saved report.
struct Scenario {
  std::string name;
  std::vector<std::string> arguments;  ///< options behind `zplan`: "--model", "8B", "--gpus", "5"
  std::string strategy{};              ///< id of the plan that represents it; empty: the recommended one
  std::string report{};                ///< file of a report saved with --json, in place of arguments
  bool compared{true};                 ///< stands in the comparison
  bool operator==(const Scenario&) const = default;
};

struct ScenarioFile {
  std::vector<Scenario> scenarios;
  std::optional<std::size_t> baseline{};  ///< what differences are from; absent: the first that is compared
  bool differences{};                     ///< lines in which all are alike are left out
  bool operator==(const ScenarioFile&) const = default;
};

/// Returns `arguments` with absolute paths in place of names of existing files.
[[nodiscard]] std::vector<std::string> with_absolute_paths(const std::vector<std::string>& arguments);

/// Returns a name for a question: "Qwen3-8B on 5 × 44 GiB", "70B, lora, on 16 × H100-SXM-80GB in 2 nodes". It
/// is made from the options alone, so a question that cannot be planned has a name, too.
[[nodiscard]] std::string name_of_question(const std::vector<std::string>& arguments);

/// The largest number of scenarios in a file.
inline constexpr std::size_t kMostScenarios = 200;

/// True if a JSON document is a file of scenarios, of any version.
[[nodiscard]] bool is_scenario_file(const Json& json);

/// Reads scenarios. Paths of existing files become absolute; relative ones are relative to the folder of
/// `file`. Throws InputError naming file and pointer.
[[nodiscard]] ScenarioFile read_scenarios(const Json& json, const std::string& file);

/// Reads the file. Throws InputError naming file and pointer.
[[nodiscard]] ScenarioFile read_scenario_file(const std::string& file);

/// Returns the text of the file `file`. Paths below its folder become relative to it, so that both can be
/// moved.
[[nodiscard]] std::string scenarios_text(const ScenarioFile& scenarios, const std::string& file);

/// Writes the file, whole or not at all. Throws InputError naming the file.
void write_scenario_file(const ScenarioFile& scenarios, const std::string& file);

}  // namespace zplan
