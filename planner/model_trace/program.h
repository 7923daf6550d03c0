#pragma once
// A model's forward as a program over tensors without values: what its parts have at hand. The parts
// (normalisation, linear, attention, feed_forward, loss) are written as the Hugging Face modules run, in
// their order, so that tensors live as long as Python's local variables keep them.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "planner/model_trace/operators.h"
#include "planner/question/strategy.h"
#include "planner/sharding/expert_model.h"

namespace zplan::symbolic {

/// Sizes of one rank's share of the model for one micro-batch, in the letters of docs/symbols.md. s: of the
/// tokens of a sample, those that this rank computes with.
struct Sizes {
  std::int64_t b{}, s{}, h{}, f{}, a{}, k{}, d{}, V{};
  [[nodiscard]] std::int64_t tokens() const { return b * s; }
};

/// One parameter of a part: its tensor, and its place in the part's list.
struct Parameter {
  const zplan::Tensor* about{};
  Tensor tensor;
  std::int32_t index{-1};
};

/// The parameters of a layer, or of the model around the layers, in the order of RankModel: base tensors,
/// then adapters.
class Parameters {
 public:
  /// The parameter whose name ends with ".`name`"; null where there is none.
  [[nodiscard]] const Parameter* find(std::string_view name) const;
  /// As find; throws std::logic_error where there is none.
  [[nodiscard]] const Parameter& get(std::string_view name) const;
  /// Whether there is a module of this name: its weight is here.
  [[nodiscard]] bool has_module(std::string_view name) const {
    return find(std::string(name) + ".weight") != nullptr;
  }
  /// Weights (not biases) of linear layers of this role and split, in order.
  [[nodiscard]] std::vector<const Parameter*> linears(TensorRole role, TensorParallelSplit split) const;
  void add(Parameter parameter) { list_.push_back(std::move(parameter)); }
  [[nodiscard]] const std::vector<Parameter>& all() const { return list_; }

 private:
  std::vector<Parameter> list_;
};

/// What every layer is called with beside the hidden states.
struct Given {
  Tensor positions;
  Tensor cosines, sines;                                ///< rotary tables, where the model has them
  Tensor mask;                                          ///< explicit attention mask, where there is one
  Tensor sliding_mask, sliding_cosines, sliding_sines;  ///< of layers with a window
  Tensor alibi;                                         ///< biases by position, where the model has them
};

struct TowerParameters;

/// What a part of the program runs in.
/// What variables of a training loop hold of a micro-step until the next one's replace them: its logits and,
/// with its loss, the graph, whose packed layers keep their inputs.
struct Leftovers {
  std::vector<Bytes> logits{};
  std::map<int, std::vector<Bytes>> inputs{};  ///< by part of the program
};

struct Program {
  Autograd& torch;
  const Model& model;
  const Training& training;
  const Strategy& strategy;
  Sizes sizes;
  std::int64_t context_rank{};  ///< of the ring, where there is one
  RoutedRows rows{};            ///< that go to other ranks' experts, and that come to this one's
  bool triton_products{};       ///< AutoEP's grouped products are Triton's
  DType weights{DType::bf16};   ///< of what is not packed
  DType adapters{DType::fp32};  ///< of LoRA's parameters
  bool in_leaf{};               ///< whether a module runs below which none is hooked
  bool autocasts{};             ///< whether products run in 16 bits whatever their operands are
  bool is_reference{};          ///< whether log-probabilities alone are asked for, without gradients
  bool is_value{};              ///< whether it is the model of values
  bool predicts_next{};         ///< whether it generates: logits of the last token are its result
  bool adapters_off{};          ///< whether adapters and trained copies are passed by

  const TowerParameters* tower{};  ///< of an image-text model that is run with images

  // Of one forward.
  Tensor pixels{};         ///< of the batch
  Tensors deepstack{};     ///< features of images that are added behind the first layers
  Tensors image_locals{};  ///< what the model's own variables keep of the tower until its layers are through
  Given given{};
  bool rotates{true};          ///< whether the layer that runs turns queries and keys
  Tensors locals{};            ///< what the model's own variables keep until its layers are through
  Tensors cache{};             ///< keys and values that the model's result keeps until the loss is there
  Tensors attention_locals{};  ///< what BLOOM's attention keeps until the residual is added
  Leftovers leaves{};          ///< for the next micro-step
  Tensors outputs{};           ///< what the training loop holds of this one
  std::map<int, Tensors> kept_inputs{};                                      ///< of packed layers, by part
  std::vector<std::shared_ptr<Storage>> earlier_logits{}, earlier_inputs{};  ///< of the micro-step before
  std::shared_ptr<Storage> earlier_probabilities{};  ///< likewise, but until this one is over
  Tensor attention_weights{};  ///< probabilities that eager attention returns to its layer

