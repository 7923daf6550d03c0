#include "planner/frameworks/megatron/megatron_run.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "hardware_profiles/gpu.h"

namespace zplan {

namespace {

constexpr Bytes kWeight{2}, kFp32{4};
/// Streams that Transformer Engine runs grouped products on, each with a workspace of its own. Source:
/// Transformer Engine 2.20.2 pytorch/cpp_extensions/gemm.py get_cublas_workspace.
constexpr int kProductStreams = 4;

using Shape = std::pair<std::int64_t, std::int64_t>;

/// Notes the shape of a weight whose products add to the sums of gradients: of a stack that of one of them.
void add_shape(const Tensor& of, std::int64_t ranks, std::set<Shape>& shapes) {
  Shape shape{of.shape.front(), of.shape.back()};
  if (of.linear && of.role == TensorRole::expert) shape = {of.linear->out_features, of.linear->in_features};
  const bool by_rows = of.split == TensorParallelSplit::row;
  if (of.split != TensorParallelSplit::replicated) (by_rows ? shape.second : shape.first) /= ranks;
  shapes.insert(shape);
}

/// Shapes of the rank's weights that train and whose products add to the sums of gradients, each once. A tied
/// embedding is one where it is the head.
std::set<Shape> product_shapes(const StepInputs& in, bool has_head) {
  const Model& part = in.model;
  const std::int64_t ranks = in.strategy.layout.tensor;
  std::set<Shape> shapes;
  if (in.training.method != Method::full) {
    for_each_tensor(added_tensors(part, adapters_of(in.training)), [&](const Tensor& each, int) {
      if (each.role != TensorRole::token_embedding) add_shape(each, ranks, shapes);
    });
    return shapes;
  }
  for_each_tensor(part.inventory, [&](const Tensor& each, int) {
    const bool is_head = each.role == TensorRole::head ||
                         (each.role == TensorRole::token_embedding && part.shape.tied_embeddings && has_head);
    if (is_head || each.linear) add_shape(each, ranks, shapes);
  });
  return shapes;
}

}  // namespace

MegatronRun::MegatronRun(RankState& state)
    : state_(state),
      device_(state.device()),
      buckets_(megatron::buckets(state.in().rank, state.in().strategy, state.inputs().place.stage == 0)),
      optimizer_(state.in(),
                 megatron::owned_pieces(buckets_, state.in().strategy, state.inputs().place.slice)),
      buckets_of_(state.tensors().size()),
      variables_(device_, static_cast<std::size_t>(layout().virtual_stages), passed_size()),
      chunk_gathered_(static_cast<std::size_t>(layout().virtual_stages)),
      dispatchers_(device_, state.inputs(), hidden_size()) {
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    for (const megatron::Placed& each : buckets_[i].parameters) {
      std::vector<std::size_t>& of = buckets_of_[each.tensor];
      if (of.empty() || of.back() != i) of.push_back(i);
    }
  for (std::size_t i = buckets_.size(); i-- > 0;)
    (buckets_[i].kind == megatron::BufferKind::dense ? dense_gathers_ : expert_gathers_).order.push_back(i);
  // The head of a later stage reads the embedding behind its layers.
  const bool reads_table_last =
      !is_first_stage() && state.in().model.shape.tied_embeddings && is_last_stage();
  std::vector<std::size_t>& order = dense_gathers_.order;
  if (reads_table_last) std::rotate(order.begin(), order.begin() + 1, order.end());
}

Bytes MegatronRun::hidden_size() const {
  const StepInputs& of = in();
  const std::int64_t ranks = options().sequence_parallel ? layout().tensor : 1;
  return kWeight * (micro_batch_tokens() / ranks * of.model.shape.hidden_size);
}

std::int64_t MegatronRun::micro_batch_tokens() const {
  const StepInputs& of = in();
  return of.strategy.micro_batch_size * sequences_per_sample(of.training) *
         local_tokens(of.training, of.strategy);
}

Bytes MegatronRun::passed_size() const {
  return hidden_size() * forwards_together(in().training, in().strategy);
}

void MegatronRun::initialise() {
  make_buffers();
  make_workspaces();
}

/// Weights that train lie in a buffer of their own under the distributed optimizer; others as the model made
/// them.
void MegatronRun::make_buffers() {
  const Elements all = megatron::buffer_size(buckets_);
  for (const RankTensor& each : state_.tensors()) {
    if (each.trainable && is_divided()) continue;
    const Term term = each.trainable ? Term::trained_parameters : Term::frozen_parameters;
    for (std::int64_t copy = 0; copy < each.copies; ++copy)
      device_.allocate(term, Bytes(each.stored.value / each.copies));
  }
  if (is_divided()) device_.allocate(Term::trained_parameters, all * kWeight);
  device_.allocate(Term::fp32_gradients, all * sum_element());
  make_reference();
  optimizer_.initialise(device_);
}

/// A frozen copy of the model, or a teacher, divided as the model is: as it is made, without buffers. Source:
/// ms-swift 4.6 swift/megatron/trainers/rlhf_mixin.py prepare_model, rollout_mixin.py _load_teacher_model.
void MegatronRun::make_reference() {
  for (const RankTensor& each : in().rank.compared) device_.allocate(Term::frozen_parameters, each.stored);
  const ModelShape& shape = compared_model(in().model).shape;
  const bool has_table =
      !shape.latent_attention && shape.operators.rotary != Rotary::none && !shape.operators.three_axes;
  if (!in().rank.compared.empty() && has_table)
    device_.allocate(Term::model_inputs,
                     kFp32 * (local_tokens(in().training, in().strategy) * shape.head_size));
}

/// Holds what a teacher's forward over all micro-batches left for the step: the logits of all tokens, or the
/// most probable tokens with their numbers. Source: ms-swift 4.6 swift/megatron/trainers/gkd_trainer.py
/// _compute_teacher_logits_local, _assemble_teacher_outputs.
void MegatronRun::take_teacher_logits() {
  const Training& training = in().training;
  if (!distils(training) || !is_last_stage()) return;
  constexpr std::int64_t kNumber = 8;
  const bool is_own = reference_of(training) == ReferenceModel::adapters_off;
  const std::int64_t of_step = in().strategy.gradient_accumulation_steps,
                     fed = training.rollout.steps_per_generation, top = training.distillation.top;
  const std::int64_t tokens = micro_batch_tokens() * (is_own ? of_step : std::max(of_step, fed));
  const std::int64_t logits = compared_model(in().model).shape.vocabulary_size / layout().tensor;
  const Bytes each(top > 0 ? top * (kNumber + kFp32.value) : logits * kWeight.value);
  teacher_logits_ = device_.allocate(Term::logits, each * tokens);
}

/// Transformer Engine's cuBLAS workspace, the table of rotations, and the buffer that the head gathers its
/// input into.
void MegatronRun::make_workspaces() {
  // torch gives AMD's gfx9, gfx10 and gfx11 the major version 9, 10 and 11.
  const std::string_view capability = state_.inputs().compute_capability;
  const bool is_hopper_or_later = capability_major(capability) >= 9 || capability.starts_with("gfx");
  const Bytes workspace(std::int64_t{is_hopper_or_later ? 32 : 4} << 20);
  device_.allocate(Term::cublas_workspace, workspace);
  const bool has_experts =
      std::ranges::find(state_.tensors(), TensorRole::expert, &RankTensor::role) != state_.tensors().end();
  if (has_experts && options().groups_experts)
    for (int stream = 0; stream < kProductStreams; ++stream)
      device_.allocate(Term::cublas_workspace, workspace);
  if (has_experts && !options().exchanges_rows() && layout().expert_ranks() > 1)
    device_.allocate(Term::gradient_bucket, hidden_size() * layout().expert_ranks());
  const ModelShape& shape = in().model.shape;
  const std::int64_t tokens = local_tokens(in().training, in().strategy);
  if (shape.latent_attention) make_latent_tables();
  const bool has_table =
      !shape.latent_attention && shape.operators.rotary != Rotary::none && !shape.operators.three_axes;
  for (std::int64_t i = 0; i < layout().virtual_stages && has_table; ++i)
    device_.allocate(Term::model_inputs, kFp32 * (tokens * shape.head_size));
  // A frozen head gathers its input into memory of its own.
  const bool trains_head = in().training.method == Method::full ||
                           std::ranges::any_of(state_.tensors(), [](const RankTensor& each) {
                             return each.trainable && each.role == TensorRole::head;
                           });
  const bool has_logits = in().training.objective != Objective::reward;
  if (options().sequence_parallel && is_last_stage() && trains_head && has_logits)
    device_.allocate(Term::gradient_bucket, hidden_size() * layout().tensor);
}

/// Each layer with latent attention has cosines and sines in 16 bits of its own for the fused rotation, and
/// the angles in fp32 stay in a cache of 32 entries. Source: Megatron-Core 0.19.2
/// core/models/common/embeddings/yarn_rotary_pos_embedding.py.
void MegatronRun::make_latent_tables() {
  constexpr std::size_t kCached = 32;
  const std::int64_t features = in().model.shape.latent_attention->rope_head_size;
  const Elements table(local_tokens(in().training, in().strategy) * features);
  for (std::size_t layer = 0; layer < in().model.inventory.layers.size(); ++layer) {
    for (int each = 0; each < 2 && options().fuses_rotation; ++each)
      device_.allocate(Term::model_inputs, table * kWeight);
    if (layer < kCached) device_.allocate(Term::model_inputs, table * kFp32);
  }
}

/// Autograd gets a tensor of a weight's shape in the place of its gradient, one for all weights of a shape.
/// Source: Transformer Engine 2.20.2 pytorch/module/base.py get_dummy_wgrad; Megatron-Core 0.19.2
/// core/tensor_parallel/layers.py.
void MegatronRun::make_placeholders() {
  if (!options().adds_in_product) return;
  for (const auto& [rows, columns] : product_shapes(in(), is_last_stage()))
    device_.allocate(Term::placeholder_gradients, Elements(rows * columns) * kWeight);
}

void MegatronRun::begin_forward(const Slot& slot) {
  if (!is_interleaved()) dispatchers_.begin_forward();
  if (slot.first() && slot.tape == 0) {
    device_.release(received_), device_.release(sent_), optimizer_.zero_gradients(device_);
    dense_gathers_.done = expert_gathers_.done = 0, forwards_ = 0;
    take_teacher_logits();
  }
  if (!is_interleaved()) return;
  variables_.begin_forward(slot);
  if (options().overlap_param_gather && is_divided()) gather_next_chunk(slot);
  ++forwards_;
}

/// All stages gather a chunk's weights at about the same time: the first two chunks' before the first pass,
/// another's when the chunk before it begins. A stage gathers one forward earlier than the stage before it.
/// The first gathers begin with the step, before the stage waits for the first hidden states. Source:
/// Megatron-Core 0.19.2 core/pipeline_parallel/schedules.py forward_backward_pipelining_with_interleaving,
/// forward_step_helper_preprocess.
void MegatronRun::gather_next_chunk(const Slot& slot) {
  if (forwards_ == 0) gather_chunk(0, {}), gather_chunk(1, {});
  const std::int64_t group = options().micro_batch_group(layout().pipeline);
  const std::int64_t aligned = forwards_ + state_.inputs().place.stage, next = aligned / group + 1;
  if (aligned % group == 0 && next > 1 && next < layout().virtual_stages)
    gather_chunk(static_cast<std::size_t>(next), state_.clock().computed());
  if (slot.first()) state_.wait(chunk_gathered_[slot.tape]);
}

void MegatronRun::gather_chunk(std::size_t chunk, Instant earliest) {
  for (const megatron::Bucket& each : buckets_)
    if (chunk_of(each) == chunk) chunk_gathered_[chunk] = issue_gather(each, earliest);
}

void MegatronRun::begin_backward(const Slot& slot) {
  if (is_interleaved()) return;
  device_.release(received_), device_.release(gradient_), device_.release(rows_);
  reduces_ = slot.last && options().overlap_grad_reduce && is_first_stage();
  waits_for_.assign(buckets_.size(), 0);
  for (const std::vector<std::size_t>& of : buckets_of_)
    for (const std::size_t bucket : of) ++waits_for_[bucket];
}

/// Buckets of weights are gathered before the first module that needs one of them runs, and the next beside
/// it.
void MegatronRun::section(int layer, bool backward) {
  dispatchers_.section(layer, backward);
  Gathers& dense = dense_gathers_;
  if (is_interleaved() || !options().overlap_param_gather || backward || dense.done >= dense.order.size())
    return;
  gather_until(layer < 0 ? 0 : state_.tensor_of(layer, 0));
}

void MegatronRun::gather_until(std::size_t tensor) {
  Gathers& dense = dense_gathers_;
  while (dense.done < dense.order.size()) {
    const megatron::Bucket& next = buckets_[dense.order[dense.done]];
    gather(next);
    ++dense.done;
    if (tensor < state_.tensors().size() && next.parameters.front().tensor > tensor) break;
  }
}

/// Experts are read behind the exchange of tokens: their buckets are gathered there.
void MegatronRun::module(const Event& event, int layer) {
  if (event.kind != Event::Kind::read_parameter || !options().overlap_param_gather) return;
  const std::size_t tensor = state_.tensor_of(layer, event.index);
  if (buckets_of_[tensor].empty()) return;  // frozen
  Gathers& gathers = expert_gathers_;
  const auto last = std::ranges::find(gathers.order, buckets_of_[tensor].front());
  if (last == gathers.order.end()) return;  // a part of the dense buffer
  const auto needed = static_cast<std::size_t>(last - gathers.order.begin()) + 2;
  for (; gathers.done < std::min(needed, gathers.order.size()); ++gathers.done)
    gather(buckets_[gathers.order[gathers.done]]);
}

void MegatronRun::gather(const megatron::Bucket& bucket) {
  if (is_divided()) state_.wait(issue_gather(bucket, state_.clock().computed()));
}

Instant MegatronRun::issue_gather(const megatron::Bucket& bucket, Instant earliest) {
  return state_.issue(earliest, Operation::all_gather, bucket.size(), kWeight, "weights", dividers(bucket));
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
  for (const std::size_t bucket : buckets_of_[tensor])
    if (--waits_for_[bucket] == 0) reduce(buckets_[bucket]);
}

Over MegatronRun::sharers(const megatron::Bucket& bucket) const {
  const Group group = bucket.kind == megatron::BufferKind::dense ? Group::data : Group::expert_data;
  return {group, megatron::buffer_ranks(layout(), bucket.kind)};
}

Over MegatronRun::dividers(const megatron::Bucket& bucket) const {
  return {sharers(bucket).group, megatron::dividing_ranks(in().strategy, bucket.kind)};
}

void MegatronRun::reduce(const megatron::Bucket& bucket) {
  if (is_divided()) return options().sums_in_fp32 ? exchange(bucket) : reduce_scatter(bucket);
  reduced_ = state_.issue(state_.clock().computed(), Operation::all_reduce, bucket.size(), sum_element(),
                          "gradients", sharers(bucket));
}

/// Each instance's ranks, neighbours, divide the sums; ranks that hold the same part in all instances add
/// theirs up.
void MegatronRun::reduce_scatter(const megatron::Bucket& bucket) {
  const std::int64_t instances = options().optimizer_instances;
  const Over ranks = dividers(bucket);
  reduced_ = state_.issue(state_.clock().computed(), Operation::reduce_scatter, bucket.size(), sum_element(),
                          "gradients", ranks);
  if (instances > 1)
    reduced_ = state_.issue(reduced_, Operation::all_reduce, Elements(bucket.size().value / ranks.ranks),
                            sum_element(), "gradients", instances, {}, ranks.ranks);
}

/// Ranks send each other parts of the gradients, which each sums in fp32. What arrives stays until then: the
/// next bucket's exchange waits for it. Source: Megatron-Core 0.19.2
/// core/distributed/reduce_scatter_with_fp32_accumulation.py, param_and_grad_buffer.py start_grad_sync.
void MegatronRun::exchange(const megatron::Bucket& bucket) {
  finish_exchange();
  const Over ranks = dividers(bucket);
  exchanged_ = device_.allocate(Term::bucket_copy, bucket.size() * sum_element());
  exchanged_sums_ = Elements(bucket.size().value / ranks.ranks);
  reduced_ = state_.issue(state_.clock().computed(), Operation::all_to_all, bucket.size(), sum_element(),
                          "gradients", ranks);
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
  finish_gradients();
}

void MegatronRun::finish_gradients() {
  finish_exchange();
  state_.wait(reduced_);
  sum_replicated();
  sum_expert_loads();
  count_tokens();
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
/// summed, norms of heads always, others under sequence parallelism. So are those of an embedding that two
/// stages hold. Source: Megatron-Core 0.19.2 core/distributed/finalize_model_grads.py.
void MegatronRun::sum_replicated() {
  const std::int64_t head = in().model.shape.head_size, hidden = in().model.shape.hidden_size;
  Elements replicated{};
  for (const RankTensor& each : state_.tensors()) {
    const bool is_of_heads = each.role == TensorRole::norm && each.elements.value == head && head != hidden;
    if (each.trainable && !each.divided && each.role != TensorRole::position_embedding &&
        each.role != TensorRole::expert && (options().sequence_parallel || is_of_heads))
      replicated += each.elements;
  }
  if (layout().tensor > 1 && replicated != Elements{})
    state_.all_reduce(Group::tensor, replicated, kFp32, "replicated norms");
  if (layout().pipeline == 1 || !in().model.shape.tied_embeddings || !(is_first_stage() || is_last_stage()))
    return;
  const Elements table = state_.tensors()[state_.token_embedding()].elements;
  state_.wait(state_.issue(state_.clock().computed(), Operation::all_reduce, table, kFp32, "tied embedding",
                           Over(Group::pipeline, 2)));
}

/// Biases of experts follow how many tokens each got, of all ranks of the stage. Source: Megatron-Core 0.19.2
/// core/distributed/finalize_model_grads.py _update_router_expert_bias.
void MegatronRun::sum_expert_loads() {
  const RouterForm router = in().model.shape.operators.router;
  if (router != RouterForm::deepseek_v3 && router != RouterForm::minimax) return;
  const std::int64_t mixtures = dispatchers_.mixtures();
  if (mixtures == 0) return;
  state_.wait(state_.issue(state_.clock().computed(), Operation::all_reduce,
                           Elements(mixtures * in().model.shape.experts->experts), kWeight,
                           "tokens of experts", Over(Group::world, layout().world() / layout().pipeline)));
}

void MegatronRun::hold(Device::Block& variable) {
  device_.release(variable);
  if (!is_first_stage()) variable = device_.allocate(Term::layer_working_set, passed_size());
}

void MegatronRun::transferred(const Slot& slot) {
  if (slot.kind == Slot::Kind::receive_hidden && slot.kept) variables_.keep(slot);
  if (slot.kind != Slot::Kind::send_gradient) return;
  if (is_interleaved())
    variables_.sent_gradient(slot);
  else if (slot.last)
    reduce_rest();
}

/// The chunk's gradients are complete, on this stage and on those before it. Without overlap all are reduced
/// at the end of the step.
void MegatronRun::reduce(const Slot& slot) {
  if (!options().overlap_grad_reduce && !slot.last) return;
  for (const megatron::Bucket& each : buckets_)
    if (!options().overlap_grad_reduce || chunk_of(each) == slot.tape) reduce(each);
  if (slot.last) finish_gradients();
}

void MegatronRun::end_backward(const Slot& slot) {
  if (is_interleaved()) {
    if (is_first_stage() && slot.tape == 0) variables_.sent_none();
    return;
  }
  dispatchers_.end_backward();
  hold(sent_), hold(received_);
  if (!slot.last && is_first_stage() && layout().pipeline > 1 && megatron::begins_with_rows(in().training))
    for (int each = 0; each < 2; ++each)
      rows_.push_back(device_.allocate(Term::layer_working_set, hidden_size()));
  if (!slot.last && !is_last_stage()) gradient_ = device_.allocate(Term::layer_working_set, passed_size());
  if (slot.last && is_first_stage()) reduce_rest();  // later stages send the last gradient first
}

/// Ranks that divide optimizer states have a part each of the gradients: all, or those of an instance.
/// Without the distributed optimizer the experts' optimizer has a group of its own.
void MegatronRun::agree_on_norm() {
  const auto agree = [this](Over over) {
    state_.communicate(Operation::all_reduce, Elements(1), kFp32, "gradient norm", over);
  };
  if (options().optimizer_instances > 1)
    return agree(Over(Group::world, layout().world() / options().optimizer_instances));
  state_.all_reduce(is_divided() ? Group::world : Group::model, Elements(1), kFp32, "gradient norm");
  if (!is_divided() && has_expert_buffer())
    agree(Over(Group::expert_model, layout().expert_ranks() * layout().pipeline));
}

void MegatronRun::step(bool first) {
  variables_.end_schedule();
  device_.release(teacher_logits_);
  state_.all_reduce(Group::world, Elements(1), kFp32, "rerun state", "int32");
  agree_on_norm();
  if (first) make_placeholders();
  optimizer_.step(device_, first);
  // Each of two chained optimizers gathers all weights.
  if (is_divided() && !options().overlap_param_gather)
    for (int optimizer = 0; optimizer < (has_expert_buffer() ? 2 : 1); ++optimizer)
      for (const megatron::Bucket& each : buckets_) gather(each);
  report_step();
}

/// Ranks agree on what the log says: whether the step was skipped, the largest gradient norm, the mean loss.
/// Source: Megatron-Core 0.19.2 training/training.py train_step.
void MegatronRun::report_step() {
  state_.all_reduce(Group::model, Elements(1), kFp32, "skipped step", "int32");
  state_.all_reduce(Group::model, Elements(1), kFp32, "gradient norm");
  if (is_last_stage()) state_.all_reduce(Group::data, Elements(2), kFp32, "mean loss");
}

}  // namespace zplan
