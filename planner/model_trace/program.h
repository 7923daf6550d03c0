#pragma once
// Program holds what the modules of a model share while one micro-step is recorded. Each module is a function
// that repeats the Hugging Face module operator by operator, so that tensors live as long as Python's local
// variables keep them.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "planner/model_trace/operators.h"
#include "planner/question/strategy.h"
#include "planner/sharding/expert_model.h"

namespace zplan::symbolic {

/// Sizes of one rank's share of the model for one micro-batch, in the letters of docs/symbols.md. `s` counts
/// the tokens of a sample that this rank computes with.
struct Sizes {
  std::int64_t b{}, s{}, h{}, f{}, a{}, k{}, d{}, V{};
  std::int64_t u{1};  ///< ranks that divide hidden states between layers (Megatron's sequence parallelism)
  [[nodiscard]] std::int64_t tokens() const { return b * s; }
};

/// Parameter is one parameter of a layer, or of the model around the layers, and its index in that part's
/// list.
struct Parameter {
  const zplan::Tensor* about{};
  Tensor tensor;
  std::int32_t index{-1};
};

/// Parameters lists the parameters of one layer, or of the model around the layers, in RankModel's order:
/// base tensors, then adapters.
class Parameters {
 public:
  /// Returns the parameter whose name ends with ".`name`", or null.
  [[nodiscard]] const Parameter* find(std::string_view name) const;
  /// Returns the parameter whose name ends with ".`name`". Throws std::logic_error where there is none.
  [[nodiscard]] const Parameter& get(std::string_view name) const;
  /// True if the module of this name has a weight here.
  [[nodiscard]] bool has_module(std::string_view name) const {
    return find(std::string(name) + ".weight") != nullptr;
  }
  /// Returns the weights (not biases) of linear layers of this role and split, in order.
  [[nodiscard]] std::vector<const Parameter*> linears(TensorRole role, TensorParallelSplit split) const;
  void add(Parameter parameter) { list_.push_back(std::move(parameter)); }
  [[nodiscard]] const std::vector<Parameter>& all() const { return list_; }

 private:
  std::vector<Parameter> list_;
};

/// LayerInputs are the arguments of every layer beside the hidden states.
struct LayerInputs {
  Tensor positions;
  Tensor cosines, sines;                                ///< rotary tables, where the model has them
  Tensor mask;                                          ///< explicit attention mask, where there is one
  Tensor sliding_mask, sliding_cosines, sliding_sines;  ///< of layers with a window
  Tensor alibi;                                         ///< biases by position, where the model has them
  Tensor unread;                                        ///< an argument that no recorded operator reads
};

struct TowerParameters;

/// Leftovers are tensors that variables of a training loop keep of a micro-step until the next one replaces
/// them: its logits and, through its loss, the graph, whose packed layers keep their inputs.
struct Leftovers {
  std::vector<Bytes> logits{};
  std::map<int, std::vector<Bytes>> inputs{};  ///< by layer, or Recorder::kModel
};

/// Program is the context that every module is recorded in.
struct Program {
  Autograd& torch;
  const Model& model;
  const Training& training;
  const Strategy& strategy;
  Sizes sizes;
  std::int64_t context_rank{};  ///< this rank's place in the ring of context parallelism
  RoutedRows rows{};            ///< rows sent to and received from other ranks' experts
  bool triton_products{};       ///< AutoEP's grouped products are Triton's
  DType weights{DType::bf16};   ///< type of weights that are not packed
  DType adapters{DType::fp32};  ///< type of LoRA's parameters
  bool in_leaf{};               ///< a module runs below which no module is hooked
  bool autocasts{};             ///< torch.autocast: products run in 16 bits
  bool is_reference{};          ///< the forward returns log-probabilities, without gradients
  bool is_value{};              ///< the model predicts values
  bool predicts_next{};         ///< the forward returns the logits of the last token
  bool adapters_off{};          ///< adapters and trained copies are skipped
  bool widens_logits{};         ///< accelerate makes fp32 of the logits that the model returns

