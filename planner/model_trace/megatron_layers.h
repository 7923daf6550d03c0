#pragma once
// Layers that the modules of Megatron-Core are made of: Transformer Engine's norms and linear layers, and the
// exchanges of tensor and sequence parallelism.

#include <string>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic::megatron {

[[nodiscard]] inline const MegatronOptions& options(const Program& p) { return *p.strategy.megatron; }
[[nodiscard]] inline bool recomputes(const Program& p, RecomputedModule module) {
  return p.strategy.checkpointing == Checkpointing::selective && options(p).recomputes(module);
}
[[nodiscard]] inline bool divides_tokens(const Program& p) { return p.sizes.u > 1; }
[[nodiscard]] inline bool divides_tensors(const Program& p) { return p.strategy.layout.tensor > 1; }

/// Returns the sizes of a tensor of all tokens of a micro-batch.
[[nodiscard]] Dimensions of_tokens(const Program& p, std::int64_t features);
/// Returns the sizes of hidden states between layers.
[[nodiscard]] Dimensions hidden_sizes(const Program& p);

/// Returns every rank's tokens of x in one tensor, gathered by `call`.
[[nodiscard]] Tensor gather(Program& p, const Tensor& x, TensorCall call);
/// Returns the sums of ranks' partial results `x` for this rank's tokens.
[[nodiscard]] Tensor scatter(Program& p, const Tensor& x, TensorCall call);
/// Returns the type of layers' products: 8 bits by a recipe of Transformer Engine, else 16.
[[nodiscard]] inline DType product_type(const Program& p) {
  return p.training.float8 != Float8::none ? DType::uint8 : DType::bf16;
}
/// Records how an operand of `elements` becomes 8 bits where products run in them: by rows and by columns in
/// one kernel. Its memory was not recorded and is left out. Source: Transformer Engine 2.20.2
/// pytorch/tensor/{float8_tensor,mxfp8_tensor}.py, quantizers with rowwise and columnwise usage.
void cast_operand(Program& p, std::int64_t elements);
/// Records a product of all tokens with a weight [out, in], or with its transpose.
void multiply(Program& p, std::int64_t in, std::int64_t out);

/// Starts the sum of ranks' gradients of a column-parallel layer's input, which runs beside the product of
/// the weight's gradient, and returns this rank's part. `await_input_gradient` waits for it.
[[nodiscard]] Tensor reduce_input_gradient(Program& p, Tensor gradient);
void await_input_gradient(Program& p);
/// Returns the gradient of a weight: without memory where the product adds it to the framework's sums.
[[nodiscard]] Tensor weight_gradient(Program& p, const Tensor& weight, DType type);

/// Records a norm by itself: the final norm, those of queries' and keys' heads, and of layers whose input
/// several linear layers read.
[[nodiscard]] Tensor norm(Program& p, const Parameters& of, const std::string& name, const Tensor& x);
/// Records TE's LayerNormLinear, a column-parallel layer, with its adapter where it has one.
[[nodiscard]] Tensor norm_and_linear(Program& p, const Parameters& of, const std::string& module,
                                     const Tensor& x);
/// Records TE's Linear as a column-parallel layer, with its adapter: every rank has some of the output's
/// features.
[[nodiscard]] Tensor column_linear(Program& p, const Parameters& of, const std::string& module,
                                   const Tensor& x);
/// Records TE's Linear as a row-parallel layer, with its adapter: ranks' partial products are summed.
[[nodiscard]] Tensor row_linear(Program& p, const Parameters& of, const std::string& module, const Tensor& x);

