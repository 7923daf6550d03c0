#include "planner/simulation/rank_state.h"

#include <algorithm>

#include "planner/question/framework.h"
#include "planner/simulation/allowances.h"

namespace zplan {

namespace {
/// UlyssesSPDataLoaderAdapter shards what a batch has: input_ids, labels and position_ids.
constexpr std::int64_t kBatchTensors = 3;
}  // namespace

RankState::RankState(const RunInputs& inputs, Device& device)
    : inputs_(inputs),
      device_(device),
      parameters_(inputs.step.rank.tensors.size()),
      gradients_(inputs.step.rank.tensors.size(), Device::kNone) {
  int last = -1;
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const int layer = tensors()[i].layer;
    if (layer >= 0 && layer != last) {
      layer_start_.resize(static_cast<std::size_t>(layer) + 1);
      layer_start_.back() = i;
    }
    if (layer >= 0 && last < 0) before_ = i;
    if (layer < 0 && last >= 0) behind_ = i;
    last = layer;
  }
  device_.allocate(Term::frozen_parameters, inputs.step.model.inventory.buffers);
  if (const auto held = in().training.modules.held)
    for (const Bytes each : held(in().model, in().training, in().strategy))
      device_.allocate(Term::layer_working_set, each);
}

std::size_t RankState::tensor_of(int layer, std::int32_t index) const {
  const auto i = static_cast<std::size_t>(index);
  if (layer >= 0) return layer_start_[static_cast<std::size_t>(layer)] + i;
  return i < before_ ? i : behind_ + (i - before_);
}

void RankState::make_parameters() {
  make_base();
  const bool prepares = widens_unpacked(in().training);
  if (prepares) prepare_unpacked();
  make_adapters();
  const FrameworkSpec& framework = spec(in().training.framework);
  if (!framework.shards_reference(in().strategy)) make_reference();
  const bool casts = framework.casts_model && framework.casts_adapters(in().training, in().strategy);
  if (casts && in().training.method != Method::full) cast_module(prepares);
}

Term RankState::term_of(std::size_t tensor) const {
  return tensors()[tensor].trainable ? Term::trained_parameters : Term::frozen_parameters;
}

bool RankState::is_adapter(std::size_t tensor) const { return tensors()[tensor].added; }

void RankState::release_parameter(std::size_t tensor) {
  if (!tensors()[tensor].packed || parameters_[tensor].empty()) return device_.release(parameters_[tensor]);
  device_.release(parameters_[tensor][spec(in().training.quantization).values_block]);
}

/// Weights come in 16 bits and are packed one by one, then what is not packed.
void RankState::make_base() {
  const bool packs = in().training.method == Method::qlora;
  for (std::size_t i = 0; i < tensors().size(); ++i)
    if (tensors()[i].packed) make_packed(i);
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const RankTensor& tensor = tensors()[i];
    if (tensor.packed || is_adapter(i)) continue;
    parameters_[i] = {device_.allocate(term_of(i), packs ? tensor.elements * weight() : tensor.stored)};
  }
  // A tied head is made before it becomes the embedding; models that are packed are made without memory
  // first.
  if (in().model.shape.tied_embeddings && !packs)
    device_.spike(Term::trained_parameters, tensors()[token_embedding()].stored);
}

std::size_t RankState::token_embedding() const {
  const auto found = std::ranges::find(tensors(), TensorRole::token_embedding, &RankTensor::role);
  return found == tensors().end() ? 0 : static_cast<std::size_t>(found - tensors().begin());
}

void RankState::make_reference() {
  if (const std::shared_ptr<const Model>& reward = in().model.reward; reward && trains_values(in().training))
    for_each_tensor(reward->inventory, [&](const Tensor& tensor, int) {
      device_.allocate(Term::frozen_parameters, tensor.elements() * weight());
    });
  if (reference_of(in().training) != ReferenceModel::copy) return;
  // LLaMA-Factory loads the copy in the type that computes. Source: LLaMA-Factory 0.9.5
  // train/trainer_utils.py create_ref_model.
  const bool narrow =
      in().training.answer_loss == AnswerLoss::whole_fp32 && in().training.precision != Precision::fp32;
  for (const RankTensor& tensor : in().rank.compared)
    device_.allocate(Term::frozen_parameters, narrow ? tensor.elements * Bytes(2) : tensor.stored);
  if (compared_model(in().model).shape.tied_embeddings)
    device_.spike(Term::frozen_parameters, compared_embedding(in().rank).stored);
}

