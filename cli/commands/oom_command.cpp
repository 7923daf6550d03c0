#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options/request.h"
#include "cli/report/fit_report.h"
#include "cli/run.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

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
    throw InputError(
        "--oom",
        text == options.oom ? in_quotes(text) + ", no message and no file"
                            : "no message in " + in_quotes(options.oom),
        "looked for: \"CUDA out of memory. Tried to allocate 2.00 GiB\" (or HIP, XPU), as PyTorch prints it");
  return readings;
}

void check_options(const Options& options) {
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

/// What ran: no tensor parallelism and no offload unless they are given, and one stage.
Strategy what_ran(const Options& options, Question& q) {
  SearchSpace& space = q.space;
  if (!space.micro_batch_size)
    throw InputError("--micro-batch", "max with --oom", "accepted: the size that ran");
  if (space.tensor_parallel.empty()) space.tensor_parallel = {1};
  if (space.offloads.empty()) space.offloads = {Offload{}};
  const Candidates found = space.zero_stages.size() == 1 ? candidates(q) : Candidates{};
  if (found.legal.size() == 1) return found.legal.front();
  if (!found.rejected.empty() && found.legal.empty())
    throw InputError("--zero, --tp, --offload", "this cannot have run",
                     fmt::format("{}", fmt::join(found.rejected.front().reasons, "; ")));
  throw InputError(options.has("--zero") ? "--zero, --tp, --offload" : "--zero",
                   options.has("--zero") ? "several strategies" : "missing",
                   "needed with --oom: the one that ran, such as --zero 2");
}

void plan_it(OomReport& report, const Environment& environment) {
  const Options options = on_its_card(report.options, report.readings.front().message);
  Request request = make_request(options, environment);
  const Strategy ran = what_ran(options, request.question);
  const OomReading& reading = report.readings.front();
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
  report.replay = replay_oom(request.question, ran, report.readings.front());
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

}  // namespace

int oom_command(const Options& options, const std::vector<std::string>& arguments,
                const Environment& environment, const Style& style, std::ostream& out) {
  check_options(options);
  OomReport report{.readings = readings_of(options), .options = options, .arguments = arguments};
  if (options.has("--model")) plan_it(report, environment);
  out << report_in_format(report, style);
  return !report.remedies || report.remedies->any_fits() ? kFits : kNothingFits;
}

}  // namespace zplan
