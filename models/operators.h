#pragma once
// Operators of an architecture's modeling code, which neither sizes nor tensors show: which run, how long
// their results live, and so what autograd keeps. Source, unless another is named: transformers 5.23
// models/<architecture>/modeling_<architecture>.py and configuration_<architecture>.py.

#include <cstdint>
#include <string_view>

namespace zplan {

/// Forms of a norm's weight.
enum class NormForm {
  narrow,          ///< RMSNorm: weight · (normalised, in the input's type)
  wide,            ///< RMSNorm: (weight · normalised), then in the input's type
  one_more,        ///< RMSNorm: normalised · (1 + weight) in fp32, then in the input's type
  layer,           ///< torch.nn.LayerNorm
  layer_one_more,  ///< LayerNorm with weight + 1
  layer_by_parts,  ///< LayerNorm without a bias, operation by operation in fp32
};

/// Lifetimes of a norm's output if nothing saves it.
enum class NormLife {
  call,            ///< until the call that takes it returns
  sum,             ///< until the branch is added to the hidden states
  next_norm,       ///< until the next norm's output takes its name
  layer,           ///< until the layer is over
  first_in_layer,  ///< the first one's until the layer is over, the second's as in call
};

enum class LinearForm {
  usual,
  conv1d,      ///< transformers' Conv1D where there is a bias
  bias_apart,  ///< x @ weight.T in the layers, whose bias is added by an operator of its own
};

enum class Activation {
  silu,
  gelu,           ///< one kernel, exact or by tanh
  gelu_by_parts,  ///< NewGELUActivation: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), operation by operation
  gelu_bloom,  ///< the same inside a function with a backward of its own
  relu,
  relu_squared,
};

/// Attention code: the one that transformers' architectures share, or an architecture's own, with its masks
/// and biases by position.
enum class AttentionForm {
  shared,
  bloom,
  falcon,
  gptj,
  mpt,
  gated,  ///< each head of queries is projected with a gate, whose sigmoid multiplies what attention gives
};

/// Which implementations attention has.
enum class AttentionKernels {
  all,
  no_sdpa,     ///< eager attention runs if scaled_dot_product_attention is requested
  eager_only,  ///< eager attention always runs
};

/// Ways in which one projection's output becomes queries, keys and values.
enum class JointHeads {
  split,               ///< torch.split into all queries, all keys, all values
  sliced,              ///< the same parts, by three slices
  each_head,           ///< each head holds its query, key and value
  each_head_or_split,  ///< the same, but split where one key-value head serves all
};

/// When separately projected queries, keys and values are viewed by heads, normed and transposed.
enum class HeadViews {
  one_by_one,       ///< each before the next is projected, its norm before it is transposed
  norms_last,       ///< the same, norms behind all of that
  transposes_last,  ///< all projected and viewed, then norms, then transposed
  all_last,         ///< all projected, then viewed and transposed, then norms of heads
};

/// Precision and form of eager attention's softmax.
enum class Softmax {
  widened,     ///< softmax in fp32, then in the queries' type
  as_scores,   ///< in the scores' type, then in the values'
  with_sinks,  ///< with a learned score per head that takes its share, then in the values' type
};

/// Forms of rotary embedding.
enum class Rotary {
  none,
  llama,     ///< first and second half of each head, all features
  gpt_oss,   ///< the same, split, with tables of half the width
  neox,      ///< a share of the features; the rest is concatenated once queries and keys are both turned
  nemotron,  ///< the same, with results that have no names
  phi3,      ///< the same, concatenated at once
  phi,       ///< the same behind Llama's function
  olmo,      ///< tables stay in fp32
  ernie,     ///< neighbouring features, in fp32
  cohere,    ///< the same with tables in the model's type
  glm,       ///< neighbouring features, a share of them
  gptj,      ///< the same, with tables that each layer gathers
  chatglm,   ///< the same in remote code
  deepseek_v2,
  deepseek_v3,
};

/// Layers that turn queries and keys at all.
enum class RotatedLayers { all, all_but_each_fourth, sliding };

/// Places at which learned positions are looked up.
enum class LearnedPositions {
  before_masks,
  behind_masks,
  summed,  ///< counted by summing a mask, before the masks
};

/// Which attention masks are made.
enum class Masks {
  of_layers,     ///< of full attention, and of the window if a layer slides
  one,           ///< of the window if there is one
  with_windows,  ///< both, whether a layer slides or not
};

enum class LayerForm {
  usual,
  opt,  ///< flattens tokens for the feed-forward, and may norm behind the sums
};

/// Which tensors a layer adds first where attention and feed-forward read the same input.
enum class ParallelSum {
  branches_first,  ///< (attention + feed-forward) + input
  input_first,     ///< (input + attention) + feed-forward
  in_place,        ///< the feed-forward's output takes in the attention's, then input + that
};

/// Ways in which a router scores and weighs experts.
enum class RouterForm {
  qwen,         ///< softmax over all experts, weights in the model's type
  mixtral,      ///< the same; the weights stay fp32
  minimax,      ///< sigmoid, and a correction that takes part in the choice only
  deepseek_v2,  ///< softmax in fp32, some of a few groups before the experts
  deepseek_v3,  ///< sigmoid in fp32, with correction and groups
  gpt_oss,      ///< softmax over the chosen
};

/// An architecture's code as data. The defaults are Llama's.
struct Operators {
  NormForm norm{NormForm::narrow};
  NormLife norm_life{NormLife::call};
  bool norms_span_heads{};  ///< queries' and keys' norms take all heads' features, one head's too
  bool bare_norms{};        ///< norms have no parameters