  [[nodiscard]] const ModelShape& shape() const { return model.shape; }
  [[nodiscard]] const Operators& operators() const { return model.shape.operators; }
  /// Names of the model's modules.
  [[nodiscard]] const Modules& names() const { return model.shape.modules; }
  /// Whose modules run.
  [[nodiscard]] const ModuleSet& modules() const { return training.modules; }
  /// Whether attention probabilities drop out in training.
  [[nodiscard]] bool drops_attention() const { return shape().attention_dropout > 0; }
};

/// Whether the training loop's variables outlive a micro-step.
[[nodiscard]] inline bool keeps_outputs(const Training& training) {
  return training.modules.keeps_outputs && training.objective == Objective::sft;
}
/// The training loop's logits: from here on they replace the last micro-step's.
void hold_logits(Program& p, const Tensors& logits);

/// How a module is called. Where its input is given by keyword, or none of its inputs needs a gradient, hooks
/// do not see its backward end.
struct ModuleCall {
  std::string name;  ///< of one without parameters of its own
  bool by_keyword{};
  bool leaf{};  ///< modules below it are not hooked: ZeRO stage 3 gathers all their parameters at once
};

/// A call of the module that holds these parameters, where a framework hooks modules (DeepSpeed's stage 3):
/// marks when it is entered and left, forward and backward.
[[nodiscard]] Tensor hooked(Program& p, const std::vector<const Parameter*>& own, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& call, const ModuleCall& how = {});
/// The same of a module without parameters of its own.
[[nodiscard]] Tensor hooked(Program& p, const ModuleCall& how, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& call);
/// The same tensor, at whose gradient FSDP2's unit of the head gets ready for its backward.
[[nodiscard]] Tensor hooked_logits(Program& p, const Tensor& logits);
/// Whether norms, rotary embeddings and gated activations are timed as a kernel each. Liger's Trainer option
/// brings them with its fused loss. Source: linkedin/Liger-Kernel transformers/monkey_patch.py (rope,
/// rms_norm, swiglu and fused_linear_cross_entropy are on by default).
[[nodiscard]] inline bool fuses_kernels(const Program& p) {
  const Training& training = p.training;
  if (training.modules.kernels.replace_layers()) return false;  // these are on the tape as they are
  return training.fused_kernels || (training.fused_loss && training.modules.fused_loss_brings);
}
/// Whether a framework hooks modules here.
[[nodiscard]] bool hooks_modules(const Program& p);

// ---- parts ------------------------------------------------------------------------------------------------

/// Parts of a norm: the mean of x² along the last dimension, and rsqrt(variance + ε).
[[nodiscard]] Tensor mean_square(Program& p, const Tensor& x);
[[nodiscard]] Tensor reciprocal_root(Program& p, const Tensor& variance);
/// What a norm is computed from.
struct NormCall {
  const Parameter& weight;
  const Parameter* bias{};
  NormForm form{};
  const Tensor& x;
};
/// The norm as transformers' modules write it.
[[nodiscard]] Tensor norm_of_transformers(Program& p, const NormCall& call);
/// RMSNorm or LayerNorm as the architecture writes it, of the weights under `module` ("input_layernorm").
[[nodiscard]] Tensor normalise(Program& p, const Parameters& of, std::string_view module, const Tensor& x);
/// The same of a given form.
[[nodiscard]] Tensor normalise(Program& p, const Parameters& of, std::string_view module, const Tensor& x,
                               NormForm form);

/// The linear layer of this weight as transformers, peft and the library of packed weights write it.
[[nodiscard]] Tensor linear_of_transformers(Program& p, const Parameters& of, const Parameter& weight,
                                            const Tensor& x);
/// The linear layer of this weight, with its bias, its adapter and its packed storage where it has them.
[[nodiscard]] Tensor linear_layer(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x);

/// The same without its adapter.
[[nodiscard]] Tensor base_linear_layer(Program& p, const Parameters& of, const Parameter& weight,
                                       const Tensor& x);

/// Self-attention behind its norm: projections, rotation, the kernel, the output projection.
[[nodiscard]] Tensor attention(Program& p, const Parameters& of, const Tensor& x, bool sliding);

/// The implementation that attention runs in.
[[nodiscard]] Attention attention_of(const Program& p);

/// The attention of projected (and rotated) queries [b, a, s, d], keys and values [b, k, s, d]: [b, s, a·d],
/// ready for the output projection.
[[nodiscard]] Tensor attend(Program& p, const Parameters& of, const Tensor& q, const Tensor& k,
                            const Tensor& v);

/// The same by heads and tokens as one kernel gets them, whoever divides them.
using AttentionKernel = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

/// Where ranks divide a sample's tokens by heads (Ulysses): all_to_alls before and behind `kernel`, which
/// gets all tokens of its heads.
[[nodiscard]] Tensor ulysses_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionKernel& kernel);
/// Where ranks divide a sample's tokens and pass keys and values on in a ring.
[[nodiscard]] Tensor ring_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v);
/// `call` of slices of the tokens one by one, once more in the backward (TiledMLP).
[[nodiscard]] Tensor tiled(Program& p, const Tensor& x, std::int64_t tiles,
                           const std::function<Tensor(const Tensor&)>& call);