/// prepare_model_for_kbit_training: what is not packed becomes fp32.
void RankState::prepare_unpacked() {
  for (std::size_t i = 0; i < tensors().size(); ++i)
    if (!tensors()[i].packed && !is_adapter(i)) cast(i, tensors()[i].elements * Bytes(4));
  device_.empty_cache();
}

/// DeepSpeed's engine casts every parameter that is not in the training's type.
void RankState::cast_module(bool prepared) {
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const RankTensor& tensor = tensors()[i];
    const Bytes size = tensor.elements * weight();
    if (is_adapter(i) ? tensor.stored != size : prepared && !tensor.packed) cast(i, size);
  }
}

/// int8 rounds an fp16 copy; double quantisation has the fp32 maxima of blocks first, and then their
/// distances from their mean, which it packs in turn. HQQ fits zero points to an fp32 copy, with four of its
/// size in fp16, and gives memory back after each weight; torchao rounds an fp32 copy. What GPTQ and AWQ
/// packed was packed before. Source: hqq 0.2.8 core/quantize.py Quantizer.quantize, core/optimize.py; torchao
/// 0.18.0 quantization/quant_primitives.py.
void RankState::make_packed(std::size_t i) {
  const RankTensor& tensor = tensors()[i];
  const Quantization quantization = in().training.quantization;
  const QuantizationSpec& about = spec(quantization);
  const auto take = [this](Bytes size) { return device_.allocate(Term::frozen_parameters, size); };
  const Bytes loaded = tensor.elements * weight();
  std::vector<Device::Block> temporary;
  const bool fits = about.fit_size > 0;
  if (!about.packed_before) temporary.push_back(take(loaded));
  if (fits) device_.spike(Term::frozen_parameters, tensor.elements * Bytes(about.fit_size));
  if (about.rounds_copy) temporary.push_back(take(loaded));
  const Bytes maxima = about.nested ? share(tensor.elements, about.group) * Bytes(4) : Bytes{};
  if (about.nested) temporary.push_back(take(maxima));
  for (const Bytes block : packed_blocks(quantization, tensor.elements, tensor.rows)) {
    if (about.nested && parameters_[i].size() == 3) temporary.push_back(take(maxima));
    parameters_[i].push_back(take(block));
  }
  std::reverse(temporary.begin(), temporary.end());
  device_.release(temporary);
  if (fits) device_.empty_cache();
}

void RankState::make_quant_states() {
  const Quantization quantization = in().training.quantization;
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    if (!tensors()[i].packed) continue;
    const std::vector<Bytes> blocks = packed_blocks(quantization, tensors()[i].elements, tensors()[i].rows);
    for (std::size_t block = 0; block < blocks.size(); ++block)
      if (block != spec(quantization).values_block) device_.allocate(Term::frozen_parameters, blocks[block]);
  }
}

/// peft makes adapters on the host and moves them in the base weight's type, or that in which a packed weight
/// computes (packed integers: as they are, fp32); then it casts those that are to be fp32.
/// Source: peft 0.21.2 tuners/tuners_utils.py _move_adapter_to_device_of_base_layer, cast_adapter_dtype.
void RankState::make_adapters() {
  const Training& training = in().training;
  const Bytes element = keeps_adapters_fp32(training)      ? Bytes(4)
                        : training.method == Method::qlora ? weight()
                                                           : parameter_size(training);
  // peft makes a head in fp32 before it ties it to the embedding's copy (utils/other.py
  // ModulesToSaveWrapper).
  if (training.ties_saved_modules && !training.modules_to_save.empty())
    device_.spike(Term::trained_parameters, tensors()[token_embedding()].elements * Bytes(4));
  for (std::size_t i = 0; i < tensors().size(); ++i)
    if (is_adapter(i)) parameters_[i] = {device_.allocate(term_of(i), tensors()[i].elements * element)};
  for (std::size_t i = 0; i < tensors().size(); ++i)
    if (is_adapter(i) && tensors()[i].stored != tensors()[i].elements * element) cast(i, tensors()[i].stored);
}

