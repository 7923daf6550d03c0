#include "cli/oom_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>

#include "cli/command_line.h"
#include "cli/report_text.h"
#include "cli/request.h"
#include "cli/run.h"
#include "cli/table.h"
#include "models/base/version.h"
#include "planner/search/oom.h"

namespace zplan {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

// ---- input

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

/// The card is the message's where no option names one: what a process sees, and what the driver keeps.
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

// ---- what is reported

struct OomReport {
  std::vector<OomReading> readings;
  const Options& options;
  std::vector<std::string> arguments;
  std::optional<Question> question{};
  std::optional<OomReplay> replay{};
  std::optional<OomRemedies> remedies{};
  std::vector<std::string> warnings{};
};

void plan_it(OomReport& report, const Environment& environment) {
  const Options options = on_its_card(report.options, report.readings.front().message);
  Request request = make_request(options, environment);
  const Strategy ran = what_ran(options, request.question);
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

std::string heading(std::string_view text, const Style& style, Tone tone = Tone::strong) {
  return "\n" + style(tone, text) + "\n";
}

std::string items(const std::vector<std::string>& sentences, const Style& style) {
  std::string out;
  for (const std::string& each : sentences) out += paragraph("  - ", each, style.width);
  return out;
}

/// What helps whatever is trained, by cause.
std::vector<std::string> general_help(OomCause cause) {
  switch (cause) {
    case OomCause::limit: return {"raise or leave out torch.cuda.set_per_process_memory_fraction"};
    case OomCause::enough_free:
      return {"look for another process that came and went, and for what the system lets a process have"};
    case OomCause::other_processes:
      return {"nvidia-smi lists who holds the card: end what is left of earlier runs, or take another card"};
    case OomCause::fragmentation:
      return {
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (from torch 2.1 on; before: max_split_size_mb)",
          "batches of one length: each new length leaves blocks that fit no other"};
    case OomCause::beyond_card:
    case OomCause::large_block:
      return {
          "in the loss: a fused or chunked cross-entropy never has all logits; fewer tokens at a time make "
          "them smaller",
          "in attention: flash attention instead of eager scores (batch x heads x sequence x sequence)",
          "in the optimizer's first step: ZeRO, offload or an 8-bit optimizer"};
    case OomCause::full:
      return {
          "a smaller micro-batch, accumulated more often, or activation checkpointing: less for activations",
          "a higher ZeRO stage, offload, LoRA or more GPUs: less for parameters, gradients and optimizer "
          "states"};
  }
  return {};
}

// ---- text

std::string messages_text(const OomReport& report, const Style& style) {
  constexpr std::size_t kMost = 8;
  const OomReading& first = report.readings.front();
  std::string out = style(Tone::strong, fmt::format("Out of memory: {}", first.message.asked_text)) + "\n" +
                    items(first.sentences, style);
  if (report.readings.size() == 1) return out;
  out += heading(fmt::format("{} messages in all", report.readings.size()), style);
  for (std::size_t i = 1; i < std::min(report.readings.size(), kMost); ++i) {
    const OomReading& each = report.readings[i];
    out +=
        paragraph(fmt::format("  line {}  ", each.message.line),
                  fmt::format("{}; {}", each.sentences.front(), in_words(to_name(each.cause))), style.width);
  }
  return out;
}

std::string refused_sentence(const OomReport& report) {
  const OomReplay& replay = *report.replay;
  const ByteUnit unit = report.question->unit;
  const std::string pool = format_bytes(replay.pool, unit);
  if (replay.completes)
    return fmt::format(
        "played with {} for PyTorch's allocator the plan completes: what ran holds something that the plan "
        "does not count, or ran with other options",
        pool);
  const BlockRequest& refused = *replay.refused;
  const std::string where =
      refused.layer >= 0 ? fmt::format("{} {}", refused.at, refused.layer) : std::string(refused.at);
  return fmt::format("played with {} for PyTorch's allocator it ends in the {} ({}): {} for {}, with {} held",
                     pool, in_words(to_name(reported(refused.phase))), where,
                     format_bytes(refused.size, unit), info(refused.term).name,
                     format_bytes(refused.held, unit));
}

std::string matches_sentence(const OomReport& report) {
  constexpr std::size_t kMost = 4;
  const auto& matches = report.replay->matches;
  const std::string& asked = report.readings.front().message.asked_text;
  if (matches.empty())
    return fmt::format(
        "no block of the plan makes PyTorch ask for {}: another length or batch, or a buffer that is not "
        "planned",
        asked);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(matches.size(), kMost); ++i)
    words.push_back(fmt::format("{} ({}, {}, {} times in three steps)", info(matches[i].term).name,
                                format_bytes(matches[i].size, report.question->unit), matches[i].at,
                                matches[i].times));
  if (matches.size() > kMost) words.push_back(fmt::format("{} kinds more", matches.size() - kMost));
  return fmt::format("{} matches, within PyTorch's rounding: {}", asked, fmt::join(words, "; "));
}

std::string signed_percent(double ratio) {
  const std::string text = fmt::format("{:+.0f} %", (ratio - 1) * 100);
  return text == "-0 %" ? "+0 %" : text;
}

Table changes_table(const OomReport& report) {
  const Question& q = *report.question;
  const std::string unit = unit_name(q.unit);
  Table table{{{"change", "", false, kAlways},
               {"frees", unit, true, kAlways},
               {"needs", unit, true, 9},
               {"host", unit, true, 5},
               {"tok/s", "", true, 6},
               {"speed", "", true, 8},
               {"verdict", "", false, kAlways}},
              {}};
  const auto add = [&](const std::string& what, const Plan& plan, const std::string& frees,
                       const std::string& speed) {
    const Bytes host = plan.memory.host.total;
    table.rows.push_back({{what, frees, format_bytes_value(plan.memory.required, q.unit),
                           host.value > 0 ? format_bytes_value(host, q.unit) : "",
                           fmt::format("{:.0f}", plan.time.tokens_per_second), speed,
                           plan.fits          ? "fits"
                           : plan.fits_device ? "host"
                                              : "short"},
                          plan.fits ? Tone::good : Tone::plain});
  };
  add(fmt::format("as it ran: {}", report.remedies->plan.id()), report.remedies->plan, "", "");
  for (const OomChange& each : report.remedies->changes)
    if (each.plan)
      add(each.what, *each.plan, format_bytes_value(each.frees, q.unit), signed_percent(each.speed));
  return table;
}

std::string impossible_text(const OomReport& report, const Style& style) {
  std::string out;
  for (const OomChange& each : report.remedies->changes)
    if (!each.plan)
      out += paragraph("  ", fmt::format("{}: {}", each.what, fmt::join(each.illegal, "; ")), style.width);
  return out.empty() ? "" : heading("Not possible", style) + out;
}

/// "--micro-batch 1 --grad-accum 4" as changes of a command line.
Changes changes_of(const std::string& options) {
  Changes changes{{"--oom", ""}};
  std::size_t at = 0;
  while (at < options.size()) {
    const std::size_t end = std::min(options.find(' ', at), options.size());
    const std::string word = options.substr(at, end - at);
    if (word.starts_with("--"))
      changes.emplace_back(word, kFlagGiven);
    else
      changes.back().second = word;
    at = end + 1;
  }
  return changes;
}

std::string next_text(const OomReport& report, const Style& style) {
  const OomChange& best = report.remedies->changes.front();
  std::vector<std::string> arguments = with_options(report.arguments, changes_of(best.options));
  if (const auto at = std::find(arguments.begin(), arguments.end(), "fit"); at != arguments.end())
    arguments.erase(at);
  std::string out = heading("Next", style) + "  " + command_line(arguments) + "\n";
  if (!best.launch.empty()) out += paragraph("  - ", "when it is launched: " + best.launch, style.width);
  return out;
}

std::string planned_text(const OomReport& report, const Style& style) {
  const OomRemedies& remedies = *report.remedies;
  Answer shown;
  shown.plans.push_back(remedies.plan);
  shown.warnings = report.warnings;
  std::vector<std::string> sentences = remedies.plan.why;
  sentences.push_back(refused_sentence(report));
  sentences.push_back(matches_sentence(report));
  std::string out =
      "\n" + header_text({*report.question, shown, report.options, report.arguments, {}, {}}, style) +
      heading(fmt::format("The plan of {}", remedies.plan.id()), style) + items(sentences, style);
  out += heading("Changes: those that make it fit first, the fastest of them first", style) + "\n" +
         render_text(changes_table(report), style) + impossible_text(report, style);
  if (!remedies.any_fits()) return out + heading("None of these makes it fit", style, Tone::bad);
  return out + heading(fmt::format("What to change: {}", remedies.changes.front().what), style, Tone::good) +
         next_text(report, style);
}

std::string text_report(const OomReport& report, const Style& style) {
  std::string out = messages_text(report, style);
  if (report.remedies) return out + planned_text(report, style);
  out += heading("What helps", style) + items(general_help(report.readings.front().cause), style);
  return out + heading("Next", style) + "  " +
         command_line(
             with_options(report.arguments, {{"--model", "NAME"}, {"--gpus", "N"}, {"--zero", "STAGE"}})) +
         "\n";
}

// ---- for programs

Json bytes_json(const std::optional<Bytes>& size) { return size ? Json(size->value) : Json(nullptr); }

template <class T>
Json number_json(const std::optional<T>& number) {
  return number ? Json(*number) : Json(nullptr);
}

Json reading_json(const OomReading& reading) {
  const OomMessage& m = reading.message;
  return {{"line", m.line},
          {"device", m.device},
          {"gpu", number_json(m.gpu)},
          {"rank", number_json(m.rank)},
          {"asked", m.asked.value},
          {"asked_text", m.asked_text},
          {"capacity", bytes_json(m.capacity)},
          {"free", bytes_json(m.free)},
          {"allowed", bytes_json(m.allowed)},
          {"allocated", bytes_json(m.allocated)},
          {"unallocated", bytes_json(m.unallocated)},
          {"private_pools", bytes_json(m.private_pools)},
          {"process", bytes_json(m.process)},
          {"outside_pytorch", bytes_json(reading.outside)},
          {"other_processes", bytes_json(reading.others)},
          {"cause", std::string(to_name(reading.cause))},
          {"sentences", reading.sentences}};
}

Json change_json(const OomChange& change) {
  Json out{{"change", change.what},
           {"options", change.options},
           {"launch", change.launch},
           {"fits", change.fits()},
           {"illegal", change.illegal}};
  if (!change.plan) return out;
  out["strategy"] = change.plan->id();
  out["frees"] = change.frees.value, out["required"] = change.plan->memory.required.value;
  out["host"] = change.plan->memory.host.total.value;
  out["tokens_per_second"] = change.plan->time.tokens_per_second, out["speed"] = change.speed;
  return out;
}

Json replay_json(const OomReport& report) {
  if (!report.replay) return nullptr;
  const OomReplay& replay = *report.replay;
  Json matches = Json::array();
  for (const OomMatch& each : replay.matches)
    matches.push_back({{"term", std::string(info(each.term).name)},
                       {"phase", std::string(to_name(each.phase))},
                       {"at", std::string(each.at)},
                       {"times", each.times},
                       {"bytes", each.size.value}});
  Json out{{"pool", replay.pool.value},
           {"completes", replay.completes},
           {"refused", nullptr},
           {"matches", std::move(matches)}};
  if (replay.refused)
    out["refused"] = {{"term", std::string(info(replay.refused->term).name)},
                      {"phase", std::string(to_name(replay.refused->phase))},
                      {"at", std::string(replay.refused->at)},
                      {"layer", replay.refused->layer},
                      {"bytes", replay.refused->size.value},
                      {"held", replay.refused->held.value}};
  return out;
}

Json json_report(const OomReport& report) {
  Json messages = Json::array(), changes = Json::array();
  for (const OomReading& each : report.readings) messages.push_back(reading_json(each));
  Json plan = nullptr;
  if (report.remedies) {
    const Plan& ran = report.remedies->plan;
    for (const OomChange& each : report.remedies->changes) changes.push_back(change_json(each));
    plan = {{"strategy", ran.id()},
            {"fits", ran.fits},
            {"required", ran.memory.required.value},
            {"available", available(report.question->cluster, report.question->headroom).value},
            {"tokens_per_second", ran.time.tokens_per_second},
            {"why", ran.why}};
  }
  return {{"schema", "zplan.fit/1"},
          {"zplan_version", std::string(version())},
          {"oom",
           {{"messages", std::move(messages)},
            {"plan", std::move(plan)},
            {"replay", replay_json(report)},
            {"changes", std::move(changes)}}},
          {"warnings", report.warnings}};
}

std::string csv_report(const OomReport& report) {
  if (!report.remedies)
    throw InputError("--csv", "without --model there is no table", "accepted: text, --json, or with --model");
  std::string out =
      "change,options,strategy,fits,frees_bytes,required_bytes,host_bytes,tokens_per_second,speed\n";
  for (const OomChange& each : report.remedies->changes) {
    if (!each.plan) continue;
    out += fmt::format("{},{},{},{},{},{},{},{:.6g},{:.4g}\n", csv_field(each.what), csv_field(each.options),
                       each.plan->id(), each.fits(), each.frees.value, each.plan->memory.required.value,
                       each.plan->memory.host.total.value, each.plan->time.tokens_per_second, each.speed);
  }
  return out;
}

std::string in_format(const OomReport& report, const Style& style) {
  switch (report.options.format) {
    case OutputFormat::text: return text_report(report, style);
    case OutputFormat::json:
      return json_report(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    case OutputFormat::csv: return csv_report(report);
    case OutputFormat::markdown:
      if (!report.remedies)
        throw InputError("--markdown", "without --model there is no table",
                         "accepted: text, --json, or with --model");
      return render_markdown(changes_table(report));
  }
  return "";
}

}  // namespace

int oom_command(const Options& options, const std::vector<std::string>& arguments,
                const Environment& environment, const Style& style, std::ostream& out) {
  check_options(options);
  OomReport report{.readings = readings_of(options), .options = options, .arguments = arguments};
  if (options.has("--model")) plan_it(report, environment);
  out << in_format(report, style);
  return !report.remedies || report.remedies->any_fits() ? kFits : kNothingFits;
}

}  // namespace zplan
