// TRL's head without logits: log-probabilities of the labels, folded from tiles of tokens and vocabulary that
// the backward computes again. Source: TRL 1.16 kernels/chunked_logprob.py, trainer/utils.py
// add_fused_lm_head.

#include <algorithm>
#include <utility>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

constexpr std::int64_t kTileTokens = 4096, kTileWords = 32'768;

/// What of a tile's operands is copied into the type that computes, and the tile.
struct Tiles {
  Autograd& torch;
  std::int64_t tokens{}, words{}, width{};  ///< of all tiles, and features
  DType type{DType::bf16};                  ///< that computes

  [[nodiscard]] Tensor buffer() const {
    return torch.operate({}, Layout::contiguous({std::min(tokens, kTileTokens), kTileWords}), type);
  }
  /// Calls `fold` for each tile while the operands' copies are there.
  template <class Fold>
  void each(const Tensor& hidden, const Tensor& weight, const Fold& fold) const {
    for (std::int64_t at = 0; at < tokens; at += kTileTokens) {
      const std::int64_t rows = std::min(kTileTokens, tokens - at);
      const Tensor some = cast(hidden, {rows, width});
      Tensor part;
      for (std::int64_t first = 0; first < words; first += kTileWords) {
        const std::int64_t columns = std::min(kTileWords, words - first);
        Tensor next = cast(weight, {columns, width});
        part = std::move(next);
        torch.compute(product_of(rows, width, columns, type));
        fold(rows, columns);
      }
    }
  }

 private:
  [[nodiscard]] Tensor cast(const Tensor& of, Dimensions sizes) const {
    if (of.type == type) return {};
    return torch.operate({}, Layout::contiguous(std::move(sizes)), type);
  }
};

/// hidden[mask]: rows whose next token is a label, of each sample so many. Its backward sorts the indices
/// (index_put_).
Tensor labelled_rows(Program& p, const Tensor& hidden, std::int64_t labels) {
  Autograd& torch = p.torch;
  const std::int64_t rows = hidden.size(0) * labels, width = hidden.size(2);
  const auto node = torch.node({&hidden});
  const Tensor indices = torch.operate({}, Layout::contiguous({rows, 2}), DType::int64);
  Tensor picked = torch.make(Layout::contiguous({rows, width}), hidden.type);
  torch.end_kernel(1);
  if (node) {
    node->backward = [&torch, rows, whole = hidden.layout.sizes, type = hidden.type,
                      kept = torch.save(indices)](Tensors& gradients) {
      const Tensor held = kept.get();
      Tensor result = torch.kernel({}, Layout::contiguous(whole), type);
      const Tensor linear = torch.operate({&held}, Layout::contiguous({rows}), DType::int64);
      const Tensor order = torch.operate({}, Layout::contiguous({rows}), DType::int64);
      const Tensor sorted = torch.operate({&linear}, Layout::contiguous({rows}), DType::int64);
      torch.copy(gradients[0]);
      return Tensors{result};
    };
    torch.connect(picked, node);
  }
  return picked;
}

/// ChunkedLogProbFunction.
Tensor log_probabilities_of(Program& p, const Parameter& weight, const Tensor& rows) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&rows, &weight.tensor});
  const std::int64_t N = rows.size(0), h = rows.size(1), V = weight.tensor.size(0);
  const DType type = torch.autocast().enabled() ? DType::bf16 : rows.type;
  const auto number = [&] { return torch.operate({}, Layout::contiguous({N}), DType::fp32); };
  const Tensor targets = torch.operate({}, Layout::contiguous({N}), DType::int64);
  const Tiles tiles{torch, N, V, h, type};
  Tensor result, normaliser, entropy;
  {
    Tensors statistics;
    for (int i = 0; i < 7; ++i) statistics.push_back(number());
    const Tensor tile = tiles.buffer();
    tiles.each(rows, weight.tensor, [&](std::int64_t n, std::int64_t v) {
      torch.read_only(Bytes(n * v * size_of(type)));
      torch.end_kernel(1);
    });
    normaliser = number(), result = number(), entropy = number();
  }
  if (node) {
    Saved kept = torch.save(rows), kept_weight = torch.save(weight.tensor), labels = torch.save(targets),
          kept_normaliser = torch.save(normaliser), kept_entropy = torch.save(entropy);
    node->backward = [&torch, N, h, V, tiles, trains = weight.tensor.requires_gradient,
                      needs_rows = rows.requires_gradient, kept, kept_weight, labels, kept_normaliser,
                      kept_entropy](Tensors&) {
      const Tensor input = kept.get(), factors = kept_weight.get(), held = labels.get();
      const Tensor first = kept_normaliser.get(), second = kept_entropy.get();
      Tensor of_rows, of_weight;
      if (needs_rows) of_rows = torch.operate({}, Layout::contiguous({N, h}), DType::fp32);
      if (trains) of_weight = torch.operate({}, Layout::contiguous({V, h}), DType::fp32);
      const Tensor tile = tiles.buffer();
      tiles.each(input, factors, [&](std::int64_t n, std::int64_t v) {
        torch.read_only(Bytes(n * v * size_of(tiles.type)));
        torch.write_only(Bytes(n * v * size_of(tiles.type)));
        torch.end_kernel(1);
        if (needs_rows) torch.compute(product_of(n, v, h, tiles.type));
        if (trains) torch.compute(product_of(v, n, h, tiles.type));
      });
      Tensor narrow_rows, narrow_weight;
      if (needs_rows) narrow_rows = to(torch, of_rows, input.type);
      if (trains) narrow_weight = to(torch, of_weight, factors.type);
      return Tensors{narrow_rows, narrow_weight};
    };
    torch.connect(result, node);
  }
  return result;
}

/// zeros.masked_scatter(mask, x): back in the places of their tokens.
Tensor scattered(Program& p, const Tensor& x, const Dimensions& sizes) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(sizes), x.type);
  if (node) {
    node->backward = [&torch, from = x.layout.sizes](Tensors& gradients) {
      return Tensors{torch.make(Layout::contiguous(from), gradients[0].type)};
    };
    torch.connect(result, node);
  }
  return result;
}

}  // namespace

Tensor label_log_probabilities(Program& p, const Parameters& of, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const Parameter& weight = head_weight(p, of);
  torch.recorder().take_for(Term::loss_temporaries);
  name_head(p, weight);
  const std::int64_t b = hidden.size(0), s = hidden.size(1) - 1;
  const Tensor mask = torch.operate({}, Layout::contiguous({b, s}), DType::boolean);
  const std::int64_t labels = generates(p.training) ? completion_tokens(p.training) : s;
  const Tensor rows = labelled_rows(p, slice(torch, hidden, 1, s), labels);
  const Tensor flat = log_probabilities_of(p, weight, rows);
  return scattered(p, flat, {b, s});
}

}  // namespace zplan::symbolic