/// Adapter holds both weights of a linear layer's adapter; neither where the layer has none or adapters are
/// off.
struct Adapter {
  const Parameter* down{};
  const Parameter* up{};
};
[[nodiscard]] Adapter adapter_of(const Program& p, const Parameters& of, const std::string& module);
/// True of the name of an adapter's weight.
[[nodiscard]] inline bool is_adapter(const std::string& name) {
  return name.find(".lora_") != std::string::npos;
}
/// Records a product of one of an adapter's weights.
using AdapterProduct = std::function<Tensor(const Parameter& weight, const Tensor& x)>;
/// Records what an adapter adds to the output `result` of a layer with input `x`; returns `result` where the
/// layer has none. `down` and `up` divide lora_A and lora_B among ranks as the layer does.
[[nodiscard]] Tensor adapted(Program& p, const Adapter& adapter, const Tensor& x, const Tensor& result,
                             const AdapterProduct& down, const AdapterProduct& up);

/// Records what an adapter adds to the output `result` of a layer that every rank has whole: both its weights
/// are whole, too.
[[nodiscard]] Tensor adapted_whole(Program& p, const Adapter& adapter, const Tensor& x, const Tensor& result);

/// Records cuDNN's fused attention, or FlashAttention: it keeps its operands, the output and the statistics
/// of each row's softmax.
[[nodiscard]] Tensor fused_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v);
/// Records the gate's product with the other half (SwiGLU), or GELU: one kernel that keeps its input.
[[nodiscard]] Tensor activation(Program& p, const Tensor& x);

/// Records multi-head latent attention on normed hidden states. Source: Megatron-Core 0.19.2
/// core/transformer/multi_latent_attention.py MLASelfAttention.
[[nodiscard]] Tensor latent_attention(Program& p, const Parameters& of, const Tensor& x);
/// Records a mixture of experts on normed hidden states. Source: Megatron-Core 0.19.2
/// core/transformer/moe/moe_layer.py MoELayer.
[[nodiscard]] Tensor mixture_of_experts(Program& p, const Parameters& of, const Tensor& normed);

/// Records the embedding of token numbers: hidden states of this rank's tokens. Learned positions are added
/// to whole rows, so that ranks sum these first.
[[nodiscard]] Tensor embedded(Program& p, const Parameters& of, const Tensor& ids);
/// Records a layer of the decoder.
[[nodiscard]] Tensor transformer_layer(Program& p, const Parameters& of, const Tensor& hidden);
/// Records the head's ColumnParallelLinear. What it gathers of its input lies in a buffer that stays.
[[nodiscard]] Tensor head(Program& p, const Parameter& weight, const Tensor& x);
/// Records Megatron's vocabulary-parallel cross-entropy: the fp32 logits become the softmax in place, which
/// the backward turns into the gradient in place. Its fused form is compiled by Inductor, which makes a copy.
[[nodiscard]] Tensor token_losses(Program& p, const Tensor& logits);
[[nodiscard]] Tensor token_losses(Program& p, const Tensor& logits, bool fused);
/// Records Megatron's rotation by single operators, which keeps both tables. Source: Megatron-Core 0.19.2
/// core/models/common/embeddings/rope_utils.py _apply_rotary_pos_emb_bshd.
[[nodiscard]] Tensor rotate_unfused(Program& p, const Tensor& x);
/// Records x times the sigmoid, or SiLU, of a gate: one compiled function, which keeps both.
[[nodiscard]] Tensor gated_by(Autograd& torch, const Tensor& x, const Tensor& gate);
/// Records a layer's linear attention (GatedDeltaNet) with its norm.
[[nodiscard]] Tensor delta_net(Program& p, const Parameters& of, const Tensor& hidden);
/// Records the loss of another objective than next tokens from the head's logits, which are released. Of a
/// forward that only scores it returns what is compared.
[[nodiscard]] Tensor loss_of_objective(Program& p, Tensor logits);
/// Records the head of a reward model, which every rank has whole, and its loss of pairs.
[[nodiscard]] Tensor scores_and_loss(Program& p, const Parameter& weight, const Tensor& hidden);
/// Records the layers that predict further tokens, and their losses; returns the hidden states that the head
/// reads next. Source: Megatron-Core 0.19.2 core/transformer/multi_token_prediction.py.
[[nodiscard]] Tensor with_predictions(Program& p, const Parameters& of, const Parameter& head_weight,
                                      const Tensor& hidden);

}  // namespace zplan::symbolic::megatron
