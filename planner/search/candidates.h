#pragma once
// The strategies that a question leaves open, and their batches.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/question/question.h"

namespace zplan {

class PlanContext;

/// A combination that cannot be trained, and why.
struct Rejection {
  Strategy strategy;
  std::vector<std::string> reasons;
};

/// Legal and illegal combinations of a space, in the order in which they are planned.
struct Candidates {
  std::vector<Strategy> legal;
  std::vector<Rejection> rejected;
};
[[nodiscard]] Candidates candidates(const Question& question);
/// The same where at least one is legal. InputError: none is; it names the reasons.
[[nodiscard]] Candidates legal_candidates(const Question& question);

/// Stages that a question asks for: those that are pinned, else all that its framework has (see Framework).
[[nodiscard]] std::vector<int> stages(const Question& question);
/// Tensor-parallel degrees that a question asks for: those that are pinned, else 1 and powers of two up to 8
/// that divide the GPUs of a node.
[[nodiscard]] std::vector<std::int64_t> tensor_parallel_degrees(const Question& question);
/// Layouts of the question's GPUs by the degrees that it asks for, in the order in which they are planned.
/// Ulysses and a ring exclude each other.
[[nodiscard]] std::vector<ParallelLayout> layouts(const Question& question);
/// A strategy of the question, whose batch is open.
[[nodiscard]] Strategy strategy_of(const Question& question, const ParallelLayout& layout, int stage,
                                   const Offload& offload);
/// The same space with that strategy alone, whose batch and buckets are left as they are.
[[nodiscard]] SearchSpace pinned_to(SearchSpace space, const Strategy& strategy);
/// Offloads likewise: none, the optimizer, everything.
[[nodiscard]] std::vector<Offload> offloads(const Question& question);
/// DeepSpeed's knobs: a config's where one is given; else bucket sizes as asked for, and overlap_comm at
/// stages 1 and 2 too, which DeepSpeed leaves off there: it hides the reduction and lets stage 1 free
/// gradients as they are reduced.
[[nodiscard]] ZeroOptions zero_knobs(const Question& question, int stage);

/// What the machines have no use or no place for: offload where GPU and host share one memory, and to NVMe on
/// an instance without a disk of its own. Empty where the strategy can run.
[[nodiscard]] std::vector<std::string> why_not_on(const Cluster& cluster, const Strategy& strategy);

// ---- batches

/// Fills micro-batch and accumulation of `strategy` from what the question gives; the reason where the global
/// batch cannot be made so.
[[nodiscard]] std::optional<std::string> set_batch(const Question& question, Strategy& strategy,
                                                   std::int64_t micro_batch);

/// The most tokens of one micro-batch that are planned: byte counts stay far inside 64 bits.
inline constexpr std::int64_t kMostTokens = 268'435'456;

/// The largest micro-batch of `strategy` that fits, by bisection (memory grows with it); nothing where 1 does
/// not.
[[nodiscard]] std::optional<std::int64_t> largest_micro_batch(const Question& question, PlanContext& context,
                                                              const Strategy& strategy);

/// A candidate of the question with its micro-batch: where the question leaves it open, the largest that
/// fits.
[[nodiscard]] Strategy sized(const Question& question, PlanContext& context, Strategy strategy);

}  // namespace zplan
