#include "planner/memory/step_timeline.h"

#include <algorithm>
#include <utility>

#include "planner/memory/allowances.h"
#include "planner/sharding/buckets.h"

namespace zplan {

namespace {

/// A gradient while it waits whole: in the model's precision, or in its fp32 accumulator.
Bytes gradient_size(const StepInputs& in) {
  return accumulates_whole_fp32(in.training, in.strategy) ? Bytes(4) : weight_size(in.training);
}

/// What the worst rank of ZeRO 1 and 2 keeps of the reduced gradients: whole parameters that touch its slice
/// in the model's precision, or with fp32 accumulation a flat fp32 slice.
Bytes kept_gradients(const StepInputs& in) {
  return in.strategy.zero.fp32_gradient_accumulation ? in.slice.size * Bytes(4)
                                                     : in.slice.touching * weight_size(in.training);
}

/// Gradients on their way from autograd to where the optimizer finds them, as each stage moves them.
class GradientPath {
 public:
  GradientPath(const StepInputs& in, Timeline& timeline) : in_(in), timeline_(timeline) {
    order_.reserve(in.rank.tensors.size());
  }

  /// The backward has made the gradient of `tensor`, `start` elements into the flattened trainable
  /// parameters.
  void made(const RankTensor& tensor, Elements start) {
    const Bytes size = tensor.elements * gradient_size(in_);
    switch (in_.strategy.zero_stage) {
      case 0: return keep(size);
      case 1:
      case 2: return reduces_in_hooks() ? reduce_in_hook(tensor, start) : keep(size);
      default: return reduce_scatter(tensor);
    }
  }

  /// Everything made: what is left is reduced.
  void finish() {
    const Strategy& s = in_.strategy;
    if (s.zero_stage == 0) return reduce_whole();
    if (s.zero_stage < 3) return reduces_in_hooks() ? finish_hooks() : reduce_at_boundary();
    flush_shards();
  }

 private:
  struct Pending {
    Elements elements, start;
  };

  /// Stage 2 always; stage 1 with overlap_comm, unless gradients wait in whole fp32 accumulators.
  [[nodiscard]] bool reduces_in_hooks() const {
    if (in_.strategy.zero_stage == 2) return true;
    return in_.strategy.overlaps_communication() && !uses_bf16_optimizer(in_.training, in_.strategy) &&
           !accumulates_whole_fp32(in_.training, in_.strategy);
  }
  [[nodiscard]] Bytes weight() const { return weight_size(in_.training); }
  [[nodiscard]] Elements bucket_size() const { return in_.strategy.zero.reduce_bucket_size; }
  [[nodiscard]] bool alone() const { return in_.strategy.data_parallel == 1; }
  [[nodiscard]] bool offloaded() const { return in_.strategy.offload_optimizer != OffloadDevice::none; }

  void keep(Bytes size) {
    if (in_.strategy.zero_stage == 1)
      make_buckets();  // the first hook makes it, though nothing is copied in yet
    // With accumulation the gradients of earlier micro-steps are there already and are added to in place.
    if (in_.strategy.gradient_accumulation_steps > 1)
      timeline_.spike(Term::gradients, size);
    else
      timeline_.allocate(Term::gradients, size);
  }

  /// The whole buffer is made at once, twice with overlap: one fills while the other is reduced.
  void make_buckets() {
    if (timeline_.live()[Term::gradient_bucket].value > 0) return;
    timeline_.allocate(Term::gradient_bucket, gradient_bucket(in_.training, in_.strategy));
  }

  /// The worst rank's kept gradients: whole parameters that touch its slice, made at the first bucket that
  /// has one. With offload they go to the host instead, and their norm is taken on the way, one piece at a
  /// time.
  void make_partition() {
    if (partition_made_) return;
    partition_made_ = true;
    if (offloaded())
      timeline_.spike(Term::norm_in_fp64, in_.slice.largest * Bytes(8));
    else
      timeline_.allocate(Term::gradient_partition, kept_gradients(in_));
  }

