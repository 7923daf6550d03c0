#pragma once
// Which parameters DeepSpeed's ZeRO-3 gathers at which module of a step, in which calls, and when it lets go
// of them: its parameter coordinator, replayed. docs/gathered-parameters.md tells the rules in words.
// Source: DeepSpeed 0.19.8 runtime/zero/partitioned_param_coordinator.py, parameter_offload.py (hooks),
// partition_parameters.py (calls and buffers), stage3.py (the optimizer's step).

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "planner/question/strategy.h"

namespace zplan {

/// A parameter as ZeRO-3 shards it. Parameters go by their number: the order in which they were made
/// (DeepSpeed's ds_id; named_parameters() order for models built at once, adapters behind all others).
struct ShardedParameter {
  Elements elements;
  Bytes element_size{2};
  bool trainable{true};
  bool persistent{};     ///< kept whole between steps: mark_persistent()
  std::int32_t group{};  ///< which of several process groups shares it
  std::int32_t ranks{};  ///< that share it; 0: GatherOptions::data_parallel
  bool operator==(const ShardedParameter&) const = default;
};

/// A module that DeepSpeed hooks: every module of the model, containers included, since each one moves the
/// trace on and may prefetch. Modules below a leaf have no hooks and need not be listed.
struct ShardedModule {
  std::vector<std::int32_t> own;  ///< its direct parameters
  /// All parameters below it, its own included. Read only where the model has leaf modules.
  std::vector<std::int32_t> subtree{};
  bool leaf{};  ///< gathered as one with all below it: DeepSpeed does so for blocks of experts
  bool operator==(const ShardedModule&) const = default;
};

/// What happens in a step as far as it concerns parameters.
struct ModuleEvent {
  enum class Kind : std::uint8_t {
    // Hooks of `module`. Recomputation enters and leaves forward inside the backward; where it stops early,
    // the modules it was in are not left.
    enter_forward,
    leave_forward,
    enter_backward,
    leave_backward,
    /// The forward of `module` reads `parameter`, which is another module's. Where that is sharded, DeepSpeed
    /// gathers it at once, and counts it as the module's own from then on: peft reads lora_A.weight.dtype.
    read,
    /// Something refers to the memory of `parameter` from here on, released or not; or does not any more.
    /// Recomputation that is not reentrant saves detached tensors of trained parameters for their backward;
    /// autograd saves the operands of grouped matrix products.
    keep,
    let_go,
  };
  Kind kind{Kind::enter_forward};
  std::int32_t module{-1};
  std::int32_t parameter{-1};
  bool operator==(const ModuleEvent&) const = default;
};

/// The forward and backward of one micro-step, as hooks see it; the same for every micro-step.
struct ModuleTape {
  std::vector<ModuleEvent> events;
  std::vector<ShardedModule> modules;
  std::vector<ShardedParameter> parameters;
  /// All parameters as named_parameters() lists them; empty where that is by number. Adapters, which are made
  /// last, are named with what they adapt.
  std::vector<std::int32_t> named{};
  bool operator==(const ModuleTape&) const = default;
};

/// DeepSpeed's knobs that decide what is gathered when.
struct GatherOptions {
  std::int64_t data_parallel{1};
  std::int64_t micro_steps{1};  ///< gradient_accumulation_steps
  Elements prefetch_bucket_size{50'000'000};
  Elements max_live_parameters{1'000'000'000};  ///< limits prefetching only
  Elements max_reuse_distance{1'000'000'000};
  bool overlap_comm{true};  ///< gathers on a stream of their own
  bool offloaded{};         ///< shards lie on the host
  bool one_by_one{};        ///< stage3_allgather_sequential
  bool by_all_reduce{};     ///< stage3_use_all_reduce_for_fetch_params
  /// zero_hpz_partition_size: ranks that hold a second shard of parameters once gathered.
  std::int64_t secondary_partition{1};
  bool quantized{};   ///< zero_quantized_weights
  bool traces{true};  ///< whether the trace of a micro-step holds for the next one
  /// Events of a forward that only scores, before the only micro-step's own, which follows its trace; the
  /// backward loses it. 0: none.
  std::int32_t scored_events{};
  bool fp16{};  ///< weights are in fp16, from which and to which they are quantised
  bool operator==(const GatherOptions&) const = default;
};

[[nodiscard]] GatherOptions gather_options(const Strategy& strategy);

/// Marks parameters of at most `threshold` elements, as long as they stay within `model_threshold` together.
/// Source: DeepSpeed 0.19.8 parameter_offload.py mark_persistent_parameters.
void mark_persistent(ModuleTape& tape, Elements threshold,
                     Elements model_threshold = Elements(std::numeric_limits<std::int64_t>::max()));

/// Where a call's result lies.
enum class Placement : std::uint8_t {
  own_buffer,     ///< one parameter, padded: the buffer becomes the parameter
  shared_buffer,  ///< several, in one flat buffer; waiting copies each out
  views,          ///< several, in one flat buffer that they share to the end (by_all_reduce)
  shard,          ///< one rank: the shard is the parameter, nothing is sent or allocated
  copied_shard,   ///< one rank, offloaded: a copy of the shard, nothing is sent
};
template <>
struct EnumNames<Placement> {
  static constexpr std::array<std::pair<Placement, std::string_view>, 5> table{
      {{Placement::own_buffer, "own buffer"},
       {Placement::shared_buffer, "shared buffer"},
       {Placement::views, "views"},
       {Placement::shard, "shard"},
       {Placement::copied_shard, "copied shard"}}};
};

/// One thing that the coordinator does.
struct GatherAction {
  enum class Kind : std::uint8_t {
    gather,          ///< a call is issued; its parameters are on their way
    gather_now,      ///< a call that is waited for on the spot: ModuleEvent::Kind::read
    wait,            ///< the parameters of a call are whole
    drop_buffer,     ///< a shared buffer goes: the last of its parameters has been asked for
    release,         ///< parameters are shards again
    keep_secondary,  ///< shards within secondary_partition ranks are set aside
    drop_secondary,
    keep,  ///< as in the tape
    let_go,
  };
  Kind kind{Kind::gather};
  Placement placement{Placement::own_buffer};  ///< of the call
  bool on_compute_stream{};       ///< else on the stream of gathers, where overlap_comm makes one
  std::int32_t event{};           ///< at which event of the tape; their number: after the backward
  std::int32_t call{-1};          ///< of gather, wait and drop_buffer; counts through the step
  std::int32_t ranks{1};          ///< of the call
  bool quantized{};               ///< in 8 bits, with scales in a call of their own
  std::int32_t first{}, count{};  ///< its parameters: GatherPlan::parameters_of
  bool operator==(const GatherAction&) const = default;
};

/// Actions in the order in which they happen. Within one event: what the last micro-step left is let go of
/// (event 0), then gathers, waits, gathers ahead; or releases.
struct GatherPlan {
  std::vector<GatherAction> actions;
  std::vector<std::int32_t> parameters;
  [[nodiscard]] std::span<const std::int32_t> parameters_of(const GatherAction& action) const {
    return std::span(parameters)
        .subspan(static_cast<std::size_t>(action.first), static_cast<std::size_t>(action.count));
  }
  bool operator==(const GatherPlan&) const = default;
};

/// All micro-steps of an optimizer step.
struct StepGathers {
  /// One each, but once a micro-step starts as the one before it did, that one stands for all that follow.
  std::vector<GatherPlan> micro_steps;
  GatherPlan optimizer_step;  ///< everything is let go, then persistent parameters are gathered (event 0)
  [[nodiscard]] const GatherPlan& micro_step(std::size_t index) const {
    return micro_steps[std::min(index, micro_steps.size() - 1)];
  }
};

/// The first step records the trace (its first micro-step prefetches nothing and keeps nothing); from the
/// second on all are alike.
enum class StepKind : std::uint8_t { first, steady };

/// InputError: the tape names modules or parameters that there are not, or has no events; no micro-step, no
/// rank.
[[nodiscard]] StepGathers gather_actions(const ModuleTape& tape, const GatherOptions& options,
                                         StepKind step = StepKind::steady);

/// A run's: its first step, and all others.
struct RunGathers {
  StepGathers first, steady;
};
[[nodiscard]] std::shared_ptr<const RunGathers> gathers_of_run(const ModuleTape& tape,
                                                               const GatherOptions& options);

/// Where persistent parameters lie after the optimizer's step. A single one is gathered even by one rank.
[[nodiscard]] Placement persistent_placement(const ModuleTape& tape, const GatherOptions& options);

/// Whether anything is sent.
[[nodiscard]] inline bool is_collective(const GatherAction& action) {
  const bool call =
      action.kind == GatherAction::Kind::gather || action.kind == GatherAction::Kind::gather_now;
  return call && action.placement != Placement::shard && action.placement != Placement::copied_shard;
}

/// Groups of a tensor of `elements` that the quantiser scales by themselves, of at most 8,000 elements each:
/// the largest that are a multiple of 8 and divide it. Caution: DeepSpeed stops where 8 does not divide it.
/// Source: DeepSpeed 0.19.8 partition_parameters.py CUDAQuantizer.
[[nodiscard]] std::int64_t quantized_groups(Elements elements);

/// Elements that a call puts together: each parameter padded to a multiple of `ranks`.
[[nodiscard]] Elements call_elements(std::span<const std::int32_t> parameters,
                                     const std::vector<ShardedParameter>& of, std::int32_t ranks);

}  // namespace zplan