void RankState::cast(std::size_t tensor, Bytes size) {
  const Device::Block copy = device_.allocate(term_of(tensor), size);
  device_.release(parameters_[tensor]);
  parameters_[tensor] = {copy};
}

std::int64_t RankState::batch_refills(std::int64_t first, std::int64_t micro_steps) const {
  const std::int64_t ranks = in().strategy.layout.sequence;
  const bool adapts = spec(in().training.framework).runs_alst;  // accelerate's adapter of the data loader
  return ranks == 1 || !adapts ? 0 : divide_up(first + micro_steps, ranks) - divide_up(first, ranks);
}

void RankState::refill_batches(std::int64_t times) {
  if (times == 0) return;
  const std::int64_t ranks = in().strategy.layout.sequence;
  const Elements tokens(in().strategy.micro_batch_size * in().training.sequence_length);
  const auto gather = [&](Elements elements) {
    if (!notes_calls_) return;
    Call call = call_of(Group::sequence, Operation::all_gather, elements, Bytes(8), "batches", "int64");
    for (std::int64_t each = 0; each < times; ++each) clock_.exchange(call, -1, device_.phase());
    call.times = times;
    calls_.add(call);
  };
  std::vector<Device::Block> whole;
  gather(Elements(ranks));
  for (std::int64_t tensor = 0; tensor < kBatchTensors; ++tensor) {
    for (std::int64_t each = 0; each <= ranks; ++each)  // this rank's, then those of all
      whole.push_back(device_.allocate(Term::model_inputs, tokens * Bytes(8)));
    gather(tokens * ranks);
  }
  device_.release(whole);
}

void RankState::count_tokens() {
  const ParallelLayout& layout = in().strategy.layout;
  const Group group = layout.tensor > 1 ? Group::world : Group::data;
  exchange(call_of(group, Operation::all_gather, Elements(process_group(layout, group).size), Bytes(8),
                   "token counts", "int64"),
           -1);
}

void RankState::move_trainable_parameters_to_host() {
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    if (!tensors()[i].trainable) continue;
    const Device::Block stand_in = device_.allocate(Term::trained_parameters, Bytes(4));
    device_.release(parameters_[i]);
    parameters_[i] = {stand_in};
  }
}

void RankState::release_trainable_parameters() {
  for (std::size_t i = 0; i < tensors().size(); ++i)
    if (tensors()[i].trainable) device_.release(parameters_[i]);
}

void RankState::take_gradient(std::size_t tensor, Device::Block block) {
  Device::Block& kept = gradients_[tensor];
  if (kept != Device::kNone) {  // added in place
    clock_.move(tensors()[tensor].elements * weight() * 3);
    return device_.release(block);
  }
  device_.rename(block, Term::gradients);
  kept = block;
}

void RankState::release_gradients() {
  for (Device::Block& each : gradients_) device_.release(each);
}

void RankState::optimizer_temporaries(const std::vector<Elements>& sizes, Bytes element) {
  std::vector<OptimizerTensor> flat;
  for (const Elements each : sizes) flat.push_back({.elements = each, .element = element});
  optimizer_step(device_, in().training, flat, false);
}

void RankState::workspace(std::int32_t library) {
  const Bytes size =
      library == 0 ? Bytes(cublas_workspaces(inputs_.compute_capability).value / 2) : cublaslt_workspace();
  device_.allocate(Term::cublas_workspace, size);
}