  [[nodiscard]] bool spans_slices(const std::vector<Pending>& pending) const {
    const Pending& first = pending.front();
    const Pending& last = pending.back();
    const Elements low = std::min(first.start, last.start);
    const Elements high = std::max(first.start + first.elements, last.start + last.elements);
    return low.value / in_.slice.size.value != (high.value - 1) / in_.slice.size.value;
  }

  void reduce_in_hook(const RankTensor& tensor, Elements start) {
    make_buckets();
    if (!order_.empty() && open_ + tensor.elements > bucket_size()) flush_hook();
    const Bytes size = tensor.elements * weight();
    if (tensor.elements > bucket_size())
      timeline_.allocate(Term::gradients, size), bypassed_ += size;
    else
      timeline_.spike(Term::gradients, size);
    order_.push_back({tensor.elements, start});
    open_ += tensor.elements;
  }

  void flush_hook() {
    if (order_.empty()) return;
    const Bytes flat =
        !alone() && spans_slices(order_) ? std::min(open_, Elements(500'000'000)) * weight() : Bytes{};
    const Bytes cast =
        in_.strategy.zero.fp32_gradient_accumulation ? std::min(open_, in_.slice.size) * Bytes(4) : Bytes{};
    timeline_.spike(Term::bucket_copy, flat);
    make_partition();
    timeline_.spike({{Term::bucket_copy, cast > Bytes{} ? flat : Bytes{}}, {Term::gradient_copy, cast}});
    // A gradient that bypassed the bucket is let go once reduced at stage 2; stage 1 keeps it for the step.
    if (in_.strategy.zero_stage == 2) timeline_.release(Term::gradients, bypassed_), bypassed_ = {};
    order_.clear();
    open_ = {};
  }

  void finish_hooks() {
    flush_hook();
    timeline_.release_all(Term::gradient_bucket);
    timeline_.release_all(Term::gradients);
  }

  /// Stage 0: buckets of at most 5e8 elements are flattened, reduced and copied back.
  void reduce_whole() {
    if (alone()) return;
    const Elements flat = std::min(in_.rank.trainable, Elements(500'000'000));
    timeline_.spike(Term::bucket_copy, flat * weight());
  }

  /// Stage 1 without overlap: the hooks do nothing, so all gradients wait for the end of the backward and are
  /// then reduced bucket by bucket in parameter order while the kept ones are already made.
  void reduce_at_boundary() {
    if (uses_bf16_optimizer(in_.training, in_.strategy)) return reduce_fp32_copy();
    make_buckets();
    std::vector<Elements> sizes;
    for (const RankTensor& tensor : in_.rank.tensors)
      if (tensor.trainable) sizes.push_back(tensor.elements);
    for (const Bucket& bucket : gradient_buckets(sizes, bucket_size())) {
      for (std::size_t i = 0; i < bucket.count; ++i)
        if (const Elements n = sizes[bucket.first + i]; n <= bucket_size())
          timeline_.release(Term::gradients, n * gradient_size(in_));
      make_partition();
      if (bucket.count == 1 && bucket.elements > bucket_size())
        timeline_.release(Term::gradients, bucket.elements * gradient_size(in_));
    }
    timeline_.release_all(Term::gradients);
    timeline_.release_all(Term::gradient_bucket);
  }

  /// BF16_Optimizer: the fp32 gradients are sent as one 16-bit copy.
  void reduce_fp32_copy() {
    timeline_.spike(Term::bucket_copy, in_.rank.trainable * weight());
    timeline_.release_all(Term::gradients);
  }

  /// Stage 3: into the persistent bucket, then concatenated shard by shard and reduce-scattered.
  void reduce_scatter(const RankTensor& tensor) {
    if (open_.value > 0 && open_ + tensor.elements > bucket_size()) flush_shards();
    const Bytes size = tensor.elements * weight();
    if (tensor.elements > bucket_size()) {
      // Reduced as it is; a second copy only where padding is needed.
      const bool even = tensor.elements.value % in_.strategy.data_parallel == 0;
      timeline_.spike({{Term::gradients, size}, {Term::bucket_copy, even || alone() ? Bytes{} : size}});
      return;
    }
    timeline_.spike(Term::gradients, size);
    open_ += tensor.elements;
  }
  void flush_shards() {
    if (open_.value > 0) timeline_.spike(Term::bucket_copy, open_ * weight());
    open_ = {};
  }

