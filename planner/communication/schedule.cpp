#include "planner/communication/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/sharding/buckets.h"

namespace zplan {

namespace {

std::string_view dtype_name(const Training& training) {
  switch (training.precision) {
    case Precision::bf16: return "bfloat16";
    case Precision::fp16: return "float16";
    case Precision::fp32: return "float32";
  }
  return "?";
}

Bytes dtype_size(std::string_view dtype) {
  if (dtype == "float64") return Bytes(8);
  if (dtype == "float32") return Bytes(4);
  return Bytes(dtype == "uint8" ? 1 : 2);
}

/// Collects calls; those of a group of one are none.
class Issuer {
 public:
  Issuer(const Model& model, const Training& training, const Strategy& strategy, const RankModel& rank,
         const Shard& shard)
      : model_(model),
        training_(training),
        s_(strategy),
        rank_(rank),
        shard_(shard),
        dtype_(dtype_name(training)) {}

  Schedule issue() {
    if (s_.tensor_parallel > 1) tensor_parallel();
    switch (s_.zero_stage) {
      case 0: reduce_gradients(1), norm_of_plain_optimizer(); break;
      case 1: reduce_gradients(1), update_weights(); break;
      case 2: reduce_gradients(s_.gradient_accumulation_steps), update_weights(); break;
      default: zero3(); break;
    }
    offload();
    return std::move(schedule_);
  }

 private:
  void call(Operation operation, Group group, Phase phase, std::string_view dtype, std::string_view purpose,
            std::int64_t count, Elements elements) {
    const std::int64_t ranks = group == Group::data ? s_.data_parallel : s_.tensor_parallel;
    if (ranks == 1 || count == 0) return;
    const Bytes bytes = elements * dtype_size(dtype);
    schedule_.collectives.push_back({operation, group, ranks, phase, dtype, purpose, count, elements, bytes,
                                     ring_wire_bytes(operation, bytes, ranks)});
  }

  [[nodiscard]] std::vector<Elements> trainable_sizes(bool backward_order) const {
    std::vector<Elements> sizes;
    for (const RankTensor& tensor : rank_.tensors)
      if (tensor.trainable) sizes.push_back(tensor.elements);
    if (backward_order) std::reverse(sizes.begin(), sizes.end());
    return sizes;
  }

  /// Stages 0-2 all-reduce every bucket whole, even where only one rank keeps the result
  /// (use_multi_rank_bucket_allreduce); stage 2 does so every micro-step.
  void reduce_gradients(std::int64_t times) {
    const Elements size = s_.zero_stage == 0 ? Elements(500'000'000) : s_.zero.reduce_bucket_size;
    const bool hooks = s_.zero_stage == 2 || s_.overlaps_communication();
    const auto buckets = static_cast<std::int64_t>(gradient_buckets(trainable_sizes(hooks), size).size());
    call(Operation::all_reduce, Group::data, Phase::backward, dtype_, "gradients", times * buckets,
         rank_.trainable * times);
  }

  /// fp32 at stage 0 has no 16-bit optimizer around it: the engine takes the norm itself.
  void norm_of_plain_optimizer() {
    if (training_.precision == Precision::fp32)
      call(Operation::all_reduce, Group::data, Phase::step, "float32", "gradient norm", 1, Elements(1));
  }

  /// Behind the optimizer: overflow flag, norm, and one gather of the whole flat group.
  void update_weights() {
    if (training_.precision != Precision::fp32)
      call(Operation::all_reduce, Group::data, Phase::step, "uint8", "overflow flag", 1, Elements(1));
    call(Operation::all_reduce, Group::data, Phase::step, "float32", "gradient norm", 1, Elements(1));
    call(Operation::all_gather, Group::data, Phase::step, dtype_, "updated weights", 1,
         shard_.optimizer_elements * s_.data_parallel);
  }

  /// Padded sizes of the tensors that are (not) kept whole.
  [[nodiscard]] std::vector<Elements> gathered_sizes(bool persistent) const {
    std::vector<Elements> sizes;
    for (const RankTensor& tensor : rank_.tensors)
      if ((tensor.elements <= s_.zero.persistence_threshold) == persistent)
        sizes.push_back(share(tensor.elements, s_.data_parallel) * s_.data_parallel);
    return sizes;
  }
  static Elements sum(const std::vector<Elements>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), Elements{});
  }

