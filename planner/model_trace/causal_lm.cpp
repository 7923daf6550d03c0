#include "planner/model_trace/causal_lm.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "models/base/error.h"
#include "planner/model_trace/program.h"
#include "planner/model_trace/recorded_tape.h"
#include "planner/model_trace/reference.h"
#include "planner/model_trace/vision.h"
#include "planner/question/framework.h"
#include "planner/sharding/model_part.h"
#include "planner/sharding/plan_split.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace symbolic {

namespace {

/// LayerClass identifies layers that behave alike: the same tensors, attention and place (first, last,
/// between). The first layer with a sliding window, and the first without, is the last to use its mask in the
/// backward.
struct LayerClass {
  std::size_t kind{};
  bool sliding{}, rotates{}, is_first_of_mask{};
  int place{};
  std::size_t deepstack{};   ///< of those that have features of images added behind them, which one; 0: none
  bool trains{};             ///< it is one of Training::trained_layers
  bool is_behind_trained{};  ///< one before it is: gradients pass it
  bool is_kept{};            ///< full checkpointing leaves it out (Megatron's --recompute-method block)
  std::vector<ContextExchange> exchanges;  ///< of the layers in it (Megatron's --cp-comm-type)
  bool operator==(const LayerClass&) const = default;
};

/// Outline holds one layer of each class, in order, and the class of each layer.
struct Outline {
  std::vector<LayerClass> classes;
  std::vector<std::int64_t> example;  ///< the first layer of each class
  std::vector<std::size_t> of_layer;
};

bool slides(const ModelShape& shape, std::size_t layer) {
  if (shape.sliding_window == 0 || shape.sliding_layers == 0) return false;
  if (shape.sliding_layers >= shape.layers) return true;
  const std::int64_t full = shape.layers - shape.sliding_layers;
  std::int64_t every = shape.operators.full_attention_every;
  if (every == 0) return static_cast<std::int64_t>(layer) >= full;
  while (every < shape.layers && shape.layers / every != full) ++every;
  return (static_cast<std::int64_t>(layer) + 1) % every != 0;
}

/// True if the layer rotates queries and keys. Some architectures do not where a layer attends to all tokens.
bool rotates(const ModelShape& shape, std::size_t layer) {
  switch (shape.operators.rotated_layers) {
    case RotatedLayers::all: return true;
    case RotatedLayers::all_but_each_fourth: return (layer + 1) % 4 != 0;
    case RotatedLayers::sliding: return shape.sliding_window == 0 || slides(shape, layer);
  }
  return true;
}

/// Returns the place of a layer: 0 first, 2 last, 1 between. 3 is the last but one, where hooks on saved
/// tensors treat it apart.
int place_of(std::size_t layer, std::size_t count, CheckpointOffload offload) {
  if (layer == 0) return 0;
  if (layer + 1 == count) return 2;
  const bool hooks = offload == CheckpointOffload::pinned;
  return hooks && layer + 2 == count ? 3 : 1;
}

/// Returns how many layers have image features added after them.
std::size_t deepstack_of(const Model& model) {
  return model.vision ? model.vision->tower.deepstack.size() : 0;
}

/// Returns how layers `first` … `end` − 1 of the whole model exchange keys and values under Megatron-Core;
/// empty where all of them do alike.
std::vector<ContextExchange> exchanges_of(const Strategy& strategy, std::int64_t first, std::int64_t end) {
  std::vector<ContextExchange> all;
  if (!strategy.megatron || strategy.megatron->context_exchanges.size() == 1) return all;
  const std::vector<ContextExchange>& given = strategy.megatron->context_exchanges;
  for (std::int64_t i = first; i < std::min<std::int64_t>(end, std::ssize(given)); ++i)
    all.push_back(given[static_cast<std::size_t>(i)]);
  return all;
}

Outline outline(const Model& model, const Training& training, const Strategy& strategy, std::int64_t stage) {
  const CheckpointOffload offload = checkpoint_offload(training, strategy);
  const std::optional<std::int64_t> recomputed =
      strategy.megatron ? block_layers(*strategy.megatron) : std::nullopt;
  const std::int64_t grouped =
      strategy.megatron ? std::min(grouped_layers(*strategy.megatron), model.shape.layers) : 1;
  const std::int64_t first = chunk_layers(model.shape.layers, strategy, stage).front().first;
  Outline result;
  const std::vector<std::int64_t>& trained = training.trained_layers;
  const std::size_t count = model.inventory.layers.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t layer = static_cast<std::size_t>(first) + i;
    const bool sliding = slides(model.shape, layer);
    const bool is_first = std::none_of(result.classes.begin(), result.classes.end(),
                                       [&](const LayerClass& each) { return each.sliding == sliding; });
    const auto number = static_cast<std::int64_t>(i);
    const LayerClass own{model.inventory.layers[i],
                         sliding,
                         rotates(model.shape, layer),
                         is_first,
                         place_of(i, count, offload),
                         layer < deepstack_of(model) ? layer + 1 : 0,
                         std::ranges::find(trained, number) != trained.end(),
                         std::ranges::any_of(trained, [&](std::int64_t each) { return each < number; }),
                         recomputed && number >= *recomputed,
                         exchanges_of(strategy, first + number * grouped, first + (number + 1) * grouped)};
    auto at = std::find(result.classes.begin(), result.classes.end(), own);
    if (at == result.classes.end()) {
      at = result.classes.insert(at, own);
      result.example.push_back(static_cast<std::int64_t>(i));
    }
    result.of_layer.push_back(static_cast<std::size_t>(at - result.classes.begin()));
  }
  return result;
}

