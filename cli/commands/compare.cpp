#include "cli/commands/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/ds_config_option.h"
#include "cli/options/request.h"
#include "cli/options/strategy_words.h"

namespace zplan {

namespace {

/// What a word asks for: one plan, and what to call it.
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

void check_options(const Options& options, bool saved) {
  check_differences(options);
  if (options.has("--order"))
    throw InputError("--order",
                     "does nothing between strategies on the same GPUs: the fastest is the cheapest",
                     "accepted: with a file of scenarios, and with zplan hardware compare");
  const bool another = !options.baseline.empty() && !contains(options.words, options.baseline);
  check_count(options.words.size() + (another ? 1 : 0), saved);
}

/// Of micro-batch, accumulation and global batch the one that nobody named follows from the others.
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

}  // namespace

Comparison compare(const Question& question, const Options& options) {
  Comparison result{.answer = {}, .ids = {}, .baseline = {}, .saved = saved_baseline(options)};
  check_options(options, result.saved.has_value());
  for (const std::string& word : words(options, result.saved)) {
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

void check_differences(const Options& options) {
  if (options.differences && (options.format == OutputFormat::csv || options.format == OutputFormat::json))
    throw InputError("--differences", "together with output for programs",
                     "accepted: with text or --markdown");
}

std::vector<Method> methods_named(const Options& options) {
  std::vector<std::string> all = options.words;
  if (!options.baseline.empty()) all.push_back(options.baseline);
  std::vector<Method> methods;
  for (const std::string& word : all) {
    if (options.command != Command::compare || names_file(word)) continue;
    const PinnedStrategy strategy = parse_strategy(word, Checkpointing::full);
    if (strategy.method) methods.push_back(*strategy.method);
  }
  return methods;
}

}  // namespace zplan
