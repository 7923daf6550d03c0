// `zplan fit`: the inverse questions, and what an out-of-memory message means.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options/open_levers.h"
#include "cli/options/request.h"
#include "cli/report/fit_report.h"
#include "cli/scenarios/scenario_plan.h"
#include "models/base/json_reader.h"
#include "planner/question/framework.h"

namespace zplan {

namespace {

constexpr std::size_t kMostModels = 8;

/// Returns the option that gives the value which `solve` looks for.
std::string_view option_of(Solve solve) {
  switch (solve) {
    case Solve::micro_batch: return "--micro-batch";
    case Solve::sequence: return "--seq";
    case Solve::gpus: return "--gpus";
    case Solve::model: return "--model";
    case Solve::memory: return "--mem";
    case Solve::host_memory: return "--host-mem";
    case Solve::vllm_memory: return "--vllm-memory";
  }
  return "";
}

/// Throws InputError where the value to solve for is given. GPUs may be: they say how many a node holds.
void check_left_open(const Options& options) {
  if (options.has("--micro-batch") && !options.space.micro_batch_size)
    throw InputError("--micro-batch", "max with fit", "accepted: a number, or --solve micro-batch");
  if (!options.solve || *options.solve == Solve::gpus) return;
  const bool colocated = options.training.objective == Objective::grpo &&
                         options.training.rollout.engine == RolloutEngine::colocate;
  if (*options.solve == Solve::vllm_memory && !colocated)
    throw InputError("--solve", "vllm-memory without vLLM on the training GPUs",
                     "accepted: with --objective grpo and --rollout colocate");
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

/// Sets a placeholder model where the largest model is asked for; question_at replaces it.
Options with_stand_in(Options options) {
  const bool asks_model = options.solve ? *options.solve == Solve::model : !options.has("--model");
  if (asks_model) options.model = "100M", options.given.emplace_back("--model");
  if (options.solve == Solve::vllm_memory) options.training.rollout.engine_share = 1;
  return options;
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
  if (first.value && asked == Solve::vllm_memory) out.shares = engine_shares(out.at, first.plan.strategy);
  if (!first.value) out.instead = answer(out.at);
  if (first.value && asked == Solve::memory) out.cards = cards_that_fit(open, kGiB * *first.value, cards);
  if (asked == Solve::model)
    out.models = largest_models(open, models_for(open.question.training.sequence_length), kMostModels);
  return out;
}

/// True if some strategy can answer the question; only those that offload need host memory.
bool can_be_asked(const OpenQuestion& open, Solve asked) {
  if (asked != Solve::host_memory) return true;
  const Candidates found = candidates(open.question);
  return std::any_of(found.legal.begin(), found.legal.end(), [](const Strategy& s) { return offloads(s); });
}

std::string text_of(const std::string& given) {
  std::error_code ignored;
  if (given == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (given.size() < 4096 && std::filesystem::exists(given, ignored)) return read_file(given);
  return given;
}

std::vector<OomReading> readings_of(const Options& options) {
  const std::string text = text_of(options.oom);
  std::vector<OomReading> readings;
  for (const OomMessage& each : read_oom_messages(text)) readings.push_back(read_oom(each, options.unit));
  if (readings.empty())
    throw InputError("--oom",
                     text == options.oom ? in_quotes(text) + ", no message and no file"
                                         : "no message in " + in_quotes(options.oom),
                     "looked for: \"CUDA out of memory. Tried to allocate 2.00 GiB\" (or HIP, XPU), as "
                     "PyTorch prints it; what "
                     "NCCL, vLLM or the system print when memory ends");
  return readings;
}

void check_oom_options(const Options& options) {
  if (options.solve) throw InputError("--solve", "together with --oom", "accepted: one of the two");
  if (options.has("--model")) return;
  for (const OptionSpec& spec : option_table())
    if (options.has(spec.name) && spec.group != "Output" && spec.name != "--oom")
      throw InputError(std::string(spec.name), "does nothing without --model",
                       "accepted: with --model and the options of the run that failed");
}

/// The GPU is the message's where no option names one: what a process sees, and what the driver keeps.
Options on_its_card(Options options, const OomMessage& message) {
  if (options.has("--mem") || options.has("--gpu") || !message.capacity) return options;
  options.cluster.memory = *message.capacity + find_gpu(built_in_profiles(), "generic").driver_reserved;
  return options;
}

/// Returns the strategy that ran: one stage, and without tensor parallelism or offload unless they are given.
Strategy what_ran(const Options& options, Question& q) {
  SearchSpace& space = q.space;
  if (!space.micro_batch_size)
    throw InputError("--micro-batch", "max with --oom", "accepted: the size that ran");
  if (space.tensor_parallel.empty()) space.tensor_parallel = {1};
  if (space.offloads.empty()) space.offloads = {Offload{}};
  const bool has_one_stage = space.zero_stages.size() == 1 || spec(q.training.framework).stages.size() == 1;
  const Candidates found = has_one_stage ? candidates(q) : Candidates{};
  if (found.legal.size() == 1) return found.legal.front();
  if (!found.rejected.empty() && found.legal.empty())
    throw InputError("--zero, --tp, --offload", "this cannot have run",
                     fmt::format("{}", fmt::join(found.rejected.front().reasons, "; ")));
  throw InputError(
      options.has("--zero") ? "--zero, --tp, --offload" : "--zero",
      options.has("--zero") ? "several strategies" : "missing",
      "needed with --oom: the one that ran, such as --zero 2; or --framework torch, where none did");
}

void plan_it(OomReport& report, const Environment& environment) {
  const Options options = on_its_card(report.options, report.readings.front().message);
  Request request = make_request(options, environment);
  const Strategy ran = what_ran(options, request.question);
  OomReading& reading = report.readings.front();
  if (reading.message.source == OomSource::pytorch && !reading.message.capacity) {
    reading.message.capacity = request.question.cluster.usable_memory;
    reading = read_oom(OomMessage(reading.message), options.unit);
  }
  if (const Bytes taken = taken_by_others(reading, request.question.cluster.usable_memory); taken.value > 0) {
    request.question.cluster.usable_memory -= taken;
    request.warnings.push_back(
        fmt::format("{} of the GPU are taken as gone: other processes hold them, or a limit does",
                    format_bytes(taken, options.unit)));
  }
  const HardwareProfiles hardware = with_user_profiles(user_hardware_folder(environment));
  const OpenQuestion open{.question = request.question,
                          .cluster = options.cluster,
                          .hardware = &hardware,
                          .model_of_size = {},
                          .attention_given = options.has("--attention")};
  if (reading.message.source == OomSource::pytorch) {
    report.replay = replay_oom(request.question, ran, reading);
    report.causes = explain_oom(open, ran, reading);
  }
  report.remedies = oom_remedies(open, ran);
  report.warnings = request.warnings;
  report.question = std::move(request.question);
}

std::string report_in_format(const OomReport& report, const Style& style) {
  const OutputFormat format = report.options.format;
  if (format == OutputFormat::json) return json_text(oom_json(report));
  if (format != OutputFormat::text && !report.remedies)
    throw InputError(format == OutputFormat::csv ? "--csv" : "--markdown",
                     "without --model there is no table", "accepted: text, --json, or with --model");
  return in_format(oom_document(report), format, style);
}

int oom_command(const Invocation& invocation) {
  const Options& options = invocation.options;
  check_oom_options(options);
  OomReport report{.readings = readings_of(options), .options = options, .arguments = invocation.arguments};
  if (options.has("--model")) plan_it(report, invocation.environment);
  invocation.out << report_in_format(report, invocation.style);
  return !report.remedies || report.remedies->any_fits() ? kFits : kNothingFits;
}

int deadline_command(const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
  if (options.solve) throw InputError("--solve", "together with --within", "accepted: one of the two");
  if (options.format == OutputFormat::csv)
    throw InputError("--csv", "together with --within", "accepted: text, --json, --markdown");
  const Request request = make_request(options, environment);
  const HardwareProfiles hardware = with_user_profiles(user_hardware_folder(environment));
  const OpenQuestion open = open_question(options, request.question, hardware);
  const std::int64_t most = options.has("--gpus") ? request.question.cluster.gpus : kMostSolvedGpus;
  const DeadlineReport report{
      .question = request.question,
      .deadline = solve_deadline(open, search_scope(options, request.question.space), *options.within, most),
      .options = options,
      .arguments = arguments,
      .warnings = request.warnings};
  out << (options.format == OutputFormat::json ? json_text(deadline_json(report))
                                               : in_format(deadline_document(report), options.format, style));
  return report.deadline.fewest ? kFits : kNothingFits;
}

}  // namespace

int fit_command(const Invocation& invocation) {
  if (!invocation.options.oom.empty()) return oom_command(invocation);
  if (invocation.options.within) return deadline_command(invocation);
  const auto& [options, arguments, environment, style, out, err] = invocation;
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
  if (options.solve == Solve::sequence) {
    SolvedQuestion& only = report.solved.front();
    only.ladder = sequence_ladder(open);
    only.lengths = length_rows(open, only.ladder);
  }
  if (options.format == OutputFormat::json)
    out << json_text(fit_json(report));
  else if (options.format == OutputFormat::text && !options.verbose)
    out << text_of(brief_fit_document(report, {.width = style.width, .unicode = environment.unicode}), style);
  else
    out << in_format(fit_document(report), options.format, style);
  return has_answer(report) ? kFits : kNothingFits;
}

}  // namespace zplan
