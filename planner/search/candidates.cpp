#include "planner/search/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/divisors.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/question/framework.h"
#include "planner/question/work.h"

namespace zplan {

ZeroOptions zero_knobs(const Question& q, int stage, Buckets buckets) {
  if (q.space.zero) return *q.space.zero;
  ZeroOptions options = zero_options(buckets, q.model.shape.hidden_size);
  if (divides_groups(stage)) options.overlap_comm = true;
  if (stage == 3 && q.training.optimizer == Optimizer::muon) options.reduce_scatter = false;
  return options;
}

std::vector<int> stages(const Question& q) {
  if (!q.space.zero_stages.empty()) return q.space.zero_stages;
  const std::span<const int> usual = spec(q.training.framework).stages;
  return {usual.begin(), usual.end()};
}

std::vector<std::int64_t> tensor_parallel_degrees(const Question& q) {
  if (!q.space.tensor_parallel.empty()) return q.space.tensor_parallel;
  if (!spec(q.training.framework).splits_layers) return {1};
  std::vector<std::int64_t> degrees{1};
  for (std::int64_t t = 2; t <= std::min<std::int64_t>(8, q.cluster.gpus_per_node); t *= 2)
    if (q.cluster.gpus % t == 0) degrees.push_back(t);
  return degrees;
}

std::vector<std::int64_t> pipeline_degrees(const Question& q) {
  if (!q.space.pipeline_parallel.empty()) return q.space.pipeline_parallel;
  std::vector<std::int64_t> degrees{1};
  if (!spec(q.training.framework).has_stages) return degrees;
  const std::int64_t layers = q.model.shape.layers;
  for (std::int64_t stages = 2; stages <= std::min<std::int64_t>(64, layers); stages *= 2)
    if (q.cluster.gpus % stages == 0 && (layers % stages == 0 || divides_with_ends(layers, stages)))
      degrees.push_back(stages);
  return degrees;
}

std::vector<std::int64_t> expert_parallel_degrees(const Question& q, std::int64_t pipeline) {
  if (!q.space.expert_parallel.empty()) return q.space.expert_parallel;
  const std::optional<MixtureOfExperts>& experts = q.model.shape.experts;
  if (!experts || !spec(q.training.framework).has_stages) return {1};
  std::vector<std::int64_t> degrees{1};
  const std::int64_t ranks = q.cluster.gpus / pipeline;
  for (const std::int64_t among : {std::min(ranks, q.cluster.gpus_per_node), ranks})
    if (const std::int64_t degree = std::gcd(among, experts->experts); degree > degrees.back())
      degrees.push_back(degree);
  return degrees;
}

namespace {

std::vector<std::int64_t> degrees(const std::vector<std::int64_t>& given) {
  return given.empty() ? std::vector<std::int64_t>{1} : given;
}

/// Returns the stages with the chunks of layers that each holds. Of several numbers of stages, one has no
/// chunks.
std::vector<ParallelLayout> pipelines(const Question& q) {
  const std::vector<std::int64_t> stages = pipeline_degrees(q);
  std::vector<ParallelLayout> all;
  for (const std::int64_t pipeline : stages)
    for (const std::int64_t chunks : degrees(q.space.virtual_stages))
      if (pipeline > 1 || chunks == 1 || stages.size() == 1)
        all.push_back({.pipeline = pipeline, .virtual_stages = chunks});
  return all;
}

}  // namespace

namespace {

std::vector<std::int64_t> powers_of_two(std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t each = 1; each <= std::max<std::int64_t>(1, most); each *= 2) all.push_back(each);
  return all;
}

}  // namespace

void open_layouts(Question& q) {
  const FrameworkSpec& framework = spec(q.training.framework);
  if (!framework.has_stages) return;
  constexpr std::int64_t kMostChunks = 16, kLeastTokens = 1024;
  const std::int64_t layers = q.model.shape.layers;
  SearchSpace& space = q.space;
  if (space.virtual_stages.empty())
    for (std::int64_t chunks = 1; chunks <= std::min(kMostChunks, layers); ++chunks)
      if (layers % chunks == 0 || divides_with_ends(layers, chunks)) space.virtual_stages.push_back(chunks);
  if (space.context_parallel.empty() && space.sequence_parallel.empty())
    space.context_parallel =
        powers_of_two(std::min(q.cluster.gpus, q.training.sequence_length / kLeastTokens));
  if (space.expert_parallel.empty() && q.model.shape.experts)
    for (const std::int64_t each : powers_of_two(q.model.shape.experts->experts))
      if (q.model.shape.experts->experts % each == 0) space.expert_parallel.push_back(each);
  if (space.replicas.empty() && framework.replicates)
    space.replicas = powers_of_two(q.cluster.gpus / q.cluster.gpus_per_node);
}

