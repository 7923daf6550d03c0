#pragma once
// The order of an optimizer step: forwards and backwards of micro-batches, what a pipeline's stages send each
// other, the optimizer step. A new schedule is a function that makes a StepSchedule.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zplan {

struct Strategy;
struct Training;

/// One thing that a rank does in an optimizer step.
struct Slot {
  enum class Kind : std::uint8_t {
    forward,
    backward,          ///< gradients of inputs and weights
    input_gradient,    ///< gradients of inputs alone: the first part of a backward in two parts
    weight_gradient,   ///< gradients of weights alone, its second part
    receive_hidden,    ///< hidden states from the stage before
    send_hidden,       ///< hidden states to the next stage
    receive_gradient,  ///< the gradient of the hidden states that were sent
    send_gradient,     ///< the gradient of the hidden states that were received
    free_sent,         ///< frees hidden states that a send kept
    reduce,            ///< reduces gradients, where the framework does not do so behind each backward
    unshard,           ///< gathers the parameters of a chunk of layers
    reshard,           ///< releases them
    step,              ///< the optimizer step
  };
  Kind kind{Kind::forward};
  std::int64_t micro_batch{};  ///< number within the optimizer step
  /// Which of the rank's tapes runs: 0, but for samples of another length, and for another of the chunks of
  /// layers that a rank holds.
  std::size_t tape{};
  bool last{};      ///< whether no other backward follows before the optimizer step
  bool is_split{};  ///< the micro-batch's backward in this chunk of layers is in two parts
  // Transfers alone have these.
  bool awaited{};  ///< computation goes on once it is through; else where it needs what was received
  /// True if the transferred tensor stays allocated: sent hidden states until free_sent, received ones until
  /// the optimizer step.
  bool kept{};
  bool over_world{};    ///< over the communicator of all ranks, not the pipeline's
  bool is_local{};      ///< to another chunk of layers of this rank: nothing is sent
  bool is_backwards{};  ///< the chunk's next part is on the stage before this one
  bool operator==(const Slot&) const = default;

  [[nodiscard]] bool first() const { return micro_batch == 0; }
};

/// Slots that are simulated together.
struct Round {
  std::vector<Slot> slots;
  std::int64_t repeats{1};  ///< how often they come; each time micro-batches count on
  bool steady{};            ///< whether they stand for all rounds like them, even where there is but one
  bool operator==(const Round&) const = default;

  /// Returns how many micro-batches begin in the round, in whichever chunk of layers is the first to run.
  [[nodiscard]] std::int64_t begun() const;
};

/// All slots of a rank from the first micro-batch to the end of the optimizer step. Where many rounds are
/// alike (gradient accumulation, the middle of a pipeline's step), one stands for all.
struct StepSchedule {
  std::vector<Round> rounds;
  bool operator==(const StepSchedule&) const = default;
};

/// Returns the order of stage `stage` of a pipeline as the framework runs it (FrameworkSpec::schedule).
[[nodiscard]] StepSchedule schedule_of_stage(const Training& training, const Strategy& strategy,
                                             std::int64_t stage);

/// Returns the schedule with every repetition written out.
[[nodiscard]] StepSchedule unfolded(const StepSchedule& schedule);

/// Returns the slots of the first and the last micro-batch alone, in their order.
[[nodiscard]] StepSchedule at_ends(const StepSchedule& schedule);

/// Returns a schedule whose optimizer step follows `passes` passes of `micro_batches` micro-batches each, of
/// which `schedule` has one.
[[nodiscard]] StepSchedule repeated(const StepSchedule& schedule, std::int64_t passes,
                                    std::int64_t micro_batches);

/// Returns how many micro-batches of a step differ from each other: the first, one that stands for all
/// between, the last.
[[nodiscard]] constexpr std::int64_t distinct_micro_batches(std::int64_t micro_batches) {
  return micro_batches < 3 ? micro_batches : 3;
}
/// Returns how many micro-batches the middle one stands for; 1 where there is none.
[[nodiscard]] constexpr std::int64_t repeats_of(std::int64_t micro_batches) {
  return micro_batches > 2 ? micro_batches - 2 : 1;
}

/// Returns forward and backward of each micro-batch in turn, then the optimizer step.
[[nodiscard]] StepSchedule accumulate_gradients(std::int64_t micro_batches);

/// Returns micro-batches of several lengths: tapes 1, 2, … `tapes` − 1, then tape 0, each once, with an
/// optimizer step behind every `micro_batches` of them and behind the last.
[[nodiscard]] StepSchedule accumulate_lengths(std::size_t tapes, std::int64_t micro_batches);

/// Returns 1F1B for stage `stage` of a pipeline of `stages`: as many forwards as stages follow, then a
/// forward and a backward in turn, then the remaining backwards. Source: Megatron-LM
/// core/pipeline_parallel/schedules.py forward_backward_pipelining_without_interleaving.
[[nodiscard]] StepSchedule one_forward_one_backward(std::int64_t stage, std::int64_t stages,
                                                    std::int64_t micro_batches);

/// Interleaving describes an interleaved schedule, in which each stage holds several chunks of layers.
struct Interleaving {
  std::int64_t stages{1}, chunks{1}, micro_batches{1};
  std::int64_t group{1};  ///< micro-batches that a chunk runs before the next chunk does
  bool overlaps{true};    ///< transfers run beside computation where forwards and backwards alternate
  bool overlaps_ends{};   ///< elsewhere, too
};

/// Returns the interleaved 1F1B of stage `stage`; a slot's tape is the chunk. Source: Megatron-Core 0.19.2
/// core/pipeline_parallel/schedules.py forward_backward_pipelining_with_interleaving, p2p_communication.py
/// _p2p_ops and _batched_p2p_ops; compared with recorded steps (docs/megatron.md).
[[nodiscard]] StepSchedule interleaved_one_forward_one_backward(std::int64_t stage, const Interleaving& of);

/// TorchPipeline describes a schedule of torch.distributed.pipelining in which each rank holds several chunks
/// of layers.
struct TorchPipeline {
  /// By torch's class: ScheduleInterleaved1F1B, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble,
  /// ScheduleZBVZeroBubble and ScheduleDualPipeV, under both of which chunks form a V.
  enum class Order : std::uint8_t {
    interleaved,
    breadth_first,
    interleaved_zero_bubble,
    zero_bubble_v,
    dual_pipe_v
  };
  std::int64_t stages{1}, chunks{2}, micro_batches{1};
  Order order{Order::interleaved};
  bool operator==(const TorchPipeline&) const = default;
};

/// Return torch's 1F1B and GPipe for stage `stage` of a pipeline of `stages`, whose gradients are reduced
/// behind the last backward. Source: torch 2.14.1 distributed/pipelining/schedules.py Schedule1F1B,
/// ScheduleGPipe.
[[nodiscard]] StepSchedule torch_one_forward_one_backward(std::int64_t stage, std::int64_t stages,
                                                          std::int64_t micro_batches);
[[nodiscard]] StepSchedule torch_gpipe(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches);

/// Returns a schedule of several chunks of layers for rank `stage`; a slot's tape is the chunk. Source: torch
/// 2.14.1 distributed/pipelining/schedules.py.
[[nodiscard]] StepSchedule torch_looped(std::int64_t stage, const TorchPipeline& of);

}  // namespace zplan