Tensor parameter_tensor(const Program& p, const zplan::Tensor& about, bool trainable, bool added) {
  Tensor tensor;
  Dimensions sizes(about.shape);
  const std::int64_t t = p.strategy.layout.tensor;
  const TensorParallelSplit split = split_of(p.training, about);
  if (t > 1 && split != TensorParallelSplit::replicated) {
    std::int64_t& divided = split == TensorParallelSplit::row ? sizes.back() : sizes.front();
    divided = elements_on_rank(p.training, about, t, 0).value / (about.elements().value / divided);
  }
  tensor.layout = Layout::contiguous(std::move(sizes));
  const bool stays_narrow =
      !p.training.trained_layers.empty() && !trainable && p.training.precision != Precision::fp32;
  tensor.type = added && !is_saved_copy(about) ? p.adapters : stays_narrow ? DType::bf16 : p.weights;
  return tensor;
}

/// True if the norm is of each head. transformers' tensor-parallel plans sum the gradients of these norms,
/// since every rank runs heads of its own: style "replicated_with_grad_allreduce".
bool is_head_norm(const zplan::Tensor& about) {
  const std::string module = about.name.substr(0, about.name.rfind('.'));
  return about.role == TensorRole::norm && about.split == TensorParallelSplit::replicated &&
         (module.ends_with("q_norm") || module.ends_with("k_norm"));
}

void add_parameter(Program& p, Parameters& list, const zplan::Tensor& about, bool trainable, bool added) {
  Parameter parameter{&about, parameter_tensor(p, about, trainable, added),
                      static_cast<std::int32_t>(list.all().size())};
  if (trainable)
    p.torch.accumulate_into(parameter.tensor, parameter.index,
                            p.strategy.layout.tensor > 1 && !p.strategy.experts.enabled &&
                                !p.strategy.torchtitan && is_head_norm(about));
  list.add(std::move(parameter));
}

/// True if tensor-parallel ranks divide hidden states between layers.
bool divides_hidden_states(const Strategy& strategy) {
  return (strategy.megatron && strategy.megatron->sequence_parallel) ||
         (strategy.torchtitan && strategy.torchtitan->sequence_parallel);
}

Sizes sizes_of(const Model& model, const Training& training, const Strategy& strategy) {
  const ModelShape& shape = model.shape;
  const std::int64_t t = strategy.layout.tensor;
  const std::int64_t kv_heads = units_on_rank(shape.key_value_heads, t, 0);
  return {.b = strategy.micro_batch_size * sequences_per_sample(training),
          .s = local_tokens(training, strategy),
          .h = shape.hidden_size,
          .f = share(Elements(shape.intermediate_size), t).value,
          .a = strategy.megatron || strategy.torchtitan
                   ? shape.attention_heads / t
                   : kv_heads * (shape.attention_heads / shape.key_value_heads),
          .k = kv_heads,
          .d = shape.head_size,
          .V = shape.vocabulary_size,
          .u = divides_hidden_states(strategy) ? t : 1};
}

/// True where DeepSpeed's grouped products run in Triton, not in torch's loop. Source: DeepSpeed 0.19.8
/// accelerator/cuda_accelerator.py prefer_triton_grouped_mm.
bool is_before_hopper(std::string_view compute_capability) {
  return compute_capability.size() == 3 && compute_capability < "9.0";
}

/// MicroStep records a micro-step over a model with one layer of each class.
class MicroStep {
 public:
  MicroStep(const Model& model, const Training& training, const Strategy& strategy,
            const RankClass& place = {}, std::string_view compute_capability = {})
      : outline_(outline(model, training, strategy, place.stage)),
        is_first_(place.stage == 0),
        is_last_(place.stage + 1 == strategy.layout.pipeline),
        recorder_(outline_.classes.size()),
        torch_(recorder_),
        program_{.torch = torch_,
                 .model = model,
                 .training = training,
                 .strategy = strategy,
                 .sizes = sizes_of(model, training, strategy),
                 .context_rank = place.context} {
    if ((strategy.experts.enabled || strategy.megatron || strategy.torchtitan) && model.shape.experts) {
      program_.rows = routed_rows(model, training, strategy, place.expert);
      program_.triton_products = !strategy.experts.without_triton && is_before_hopper(compute_capability);
    }
    choose_types();
    load_parameters();
  }