std::vector<ParallelLayout> layouts(const Question& q) {
  std::vector<ParallelLayout> all;
  for (const std::int64_t tensor : tensor_parallel_degrees(q))
    for (const ParallelLayout& pipeline : pipelines(q))
      for (const std::int64_t sequence : degrees(q.space.sequence_parallel))
        for (const std::int64_t context : degrees(q.space.context_parallel)) {
          const bool both_open = q.space.sequence_parallel.size() > 1 || q.space.context_parallel.size() > 1;
          if (sequence > 1 && context > 1 && both_open) continue;
          for (const std::int64_t expert : expert_parallel_degrees(q, pipeline.pipeline))
            for (const std::int64_t of_experts : degrees(q.space.expert_tensor_parallel))
              for (const std::int64_t replicate : degrees(q.space.replicas)) {
                // Stages leave few ranks to shard among.
                if (replicate > 1 && pipeline.pipeline > 1 && q.space.replicas.size() > 1) continue;
                all.push_back(ParallelLayout{.tensor = tensor,
                                             .sequence = sequence,
                                             .context = context,
                                             .replicate = replicate,
                                             .pipeline = pipeline.pipeline,
                                             .virtual_stages = pipeline.virtual_stages,
                                             .expert = expert,
                                             .expert_tensor = of_experts,
                                             .data_before_expert = q.space.data_before_expert}
                                  .filling(q.cluster.gpus));
              }
        }
  return all;
}

Strategy strategy_of(const Question& q, const ParallelLayout& layout, int stage, const Offload& offload) {
  ExpertParallel experts = q.space.experts;
  experts.enabled = experts.enabled || layout.expert > 1;
  if (!experts.enabled) experts = {};
  Strategy made{.zero_stage = stage,
                .layout = layout,
                .offload_optimizer = offload.optimizer,
                .offload_parameters = offload.parameters,
                .checkpointing = q.space.checkpointing,
                .long_context = q.space.long_context,
                .experts = experts,
                .zero = zero_knobs(q, stage, q.space.buckets)};
  if (const auto choose = spec(q.training.framework).choose) choose(q, made);
  return made;
}

SearchSpace pinned_to(SearchSpace space, const Strategy& s) {
  space.zero_stages = {s.zero_stage};
  space.tensor_parallel = {s.layout.tensor};
  space.sequence_parallel = {s.layout.sequence};
  space.context_parallel = {s.layout.context};
  space.pipeline_parallel = {s.layout.pipeline};
  space.virtual_stages = {s.layout.virtual_stages};
  if (s.megatron) space.megatron = *s.megatron;
  if (s.torchtitan) space.torchtitan = *s.torchtitan;
  space.expert_parallel = {s.layout.expert};
  space.expert_tensor_parallel = {s.layout.expert_tensor};
  space.replicas = {s.layout.replicate};
  space.experts = s.experts, space.data_before_expert = s.layout.data_before_expert;
  space.offloads = {{s.offload_optimizer, s.offload_parameters}};
  space.checkpointing = s.checkpointing;
  space.long_context = s.long_context;
  return space;
}

std::vector<Offload> offloads(const Question& q) {
  if (!q.space.offloads.empty()) return q.space.offloads;
  const std::span<const Offload> usual = spec(q.training.framework).offloads;
  return {usual.begin(), usual.end()};
}