  const StepInputs& in_;
  Timeline& timeline_;
  std::vector<Pending> order_;
  Elements open_{};
  Bytes bypassed_{};
  bool partition_made_{};
};

/// Plays one step; each method is one stretch of it.
class StepPlayer {
 public:
  StepPlayer(const StepInputs& in, std::string_view compute_capability)
      : in_(in), compute_capability_(compute_capability), path_(in, timeline_) {
    before_layer_.resize(in.model.inventory.layers.size() + 1);
    for (const RankTensor& tensor : in.rank.tensors) count(tensor);
    for (std::size_t i = 1; i < before_layer_.size(); ++i) before_layer_[i] += before_layer_[i - 1];
  }

  Timeline play() {
    hold_states();
    hold_earlier_micro_steps();
    forward();
    loss();
    backward();
    step();
    return std::move(timeline_);
  }

 private:
  [[nodiscard]] Bytes weight() const { return weight_size(in_.training); }
  [[nodiscard]] bool optimizer_on_device() const {
    return in_.strategy.offload_optimizer == OffloadDevice::none;
  }
  [[nodiscard]] bool zero3() const { return in_.strategy.zero_stage == 3; }
  [[nodiscard]] bool zero12() const { return in_.strategy.zero_stage == 1 || in_.strategy.zero_stage == 2; }
  [[nodiscard]] bool trains_head() const { return in_.training.method == Method::full; }

  void count(const RankTensor& tensor) {
    const bool kept = zero3() && tensor.elements <= in_.strategy.zero.persistence_threshold;
    const auto index = static_cast<std::size_t>(std::int64_t{tensor.layer} + 1);
    if (!kept) before_layer_[index] += tensor.elements, to_gather_ += tensor.elements;
  }

  void hold_states() {
    const Shard& shard = in_.shard;
    timeline_.enter(Phase::forward, "between steps");
    timeline_.allocate(Term::cublas_workspace, cublas_workspaces(compute_capability_));
    const Bytes frozen =
        zero3() ? zero3_shard(in_.rank, in_.strategy.data_parallel, false) * weight() : in_.rank.frozen_size;
    if (in_.strategy.offload_parameters == OffloadDevice::none) {
      timeline_.allocate(Term::trained_parameters, shard.parameters - frozen);
      timeline_.allocate(Term::frozen_parameters, frozen);
    }
    timeline_.allocate(Term::persistent_parameters, shard.persistent_parameters);
    if (optimizer_on_device()) {
      timeline_.allocate(Term::master_weights, shard.master_weights);
      timeline_.allocate(Term::optimizer_moments, shard.moments);
      timeline_.allocate(zero3() ? Term::gradient_partition : Term::fp32_gradients, shard.gradients);
    } else if (zero12()) {
      timeline_.allocate(Term::offload_staging, in_.rank.largest_trainable * weight());
    }
    timeline_.allocate(Term::gradient_bucket, shard.bucket);
  }

  /// Gradients that micro-steps before the last have left behind.
  void hold_earlier_micro_steps() {
    if (in_.strategy.gradient_accumulation_steps == 1) return;
    const bool whole = in_.strategy.zero_stage <= 1;
    if (whole) timeline_.allocate(Term::gradients, in_.rank.trainable * gradient_size(in_));
    if (in_.strategy.zero_stage == 1)
      timeline_.allocate(Term::gradient_bucket, gradient_bucket(in_.training, in_.strategy));
    if (in_.strategy.zero_stage == 2 && optimizer_on_device())
      timeline_.allocate(Term::gradient_partition, kept_gradients(in_));
  }

