// `zplan compare`: pinned strategies, or the scenarios of a file, side by side.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/base/values.h"
#include "cli/commands/commands.h"
#include "cli/options/request.h"
#include "cli/options/strategy_words.h"
#include "cli/report/report.h"
#include "cli/report/scenario_report.h"
#include "models/base/json_reader.h"
#include "planner/plan/plan_figures.h"

namespace zplan {

namespace {

/// Holds the question that a word asks for.
struct Contestant {
  Question question;
  std::optional<PinnedStrategy> strategy;  ///< absent: a config
  std::vector<std::string> warnings;
};

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Against a saved report one strategy has itself to be compared with.
void check_count(std::size_t count, bool saved) {
  if (count < 2 && !saved)
    throw InputError("compare", count == 0 ? "no strategies" : "one strategy",
                     "accepted: two or more, such as zero3 zero3+offload-all");
}

void check_differences(const Options& options) {
  if (options.format != OutputFormat::csv && options.format != OutputFormat::json) return;
  for (const auto& [option, is_given] :
       {std::pair{"--differences", options.differences}, {"--slide", options.slide}})
    if (is_given)
      throw InputError(option, "together with output for programs", "accepted: with text or --markdown");
}

void check_options(const Options& options, bool saved) {
  check_differences(options);
  if (options.has("--order"))
    throw InputError("--order",
                     "does nothing between strategies on the same GPUs: the fastest is the cheapest",
                     "accepted: with a file of scenarios, and with zplan hardware compare");
  const bool another = !options.baseline.empty() && !contains(options.words, options.baseline);
  check_count(options.words.size() + (another ? 1 : 0), saved);
}

/// Lets the micro-batch follow from accumulation and global batch where only those two are given.
void settle_batch(const Options& options, const PinnedStrategy& strategy, SearchSpace& space) {
  const bool micro_batch = strategy.micro_batch_size || options.has("--micro-batch");
  const bool steps = strategy.gradient_accumulation_steps || options.has("--grad-accum");
  space.micro_batch_follows =
      options.has("--global-batch") && steps && !micro_batch && space.micro_batch_size.has_value();
}

Contestant pinned_contestant(const Question& question, const Options& options, const std::string& word) {
  Contestant one{
      .question = question, .strategy = parse_strategy(word, question.space.checkpointing), .warnings = {}};
  const PinnedStrategy& strategy = *one.strategy;
  one.question.space = pinned(question.space, strategy);
  settle_batch(options, strategy, one.question.space);
  one.question.training.method = strategy.method.value_or(question.training.method);
  one.question.training = with_framework(one.question.training, strategy.framework);
  return one;
}

/// Exactly this config; the options fill what it leaves open.
Contestant configured_contestant(const Question& question, const Options& options, const std::string& file) {
  Options with_file = options;
  with_file.command = Command::plan;
  with_file.ds_config = file;
  with_file.ds_config_text = read_file(file);
  if (is_report(parse_json(*with_file.ds_config_text, file)))
    throw InputError(file + "#/schema", "a report of zplan as a strategy",
                     fmt::format("accepted: a ds_config, or --baseline {}", file));
  Contestant one{.question = question, .strategy = {}, .warnings = {}};
  one.warnings = apply_ds_config(with_file, one.question);
  return one;
}

/// InputError with the reason where it cannot be trained.
void check_legal(const Question& question, const std::string& word) {
  const Candidates found = candidates(question);
  if (found.legal.empty() && !found.rejected.empty())
    throw InputError(fmt::format("strategy {}", in_quotes(word)),
                     fmt::format("{}", fmt::join(found.rejected.front().reasons, "; ")), "");
}

/// Returns the micro-batch times the data-parallel ranks of a strategy; nothing where it pins a batch of its
/// own or cannot be trained.
std::optional<std::int64_t> samples_of_micro_step(const Question& question, const Options& options,
                                                  const std::string& word) {
  const Contestant one = pinned_contestant(question, options, word);
  if (one.strategy->micro_batch_size || one.strategy->gradient_accumulation_steps) return std::nullopt;
  const Candidates found = candidates(one.question);
  if (found.legal.empty()) return std::nullopt;
  return found.legal.front().micro_batch_size * found.legal.front().layout.data_ranks();
}

/// Returns the samples of a step that all strategies can train alike, by accumulation; nothing where an
/// option, a strategy or a file says how large a step is.
std::optional<std::int64_t> common_batch(const Question& question, const Options& options,
                                         std::vector<std::string> words) {
  const SearchSpace& space = question.space;
  if (space.global_batch_size) return space.global_batch_size;
  if (space.gradient_accumulation_steps || !space.micro_batch_size) return std::nullopt;
  if (!options.baseline.empty()) words.push_back(options.baseline);
  std::int64_t common = 1;
  for (const std::string& word : words) {
    if (names_file(word)) return std::nullopt;
    const std::optional<std::int64_t> samples = samples_of_micro_step(question, options, word);
    if (!samples) return std::nullopt;
    common = std::lcm(common, *samples);
    if (common > kMostGlobalBatch) return std::nullopt;
  }
  return common;
}

Contestant contestant(const Question& question, const Options& options, const std::string& word) {
  Contestant one = names_file(word) ? configured_contestant(question, options, word)
                                    : pinned_contestant(question, options, word);
  choose_defaults(options, one.question);
  check_magnitude(one.question);
  check_legal(one.question, word);
  return one;
}

void name(Plan& plan, const Contestant& one, const Question& question, const std::string& word) {
  const std::string id = plan.id();
  const std::string full = one.strategy ? full_name(*one.strategy, id, question.space.checkpointing) : word;
  if (full != id) plan.name = full;
  if (one.question.training != question.training) plan.training = one.question.training;
}

void add_new(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  for (const std::string& line : more)
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
}

/// Plans what a word names and returns its id; whether it stands among the others is the caller's to say.
std::string add(Comparison& comparison, const Question& question, const Options& options,
                const std::string& word) {
  const Contestant asked = contestant(question, options, word);
  Answer one = answer(asked.question);
  Plan& plan = one.plans.front();
  name(plan, asked, question, word);
  std::string id = plan.id();
  if (contains(comparison.ids, id)) return id;
  Answer& all = comparison.answer;
  if (!all.alternative && one.alternative) {
    all.alternative = std::move(one.alternative);
    all.alternative->training = plan.training;
    all.alternative_change = std::move(one.alternative_change);
  }
  add_new(all.warnings, asked.warnings);
  add_new(all.warnings, one.warnings);
  all.plans.push_back(std::move(plan));
  return id;
}

/// The baseline's id; one that is not among the strategies is planned and comes first.
std::string add_baseline(Comparison& comparison, const Question& question, const Options& options) {
  if (options.baseline.empty()) return comparison.ids.front();
  std::string id = add(comparison, question, options, options.baseline);
  if (!contains(comparison.ids, id)) comparison.ids.insert(comparison.ids.begin(), id);
  return id;
}

std::optional<SavedReport> saved_baseline(const Options& options) {
  if (!names_file(options.baseline)) return std::nullopt;
  Json json = parse_json(read_file(options.baseline), options.baseline);
  if (!is_report(json)) return std::nullopt;
  return read_saved_report(std::move(json), options.baseline);
}

/// Without words the strategies of a saved report are planned again.
std::vector<std::string> words(const Options& options, const std::optional<SavedReport>& saved) {
  if (!options.words.empty() || !saved) return options.words;
  std::vector<std::string> ids;
  for (const Plan& plan : saved->plans) ids.push_back(plan.id());
  return ids;
}

Comparison compare(Question question, const Options& options) {
  Comparison result{.answer = {}, .ids = {}, .baseline = {}, .saved = saved_baseline(options)};
  check_options(options, result.saved.has_value());
  const std::vector<std::string> named = words(options, result.saved);
  if (!result.saved) question.space.global_batch_size = common_batch(question, options, named);
  for (const std::string& word : named) {
    std::string id = add(result, question, options, word);
    if (contains(result.ids, id))
      throw InputError(fmt::format("strategy {}", in_quotes(word)), "named twice", "accepted: each once");
    result.ids.push_back(std::move(id));
  }
  result.baseline = result.saved ? result.saved->file : add_baseline(result, question, options);
  check_count(result.ids.size(), result.saved.has_value());
  Answer& all = result.answer;
  std::stable_sort(all.plans.begin(), all.plans.end(), better_plan);
  if (all.fits()) all.alternative.reset(), all.alternative_change.clear();
  result.contest = contest(question, all.plans);
  return result;
}

/// Options that are accepted beside a file of scenarios; the file holds all others.
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

/// Returns the cost of the whole run. Throws InputError for a scenario without a price.
double money_of(const PlannedScenario& each) {
  const std::optional<RunCost> cost = run_cost(each.plan(), each.question);
  if (!cost || !cost->money)
    throw InputError("--order", fmt::format("cheapest, but {} has no cost", in_quotes(each.scenario.name)),
                     "accepted: where each scenario has --price, and --samples or --tokens");
  return *cost->money;
}

/// Sorts the scenarios, those that fit first. ListOrder::given leaves the file's order.
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

int compare_scenarios(const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
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

}  // namespace

int compare_command(const Invocation& invocation) {
  const Options& options = invocation.options;
  if (std::ranges::any_of(options.words, is_scenario_word)) return compare_scenarios(invocation);
  const Question question = make_request(options, invocation.environment).question;
  const Comparison result = compare(question, options);
  return write_report({question, result.answer, options, invocation.arguments, &result}, invocation);
}

}  // namespace zplan