  /// Records a forward that returns log-probabilities: of a reference model, or of the policy with its
  /// adapters.
  Tape record_scores(bool with_adapters) {
    program_.is_reference = true;
    program_.adapters_off = !with_adapters && program_.training.method != Method::full;
    {
      const Autograd::GradMode off(torch_, false);
      const Tensor log_probabilities = forward();
    }
    return finish();
  }

  /// Records a forward without a graph.
  Tape record_forward() {
    {
      const Autograd::GradMode off(torch_, false);
      const Tensor loss = forward();
    }
    return finish();
  }

  /// Records the forward of a model that returns numbers, values or rewards.
  Tape record_numbers() {
    program_.is_value = true;
    return record_forward();
  }

  /// Records a forward that predicts the next token and keeps keys and values.
  Tape record_prediction() {
    program_.predicts_next = true;
    return record_forward();
  }

  /// Records the micro-step of a model of values.
  Tape record_values() {
    program_.is_value = true;
    return record();
  }

  /// Records a micro-step and returns what its training loop keeps of it.
  Leftovers leftovers() {
    record();
    return program_.leaves;
  }

  /// Returns the tensors that the training loop keeps of all layers while the optimizer steps.
  [[nodiscard]] std::vector<Bytes> held() const {
    const Leftovers& left = program_.leaves;
    std::vector<Bytes> result = left.logits;
    const auto add = [&](int part) {
      if (const auto found = left.inputs.find(part); found != left.inputs.end())
        result.insert(result.end(), found->second.begin(), found->second.end());
    };
    for (const std::size_t layer : outline_.of_layer) add(static_cast<int>(layer));
    add(Recorder::kModel);
    return result;
  }

  /// Records a micro-step. `splits`: its backward is in two parts, which a stage behind the first can have.
  Tape record(const Leftovers& earlier = {}, bool splits = false) {
    hold(earlier);
    Tensor loss = forward();  // of a stage before the last the hidden states that it sends
    if (!is_last_)
      recorder_.transfer(Transfer::send_hidden, [&] {
        pass_sizes();
        recorder_.communicate(TensorCall::stage_output, loss.bytes());
        if (program_.modules().frees_sent_hidden) loss.storage.reset();
      });
    program_.earlier_inputs.clear();
    note_kept_inputs();
    recorder_.turn_to_backward();
    torch_.before_node = [this](const Node& node) { before(node); };
    Tensor gradient = begin_backward(loss);
    std::vector<ParameterGroup> groups;
    if (splits)
      groups = torch_.backward_to_input(loss, gradient, input_, trained_leaves());
    else
      torch_.backward(loss, gradient);
    recorder_.enter(Recorder::kModel);
    recorder_.leave_layers();
    gradient.reset();
    if (!is_first_)
      recorder_.transfer(Transfer::send_gradient, [&] {
        pass_sizes();
        recorder_.communicate(TensorCall::stage_gradient, sent_gradient_.bytes());
        sent_gradient_.reset();
      });
    program_.pixels.reset();
    recorder_.end_layers(1, [&] {
      torch_.drop_fetched();
      program_.outputs.clear();
      program_.kept_inputs.clear();
      program_.earlier_probabilities.reset();
      loss.gradient = {};
      if (!splits) loss.reset();
    });
    if (splits) record_weights(groups, loss);
    return finish();
  }

 private:
  /// Records the second part of a backward in two parts, until which a stage keeps its output.
  void record_weights(std::vector<ParameterGroup>& groups, Tensor& output) {
    torch_.before_node = nullptr;
    recorder_.turn_to_weights();
    torch_.backward_to_parameters(groups);
    recorder_.enter(Recorder::kModel);
    recorder_.end_layers(2, [&] {
      groups.clear();
      output.reset();
    });
  }
  /// Returns the leaves whose gradients the second part of a backward makes, in the order of parameters().
  /// Those around the layers are none where the loss in slices has released them: torch then looks for what
  /// they are sharded to. Source: torch 2.14.1 distributed/pipelining/_backward.py stage_backward_input.
  [[nodiscard]] std::vector<std::shared_ptr<Node>> trained_leaves() const {
    std::vector<std::shared_ptr<Node>> leaves;
    const auto add = [&leaves](const Parameters& of) {
      for (const Parameter& each : of.all())
        if (is_leaf(each.tensor)) leaves.push_back(each.tensor.gradient.node);
    };
    for (const Parameters& each : layers_) add(each);
    if (!loses_last_gradients(*program_.strategy.torchtitan)) add(around_);
    return leaves;
  }

  /// The gradient of the loss, or of hidden states, which the next stage sends.
  Tensor begin_backward(const Tensor& result) {
    if (is_last_) {
      recorder_.take_for(Term::loss_temporaries);
      recorder_.mark(Event::Kind::phase, static_cast<std::int32_t>(Phase::loss_backward));
      return torch_.operate({}, Layout::contiguous({}), DType::fp32);
    }
    recorder_.take_for(Term::layer_working_set);
    Tensor gradient = received(Transfer::receive_gradient, TensorCall::stage_gradient, result.layout);
    recorder_.mark(Event::Kind::phase, static_cast<std::int32_t>(Phase::backward));
    return gradient;
  }

