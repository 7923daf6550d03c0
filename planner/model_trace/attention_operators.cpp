#include <algorithm>
#include <array>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

std::int64_t rounded(std::int64_t n, std::int64_t step) { return divide_up(n, step) * step; }

/// Returns an operator's result of operands that need no gradient.
Tensor made(Autograd& torch, std::initializer_list<const Tensor*> operands, Dimensions sizes, DType type) {
  return torch.operate(operands, Layout::contiguous(std::move(sizes)), type);
}

/// Returns new memory laid out as [b, s, heads, d], as a view [b, heads, s, d].
Tensor token_major(Autograd& torch, const Tensor& like, std::int64_t heads, std::int64_t features,
                   DType type) {
  Tensor result = fresh(torch, {like.size(0), like.size(2), heads, features}, type);
  result.layout = result.layout.transposed(1, 2);
  return result;
}

// ---- operations
// --------------------------------------------------------------------------------------------

/// Returns the number of pairs of a query and a key that it sees, of one head.
double seen_pairs(double queries, double keys, bool causal, double window) {
  if (!causal) return queries * keys;
  const double w = window > 0 ? std::min(window, keys) : keys;
  return queries * w - w * (w - 1) / 2;
}

/// Returns the operations of the scores and of their product with the values. The forward has two products of
/// that size, the backward five. Source: Dao 2023 (FlashAttention-2), section 4.1.
Flops attention_flops(const Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                      std::int64_t samples = 1) {
  const auto n = static_cast<double>(samples);
  const double pairs = seen_pairs(static_cast<double>(q.size(2)) / n, static_cast<double>(k.size(2)) / n,
                                  causal, static_cast<double>(torch.attention_window)) *
                       n;
  return Flops(2.0 * static_cast<double>(q.size(0) * q.size(1) * (q.size(3) + v.size(3))) * pairs);
}
constexpr double kBackwardFlops = 2.5;

// ---- flash ------------------------------------------------------------------------------------------------

/// Returns how many parts the keys are split into where queries alone would leave multiprocessors idle.
/// Source: torch 2.11 aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp num_splits_heuristic,
/// set_params_splitkv.
std::int64_t key_splits(std::int64_t rows_of_blocks, std::int64_t key_blocks) {
  constexpr std::int64_t kSlots = 2 * kMultiprocessors, kMaxSplits = 128;
  if (static_cast<double>(rows_of_blocks) >= 0.8 * kSlots) return 1;
  const std::int64_t most = std::min({kMaxSplits, kSlots, key_blocks});
  const auto is_new = [&](std::int64_t n) {
    return n == 1 || divide_up(key_blocks, n) != divide_up(key_blocks, n - 1);
  };
  const auto efficiency = [&](std::int64_t n) {
    const double waves = static_cast<double>(rows_of_blocks * n) / kSlots;
    return waves / static_cast<double>(divide_up(rows_of_blocks * n, kSlots));
  };
  double best = 0;
  for (std::int64_t n = 1; n <= most; ++n)
    if (is_new(n)) best = std::max(best, efficiency(n));
  for (std::int64_t n = 1; n <= most; ++n)
    if (is_new(n) && efficiency(n) >= 0.85 * best) return n;
  return 1;
}

/// Returns the features of a head rounded to the kernel's tiles.
std::int64_t flash_width(std::int64_t d) { return rounded(d, d <= 128 ? 32 : 64); }

/// Allocates the partial results of split keys, freed when the kernel is launched.
std::array<Tensor, 2> split_memory(Autograd& torch, const Tensor& q, std::int64_t keys) {
  const std::int64_t b = q.size(0), a = q.size(1), s = q.size(2), d = q.size(3);
  const std::int64_t block = d <= 64 ? 256 : d <= 128 ? 128 : 64;
  const std::int64_t splits = key_splits(b * a * divide_up(s, 64), divide_up(keys, block));
  if (splits == 1) return {};
  Tensor sums = fresh(torch, {splits, b, a, s}, DType::fp32);
  return {std::move(sums), fresh(torch, {splits, b, a, s, flash_width(d)}, DType::fp32)};
}

