// Output head and loss of next tokens, in all their forms, and TRL's head without logits: log-probabilities
// of the labels, computed from tiles of tokens and vocabulary that the backward computes again. Source: TRL
// 1.16 kernels/chunked_logprob.py, trainer/utils.py add_fused_lm_head.

#include <algorithm>
#include <bit>
#include <utility>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

constexpr std::int64_t kTileTokens = 4096, kTileWords = 32'768;

/// Tiles holds the operands of a tile cast to the type that computes, and the tile.
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

/// hidden[mask]: the `labels` rows of each sample whose next token is a label. Its backward sorts the indices
/// (index_put_).
Tensor labelled_rows(Program& p, const Tensor& hidden, std::int64_t labels) {
  Autograd& torch = p.torch;
  const std::int64_t rows = hidden.size(0) * labels, width = hidden.size(2);
  const auto node = torch.node({&hidden});
  const Tensor indices = torch.operate({}, Layout::contiguous({rows, 2}), DType::int64);
  Tensor picked = torch.make(Layout::contiguous({rows, width}), hidden.type);
  torch.end_kernel(1);
  if (!node) return picked;
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
  return Autograd::connected(picked, node);
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
  if (!node) return result;
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
  return Autograd::connected(result, node);
}

/// Records zeros.masked_scatter(mask, x): rows return to the places of their tokens.
Tensor scattered(Program& p, const Tensor& x, const Dimensions& sizes) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(sizes), x.type);
  if (!node) return result;
  node->backward = [&torch, from = x.layout.sizes](Tensors& gradients) {
    return Tensors{torch.make(Layout::contiguous(from), gradients[0].type)};
  };
  return Autograd::connected(result, node);
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

const Parameter& head_weight(const Program& p, const Parameters& of) {
  const Parameter* weight = nullptr;
  for (const Parameter& each : of.all()) {
    if (each.about->role != TensorRole::head || !each.about->linear) continue;
    if (!is_saved_copy(*each.about)) {
      const Parameter* copy = saved_copy(p, of, each);
      return copy != nullptr ? *copy : each;
    }
    if (!p.adapters_off) weight = &each;  // of a tied head, which has no other
  }
  if (weight != nullptr) return *weight;
  const Parameter& embedding = of.all().front();  // tied
  const Parameter* copy = p.training.ties_saved_modules ? saved_copy(p, of, embedding) : nullptr;
  return copy != nullptr ? *copy : embedding;
}

