#pragma once
// The training run of a rank: what it is made of, and its memory, calls and time.

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

/// The training run of one class of ranks, complete: its part of the model, training, strategy, what its
/// group shards, its slice of the optimizer's states, the recorded micro-step and the schedule of a step.
/// This is the only place where these are put together. A copy shares the part of the model and the
/// recording.
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
  /// Parts that runs of one question share, recorded once.
  struct Parts {
    std::shared_ptr<const Model> model;  ///< the part that the class' ranks hold
    std::shared_ptr<const RankModel> rank;
    std::shared_ptr<const Recording> recording;
  };

  /// The run of rank `rank` of the world; the strategy is legal.
  RankRun(const Model& model, const Training& training, const Strategy& strategy, const Target& target,
          std::int64_t rank = 0);
  /// The run of a class, slice included.
  RankRun(const Model& model, const Training& training, const Strategy& strategy, const Target& target,
          const RankClass& place);
  /// The run of a class from parts that were recorded before.
  RankRun(Parts parts, const Training& training, const Strategy& strategy, Target target,
          const RankClass& place);

  [[nodiscard]] const Model& model() const { return *parts_.model; }
  [[nodiscard]] const Training& training() const { return training_; }
  [[nodiscard]] const Strategy& strategy() const { return strategy_; }
  [[nodiscard]] const RankClass& place() const { return place_; }
  [[nodiscard]] const RankModel& rank() const { return *parts_.rank; }
  [[nodiscard]] const Shard& shard() const { return shard_; }
  /// Returns the rank's slice; empty where the optimizer's states are not sliced (ZeRO 0 and 3, FSDP2, DDP).
  [[nodiscard]] const Slice& slice() const { return slice_; }
  [[nodiscard]] const Recording& recording() const { return *parts_.recording; }

  /// Views of this run, which outlives them.
  [[nodiscard]] StepInputs step() const {
    return {*parts_.model, training_, strategy_, *parts_.rank,
            shard_,        slice_,    *slices_,  parts_.recording.get()};
  }
  [[nodiscard]] RunInputs inputs() const;

  /// Device memory outside PyTorch's allocator: the CUDA context, NCCL's buffers, an engine that stays awake.
  [[nodiscard]] Bytes outside() const { return outside_; }

  /// Simulates requests alone, at a twentieth of the cost of full().
  [[nodiscard]] RunResult live() const { return simulate_live(inputs()); }
  /// Simulates live memory without calls and program.
  [[nodiscard]] RunResult live_memory() const;
  /// Simulates PyTorch's allocator on a GPU with memory to spare.
  [[nodiscard]] RunResult full() const { return simulate(inputs()); }
  /// Simulates PyTorch's allocator on a GPU with `usable` bytes for the process.
  [[nodiscard]] RunResult on(Bytes usable) const { return simulate_within(inputs(), usable - outside_); }
  /// Returns the collectives of the steady step, in order of issue.
  [[nodiscard]] std::vector<Call> calls() const { return live().calls; }
  /// Returns what the steady step of `played`, a result of this run, sends, by kind.
  [[nodiscard]] Schedule schedule(const RunResult& played) const;
  /// Returns the cost of its operations and collectives on `cluster`, which outlives it.
  [[nodiscard]] CostModel cost_model(const Cluster& cluster) const {
    const auto& experts = parts_.model->shape.experts;
    return {parts_.recording->tape, cluster, training_, strategy_, experts ? experts->experts_per_token : 1};
  }
  /// The time of a step whose queues take `run` and which sends `schedule`. Utilisations are those of
  /// `whole`, the model of all ranks.
  [[nodiscard]] StepTime time(const RunTime& run, const Schedule& schedule, const Cluster& cluster,
                              const Model& whole) const {
    return step_time(whole, training_, strategy_, cluster, shard_, schedule, run);
  }
  /// The time of a step of `played`, which sends `schedule`, where no other rank is waited for and this one
  /// holds a part of everything.
  [[nodiscard]] StepTime time(const RunResult& played, const Schedule& schedule, CostModel& cost_model) const;

  /// Returns the runs of the slices that can need most memory; this run alone where ranks hold no slices. It
  /// depends on when the backward reaches the parameters of a rank's slice: the first rank's are reduced
  /// last, the last one's first; where a parameter is split between ranks, one between holds more of whole
  /// gradients than either.
  [[nodiscard]] std::vector<RankRun> of_slices() const;

 private:
  /// True if ranks hold slices of one flat buffer, which differ.
  [[nodiscard]] bool is_sliced() const { return !slices_->empty(); }

  Parts parts_;
  RankClass place_;
  std::shared_ptr<const StepSchedule> schedule_;  ///< of a stage of a pipeline
  Training training_;
  Strategy strategy_;
  Target target_;
  Shard shard_;
  std::shared_ptr<const std::vector<Slice>> slices_;  ///< of all data-parallel ranks
  Slice slice_;
  Bytes engine_, outside_;
};

/// A rank class' run, and its live run where that was simulated to tell it from others.
struct SimulatedRank {
  RankRun run;
  std::optional<RunResult> live{};
};
/// Returns, of the ranks that differ from `run` in their slice alone, the one that needs most memory. All of
/// them run the same program (the test IssuedSteps.AreTheSameOnEveryRank). `noted`: with calls and program of
/// its live run.
[[nodiscard]] SimulatedRank neediest_slice(const RankRun& run, bool noted);

}  // namespace zplan