  const TowerParameters* tower{};  ///< set for an image-text model that is run with images

  // State of one forward.
  Tensor pixels{};         ///< images of the batch
  Tensors deepstack{};     ///< image features that are added after the first layers
  Tensors image_locals{};  ///< the tower's outputs that the model's forward keeps until its layers have run
  LayerInputs given{};
  bool rotates{true};  ///< the current layer rotates queries and keys
  /// The exchange of keys and values of each layer of the current part (Megatron's --cp-comm-type); empty:
  /// all layers of the model have the same.
  std::vector<ContextExchange> exchanges{};
  /// Parameters of each of several layers that Megatron groups.
  std::vector<std::shared_ptr<Parameters>> grouped{};
  std::size_t sublayer{};  ///< which layer of the current part runs, where Megatron groups several
  Tensors locals{};        ///< local variables of the model's forward, until its layers have run
  Tensors compared{};      ///< results of the forwards that run before the policy's, until its own joins them
  Tensors cache{};         ///< keys and values that the model's result keeps until the loss is computed
  Tensors attention_locals{};  ///< local variables of BLOOM's attention, until the residual is added
  Leftovers leaves{};          ///< what the next micro-step finds allocated
  Tensors outputs{};           ///< results that the training loop's variables keep
  std::map<int, Tensors> kept_inputs{};  ///< inputs that packed layers keep, by layer
  std::vector<std::shared_ptr<Storage>> earlier_logits{},
      earlier_inputs{};                              ///< left by the micro-step before
  std::shared_ptr<Storage> earlier_probabilities{};  ///< left by the micro-step before until this one ends
  Tensor cast{};                     ///< a compiled layer's last input of adapters, in their type
  std::weak_ptr<Storage> cast_of{};  ///< what it was cast from
  Tensor attention_weights{};        ///< probabilities that eager attention returns to its layer

