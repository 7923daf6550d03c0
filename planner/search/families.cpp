#include "planner/search/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/divisors.h"
#include "planner/plan/legality.h"
#include "planner/question/framework.h"
#include "planner/search/candidates.h"

namespace zplan {

namespace {

bool holds(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

/// Returns the batches of a family of this layout, whatever mini-batches there are.
std::vector<Batches> all_batches(const Scope& scope, const ParallelLayout& layout) {
  std::vector<Batches> all;
  if (!scope.global_batch_size) {
    for (const std::int64_t each : scope.accumulations) all.push_back({each, scope.micro_batch_sizes});
    if (all.empty()) all.push_back({usual_micro_batches(layout), scope.micro_batch_sizes});
    return all;
  }
  if (*scope.global_batch_size % layout.data_ranks() != 0) return {};
  const std::int64_t samples = *scope.global_batch_size / layout.data_ranks();
  for (const std::int64_t size : divisors(samples))
    if (holds(scope.micro_batch_sizes, size) && holds(scope.accumulations, samples / size))
      all.push_back({samples / size, {size}});
  return all;
}

/// Checkpointing and bucket sizes of one strategy.
void add_variants(const Question& q, const Scope& scope, const FamilyName& name,
                  std::vector<FamilyReport>& all) {
  for (const Checkpointing checkpointing : scope.checkpointing) {
    if (checkpointing != Checkpointing::full &&
        name.strategy.long_context.checkpoint_offload != CheckpointOffload::none)
      continue;
    std::vector<ZeroOptions> tried;
    for (const Buckets buckets : scope.buckets) {
      FamilyReport family{.name = name, .best = {}, .reason = {}};
      Strategy& s = family.name.strategy;
      s.checkpointing = checkpointing, s.zero = zero_knobs(q, s.zero_stage, buckets);
      const bool has_buckets = s.zero_stage > 0 && spec(name.framework).reads_ds_config && !q.space.zero;
      if (std::find(tried.begin(), tried.end(), s.zero) != tried.end()) continue;
      if (!has_buckets && !tried.empty()) continue;
      tried.push_back(s.zero);
      if (has_buckets) family.name.buckets = buckets;
      all.push_back(family);
    }
  }
}

std::vector<std::string> why_illegal_by_batch(const Question& q, Strategy strategy,
                                              std::int64_t micro_batches) {
  strategy.gradient_accumulation_steps = micro_batches;
  return why_illegal(q.model, q.training, strategy, {q.cluster.gpus, q.cluster.gpus_per_node});
}

/// Returns the most micro-batches that the scope lets a step have: schedules of stages need a number of them.
std::int64_t most_micro_batches(const Scope& scope, const ParallelLayout& layout) {
  std::int64_t most = 1;
  if (layout.pipeline > 1)
    for (const Batches& each : batches(scope, layout)) most = std::max(most, each.accumulation);
  return most;
}

void add_strategy(const Question& q, const Scope& scope, const FamilyName& name,
                  std::vector<FamilyReport>& all) {
  std::vector<std::string> reasons =
      why_illegal_by_batch(q, name.strategy, most_micro_batches(scope, name.strategy.layout));
  for (std::string& each : why_not_on(q.cluster, name.strategy)) reasons.push_back(std::move(each));
  const ParallelLayout& layout = name.strategy.layout;
  const std::int64_t parts = q.training.rollout.mini_batches;
  if (reasons.empty() && batches(scope, layout).empty())
    reasons.push_back(fmt::format("a global batch of {} cannot be made with {} data-parallel ranks",
                                  *scope.global_batch_size, layout.data_ranks()));
  else if (reasons.empty() && batches(scope, layout, parts).empty())
    reasons.push_back(fmt::format(
        "no accumulation that is open makes {} whole mini-batches: --mini-batches, --grad-accum", parts));
  else if (reasons.empty() && batches(q, scope, name.strategy).empty())
    reasons.push_back(
        fmt::format("no accumulation that is open makes micro-batches for {} stages of {} virtual stages",
                    layout.pipeline, layout.virtual_stages));
  if (reasons.empty()) return add_variants(q, scope, name, all);
  all.push_back({.name = name,
                 .outcome = FamilyOutcome::illegal,
                 .best = {},
                 .reason = fmt::format("{}", fmt::join(reasons, "; "))});
}

}  // namespace

std::int64_t micro_batch_step(std::size_t index) {
  constexpr std::size_t kEach = 16, kPerDoubling = 8;
  if (index < kEach) return static_cast<std::int64_t>(index) + 1;
  const std::size_t doubling = (index - kEach) / kPerDoubling, step = (index - kEach) % kPerDoubling + 1;
  return static_cast<std::int64_t>(kEach * (kPerDoubling + step) / kPerDoubling) << doubling;
}

std::vector<Batches> batches(const Scope& scope, const ParallelLayout& layout, std::int64_t mini_batches) {
  std::vector<Batches> all = all_batches(scope, layout);
  std::erase_if(all, [&](const Batches& each) { return each.accumulation % mini_batches != 0; });
  return all;
}

std::vector<Batches> batches(const Question& q, const Scope& scope, const Strategy& strategy) {
  std::vector<Batches> all = batches(scope, strategy.layout, q.training.rollout.mini_batches);
  if (strategy.layout.pipeline > 1)
    std::erase_if(all, [&](const Batches& each) {
      return !why_illegal_by_batch(q, strategy, each.accumulation).empty();
    });
  return all;
}

std::vector<FamilyReport> families(const Question& question, const Scope& scope) {
  std::vector<FamilyReport> all;
  for (const Framework framework : scope.frameworks) {
    Question q = question;
    if (q.training.framework != framework) q.training = with_framework(q.training, framework);
    open_layouts(q);
    for (const ParallelLayout& layout : layouts(q))
      for (const int stage : stages(q))
        for (const Offload offload : offloads(q)) {
          Strategy strategy = strategy_of(q, layout, stage, offload);
          strategy.checkpointing = Checkpointing::full;
          add_strategy(q, scope, {framework, strategy, {}}, all);
        }
  }
  return all;
}

}  // namespace zplan