namespace {

/// Labels are padded by one token and shifted: copied where rows are not contiguous.
struct Labels {
  Tensor padded, shifted;
};

Labels labels_of(Program& p) {
  Labels labels;
  if (p.strategy.layout.token_ranks() > 1) {  // shifted before they were divided
    labels.shifted = of_batch({p.sizes.tokens()}, DType::int64);
    return labels;
  }
  labels.padded = p.torch.operate({}, Layout::contiguous({p.sizes.b, p.sizes.s + 1}), DType::int64);
  labels.shifted = labels.padded;
  p.torch.issue(2);
  if (p.sizes.b > 1)
    labels.shifted = p.torch.operate({&labels.padded}, Layout::contiguous({p.sizes.tokens()}), DType::int64);
  return labels;
}

/// Records what the model does with the head's product: a factor (Granite, Cohere) and Gemma 2's soft cap,
/// tanh(logits / cap) · cap.
Tensor finished_logits(Program& p, Tensor logits) {
  if (p.operators().scales_logits) logits = scale(p.torch, logits);
  if (!p.shape().logit_soft_cap) return logits;
  logits = scale(p.torch, logits);
  logits = tanh(p.torch, logits);
  return scale(p.torch, logits);
}

/// Records the same for the logits of a slice of the tokens.
Tensor finished_slice(Program& p, Tensor logits) {
  return p.modules().caps_whole_logits ? logits : finished_logits(p, std::move(logits));
}

/// Records the loss of the logits of all tokens but each sample's last, copied where they are not contiguous.
Tensor loss_of_shifted_logits(Program& p, const Tensor& wide, std::int64_t V) {
  Autograd& torch = p.torch;
  const std::int64_t predicted = p.sizes.s - 1;
  const Tensor whole = view(torch, wide, {p.sizes.b, p.sizes.s, V});
  const Tensor shifted = contiguous(torch, slice(torch, whole, 1, predicted));
  const Tensor labels = torch.operate({}, Layout::contiguous({p.sizes.b * predicted}), DType::int64);
  // A variable of torchtune's loop, whose optimizers step in the backward, holds them until that is over.
  // Source: torchtune 0.1 recipes/full_finetune_single_device.py.
  if (p.training.steps_in_backward) p.outputs.push_back(shifted.detached());
  return cross_entropy(torch, view(torch, shifted, {p.sizes.b * predicted, V}), labels);
}

/// ForCausalLMLoss: all logits in fp32. Source: transformers 4.45 models/llama/modeling_llama.py, 4.48 and
/// 5.23 loss/loss_utils.py.
Tensor whole_loss(Program& p, Tensor logits) {
  const std::int64_t V = logits.layout.sizes.back();
  const Tensor wide = to(p.torch, logits, DType::fp32);
  if (p.training.loss_shift != LossShift::labels && p.strategy.layout.token_ranks() == 1) {
    if (p.training.loss_shift == LossShift::logits_alone) logits.reset();
    return loss_of_shifted_logits(p, wide, V);
  }
  const Labels labels = labels_of(p);
  return cross_entropy(p.torch, view(p.torch, wide, {p.sizes.tokens(), V}), labels.shifted);
}

/// Returns all tokens but each sample's last, copied where they are not contiguous.
Tensor without_last(Program& p, const Tensor& logits) {
  const std::int64_t V = logits.layout.sizes.back(), tokens = logits.size(1) - 1;
  const Tensor left = contiguous(p.torch, slice(p.torch, logits, 1, tokens));
  return view(p.torch, left, {p.sizes.b * tokens, V});
}

/// Records the loss of slices of the tokens, each widened, reduced and added.
Tensor chunked_loss(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const Labels labels = labels_of(p);
  const std::int64_t V = logits.layout.sizes.back();
  const Tensor flat =
      keeps_outputs(p.training) ? without_last(p, logits) : view(torch, logits, {p.sizes.tokens(), V});
  const std::int64_t T = flat.size(0);
  const Tensors parts = split(torch, flat, 0, chunks(T, p.training.loss_chunks));
  Tensor sum;
  for (const Tensor& each : parts) {
    const Tensor loss = cross_entropy(torch, to(torch, each, DType::fp32), labels.shifted);
    sum = sum.defined() ? add(torch, sum, loss) : loss;
  }
  return sum;
}

Tensors all_wide(Program& p, const Tensors& logits) {
  Tensors wide;
  for (const Tensor& each : logits) wide.push_back(to(p.torch, each, DType::fp32));
  return wide;
}

/// Records head and cross-entropy of each slice of the sequence. Logits of all slices live until the last
/// loss is computed, but never in one tensor. Source: litgpt 0.5 model.py GPT.forward (lm_head_chunk_size),
/// utils.py chunked_cross_entropy.
Tensor loss_of_sliced_head(Program& p, const Parameters& of, const Parameter& weight, const Tensor& hidden) {
  Autograd& torch = p.torch;
  torch.recorder().take_for(Term::logits);
  Tensors logits;
  for (const Tensor& each : split(torch, hidden, 1, chunks(p.sizes.s, p.training.loss_chunks)))
    logits.push_back(finished_slice(p, linear_layer(p, of, weight, each)));
  torch.recorder().take_for(Term::loss_temporaries);
  if (p.modules().widens_logits) logits = all_wide(p, logits);
  hold_logits(p, logits);
  const Labels labels = labels_of(p);
  Tensors losses;
  for (const Tensor& each : logits) {
    const Tensor flat = reshape(torch, each, {p.sizes.b * each.size(1), each.layout.sizes.back()});
    losses.push_back(cross_entropy(torch, to(torch, flat, DType::fp32), labels.shifted));
  }
  Tensor sum;
  for (const Tensor& each : losses) sum = sum.defined() ? add(torch, sum, each) : each;
  return sum;
}

/// Records DeepSpeed's column-parallel head under an untied embedding: every rank gathers the logits of all.
/// Source: DeepSpeed 0.19.8 module_inject/layers.py GatherFromTensorParallelRegion.
Tensor gathered(Program& p, const Tensor& part, std::int64_t V) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&part});
  Dimensions sizes = part.layout.sizes;
  sizes.back() = V;
  Tensor whole;
  {
    const Tensor by_rank = torch.make(Layout::contiguous(sizes), part.type);
    whole = torch.make(Layout::contiguous(sizes), part.type);
  }
  torch.recorder().communicate(TensorCall::logits, whole.bytes());
  if (!node) return whole;
  node->backward = [&torch, own = part.layout.sizes](Tensors& gradients) {
    return Tensors{torch.make(Layout::contiguous(own), gradients[0].type)};
  };
  return Autograd::connected(whole, node);
}

