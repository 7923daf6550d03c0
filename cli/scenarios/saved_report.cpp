#include "cli/scenarios/saved_report.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace zplan {

namespace {

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
constexpr double kMostNumber = std::numeric_limits<double>::max();

Bytes bytes_at(const JsonReader& from, std::string_view key) {
  return Bytes(from.at(key).integer(0, kMostBytes));
}
Seconds seconds_at(const JsonReader& from, std::string_view key) {
  return Seconds(from.at(key).number(0, kMostNumber));
}
std::int64_t count_at(const JsonReader& from, std::string_view key) {
  return from.at(key).integer(1, kMostBytes);
}

template <class E>
E name_at(const JsonReader& from, std::string_view key) {
  const JsonReader at = from.at(key);
  return parse_name<E>(at.place(), at.text());
}

/// Returns the first term of a part. A report has parts, not their terms.
Term any_term(MemoryPart part) {
  std::size_t at = 0;
  while (info(static_cast<Term>(at)).part != part) ++at;
  return static_cast<Term>(at);
}

MemoryPlan memory_at(const JsonReader& from) {
  MemoryPlan memory;
  for (const auto& [part, name] : EnumNames<MemoryPart>::table)
    memory.peak.holds[any_term(part)] = bytes_at(from, name);
  memory.peak.phase = name_at<Phase>(from, "peak_phase");
  memory.required = bytes_at(from, "required");
  memory.required_low = bytes_at(from, "required_low");
  memory.required_high = bytes_at(from, "required_high");
  memory.host.total = bytes_at(from, "host");
  memory.host.nvme = bytes_at(from, "nvme");
  return memory;
}

Schedule communication_at(const JsonReader& from) {
  Schedule schedule;
  for (const JsonReader& each : from.at("collectives").items()) {
    Collective collective;
    collective.phase = name_at<Phase>(each, "phase");
    collective.count = each.at("count").integer(0, kMostBytes);
    collective.bytes = bytes_at(each, "bytes");
    collective.wire_bytes_per_gpu = bytes_at(each, "wire_bytes_per_gpu");
    collective.inside_bytes_per_gpu = bytes_at(each, "inside_bytes_per_gpu");
    collective.outside_bytes_per_gpu = bytes_at(each, "outside_bytes_per_gpu");
    schedule.collectives.push_back(collective);
  }
  return schedule;
}

StepTime time_at(const JsonReader& from) {
  StepTime time;
  time.step = seconds_at(from, "step");
  time.compute = seconds_at(from, "compute");
  time.launching = seconds_at(from, "launching");
  time.communication = seconds_at(from, "communication");
  time.exposed_communication = seconds_at(from, "exposed_communication");
  time.offload = seconds_at(from, "offload");
  time.optimizer = seconds_at(from, "optimizer");
  time.tokens_per_second = from.at("tokens_per_second").number(0, kMostNumber);
  time.mfu = from.at("mfu").number(0, kMostNumber);
  return time;
}

Strategy strategy_at(const JsonReader& from) {
  constexpr std::int64_t kMostRanks = 1'000'000;
  ExpertParallel experts;
  experts.enabled = from.has("expert_parallel");
  const std::int64_t replicas = from.integer_or("dp_replicate", 1, 1, kMostRanks);
  return {.zero_stage = static_cast<int>(from.at("zero_stage").integer(0, 3)),
          .layout = {.tensor = count_at(from, "tensor_parallel"),
                     .sequence = from.integer_or("sequence_parallel", 1, 1, kMostRanks),
                     .context = from.integer_or("context_parallel", 1, 1, kMostRanks),
                     .shard = count_at(from, "data_parallel") / replicas,
                     .replicate = replicas,
                     .pipeline = from.integer_or("pipeline_parallel", 1, 1, kMostRanks),
                     .virtual_stages = from.integer_or("virtual_stages", 1, 1, kMostRanks),
                     .expert = from.integer_or("expert_parallel", 1, 1, kMostRanks),
                     .expert_tensor = from.integer_or("expert_tensor_parallel", 1, 1, kMostRanks)},
          .offload_optimizer = name_at<OffloadDevice>(from, "offload_optimizer"),
          .offload_parameters = name_at<OffloadDevice>(from, "offload_parameters"),
          .checkpointing = name_at<Checkpointing>(from, "activation_checkpointing"),
          .micro_batch_size = count_at(from, "micro_batch_size"),
          .gradient_accumulation_steps = count_at(from, "gradient_accumulation_steps"),
          .experts = experts};
}

Plan plan_at(const JsonReader& from) {
  Plan plan;
  plan.name = from.at("id").text();
  plan.framework = name_at<Framework>(from.at("strategy"), "framework");
  plan.strategy = strategy_at(from.at("strategy"));
  plan.ranks.front().memory = memory_at(from.at("memory"));
  plan.ranks.front().communication = communication_at(from.at("communication"));
  plan.time = time_at(from.at("time"));
  plan.fits = from.at("fits").boolean();
  plan.fits_device = from.at("fits_device").boolean();
  plan.fits_host = from.at("fits_host").boolean();
  return plan;
}

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// True if a setting is compared. `framework` is not, as every plan has its own, and `origin` may be a path.
bool is_compared(std::string_view key, const Json& value) {
  return key != "framework" && key != "origin" && key != "source" &&
         (value.is_primitive() || key == "lora_targets");
}

}  // namespace

bool is_report(const Json& json) { return json.is_object() && json.contains("schema"); }

SavedReport read_saved_report(Json json, const std::string& file) {
  SavedReport report{.file = file, .version = {}, .plans = {}, .whole = std::move(json)};
  const JsonReader root(report.whole, file);
  const JsonReader schema = root.at("schema");
  if (schema.text() != "zplan.report/1")
    schema.fail(in_quotes(schema.text()), "accepted: zplan.report/1, as zplan --json writes it");
  report.version = root.at("zplan_version").text();
  for (const JsonReader& each : root.at("plans").items()) report.plans.push_back(plan_at(each));
  if (report.plans.empty()) root.at("plans").fail("no plans", "accepted: at least one");
  for (const std::string_view section : {"model", "cluster", "training"})
    if (!root.at(section).raw().is_object()) root.at(section).fail_type("an object");
  return report;
}

std::vector<std::string> changed_since(const SavedReport& then, const Json& now) {
  std::vector<std::string> changes;
  for (const std::string section : {"model", "cluster", "training"})
    for (const auto& [key, value] : then.whole.at(section).items()) {
      if (!is_compared(key, value) || !now.at(section).contains(key)) continue;
      const Json& today = now.at(section).at(key);
      if (value != today)
        changes.push_back(fmt::format("{} {}: {} then, {} now", section, key, shown(value), shown(today)));
    }
  return changes;
}

}  // namespace zplan
