// Attention masks, ALiBi's biases (BLOOM, MPT, Falcon RW) and the calls of rotary tables, which run between
// the embedding and the layers. The search for packed sequences is left out: its temporaries take a few bytes
// per token and are freed before anything large.
// Source: transformers 5.23 masking_utils.py, models/{bloom,mpt,falcon}/modeling_*.py.

#include <bit>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// Returns the slopes of all heads: powers of one base for the largest power of two of the heads, of another
/// for the rest.
Tensors slopes(Program& p) {
  Autograd& torch = p.torch;
  const std::int64_t a = p.sizes.a;
  const auto first = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(a)));
  const auto powers = [&](std::int64_t count) {
    return Tensors{numbers(torch, {}, DType::fp32), numbers(torch, {count}, DType::int32)};
  };
  Tensors made = powers(first);
  made.push_back(numbers(torch, {first}, DType::fp32));
  if (first == a) return made;
  const Tensors rest = powers(a - first);
  const Tensor others = numbers(torch, {a - first}, DType::fp32);
  made.push_back(numbers(torch, {a}, DType::fp32));
  return made;
}

/// Records the positions 0, 1, … of each sample, counted by summing its mask.
Tensor counted_positions(Program& p) {
  constexpr std::int64_t kTile = 1920;
  const Dimensions sizes{p.sizes.b, p.sizes.s};
  Tensor shifted;
  {
    Tensor sum = numbers(p.torch, sizes, DType::int64);
    if (p.sizes.b == 1)
      const Tensor memory =
          p.torch.make(Layout::contiguous({scan_memory(p.sizes.s, kTile, 8)}), DType::uint8);
    p.torch.drop_kernel();
    shifted = numbers(p.torch, sizes, DType::int64);
  }
  return numbers(p.torch, sizes, DType::int64);
}

Tensor bloom_alibi(Program& p) {
  Autograd& torch = p.torch;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, a = p.sizes.a;
  const Tensor of_heads = slopes(p).back();
  const auto biases = [&](std::int64_t rows) {
    return torch.operate({}, Layout::contiguous({rows, 1, s}), DType::fp32);
  };
  if (p.training.padding_mask) {
    const Tensor positions = counted_positions(p);
    return to(torch, biases(b * a), p.weights);
  }
  p.locals.push_back(of_heads);
  Tensor of_one;
  {
    const Tensor range = numbers(torch, {s}, DType::int64);
    of_one = biases(a);
  }
  return to(torch, biases(b * a), p.weights);
}

Tensor mpt_alibi(Program& p) {
  Autograd& torch = p.torch;
  const std::int64_t a = p.sizes.a, positions = p.shape().max_positions;
  const auto padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(a)));
  const Tensor range = numbers(torch, {positions}, DType::int32);
  Tensor base;
  {
    const Tensor heads = numbers(torch, {padded}, DType::int64);
    base = numbers(torch, {padded}, DType::fp32);
  }
  base = numbers(torch, {padded}, DType::fp32);
  Tensor of_heads;
  {
    const Tensor power = numbers(torch, {padded}, DType::fp32);
    { const Tensor exponent = numbers(torch, {}, DType::int64); }
    const Tensor reciprocal = numbers(torch, {padded}, DType::fp32);
    of_heads = numbers(torch, {padded}, DType::fp32);
  }
  if (padded != a) of_heads = numbers(torch, {padded}, DType::fp32);
  return torch.operate({}, Layout::contiguous({a, 1, positions}), DType::fp32);
}

Tensor falcon_alibi(Program& p) {
  Autograd& torch = p.torch;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, a = p.sizes.a;
  if (!p.training.padding_mask) p.locals.push_back(numbers(torch, {b, s}, DType::int64));
  const Tensors of_heads = slopes(p);
  const Tensor positions = counted_positions(p);
  Tensor result;
  {
    const Tensor narrow = torch.operate({}, Layout::contiguous({a, 1}), DType::bf16);
    result = torch.operate({}, Layout::contiguous({b, a, 1, s}), DType::bf16);
  }
  return to(torch, result, p.weights);
}

}  // namespace

bool uses_alibi(const ModelShape& shape) {
  switch (shape.operators.attention) {
    case AttentionForm::bloom:
    case AttentionForm::mpt: return true;
    case AttentionForm::falcon:
      return !shape.parallel_attention && shape.key_value_heads == shape.attention_heads;
    default: return false;
  }
}

void prepare_alibi(Program& p) {
  const AttentionForm form = p.operators().attention;
  p.given.alibi = form == AttentionForm::bloom ? bloom_alibi(p)
                  : form == AttentionForm::mpt ? mpt_alibi(p)
                                               : falcon_alibi(p);
}

void bias_mask(Program& p) {
  Autograd& torch = p.torch;
  LayerInputs& given = p.given;
  if (given.mask.type == DType::boolean) {
    const Tensor zero = numbers(torch, {}, p.weights), least = numbers(torch, {}, p.weights);
    given.mask = torch.operate({&given.mask}, elementwise({&given.mask.layout}), p.weights);
  }
  const Tensor scaled = torch.operate({&given.alibi}, given.alibi.layout, p.weights);
  const Tensor hidden = torch.operate({&given.mask}, elementwise({&given.mask.layout}), DType::boolean);
  given.mask = torch.operate({&given.mask, &scaled, &hidden},
                             elementwise({&given.alibi.layout, &given.mask.layout}), p.weights);
}