/// Records head and loss in one kernel: logits exist for a slice of the tokens at a time, about as many bytes
/// as the hidden states, and gradients are computed at once. Products add to a 16-bit weight's gradient where
/// it lies; of an fp32 weight under autocast each slice's product is a temporary, and the logits are a
/// product with a cast of the weight, which nothing keeps. Source: Liger-Kernel 0.8.5
/// ops/fused_linear_cross_entropy.py (a chunk is the next power of two of T / ⌈V/h⌉ tokens; capability 8.0 or
/// newer).
Tensor fused_loss(Program& p, const Parameter& weight, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&hidden, &weight.tensor});
  const std::int64_t T = p.sizes.tokens(), h = hidden.layout.sizes.back(), V = weight.tensor.size(0);
  const auto rows = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(share(Elements(T), share(Elements(V), h).value).value)));
  const DType type = torch.autocast().enabled() ? DType::bf16 : hidden.type;
  const bool casts = type != weight.tensor.type;
  const Labels labels = labels_of(p);
  const Tensor of_hidden = torch.make(Layout::contiguous(hidden.layout.sizes), hidden.type);
  Tensor of_weight;
  if (weight.tensor.requires_gradient) of_weight = torch.make(Layout::contiguous({V, h}), weight.tensor.type);
  Tensor loss = torch.make(Layout::contiguous({}), DType::fp32);
  {
    const Tensor logits = torch.make(Layout::contiguous({std::min(rows, T), V}), type);
    if (casts) const Tensor narrow = torch.make(Layout::contiguous({V, h}), type);
    if (casts && of_weight.defined())
      const Tensor product = torch.make(Layout::contiguous({V, h}), weight.tensor.type);
    torch.compute(product_of(T, h, V, type));
    torch.compute(product_of(T, V, h, type));
    if (of_weight.defined()) torch.compute(product_of(V, T, h, type));
    // Logits become their gradient where they lie, read twice on the way.
    torch.read_only(Bytes(2 * T * V * size_of(type)));
    torch.write_only(Bytes(T * V * size_of(type)));
  }
  if (!node) return loss;
  node->backward = [first = torch.save(of_hidden), second = torch.save(of_weight)](Tensors&) {
    return Tensors{first.get(), second.get()};
  };
  return Autograd::connected(loss, node);
}

/// Cut cross-entropy: tiles of logits stay in the multiprocessors, forward and backward. Source:
/// cut_cross_entropy 25.1.1 cce.py, cce_backward.py.
Tensor cut_loss(Program& p, const Parameter& weight, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&hidden, &weight.tensor});
  const std::int64_t T = p.sizes.tokens(), h = hidden.layout.sizes.back(), V = weight.tensor.size(0);
  const DType type = torch.autocast().enabled() ? DType::bf16 : hidden.type;
  const Labels labels = labels_of(p);
  const Tensor sums = torch.operate({}, Layout::contiguous({T}), DType::fp32);
  const Tensor chosen = torch.operate({}, Layout::contiguous({T}), DType::fp32);
  torch.compute(product_of(T, h, V, type));
  Tensor loss = torch.operate({&sums, &chosen}, Layout::contiguous({}), DType::fp32);
  if (!node) return loss;
  node->backward = [&torch, T, h, V, type, kept = torch.save(hidden), factors = weight.tensor.detached(),
                    kept_sums = torch.save(sums), kept_labels = torch.save(labels.shifted),
                    trains = weight.tensor.requires_gradient](Tensors&) {
    const Tensor input = kept.get(), held = kept_sums.get(), targets = kept_labels.get();
    Tensors outputs(2);
    outputs[0] = torch.operate({&input}, Layout::contiguous(input.layout.sizes), input.type);
    if (trains) outputs[1] = torch.operate({}, factors.layout, factors.type);
    torch.compute(product_of(T, h, V, type));
    torch.compute(product_of(T, V, h, type));
    if (trains) torch.compute(product_of(V, T, h, type));
    return outputs;
  };
  return Autograd::connected(loss, node);
}