  /// Stage 3: parameters of layers up to `layers` are wanted; what fits in max_reuse_distance stays gathered.
  void gather_up_to(std::size_t layers) {
    const bool views =
        in_.strategy.data_parallel == 1 && in_.strategy.offload_parameters == OffloadDevice::none;
    if (!zero3() || views) return;
    const Elements wanted = layers < before_layer_.size() ? before_layer_[layers] : to_gather_;
    const Elements most = std::max(in_.strategy.zero.max_reuse_distance, largest_layer_to_gather());
    const Bytes target = std::min(wanted, most) * weight();
    const Bytes now = timeline_.live()[Term::gathered_parameters];
    if (target > now)
      timeline_.allocate(Term::gathered_parameters, target - now);
    else
      timeline_.release(Term::gathered_parameters, now - target);
  }
  [[nodiscard]] Elements largest_layer_to_gather() const {
    Elements most{};
    for (std::size_t i = 1; i < before_layer_.size(); ++i)
      most = std::max(most, before_layer_[i] - before_layer_[i - 1]);
    return most;
  }

  void forward() {
    const Inventory& inventory = in_.model.inventory;
    for (std::size_t i = 0; i < inventory.layers.size(); ++i) {
      timeline_.enter(Phase::forward, "layer forward", static_cast<int>(i));
      gather_up_to(i + 1);
      timeline_.allocate(Term::saved_activations, in_.activations.kinds[inventory.layers[i]].saved);
      timeline_.allocate(Term::gathered_experts,
                         experts_kept_by_autograd(inventory.kinds[inventory.layers[i]]));
    }
  }

  /// Without checkpointing autograd keeps the gathered expert weights of a layer for its backward: the
  /// grouped matrix product saves them, and releasing the parameter does not free them. Linear layers save
  /// only a reference.
  [[nodiscard]] Bytes experts_kept_by_autograd(const LayerKind& kind) const {
    if (!zero3() || in_.strategy.checkpointing != Checkpointing::none || in_.strategy.data_parallel == 1)
      return {};
    Elements experts{};
    for (const Tensor& tensor : kind.tensors)
      if (tensor.role == TensorRole::expert && tensor.linear) experts += tensor.elements();
    return experts * weight();
  }

  void loss() {
    const LossActivations& loss = in_.activations.loss;
    timeline_.enter(Phase::loss, "head and loss");
    gather_up_to(before_layer_.size());
    timeline_.allocate(Term::model_inputs, in_.activations.model_inputs);
    timeline_.spike({{Term::logits, loss.logits}, {Term::loss_temporaries, loss.forward}});
    timeline_.enter(Phase::loss, "loss backward");
    timeline_.spike(Term::loss_temporaries, loss.backward);
    timeline_.spike({{Term::logits, loss.logit_gradient}, {Term::head_gradients, loss.head_gradient}});
    if (in_.model.shape.tied_embeddings && trains_head()) hold_tied_gradient();
  }

  /// The head's share of a tied embedding's gradient waits for the embedding's own.
  void hold_tied_gradient() {
    for (const RankTensor& tensor : in_.rank.tensors) {
      if (tensor.role != TensorRole::token_embedding) continue;
      tied_gradient_ = tensor.elements * weight();
      break;
    }
    timeline_.allocate(Term::head_gradients, tied_gradient_);
  }

  void backward() {
    next_ = in_.rank.tensors.rbegin();
    next_start_ = in_.rank.trainable;
    timeline_.enter(Phase::backward, "head backward");
    make_gradients(-1);
    timeline_.release_all(Term::model_inputs);
    for (int layer = static_cast<int>(in_.model.inventory.layers.size()) - 1; layer >= 0; --layer)
      layer_backward(layer);
    timeline_.enter(Phase::backward, "embedding backward");
    make_gradients(-1);
    timeline_.enter(Phase::backward, "gradient reduction");
    path_.finish();
    timeline_.release_all(Term::gathered_parameters);
    timeline_.release_all(Term::head_gradients);
  }

  /// Gradients of the tensors of `layer`, last first, from where the walk stands.
  void make_gradients(int layer) {
    for (; next_ != in_.rank.tensors.rend() && next_->layer == layer; ++next_) {
      if (!next_->trainable) continue;
      next_start_ -= next_->elements;
      if (next_->role == TensorRole::token_embedding) embedding_backward();
      path_.made(*next_, next_start_);
    }
  }

