#pragma once
// A training run as its allocations: the model is made, the framework sets up its states, and optimizer steps
// are played, the last of which is the steady state (states exist, ZeRO-3 knows its module order).

#include <optional>
#include <span>
#include <string_view>

#include "planner/layout/rank_class.h"
#include "planner/model_trace/condensed.h"
#include "planner/sharding/rank_model.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/device.h"
#include "planner/simulation/memory_plan.h"
#include "planner/step/call.h"
#include "planner/step/clock.h"
#include "planner/step/step_schedule.h"

namespace zplan {

struct Recording;

/// Inputs of a step's memory, by reference; RankRun owns them.
struct StepInputs {
  const Model& model;
  const Training& training;
  const Strategy& strategy;
  const RankModel& rank;
  const Shard& shard;
  const Slice& slice;               ///< of the rank; empty at stages 0 and 3
  std::span<const Slice> slices{};  ///< of all data-parallel ranks; empty at stages 0 and 3
  const Recording* recording{};     ///< of the rank's micro-step
};

/// The tape of a micro-step, whole and condensed.
struct Recording {
  Tape tape;
  CondensedTape condensed;
  /// Recordings of a rank's further chunks of layers (virtual stages) that differ from the first chunk, and
  /// the place of each chunk's recording: 0 is this one. Loads of all are in `tape`.
  std::vector<Recording> others{};
  std::vector<std::size_t> order{0};
  /// Places of the chunks' recordings with the backward in two parts; empty where no schedule asks for that.
  /// The model's first part gets no gradient of an input: all of its backward is the second part.
  std::vector<std::size_t> splits{};

  [[nodiscard]] std::size_t chunks() const { return order.size(); }
  [[nodiscard]] const Recording& chunk(std::size_t i) const { return at(order[i]); }
  [[nodiscard]] const Recording& split_chunk(std::size_t i) const { return at(splits[i]); }

 private:
  [[nodiscard]] const Recording& at(std::size_t place) const {
    return place == 0 ? *this : others[place - 1];
  }
};
/// Returns the bytes of one number for each token of a micro-batch on the device, 8 B each.
[[nodiscard]] inline Bytes token_ids(std::int64_t micro_batch_size, std::int64_t tokens) {
  return Bytes(8) * micro_batch_size * tokens;
}
/// Returns how many such numbers a micro-step is given: in torchtitan, and where ranks divide a sample's
/// tokens, positions and shifted labels come with the ids.
[[nodiscard]] inline std::int64_t numbers_per_token(const Strategy& strategy) {
  return strategy.torchtitan || strategy.layout.token_ranks() > 1 ? 3 : 1;
}
/// Records the micro-step of `model`, the part that ranks of class `place` hold (model_part).
[[nodiscard]] Recording record(const Model& model, const Training& training, const Strategy& strategy,
                               const RankClass& place, std::string_view compute_capability);

/// A micro-step whose samples have another length than the longest.
struct VariedMicroStep {
  std::int64_t sequence_length{};
  Recording recording;
};

/// Inputs of a run, by reference; RankRun owns them.
struct RunInputs {
  StepInputs step;
  const Recording& recording;
  std::string_view compute_capability;
  /// Micro-steps of other lengths, in the order in which they come, before each of the longest. The live peak
  /// stays the longest's; what the allocator keeps does not: a block made for a shorter one is of no use to
  /// a longer one.
  const std::vector<VariedMicroStep>* varied{};
  std::int64_t gpus_per_node{};           ///< 0: all on one
  bool notes_calls{true};                 ///< writes RunResult::calls and program
  bool logs_memory{};                     ///< of a live run: writes RunResult::live instead of terms
  std::vector<BlockRequest>* requests{};  ///< receives every requested block; null: not noted
  /// Bytes of the GPU that the allocator cannot have: a CUDA context, NCCL's buffers, an engine that stays
  /// awake.
  Bytes outside{};
  Bytes engine{};                  ///< of that, the engine
  Bytes device{};                  ///< what a process can allocate of the GPU; 0: not asked for
  bool flattens_on_host{};         ///< on a GPU without limit: as on one that has no memory for it
  RankClass place{};               ///< whose run it is
  const StepSchedule* schedule{};  ///< null: forward and backward of each micro-batch in turn
  std::optional<Bytes> watched{};  ///< of the allocator without limit: writes RunResult::before_more
};

/// Memory of flattening the trained weights as a run starts, on the GPU or on the host by the GPU's size
/// (ZeRO 1 and 2).
struct Flattening {
  Bytes gpu;       ///< GPUs of so much memory and more do it on the device, smaller ones on the host
  Bytes reserved;  ///< what the allocator then has of the GPU with the flat copy
  Bytes on_host;   ///< what it takes of host memory for a moment where it is done there

  /// GPUs that do it on the device and then have no memory: of these the allocator cannot have `outside`.
  [[nodiscard]] GpuRange failing(Bytes outside) const { return {gpu, reserved + outside}; }
};

struct RunResult {
  bool completed{};                         ///< false: memory ran out
  Peak peak;                                ///< of the steady step, as requested
  std::array<PhasePeak, kPhases> phases{};  ///< of the steady step
  PhasePeak initialisation;                 ///< from the first allocation to the first step
  PhasePeak least_initialisation;           ///< the same on the GPU that does it with least
  std::optional<Flattening> flattening;     ///< absent where no GPU decides it
  Bytes peak_allocated;                     ///< of the steady step
  Bytes peak_reserved;                      ///< of the whole run
  Bytes held;                               ///< between steps, as handed out
  Composition left;                         ///< between steps, as requested
  std::vector<Moment> timeline;
  std::vector<Call> calls;  ///< of the steady step
  StepProgram program;      ///< of the steady step, for the queues
  LiveProgram live;         ///< of the steady step, with RunInputs::logs_memory
  AllocatorTrace asked;     ///< the allocator's requests, on a GPU with memory to spare
  /// The allocator before it first took more than RunInputs::watched: GPUs of that size and larger do the
  /// same until then.
  std::optional<AllocatorReplay> before_more;
  /// Requests of the initialisation that `least_initialisation` is of; empty where no GPU decides it.
  AllocatorTrace least_start;
};

/// Returns the allocator's options as the training configures it, on a GPU without limit.
[[nodiscard]] AllocatorOptions allocator_options(const Training& training);

/// Simulates the run on a GPU with memory to spare, whose allocator is as the training configures it.
[[nodiscard]] RunResult simulate(const RunInputs& inputs);

/// Returns the run where there is no memory to flatten weights on the device; it notes no requests.
[[nodiscard]] RunInputs flattening_on_host(RunInputs inputs);

/// Simulates such a run.
[[nodiscard]] RunResult simulate_flattening_on_host(const RunInputs& inputs);

/// Returns RunResult::flattening of simulate(), by initialisation alone.
[[nodiscard]] std::optional<Flattening> flattening_of(const RunInputs& inputs);

/// Simulates the run on a GPU that gives the allocator `pool` bytes, and has `outside` besides.
[[nodiscard]] RunResult simulate_within(const RunInputs& inputs, Bytes pool);

/// Simulates the run by requests alone: without an allocator, over the condensed tape. It starts with as
/// little memory as on any GPU.
[[nodiscard]] RunResult simulate_live(const RunInputs& inputs);
/// Simulates the same over the whole tape, whose result the condensed one must equal.
[[nodiscard]] RunResult simulate_live_from_whole_tape(const RunInputs& inputs);

}  // namespace zplan