/// Returns a gradient or output in the order of dimensions that `x` has, token by token.
Tensor in_order_of(Autograd& torch, const Tensor& x) {
  const Layout by_token = x.layout.transposed(1, 2);
  Tensor result = torch.make(elementwise({&by_token}), x.type);
  result.layout = result.layout.transposed(1, 2);
  return result;
}

/// Returns x, or a copy where tokens are not contiguous.
Tensor contiguous_by_token(Autograd& torch, const Tensor& x) {
  if (x.layout.transposed(1, 2).is_contiguous()) return x;
  return torch.kernel({&x}, Layout::contiguous(x.layout.sizes), x.type);
}

struct FlashKept {
  Saved query, key, value, output, sums, seed, unused;
  Flops flops{};
};

Tensors flash_backward(Autograd& torch, const FlashKept& kept, const Tensor& gradient) {
  const Tensor query = kept.query.get(), key = kept.key.get(), value = kept.value.get(),
               output = kept.output.get(), sums = kept.sums.get(), seed = kept.seed.get(),
               unused = kept.unused.get();
  const std::int64_t b = query.size(0), a = query.size(1), s = query.size(2), d = query.size(3);
  const Tensor incoming = contiguous_by_token(torch, gradient), outgoing = contiguous_by_token(torch, output);
  Tensors outputs(3);
  outputs[0] = in_order_of(torch, query), outputs[1] = in_order_of(torch, key);
  outputs[2] = in_order_of(torch, value);
  for (Tensor& each : outputs) each.view = true;
  const std::int64_t padded = rounded(s, 128);
  torch.attend(kept.flops * kBackwardFlops, true);
  const Tensor delta = fresh(torch, {b, a, padded}, DType::fp32);
  const Tensor accumulated = fresh(torch, {b, padded, a, flash_width(d)}, DType::fp32);
  torch.drop_kernel();
  if (key.size(1) == a) return outputs;
  // Gradients of all heads' keys and values: those of heads that share one are summed.
  const Tensor keys = fresh(torch, {b, key.size(2), a, d}, query.type);
  const Tensor values = fresh(torch, {b, key.size(2), a, d}, query.type);
  torch.read_only(keys.bytes() * 2);
  torch.write_only(key.bytes() * 2);
  return outputs;
}

Tensor flash_kernel(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v, bool dropout,
                    std::int64_t samples, bool causal = true) {
  const auto node = torch.node({&q, &k, &v});
  const Flops flops = attention_flops(torch, q, k, v, causal, samples);
  Tensor result = torch.expensive([&] {
    torch.attend(flops, false);
    return in_order_of(torch, q);
  });
  const Tensor sums = torch.expensive([&] {
    return fresh(torch, {q.size(0), q.size(1), q.size(2)}, DType::fp32);
  });
  {
    const std::array<Tensor, 2> split = dropout ? std::array<Tensor, 2>{} : split_memory(torch, q, k.size(2));
    Tensor seed = fresh(torch, {2}, DType::int64);
    const Tensor unused = fresh(torch, {1}, DType::int64);
    if (dropout) seed = fresh(torch, {2}, DType::int64);
    torch.drop_kernel();
    if (!node) return result;
    const FlashKept kept{torch.save(q),    torch.save(k),    torch.save(v),      torch.save(result),
                         torch.save(sums), torch.save(seed), torch.save(unused), flops};
    node->backward = [&torch, kept](Tensors& gradients) { return flash_backward(torch, kept, gradients[0]); };
  }
  return Autograd::connected(result, node);
}