  [[nodiscard]] const ModelShape& shape() const { return model.shape; }
  [[nodiscard]] const Operators& operators() const { return model.shape.operators; }
  /// Returns the names of the model's modules.
  [[nodiscard]] const Modules& names() const { return model.shape.modules; }
  /// Returns the set of modules that run.
  [[nodiscard]] const ModuleSet& modules() const { return training.modules; }
  /// True if attention probabilities drop out in training.
  [[nodiscard]] bool drops_attention() const { return shape().attention_dropout > 0; }
};

/// True if the training loop's variables outlive a micro-step.
[[nodiscard]] inline bool keeps_outputs(const Training& training) {
  return training.modules.keeps_outputs && training.objective == Objective::sft;
}
/// Keeps the logits in the training loop's variable, which releases the last micro-step's.
void hold_logits(Program& p, const Tensors& logits);

/// ModuleCall says how a module is called. Hooks do not see the end of its backward where its input is given
/// by keyword, or where none of its inputs needs a gradient.
struct ModuleCall {
  std::string name;  ///< of a module without parameters of its own
  bool by_keyword{};
  bool leaf{};  ///< modules below it are not hooked: ZeRO stage 3 gathers all their parameters at once
};

/// Calls the module that holds the parameters `own`. Where a framework hooks modules (DeepSpeed's stage 3),
/// records when it is entered and left, forward and backward.
[[nodiscard]] Tensor hooked(Program& p, const std::vector<const Parameter*>& own, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& call, const ModuleCall& how = {});
/// Calls a module without parameters of its own.
[[nodiscard]] Tensor hooked(Program& p, const ModuleCall& how, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& call);
/// Returns `logits`; when their gradient arrives, FSDP2's unit of the head prepares for its backward.
[[nodiscard]] Tensor hooked_logits(Program& p, const Tensor& logits);
/// Returns the last hidden states; when their gradient arrives, FSDP2's unit of final norm and tied embedding
/// prepares, where transformers shards the model.
[[nodiscard]] Tensor hooked_hidden(Program& p, const Tensor& hidden);
/// True if tensor-parallel ranks divide layers as DTensors, by transformers' tp_plan.
[[nodiscard]] bool follows_plan(const Program& p);
/// True if norms, rotary embeddings and gated activations are timed as one kernel each. Liger's Trainer
/// option enables them together with its fused loss. Source: linkedin/Liger-Kernel
/// transformers/monkey_patch.py (rope, rms_norm, swiglu and fused_linear_cross_entropy are on by default).
[[nodiscard]] bool fuses_kernels(const Program& p);
/// Returns the kernels of the part that is recorded: those that were chosen, or Inductor's.
[[nodiscard]] const LayerKernels& kernels_of(const Program& p);
/// Records the token embedding of a compiled model.
[[nodiscard]] Tensor compiled_embedding(Program& p, const Parameter& table, const Tensor& ids);
/// Records the loss of a compiled model's logits.
[[nodiscard]] Tensor compiled_loss(Program& p, const Tensor& logits);
/// True if a framework hooks the modules that run now.
[[nodiscard]] bool hooks_modules(const Program& p);

// ---- modules ----------------------------------------------------------------------------------------------

/// Returns the mean of x² along the last dimension.
[[nodiscard]] Tensor mean_square(Program& p, const Tensor& x);
/// Returns rsqrt(variance + ε).
[[nodiscard]] Tensor reciprocal_root(Program& p, const Tensor& variance);
/// NormCall holds the arguments of a norm.
struct NormCall {
  const Parameter& weight;
  const Parameter* bias{};
  NormForm form{};
  const Tensor& x;
};
/// Records the norm as transformers writes it.
[[nodiscard]] Tensor norm_of_transformers(Program& p, const NormCall& call);
/// Records the RMSNorm or LayerNorm whose weights stand under `module` ("input_layernorm"), in the
/// architecture's form.
[[nodiscard]] Tensor normalise(Program& p, const Parameters& of, std::string_view module, const Tensor& x);
/// Records the norm under `module` in a given form.
[[nodiscard]] Tensor normalise(Program& p, const Parameters& of, std::string_view module, const Tensor& x,
                               NormForm form);

/// Records a linear layer as transformers, peft and the library of packed weights write it.
[[nodiscard]] Tensor linear_of_transformers(Program& p, const Parameters& of, const Parameter& weight,
                                            const Tensor& x);
/// Records the linear layer of `weight` with its bias, its adapter and its packed storage.
[[nodiscard]] Tensor linear_layer(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x);

/// Records the linear layer of `weight` without its adapter.
[[nodiscard]] Tensor base_linear_layer(Program& p, const Parameters& of, const Parameter& weight,
                                       const Tensor& x);

/// Records self-attention after its norm: projections, rotation, the kernel, the output projection.
[[nodiscard]] Tensor attention(Program& p, const Parameters& of, const Tensor& x, bool sliding);

/// Returns the implementation that attention runs in.
[[nodiscard]] Attention attention_of(const Program& p);

/// Records the attention of projected (and rotated) queries [b, a, s, d], keys and values [b, k, s, d].
/// Returns [b, s, a·d], ready for the output projection.
[[nodiscard]] Tensor attend(Program& p, const Parameters& of, const Tensor& q, const Tensor& k,
                            const Tensor& v);

/// AttentionKernel records attention over the heads and tokens that one kernel gets.
using AttentionKernel = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

/// Records Ulysses' attention: all_to_alls before and after `kernel`, which gets all tokens of its heads.
[[nodiscard]] Tensor ulysses_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionKernel& kernel);
/// Records ring attention: ranks divide a sample's tokens and pass keys and values on.
[[nodiscard]] Tensor ring_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v);
/// Records `call` on one slice of the tokens after the other, and once more in the backward (TiledMLP).
[[nodiscard]] Tensor tiled(Program& p, const Tensor& x, std::int64_t tiles,
                           const std::function<Tensor(const Tensor&)>& call);