  /// Stages whose samples differ in length send the three sizes of a tensor before it. Source: Megatron-Core
  /// 0.19.2 core/pipeline_parallel/p2p_communication.py _communicate_shapes.
  void pass_sizes() {
    constexpr Bytes kSizes{3 * 8};
    if (program_.strategy.megatron && program_.strategy.megatron->exchanges_shapes)
      recorder_.communicate(TensorCall::stage_sizes, kSizes);
  }

  Tensor received(Transfer which, TensorCall call, const Layout& layout) {
    Tensor made;
    recorder_.transfer(which, [&] {
      pass_sizes();
      made = program_.modules().receives_in_buffers ? of_batch(layout.sizes, program_.weights)
                                                    : torch_.make(layout, program_.weights);
      torch_.drop_kernel();
      recorder_.communicate(call, made.bytes());
    });
    return made;
  }

  /// The hidden states that the stage before sends: a leaf, whose gradient goes back there.
  Tensor received_hidden() {
    recorder_.take_for(Term::saved_activations);
    const Sizes& sizes = program_.sizes;
    const Layout layout = Layout::contiguous({sizes.b * together(), sizes.s / sizes.u, sizes.h});
    // A forward that only scores takes its part of what the policy's received.
    if (program_.is_reference) return of_batch(layout.sizes, program_.weights);
    Tensor hidden = received(Transfer::receive_hidden, TensorCall::stage_output, layout);
    auto sink = std::make_shared<Node>();
    sink->sequence = Node::kLeaf;
    sink->part = Recorder::kModel;
    sink->backward = [this](Tensors& arrived) {
      sent_gradient_ = std::move(arrived[0]);
      return Tensors{};
    };
    hidden.requires_gradient = true;
    hidden.gradient = {sink, 0};
    input_ = sink;
    recorder_.take_for(Term::model_inputs);
    if (const auto own = program_.modules().receive)
      own(program_, is_last_);
    else
      prepare_layers(program_);
    return together() > 1 ? slice(torch_, hidden, 0, sizes.b) : hidden;
  }

  void hold(const Leftovers& earlier) {
    recorder_.take_for(Term::logits);
    for (const Bytes each : earlier.logits) program_.earlier_logits.push_back(recorder_.allocate(each));
    if (trains_values(program_.training) && !earlier.logits.empty())
      program_.earlier_probabilities = recorder_.allocate(completion_logits(program_));
    recorder_.take_for(Term::saved_activations);
    const auto hold_part = [&](int part) {
      const auto found = earlier.inputs.find(part);
      if (found == earlier.inputs.end()) return;
      for (const Bytes each : found->second) program_.earlier_inputs.push_back(recorder_.allocate(each));
    };
    for (const std::size_t layer : outline_.of_layer) hold_part(static_cast<int>(layer));
    hold_part(Recorder::kModel);
  }
  void note_kept_inputs() {
    for (const auto& [part, inputs] : program_.kept_inputs)
      for (const Tensor& each : inputs) program_.leaves.inputs[part].push_back(each.bytes());
  }