namespace {

/// Returns torch's name of a type of that size.
std::string_view dtype_of(Bytes element, Precision precision) {
  switch (element.value) {
    case 1: return "uint8";
    case 4: return "float32";
    case 8: return "float64";
    default: return precision == Precision::fp16 ? "float16" : "bfloat16";
  }
}

/// `router`: the type that Megatron's routers compute in.
enum class ElementOf : std::uint8_t { model, router, fp32, int32, int64, boolean };

struct TensorCallAbout {
  Operation operation;
  Group group;
  std::string_view purpose;
  ElementOf element;
  bool runs_ahead{};  ///< what is computed next does not need it
};

TensorCallAbout about(TensorCall call) {
  using enum ElementOf;
  switch (call) {
    case TensorCall::row_output: return {Operation::all_reduce, Group::tensor, "row-split outputs", model};
    case TensorCall::column_input:
      return {Operation::all_reduce, Group::tensor, "column-split input gradients", model};
    case TensorCall::split_embedding: return {Operation::all_reduce, Group::tensor, "split embedding", model};
    case TensorCall::logits: return {Operation::all_gather, Group::tensor, "logits", model};
    case TensorCall::token_maxima:
    case TensorCall::token_sums:
      return {Operation::all_reduce, Group::tensor, "vocabulary-parallel loss", fp32};
    case TensorCall::route_gradients:
      return {Operation::all_reduce, Group::tensor, "gradients of routing weights", model};
    case TensorCall::wide_route_gradients:
      return {Operation::all_reduce, Group::tensor, "gradients of routing weights", fp32};
    case TensorCall::replicated_gradient:
      return {Operation::all_reduce, Group::tensor, "replicated norms", model};
    case TensorCall::token_exchange:
      return {Operation::all_to_all, Group::sequence, "heads for tokens", model};
    case TensorCall::positions: return {Operation::all_gather, Group::sequence, "positions", int64};
    case TensorCall::rank_losses: return {Operation::all_gather, Group::sequence, "losses", fp32};
    case TensorCall::rank_token_counts:
      return {Operation::all_gather, Group::sequence, "token counts", int64};
    case TensorCall::loss_gradient: return {Operation::reduce_scatter, Group::sequence, "losses", fp32};
    case TensorCall::tile_count: return {Operation::all_reduce, Group::data, "slices", int64};
    case TensorCall::gathered_keys:
      return {Operation::all_gather, Group::context, "keys and values", model, true};
    case TensorCall::passed_keys:
      return {Operation::send_recv, Group::context, "keys and values", model, true};
    case TensorCall::passed_key_gradients:
      return {Operation::send_recv, Group::context, "gradients of keys and values", fp32, true};
    case TensorCall::expert_counts: return {Operation::all_to_all, Group::expert, "rows of experts", int32};
    case TensorCall::expert_row_counts:
      return {Operation::all_to_all, Group::expert, "rows of experts", int64};
    case TensorCall::expert_rows: return {Operation::all_to_all, Group::expert, "routed tokens", model};
    case TensorCall::row_counts: return {Operation::all_gather, Group::tensor, "rows of ranks", int64};
    case TensorCall::combined_rows: return {Operation::all_gather, Group::tensor, "routed tokens", model};
    case TensorCall::row_places: return {Operation::all_gather, Group::tensor, "places of tokens", int64};
    case TensorCall::row_weights: return {Operation::all_gather, Group::tensor, "weights of tokens", model};
    case TensorCall::combined_gradients:
      return {Operation::all_reduce, Group::tensor, "gradients of routed tokens", model};
    case TensorCall::averaged_gradients:
      return {Operation::all_reduce, Group::tensor, "gradients of a mixture's input", model};
    case TensorCall::gathered_tokens:
      return {Operation::all_gather, Group::tensor, "tokens of all ranks", model};
    case TensorCall::gathered_again:
      return {Operation::all_gather, Group::tensor, "tokens of all ranks", model, true};
    case TensorCall::scattered_tokens:
      return {Operation::reduce_scatter, Group::tensor, "sums of own tokens", model};
    case TensorCall::scattered_gradients:
      return {Operation::reduce_scatter, Group::tensor, "gradients of own tokens", model, true};
    case TensorCall::reduced_gradients:
      return {Operation::all_reduce, Group::tensor, "column-split input gradients", model, true};
    case TensorCall::exchanged_heads:
      return {Operation::all_to_all, Group::context, "heads for tokens", model};
    case TensorCall::heads_within_part:
      return {Operation::all_to_all, Group::context, "heads for tokens", model};
    case TensorCall::keys_between_parts:
      return {Operation::send_recv, Group::context, "keys and values", model, true};
    case TensorCall::gathered_context:
      return {Operation::all_gather, Group::context, "keys and values", model};
    case TensorCall::scattered_keys:
      return {Operation::reduce_scatter, Group::context, "gradients of keys and values", model};
    case TensorCall::gathered_projection:
      return {Operation::all_gather, Group::tensor, "queries, keys and values", model};
    case TensorCall::scattered_projection:
      return {Operation::reduce_scatter, Group::tensor, "gradients of queries, keys and values", model};
    case TensorCall::gathered_inputs:
      return {Operation::all_gather, Group::tensor, "saved hidden states", model};
    case TensorCall::stage_sizes:
      return {Operation::send_recv, Group::pipeline, "sizes of hidden states", int64};
    case TensorCall::batch_tokens: return {Operation::broadcast, Group::tensor, "batch", int64};
    case TensorCall::batch_weights: return {Operation::broadcast, Group::tensor, "loss mask", fp32};
    case TensorCall::expert_loads: return {Operation::all_reduce, Group::sample, "tokens of experts", int64};
    case TensorCall::gathered_expert_counts:
      return {Operation::all_gather, Group::expert_model, "rows of experts", int64};
    case TensorCall::expert_row_weights:
      return {Operation::all_to_all, Group::expert, "weights of routed tokens", router};
    case TensorCall::gathered_rows:
      return {Operation::all_gather, Group::expert_tensor, "routed tokens", model};
    case TensorCall::scattered_rows:
      return {Operation::reduce_scatter, Group::expert_tensor, "gradients of routed tokens", model};
    case TensorCall::gathered_row_weights:
      return {Operation::all_gather, Group::expert_tensor, "weights of routed tokens", router};
    case TensorCall::scattered_row_weights:
      return {Operation::reduce_scatter, Group::expert_tensor, "gradients of weights", router};
    case TensorCall::scattered_outputs:
      return {Operation::reduce_scatter, Group::expert_tensor, "outputs of experts", router};
    case TensorCall::gathered_outputs:
      return {Operation::all_gather, Group::expert_tensor, "gradients of outputs", router};
    case TensorCall::gathered_routes:
      return {Operation::all_gather, Group::expert_model, "chosen experts", boolean};
    case TensorCall::gathered_route_weights:
      return {Operation::all_gather, Group::expert_model, "weights of routed tokens", router};
    case TensorCall::scattered_route_weights:
      return {Operation::reduce_scatter, Group::expert_model, "gradients of weights", router};
    case TensorCall::gathered_expert_tokens:
      return {Operation::all_gather, Group::expert_model, "routed tokens", model};
    case TensorCall::scattered_expert_tokens:
      return {Operation::reduce_scatter, Group::expert_model, "gradients of routed tokens", model};
    case TensorCall::scattered_expert_outputs:
      return {Operation::reduce_scatter, Group::expert_model, "outputs of experts", router};
    case TensorCall::gathered_expert_outputs:
      return {Operation::all_gather, Group::expert_model, "gradients of outputs", router};
    case TensorCall::gathered_features: return {Operation::all_gather, Group::tensor, "features", model};
    case TensorCall::gathered_maxima: return {Operation::all_gather, Group::tensor, "largest logits", model};
    case TensorCall::gathered_predictions:
      return {Operation::all_gather, Group::tensor, "predicted tokens", int64};
    case TensorCall::stage_output: return {Operation::send_recv, Group::pipeline, "hidden states", model};
    case TensorCall::stage_gradient:
      return {Operation::send_recv, Group::pipeline, "gradients of hidden states", model};
  }
  return {};
}

}  // namespace

