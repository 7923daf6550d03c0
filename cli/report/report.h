#pragma once
// A report: a question, its answer and the options that were typed. Printed as JSON and CSV here, as a
// document in report_text.h; and the configs, launch lines and recipes that belong to a plan. Nothing here
// plans.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "cli/scenarios/saved_report.h"
#include "cli/scenarios/scenario_plan.h"
#include "cli/scenarios/trainer_reach.h"
#include "models/base/files.h"
#include "models/base/json_reader.h"
#include "planner/search/answer_details.h"
#include "planner/search/crossover.h"
#include "planner/search/search.h"

namespace zplan {

struct Advice;
struct Advised;
struct Exploration;

/// Holds the answer of `compare`: one plan for each strategy or config that was named.
struct Comparison {
  Answer answer;                     ///< plans that fit first, as in every report
  std::vector<std::string> ids;      ///< ids of the plans in the order of the command line
  std::string baseline;              ///< a plan's id, or the file of the saved report
  std::optional<SavedReport> saved;  ///< set where the baseline is a saved report
  std::optional<Contest> contest{};  ///< between the two fastest
};

/// Holds everything that a report is made from. The values that it refers to must outlive it.
struct Report {
  const Question& question;
  const Answer& answer;
  const Options& options;
  std::vector<std::string> arguments;   ///< as typed; the commands that a report suggests are made from them
  const Comparison* comparison{};       ///< set for `compare`
  const Exploration* found{};           ///< set for `search`: every family of plans that it looked at
  AnswerDetails details{};              ///< parts that are simulated on request
  const Advice* advice{};               ///< set for `plan` and `search`: what would train faster
  std::vector<TrainerReach> reaches{};  ///< set for `plan`: of --trainer, and of the trainer beside it
};
/// Returns the report that the command line makes of a scenario. `planned` must outlive it.
[[nodiscard]] Report report_of(const PlannedScenario& planned);

/// Returns the plans in the order of the report: best first, or that of the command line of `compare`.
[[nodiscard]] std::vector<const Plan*> plans_in_order(const Report& report);

/// Returns the plan that differences of `plan` are from: the baseline, or the plan of that id in the saved
/// report. Returns null where there is none.
[[nodiscard]] const Plan* baseline_of(const Plan& plan, const Report& report);

/// Returns the recommended plan or, where none fits, the one that misses by least.
[[nodiscard]] const Plan& leading_plan(const Report& report);

/// Returns the training of a plan: its own, else the question's with the defaults of the plan's framework.
[[nodiscard]] Training training_of(const Plan& plan, const Report& report);

/// Returns the question with the training of a plan.
[[nodiscard]] Question question_of(const Plan& plan, const Report& report);

/// Returns the number of parameters that are trained: under LoRA those of the adapters.
[[nodiscard]] Elements trainable_parameters(const Question& question);

/// Returns the launch line of each launcher, null where it cannot start the plan. "launcher" names the one of
/// next_line().
[[nodiscard]] Json launch_json(const Plan& plan, const Report& report);
/// Returns the command line that starts the plan, for the config that --config-style asks for.
[[nodiscard]] std::string next_line(const Plan& plan, const Report& report);
/// Returns the file that --emit names, else the usual name of such a config.
[[nodiscard]] std::string config_path(const Plan& plan, const Report& report);
/// Returns the text that --emit writes: a ds_config for DeepSpeed; for FSDP2 a config of accelerate, as JSON
/// where the file is named *.json, else as YAML; empty for plain PyTorch.
[[nodiscard]] std::string config_text(const Plan& plan, const Report& report);
/// Return the config as JSON, null where the plan's framework has no such config.
[[nodiscard]] Json ds_config_json(const Plan& plan, const Report& report);
[[nodiscard]] Json fsdp_config_json(const Plan& plan, const Report& report);
/// Returns settings that the config has no key for, one sentence each.
[[nodiscard]] std::vector<std::string> config_notes(const Plan& plan, const Report& report);

/// Returns sentences about the recipes: keys that set options, keys that are not planned, options left open.
[[nodiscard]] std::vector<std::string> recipe_lines(const Options& options);
/// Returns "recipes" of the JSON report.
[[nodiscard]] Json recipes_json(const std::vector<Recipe>& recipes);

/// Returns the commands that start the first recipe as it is planned, in its trainer's words, behind the one
/// that writes it where the plan changes it; none where the recipe does not say how it is started.
[[nodiscard]] std::vector<std::string> recipe_commands(const Report& report);

/// Writes the first recipe, changed to the recommended plan or the alternative, to the file of --recipe-out
/// (`-`: to `out`), and the config that it then names beside it. Reports on `err` what changed. Does nothing
/// without
/// --recipe-out.
void write_recipe(const Report& report, std::ostream& out, std::ostream& err);

/// Returns the report as zplan.report/1 (cli/schema/report.schema.json): bytes are integers, times seconds,
/// ratios fractions.
[[nodiscard]] Json report_json(const Report& report);
/// Returns the members "model", "cluster" and "training" of that report alone.
[[nodiscard]] Json asked_json(const Report& report);

/// Returns the members of a plan that do not depend on its question: strategy, memory, communication, time.
[[nodiscard]] Json plan_figures_json(const Plan& plan);
/// Returns the differences of a plan from `base`, in bytes, seconds or tokens per second; null where `base`
/// is null.
[[nodiscard]] Json deltas_json(const Plan& plan, const Plan* base);

/// Return the names and the values of a plan's fields in a line of CSV. With `compared` there follow the name
/// of the baseline and the differences, which add_csv_deltas() adds; they are empty where `base` is null.
[[nodiscard]] CsvRecord csv_names(bool compared);
[[nodiscard]] CsvRecord csv_fields(const Plan& plan);
void add_csv_deltas(CsvRecord& record, const Plan& plan, const Plan* base, const std::string& baseline);

}  // namespace zplan