  Tape finish() {
    std::vector<std::size_t> order(outline_.classes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    Tape tape = recorder_.finish(order);
    tape.layers = outline_.of_layer;
    return tape;
  }

  /// Sets the types of weights and adapters. Plain PyTorch with master weights keeps fp32 weights under
  /// torch.autocast; DeepSpeed and FSDP compute with 16-bit weights. DeepSpeed's stages 0 to 2 cast adapters
  /// to the model's type, and so does FSDP with what it gathers; zero.Init does not.
  void choose_types() {
    const Training& t = program_.training;
    const FrameworkSpec& framework = spec(t.framework);
    const bool wide = t.precision == Precision::fp32;
    const bool mixed = !wide && framework.autocasts_masters && t.master_weights && t.method != Method::qlora;
    const bool prepared = widens_unpacked(t) && framework.autocasts_masters;
    program_.weights = wide || mixed || prepared ? DType::fp32 : DType::bf16;
    torch_.gather_parameters(gathers_at_modules(t, program_.strategy));
    program_.autocasts = mixed || t.autocast;
    program_.widens_logits = !wide && !framework.casts_model && (t.master_weights || t.autocast) &&
                             (distils(t) || (t.objective == Objective::grpo && !t.fused_head));
    torch_.input_ranks = program_.strategy.layout.tensor;
    torch_.sums_in_products = program_.strategy.megatron && program_.strategy.megatron->adds_in_product;
    torch_.one_workspace = t.modules.shares_workspace;
    torch_.recomputes_whole = t.modules.checkpoints_around_layers;
    torch_.alternate_products = t.modules.recomputes_alternate_products;
    torch_.hooks = saved_hooks();
    if (t.float8 != Float8::none)
      torch_.float8 = {.fused = t.compile != Compile::none,
                       .keeps_weights = t.float8 == Float8::tensorwise_gather && t.compile != Compile::none};
    torch_.holds_inputs = t.fsdp_holds_inputs && t.method != Method::full;
    const bool casts = framework.casts_adapters(t, program_.strategy);
    program_.adapters = makes_fp32_adapters(t) && !casts ? DType::fp32 : program_.weights;
  }

  /// Hooks of TRL or torchtune that move saved tensors to the host.
  [[nodiscard]] std::optional<SavedHooks> saved_hooks() const {
    const CheckpointOffload offload = checkpoint_offload(program_.training, program_.strategy);
    if (!moves_saved(offload)) return std::nullopt;
    SavedHooks hooks;
    hooks.copies_each = offload == CheckpointOffload::each;
    hooks.copies_weights = spec(program_.training.framework).makes_shards;
    return hooks;
  }

  void load_parameters() {
    const Inventory& inventory = program_.model.inventory;
    const bool full = program_.training.method == Method::full;
    const Inventory adapters =
        full ? Inventory{} : added_tensors(program_.model, adapters_of(program_.training));
    adapters_ = adapters;
    const auto load = [&](Parameters& list, const std::vector<zplan::Tensor>& base,
                          const std::vector<zplan::Tensor>* adapted, std::int64_t layer) {
      for (const zplan::Tensor& each : base)
        add_parameter(program_, list, each, !each.idle && trains(program_.training, each, layer), false);
      if (adapted != nullptr)
        for (const zplan::Tensor& each : *adapted) add_parameter(program_, list, each, true, true);
    };
    load(around_, inventory.before, full ? nullptr : &adapters_.before, -1);
    load(around_, inventory.after, full ? nullptr : &adapters_.after, -1);
    if (program_.model.vision) {
      parts_ = image_text_parameters(*program_.model.vision, around_);
      program_.tower = &parts_.tower;
    } else {
      for (const Parameter& each : around_.all())
        if (!each.about->idle) parts_.text.add(each);
    }
    for (std::size_t i = 0; i < outline_.classes.size(); ++i) {
      recorder_.enter(static_cast<int>(i));
      layers_.emplace_back();
      const std::size_t kind = outline_.classes[i].kind;
      load(layers_.back(), inventory.kinds[kind].tensors, full ? nullptr : &adapters_.kinds[kind].tensors,
           outline_.example[i]);
    }
    recorder_.enter(Recorder::kModel);
  }

  Tensor forward() {
    autocast_.emplace(torch_.autocast(), program_.autocasts);
    Tensor loss = model_loss();
    end_forward();
    return loss;
  }

  /// Ends autocast and what the model's own forward holds, once.
  void end_forward() {
    if (!autocast_) return;
    recorder_.end_layers(0, [&] {
      if (program_.is_value || program_.is_reference) program_.kept_inputs.clear();
      if (keeps_result(program_)) std::ranges::move(program_.cache, std::back_inserter(program_.outputs));
      program_.cache.clear();
      autocast_.reset();
    });
  }

  /// Returns what accelerate's wrapper of the model's forward makes of whole logits under mixed precision:
  /// fp32, behind autocast. Source: accelerate 1.15 accelerator.py prepare_model, utils/operations.py
  /// convert_outputs_to_fp32.
  Tensor widened(Tensor logits) {
    end_forward();
    recorder_.take_for(Term::loss_temporaries);
    return to(torch_, logits, DType::fp32);
  }

  /// Records the loss inside peft's two wrappers, the model with its head and the model without.
  Tensor model_loss() {
    const auto around = [this](const char* name, const auto& call) {
      return hooked(program_, {.name = name, .by_keyword = true}, {}, [&](const Tensor&) { return call(); });
    };
    const auto with_head = [&] {
      return around("model with head", [&] { return head_loss(around("model", [&] { return decoder(); })); });
    };
    Tensor loss = program_.training.method == Method::full
                      ? with_head()
                      : around("adapted model", [&] { return around("adapters", with_head); });
    if (program_.predicts_next || !is_last_ || makes_all_losses()) return loss;
    if (compares_answers(program_.training)) {
      // accelerate's autocast is around the model's forward alone.
      if (takes_answers_at_once(program_)) end_forward();
      return preference_loss(program_, std::move(loss));
    }
    if (program_.is_value) return value_loss(program_, loss);
    if (program_.widens_logits) loss = widened(std::move(loss));
    if (distils(program_.training)) return distillation_loss(program_, std::move(loss));
    if (generates(program_.training)) return policy_loss(program_, std::move(loss));
    if (program_.training.objective == Objective::reward) return reward_loss(program_, loss);
    return program_.strategy.layout.sequence > 1 ? loss_over_ranks(program_, loss) : loss;
  }

  Tensor head_loss(const Tensor& hidden) {
    if (!is_last_) return with_compared(hidden);
    recorder_.mark(Event::Kind::phase, static_cast<std::int32_t>(Phase::loss));
    head_sequence_ = hidden.gradient.node ? hidden.gradient.node->sequence : 0;
    if (program_.predicts_next) return logits_of(program_, text(), slice(torch_, hidden, 1, 1));
    // All but next tokens' loss is made behind the model.
    const Training& t = program_.training;
    if (t.objective == Objective::sft || makes_all_losses()) return head_and_loss(program_, text(), hidden);
    if (t.fused_head && t.objective != Objective::reward)
      return label_log_probabilities(program_, text(), hidden);
    if (!generates(t) || trains_values(t)) return logits_of(program_, text(), hidden);
    return logits_of(program_, text(), slice(torch_, hidden, 1, completion_tokens(t) + 1));
  }

  /// True if the modules' own head makes the losses of all objectives.
  [[nodiscard]] bool makes_all_losses() const { return program_.modules().makes_all_losses; }

  /// Returns the number of forwards whose results this micro-step passes on together.
  [[nodiscard]] std::int64_t together() const {
    return program_.is_reference ? 1 : forwards_together(program_.training, program_.strategy);
  }
  /// Makes the results of the forwards that ran before the policy's: hidden states, on the last stage
  /// numbers.
  void hold_compared() {
    const Sizes& n = program_.sizes;
    recorder_.take_for(is_last_ ? Term::loss_temporaries : Term::saved_activations);
    const Layout layout =
        Layout::contiguous(is_last_ ? Dimensions{n.b, n.s} : Dimensions{n.b, n.s / n.u, n.h});
    for (std::int64_t i = 1; i < together(); ++i)
      program_.compared.push_back(torch_.make(layout, is_last_ ? DType::fp32 : program_.weights));
  }
  /// Returns hidden states behind those of the forwards before, as they are sent.
  Tensor with_compared(const Tensor& hidden) {
    if (program_.compared.empty()) return hidden;
    Tensors all = std::exchange(program_.compared, {});
    all.push_back(hidden);
    return cat(torch_, all, 0);
  }

  /// Returns the language model's parameters outside its layers.
  [[nodiscard]] const Parameters& text() const { return parts_.text; }

  Tensor decoder() {
    hold_compared();
    recorder_.take_for(Term::model_inputs);
    Tensor hidden = is_first_ ? first_hidden() : received_hidden();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (returns_hidden_states()) program_.kept_inputs[static_cast<int>(i)].push_back(hidden.detached());
      hidden = layer(i, hidden);
      if (torch_.hooks) torch_.hooks->leave_part();
      if (i < program_.deepstack.size()) hidden = with_deepstack(program_, hidden, i);
      if (kept_input(i) == CheckpointInput::pinned) recorder_.return_output(*hidden.storage);
    }
    recorder_.enter(Recorder::kModel);
    recorder_.take_for(Term::model_inputs);
    Tensor normed = is_last_ ? last_hidden(hidden) : hidden;
    if (returns_hidden_states()) program_.kept_inputs[Recorder::kModel].push_back(normed.detached());
    program_.given = {};
    program_.locals.clear();
    program_.image_locals.clear();
    program_.deepstack.clear();
    return normed;
  }

