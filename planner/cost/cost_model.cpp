#include "planner/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "planner/step/host_time.h"

namespace zplan {

std::optional<FlopsPerSecond> matrix_peak(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::bf16: return gpu.bf16;
    case Precision::fp16: return gpu.fp16;
    case Precision::fp32: return gpu.fp32;
  }
  return std::nullopt;
}

FlopsPerSecond rate_of(const Gpu& gpu, Precision precision) {
  return matrix_peak(gpu, precision).value_or(gpu.fp32.value_or(FlopsPerSecond(1e12)));
}

namespace {

/// PyTorch's memory-efficient kernels where tiles are not small, by how much longer they take than what this
/// model gives an A100 for FlashAttention-2, 0.551 of its peak. Forward: 5.3 ms for 2 samples of 8192 tokens
/// and 8 heads of 128 (facebookresearch/xformers issue 712). Backward, with a mask as a tensor: 4.33 ms for 2
/// samples of 4096 (NVIDIA/cutlass pull request 992, v3, whose kernels PyTorch has).
constexpr double kFlash = 0.551 * 312e12;
constexpr double kTiledForward = kFlash * 5.3e-3 / (4.0 * 2 * 8 * 128 * 8192 * 8192);
constexpr double kTiledBackward = kFlash * 4.33e-3 / (10.0 * 2 * 8 * 128 * 4096 * 4096);

/// Slowdown of these kernels for heads of more than 128 features, whose results go through global memory
/// instead of registers, by operation. Source: facebookresearch/xformers pull request 587, A100: forward of
/// 64 samples of 1024 tokens and 16 heads 3090 µs with 128 features, 7032 with 256; backward of 16 samples of
/// 512 tokens 1844 and 8278. With small tiles the backward's do not stay there from 128 features on.
constexpr std::int64_t kWidestInRegisters = 128;
constexpr double kWideForward = 7032.0 / (2 * 3090), kWideBackward = 8278.0 / (2 * 1844);

/// Sizes of the squares of a result that a multiprocessor works on, and of the slices of the inner dimension,
/// which products with fewer squares than there are multiprocessors divide, too. Source: NVIDIA, Matrix
/// Multiplication Background User's Guide (tiles, waves, split-k).
constexpr std::int64_t kTile = 128, kSmallTile = 64, kSlice = 512;

/// The widest heads whose backward keeps its results in registers. Source: PyTorch
/// aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernels/generate_kernels.py: the kernel of 96 is
/// for compute capabilities 8.6 and 8.9 alone.
std::int64_t widest_narrow_head(const Gpu& gpu) { return gpu.compute_capability.starts_with("8.") ? 96 : 64; }

double tiles_of(std::int64_t size, std::int64_t tile) {
  return static_cast<double>((size + tile - 1) / tile);
}

}  // namespace

KernelRates::KernelRates(const Cluster& cluster, const Training& training)
    : tail_(cluster.kernels.tail),
      unaligned_(cluster.kernels.unaligned),
      attention_cost_(training.modules.attention_time),
      gap_(cluster.kernels.gap) {
  const Gpu& gpu = cluster.gpu;
  const Efficiency shares = efficiency_of(gpu, cluster.kernels);
  const bool in_units = training.precision != Precision::fp32 && matrix_peak(gpu, training.precision);
  plain_ = gpu.fp32.value_or(FlopsPerSecond(1e12)) * cluster.kernels.plain;
  matrix_ = in_units ? rate_of(gpu, training.precision) * shares.products : plain_;
  in_8_bits_ = gpu.fp8 ? *gpu.fp8 * shares.products : matrix_;
  const bool is_newest =
      training.modules.attention_of_generation && capability_major(gpu.compute_capability) >= 9;
  attention_ =
      in_units ? rate_of(gpu, training.precision) * (is_newest ? shares.products : shares.attention) : plain_;
  memory_ = gpu.memory_bandwidth * shares.memory;
  if (has_small_tiles(gpu) && gpu.multiprocessors && gpu.boost_mhz) {
    const double cycles =
        static_cast<double>(*gpu.multiprocessors) * static_cast<double>(*gpu.boost_mhz) * 1e6;
    const SmallTileAttention& each = cluster.kernels.small_tiles;
    narrow_head_ = widest_narrow_head(gpu);
    tiled_ = {each.forward * cycles, each.backward * cycles, each.narrow_backward * cycles};
  }
  multiprocessors_ = static_cast<double>(gpu.multiprocessors.value_or(100));
}

/// fp32 factors among 16-bit training (adapters, a router, an fp32 head) run on the plain units: PyTorch
/// leaves TF32 off. Products in 8 bits reach the share of their peak that others reach of theirs.
FlopsPerSecond KernelRates::rate(const Product& product) const {
  if (product.element == Bytes(1)) return in_8_bits_;
  return product.element == Bytes(4) ? plain_ : matrix_;
}

