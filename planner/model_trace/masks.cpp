// What stands between the embedding and the layers: attention masks, then rotary tables.
// Source: transformers 5.23 masking_utils.py. Its search for packed sequences is left out: its temporaries
// are some bytes per token, long before anything large.

#include "planner/model_trace/attention.h"
#include "planner/model_trace/moe_operators.h"

namespace zplan::symbolic {

namespace {

/// arange + offset, and three views of it.
Tensor offset_range(Program& p) {
  p.torch.issue(3);
  const Tensor range = numbers(p.torch, {p.sizes.s}, DType::int64);
  return numbers(p.torch, {p.sizes.s}, DType::int64);
}

Tensor square(Program& p) { return numbers(p.torch, {1, 1, p.sizes.s, p.sizes.s}, DType::boolean); }

/// `mask & other`, with what was expanded to all samples.
Tensor both(Program& p, const Tensor& mask, const Tensor& other) {
  return p.torch.operate({&mask, &other}, elementwise({&mask.layout, &other.layout}), DType::boolean);
}

/// fast_all(mask): booleans are summed as whole numbers.
void ask_whether_all(Program& p) {
  const Tensor sum = numbers(p.torch, {}, DType::int64);
  { const Tensor wide = p.torch.make(Layout::contiguous({p.sizes.b, p.sizes.s}), DType::int64); }
  const Tensor answer = numbers(p.torch, {}, DType::boolean);
  p.torch.issue(1);
}

Tensor one(Program& p) { return numbers(p.torch, {}, DType::boolean); }

/// Keys within the window, and not behind the query.
Tensor sliding_mask(Program& p) {
  Tensor result = one(p);
  {
    Tensor within;
    {
      const Tensor first = numbers(p.torch, {p.sizes.s}, DType::int64);
      within = square(p);
    }
    result = both(p, result, within);
  }
  const Tensor causal = square(p);
  result = both(p, result, causal);
  return result;
}

Tensor padded_mask(Program& p, bool windowed) {
  Tensor result = one(p);
  {
    const Tensor pattern = windowed ? sliding_mask(p) : square(p);
    result = both(p, result, pattern);
  }
  Tensor real;
  {
    const Layout all = Layout::contiguous({p.sizes.b, p.sizes.s});
    const Tensor samples = p.torch.make(all, DType::int64);
    const Tensor keys = p.sizes.b > 1 ? p.torch.make(all, DType::int64) : Tensor{};
    real = numbers(p.torch, {p.sizes.b, 1, 1, p.sizes.s}, DType::boolean);
  }
  result = both(p, result, real);
  return result;
}

/// sdpa_mask: booleans [b, 1, s, s], the samples' share of one memory where nothing is padded.
Tensor boolean_mask(Program& p, bool windowed) {
  const Tensor samples = numbers(p.torch, {p.sizes.b}, DType::int64),
               heads = numbers(p.torch, {1}, DType::int64);
  const Tensor queries = offset_range(p), keys = offset_range(p);
  Tensor mask = p.training.padding_mask ? padded_mask(p, windowed) : windowed ? sliding_mask(p) : square(p);
  p.torch.issue(7);  // views of samples and heads, and the mask's own
  if (mask.size(0) != p.sizes.b) mask.layout.sizes[0] = p.sizes.b, mask.layout.strides[0] = 0;
  return mask;
}

/// Zeros and the least number of the hidden states' type.
Tensor additive_mask(Program& p, const Tensor& allowed) {
  const Tensor zero = numbers(p.torch, {}, p.weights), least = numbers(p.torch, {}, p.weights);
  return p.torch.operate({&allowed}, elementwise({&allowed.layout}), p.weights);
}

/// Whether scaled_dot_product_attention can do with "causal" alone.
bool can_skip(Program& p, bool windowed) {
  if (p.operators().attention == AttentionForm::falcon) return false;
  if (windowed && p.sizes.s >= p.shape().sliding_window) return false;
  if (p.training.packed_mask && p.context_rank + 1 < p.strategy.layout.context) return false;
  if (!p.training.padding_mask) return true;
  ask_whether_all(p), ask_whether_all(p);
  return false;
}

/// Keys that are not behind the query or of the same image, and within the window. Source: transformers 5.23
/// models/gemma3/modeling_gemma3.py create_masks_for_vision_model.
Tensor image_mask(Program& p, bool windowed) {
  const Dimensions all{p.sizes.b, 1, p.sizes.s, p.sizes.s};
  Tensor mask;
  {
    const Tensor causal = square(p), blocks = numbers(p.torch, all, DType::boolean);
    mask = both(p, causal, blocks);
  }
  if (!windowed) return mask;
  const Tensor within = square(p);
  return both(p, mask, within);
}

/// The flash-attention package is given which tokens are real.
Tensor created_mask(Program& p, bool windowed) {
  if (p.modules().without_masks) return {};
  if (sees_images_whole(p)) return image_mask(p, windowed);
  Tensor padding;
  if (p.training.padding_mask) padding = numbers(p.torch, {p.sizes.b, p.sizes.s}, DType::boolean);
  switch (attention_of(p)) {
    case Attention::flash: return padding;
    case Attention::sdpa: return can_skip(p, windowed) ? Tensor{} : boolean_mask(p, windowed);
    case Attention::eager: return additive_mask(p, boolean_mask(p, windowed));
  }
  return {};
}

bool has_tables_of_both_kinds(const Program& p) {
  const ModelShape& shape = p.shape();
  return p.operators().tables_of_both_kinds && shape.sliding_layers > 0 &&
         shape.sliding_layers < shape.layers;
}

}  // namespace

void prepare_positions(Program& p) {
  Given& given = p.given;
  const Masks masks = p.operators().masks;
  const bool slides = p.shape().sliding_layers > 0;
  if (masks != Masks::one || !slides) given.mask = created_mask(p, false);
  if (masks == Masks::with_windows || slides) given.sliding_mask = created_mask(p, true);
  if (given.alibi.defined() && p.operators().attention == AttentionForm::falcon) bias_mask(p);
  rotary_tables(p);
  given.sliding_cosines = given.cosines, given.sliding_sines = given.sines;
  if (has_tables_of_both_kinds(p)) rotary_tables(p);
}

Given given_to_layer(const Program& p, bool sliding) {
  Given given = p.given;
  if (sliding)
    given.mask = given.sliding_mask, given.cosines = given.sliding_cosines, given.sines = given.sliding_sines;
  given.sliding_mask.reset(), given.sliding_cosines.reset(), given.sliding_sines.reset();
  return given;
}

}  // namespace zplan::symbolic