  Tensor first_hidden() {
    const auto own = program_.modules().before_layers;
    return own != nullptr ? own(program_, text()) : before_layers(program_, text());
  }
  Tensor last_hidden(const Tensor& hidden) {
    const auto own = program_.modules().after_layers;
    return own != nullptr ? own(program_, text(), hidden) : after_layers(program_, text(), hidden);
  }

  /// True if the loop gets all hidden states (output_hidden_states), as PPOTrainer requests.
  [[nodiscard]] bool returns_hidden_states() const { return trains_values(program_.training); }

  Tensor layer(std::size_t i, const Tensor& hidden) {
    recorder_.enter(static_cast<int>(i));
    recorder_.take_for(Term::saved_activations);
    const bool sliding = outline_.classes[i].sliding;
    // The arguments of a checkpointed call live until its backward is over.
    const auto run = [this, i, sliding, given = given_to_layer(program_, sliding)](const Tensor& input) {
      const LayerInputs outside = std::exchange(program_.given, given);
      program_.rotates = outline_.classes[i].rotates;
      program_.exchanges = outline_.classes[i].exchanges;
      torch_.attention_window = sliding ? program_.shape().sliding_window : 0;
      Tensor output;
      try {
        const auto own = program_.modules().layer;
        output = own != nullptr ? own(program_, layers_[i], input)
                                : decoder_layer(program_, layers_[i], input, sliding);
      } catch (...) {
        leave_layer(outside);
        throw;
      }
      leave_layer(outside);
      return output;
    };
    // The layer's hooks stand outside of the checkpointed call.
    return hooked(program_, {.name = "layer"}, hidden, [&](const Tensor& input) {
      // Its own layers recompute parts of themselves.
      const bool by_itself =
          program_.modules().layer != nullptr && !program_.modules().checkpoints_around_layers;
      switch (program_.strategy.checkpointing) {
        case Checkpointing::none: break;
        case Checkpointing::selective:
          if (by_itself) break;
          return torch_.checkpoint(run, input, CheckpointMethod::selective);
        case Checkpointing::full:
          if (outline_.classes[i].is_kept) break;
          return torch_.checkpoint(run, input, checkpoint_method(), kept_input(i));
      }
      return run(input);
    });
  }

