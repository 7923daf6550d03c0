#include "planner/activations/block_form.h"

#include <algorithm>
#include <array>

namespace zplan {

namespace {

enum class Family { llama, gemma, gpt2, opt, neox, phi3 };

Family family(const ModelShape& shape) {
  if (shape.sandwich_norms) return Family::gemma;
  if (shape.architecture == "opt") return Family::opt;
  if (shape.fused_gate_up) return Family::phi3;
  if (shape.gated_mlp) return Family::llama;
  return shape.parallel_attention ? Family::neox : Family::gpt2;
}

enum class Kernel { flash, masked, eager };

/// Without a mask SDPA takes the flash kernel. A window shorter than the sequence is an explicit mask to it,
/// and sends it to the memory-efficient kernel; the flash-attention package needs none.
Kernel kernel(const ModelShape& shape, const Training& training) {
  if (training.attention == Attention::eager) return Kernel::eager;
  const bool windowed = shape.sliding_window > 0 && training.sequence_length >= shape.sliding_window;
  return training.attention == Attention::sdpa && windowed ? Kernel::masked : Kernel::flash;
}

/// Bytes of the mask per token, averaged over layers: those without a window have none.
std::int64_t mask_bytes(const BlockSizes& x, const ModelShape& shape) {
  return 2 * x.s * shape.sliding_layers / x.L;
}

std::int64_t latent_attention(const BlockSizes& x, const LatentAttention& mla) {
  return 4 * x.a * (mla.nope_head_size + mla.rope_head_size + mla.value_head_size) + 4 * x.a;
}

/// Queries, keys and values after rotation, the output, and per head the log-sum-exp. The memory-efficient
/// kernel wants keys and values repeated to all heads, unless one head serves all: then they stay views.
std::int64_t kernel_tensors(Family form, Kernel which, const BlockSizes& x, const ModelShape& shape) {
  if (form == Family::phi3)
    return 6 * (x.a + x.k) * x.d + 4 * x.a + (which == Kernel::masked ? mask_bytes(x, shape) : 0);
  if (which == Kernel::flash) return 4 * (x.a + x.k) * x.d + 4 * x.a;
  return (x.k == 1 ? 4 * (x.a + x.k) * x.d : 8 * x.a * x.d) + 4 * x.a + mask_bytes(x, shape);
}

/// Scores are materialised: fp32 softmax and 16-bit probabilities (GPT-2: softmax in 16 bits and a dropout
/// mask; Gemma 2: the soft cap's tanh too). Of a single sample some models keep the fused or shared
/// projection as well.
std::int64_t eager_tensors(Family form, const BlockSizes& x, const ModelShape& shape) {
  const std::int64_t scores = x.a * x.s *
                              (form == Family::gpt2                            ? 5
                               : form == Family::gemma && shape.logit_soft_cap ? 8
                                                                               : 6);
  const bool one_sample = x.b == 1;
  switch (form) {
    case Family::neox: return scores + (one_sample ? 6 : 2) * x.a * x.d;
    case Family::phi3: return scores + 6 * x.a * x.d + (one_sample && x.a == x.k ? 2 * (x.a + x.k) * x.d : 0);
    case Family::gemma: return scores + 2 * x.a * x.d + (one_sample && x.k == 1 ? 4 * x.k : 4 * x.a) * x.d;
    default: return scores + 6 * x.a * x.d;
  }
}

void add_attention(BlockForm& form, Family which, const BlockSizes& x, const ModelShape& shape,
                   const Training& training) {
  if (shape.latent_attention) {
    form.attention = latent_attention(x, *shape.latent_attention);
    return;
  }
  const Kernel used = kernel(shape, training);
  form.attention =
      used == Kernel::eager ? eager_tensors(which, x, shape) : kernel_tensors(which, used, x, shape);
  const bool transposed_copy = which == Family::neox || which == Family::phi3;
  if (used == Kernel::eager || (used == Kernel::flash && transposed_copy)) form.output_input = 2 * x.a * x.d;
}

/// The rest of the block: coefficients measured per family.
BlockForm outer_form(Family which, const BlockSizes& x, const ModelShape& shape) {
  BlockForm form;
  switch (which) {
    case Family::llama:
    case Family::phi3:
      form.norms = 16 * x.h + 8, form.norms_frozen = 8 * x.h + 8;
      form.mlp = 8 * x.f, form.mlp_frozen = 6 * x.f;
      break;
    case Family::gemma:
      form.norms = 36 * x.h + 16, form.norms_frozen = 16 * x.h + 16;
      form.mlp = 8 * x.f, form.mlp_frozen = 6 * x.f;
      form.fixed = 16 * x.h + (shape.query_key_norm ? 8 * x.d : 0);
      break;
    case Family::gpt2:
      form.norms = 10 * x.h + 16, form.norms_frozen = 6 * x.h + 16;
      form.mlp = 10 * x.f, form.mlp_frozen = 8 * x.f;
      break;
    case Family::opt:
      form.norms = 10 * x.h + 16, form.norms_frozen = 6 * x.h + 16;
      form.mlp = form.mlp_frozen = 2 * x.f;
      form.mlp_output_is_kept = true;
      break;
    case Family::neox:
      form.norms = 10 * x.h + 16, form.norms_frozen = 6 * x.h + 16;
      form.mlp = 4 * x.f, form.mlp_frozen = 2 * x.f;
      break;
  }
  return form;
}

/// In fp32 what was 16-bit doubles; norms that kept an fp32 copy beside keep the input instead.
void widen(BlockForm& form, Family which, const BlockSizes& x) {
  form.norms = which == Family::llama || which == Family::phi3 ? 24 * x.h + 8 : 2 * form.norms;
  form.norms_frozen *= which == Family::llama || which == Family::phi3 ? 1 : 2;
  form.mlp *= 2, form.mlp_frozen *= 2;
  form.attention *= 2, form.output_input *= 2;
}

}  // namespace

BlockSizes block_sizes(const Model& model, const Training& training, const Strategy& strategy) {
  const ModelShape& shape = model.shape;
  return {.h = shape.hidden_size,
          .f = shape.intermediate_size,
          .a = shape.attention_heads,
          .k = shape.key_value_heads,
          .d = shape.head_size,
          .V = shape.vocabulary_size,
          .b = strategy.micro_batch_size,
          .s = training.sequence_length,
          .T = strategy.micro_batch_size * training.sequence_length,
          .t = strategy.tensor_parallel,
          .L = shape.layers};
}

BlockForm block_form(const Model& model, const Training& training, const Strategy& strategy) {
  const BlockSizes x = block_sizes(model, training, strategy);
  const ModelShape& shape = model.shape;
  const Family which = family(shape);
  BlockForm form = outer_form(which, x, shape);
  if (shape.query_key_norm) {
    form.query_key_norms = (which == Family::gemma ? 8 : 6) * (x.a + x.k) * x.d + 4 * (x.a + x.k);
    form.query_key_norms_frozen = 4 * (x.a + x.k) * x.d + 4 * (x.a + x.k);
  }
  // MLA's bottlenecks: the inputs of their norms in fp32 and 16 bits, and of the up-projections.
  if (shape.latent_attention)
    form.norms += 8 * (shape.latent_attention->query_rank + shape.latent_attention->key_value_rank);
  add_attention(form, which, x, shape, training);
  if (training.precision == Precision::fp32) widen(form, which, x);
  return form;
}

bool is_measured_family(const ModelShape& shape) {
  static constexpr std::array kMeasured{"llama",  "mistral", "qwen2", "qwen3",       "mixtral", "qwen3_moe",
                                        "gemma2", "gpt2",    "opt",   "gemma3_text", "phi3",    "gpt_neox"};
  return std::find(kMeasured.begin(), kMeasured.end(), shape.architecture) != kMeasured.end();
}

}  // namespace zplan
