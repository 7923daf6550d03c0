#pragma once
// Replays the parameter coordinator of DeepSpeed's ZeRO-3: which parameters it gathers at which module of a
// step, in which calls, and when it releases them. docs/gathered-parameters.md has the rules.
// Source: DeepSpeed 0.19.8 runtime/zero/partitioned_param_coordinator.py, parameter_offload.py (hooks),
// partition_parameters.py (calls and buffers), stage3.py (the optimizer's step).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "planner/frameworks/deepspeed/zero/hooked_parameters.h"
#include "planner/question/strategy.h"

namespace zplan {

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
  /// Events of the first of two forwards, whose trace the second follows until it enters another module than
  /// the trace has next. 0: none.
  std::int32_t first_forward{};
  bool fp16{};  ///< weights are in fp16, from which and to which they are quantised
  bool operator==(const GatherOptions&) const = default;
};

[[nodiscard]] GatherOptions gather_options(const Strategy& strategy);

/// The memory that a call writes its result into.
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

/// One action of the coordinator.
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

/// Returns the actions of a step. Throws InputError for a tape that check_tape refuses, and without
/// micro-steps or ranks.
[[nodiscard]] StepGathers gather_actions(const ModuleTape& tape, const GatherOptions& options,
                                         StepKind step = StepKind::steady);

/// The gathers of a run: of its first step, and of all others.
struct RunGathers {
  StepGathers first, steady;
};
[[nodiscard]] std::shared_ptr<const RunGathers> gathers_of_run(const ModuleTape& tape,
                                                               const GatherOptions& options);

/// Returns the placement of persistent parameters after the optimizer's step. A single one is gathered even
/// by one rank.
[[nodiscard]] Placement persistent_placement(const ModuleTape& tape, const GatherOptions& options);

/// True if the action sends anything.
[[nodiscard]] inline bool is_collective(const GatherAction& action) {
  const bool call =
      action.kind == GatherAction::Kind::gather || action.kind == GatherAction::Kind::gather_now;
  return call && action.placement != Placement::shard && action.placement != Placement::copied_shard;
}

/// Returns the number of groups that the quantiser scales by themselves in a tensor of `elements`. They have
/// at most 8,000 elements each: the largest multiple of 8 that divides the tensor. DeepSpeed stops where 8
/// does not. Source: DeepSpeed 0.19.8 partition_parameters.py CUDAQuantizer.
[[nodiscard]] std::int64_t quantized_groups(Elements elements);

/// Returns the elements of a call: each parameter is padded to a multiple of `ranks`.
[[nodiscard]] Elements call_elements(std::span<const std::int32_t> parameters,
                                     const std::vector<ShardedParameter>& of, std::int32_t ranks);

}  // namespace zplan