  void leave_layer(const LayerInputs& outside) {
    program_.given = outside;
    program_.cast.reset(), program_.cast_of.reset();
  }

  /// Returns the bytes of a layer's input.
  [[nodiscard]] Bytes layer_input() const {
    return Bytes(program_.sizes.tokens() * program_.sizes.h * size_of(program_.weights));
  }

  /// Returns the method of full checkpointing. ArcticTraining keeps inputs on the host in a function of
  /// reentrant checkpointing.
  [[nodiscard]] CheckpointMethod checkpoint_method() const {
    const CheckpointOffload offload = checkpoint_offload(program_.training, program_.strategy);
    const bool reentrant = program_.training.reentrant_checkpointing || offload == CheckpointOffload::host ||
                           offload == CheckpointOffload::buffered;
    return reentrant ? CheckpointMethod::reentrant : CheckpointMethod::full;
  }
  /// Returns where a layer's checkpoint keeps its input. DeepSpeed's hooks leave the last layer's input on
  /// the device and retain the one before, which they copy. At ZeRO-3 all inputs stay: a hook of the module
  /// replaces the marked tensor before the checkpoint saves it. Unsloth leaves the last layer's input, and
  /// small ones, on the device.
  [[nodiscard]] CheckpointInput kept_input(std::size_t layer) const {
    if (program_.strategy.megatron && program_.strategy.megatron->divides_inputs)
      return CheckpointInput::divided;
    switch (checkpoint_offload(program_.training, program_.strategy)) {
      case CheckpointOffload::none: break;
      case CheckpointOffload::shared:
      case CheckpointOffload::each:
      case CheckpointOffload::host: return CheckpointInput::on_host;
      case CheckpointOffload::pinned:
        if (program_.strategy.zero_stage == 3) break;
        return outline_.classes[layer].place < 2 ? CheckpointInput::pinned : CheckpointInput::retained;
      case CheckpointOffload::buffered:
        if (outline_.classes[layer].place == 2 || layer_input() <= kLargestUnoffloaded) break;
        return CheckpointInput::buffered;
    }
    return CheckpointInput::on_device;
  }

  /// Marks where the loss's backward ends, and which term the node's backward allocates for.
  void before(const Node& node) {
    if (!in_layers_ && node.part == Recorder::kModel && node.sequence == head_sequence_) {
      recorder_.enter(Recorder::kModel);
      recorder_.mark(Event::Kind::phase, static_cast<std::int32_t>(Phase::backward));
      recorder_.take_for(Term::layer_working_set);
    }
    if (node.part != Recorder::kModel) in_layers_ = true;
    const bool is_behind =
        node.sequence != Node::kLeaf || !is_first_;  // a leaf is the received hidden states
    if (in_layers_ && node.part == Recorder::kModel && is_behind) recorder_.leave_layers();
  }

  Outline outline_;
  bool is_first_, is_last_;  ///< of the pipeline's stages: with the embedding, with head and loss
  Recorder recorder_;
  Autograd torch_;
  Program program_;
  std::optional<Autocast::Context> autocast_;  ///< around the model's forward
  Inventory adapters_;
  Parameters around_;
  ImageTextParameters parts_;  ///< around_ told apart: a tower, which is idle on text, and the rest
  std::vector<Parameters> layers_;
  std::shared_ptr<Node> input_;  ///< leaf of the received hidden states
  Tensor sent_gradient_;         ///< to the stage before
  std::uint64_t head_sequence_{};
  bool in_layers_{};
};

}  // namespace

}  // namespace symbolic

namespace {

/// Returns how many tensors a rank holds outside the policy's layers.
std::int32_t parameters_around(const Model& model, const Training& training) {
  std::size_t count = model.inventory.before.size() + model.inventory.after.size();
  if (training.method != Method::full) {
    const Inventory added = added_tensors(model, adapters_of(training));
    const auto held = static_cast<std::size_t>(held_adapters(training));
    count += held * (added.before.size() + added.after.size());
  }
  return static_cast<std::int32_t>(count);
}

/// Returns the strategy of the samples that PPO generates or scores at once, without gradients.
Strategy of_chunk(const Training& training, const Strategy& strategy) {
  Strategy plain = reference_strategy(strategy);
  plain.micro_batch_size = samples_at_once(training, strategy);
  return plain;
}

Training without_adapters(Training training) {
  training.method = Method::full;
  training.dora = false, training.modules_to_save.clear();
  return training;
}

/// Throws InputError for training that layers of the framework's own have no program for. The front ends ask
/// why_illegal before, which says more.
void check_own_layers(const Training& training, const Strategy& strategy) {
  if (!strategy.megatron && !strategy.torchtitan) return;
  const bool takes_method =
      training.method == Method::full || (strategy.megatron && training.method == Method::lora);
  if (!takes_method)
    throw InputError("method", std::string(to_name(training.method)),
                     "accepted: full, with layers of the framework's own");
  if (trains_values(training))
    throw InputError("objective", std::string(to_name(training.objective)),
                     "accepted: sft, with layers of the framework's own");
}

}  // namespace

