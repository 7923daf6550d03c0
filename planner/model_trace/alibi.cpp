// ALiBi: biases by position instead of position embeddings (BLOOM, MPT, Falcon RW).
// Source: transformers 5.23 models/{bloom,mpt,falcon}/modeling_*.py.

#include <bit>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/rare_operators.h"

namespace zplan::symbolic {

namespace {

/// Slopes of all heads, the last of these: powers of one base for the largest power of two of them, of
/// another for the rest.
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

/// 0, 1, … of each sample, counted by summing its mask.
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
  Given& given = p.given;
  if (given.mask.type == DType::boolean) {
    const Tensor zero = numbers(torch, {}, p.weights), least = numbers(torch, {}, p.weights);
    given.mask = torch.operate({&given.mask}, elementwise({&given.mask.layout}), p.weights);
  }
  const Tensor scaled = torch.operate({&given.alibi}, given.alibi.layout, p.weights);
  const Tensor hidden = torch.operate({&given.mask}, elementwise({&given.mask.layout}), DType::boolean);
  given.mask = torch.operate({&given.mask, &scaled, &hidden},
                             elementwise({&given.alibi.layout, &given.mask.layout}), p.weights);
}

}  // namespace zplan::symbolic
