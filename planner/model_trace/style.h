#pragma once
// What an architecture's modeling code does that neither its sizes nor its tensors show.

#include "models/model.h"

namespace zplan::symbolic {

enum class Activation {
  silu,
  gelu,           ///< one kernel, exact or by tanh
  gelu_by_parts,  ///< NewGELUActivation: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), operation by operation
  gelu_bloom,  ///< the same inside a function with a backward of its own
  relu,
  relu_squared,
};

/// How queries and keys are turned.
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

/// When separately projected queries, keys and values are viewed by heads, normed and transposed.
enum class HeadViews {
  one_by_one,       ///< each before the next is projected, its norm before it is transposed
  norms_last,       ///< the same, norms behind all of that
  transposes_last,  ///< all projected and viewed, then norms, then transposed
  all_last,         ///< all projected, then viewed and transposed, then norms of heads
};

/// Which tensors a layer adds first.
enum class ParallelSum {
  branches_first,  ///< (attention + feed-forward) + input
  input_first,     ///< (input + attention) + feed-forward
  in_place,        ///< the feed-forward's output takes in the attention's, then input + that
};

/// How long a norm's output lives where nothing saves it.
enum class NormLife {
  call,            ///< until the call that takes it returns
  sum,             ///< until the branch is added to the hidden states
  next_norm,       ///< until the next norm's output takes its name
  layer,           ///< until the layer is over
  first_in_layer,  ///< the first one's until the layer is over, the second's as in call
};

/// Source, unless told otherwise: transformers 5.23 models/<architecture>/modeling_<architecture>.py and
/// configuration_<architecture>.py.
struct Style {
  Activation activation{Activation::silu};
  Rotary rotary{Rotary::llama};
  double rotary_share{1.0};  ///< of a head's features, as the architecture's config has it by default
  HeadViews views{HeadViews::one_by_one};
  ParallelSum sum{ParallelSum::branches_first};
  NormLife norm_life{NormLife::call};
  bool names_branches{};     ///< variables of their own keep the branches' outputs until the layer is over
  bool embedding_dropout{};  ///< embeddings drop out where hidden states do
  bool drops_inside{};       ///< the hidden dropout behind attention is the attention's own
  bool attention_dropout{};  ///< attention probabilities drop out where hidden states do
  bool scales_residual{};    ///< the embedding and each branch are multiplied by a number
  bool scales_logits{};
  bool operator==(const Style&) const = default;
};

[[nodiscard]] const Style& style_of(const ModelShape& shape);
/// Whether attention probabilities drop out in training.
[[nodiscard]] bool drops_attention(const ModelShape& shape);

}  // namespace zplan::symbolic