  LinearForm linear{LinearForm::usual};
  Activation activation{Activation::silu};
  bool gates_by_second{};  ///< the feed-forward's second projection is the gate

  AttentionForm attention{AttentionForm::shared};
  AttentionKernels kernels{AttentionKernels::all};
  JointHeads joint_heads{JointHeads::split};
  HeadViews views{HeadViews::one_by_one};
  Softmax softmax{Softmax::widened};
  bool caps_scores{};        ///< a soft cap of logits is one of attention's scores, too
  bool scales_queries{};     ///< queries are scaled once they are projected
  bool attention_dropout{};  ///< attention probabilities drop out
  bool wide_scores{};        ///< eager attention takes queries and keys in fp32

  Rotary rotary{Rotary::llama};
  double rotary_share{1.0};  ///< of a head's features, as the architecture's config has it by default
  bool three_axes{};         ///< tables of positions in time, rows and columns (mrope), taken turn by turn
  RotatedLayers rotated_layers{RotatedLayers::all};
  LearnedPositions positions{LearnedPositions::before_masks};

  std::int64_t full_attention_every{2};  ///< layers, where some slide; 0: the first ones have it
  Masks masks{Masks::of_layers};
  bool tables_of_both_kinds{};  ///< rotary tables for layers with a window and for those without

  LayerForm layer{LayerForm::usual};
  ParallelSum sum{ParallelSum::branches_first};
  bool names_branches{};     ///< variables of their own keep the branches' outputs until the layer is over
  bool embedding_dropout{};  ///< embeddings drop out
  bool drops_inside{};       ///< the hidden dropout behind attention is the attention's own
  bool scales_embedding{};   ///< the embedding's own module multiplies by a number
  bool scales_residual{};    ///< the embedding and each branch are multiplied by a number
  bool scales_logits{};
  bool normalises_head{};  ///< while it trains, the head's weight is divided by each row's norm (Baichuan 2)

  RouterForm router{RouterForm::qwen};
  bool divides_weights{};                ///< the chosen experts' weights by their sum (norm_topk_prob)
  std::int64_t expert_groups{8};         ///< n_group, as in the published configurations
  std::int64_t chosen_expert_groups{4};  ///< topk_group, as in the published configurations
  bool interleaves_experts{};            ///< stacks are [E, in, out], gate and up side by side and clamped

  bool measured{};  ///< the tape was compared with PyTorch's own allocations (tests/reference/tape/)
  bool operator==(const Operators&) const = default;
};

/// Names of modules that differ between architectures; empty if an architecture has none there.
struct Modules {
  std::string_view embedding_norm{};
  std::string_view norm_before_attention{"input_layernorm"}, norm_behind_attention{};
  std::string_view norm_before_feed_forward{"post_attention_layernorm"}, norm_behind_feed_forward{};
  std::string_view final_norm{"norm"};
  std::string_view query_norm{"q_norm"}, key_norm{"k_norm"};
  std::string_view attention_output{"o_proj"};
  std::string_view router{"mlp.gate"};
  bool operator==(const Modules&) const = default;
};

/// Names of the parts of stacked experts in peft's target_modules; empty: peft cannot adapt them.
struct ExpertModules {
  std::string_view gate, up, down;
  bool operator==(const ExpertModules&) const = default;
};

/// Behaviour of other libraries that depends on the architecture's name.
struct LibraryRules {
  ExpertModules
      expert_modules{};   ///< peft 0.21 _MOE_TARGET_MODULE_MAPPING, transformers conversion_mapping.py
  bool autotp_refuses{};  ///< DeepSpeed 0.19.8 under transformers 5.23 (tests/reference/autotp/)
  bool leaf_experts{};    ///< DeepSpeed 0.19.8 runtime/zero/leaf_module_config.py
  bool operator==(const LibraryRules&) const = default;
};

}  // namespace zplan