  /// Stage 3: weights gathered for the forward, again for the backward but for what max_reuse_distance kept,
  /// gradients scattered, every micro-step; small parameters gathered one by one once a step.
  void zero3() {
    const std::int64_t micro_steps = s_.gradient_accumulation_steps;
    const std::vector<Elements> large = gathered_sizes(false);
    const Elements all = sum(large);
    // Prefetch coalesces neighbours into one gather of at most its bucket.
    const auto calls =
        static_cast<std::int64_t>(gradient_buckets(large, s_.zero.prefetch_bucket_size).size());
    call(Operation::all_gather, Group::data, Phase::forward, dtype_, "layer weights", micro_steps * calls,
         all * micro_steps);
    const Elements again = std::max(all - std::min(all, s_.zero.max_reuse_distance), recomputed_frozen());
    const auto calls_again = static_cast<std::int64_t>(
        std::ceil(all.value == 0 ? 0.0 : ratio(again, all) * static_cast<double>(calls)));
    call(Operation::all_gather, Group::data, Phase::backward, dtype_, "layer weights",
         micro_steps * calls_again, again * micro_steps);
    scatter_gradients(micro_steps);
    const bool on_device = s_.offload_optimizer == OffloadDevice::none;
    call(Operation::all_reduce, Group::data, Phase::step, on_device ? "float64" : "float32", "gradient norm",
         1, Elements(1));
    const std::vector<Elements> small = gathered_sizes(true);
    call(Operation::all_gather, Group::data, Phase::step, dtype_, "small weights",
         static_cast<std::int64_t>(small.size()), sum(small));
  }
  /// Frozen weights of a checkpointed layer are let go after its recomputation, whatever max_reuse_distance
  /// says.
  [[nodiscard]] Elements recomputed_frozen() const {
    Elements sum{};
    if (s_.checkpointing == Checkpointing::none) return sum;
    for (const RankTensor& tensor : rank_.tensors)
      if (!tensor.trainable && tensor.layer >= 0 && tensor.elements > s_.zero.persistence_threshold)
        sum += share(tensor.elements, s_.data_parallel) * s_.data_parallel;
    return sum;
  }
  void scatter_gradients(std::int64_t micro_steps) {
    const auto buckets =
        static_cast<std::int64_t>(gradient_buckets(trainable_sizes(true), s_.zero.reduce_bucket_size).size());
    call(Operation::reduce_scatter, Group::data, Phase::backward, dtype_, "gradients", micro_steps * buckets,
         shard_.optimizer_elements * s_.data_parallel * micro_steps);
  }

  /// AutoTP: an all-reduce of b·s·h behind each row-split product, and in the backward one for each
  /// column-split product (they do not share it: five a layer where query, key, value, gate and up are
  /// apart).
  void tensor_parallel() {
    const Elements hidden(s_.micro_batch_size * training_.sequence_length * model_.shape.hidden_size);
    const std::int64_t micro_steps = s_.gradient_accumulation_steps;
    std::int64_t rows = 0, columns = 0;
    for_each_tensor(model_.inventory, [&](const Tensor& tensor, int layer) {
      if (layer < 0 || !tensor.linear) return;
      rows += tensor.split == TensorParallelSplit::row ? 1 : 0;
      columns += tensor.split == TensorParallelSplit::column ? 1 : 0;
    });
    call(Operation::all_reduce, Group::tensor, Phase::forward, dtype_, "row-split outputs",
         micro_steps * rows, hidden * (micro_steps * rows));
    head_calls(micro_steps, hidden);
    const std::int64_t again = s_.checkpointing == Checkpointing::none ? 0 : model_.shape.layers;
    call(Operation::all_reduce, Group::tensor, Phase::backward, dtype_, "column-split input gradients",
         micro_steps * (columns + 1 + again), hidden * (micro_steps * (columns + 1 + again)));
    if (training_.precision != Precision::fp32)
      call(Operation::all_reduce, Group::tensor, Phase::step, "uint8", "overflow flag", 1, Elements(1));
    call(Operation::all_reduce, Group::tensor, Phase::step, "float32", "gradient norm", 1, Elements(1));
  }
  void head_calls(std::int64_t micro_steps, Elements hidden) {
    const Elements tokens(s_.micro_batch_size * training_.sequence_length);
    if (!model_.shape.tied_embeddings) {
      call(Operation::all_gather, Group::tensor, Phase::forward, dtype_, "logits", micro_steps,
           tokens * model_.shape.vocabulary_size * micro_steps);
      return;
    }
    const Elements shifted(s_.micro_batch_size * (training_.sequence_length - 1));
    call(Operation::all_reduce, Group::tensor, Phase::forward, dtype_, "split embedding", micro_steps,
         hidden * micro_steps);
    call(Operation::all_reduce, Group::tensor, Phase::forward, "float32", "vocabulary-parallel loss",
         3 * micro_steps, shifted * (3 * micro_steps));
  }