/// Pads the features of x with zeros to a multiple of eight.
Tensor padded_features(Autograd& torch, const Tensor& x) {
  Dimensions sizes = x.layout.sizes;
  const std::int64_t features = sizes.back();
  sizes.back() = rounded(features, 8);
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, sizes, x.type);
  if (!node) return result;
  node->backward = [&torch, features](Tensors& gradients) {
    const Layout narrowed = gradients[0].layout.narrowed(3, features);
    return Tensors{torch.make(elementwise({&narrowed}), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

// ---- flash, part by part ----------------------------------------------------------------------------------

/// Returns the bytes of one block for each part, each rounded as the allocator does.
Bytes of_parts(const std::vector<TokenParts>& parts, std::int64_t bytes_of_token) {
  constexpr std::int64_t kBlock = 512;
  Bytes all;
  for (const TokenParts& each : parts)
    all += Bytes(each.count * rounded(each.length * bytes_of_token, kBlock));
  return all;
}

Tensor block_of(Autograd& torch, Bytes size) {
  return torch.make(Layout::contiguous({size.value}), DType::uint8);
}

std::int64_t part_count(const std::vector<TokenParts>& parts) {
  std::int64_t count = 0;
  for (const TokenParts& each : parts) count += each.count;
  return count;
}

std::int64_t longest_part(const std::vector<TokenParts>& parts) {
  std::int64_t longest = 0;
  for (const TokenParts& each : parts) longest = std::max(longest, each.length);
  return longest;
}

/// Runs one kernel for each part.
void attend_parts(Autograd& torch, const Tensor& q, const std::vector<TokenParts>& parts, bool backward) {
  const auto per_pair = 4.0 * static_cast<double>(q.size(1) * q.size(3)) * (backward ? kBackwardFlops : 1.0);
  for (const TokenParts& each : parts) {
    const auto tokens = static_cast<double>(each.length);
    torch.attend(Flops(per_pair * tokens * tokens * static_cast<double>(each.count)), backward);
    torch.recorder().load().kernels += each.count - 1;
  }
}

/// Allocates and frees what the kernel of one part takes in its forward.
void take_split_memory(Autograd& torch, const Tensor& q, std::int64_t length) {
  Tensor part = q.detached();
  part.storage.reset();
  part.layout.sizes[2] = length;
  const std::array<Tensor, 2> split = split_memory(torch, part, length);
}

Tensors parts_backward(Autograd& torch, const FlashKept& kept, const std::vector<TokenParts>& parts) {
  const Tensor query = kept.query.get(), key = kept.key.get(), value = kept.value.get(),
               output = kept.output.get(), sums = kept.sums.get(), seed = kept.seed.get();
  const std::int64_t a = query.size(1), d = query.size(3);
  Tensors gradients;
  for (int i = 0; i < 3; ++i) {
    gradients.push_back(block_of(torch, of_parts(parts, a * d * size_of(query.type))));
    Tensor& each = gradients.back();
    each.type = query.type, each.layout = query.layout, each.view = true;
  }
  const std::int64_t padded = rounded(longest_part(parts), 128);
  attend_parts(torch, query, parts, true);
  const Tensor delta = fresh(torch, {1, a, padded}, DType::fp32);
  const Tensor accumulated = fresh(torch, {1, padded, a, flash_width(d)}, DType::fp32);
  torch.drop_kernel();
  return gradients;
}

/// Records the kernels of all parts; the result of a part is [1, tokens, a, d].
Tensor flash_by_parts(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                      const std::vector<TokenParts>& parts) {
  const std::int64_t a = q.size(1), d = q.size(3);
  const auto node = torch.node({&q, &k, &v});
  attend_parts(torch, q, parts, false);
  Tensor result = block_of(torch, of_parts(parts, a * d * size_of(q.type)));
  result.type = q.type, result.layout = Layout::contiguous({1, q.size(2), a, d});
  const Tensor sums = block_of(torch, of_parts(parts, a * size_of(DType::fp32)));
  // Two numbers of a seed and an empty one, of each part.
  const Tensor seeds = block_of(torch, Bytes(2 * 512 * part_count(parts)));
  take_split_memory(torch, q, longest_part(parts));
  torch.drop_kernel();
  if (!node) return result;
  const FlashKept kept{torch.save(q),
                       torch.save(k),
                       torch.save(v),
                       torch.save(result),
                       torch.save(sums),
                       torch.save(seeds),
                       {},
                       {}};
  node->backward = [&torch, kept, parts](Tensors&) { return parts_backward(torch, kept, parts); };
  return Autograd::connected(result, node);
}

// ---- memory-efficient -------------------------------------------------------------------------------------

/// Tiles holds the sizes of the memory-efficient kernels' tiles on compute capability 8.0 and later. Source:
/// torch 2.11 aten/src/ATen/native/transformers/cuda/mem_eff_attention/{kernel_backward.h,
/// kernels/generate_kernels.py}.
struct Tiles {
  std::int64_t queries{64}, columns{64};
  bool accumulates{};  ///< key and value gradients pass through fp32 memory
};

Tiles tiles(DType type, std::int64_t widest) {
  if (widest <= 64) return {};
  if (type == DType::fp32) return {.queries = 128};
  return widest <= 128 ? Tiles{.queries = 128, .columns = 128} : Tiles{.queries = 128, .accumulates = true};
}

/// Returns the bytes that the backward kernel accumulates gradients in. Source: kernel_backward.h
/// workspace_size; attention_backward.cu (the number of splits).
std::int64_t backward_workspace(const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t d = q.size(3), dv = v.size(3), keys = k.size(2), heads = q.size(0) * q.size(1);
  const Tiles tile = tiles(q.type, std::max(d, dv));
  constexpr std::int64_t kKeys = 64, kLock = 4;  // rows of a block of keys; words in front of each tile
  std::int64_t words = 0;
  if (tile.accumulates) {
    const std::int64_t splits = std::max<std::int64_t>(std::min(divide_up(keys, kKeys), 200 / heads), 1);
    words += splits * kKeys * (rounded(d, tile.queries) + rounded(dv, tile.queries));
  }
  words +=
      divide_up(q.size(2), tile.queries) * divide_up(d, tile.columns) * (tile.queries * tile.columns + kLock);
  return heads * rounded(words, 4) * 4;
}

/// Records Σ gradient · output of each row. In fp32 PyTorch computes it with tensors, not in the kernel.
Tensor row_sums(Autograd& torch, const Tensor& q, const Tensor& output) {
  const std::int64_t b = q.size(0), a = q.size(1), s = q.size(2);
  if (q.type != DType::fp32) return fresh(torch, {b, a, s}, DType::fp32);
  const Tensor product = fresh(torch, output.layout.sizes, DType::fp32);
  Tensor sums = fresh(torch, {b, s, a}, DType::fp32);
  return a == 1 ? sums : fresh(torch, {b, a, s}, DType::fp32);
}

struct EfficientKept {
  Saved query, key, value, mask, output, sums;
  Flops flops{};
};

Tensors efficient_backward(Autograd& torch, const EfficientKept& kept, const Tensor& gradient) {
  const Tensor query = kept.query.get(), key = kept.key.get(), value = kept.value.get(),
               mask = kept.mask.get(), output = kept.output.get(), sums = kept.sums.get();
  const Tensor incoming = contiguous_by_token(torch, gradient);
  Tensors outputs{token_major(torch, query, query.size(1), query.size(3), query.type),
                  token_major(torch, key, key.size(1), key.size(3), key.type),
                  token_major(torch, value, value.size(1), value.size(3), value.type)};
  for (Tensor& each : outputs) each.view = true;
  const Tensor delta = row_sums(torch, query, output);
  const Tensor workspace = fresh(torch, {backward_workspace(query, key, value)}, DType::uint8);
  torch.attend(kept.flops * kBackwardFlops, true, std::max(query.size(3), value.size(3)));
  return outputs;
}

/// Records the kernel on q [b, a, s, d], k [b, a, s, d] and v [b, a, s, dv], without shared heads.
Tensor efficient_kernel(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& mask) {
  const auto node = torch.node({&q, &k, &v});
  Tensor result = token_major(torch, q, q.size(1), v.size(3), q.type);
  // Sums are kept for a backward only, 32 rows at a time.
  const Tensor sums = fresh(torch, {q.size(0), q.size(1), node ? rounded(q.size(2), 32) : 0}, DType::fp32);
  if (q.type != DType::fp32 && std::max(q.size(3), v.size(3)) > 128)
    const Tensor accumulated = fresh(torch, result.layout.sizes, DType::fp32);
  const Flops flops = attention_flops(torch, q, k, v, !mask.defined());
  torch.attend(flops, false, std::max(q.size(3), v.size(3)));
  if (!node) return result;
  const EfficientKept kept{torch.save(q),      torch.save(k),    torch.save(v), torch.save(mask),
                           torch.save(result), torch.save(sums), flops};
  node->backward = [&torch, kept](Tensors& gradients) {
    return efficient_backward(torch, kept, gradients[0]);
  };
  return Autograd::connected(result, node);
}

// ---- without a fused kernel -------------------------------------------------------------------------------

/// Records a softmax that returns zeros for rows without any score.
Tensor safe_softmax(Autograd& torch, const Tensor& scores) {
  Tensor result = softmax(torch, scores, scores.type);
  Dimensions rows = scores.layout.sizes;
  rows.back() = 1;
  const Tensor masked = torch.kernel({&scores}, Layout::contiguous(scores.layout.sizes), DType::boolean);
  const Tensor masked_rows = torch.kernel({&masked}, Layout::contiguous(rows), DType::boolean);
  const Tensor zero = torch.kernel({}, Layout::contiguous({}), DType::fp32);
  torch.change(result);
  return result;
}

/// Returns a mask to add to the scores: −∞ where `allowed` is false.
Tensor added_mask(Autograd& torch, const Tensor& allowed, DType type) {
  const Tensor no = made(torch, {}, {}, type), yes = made(torch, {}, {}, type);
  return torch.operate({&allowed}, elementwise({&allowed.layout}), type);
}

Tensor causal_mask(Autograd& torch, std::int64_t rows, std::int64_t columns, DType type) {
  Tensor allowed;
  {
    const Tensor ones = made(torch, {}, {rows, columns}, DType::boolean);
    allowed = made(torch, {&ones}, {rows, columns}, DType::boolean);
  }
  return added_mask(torch, allowed, type);
}

Tensor repeated(Autograd& torch, const Tensor& x, std::int64_t heads) {
  if (x.size(1) == heads) return x;
  const Tensor apart = unsqueeze(torch, x, 2);
  const Tensor wide = expand(torch, apart, {x.size(0), x.size(1), heads / x.size(1), x.size(2), x.size(3)});
  const Tensor copy = contiguous(torch, wide);
  return view(torch, copy, {x.size(0), heads, x.size(2), x.size(3)});
}

Tensor broadcast(Autograd& torch, const Tensor& x, std::int64_t heads) {
  return x.size(1) == heads ? x : expand(torch, x, {x.size(0), heads, x.size(2), x.size(3)});
}

/// Records attention operator by operator, with 16-bit operands widened.
Tensor by_definition(Autograd& torch, const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
                     Tensor mask, AttentionOptions options) {
  const Tensor wide_q = to(torch, given_q, DType::fp32), wide_k = to(torch, given_k, DType::fp32),
               wide_v = to(torch, given_v, DType::fp32);
  const Tensor q = scale(torch, wide_q);
  if (options.causal) mask = causal_mask(torch, q.size(2), wide_k.size(2), given_q.type);
  const auto all_heads = [&](const Tensor& x) {
    return options.broadcasts ? x : repeated(torch, x, q.size(1));
  };
  const Tensor k = all_heads(wide_k), v = all_heads(wide_v);
  Tensor probabilities;
  {
    Tensor scores;
    {
      const Tensor scaled = scale(torch, transpose(torch, k, 2, 3));
      scores = matmul(torch, q, broadcast(torch, scaled, q.size(1)));
    }
    if (mask.defined()) add_in_place(torch, scores, mask);
    probabilities = safe_softmax(torch, scores);
  }
  if (options.dropout) probabilities = dropout(torch, probabilities);
  const Tensor narrow = to(torch, probabilities, given_q.type);
  const Tensor output = matmul(torch, probabilities, broadcast(torch, v, q.size(1)));
  return to(torch, output, given_q.type);
}

/// Returns a boolean mask as the memory-efficient kernel takes it: rows padded to a multiple of eight.
Tensor aligned_mask(Autograd& torch, const Tensor& mask) {
  Dimensions sizes = mask.layout.sizes;
  if (sizes.back() % 8 == 0) return mask;
  sizes.back() = rounded(sizes.back(), 8);
  return made(torch, {&mask}, sizes, mask.type);
}

bool efficient_takes(const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t alignment = 16 / size_of(q.type);
  return q.size(1) == k.size(1) && q.size(3) % alignment == 0 && v.size(3) % alignment == 0;
}

}  // namespace

FlashStep flash_step(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  torch.attend(attention_flops(torch, q, k, v, causal), false);
  FlashStep step;
  step.output = in_order_of(torch, q);
  step.sums = fresh(torch, {q.size(0), q.size(1), q.size(2)}, DType::fp32);
  {
    const std::array<Tensor, 2> split = split_memory(torch, q, k.size(2));
    const Tensor seed = fresh(torch, {2}, DType::int64), unused = fresh(torch, {1}, DType::int64);
  }
  torch.drop_kernel();
  return step;
}

Tensors flash_step_backward(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                            const FlashStep& step, const Tensor& gradient, bool causal) {
  const FlashKept kept{{q, torch},         {k, torch}, {v, torch}, {step.output, torch},
                       {step.sums, torch}, {},         {},         attention_flops(torch, q, k, v, causal)};
  return flash_backward(torch, kept, gradient);
}

Tensor flash_attention(Autograd& torch, const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
                       bool dropout, std::int64_t samples) {
  const Tensor v = torch.autocast().narrow(torch, given_v);
  const Tensor k = torch.autocast().narrow(torch, given_k);
  const Tensor q = torch.autocast().narrow(torch, given_q);
  const std::int64_t features = q.size(3);
  if (features % 8 == 0) return flash_kernel(torch, q, k, v, dropout, samples);
  const Tensor wide_q = padded_features(torch, q), wide_k = padded_features(torch, k),
               wide_v = padded_features(torch, v);
  return slice(torch, flash_kernel(torch, wide_q, wide_k, wide_v, dropout, samples), 3, features);
}

Tensor attention_by_parts(Autograd& torch, const Tensor& given_q, const Tensor& given_k,
                          const Tensor& given_v, const std::vector<TokenParts>& parts) {
  const Tensor queries = as_parts(torch, given_q), keys = as_parts(torch, given_k),
               values = as_parts(torch, given_v);
  const Tensor v = torch.autocast().narrow(torch, values);
  const Tensor k = torch.autocast().narrow(torch, keys);
  const Tensor q = torch.autocast().narrow(torch, queries);
  const Tensor each = flash_by_parts(torch, q, k, v, parts);
  return cat(torch, {each}, 1);
}

Tensor whole_attention(Autograd& torch, const Tensor& given_q, const Tensor& given_k, const Tensor& given_v) {
  const Tensor v = torch.autocast().narrow(torch, given_v);
  const Tensor k = torch.autocast().narrow(torch, given_k);
  const Tensor q = torch.autocast().narrow(torch, given_q);
  const std::int64_t features = q.size(3);
  if (features % 8 == 0) return flash_kernel(torch, q, k, v, false, 1, false);
  const Tensor wide_q = padded_features(torch, q), wide_k = padded_features(torch, k),
               wide_v = padded_features(torch, v);
  return slice(torch, flash_kernel(torch, wide_q, wide_k, wide_v, false, 1, false), 3, features);
}

Tensor scaled_dot_product_attention(Autograd& torch, const Tensor& given_q, const Tensor& given_k,
                                    const Tensor& given_v, const Tensor& mask, AttentionOptions options) {
  const Tensor v = torch.autocast().narrow(torch, given_v);
  const Tensor k = torch.autocast().narrow(torch, given_k);
  const Tensor q = torch.autocast().narrow(torch, given_q);
  const bool alike = q.size(3) == v.size(3) && q.size(3) <= 256;
  if (!mask.defined() && q.type == DType::bf16 && alike)
    return flash_attention(torch, q, k, v, options.dropout);
  Tensor added;
  if (mask.defined()) added = mask.type == DType::boolean ? added_mask(torch, mask, q.type) : mask;
  if (!efficient_takes(q, k, v)) return by_definition(torch, q, k, v, std::move(added), options);
  if (added.defined()) added = aligned_mask(torch, added);
  return efficient_kernel(torch, q, k, v, added);
}

Tensor where(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), x.type);
  if (!node) return result;
  node->backward = [&torch](Tensors& gradients) {
    const Layout all = Layout::contiguous(gradients[0].layout.sizes);
    const Tensor zeros = torch.kernel({}, all, gradients[0].type);
    return Tensors{torch.kernel({&gradients[0], &zeros}, all, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

}  // namespace zplan::symbolic
