#include "planner/layout/parallel_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace zplan {

namespace {

/// Ranks between neighbours along `axis`.
std::int64_t stride_of(const ParallelLayout& layout, std::int64_t ParallelLayout::*axis) {
  std::int64_t stride = 1;
  for (const Axis& each : kAxes) {
    if (each.degree == axis) break;
    stride *= layout.*each.degree;
  }
  return stride;
}

}  // namespace

ParallelLayout ParallelLayout::of_model() const {
  ParallelLayout result;
  for (const Axis& each : kAxes)
    if (each.divides_model) result.*each.degree = this->*each.degree;
  result.virtual_stages = virtual_stages;
  return result;
}

ParallelLayout ParallelLayout::filling(std::int64_t ranks) const {
  ParallelLayout result = *this;
  result.shard = 1;
  result.shard = std::max<std::int64_t>(1, ranks / result.world());
  return result;
}

ProcessGroup process_group(const ParallelLayout& layout, Group group) {
  const auto along = [&layout](std::int64_t ParallelLayout::*axis) {
    return ProcessGroup{layout.*axis, stride_of(layout, axis)};
  };
  // Ranks that divide a sample's tokens are neighbours among those that average gradients.
  const ProcessGroup data{layout.gradient_ranks(), along(&ParallelLayout::sequence).stride};
  switch (group) {
    case Group::data: break;
    case Group::tensor: return along(&ParallelLayout::tensor);
    case Group::sequence: return along(&ParallelLayout::sequence);
    case Group::context: return along(&ParallelLayout::context);
    case Group::sample: return {layout.tensor * layout.context, 1};
    // All of them reach over tensor-parallel ranks, too: those share out the rows that they send (AutoTP
    // folding, Megatron-Core's sequence parallelism).
    case Group::expert:
      return {layout.expert,
              layout.data_before_expert ? layout.world() / layout.expert : layout.expert_tensor};
    case Group::expert_tensor: return {layout.expert_tensor, 1};
    case Group::expert_model: return {layout.expert_ranks(), 1};
    case Group::expert_data:
      return {layout.world() / layout.pipeline / layout.expert_ranks(),
              layout.data_before_expert ? 1 : layout.expert_ranks()};
    case Group::pipeline: return along(&ParallelLayout::pipeline);
    // Its tensor-parallel ranks are neighbours, its stages are not: what it sends are single numbers.
    case Group::model: return {layout.tensor * layout.pipeline, 1};
    case Group::world: return {layout.world(), 1};
  }
  return data;
}

std::string id_prefix(const ParallelLayout& layout) {
  std::string prefix;
  for (const Axis& each : kAxes) {
    if (!each.id.empty() && layout.*each.degree > 1)
      prefix += fmt::format("{}{}+", each.id, layout.*each.degree);
    if (each.degree == &ParallelLayout::pipeline && layout.virtual_stages > 1)
      prefix += fmt::format("vpp{}+", layout.virtual_stages);
  }
  return prefix;
}

std::vector<std::string> layout_faults(const ParallelLayout& layout, World world) {
  std::vector<std::string> reasons;
  for (const Axis& each : kAxes) {
    const std::int64_t degree = layout.*each.degree;
    if (!each.divides_model) continue;
    if (world.gpus % degree != 0)
      reasons.push_back(fmt::format("{} GPUs are not a multiple of {} {}", world.gpus, each.name, degree));
    else if (each.within_node && world.gpus_per_node % degree != 0)
      reasons.push_back(
          fmt::format("{} {} does not divide the {} GPUs of a node: some groups would reach across the "
                      "network",
                      each.name, degree, world.gpus_per_node));
  }
  const std::int64_t ranks = layout.of_model().world();
  if (reasons.empty() && world.gpus % ranks != 0)
    reasons.push_back(
        fmt::format("{} GPUs are not a multiple of the {} ranks that divide the model", world.gpus, ranks));
  if (layout.replicate > 1 && (world.gpus / layout.of_model().world()) % layout.replicate != 0)
    reasons.push_back(fmt::format("{} replicas do not divide {} ranks", layout.replicate,
                                  world.gpus / layout.of_model().world()));
  return reasons;
}

}  // namespace zplan