Instant RankState::issue(Instant earliest, Operation operation, Elements elements, Bytes element,
                         std::string_view purpose, Over over, std::string_view dtype, std::int64_t stride) {
  if (!notes_calls_) return {};
  const Call call{.operation = operation,
                  .group = over.group,
                  .group_size = over.ranks,
                  .stride = stride,
                  .phase = pass_of(device_.phase()),
                  .dtype = dtype.empty() ? dtype_of(element, in().training.precision) : dtype,
                  .element = element,
                  .purpose = purpose,
                  .elements = elements};
  calls_.add(call);
  return over.ranks > 1 ? clock_.issue(call, earliest) : Instant{};
}

Call RankState::call_of(TensorCall call, Bytes size) const {
  const TensorCallAbout which = about(call);
  Bytes element = weight();
  std::string_view dtype{};
  const bool wide_router =
      which.element == ElementOf::router && in().strategy.megatron && in().strategy.megatron->router_in_fp32;
  if (which.element == ElementOf::fp32 || wide_router) element = Bytes(4);
  if (which.element == ElementOf::boolean) element = Bytes(1), dtype = "bool";
  if (which.element == ElementOf::int32) element = Bytes(4), dtype = "int32";
  if (which.element == ElementOf::int64) element = Bytes(8), dtype = "int64";
  Call made = call_of(which.group, which.operation, Elements(size.value / element.value), element,
                      which.purpose, dtype);
  // Ranks that exchange heads are neighbours; those of a ring over their parts are not.
  if (call == TensorCall::heads_within_part)
    made.group_size = in().strategy.megatron->context_hierarchy.front();
  if (call == TensorCall::keys_between_parts)
    made.group_size = in().strategy.megatron->context_hierarchy.back(),
    made.stride = in().strategy.megatron->context_hierarchy.front();
  return made;
}

