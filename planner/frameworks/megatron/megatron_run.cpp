#include "planner/frameworks/megatron/megatron_run.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "hardware_profiles/gpu.h"

namespace zplan {

namespace {

constexpr Bytes kWeight{2}, kFp32{4};

using Shape = std::pair<std::int64_t, std::int64_t>;

/// Shapes of the rank's weights whose products add to the sums of gradients, each once. A tied embedding is
/// one where it is the head.
std::set<Shape> product_shapes(const Model& part, std::int64_t ranks, bool has_head) {
  std::set<Shape> shapes;
  for_each_tensor(part.inventory, [&](const Tensor& each, int) {
    const bool is_head = each.role == TensorRole::head ||
                         (each.role == TensorRole::token_embedding && part.shape.tied_embeddings && has_head);
    if (!is_head && !each.linear) return;
    Shape shape{each.shape.front(), each.shape.back()};
    (each.split == TensorParallelSplit::row ? shape.second : shape.first) /= ranks;
    shapes.insert(shape);
  });
  return shapes;
}

}  // namespace

MegatronRun::MegatronRun(RankState& state)
    : state_(state),
      device_(state.device()),
      buckets_(megatron::buckets(state.in().rank, state.in().strategy, state.inputs().place.stage == 0,
                                 state.in().model.shape.tied_embeddings)),
      optimizer_(state.in(),
                 megatron::owned_pieces(buckets_, state.in().strategy, state.inputs().place.slice)),
      bucket_of_(state.tensors().size()) {
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    for (const megatron::Placed& each : buckets_[i].parameters) bucket_of_[each.tensor] = i;
  for (std::size_t i = buckets_.size(); i-- > 0;) gather_order_.push_back(i);
  // The head of a later stage reads the embedding behind its layers.
  const bool reads_table_last =
      !is_first_stage() && state.in().model.shape.tied_embeddings && is_last_stage();
  if (reads_table_last) std::ranges::rotate(gather_order_, gather_order_.begin() + 1);
}

Bytes MegatronRun::hidden_size() const {
  const StepInputs& of = in();
  const std::int64_t ranks = options().sequence_parallel ? layout().tensor : 1;
  return kWeight * (of.strategy.micro_batch_size * local_tokens(of.training, of.strategy) / ranks *
                    of.model.shape.hidden_size);
}

void MegatronRun::initialise() {
  make_buffers();
  make_workspaces();
}

/// Weights lie in a buffer of their own under the distributed optimizer; else as the model made them.
void MegatronRun::make_buffers() {
  const Elements all = megatron::buffer_size(buckets_);
  if (is_divided()) {
    device_.allocate(Term::trained_parameters, all * kWeight);
  } else {
    for (const RankTensor& each : state_.tensors()) device_.allocate(Term::trained_parameters, each.stored);
  }
  device_.allocate(Term::fp32_gradients, all * sum_element());
  optimizer_.initialise(device_);
}

/// Transformer Engine's cuBLAS workspace, the table of rotations, and the buffer that the head gathers its
/// input into.
void MegatronRun::make_workspaces() {
  // torch gives AMD's gfx9, gfx10 and gfx11 the major version 9, 10 and 11.
  const std::string_view capability = state_.inputs().compute_capability;
  const bool is_hopper_or_later = capability_major(capability) >= 9 || capability.starts_with("gfx");
  device_.allocate(Term::cublas_workspace, Bytes(std::int64_t{is_hopper_or_later ? 32 : 4} << 20));
  const ModelShape& shape = in().model.shape;
  const std::int64_t tokens = local_tokens(in().training, in().strategy);
  if (shape.operators.rotary != Rotary::none)
    device_.allocate(Term::model_inputs, kFp32 * (tokens * shape.head_size));
  if (options().sequence_parallel && is_last_stage())
    device_.allocate(Term::gradient_bucket, hidden_size() * layout().tensor);
}

/// Autograd gets a tensor of a weight's shape in the place of its gradient, one for all weights of a shape.
/// Source: Transformer Engine 2.20.2 pytorch/module/base.py get_dummy_wgrad; Megatron-Core 0.19.2
/// core/tensor_parallel/layers.py.
void MegatronRun::make_placeholders() {
  if (!options().adds_in_product) return;
  for (const auto& [rows, columns] : product_shapes(in().model, layout().tensor, is_last_stage()))
    device_.allocate(Term::placeholder_gradients, Elements(rows * columns) * kWeight);
}

void MegatronRun::begin_forward(const Slot& slot) {
  if (!slot.first()) return;
  device_.release(received_), device_.release(sent_), optimizer_.zero_gradients(device_);
  gathered_ = 0;
}

void MegatronRun::begin_backward(const Slot& slot) {
  device_.release(received_);
  reduces_ = slot.last && options().overlap_grad_reduce && is_first_stage();
  waits_for_.clear();
  for (const megatron::Bucket& each : buckets_) waits_for_.push_back(each.parameters.size());
}

/// Buckets of weights are gathered before the first module that needs one of them runs, and the next beside
/// it.
void MegatronRun::section(int layer, bool backward) {
  if (!options().overlap_param_gather || backward || gathered_ >= buckets_.size()) return;
  if (layer < 0 && gathered_ > 0) return gather_until(0);
  gather_until(layer < 0 ? state_.tensors().size() : state_.tensor_of(layer, 0));
}

void MegatronRun::gather_until(std::size_t tensor) {
  while (gathered_ < buckets_.size()) {
    const megatron::Bucket& next = buckets_[gather_order_[gathered_]];
    gather(next);
    ++gathered_;
    if (tensor < state_.tensors().size() && next.parameters.front().tensor > tensor) break;
  }
}

void MegatronRun::gather(const megatron::Bucket& bucket) {
  if (!is_divided()) return;
  state_.wait(state_.issue(state_.clock().computed(), Operation::all_gather, bucket.size(), kWeight,
                           "weights", dividing_ranks()));
}

void MegatronRun::gradient(std::size_t tensor, Device::Block block) {
  const RankTensor& of = state_.tensors()[tensor];
  state_.clock().move(of.elements * (kWeight + sum_element() + sum_element()));
  device_.release(block);
  complete(tensor);
}

void MegatronRun::summed_gradient(std::size_t tensor) { complete(tensor); }

void MegatronRun::complete(std::size_t tensor) {
  if (!reduces_) return;
  const std::size_t bucket = bucket_of_[tensor];
  if (--waits_for_[bucket] == 0) reduce(buckets_[bucket]);
}

void MegatronRun::reduce(const megatron::Bucket& bucket) {
  if (is_divided()) return options().sums_in_fp32 ? exchange(bucket) : reduce_scatter(bucket);
  reduced_ = state_.issue(state_.clock().computed(), Operation::all_reduce, bucket.size(), sum_element(),
                          "gradients", layout().gradient_ranks());
}

/// Each instance's ranks, neighbours, divide the sums; ranks that hold the same part in all instances add
/// theirs up.
void MegatronRun::reduce_scatter(const megatron::Bucket& bucket) {
  const std::int64_t ranks = dividing_ranks(), instances = options().optimizer_instances;
  reduced_ = state_.issue(state_.clock().computed(), Operation::reduce_scatter, bucket.size(), sum_element(),
                          "gradients", ranks);
  if (instances > 1)
    reduced_ = state_.issue(reduced_, Operation::all_reduce, Elements(bucket.size().value / ranks),
                            sum_element(), "gradients", instances, {}, ranks);
}

/// Ranks send each other parts of the gradients, which each sums in fp32. What arrives stays until then: the
/// next bucket's exchange waits for it. Source: Megatron-Core 0.19.2
/// core/distributed/reduce_scatter_with_fp32_accumulation.py, param_and_grad_buffer.py start_grad_sync.
void MegatronRun::exchange(const megatron::Bucket& bucket) {
  finish_exchange();
  exchanged_ = device_.allocate(Term::bucket_copy, bucket.size() * sum_element());
  exchanged_sums_ = Elements(bucket.size().value / dividing_ranks());
  reduced_ = state_.issue(state_.clock().computed(), Operation::all_to_all, bucket.size(), sum_element(),
                          "gradients", dividing_ranks());
}

void MegatronRun::finish_exchange() {
  if (exchanged_ == Device::kNone) return;
  state_.wait(reduced_);
  device_.spike(Term::bucket_copy, exchanged_sums_ * kFp32);
  device_.release(exchanged_);
}

void MegatronRun::reduce_rest() {
  if (!reduces_)
    for (const megatron::Bucket& each : buckets_) reduce(each);
  finish_exchange();
  state_.wait(reduced_);
}

/// Gradients are divided by the tokens of the whole step, which the last stage counts. Source: Megatron-Core
/// 0.19.2 core/distributed/finalize_model_grads.py.
void MegatronRun::count_tokens() {
  if (!options().counts_tokens) return;
  const auto count = [this](Operation operation, Over over) {
    state_.wait(state_.issue(state_.clock().computed(), operation, Elements(1), kFp32, "tokens of the step",
                             over, "int32"));
  };
  count(Operation::broadcast, Over(Group::pipeline, layout().pipeline));
  count(Operation::all_reduce, layout().gradient_ranks());
}

/// Weights that every tensor-parallel rank holds get gradients of its own tokens or heads alone: they are
/// summed, norms of heads always, others under sequence parallelism.
/// Source: Megatron-Core 0.19.2 core/distributed/finalize_model_grads.py.
void MegatronRun::sum_replicated() {
  if (layout().pipeline > 1 && in().model.shape.tied_embeddings && (is_first_stage() || is_last_stage())) {
    const Elements table = state_.tensors()[state_.token_embedding()].elements;
    state_.wait(state_.issue(state_.clock().computed(), Operation::all_reduce, table, kFp32, "tied embedding",
                             Over(Group::pipeline, 2)));
  }
  const std::int64_t head = in().model.shape.head_size, hidden = in().model.shape.hidden_size;
  Elements replicated{};
  for (const RankTensor& each : state_.tensors()) {
    const bool is_of_heads = each.role == TensorRole::norm && each.elements.value == head && head != hidden;
    if (each.trainable && !each.divided && each.role != TensorRole::position_embedding &&
        (options().sequence_parallel || is_of_heads))
      replicated += each.elements;
  }
  if (layout().tensor == 1 || replicated == Elements{}) return;
  state_.all_reduce(Group::tensor, replicated, kFp32, "replicated norms");
}

void MegatronRun::hold(Device::Block& variable) {
  device_.release(variable);
  if (!is_first_stage()) variable = device_.allocate(Term::layer_working_set, hidden_size());
}

void MegatronRun::end_backward(const Slot& slot) {
  hold(sent_), hold(received_);
  if (!slot.last) return;
  reduce_rest();
  sum_replicated();
  count_tokens();
}

/// Ranks that divide optimizer states have a part each of the gradients: all, or those of an instance.
void MegatronRun::agree_on_norm() {
  if (options().optimizer_instances == 1)
    return state_.all_reduce(is_divided() ? Group::world : Group::model, Elements(1), kFp32, "gradient norm");
  state_.communicate(Operation::all_reduce, Elements(1), kFp32, "gradient norm",
                     Over(Group::world, layout().world() / options().optimizer_instances));
}

void MegatronRun::step(bool first) {
  state_.all_reduce(Group::world, Elements(1), kFp32, "rerun state", "int32");
  agree_on_norm();
  if (first) make_placeholders();
  optimizer_.step(device_, first);
  if (is_divided() && !options().overlap_param_gather)
    for (const megatron::Bucket& each : buckets_) gather(each);
  report_step();
}

/// What ranks agree on for the log: whether the step was skipped, the largest gradient norm, the mean loss.
/// Source: Megatron-Core 0.19.2 training/training.py train_step.
void MegatronRun::report_step() {
  state_.all_reduce(Group::model, Elements(1), kFp32, "skipped step", "int32");
  state_.all_reduce(Group::model, Elements(1), kFp32, "gradient norm");
  if (is_last_stage()) state_.all_reduce(Group::data, Elements(2), kFp32, "mean loss");
}

}  // namespace zplan