  void layer_backward(int layer) {
    const LayerActivations& kept =
        in_.activations.kinds[in_.model.inventory.layers[static_cast<std::size_t>(layer)]];
    timeline_.enter(Phase::backward, "layer backward", layer);
    gather_up_to(static_cast<std::size_t>(layer) + 1);
    timeline_.allocate(Term::layer_working_set, kept.working_set);
    make_gradients(layer);
    timeline_.release(Term::layer_working_set, kept.working_set);
    timeline_.release(Term::saved_activations, kept.saved);
    const LayerKind& kind =
        in_.model.inventory.kinds[in_.model.inventory.layers[static_cast<std::size_t>(layer)]];
    timeline_.release(Term::gathered_experts, experts_kept_by_autograd(kind));
  }

  void embedding_backward() {
    if (tied_gradient_.value == 0) return;
    timeline_.spike(Term::head_gradients, tied_gradient_ * 2);
    timeline_.release(Term::head_gradients, tied_gradient_);
  }

  void step() {
    timeline_.enter(Phase::step, "gradient norm");
    if (in_.strategy.zero_stage == 0) return step_replicated();
    if (!optimizer_on_device()) return step_offloaded();
    return zero12() ? step_slice() : step_sub_groups();
  }

  /// Stage 0 with FusedAdam: an fp32 list and a flat fp32 copy of all gradients. Plain AdamW in fp32 needs
  /// neither.
  void step_replicated() {
    timeline_.enter(Phase::step, "optimizer step");
    if (weight() == Bytes(2)) timeline_.spike(Term::gradient_copy, in_.rank.trainable * Bytes(8));
    timeline_.release_all(Term::gradients);
  }

  void step_slice() {
    const Elements slice = in_.slice.size;
    timeline_.spike(Term::norm_in_fp64, in_.slice.largest * Bytes(8));
    timeline_.enter(Phase::step, "optimizer step");
    // BF16_Optimizer's master weights take views of the fp32 gradients; 16-bit masters take the flat copy as
    // it is.
    if (uses_bf16_optimizer(in_.training, in_.strategy)) return;
    const bool casts = weight() == Bytes(2) && !drops_master(in_.training, in_.strategy);
    timeline_.spike(Term::gradient_copy, slice * weight() + (casts ? slice * Bytes(4) : Bytes{}));
    timeline_.release_all(Term::gradient_partition);
    timeline_.spike(Term::gradient_copy, slice * (casts ? Bytes(4) : weight()));
  }

  void step_sub_groups() {
    const Elements group = largest_sub_group(in_.rank, in_.strategy);
    timeline_.spike(Term::norm_in_fp64,
                    share(in_.rank.largest_trainable, in_.strategy.data_parallel) * Bytes(8));
    timeline_.enter(Phase::step, "optimizer step");
    // A flat copy in the accumulation's precision, then fp32; one copy where that is fp32 already.
    const bool fp32 = weight() == Bytes(4) || in_.strategy.zero.fp32_gradient_accumulation;
    const bool casts = !fp32 && !drops_master(in_.training, in_.strategy);
    timeline_.spike(Term::gradient_copy, group * Bytes(fp32 ? 4 : casts ? 6 : 2));
  }

  /// The optimizer runs on the host; ZeRO-3's norm is still the device's.
  void step_offloaded() {
    if (zero3())
      timeline_.spike(Term::norm_in_fp64,
                      share(in_.rank.largest_trainable, in_.strategy.data_parallel) * Bytes(8));
    timeline_.enter(Phase::step, "optimizer step on the host");
  }

  const StepInputs& in_;
  std::string_view compute_capability_;
  Timeline timeline_;
  GradientPath path_;
  std::vector<RankTensor>::const_reverse_iterator next_{};  ///< whose gradient the backward makes next
  Elements next_start_{};  ///< how far into the flattened trainable parameters the last gradient began
  std::vector<Elements>
      before_layer_;  ///< [i]: elements to gather in what stands before layer i, layer i−1 included
  Elements to_gather_{};
  Bytes tied_gradient_{};
};

}  // namespace

Timeline step_timeline(const StepInputs& inputs, std::string_view compute_capability) {
  return StepPlayer(inputs, compute_capability).play();
}

}  // namespace zplan