/// TRL's fused head: minus the mean of log-probabilities.
Tensor loss_of_log_probabilities(Program& p, const Tensor& logarithms) {
  Autograd& torch = p.torch;
  const Tensor negative = neg(torch, logarithms);
  const Tensor flat = view(torch, negative, {negative.elements()});
  return scale(torch, sum_last(torch, flat));
}

/// Records head and loss of some tokens [t, h].
Tensor loss_of(Program& p, const Parameters& of, const Parameter& weight, const Tensor& hidden) {
  Recorder& recorder = p.torch.recorder();
  recorder.take_for(Term::logits);
  Tensor logits = linear_layer(p, of, weight, hidden);
  logits = finished_logits(p, std::move(logits));
  recorder.take_for(Term::loss_temporaries);
  const Tensor wide = to(p.torch, logits, DType::fp32);
  logits.reset();
  return cross_entropy(p.torch, wide, of_batch({hidden.size(0)}, DType::int64));
}

}  // namespace

void hold_logits(Program& p, const Tensors& logits) {
  if (!keeps_outputs(p.training)) return;
  for (const Tensor& each : logits) {
    p.leaves.logits.push_back(each.bytes());
    p.outputs.push_back(each.detached());
  }
  p.earlier_logits.clear();
}

void name_head(Program& p, const Parameter& weight) {
  if (!hooks_modules(p)) return;
  Recorder& recorder = p.torch.recorder();
  recorder.read_parameter(recorder.module_number({.name = "model with head"}), weight.index);
}

Tensor logits_of(Program& p, const Parameters& of, const Tensor& hidden) {
  p.torch.recorder().take_for(Term::logits);
  Tensor logits = linear_layer(p, of, head_weight(p, of), hidden);
  return hooked_logits(p, finished_logits(p, std::move(logits)));
}

Tensor head_and_loss(Program& p, const Parameters& of, const Tensor& hidden) {
  Recorder& recorder = p.torch.recorder();
  const Parameter& weight = head_weight(p, of);
  recorder.take_for(Term::loss_temporaries);
  if (p.modules().head_and_loss != nullptr) return p.modules().head_and_loss(p, of, hidden);
  if (p.training.fused_head) return loss_of_log_probabilities(p, label_log_probabilities(p, of, hidden));
  if (p.training.fused_loss) return fused_loss(p, weight, hidden);
  if (p.training.cut_loss) return cut_loss(p, weight, hidden);
  if (const std::int64_t tiles = loss_tiles(p.strategy, p.training, p.shape().vocabulary_size); tiles > 0) {
    name_head(p, weight);
    return tiled_loss(p, hidden, tiles, [&](const Tensor& slice) { return loss_of(p, of, weight, slice); });
  }
  if (p.training.sliced_head && p.training.loss_chunks > 1) return loss_of_sliced_head(p, of, weight, hidden);
  recorder.take_for(Term::logits);
  const bool divided = p.strategy.layout.tensor > 1 && weight.about->split != TensorParallelSplit::replicated;
  Tensor logits = linear_layer(p, of, weight, hidden);
  const bool stays_divided =
      divided && !follows_plan(p) && (p.shape().tied_embeddings || p.training.vocabulary_parallel_head);
  if (divided && !stays_divided) {
    Tensor whole = gathered(p, logits, p.shape().vocabulary_size);
    logits = std::move(whole);
  }
  logits = finished_logits(p, std::move(logits));
  logits = hooked_logits(p, logits);
  recorder.take_for(Term::loss_temporaries);
  if (p.modules().widens_logits) logits = to(p.torch, logits, DType::fp32);
  hold_logits(p, {logits});
  if (p.training.compile == Compile::model) return compiled_loss(p, logits);
  if (stays_divided) return vocabulary_parallel_cross_entropy(p.torch, logits);
  return p.training.loss_chunks > 1 ? chunked_loss(p, logits) : whole_loss(p, std::move(logits));
}

}  // namespace zplan::symbolic
