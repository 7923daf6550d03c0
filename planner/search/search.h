#pragma once
// From a question to an answer: every strategy that the question leaves open is planned, those that fit are
// ranked by tokens per second, and every other one has a reason.

#include <optional>
#include <string>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "models/base/format.h"
#include "planner/lengths.h"
#include "planner/plan.h"
#include "planner/trainers.h"

namespace zplan {

class PlanContext;

/// What the search varies. An empty list leaves the choice to the search; a value pins it.
struct SearchSpace {
  std::vector<int> zero_stages;
  std::vector<std::int64_t> tensor_parallel;
  std::vector<std::int64_t> sequence_parallel, context_parallel;  ///< empty: 1
  std::vector<std::int64_t> expert_parallel;                      ///< above 1: under AutoEP; empty: 1
  ExpertParallel experts{};   ///< how AutoEP runs; enabled: at degree 1 too
  bool data_before_expert{};  ///< as in ParallelLayout
  LongContext long_context{};
  std::vector<Offload> offloads;
  Checkpointing checkpointing{Checkpointing::full};
  std::optional<std::int64_t> micro_batch_size{1};  ///< absent: the largest that fits
  std::optional<std::int64_t> gradient_accumulation_steps;
  std::optional<std::int64_t> global_batch_size;
  bool micro_batch_follows{};  ///< micro-batch = global batch / accumulation / data-parallel ranks
  Buckets buckets{Buckets::hf_auto};
  std::optional<ZeroOptions> zero;  ///< from a ds_config; wins over `buckets`
  bool operator==(const SearchSpace&) const = default;
};

/// How much is trained on, and what a GPU costs.
struct Budget {
  std::optional<std::int64_t> samples, tokens;  ///< of one epoch; at most one of them
  double epochs{1};
  std::optional<double> price;  ///< of a GPU and hour, in whatever currency
  [[nodiscard]] bool is_known() const { return samples || tokens; }
  bool operator==(const Budget&) const = default;
};

struct Question {
  Model model;
  Cluster cluster;
  Training training;
  SearchSpace space;
  Headroom headroom;
  ByteUnit unit{ByteUnit::gib};  ///< of sizes in sentences
  Budget budget{};
  std::optional<DataLengths> lengths{};  ///< of the data set; plans are for its longest micro-batch
  std::vector<AppliedDefault> trainer_defaults{};  ///< what trainers chose that the user left open
};

/// A combination that cannot be trained, and why.
struct Rejection {
  Strategy strategy;
  std::vector<std::string> reasons;
};

struct Answer {
  std::vector<Plan> plans;  ///< those that fit, fastest first; then the others, nearest miss first
  std::vector<Rejection> rejected;
  std::optional<Plan> alternative;  ///< where nothing fits: the best outside of what was pinned
  /// The options beside --zero, --tp and --offload that the alternative changes: "--method lora", or nothing.
  std::string alternative_change;
  std::vector<std::string> warnings;

  [[nodiscard]] bool fits() const { return !plans.empty() && plans.front().fits; }
  /// The plan to take; nothing where nothing fits.
  [[nodiscard]] const Plan* recommended() const { return fits() ? &plans.front() : nullptr; }
};

/// Throws InputError where the options contradict each other (batch arithmetic), or where what was pinned
/// leaves not one legal combination: that names the reasons.
[[nodiscard]] Answer answer(const Question& question);

/// What answer() will say, sooner, for who watches while a figure changes: one plan, that called `wanted` or
/// else the first, has all its figures; of the others `memory.required` is at its low end. There are neither
/// sentences nor an alternative, and what does not fit stands in the order of its low ends. `likely` is the
/// id of the plan that is probably the one: it is worked out beside the others rather than after them.
[[nodiscard]] Answer draft_answer(const Question& question, std::string_view wanted = {},
                                  std::string_view likely = {});

/// Of answer() the plan called `id` alone, with all its figures; nothing where it is not legal.
[[nodiscard]] std::optional<Plan> plan_called(const Question& question, std::string_view id);

/// Legal and illegal combinations of a space, in the order in which they are planned.
struct Candidates {
  std::vector<Strategy> legal;
  std::vector<Rejection> rejected;
};
[[nodiscard]] Candidates candidates(const Question& question);

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

/// Whether `a` comes before `b` in an answer: what fits, fastest first; then misses, those of the host alone
/// first, then the one that needs least.
[[nodiscard]] bool better_plan(const Plan& a, const Plan& b);

/// The most tokens of one micro-batch that are planned: byte counts stay far inside 64 bits.
inline constexpr std::int64_t kMostTokens = 268'435'456;

/// The largest micro-batch of `strategy` that fits, by bisection (memory grows with it); nothing where 1 does
/// not.
[[nodiscard]] std::optional<std::int64_t> largest_micro_batch(const Question& question, PlanContext& context,
                                                              const Strategy& strategy);

}  // namespace zplan