Tape record_tape(const Model& model, const Training& training, const Strategy& strategy,
                 const RankClass& place, std::string_view compute_capability) {
  check_own_layers(training, strategy);
  const auto micro_step = [&](const Model& of, const Training& as, const Strategy& how) {
    return std::make_unique<symbolic::MicroStep>(of, as, how, place, compute_capability);
  };
  if (is_by_analogy(model, training, strategy)) {
    Training as = training;
    if (training.method != Method::full)
      as.lora_targets = analogous_targets(model, *model.analogue, training.lora_targets);
    return analogous_tape(model, record_tape(*model.analogue, as, strategy, place, compute_capability),
                          training);
  }
  if (model.recorded) return recorded_tape(model, training, strategy);
  symbolic::Leftovers before;
  if (follows_micro_step(training, strategy) ||
      (symbolic::keeps_outputs(training) && !training.longest_first))
    before = micro_step(model, training, strategy)->leftovers();
  const auto step = micro_step(model, training, strategy);
  Tape tape = step->record(before);
  if (trains_values(training)) {
    tape.held = step->held();
    const Training whole = without_adapters(training);
    return with_values(std::move(tape), micro_step(*model.value, whole, strategy)->record_values(),
                       parameters_around(model, training));
  }
  const std::optional<ReferenceModel> kind = reference_of(training);
  const Strategy plain = reference_strategy(strategy);
  if (kind && kind != ReferenceModel::precomputed) {
    const Training of = reference_training(training);
    const bool adapted = kind == ReferenceModel::adapter;
    const Model& compared = kind == ReferenceModel::copy ? compared_model(model) : model;
    const Tape scores = micro_step(compared, of, plain)->record_scores(adapted);
    tape = with_reference(std::move(tape), scores, *kind);
    if (forwards_together(training, strategy) > 2) {
      tape = with_reference(std::move(tape), scores, *kind);
      return with_scores(std::move(tape),
                         record_scores(model, training, strategy, place, compute_capability));
    }
  }
  if (!scores_policy(training)) return tape;
  return with_scores(std::move(tape), record_scores(model, training, strategy, place, compute_capability));
}

Tape record_split_tape(const Model& model, const Training& training, const Strategy& strategy,
                       const RankClass& place, std::string_view compute_capability) {
  return symbolic::MicroStep(model, training, strategy, place, compute_capability).record({}, true);
}

Tape record_scores(const Model& model, const Training& training, const Strategy& strategy,
                   const RankClass& place, std::string_view compute_capability) {
  return symbolic::MicroStep(model, training, reference_strategy(strategy), place, compute_capability)
      .record_scores(true);
}

Tape record_prediction(const Model& model, const Training& training, const Strategy& strategy,
                       std::int64_t tokens) {
  Training of = training;
  of.objective = Objective::sft;
  of.sequence_length = tokens;
  of.keeps_cache = true;
  return symbolic::MicroStep(model, of, of_chunk(training, strategy)).record_prediction();
}

ScoringTapes record_scoring(const Model& model, const Training& training, const Strategy& strategy) {
  const Strategy plain = of_chunk(training, strategy);
  Training compared = reference_training(training);
  // A checkpointed policy fills no cache (use_cache is off); a copy still does.
  const bool copied = reference_of(training) == ReferenceModel::copy;
  compared.keeps_cache = copied || (training.keeps_cache && strategy.checkpointing == Checkpointing::none);
  Training numbers = without_adapters(training);
  numbers.keeps_cache = false;
  return {.reference = symbolic::MicroStep(model, compared, plain).record_scores(false),
          .values = symbolic::MicroStep(*model.value, numbers, plain).record_numbers(),
          .rewards = symbolic::MicroStep(*model.reward, numbers, plain).record_numbers()};
}

Tape record_evaluation(const Model& model, const Training& training, const Strategy& strategy) {
  Training of = training;
  of.objective = Objective::sft;
  Strategy plain = reference_strategy(strategy);
  plain.micro_batch_size *= sequences_per_sample(training);
  if (model.recorded || model.analogue) return record_tape(model, of, strategy);
  return symbolic::MicroStep(model, of, plain, {.context = plain.layout.context - 1}).record_forward();
}

}  // namespace zplan