namespace {

/// Records arange + offset and three views of it.
Tensor offset_range(Program& p) {
  p.torch.issue(3);
  const Tensor range = numbers(p.torch, {p.sizes.s}, DType::int64);
  return numbers(p.torch, {p.sizes.s}, DType::int64);
}

Tensor square(Program& p) { return numbers(p.torch, {1, 1, p.sizes.s, p.sizes.s}, DType::boolean); }

/// Records `mask & other`, broadcast to all samples.
Tensor both(Program& p, const Tensor& mask, const Tensor& other) {
  return p.torch.operate({&mask, &other}, elementwise({&mask.layout, &other.layout}), DType::boolean);
}

/// Records fast_all(mask), which sums booleans as whole numbers.
void ask_whether_all(Program& p) {
  const Tensor sum = numbers(p.torch, {}, DType::int64);
  { const Tensor wide = p.torch.make(Layout::contiguous({p.sizes.b, p.sizes.s}), DType::int64); }
  const Tensor answer = numbers(p.torch, {}, DType::boolean);
  p.torch.issue(1);
}

Tensor one(Program& p) { return numbers(p.torch, {}, DType::boolean); }

/// Records a mask of the keys within the window and not after the query.
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

/// Records sdpa_mask: booleans [b, 1, s, s], shared by all samples where nothing is padded.
Tensor boolean_mask(Program& p, bool windowed) {
  const Tensor samples = numbers(p.torch, {p.sizes.b}, DType::int64),
               heads = numbers(p.torch, {1}, DType::int64);
  const Tensor queries = offset_range(p), keys = offset_range(p);
  Tensor mask = p.training.padding_mask ? padded_mask(p, windowed) : windowed ? sliding_mask(p) : square(p);
  p.torch.issue(7);  // views of samples and heads, and the mask's own
  if (mask.size(0) != p.sizes.b) mask.layout.sizes[0] = p.sizes.b, mask.layout.strides[0] = 0;
  return mask;
}

/// Records a mask of zeros and the least number of the hidden states' type.
Tensor additive_mask(Program& p, const Tensor& allowed) {
  const Tensor zero = numbers(p.torch, {}, p.weights), least = numbers(p.torch, {}, p.weights);
  return p.torch.operate({&allowed}, elementwise({&allowed.layout}), p.weights);
}

/// True if scaled_dot_product_attention needs no mask but "causal".
bool can_skip(Program& p, bool windowed) {
  if (p.operators().attention == AttentionForm::falcon) return false;
  if (windowed && p.sizes.s >= p.shape().sliding_window) return false;
  if (p.training.packed_mask && p.context_rank + 1 < p.strategy.layout.context) return false;
  if (p.training.compile == Compile::model) return false;
  if (!p.training.padding_mask) return true;
  ask_whether_all(p), ask_whether_all(p);
  return false;
}

/// Records a mask of the keys within the window that are of the same image or not after the query. Source:
/// transformers 5.23 models/gemma3/modeling_gemma3.py create_masks_for_vision_model.
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

/// Records the mask of the implementation that runs. The flash-attention package gets only which tokens are
/// real.
Tensor created_mask(Program& p, bool windowed) {
  if (p.modules().without_masks) return {};
  if (sees_images_whole(p)) return image_mask(p, windowed);
  Tensor padding;
  if (p.training.padding_mask) padding = numbers(p.torch, {p.sizes.b, p.sizes.s}, DType::boolean);
  switch (attention_of(p)) {
    case Attention::flash: return padding;
    case Attention::sdpa: {
      if (can_skip(p, windowed)) return {};
      const Tensor mask = boolean_mask(p, windowed);
      // Inductor makes the kernel's mask once for all layers.
      return p.training.compile == Compile::model ? additive_mask(p, mask) : mask;
    }
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
  LayerInputs& given = p.given;
  const Masks masks = p.operators().masks;
  const bool slides = p.shape().sliding_layers > 0;
  if (masks != Masks::one || !slides) given.mask = created_mask(p, false);
  if (masks == Masks::with_windows || slides) given.sliding_mask = created_mask(p, true);
  if (given.alibi.defined() && p.operators().attention == AttentionForm::falcon) bias_mask(p);
  rotary_tables(p);
  given.sliding_cosines = given.cosines, given.sliding_sines = given.sines;
  if (has_tables_of_both_kinds(p)) rotary_tables(p);
}

LayerInputs given_to_layer(const Program& p, bool sliding) {
  LayerInputs given = p.given;
  if (sliding)
    given.mask = given.sliding_mask, given.cosines = given.sliding_cosines, given.sines = given.sliding_sines;
  given.sliding_mask.reset(), given.sliding_cosines.reset(), given.sliding_sines.reset();
  return given;
}

}  // namespace zplan::symbolic
