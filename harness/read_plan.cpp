#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/replay.h"
#include "models/base/error.h"

namespace zplan::bench {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 46;

/// What a schedule says of its layout beside each call's group.
struct PlannedLayout {
  std::int64_t ranks{1}, tensor{1}, expert{1};
  bool data_before_expert{};
};

PlannedLayout layout_of(const JsonReader& schedule) {
  return {.ranks = schedule.at("ranks").integer(1, 1 << 20),
          .tensor = schedule.at("tensor_parallel").integer(1, 1 << 20),
          .expert = schedule.integer_or("expert_parallel", 1, 1, 1 << 20),
          .data_before_expert = schedule.boolean_or("data_before_expert", false)};
}

/// Ranks that share out a layer's experts are neighbours in the world, and those that hold the same ones lie
/// as many apart; or the reverse.
std::int64_t expert_stride(const PlannedLayout& layout, bool holds_the_same) {
  if (holds_the_same == layout.data_before_expert) return 1;
  return holds_the_same ? layout.expert : layout.ranks / layout.expert;
}

/// Ranks that divide a sample's tokens are neighbours among the data-parallel ones.
Groups groups_of(const JsonReader& call, const PlannedLayout& layout) {
  const JsonReader group = call.at("group");
  const std::int64_t size = call.at("group_size").integer(2, 1 << 20);
  if (group.text() == "expert" || group.text() == "expert-data")
    return {.kind = GroupKind::data, .size = size, .stride = expert_stride(layout, group.text() != "expert")};
  const bool divides_tokens = group.text() == "sequence" || group.text() == "context";
  return {.kind = divides_tokens ? GroupKind::data : parse_name<GroupKind>(group.place(), group.text()),
          .size = size,
          .stride = call.integer_or("stride", 1, 1, 1 << 20),
          .tensor = layout.tensor};
}

/// The parts of an uneven all_to_all; see Work.
void read_counts(const JsonReader& call, std::int64_t ranks, Work& work) {
  work.returns = call.has("receive_counts");
  const auto counts = call.find(work.returns ? "receive_counts" : "send_counts");
  if (!counts) return;
  for (const JsonReader& each : counts->items()) work.counts.push_back(each.integer(0, kMost / ranks));
  if (static_cast<std::int64_t>(work.counts.size()) != ranks || work.operation != Operation::all_to_all)
    counts->fail(fmt::format("{} counts of {}", work.counts.size(), to_name(work.operation)),
                 fmt::format("accepted: one for each rank of an all_to_all's group, {}", ranks));
  if (const std::int64_t sent = layout(work, ranks, 0).send; sent != work.elements)
    counts->fail(fmt::format("the group's first rank sends {}", sent),
                 fmt::format("accepted: what adds up to elements, {}", work.elements));
}

PlannedCall call_of(const JsonReader& at, const PlannedLayout& planned) {
  const std::int64_t ranks = planned.ranks;
  PlannedCall call;
  call.groups = groups_of(at, planned);
  (void)members(call.groups, ranks, 0, at.at("group_size").place());
  call.group = at.at("group").text(), call.phase = at.at("phase").text();
  call.dtype = at.at("dtype").text(), call.purpose = at.at("purpose").text();
  call.work = {.operation = parse_name<Operation>(at.at("operation").place(), at.at("operation").text()),
               .dtype = parse_name<DataType>(at.at("dtype").place(), call.dtype),
               .elements = at.at("elements").integer(1, kMost)};
  read_counts(at, call.groups.size, call.work);
  if (call.work.counts.empty() && is_shared_out(call.work.operation) &&
      call.work.elements % call.groups.size != 0)
    at.at("elements")
        .fail(fmt::format("{}", call.work.elements),
              fmt::format("accepted: a multiple of the group's size, {}", call.groups.size));
  call.times = at.integer_or("times", 1, 1, kMost);
  if (const auto compute = at.find("compute_seconds")) call.compute = Seconds(compute->number(0, 1e9));
  call.exposed = at.boolean_or("exposed", false);
  return call;
}

}  // namespace

PlannedStep read_plan(const std::string& path, std::int64_t ranks) {
  const Json document = parse_json(read_file(path), path);
  const JsonReader root(document, path);
  if (!document.is_object() || (!root.has("schedule") && !root.has("calls")))
    root.fail("no schedule", "accepted: what zplan … --json prints, of zplan 0.1 or newer");
  const JsonReader schedule = root.has("schedule") ? root.at("schedule") : root;
  PlannedStep step{.plan = schedule.raw(),
                   .ranks = schedule.at("ranks").integer(1, 1 << 20),
                   .device_memory = Bytes(schedule.at("device_memory_bytes").integer(0, kMost))};
  step.plan["file"] = path;
  if (step.ranks != ranks)
    schedule.at("ranks").fail(fmt::format("the plan is for {} ranks, and {} run here", step.ranks, ranks),
                              fmt::format("accepted: a plan for --gpus {}", ranks));
  const PlannedLayout planned = layout_of(schedule);
  for (const JsonReader& each : schedule.at("calls").items()) step.calls.push_back(call_of(each, planned));
  return step;
}

}  // namespace zplan::bench