std::vector<std::string> why_not_on(const Cluster& cluster, const Strategy& s) {
  const auto goes_to = [&s](OffloadDevice device) {
    return s.offload_optimizer == device || s.offload_parameters == device;
  };
  std::vector<std::string> reasons;
  const bool to_host =
      goes_to(OffloadDevice::cpu) || s.long_context.checkpoint_offload != CheckpointOffload::none;
  if (cluster.gpu.unified_memory && to_host)
    reasons.push_back(fmt::format(
        "{} and its host share one memory: offload from one to the other frees nothing", cluster.gpu.name));
  if (cluster.instance && cluster.instance->local_disk == Bytes{} && goes_to(OffloadDevice::nvme))
    reasons.push_back(fmt::format("{} has no disk of its own to offload to", cluster.instance->name));
  return reasons;
}

std::int64_t usual_micro_batches(const ParallelLayout& layout) {
  return layout.pipeline == 1 ? 1 : kMicroBatchesPerStage * layout.pipeline;
}

namespace {

std::string batch_mismatch(const Question& q, const Strategy& s, std::string_view of) {
  return fmt::format("a global batch of {} is not a multiple of {}{} data-parallel ranks",
                     *q.space.global_batch_size, of, s.layout.data_ranks());
}

std::optional<std::string> divide_batch(const Question& q, Strategy& s, std::int64_t micro_batch) {
  const SearchSpace& space = q.space;
  s.micro_batch_size = micro_batch;
  s.gradient_accumulation_steps = space.gradient_accumulation_steps.value_or(usual_micro_batches(s.layout));
  if (!space.global_batch_size) return std::nullopt;
  const std::int64_t global = *space.global_batch_size;
  if (!space.gradient_accumulation_steps) {
    if (global % (micro_batch * s.layout.data_ranks()) != 0)
      return batch_mismatch(q, s, fmt::format("micro-batch {} x ", micro_batch));
    s.gradient_accumulation_steps = global / (micro_batch * s.layout.data_ranks());
    return std::nullopt;
  }
  const std::int64_t samples = s.gradient_accumulation_steps * s.layout.data_ranks();
  if (space.micro_batch_follows) {
    if (global % samples != 0)
      return batch_mismatch(q, s, fmt::format("accumulation {} x ", s.gradient_accumulation_steps));
    s.micro_batch_size = global / samples;
  } else if (micro_batch * samples != global) {
    return fmt::format(
        "a global batch of {} is not micro-batch {} x accumulation {} x {} data-parallel ranks", global,
        micro_batch, s.gradient_accumulation_steps, s.layout.data_ranks());
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> set_batch(const Question& q, Strategy& s, std::int64_t micro_batch) {
  if (auto mismatch = divide_batch(q, s, micro_batch)) return mismatch;
  if (s.gradient_accumulation_steps % q.training.rollout.mini_batches == 0) return std::nullopt;
  return fmt::format(
      "{} micro-steps of an update are not whole mini-batches of {}: --mini-batches, --grad-accum",
      s.gradient_accumulation_steps, q.training.rollout.mini_batches);
}

namespace {

/// Left open, the search spares the reader combinations that nobody would take: they are not rejected, just
/// not tried.
bool worth_trying(const Question& q, const Strategy& s, bool is_legal) {
  const bool open_offload = q.space.offloads.empty(), open_degree = q.space.tensor_parallel.empty();
  if (open_offload && s.offload_parameters != OffloadDevice::none && s.zero_stage < 3) return false;
  if (open_offload && !s.megatron && s.offload_optimizer != OffloadDevice::none && s.zero_stage < 2)
    return false;
  if (q.space.pipeline_parallel.empty() && s.layout.pipeline > 1) return is_legal;
  const bool chooses_experts = spec(q.training.framework).has_stages && q.space.expert_parallel.empty();
  if (chooses_experts && s.layout.expert > 1) return is_legal;
  return !open_degree || s.layout.tensor == 1 || (is_legal && s.zero_stage < 3);
}

std::vector<std::string> why_illegal(const Question& q, const Strategy& s) {
  return zplan::why_illegal(q.model, q.training, s, {q.cluster.gpus, q.cluster.gpus_per_node});
}

/// Throws that no combination is legal, with each reason once and a combination that it rules out.
[[noreturn]] void fail_without_candidates(const Candidates& found, Framework framework) {
  std::set<std::string_view> told;
  std::vector<std::string> reasons;
  for (const Rejection& each : found.rejected)
    for (const std::string& reason : each.reasons)
      if (told.insert(reason).second)
        reasons.push_back(fmt::format("{}: {}", plan_id(framework, each.strategy), reason));
  const bool batch_alone = std::all_of(
      told.begin(), told.end(), [](std::string_view reason) { return reason.starts_with("a global batch"); });
  throw InputError(batch_alone ? "--global-batch" : "--zero, --tp, --offload", "no legal combination",
                   fmt::format("{}", fmt::join(reasons, "; ")));
}

}  // namespace

Candidates candidates(const Question& q) {
  stop_if_asked();
  constexpr std::size_t kMostUntried = 8;
  std::vector<Rejection> untried;  // the first, which say why where nothing else is left
  Candidates found;
  for (const ParallelLayout& layout : layouts(q))
    for (const int stage : stages(q))
      for (const Offload offload : offloads(q)) {
        Strategy s = strategy_of(q, layout, stage, offload);
        const auto mismatch = set_batch(q, s, q.space.micro_batch_size.value_or(1));
        std::vector<std::string> reasons = why_illegal(q, s);
        if (!worth_trying(q, s, reasons.empty())) {
          if (!reasons.empty() && untried.size() < kMostUntried) untried.push_back({s, std::move(reasons)});
          continue;
        }
        for (std::string& each : why_not_on(q.cluster, s)) reasons.push_back(std::move(each));
        // The largest micro-batch is found later, among those that make the global batch.
        const bool found_later =
            !q.space.micro_batch_size && q.space.global_batch_size.value_or(0) % s.layout.data_ranks() == 0;
        if (mismatch && !found_later) reasons.push_back(*mismatch);
        if (reasons.empty())
          found.legal.push_back(s);
        else
          found.rejected.push_back({s, std::move(reasons)});
      }
  if (found.legal.empty() && found.rejected.empty()) found.rejected = std::move(untried);
  return found;
}

Candidates legal_candidates(const Question& q) {
  Candidates found = candidates(q);
  if (found.legal.empty()) fail_without_candidates(found, q.training.framework);
  return found;
}

namespace {

/// Returns the largest micro-batch that makes the global batch and fits. One micro-step holds other things
/// than two, and two others than more, so each of these is tried by itself; among the rest memory grows with
/// the micro-batch.
template <class Fits>
std::optional<std::int64_t> largest_divisor_that_fits(const Question& q, const Strategy& strategy,
                                                      std::int64_t most, const Fits& fits) {
  constexpr std::int64_t kUnlike = 2;
  const std::int64_t samples = *q.space.global_batch_size / strategy.layout.data_ranks();
  std::vector<std::int64_t> sizes;  // largest first
  for (const std::int64_t size : divisors(samples))
    if (size <= most) sizes.insert(sizes.begin(), size);
  auto rest = sizes.begin();
  for (; rest != sizes.end() && samples / *rest <= kUnlike; ++rest)
    if (fits(*rest)) return *rest;
  const std::int64_t found = first_that(sizes.end() - rest, [&](std::int64_t i) { return fits(rest[i]); });
  return found < sizes.end() - rest ? std::optional(rest[found]) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> largest_micro_batch(const Question& q, PlanContext& context,
                                                const Strategy& strategy) {
  const std::int64_t most = std::max<std::int64_t>(1, kMostTokens / q.training.sequence_length);
  const auto fits = [&](std::int64_t micro_batch) {
    Strategy s = strategy;
    if (set_batch(q, s, micro_batch)) return false;
    // Chunks of layers need a number of micro-batches that stages can share out.
    return (s.layout.virtual_stages == 1 || why_illegal(q, s).empty()) && context.outline(s).fits;
  };
  if (q.space.global_batch_size) return largest_divisor_that_fits(q, strategy, most, fits);
  const std::int64_t fit = first_that(most, [&](std::int64_t index) { return !fits(index + 1); });
  return fit > 0 ? std::optional(fit) : std::nullopt;
}

Strategy sized(const Question& q, PlanContext& context, Strategy strategy) {
  if (!q.space.micro_batch_size)
    if (const auto most = largest_micro_batch(q, context, strategy))
      static_cast<void>(set_batch(q, strategy, *most));
  return strategy;
}

}  // namespace zplan