void RankState::communicate(TensorCall call, Bytes size, std::int32_t number) {
  if (!notes_calls_) return;
  const Call made = call_of(call, size);
  if (!about(call).runs_ahead) {
    exchange(made, number);
    // Split sizes are read from the device, unless a copy of them runs beside what is computed.
    const bool splits_later = call == TensorCall::expert_counts && in().strategy.experts.async_split_plan;
    const bool counts_rows = call == TensorCall::expert_counts || call == TensorCall::expert_row_counts ||
                             call == TensorCall::gathered_expert_counts;
    if (counts_rows && !splits_later) clock_.read_back();
    return;
  }
  calls_.add(made);
  under_way_[static_cast<std::size_t>(call)] = clock_.issue(made, clock_.computed(), number);
}

Instant RankState::send(TensorCall call, Bytes size, std::int32_t number, std::int32_t peer, Phase phase,
                        Group group) {
  if (!notes_calls_) return {};
  Call made = call_of(call, size);
  made.group = group, made.group_size = process_group(in().strategy.layout, group).size;
  made.phase = phase;
  calls_.add(made);
  const Instant sent = clock_.send(made, peer, clock_.computed(), number);
  if (call == TensorCall::stage_sizes) clock_.read_back();  // stages synchronise to read them
  return sent;
}

Instant RankState::receive(TensorCall call, Bytes size, std::int32_t number, std::int32_t peer) {
  if (!notes_calls_) return {};
  const Instant received = clock_.receive(call_of(call, size), peer, number);
  if (call == TensorCall::stage_sizes) clock_.read_back();
  return received;
}

void RankState::await(TensorCall call) { wait(under_way_[static_cast<std::size_t>(call)]); }

Call RankState::call_of(Group group, Operation operation, Elements elements, Bytes element,
                        std::string_view purpose, std::string_view dtype) const {
  return {.operation = operation,
          .group = group,
          .group_size = process_group(in().strategy.layout, group).size,
          .phase = pass_of(device_.phase()),
          .dtype = dtype.empty() ? dtype_of(element, in().training.precision) : dtype,
          .element = element,
          .purpose = purpose,
          .elements = elements};
}

void RankState::exchange(const Call& call, std::int32_t number) {
  if (!notes_calls_) return;
  calls_.add(call);
  if (call.group_size > 1) clock_.exchange(call, number, device_.phase());
}

void RankState::agree(Group group, Bytes element, std::string_view purpose) {
  if (group == Group::data) return communicate(Operation::all_reduce, Elements(1), element, purpose);
  all_reduce(group, Elements(1), element, purpose);
}

void RankState::all_reduce(Group group, Elements elements, Bytes element, std::string_view purpose,
                           std::string_view dtype) {
  exchange(call_of(group, Operation::all_reduce, elements, element, purpose, dtype), -1);
}

}  // namespace zplan
