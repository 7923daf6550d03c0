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

/// Candidates holds the legal and illegal combinations of a space, in the order in which they are planned.
struct Candidates {
  std::vector<Strategy> legal;
  std::vector<Rejection> rejected;
};
[[nodiscard]] Candidates candidates(const Question& question);
/// Returns candidates() where at least one is legal. Throws InputError with the reasons where none is.
[[nodiscard]] Candidates legal_candidates(const Question& question);

/// Returns the stages of a question: those that are pinned, else all that its framework has.
[[nodiscard]] std::vector<int> stages(const Question& question);
/// Returns the tensor-parallel degrees of a question: those that are pinned, else 1 and powers of two up to 8
/// that divide the GPUs.
[[nodiscard]] std::vector<std::int64_t> tensor_parallel_degrees(const Question& question);
/// Returns the numbers of pipeline stages of a question: those that are pinned, else 1 and powers of two up
/// to 64 that divide GPUs and layers, where the framework has stages.
[[nodiscard]] std::vector<std::int64_t> pipeline_degrees(const Question& question);
/// Returns layouts of the question's GPUs by its degrees, in the order in which they are planned. Ulysses and
/// a ring exclude each other.
[[nodiscard]] std::vector<ParallelLayout> layouts(const Question& question);
/// Opens the axes of a framework with stages that the question leaves at 1: chunks of layers on each stage,
/// context and expert parallelism, replicas. For a search, which can say of thousands of layouts that they
/// lose.
void open_layouts(Question& question);
/// Returns a strategy of the question, whose batch is open.
[[nodiscard]] Strategy strategy_of(const Question& question, const ParallelLayout& layout, int stage,
                                   const Offload& offload);
/// Returns `space` pinned to `strategy`. Batch and buckets stay as they are.
[[nodiscard]] SearchSpace pinned_to(SearchSpace space, const Strategy& strategy);
/// Returns the offloads of a question: those that are pinned, else all that its framework has.
[[nodiscard]] std::vector<Offload> offloads(const Question& question);
/// Returns DeepSpeed's knobs: those of a config where one is given; else these bucket sizes, and overlap_comm
/// at stages 1 and 2 too. DeepSpeed leaves it off there, yet it hides the reduction and lets
/// stage 1 free gradients as they are reduced.
[[nodiscard]] ZeroOptions zero_knobs(const Question& question, int stage, Buckets buckets);

/// Returns why the machines cannot run the strategy: offload where GPU and host share one memory, or to NVMe
/// on an instance without a disk of its own. Empty where they can.
[[nodiscard]] std::vector<std::string> why_not_on(const Cluster& cluster, const Strategy& strategy);

// ---- batches

/// Micro-batches of a step for each pipeline stage where nothing makes a batch: stages then wait at most a
/// quarter of the time that they work. Source: Narayanan et al. 2021, section 2.2.1.
constexpr std::int64_t kMicroBatchesPerStage = 4;

/// Returns the micro-batches of a step where nothing makes a batch: 1 without pipeline stages.
[[nodiscard]] std::int64_t usual_micro_batches(const ParallelLayout& layout);

/// Sets micro-batch and accumulation of `strategy` from the question. Returns the reason where they cannot
/// make the global batch.
[[nodiscard]] std::optional<std::string> set_batch(const Question& question, Strategy& strategy,
                                                   std::int64_t micro_batch);

/// The most tokens of one micro-batch that are planned, so that byte counts stay far below 2^63.
inline constexpr std::int64_t kMostTokens = 268'435'456;

/// Returns the largest micro-batch of `strategy` that fits, by bisection, since memory grows with it; nothing
/// where 1 does not fit.
[[nodiscard]] std::optional<std::int64_t> largest_micro_batch(const Question& question, PlanContext& context,
                                                              const Strategy& strategy);

/// Returns a candidate with its micro-batch: where the question leaves it open, the largest that fits.
[[nodiscard]] Strategy sized(const Question& question, PlanContext& context, Strategy strategy);

}  // namespace zplan