  /// What crosses to the host and back, per GPU. Gradients are cast to fp32 on the device and copied once a
  /// step; with accumulation the sums of earlier micro-steps lie on the host in 16 bits, come back and go out
  /// again. Source: DeepSpeed 0.19.8 stage_1_and_2.py async_inplace_copy_grad_to_fp32_buffer_from_gpu,
  /// async_accumulate_grad_in_cpu_via_gpu; stage3.py partition_grads.
  void offload() {
    const Bytes weight = weight_size(training_);
    const std::int64_t micro_steps = s_.gradient_accumulation_steps;
    if (s_.offload_optimizer != OffloadDevice::none) {
      const Bytes sums = accumulated_on_host() * weight;
      schedule_.device_to_host += shard_.optimizer_elements * Bytes(4) + sums * micro_steps;
      schedule_.host_to_device += sums * (micro_steps - 1);
      if (s_.offload_parameters == OffloadDevice::none)
        schedule_.host_to_device += shard_.optimizer_elements * weight;
    }
    if (s_.offload_parameters != OffloadDevice::none) {
      const Bytes kept =
          std::min(shard_.parameters, share(s_.zero.max_reuse_distance, s_.data_parallel) * weight);
      schedule_.host_to_device += (shard_.parameters * 2 - kept) * micro_steps;
    }
  }
  /// Elements of one rank's gradients that are summed on the host: none at stage 1, which reduces once; whole
  /// parameters that touch the slice at stage 2, where there is something to sum; the shard at stage 3.
  [[nodiscard]] Elements accumulated_on_host() const {
    if (s_.zero_stage == 3) return shard_.optimizer_elements;
    if (s_.zero_stage < 2 || s_.gradient_accumulation_steps == 1) return {};
    return worst_slice(rank_, training_, s_).touching;
  }

  const Model& model_;
  const Training& training_;
  const Strategy& s_;
  const RankModel& rank_;
  const Shard& shard_;
  std::string_view dtype_;
  Schedule schedule_;
};

}  // namespace

Bytes Schedule::bytes() const {
  Bytes sum{};
  for (const Collective& each : collectives) sum += each.bytes;
  return sum;
}

Bytes Schedule::wire_bytes_per_gpu() const {
  Bytes sum{};
  for (const Collective& each : collectives) sum += each.wire_bytes_per_gpu;
  return sum;
}

Bytes ring_wire_bytes(Operation operation, Bytes bytes, std::int64_t ranks) {
  if (ranks <= 1) return {};
  // bytes·(n−1)/n without overflow: whole quotient and remainder apart.
  const std::int64_t n = ranks;
  const Bytes once(bytes.value / n * (n - 1) + bytes.value % n * (n - 1) / n);
  switch (operation) {
    case Operation::all_reduce: return once * 2;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return once;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send_recv: return bytes;
  }
  return bytes;
}

Schedule schedule(const Model& model, const Training& training, const Strategy& strategy,
                  const RankModel& rank, const Shard& shard) {
  return Issuer(model, training, strategy, rank, shard).issue();
}

}  // namespace zplan