/// The loss of slices of the tokens, forward and backward one by one (TiledFusedLogitsLoss).
[[nodiscard]] Tensor tiled_loss(Program& p, const Tensor& hidden, std::int64_t tiles,
                                const std::function<Tensor(const Tensor&)>& loss);
/// The mean over all ranks' tokens of a sample, from each rank's own.
[[nodiscard]] Tensor loss_over_ranks(Program& p, const Tensor& loss);

/// The feed-forward behind its norm, dense or routed.
[[nodiscard]] Tensor feed_forward(Program& p, const Parameters& of, const Tensor& x);

/// The dense feed-forward as transformers' modules write it.
[[nodiscard]] Tensor feed_forward_of_transformers(Program& p, const Parameters& of, const Tensor& x);

/// The feed-forward of a layer with routed experts: router, experts, and the experts that every token passes.
[[nodiscard]] Tensor routed_feed_forward(Program& p, const Parameters& of, const Tensor& x);

/// The same as DeepSpeed's AutoEP replaces it: rows go to the ranks that have their experts, and come back.
[[nodiscard]] Tensor expert_parallel_feed_forward(Program& p, const Parameters& of, const Tensor& x);

/// The architecture's activation function.
[[nodiscard]] Tensor activate(Program& p, const Tensor& x);

/// One decoder layer.
[[nodiscard]] Tensor decoder_layer(Program& p, const Parameters& of, const Tensor& hidden, bool sliding);

/// What stands between the embedding and the layers: masks, then rotary tables, from positions to given.
void prepare_positions(Program& p);
/// What a layer is called with, of a window or not.
[[nodiscard]] Given given_to_layer(const Program& p, bool sliding);
/// Rotary tables, where the architecture has them.
void rotary_tables(Program& p);

/// Whether tokens of one image see each other in the language model: attention is given a mask.
[[nodiscard]] bool sees_images_whole(const Program& p);

/// Embeddings with the features of all images in the places of their tokens.
[[nodiscard]] Tensor with_images(Program& p, const Tensor& embedded);
/// Hidden states of a layer with the features that are added behind it.
[[nodiscard]] Tensor with_deepstack(Program& p, const Tensor& hidden, std::size_t layer);

/// Embeddings and all else that stands before the layers: the hidden states that the first one gets.
[[nodiscard]] Tensor before_layers(Program& p, const Parameters& of);
/// The final norm and, where there is one, the projection to the embedding's width.
[[nodiscard]] Tensor after_layers(Program& p, const Parameters& of, const Tensor& hidden);

/// The trained copy of the module that holds `weight`; null where there is none, or adapters are off.
[[nodiscard]] const Parameter* saved_copy(const Program& p, const Parameters& of, const Parameter& weight);
/// The weight of the output head as it is used: a trained copy, or the token embedding's, where that is so.
[[nodiscard]] const Parameter& head_weight(const Program& p, const Parameters& of);
/// Of the normalised hidden states, as the head's linear layer gives them and the architecture scales them.
[[nodiscard]] Tensor logits_of(Program& p, const Parameters& of, const Tensor& hidden);
/// Log-probabilities of the next tokens [b, s − 1] without logits: TRL's fused head. Where completions are
/// generated theirs alone are computed, and others are 0.
[[nodiscard]] Tensor label_log_probabilities(Program& p, const Parameters& of, const Tensor& hidden);
/// The model's own forward names the head's weight to a function that is no module: reading it makes it the
/// model's own at ZeRO-3.
void name_head(Program& p, const Parameter& weight);
/// The loss of answers from the logits of their sequences, or from the fused head's log-probabilities, which
/// it lets go of; of a reference model the answers' log-probabilities.
[[nodiscard]] Tensor preference_loss(Program& p, Tensor scores);
/// The loss of completions from the logits of the tokens that predict theirs and of their last one, or from
/// the fused head's log-probabilities, which it lets go of; where the policy is only scored, or of a
/// reference model, the log-probability of each token.
[[nodiscard]] Tensor policy_loss(Program& p, Tensor scores);
/// Whether the training loop holds what the model returns until the micro-step is over, as PPOTrainer does.
[[nodiscard]] bool keeps_result(const Program& p);
/// Of the completions' tokens, or their probabilities.
[[nodiscard]] Bytes completion_logits(const Program& p);
/// The loss of predicted values of the completions' tokens, from one number for each token.
[[nodiscard]] Tensor value_loss(Program& p, const Tensor& scores);
/// The loss of pairs from the logits [2b, s, 1] of a reward model.
[[nodiscard]] Tensor reward_loss(Program& p, const Tensor& logits);

/// Output head and loss of the normalised hidden states.
[[nodiscard]] Tensor head_and_loss(Program& p, const Parameters& of, const Tensor& hidden);

}  // namespace zplan::symbolic
