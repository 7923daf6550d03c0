#pragma once
// Scenarios: questions with names, kept in a file (zplan.scenarios/1, docs/scenarios.md) that the window
// writes and the command line reads.

#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

/// A question as it would be typed, with a name; or a report that was saved, shown as it was.
struct Scenario {
  std::string name;
  std::vector<std::string> arguments;  ///< options behind `zplan`: "--model", "8B", "--gpus", "5"
  std::string strategy{};              ///< id of the plan that stands for it; empty: the recommended one
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

/// What the names of such files end in.
inline constexpr std::string_view kScenarioEnding = ".zplan";

/// `arguments` with absolute paths where they name a file that is there: they hold wherever they are read
/// again.
[[nodiscard]] std::vector<std::string> with_absolute_paths(const std::vector<std::string>& arguments);

/// What a question is called that nobody named: "Qwen3-8B on 5 × 44 GiB", "70B, lora, on 16 × H100-SXM-80GB
/// in 2 nodes". Of the options as they stand there, so a question that cannot be planned has a name, too.
[[nodiscard]] std::string name_of_question(const std::vector<std::string>& arguments);

/// At most so many scenarios in a file.
inline constexpr std::size_t kMostScenarios = 200;

/// Whether a JSON document says that it is a file of scenarios, of whatever version.
[[nodiscard]] bool is_scenario_file(const Json& json);

/// Relative paths among the arguments, and of reports, are of the file's folder and come back absolute where
/// such a file is there. Throws InputError naming file and pointer.
[[nodiscard]] ScenarioFile read_scenarios(const Json& json, const std::string& file);

/// The same of the file itself.
[[nodiscard]] ScenarioFile read_scenario_file(const std::string& file);

/// The text of the file `file`: paths below its folder relative to it, so that both can be moved together.
[[nodiscard]] std::string scenarios_text(const ScenarioFile& scenarios, const std::string& file);

/// The whole file or what was there before. Throws InputError naming the file.
void write_scenario_file(const ScenarioFile& scenarios, const std::string& file);

}  // namespace zplan
