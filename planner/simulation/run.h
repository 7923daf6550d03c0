#pragma once
// A training run as its allocations: the model is made, the framework sets up its states, and optimizer steps
// are played, the last of which is the steady state (states exist, ZeRO-3 knows its module order).

#include <optional>
#include <span>
#include <string_view>

#include "planner/layout/rank_class.h"
#include "planner/layout/step_schedule.h"
#include "planner/model_trace/condensed.h"
#include "planner/sharding/rank_model.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/device.h"
#include "planner/simulation/memory_plan.h"
#include "planner/step/call.h"
#include "planner/step/clock.h"

namespace zplan {

/// What a step's memory is made from, by reference; RankRun owns it.
struct StepInputs {
  const Model& model;
  const Training& training;
  const Strategy& strategy;
  const RankModel& rank;
  const Shard& shard;
  const Slice& slice;               ///< of the rank in question; empty at stages 0 and 3
  std::span<const Slice> slices{};  ///< of all data-parallel ranks; empty likewise
};

/// The tape of a micro-step, whole and condensed.
struct Recording {
  Tape tape;
  CondensedTape condensed;
};
/// One number for each token of a micro-batch on the device: 8 B.
[[nodiscard]] inline Bytes token_ids(std::int64_t micro_batch_size, std::int64_t tokens) {
  return Bytes(8) * micro_batch_size * tokens;
}
/// How many of them a micro-step is given: where ranks divide a sample's tokens, positions and shifted labels
/// come with the ids.
[[nodiscard]] inline std::int64_t numbers_per_token(const Strategy& strategy) {
  return strategy.layout.token_ranks() > 1 ? 3 : 1;
}
/// Records the micro-step of `model`, the part that ranks of class `place` hold (model_part).
[[nodiscard]] Recording record(const Model& model, const Training& training, const Strategy& strategy,
                               const RankClass& place, std::string_view compute_capability);

/// A micro-step whose samples have another length than the longest.
struct VariedMicroStep {
  std::int64_t sequence_length{};
  Recording recording;
};

/// What a run is made from, by reference; RankRun owns it.
struct RunInputs {
  StepInputs step;
  const Recording& recording;
  std::string_view compute_capability;
  /// Micro-steps of other lengths, in the order in which they come, before each of the longest. The live peak
  /// stays the longest's; what the allocator keeps does not: a block made for a shorter one is of no use to
  /// a longer one.
  const std::vector<VariedMicroStep>* varied{};
  std::int64_t gpus_per_node{};           ///< 0: all on one
  bool notes_calls{true};                 ///< RunResult::calls and program are asked for
  bool logs_memory{};                     ///< of a live run: RunResult::live is asked for, and not
                                          ///< what memory is taken for
  std::vector<BlockRequest>* requests{};  ///< where every block that is asked for is to be told
  /// Of the GPU, what the allocator cannot have: a CUDA context, NCCL's buffers, an engine that stays awake.
  Bytes outside{};
  Bytes engine{};                  ///< of that, the engine
  Bytes device{};                  ///< what a process can allocate of the GPU; 0: not asked for
  bool flattens_on_host{};         ///< on a GPU without limit: as on one that has no memory for it
  RankClass place{};               ///< whose run it is
  const StepSchedule* schedule{};  ///< null: forward and backward of each micro-batch in turn
  std::optional<Bytes> watched{};  ///< of the allocator without limit: RunResult::before_more is asked for
};

/// Where the run flattens the trained weights as it starts, which the GPU's memory decides (ZeRO 1 and 2).
struct Flattening {
  Bytes card;      ///< GPUs of so much memory and more do it on the device, smaller ones on the host
  Bytes reserved;  ///< what the allocator then has of the GPU with the flat copy
  Bytes on_host;   ///< what it takes of host memory for a moment where it is done there

  /// GPUs that do it on the device and then have no memory: of these the allocator cannot have `outside`.
  [[nodiscard]] CardRange failing(Bytes outside) const { return {card, reserved + outside}; }
};

struct RunResult {
  bool completed{};                         ///< false: memory ran out
  Peak peak;                                ///< of the steady step, by what was asked for
  std::array<PhasePeak, kPhases> phases{};  ///< of the steady step
  PhasePeak initialisation;                 ///< from the first allocation to the first step
  PhasePeak least_initialisation;           ///< the same on the GPU that does it with least
  std::optional<Flattening> flattening;     ///< absent where no GPU decides it
  Bytes peak_allocated;                     ///< of the steady step
  Bytes peak_reserved;                      ///< of the whole run
  Bytes held;                               ///< between steps, as handed out
  Composition left;                         ///< between steps, by what was asked for
  std::vector<Moment> timeline;
  std::vector<Call> calls;  ///< of the steady step
  StepProgram program;      ///< likewise: what its time is worked out from
  LiveProgram live;         ///< likewise, where it is asked for
  AllocatorTrace asked;     ///< of the allocator, on a GPU with memory to spare
  /// Where it first took more than RunInputs::watched: GPUs of so much and more do the same until then.
  std::optional<AllocatorReplay> before_more;
  /// What initialisation asks of it with `least_initialisation`; empty where no GPU decides it.
  AllocatorTrace least_start;
};

/// The allocator as the training configures it, on a GPU without limit.
[[nodiscard]] AllocatorOptions allocator_options(const Training& training);

/// Plays the run on a GPU with memory to spare, whose allocator is as the training configures it.
[[nodiscard]] RunResult simulate(const RunInputs& inputs);

/// The same run where there is no memory to flatten weights on the device; it tells nobody what it asks for.
[[nodiscard]] RunInputs flattening_on_host(RunInputs inputs);

/// simulate() of it.
[[nodiscard]] RunResult simulate_flattening_on_host(const RunInputs& inputs);

/// Of simulate(), by its initialisation alone.
[[nodiscard]] std::optional<Flattening> flattening_of(const RunInputs& inputs);

/// The same on a GPU that gives the allocator `pool` bytes, and has `outside` besides.
[[nodiscard]] RunResult simulate_within(const RunInputs& inputs, Bytes pool);

/// Counts only what is asked for: no allocator, and the condensed tape. It starts with as little as on any
/// GPU.
[[nodiscard]] RunResult simulate_live(const RunInputs& inputs);
/// The same from the whole tape: what the condensed one must equal.
[[nodiscard]] RunResult simulate_live_from_whole_tape(const RunInputs& inputs);

}  // namespace zplan
