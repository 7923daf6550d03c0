// llm-foundry's modules: MPT's attention in one kernel.

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"

namespace zplan {

namespace symbolic {

namespace {

/// MPT's attention in one kernel, which knows ALiBi.
/// Source: llm-foundry llmfoundry/models/layers/attention.py (flash_attn_fn).
Tensor foundry_attention(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  if (p.operators().attention != AttentionForm::mpt) return attention_of_transformers(p, of, x, sliding);
  const Heads heads = split_whole(p, linear_layer(p, of, attention_input(p, of), x));
  const Tensor output = flash_attention(p.torch, heads.query, heads.key, heads.value);
  const Tensor by_token = transpose(p.torch, output, 1, 2);
  return linear_layer(p, of, attention_output(p, of),
                      reshape(p.torch, by_token, {p.sizes.b, p.sizes.s, p.sizes.a * p.sizes.d}));
}

}  // namespace

}  // namespace symbolic

/// Its time: FlashAttention in Triton (scripts/train/benchmarking/submit_benchmarks.py attn_impl), beside
/// which FlashAttention-2 is 1.3 to 2.5 times as fast (Dao 2023, section 4.1): the geometric middle.
const ModuleSet kLlmFoundry{.name = "llm-foundry",
                            .attention = symbolic::foundry_attention,
                            .without_masks = true,
                            .fused_loss_brings = false,
                            .attention_time = 1.8};

}  // namespace zplan
