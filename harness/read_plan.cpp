#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/replay.h"
#include "models/base/error.h"

namespace zplan::bench {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 46;

/// Ranks that divide a sample's tokens are neighbours among the data-parallel ones.
GroupKind kind_of(const JsonReader& group) {
  if (group.text() == "sequence" || group.text() == "context") return GroupKind::data;
  return parse_name<GroupKind>(group.place(), group.text());
}

Groups groups_of(const JsonReader& call, std::int64_t tensor) {
  const GroupKind kind = kind_of(call.at("group"));
  return {.kind = kind,
          .size = call.at("group_size").integer(2, 1 << 20),
          .stride = call.integer_or("stride", 1, 1, 1 << 20),
          .tensor = tensor};
}

PlannedCall call_of(const JsonReader& at, std::int64_t ranks, std::int64_t tensor) {
  PlannedCall call;
  call.groups = groups_of(at, tensor);
  (void)members(call.groups, ranks, 0, at.at("group_size").place());
  call.group = at.at("group").text(), call.phase = at.at("phase").text();
  call.dtype = at.at("dtype").text(), call.purpose = at.at("purpose").text();
  call.work = {.operation = parse_name<Operation>(at.at("operation").place(), at.at("operation").text()),
               .dtype = parse_name<DataType>(at.at("dtype").place(), call.dtype),
               .elements = at.at("elements").integer(1, kMost)};
  const Layout each = layout(call.work, call.groups.size);
  if (std::min(each.send, each.receive) * (each.send == each.receive ? 1 : call.groups.size) !=
      std::max(each.send, each.receive))
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
  const std::int64_t tensor = schedule.at("tensor_parallel").integer(1, 1 << 20);
  for (const JsonReader& each : schedule.at("calls").items())
    step.calls.push_back(call_of(each, ranks, tensor));
  return step;
}

}  // namespace zplan::bench
