// The answers of `zplan fit --oom`, as a document and as JSON.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/document/json_values.h"
#include "cli/options/command_line.h"
#include "cli/report/fit_report.h"
#include "cli/report/report_text.h"
#include "models/base/version.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

/// Returns advice by cause that holds for any model.
std::vector<std::string> general_help(OomCause cause) {
  switch (cause) {
    case OomCause::limit: return {"raise or leave out torch.cuda.set_per_process_memory_fraction"};
    case OomCause::enough_free:
      return {"look for another process that came and went, and for what the system lets a process have"};
    case OomCause::other_processes:
      return {"nvidia-smi lists who holds the GPU: end processes of earlier runs, or use another GPU"};
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
    case OomCause::unsaid:
      return {
          "a smaller micro-batch, activation checkpointing, or a fused loss: less for activations and logits",
          "a higher ZeRO stage, offload, LoRA or more GPUs: less for parameters, gradients and optimizer "
          "states"};
    case OomCause::cuda:
      return {
          "leave PyTorch less: torch.cuda.set_per_process_memory_fraction(0.95), a smaller micro-batch",
          "pin_memory: false in offload_optimizer and offload_param, if the host is short of memory that may "
          "be pinned"};
    case OomCause::nccl:
      return {
          "leave some GiB outside PyTorch: a smaller micro-batch, "
          "torch.cuda.set_per_process_memory_fraction(0.95)",
          "smaller buffers: NCCL_BUFFSIZE=1048576, NCCL_MAX_NCHANNELS=4, NCCL_NVLS_ENABLE=0",
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which gives back what is cached in pieces"};
    case OomCause::engine:
      return {"a smaller share: vllm_gpu_memory_utilization 0.3 to 0.5 beside training on one GPU",
              "nvidia-smi lists who holds the GPU: end processes of earlier runs"};
    case OomCause::cache:
      return {"shorter sequences: vllm_max_model_length (max_model_len) of prompt and completion alone",
              "a larger share: gpu_memory_utilization, as far as training leaves room",
              "vllm_tensor_parallel_size: the engine's weights over more GPUs"};
    case OomCause::sleep:
      return {
          "a smaller share: vllm_gpu_memory_utilization",
          "optimizer states and parameters on the host while the engine generates (--offload), or a smaller "
          "micro-batch",
          "the engine on GPUs of its own (vllm_mode server)"};
    case OomCause::host:
      return {
          "offload less: optimizer states alone, or nothing; parameters and pinned buffers take host memory",
          "fewer workers and prefetched batches of the data loader; each process loads the checkpoint once",
          "a larger limit of the container or job (--shm-size, --mem), or more host memory per node"};
    default: break;  // differences from a plan say it themselves
  }
  return {};
}

void add_messages(Document& doc, const OomReport& report) {
  constexpr std::size_t kMost = 8;
  const OomReading& first = report.readings.front();
  doc.line(fmt::format("Out of memory: {}", first.message.asked_text), Tone::strong);
  doc.items(first.sentences);
  if (report.readings.size() == 1) return;
  doc.heading(fmt::format("{} messages in all", report.readings.size()));
  for (std::size_t i = 1; i < std::min(report.readings.size(), kMost); ++i) {
    const OomReading& each = report.readings[i];
    doc.paragraph(fmt::format("  line {}  ", each.message.line),
                  fmt::format("{}; {}", each.sentences.front(), in_words(to_name(each.cause))));
  }
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

/// Returns the host memory of the plan as a sentence, for a message of the host and not of PyTorch.
std::string host_sentence(const OomReport& report) {
  const Question& q = *report.question;
  return fmt::format("the plan holds {} of host memory per node, of {} that there are (--host-mem)",
                     format_bytes(report.remedies->plan.memory().host.total, q.unit),
                     format_bytes(q.cluster.host_memory_per_node, q.unit));
}

std::string signed_percent(double ratio) {
  const std::string text = fmt::format("{:+.0f} %", (ratio - 1) * 100);
  return text == "-0 %" ? "+0 %" : text;
}

void add_impossible(Document& doc, const OomReport& report) {
  bool any = false;
  for (const OomChange& each : report.remedies->changes) {
    if (each.plan) continue;
    if (!std::exchange(any, true)) doc.heading("Not possible");
    doc.paragraph("  ", fmt::format("{}: {}", each.what, fmt::join(each.illegal, "; ")));
  }
}

void add_next(Document& doc, const OomReport& report) {
  const OomChange& best = report.remedies->changes.front();
  OptionChanges changes = typed_options(best.options);
  changes.emplace_back("--oom", "");
  doc.heading("Next");
  doc.line("  " + plan_command_line(report.arguments, changes));
  if (!best.launch.empty()) doc.items({"when it is launched: " + best.launch});
}

/// A line of the table of changes; the first is the plan as it ran.
struct ChangeLine {
  std::string what, frees, speed;
  const Plan& plan;
};

std::vector<ChangeLine> change_lines(const OomReport& report) {
  const OomRemedies& remedies = *report.remedies;
  std::vector<ChangeLine> lines{{fmt::format("as it ran: {}", remedies.plan.id()), "", "", remedies.plan}};
  for (const OomChange& each : remedies.changes)
    if (each.plan)
      lines.push_back({each.what, format_bytes_value(each.frees, report.question->unit),
                       signed_percent(each.speed), *each.plan});
  return lines;
}

Table changes_table(const OomReport& report) {
  const ByteUnit bytes = report.question->unit;
  const std::string unit = unit_name(bytes);
  using L = const ChangeLine&;
  return table_of<ChangeLine>(
      {{text_column("change"), [](L each) { return each.what; }},
       {number_column("frees", unit), [](L each) { return each.frees; }},
       {number_column("needs", unit, 9),
        [=](L each) { return format_bytes_value(each.plan.memory().required, bytes); }},
       {number_column("host", unit, 5),
        [=](L each) {
          const Bytes host = each.plan.memory().host.total;
          return host.value > 0 ? format_bytes_value(host, bytes) : "";
        }},
       {number_column("tok/s", "", 6),
        [](L each) { return fmt::format("{:.0f}", each.plan.time.tokens_per_second); }},
       {number_column("speed", "", 8), [](L each) { return each.speed; }},
       {text_column("verdict"),
        [](L each) { return each.plan.fits          ? "fits"
                            : each.plan.fits_device ? "host"
                                                    : "short"; }}},
      change_lines(report), [](L each) { return each.plan.fits ? Tone::good : Tone::plain; });
}

/// Returns a change as settings of a training script; empty where only options of zplan say it.
std::string script_words(const OomChange& change) {
  static const std::vector<std::pair<std::string, std::string>> kWords{
      {"--fused-loss", "use_liger_kernel=True (or a chunked cross-entropy)"},
      {"--checkpointing", "gradient_checkpointing=True"},
      {"--attention", "attn_implementation=\"flash_attention_2\""},
      {"--optimizer adamw8bit", "optim=\"adamw_bnb_8bit\""},
      {"--method lora", "peft_config=LoraConfig(target_modules=\"all-linear\")"},
      {"--method qlora", "peft_config=LoraConfig(...) and BitsAndBytesConfig(load_in_4bit=True)"},
      {"--offload optimizer", "\"offload_optimizer\": {\"device\": \"cpu\"} in zero_optimization"},
      {"--offload all",
       "\"offload_optimizer\" and \"offload_param\": {\"device\": \"cpu\"} in zero_optimization"},
      {"--expandable-segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where it is launched"}};
  std::vector<std::string> words;
  for (const auto& [option, script] : kWords) {
    const std::size_t at = change.options.find(option);
    const std::size_t end = at + option.size();
    if (at != std::string::npos && (end == change.options.size() || change.options[end] == ' '))
      words.push_back(script);
  }
  const auto value = [&](const std::string& option, std::string_view script) {
    const std::size_t at = change.options.find(option + " ");
    if (at == std::string::npos) return;
    const std::string rest = change.options.substr(at + option.size() + 1);
    words.push_back(fmt::format(fmt::runtime(script), rest.substr(0, rest.find(' '))));
  };
  value("--micro-batch", "per_device_train_batch_size={}");
  value("--grad-accum", "gradient_accumulation_steps={}");
  value("--zero", "\"stage\": {} in zero_optimization");
  value("--seq", "max_length={}");
  return fmt::format("{}", fmt::join(words, ", "));
}

/// "frees 12.3 GiB"; empty where nothing is known.
std::string gain_words(std::optional<Bytes> gains, ByteUnit unit) {
  return gains && gains->value > 0 ? fmt::format("; frees {}", format_bytes(*gains, unit)) : "";
}

constexpr std::size_t kMostCauses = 4;

void add_causes(Document& doc, const OomReport& report) {
  if (report.causes.empty()) return;
  doc.heading("Why, the likeliest first");
  for (std::size_t i = 0; i < std::min(report.causes.size(), kMostCauses); ++i) {
    const OomExplanation& each = report.causes[i];
    doc.paragraph(fmt::format("  {}. ", i + 1), each.what, i == 0 ? Tone::good : Tone::plain);
    for (const std::string& sentence : each.evidence) doc.paragraph("     - ", sentence);
  }
}

/// The changes to the script, in order: what undoes the likeliest causes, then what makes the plan need less.
void add_changes(Document& doc, const OomReport& report) {
  constexpr std::size_t kMostUndone = 2, kMostOthers = 4;
  const ByteUnit unit = report.question->unit;
  doc.heading("What to change, in this order");
  std::size_t number = 0;
  const auto add = [&](const std::string& text) {
    ++number;
    doc.paragraph(fmt::format("  {}. ", number), text, number == 1 ? Tone::good : Tone::plain);
  };
  for (const OomExplanation& each : report.causes) {
    if (number == kMostUndone || each.cause == OomCause::planned) break;  // what follows is less likely
    add(each.check + gain_words(each.gains, unit));
  }
  std::size_t others = 0;
  for (const OomChange& each : report.remedies->changes) {
    if (others == kMostOthers || !each.fits() || each.frees.value <= 0) continue;
    const std::string script = script_words(each);
    add(fmt::format("{}{}; frees {}, {} tokens per second", each.what, script.empty() ? "" : ": " + script,
                    format_bytes(each.frees, unit), signed_percent(each.speed)));
    ++others;
  }
}

void add_plan(Document& doc, const OomReport& report) {
  const OomRemedies& remedies = *report.remedies;
  Answer shown;
  shown.plans.push_back(remedies.plan);
  shown.warnings = report.warnings;
  doc.line();
  add_header(doc, {*report.question, shown, report.options, report.arguments});
  doc.heading(fmt::format("The plan of {}", remedies.plan.id()));
  doc.items(remedies.plan.why);
  if (report.replay)
    doc.items({refused_sentence(report), matches_sentence(report)});
  else
    doc.items({host_sentence(report)});
  doc.heading("Changes: those that make it fit first, the fastest of them first");
  doc.line();
  doc.shown = Shown::both;
  doc.table(changes_table(report));
  doc.shown = Shown::text;
  add_impossible(doc, report);
  if (!remedies.any_fits()) return doc.heading("None of these makes it fit", Tone::bad);
  if (remedies.plan.fits)
    doc.heading("As planned it fits: what differs is named above");
  else
    doc.heading(fmt::format("What to change: {}", remedies.changes.front().what), Tone::good);
  add_next(doc, report);
}

std::vector<CsvRecord> csv_records(const OomReport& report) {
  std::vector<CsvRecord> records{{"change", "options", "strategy", "fits", "frees_bytes", "required_bytes",
                                  "host_bytes", "tokens_per_second", "speed"}};
  const auto number = [](auto value) { return fmt::format("{}", value); };
  for (const OomChange& each : report.remedies->changes)
    if (each.plan)
      records.push_back(
          {each.what, each.options, each.plan->id(), number(each.fits()), number(each.frees.value),
           number(each.plan->memory().required.value), number(each.plan->memory().host.total.value),
           fmt::format("{:.6g}", each.plan->time.tokens_per_second), fmt::format("{:.4g}", each.speed)});
  return records;
}

}  // namespace

Document oom_document(const OomReport& report) {
  Document doc;
  add_messages(doc, report);
  if (report.remedies) {
    add_causes(doc, report);
    if (report.causes.empty())
      doc.heading("What helps"), doc.items(general_help(report.readings.front().cause));
    add_changes(doc, report);
    add_plan(doc, report);
    doc.records = csv_records(report);
    return doc;
  }
  doc.heading("What helps");
  doc.items(general_help(report.readings.front().cause));
  doc.heading("Next");
  doc.line("  " + command_line(with_options(report.arguments,
                                            {{"--model", "NAME"}, {"--gpus", "N"}, {"--zero", "STAGE"}})));
  return doc;
}

namespace {

Json bytes_json(const std::optional<Bytes>& size) { return size ? Json(size->value) : Json(nullptr); }

Json reading_json(const OomReading& reading) {
  const OomMessage& m = reading.message;
  return {{"line", m.line},
          {"device", m.device},
          {"gpu", or_null(m.gpu)},
          {"rank", or_null(m.rank)},
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
          {"cause", name_json(reading.cause)},
          {"sentences", reading.sentences}};
}

Json cause_json(const OomExplanation& each) {
  return {{"cause", name_json(each.cause)},
          {"what", each.what},
          {"check", each.check},
          {"evidence", each.evidence},
          {"options", each.options},
          {"distance", each.distance ? Json(*each.distance) : Json(nullptr)},
          {"frees", bytes_json(each.gains)}};
}

Json change_json(const OomChange& change) {
  Json out{{"change", change.what},   {"script", script_words(change)}, {"options", change.options},
           {"launch", change.launch}, {"fits", change.fits()},          {"illegal", change.illegal}};
  if (!change.plan) return out;
  out["strategy"] = change.plan->id();
  out["frees"] = change.frees.value, out["required"] = change.plan->memory().required.value;
  out["host"] = change.plan->memory().host.total.value;
  out["tokens_per_second"] = change.plan->time.tokens_per_second, out["speed"] = change.speed;
  return out;
}

Json match_json(const OomMatch& each) {
  return {{"term", std::string(info(each.term).name)},
          {"phase", name_json(each.phase)},
          {"at", std::string(each.at)},
          {"times", each.times},
          {"bytes", each.size.value}};
}

Json replay_json(const OomReport& report) {
  if (!report.replay) return nullptr;
  const OomReplay& replay = *report.replay;
  Json out{{"pool", replay.pool.value},
           {"completes", replay.completes},
           {"refused", nullptr},
           {"matches", json_list(replay.matches, match_json)}};
  if (replay.refused)
    out["refused"] = {{"term", std::string(info(replay.refused->term).name)},
                      {"phase", name_json(replay.refused->phase)},
                      {"at", std::string(replay.refused->at)},
                      {"layer", replay.refused->layer >= 0 ? Json(replay.refused->layer) : Json(nullptr)},
                      {"bytes", replay.refused->size.value},
                      {"held", replay.refused->held.value}};
  return out;
}

}  // namespace

Json oom_json(const OomReport& report) {
  Json plan = nullptr, changes = Json::array();
  if (report.remedies) {
    const Plan& ran = report.remedies->plan;
    changes = json_list(report.remedies->changes, change_json);
    plan = {{"strategy", ran.id()},
            {"fits", ran.fits},
            {"required", ran.memory().required.value},
            {"available", available(report.question->cluster, report.question->headroom).value},
            {"tokens_per_second", ran.time.tokens_per_second},
            {"why", ran.why}};
  }
  return {{"schema", "zplan.fit/1"},
          {"zplan_version", std::string(version())},
          {"oom",
           {{"messages", json_list(report.readings, reading_json)},
            {"plan", std::move(plan)},
            {"replay", replay_json(report)},
            {"causes", json_list(report.causes, cause_json)},
            {"changes", std::move(changes)}}},
          {"warnings", report.warnings}};
}

}  // namespace zplan