/// Records `loss` on one slice of the tokens after the other, forward and backward (TiledFusedLogitsLoss).
[[nodiscard]] Tensor tiled_loss(Program& p, const Tensor& hidden, std::int64_t tiles,
                                const std::function<Tensor(const Tensor&)>& loss);
/// Records the mean loss over all ranks' tokens of a sample, from each rank's own.
[[nodiscard]] Tensor loss_over_ranks(Program& p, const Tensor& loss);

/// Records the feed-forward after its norm, dense or routed.
[[nodiscard]] Tensor feed_forward(Program& p, const Parameters& of, const Tensor& x);

/// Records the dense feed-forward as transformers writes it.
[[nodiscard]] Tensor feed_forward_of_transformers(Program& p, const Parameters& of, const Tensor& x);

/// Records the feed-forward of a layer with experts: router, routed experts and shared experts.
[[nodiscard]] Tensor routed_feed_forward(Program& p, const Parameters& of, const Tensor& x);

/// Records DeepSpeed's AutoEP layer: rows go to the ranks that have their experts, and come back.
[[nodiscard]] Tensor expert_parallel_feed_forward(Program& p, const Parameters& of, const Tensor& x);

/// Records the architecture's activation function.
[[nodiscard]] Tensor activate(Program& p, const Tensor& x);

/// Records one decoder layer.
[[nodiscard]] Tensor decoder_layer(Program& p, const Parameters& of, const Tensor& hidden, bool sliding);

/// Records what runs between the embedding and the layers: masks, then rotary tables. Sets p.given.
void prepare_positions(Program& p);
/// Returns the arguments of a layer, with or without a sliding window.
[[nodiscard]] LayerInputs given_to_layer(const Program& p, bool sliding);
/// Records the rotary tables, where the architecture has them.
void rotary_tables(Program& p);

/// True if tokens of one image attend to each other in the language model, which needs a mask.
[[nodiscard]] bool sees_images_whole(const Program& p);

/// Returns the embeddings with the features of all images in the places of their tokens.
[[nodiscard]] Tensor with_images(Program& p, const Tensor& embedded);
/// Returns a layer's hidden states plus the image features that are added after it.
[[nodiscard]] Tensor with_deepstack(Program& p, const Tensor& hidden, std::size_t layer);

/// Records what layers are called with beside hidden states (positions, rotary tables, masks), where another
/// stage of a pipeline has the embeddings.
void prepare_layers(Program& p);
/// Records embeddings and all else that runs before the layers. Returns the first layer's hidden states.
[[nodiscard]] Tensor before_layers(Program& p, const Parameters& of);
/// Records the final norm and, where there is one, the projection to the embedding's width.
[[nodiscard]] Tensor after_layers(Program& p, const Parameters& of, const Tensor& hidden);

/// Returns the trained copy (modules_to_save) of the module that holds `weight`; null where there is none or
/// adapters are off.
[[nodiscard]] const Parameter* saved_copy(const Program& p, const Parameters& of, const Parameter& weight);
/// Returns the weight that the output head uses: its own, a trained copy, or the token embedding's.
[[nodiscard]] const Parameter& head_weight(const Program& p, const Parameters& of);
/// Records the head's linear layer on normalised hidden states, and the architecture's scaling of the logits.
[[nodiscard]] Tensor logits_of(Program& p, const Parameters& of, const Tensor& hidden);
/// Records TRL's fused head: log-probabilities of the next tokens [b, s − 1] without logits. Where
/// completions are generated, only theirs are computed and the others are 0.
[[nodiscard]] Tensor label_log_probabilities(Program& p, const Parameters& of, const Tensor& hidden);
/// Records that the model's forward passes the head's weight to a function that is no module. At ZeRO-3 this
/// read makes the weight the model's own.
void name_head(Program& p, const Parameter& weight);
/// Records the loss of answers, from the logits of their sequences or from the fused head's
/// log-probabilities; both are released. Of a reference model it returns the answers' log-probabilities.
[[nodiscard]] Tensor preference_loss(Program& p, Tensor scores);
/// True if log-probabilities are made of the logits of all answers at once, behind the model's forward.
[[nodiscard]] bool takes_answers_at_once(const Program& p);
/// Records the loss of completions, from the logits that predict them or from the fused head's
/// log-probabilities; both are released. Where the policy is only scored, or of a reference model, it returns
/// each token's log-probability.
[[nodiscard]] Tensor policy_loss(Program& p, Tensor scores);
/// Records the divergence of the student's and a teacher's probabilities, from the student's logits. Of the
/// teacher it returns the logits.
[[nodiscard]] Tensor distillation_loss(Program& p, Tensor logits);
/// True if the training loop keeps the model's result until the micro-step ends, as PPOTrainer does.
[[nodiscard]] bool keeps_result(const Program& p);
/// Returns the size of the completions' logits, or of their probabilities.
[[nodiscard]] Bytes completion_logits(const Program& p);
/// Records the loss of the completions' predicted values, from one number for each token.
[[nodiscard]] Tensor value_loss(Program& p, const Tensor& scores);
/// Records the loss of completions from the log-probabilities [b, s] of their tokens.
[[nodiscard]] Tensor loss_of_completions(Program& p, const Tensor& own);
/// Records a reward model's loss of pairs from its logits [2b, s, 1].
[[nodiscard]] Tensor reward_loss(Program& p, const Tensor& logits);