/// Rows of a factor or of the result that begin at odd numbers of values, such as logits of GPT-2's 50,257
/// tokens. Columns are features in forward and backward, and so is the inner dimension of the input's
/// gradient; that of the weights' gradient is tokens, which nobody makes odd. The plain units do not mind.
/// Even widths that are no multiples of 16 bytes lose less; how much is not known.
bool KernelRates::is_unaligned(const Product& product) const {
  return product.element != Bytes(4) && (product.columns % 2 != 0 || product.inner % 2 != 0);
}

Seconds KernelRates::time(const Product& product) const {
  const auto number = static_cast<double>(product.batch), inner = static_cast<double>(product.inner);
  const double whole = number * tiles_of(product.rows, kTile) * tiles_of(product.columns, kTile);
  const double sliced = whole * static_cast<double>(std::max<std::int64_t>(1, product.inner / kSlice));
  const double pieces = std::max(whole, std::min(sliced, multiprocessors_));
  const double area = tiles_of(product.rows, kSmallTile) * tiles_of(product.columns, kSmallTile) *
                      static_cast<double>(kSmallTile * kSmallTile);
  const double longer = (1 + tail_ * multiprocessors_ / pieces) * (is_unaligned(product) ? unaligned_ : 1);
  const Seconds computing = Flops(2 * number * area * inner * longer) / rate(product);
  const std::int64_t values =
      product.rows * product.inner + product.inner * product.columns + product.rows * product.columns;
  const Seconds moving = (product.element * (values * product.batch)) / memory_;
  return std::max(computing, moving) * static_cast<double>(product.times);
}

/// At FlashAttention's rate but slower by a factor, and no faster than small tiles are.
Seconds KernelRates::time(const TiledAttention& tiled) const {
  const bool wide = tiled.head_size > kWidestInRegisters;
  const Flops forward = tiled.forward * (wide ? kWideForward : 1);
  const Flops wide_backward = tiled.backward * (wide ? kWideBackward : 1);
  const Seconds by_units = (forward * kTiledForward + wide_backward * kTiledBackward) / attention_;
  if (tiled_.forward == 0) return by_units;
  const double rate = tiled.head_size > narrow_head_ ? tiled_.backward : tiled_.narrow_backward;
  const Seconds by_tiles(forward.value / tiled_.forward + tiled.backward.value / rate);
  return std::max(by_units, by_tiles);
}

LoadTime KernelRates::time(const Load& load) const {
  LoadTime result;
  for (const Product& each : load.products) result.products += time(each);
  const TiledAttention& tiled = load.attention_tiled;
  const Flops others = load.attention_forward + load.attention_backward - tiled.counted;
  result.attention = (others / attention_ + time(tiled)) * attention_cost_;
  result.other = load.moved / memory_ + gap_ * static_cast<double>(load.kernels);
  result.host = host_time::of(load);
  return result;
}

CostModel::CostModel(const Tape& tape, const Cluster& cluster, const Training& training,
                     const Strategy& strategy, std::int64_t experts_of_token)
    : cluster_(cluster), layout_(strategy.layout), rates_(cluster, training) {
  if (strategy.megatron && strategy.megatron->dispatcher == RowDispatcher::flex)
    experts_of_token_ = experts_of_token;
  loads_.reserve(tape.loads.size());
  for (const Load& each : tape.loads) loads_.push_back(rates_.time(each));
}

const CollectivePricer& CostModel::pricer(const Call& call) {
  for (const Priced& each : priced_)
    if (each.operation == call.operation && each.group == call.group && each.ranks == call.group_size &&
        each.stride == call.stride)
      return each.pricer;
  // Stages send to their neighbours, whichever communicator they use.
  const bool is_transfer = call.operation == Operation::send_recv && call.group == Group::world;
  const ProcessGroup placed = process_group(layout_, is_transfer ? Group::pipeline : call.group);
  const std::int64_t ranks = is_transfer ? placed.size : call.group_size;
  priced_.push_back({call.operation, call.group, call.group_size, call.stride,
                     CollectivePricer(cluster_, call.operation,
                                      place_group(cluster_, ranks, placed.stride * call.stride))});
  return priced_.back().pricer;
}

/// A token's rows for several experts of one node, or of one rank where all are in a node, travel once.
double CostModel::sent_share(const Call& call) const {
  if (experts_of_token_ <= 1 || call.operation != Operation::all_to_all || call.group != Group::expert)
    return 1;
  const ProcessGroup placed = process_group(layout_, call.group);
  const GroupPlace place = place_group(cluster_, call.group_size, placed.stride * call.stride);
  const auto ends = static_cast<double>(place.nodes > 1 ? place.nodes : place.ranks);
  const auto rows = static_cast<double>(experts_of_token_);
  return ends * (1 - std::pow(1 - 1 / ends, rows)) / rows;
}

Seconds CostModel::call(const Call& call) {
  const Bytes size = call.elements * call.element;
  return pricer(call).time(Bytes(std::llround(static_cast<double>(size.value) * sent_share(call))));
}

}  // namespace zplan
