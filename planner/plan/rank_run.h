#pragma once
// One rank's training run: what it is made of, and everything that is asked of it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/step_time.h"
#include "planner/simulation/run.h"

namespace zplan {

/// The training run of one rank, complete: model, training, strategy, the rank's share of the model, what its
/// group shards, its slice of the optimizer's states and the recorded micro-step. This is the only place
/// where these are put together. A copy shares the model, the rank's share of it and the recording.
class RankRun {
 public:
  /// The GPU and the node that a run depends on.
  struct Target {
    std::string compute_capability{"8.0"};
    std::int64_t gpus_per_node{};  ///< 0: all GPUs in one node
    Bytes device{};                ///< what a process can allocate of the GPU, which an engine has a share of
  };
  static Target target_of(const Cluster& cluster) {
    return {cluster.gpu.compute_capability, cluster.gpus_per_node, cluster.usable_memory};
  }
  /// What runs of one question have in common, recorded once.
  struct Parts {
    std::shared_ptr<const Model> model;
    std::shared_ptr<const RankModel> rank;
    std::shared_ptr<const Recording> recording;
  };

  /// The run of rank `rank` of the world; the strategy is legal.
  RankRun(const Model& model, const Training& training, const Strategy& strategy, Target target,
          std::int64_t rank = 0);
  /// The run of data-parallel rank 0 from parts that were recorded before.
  RankRun(Parts parts, const Training& training, const Strategy& strategy, Target target);

  [[nodiscard]] const Model& model() const { return *parts_.model; }
  [[nodiscard]] const Training& training() const { return training_; }
  [[nodiscard]] const Strategy& strategy() const { return strategy_; }
  [[nodiscard]] const RankModel& rank() const { return *parts_.rank; }
  [[nodiscard]] const Shard& shard() const { return shard_; }
  /// Empty where the optimizer's states are not sliced (ZeRO 0 and 3, FSDP2, DDP).
  [[nodiscard]] const Slice& slice() const { return slice_; }
  [[nodiscard]] const Recording& recording() const { return *parts_.recording; }

  /// Views of this run, which outlives them.
  [[nodiscard]] StepInputs step() const {
    return {*parts_.model, training_, strategy_, *parts_.rank, shard_, slice_, *slices_};
  }
  [[nodiscard]] RunInputs inputs() const;

  /// Device memory outside PyTorch's allocator: the CUDA context, NCCL's buffers, an engine that stays awake.
  [[nodiscard]] Bytes outside() const { return outside_; }

  /// By what is requested alone; at a twentieth of the cost of full().
  [[nodiscard]] RunResult live() const { return simulate_live(inputs()); }
  /// The same without calls and program.
  [[nodiscard]] RunResult live_memory() const;
  /// On a GPU with memory to spare, through PyTorch's allocator.
  [[nodiscard]] RunResult full() const { return simulate(inputs()); }
  /// On a GPU with `usable` bytes for the process.
  [[nodiscard]] RunResult on(Bytes usable) const { return simulate_within(inputs(), usable - outside_); }
  /// The collectives of the steady step, in order of issue.
  [[nodiscard]] std::vector<Call> calls() const { return live().calls; }
  /// What the steady step of `played` sends, by kind. `played` is a result of this run.
  [[nodiscard]] Schedule schedule(const RunResult& played) const;
  /// What its operations and collectives take on `cluster`, which outlives that.
  [[nodiscard]] CostModel cost_model(const Cluster& cluster) const {
    return {parts_.recording->tape, cluster, training_, strategy_};
  }
  /// The time of a step of `played`, which sends `schedule`.
  [[nodiscard]] StepTime time(const RunResult& played, const Schedule& schedule, CostModel& cost_model) const;

  /// The runs of those ranks that can need most memory; this one alone where all ranks are alike. It depends
  /// on when the backward reaches the parameters of a rank's slice: the first rank's are reduced last, the
  /// last one's first; where a parameter is split between ranks, one between holds more of whole gradients
  /// than either.
  [[nodiscard]] std::vector<RankRun> distinct_ranks() const;

 private:
  /// Ranks hold slices of one flat buffer, which differ.
  [[nodiscard]] bool is_sliced() const { return !slices_->empty(); }

  Parts parts_;
  Training training_;
  Strategy strategy_;
  Target target_;
  Shard shard_;
  std::shared_ptr<const std::vector<Slice>> slices_;  ///< of all data-parallel ranks
  Slice slice_;
  Bytes engine_, outside_;
};

/// The rank that a plan speaks of: the one that needs most memory. Data-parallel ranks run the
/// same program (the test IssuedSteps.AreTheSameOnEveryRank), and of a ring and of an expert-parallel group
/// the slowest rank is recorded (RecordedRank), so its time is the slowest's too.
struct WorstRank {
  RankRun run;
  std::optional<RunResult> live{};  ///< its live run, where that told it from others
};
/// `run`: of any data-parallel rank. `noted`: the live run's calls and program are asked for, too.
[[nodiscard]] WorstRank worst_rank(const RankRun& run, bool noted);

}  // namespace zplan
