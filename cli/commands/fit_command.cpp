#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options/request.h"
#include "cli/report/fit_report.h"
#include "cli/run.h"
#include "cli/scenarios/scenario_plan.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

constexpr std::size_t kMostModels = 8;

/// The option that would give what is asked for.
std::string_view option_of(Solve solve) {
  switch (solve) {
    case Solve::micro_batch: return "--micro-batch";
    case Solve::sequence: return "--seq";
    case Solve::gpus: return "--gpus";
    case Solve::model: return "--model";
    case Solve::memory: return "--mem";
    case Solve::host_memory: return "--host-mem";
  }
  return "";
}

/// What is asked for cannot be given too; GPUs can, since they say how many a node holds.
void check_left_open(const Options& options) {
  if (options.has("--micro-batch") && !options.space.micro_batch_size)
    throw InputError("--micro-batch", "max with fit", "accepted: a number, or --solve micro-batch");
  if (!options.solve || *options.solve == Solve::gpus) return;
  const std::string option(option_of(*options.solve));
  if (options.has(option))
    throw InputError(option, fmt::format("is what --solve {} asks for", to_name(*options.solve)),
                     "accepted: leave one of the two out");
  if (*options.solve == Solve::model && options.has("--ds-config"))
    throw InputError("--ds-config", "together with --solve model: its sizes are of one model",
                     "accepted: --zero, --offload, --buckets");
}

std::vector<Solve> questions(const Options& options) {
  if (options.solve) return {*options.solve};
  if (!options.has("--model")) return {Solve::model};
  std::vector<Solve> open;
  for (const Solve each :
       {Solve::micro_batch, Solve::sequence, Solve::gpus, Solve::memory, Solve::host_memory}) {
    const bool card = each == Solve::memory && (options.has("--gpu") || options.has("--instance"));
    if (!options.has(option_of(each)) && !card) open.push_back(each);
  }
  if (open.empty())
    throw InputError("fit", "nothing is left open",
                     "accepted: leave out one of --micro-batch, --seq, --gpus, --mem, --host-mem");
  return open;
}

/// A model stands in where the largest is asked for; question_at puts others in its place.
Options with_stand_in(Options options) {
  const bool asks_model = options.solve ? *options.solve == Solve::model : !options.has("--model");
  if (asks_model) options.model = "100M", options.given.emplace_back("--model");
  return options;
}

OpenQuestion open_question(const Options& options, const Question& question,
                           const HardwareProfiles& hardware) {
  return {.question = question,
          .cluster = options.cluster,
          .hardware = &hardware,
          .model_of_size = infer_model,
          .attention_given = options.has("--attention")};
}

/// Those that were made for sequences as long as these.
std::vector<Model> models_for(std::int64_t sequence) {
  std::vector<Model> models;
  for (const CatalogueEntry& each : catalogue()) {
    Model model = catalogue_model(each);
    if (model.shape.max_positions == 0 || model.shape.max_positions >= sequence)
      models.push_back(std::move(model));
  }
  return models;
}

/// `cards`: of the GPUs that would do, how many are planned.
SolvedQuestion solved(const OpenQuestion& open, Solve asked, std::size_t cards) {
  SolvedQuestion out{.inverse = solve(open, asked),
                     .at = open.question,
                     .cards = {},
                     .models = {},
                     .ladder = {},
                     .instead = {}};
  const Solution& first = out.inverse.solutions.front();
  out.at = question_at(open, asked, first.value.value_or(first.next.value_or(1)));
  if (!first.value) out.instead = answer(out.at);
  if (first.value && asked == Solve::memory) out.cards = cards_that_fit(open, kGiB * *first.value, cards);
  if (asked == Solve::model)
    out.models = largest_models(open, models_for(open.question.training.sequence_length), kMostModels);
  return out;
}

/// Of several questions one that no strategy can be asked is left out.
bool can_be_asked(const OpenQuestion& open, Solve asked) {
  if (asked != Solve::host_memory) return true;
  const Candidates found = candidates(open.question);
  return std::any_of(found.legal.begin(), found.legal.end(), [](const Strategy& s) { return offloads(s); });
}

}  // namespace

int fit_command(const Options& options, const std::vector<std::string>& arguments,
                const Environment& environment, const Style& style, std::ostream& out) {
  if (!options.oom.empty()) return oom_command(options, arguments, environment, style, out);
  check_left_open(options);
  const std::vector<Solve> asked = questions(options);
  const Request request = make_request(with_stand_in(options), environment);
  const HardwareProfiles hardware = with_user_profiles(user_hardware_folder(environment));
  const OpenQuestion open = open_question(options, request.question, hardware);
  FitReport report{.question = request.question,
                   .solved = {},
                   .options = options,
                   .arguments = arguments,
                   .warnings = request.warnings};
  // Text shows a few of the GPUs that would do, JSON all of them.
  const bool all_cards = options.format == OutputFormat::json;
  for (const Solve each : asked)
    if (asked.size() == 1 || can_be_asked(open, each))
      report.solved.push_back(
          solved(open, each, all_cards ? std::numeric_limits<std::size_t>::max() : kMostCards));
  if (options.format == OutputFormat::text)
    for (SolvedQuestion& each : report.solved)
      if (each.instead) each.details = details_for(each.at, *each.instead, options.format);
  if (options.solve == Solve::sequence) report.solved.front().ladder = sequence_ladder(open);
  out << (options.format == OutputFormat::json ? json_text(fit_json(report))
                                               : in_format(fit_document(report), options.format, style));
  return has_answer(report) ? kFits : kNothingFits;
}

}  // namespace zplan