/// Records the output head and the loss on normalised hidden states.
[[nodiscard]] Tensor head_and_loss(Program& p, const Parameters& of, const Tensor& hidden);

// ---- routed experts ---------------------------------------------------------------------------------------

/// Routing is a router's result: scores of all experts [T, E], and the chosen experts with their weights [T,
/// experts per token].
struct Routing {
  Tensor scores, weights, indices;
};

/// Returns how many groups the experts are divided into; 1 for models of 64 experts (DeepSeek-V2-Lite).
[[nodiscard]] std::int64_t groups_of(const ModelShape& shape);
/// Returns how many of the groups a token's experts are chosen from.
[[nodiscard]] std::int64_t chosen_groups_of(const ModelShape& shape);

/// Records the router on hidden states [T, h] or [b, s, h].
[[nodiscard]] Routing route(Program& p, const Parameters& of, const Tensor& x);

/// Records the chosen experts on x [T, h]. Returns their weighted sum [T, h].
[[nodiscard]] Tensor run_experts(Program& p, const Parameters& of, const Tensor& x, const Routing& routing);

/// Returns the parameters of the module at `path`, adapters included.
[[nodiscard]] std::vector<const Parameter*> parameters_under(const Parameters& of, const std::string& path);

/// ParameterAdapter is peft's adapter of a parameter instead of a module. While the parameter's module runs,
/// the parameter is replaced by its sum with lora_B @ lora_A; the sum is computed once more before, when the
/// replacement is checked. Source: peft 0.21.2 tuners/lora/layer.py ParamWrapper, torch 2.11
/// torch/nn/utils/parametrize.py.
struct ParameterAdapter {
  const Parameter* down{};
  const Parameter* up{};
};

/// Returns the adapter of `parameter` whose wrapper stands at `path`; empty where there is none.
[[nodiscard]] ParameterAdapter parameter_adapter(const Program& p, const Parameters& of,
                                                 const std::string& path, const Parameter& parameter);

// ---- linear layers over packed weights --------------------------------------------------------------------

/// Records several 4-bit weights [·, in] as one layer with `out` outputs; `first` is one of them.
[[nodiscard]] Tensor packed_joint_linear(Program& p, const Tensor& x, const Parameter& first,
                                         std::int64_t out, bool biased);
/// Records a linear layer of QLoRA's frozen, packed base: weight [out, in].
[[nodiscard]] Tensor packed_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias);

/// Records how DoRA reads a weight of bitsandbytes or HQQ: [out, in] in 16 bits, or fp32 for 8-bit layers.
[[nodiscard]] Tensor unpacked_base(Program& p, const Parameter& weight, std::int64_t in);

}  // namespace zplan::symbolic
