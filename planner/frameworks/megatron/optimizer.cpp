#include "planner/frameworks/megatron/optimizer.h"

#include <algorithm>

#include "planner/simulation/run.h"

namespace zplan::megatron {

namespace {

constexpr Bytes kFp32{4};

/// Returns the bytes of a moment's element. In fp8 Transformer Engine keeps the transpose, too. Source:
/// Transformer Engine 2.20.2 pytorch/optimizers/fused_adam.py _initialize_state; recorded states
/// (docs/megatron.md).
Bytes state_size(StateType type) { return type == StateType::fp32 ? kFp32 : Bytes(2); }

/// Returns the bytes of fp32 copies of states that one element takes while FusedAdam updates it: of all that
/// are not fp32, unless both moments are bf16. The 16 bits that complete a bf16 weight are read as they are.
/// Source: Transformer Engine 2.20.2 pytorch/optimizers/fused_adam.py FusedAdam.step, get_unscaled_state.
Bytes widened_size(const MegatronOptions& options) {
  const bool reads_bf16 =
      options.first_moments == StateType::bf16 && options.second_moments == StateType::bf16;
  Bytes size;
  for (const StateType each : {options.first_moments, options.second_moments})
    if (each != StateType::fp32 && !reads_bf16) size += kFp32;
  return options.main_params == StateType::fp32 ? size : size + kFp32;
}

/// True if Megatron makes fp32 master weights, which the precision-aware FusedAdam makes by itself. The types
/// of the precision-aware optimizer do not reach the one beside the host's.
bool makes_masters(const MegatronOptions& options) {
  return !options.precision_aware || options.offloads_optimizer;
}

/// Divides the pieces of one of the chained optimizers, each of which has a share of its own.
void divide_of_kind(BufferKind kind, const std::vector<Piece>& pieces, const RankModel& model,
                    const MegatronOptions& options, DividedPieces& divided) {
  Elements all, taken;
  for (const Piece& each : pieces)
    if (each.kind == kind) all += each.elements;
  const double limit =
      options.offloads_optimizer ? static_cast<double>(all.value) * options.offload_fraction : 0;
  for (const bool matrices : {true, false})
    for (const Piece& each : pieces) {
      if (each.kind != kind || (model.tensors[each.tensor].columns > 0) != matrices) continue;
      const bool leaves = static_cast<double>(taken.value) < limit;
      (leaves ? divided.on_host : divided.on_device).push_back(each.elements);
      if (leaves) taken += each.elements;
    }
}

}  // namespace

StateSizes state_sizes(const MegatronOptions& options, int moments) {
  if (makes_masters(options)) return {.master = kFp32, .moments = kFp32 * moments};
  constexpr Bytes kMaster{2};  // fp16, or what completes a bf16 weight
  return {.master = kMaster,
          .moments = state_size(options.first_moments) + state_size(options.second_moments)};
}

DividedPieces divide(const std::vector<Piece>& pieces, const RankModel& model,
                     const MegatronOptions& options) {
  DividedPieces divided;
  for (const BufferKind kind : {BufferKind::dense, BufferKind::experts})
    divide_of_kind(kind, pieces, model, options, divided);
  return divided;
}

void tally_host(const std::vector<Elements>& on_host, int moments, HostTally& tally) {
  for (const Elements each : on_host) {
    tally.pageable(each * kFp32 * (1 + moments));
    tally.pinned(each * kFp32);
  }
}

OptimizerMemory::OptimizerMemory(const StepInputs& in, const std::vector<Piece>& pieces)
    : options_(*in.strategy.megatron),
      moments_(spec(in.training.optimizer).moments),
      pieces_(divide(pieces, in.rank, options_)) {}

void OptimizerMemory::initialise(Device& device) {
  if (!makes_masters(options_)) return;
  for (const Elements each : pieces_.on_device) device.allocate(Term::master_weights, each * kFp32);
}

void OptimizerMemory::zero_gradients(Device& device) { device.release(gradients_); }

void OptimizerMemory::make_states(Device& device) {
  const StateSizes sizes = state_sizes(options_, moments_);
  for (int moment = 0; moment < moments_; ++moment) {
    const StateType type = moment == 0 ? options_.first_moments : options_.second_moments;
    const Bytes size = makes_masters(options_) ? kFp32 : state_size(type);
    for (const Elements each : pieces_.on_device) device.allocate(Term::optimizer_moments, each * size);
  }
  if (makes_masters(options_)) return;
  for (const Elements each : pieces_.on_device) device.allocate(Term::master_weights, each * sizes.master);
}

/// The precision-aware optimizer reads sums of gradients in the type that they have.
void OptimizerMemory::copy_gradients(Device& device) {
  if (!options_.sums_in_bf16() || !makes_masters(options_)) return;
  device.release(gradients_);
  for (const Elements each : pieces_.on_device)
    gradients_.push_back(device.allocate(Term::gradient_copy, each * kFp32));
}

void OptimizerMemory::widen_states(Device& device) {
  if (makes_masters(options_)) return;
  std::vector<Device::Block> copies;
  for (const Elements each : pieces_.on_device)
    copies.push_back(device.allocate(Term::gradient_copy, each * widened_size(options_)));
  device.release(copies);
}

/// Weights come back in fp32 and are cast on the device.
void OptimizerMemory::update_on_host(Device& device) {
  for (const Elements each : pieces_.on_host) device.spike(Term::offload_staging, each * kFp32);
}

void OptimizerMemory::step(Device& device, bool first) {
  if (first) make_states(device);
  copy_gradients(device);
  widen_states(device);
  update_on_host(device);
}

}  // namespace zplan::megatron
