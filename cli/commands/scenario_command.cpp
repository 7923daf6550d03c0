#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/compare.h"
#include "cli/options/values.h"
#include "cli/report/scenario_report.h"
#include "cli/run.h"
#include "models/base/json_reader.h"
#include "planner/plan/plan_figures.h"

namespace zplan {

namespace {

/// What may stand beside a file of scenarios: the rest is in the file.
constexpr std::array<std::string_view, 9> kBeside{"--baseline", "--differences", "--order",
                                                  "--json",     "--csv",         "--markdown",
                                                  "--explain",  "--no-color",    "--units"};

bool is_scenario_word(const std::string& word) { return word.ends_with(kScenarioEnding); }

void check_beside(const Options& options) {
  if (options.words.size() > 1)
    throw InputError(in_quotes(*std::find_if(options.words.begin(), options.words.end(), is_scenario_word)),
                     "a file of scenarios beside other words", "accepted: zplan compare FILE.zplan");
  for (const std::string& option : options.given)
    if (std::find(kBeside.begin(), kBeside.end(), option) == kBeside.end())
      throw InputError(
          option, "beside a file of scenarios, which says what is planned",
          "accepted: --baseline, --differences, --order, --explain, --units, --json, --csv, --markdown");
  check_differences(options);
}

std::string place_of(const std::string& file, std::size_t index) {
  return fmt::format("{}#/scenarios/{}", file, index);
}

PlannedScenario planned_at(const Scenario& scenario, const std::string& place,
                           const Environment& environment) {
  try {
    return planned_scenario(scenario, environment);
  } catch (const InputError& error) {
    throw InputError(place + (scenario.report.empty() ? "/arguments" : "/report"),
                     fmt::format("{}: {}", error.place(), error.found()), error.accepted());
  }
}

void say_what_stands_in(const PlannedScenario& planned, const std::string& place, std::ostream& err) {
  const std::string& wanted = planned.scenario.strategy;
  if (!wanted.empty() && planned.plan().id() != wanted)
    err << fmt::format("zplan: {}/strategy: no plan is called {}: {} stands for it\n", place,
                       in_quotes(wanted), planned.plan().id());
}

/// The index among those that are compared.
std::size_t baseline_named(const std::string& name, const ScenarioComparison& all) {
  std::vector<std::string> names;
  for (const PlannedScenario& each : all.scenarios) names.push_back(each.scenario.name);
  const auto count = std::count(names.begin(), names.end(), name);
  if (count > 1)
    throw InputError("--baseline", fmt::format("{} scenarios are called {}", count, in_quotes(name)),
                     "accepted: a name that one has");
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    throw InputError("--baseline", in_quotes(name) + ", which is none of the scenarios that are compared",
                     accepted_words(name, names));
  return static_cast<std::size_t>(at - names.begin());
}

/// Of the whole run. Throws InputError where a scenario does not say what it costs.
double money_of(const PlannedScenario& each) {
  const std::optional<RunCost> cost = run_cost(each.plan(), each.question);
  if (!cost || !cost->money)
    throw InputError("--order", fmt::format("cheapest, but {} has no cost", in_quotes(each.scenario.name)),
                     "accepted: where each scenario has --price, and --samples or --tokens");
  return *cost->money;
}

/// What fits first; nothing moves in the file's order.
void sort_by(ListOrder order, ScenarioComparison& all) {
  if (order == ListOrder::given) return;
  std::vector<std::tuple<bool, double, std::size_t>> places;
  for (std::size_t i = 0; i < all.scenarios.size(); ++i) {
    const PlannedScenario& each = all.scenarios[i];
    places.emplace_back(!each.plan().fits,
                        order == ListOrder::fastest ? -each.plan().time.tokens_per_second : money_of(each),
                        i);
  }
  std::sort(places.begin(), places.end());
  const std::vector<PlannedScenario> given = std::exchange(all.scenarios, {});
  const std::vector<std::size_t> of_file = std::exchange(all.places, {});
  const std::size_t baseline = all.baseline;
  for (const auto& [misses, figure, from] : places) {
    if (from == baseline) all.baseline = all.scenarios.size();
    all.scenarios.push_back(given[from]), all.places.push_back(of_file[from]);
  }
}

ScenarioComparison planned_file(const ScenarioFile& file, const Options& options,
                                const Environment& environment) {
  ScenarioComparison all{.file = options.words.front(), .scenarios = {}};
  for (std::size_t i = 0; i < file.scenarios.size(); ++i) {
    if (!file.scenarios[i].compared) continue;
    if (file.baseline == i) all.baseline = all.scenarios.size();
    all.scenarios.push_back(planned_at(file.scenarios[i], place_of(all.file, i), environment));
    all.places.push_back(i);
  }
  if (all.scenarios.empty())
    throw InputError(all.file + "#/scenarios", "none that is compared", "accepted: at least one");
  return all;
}

}  // namespace

bool names_scenarios(const Options& options) {
  return std::any_of(options.words.begin(), options.words.end(), is_scenario_word);
}

int scenario_command(const Options& options, const Environment& environment, const Style& style,
                     std::ostream& out, std::ostream& err) {
  check_beside(options);
  const std::string& name = options.words.front();
  const ScenarioFile file = read_scenario_file(name);
  ScenarioComparison all = planned_file(file, options, environment);
  if (options.has("--baseline")) all.baseline = baseline_named(options.baseline, all);
  sort_by(options.order, all);
  all.differences = file.differences || options.differences;
  all.explain = options.explain;
  all.unit = options.has("--units") ? options.unit : all.scenarios[all.baseline].question.unit;
  for (std::size_t i = 0; i < all.scenarios.size(); ++i)
    say_what_stands_in(all.scenarios[i], place_of(name, all.places[i]), err);
  if (options.format == OutputFormat::json)
    for (PlannedScenario& each : all.scenarios)
      if (!each.saved) each.details = details_for(each.question, each.answer, options.format);
  out << (options.format == OutputFormat::json
              ? json_text(scenario_json(all))
              : in_format(scenario_document(all, style.width), options.format, style));
  const auto fits = [](const PlannedScenario& each) { return each.plan().fits; };
  return std::all_of(all.scenarios.begin(), all.scenarios.end(), fits) ? kFits : kNothingFits;
}

}  // namespace zplan
