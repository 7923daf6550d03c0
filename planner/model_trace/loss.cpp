#include <algorithm>
#include <bit>
#include <utility>

#include "planner/model_trace/parallel_operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

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

/// Labels padded by one token and shifted: a copy of its own where rows are not one behind the other.
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

/// What the model does with its head's product: a factor (Granite, Cohere) and Gemma 2's soft cap,
/// tanh(logits / cap) · cap.
Tensor finished_logits(Program& p, Tensor logits) {
  if (p.operators().scales_logits) logits = scale(p.torch, logits);
  if (!p.shape().logit_soft_cap) return logits;
  logits = scale(p.torch, logits);
  logits = tanh(p.torch, logits);
  return scale(p.torch, logits);
}

/// The same of a slice of the tokens.
Tensor finished_slice(Program& p, Tensor logits) {
  return p.modules().caps_whole_logits ? logits : finished_logits(p, std::move(logits));
}

/// The logits of all tokens but the last of each sample, copied where they do not lie one behind the other.
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

/// All tokens but each sample's last, copied where they do not lie one behind the other.
Tensor without_last(Program& p, const Tensor& logits) {
  const std::int64_t V = logits.layout.sizes.back(), tokens = logits.size(1) - 1;
  const Tensor left = contiguous(p.torch, slice(p.torch, logits, 1, tokens));
  return view(p.torch, left, {p.sizes.b * tokens, V});
}

/// Slices of the tokens, each widened, reduced and summed on its own.
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

/// Head and cross-entropy of each slice of the sequence: logits of all slices live until the last loss is
/// there, but never in one piece. Source: litgpt 0.5 model.py GPT.forward (lm_head_chunk_size), utils.py
/// chunked_cross_entropy.
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

/// DeepSpeed's column-parallel head under an untied embedding: every rank gathers the logits of all.
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
  if (node) {
    node->backward = [&torch, own = part.layout.sizes](Tensors& gradients) {
      return Tensors{torch.make(Layout::contiguous(own), gradients[0].type)};
    };
    torch.connect(whole, node);
  }
  return whole;
}

/// A head and loss in one kernel: logits exist for a slice of the tokens at a time, about as many bytes as
/// the hidden states; gradients are computed at once. Source: Liger-Kernel fused_linear_cross_entropy (a
/// chunk is the next power of two of T / ⌈V/h⌉ tokens).
Tensor fused_loss(Program& p, const Parameter& weight, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&hidden, &weight.tensor});
  const std::int64_t T = p.sizes.tokens(), h = hidden.layout.sizes.back(), V = weight.tensor.size(0);
  const auto rows = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(share(Elements(T), share(Elements(V), h).value).value)));
  const Labels labels = labels_of(p);
  const Tensor of_hidden = torch.make(Layout::contiguous(hidden.layout.sizes), hidden.type);
  Tensor of_weight;
  if (weight.tensor.requires_gradient) of_weight = torch.make(Layout::contiguous({V, h}), weight.tensor.type);
  Tensor loss = torch.make(Layout::contiguous({}), DType::fp32);
  {
    const Tensor logits = torch.make(Layout::contiguous({std::min(rows, T), V}), hidden.type);
    if (of_weight.defined())
      const Tensor product = torch.make(Layout::contiguous({V, h}), weight.tensor.type);
    torch.compute(product_of(T, h, V, hidden.type));
    torch.compute(product_of(T, V, h, hidden.type));
    if (of_weight.defined()) torch.compute(product_of(V, T, h, hidden.type));
    // Logits become their gradient where they lie, read twice on the way.
    torch.read_only(Bytes(2 * T * V * size_of(hidden.type)));
    torch.write_only(Bytes(T * V * size_of(hidden.type)));
  }
  if (node) {
    node->backward = [first = torch.save(of_hidden), second = torch.save(of_weight)](Tensors&) {
      return Tensors{first.get(), second.get()};
    };
    torch.connect(loss, node);
  }
  return loss;
}

/// TRL's fused head: minus the mean of log-probabilities.
Tensor loss_of_log_probabilities(Program& p, const Tensor& logarithms) {
  Autograd& torch = p.torch;
  const Tensor negative = neg(torch, logarithms);
  const Tensor flat = view(torch, negative, {negative.elements()});
  return scale(torch, sum_last(torch, flat));
}

/// Of some tokens [t, h].
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
  if (const std::int64_t tiles = loss_tiles(p.strategy, p.training, p.shape().vocabulary_size); tiles > 0) {
    name_head(p, weight);
    return tiled_loss(p, hidden, tiles, [&](const Tensor& slice) { return loss_of(p, of, weight, slice); });
  }
  if (p.training.sliced_head && p.training.loss_chunks > 1) return loss_of_sliced_head(p, of, weight, hidden);
  recorder.take_for(Term::logits);
  const bool divided = p.strategy.layout.tensor > 1 && weight.about->split != TensorParallelSplit::replicated;
  Tensor logits = linear_layer(p, of, weight, hidden);
  const bool stays_divided = divided && (p.shape().tied_embeddings || p.training.vocabulary_parallel_head);
  if (divided && !stays_divided) {
    Tensor whole = gathered(p, logits, p.shape().vocabulary_size);
    logits = std::move(whole);
  }
  logits = finished_logits(p, std::move(logits));
  logits = hooked_logits(p, logits);
  recorder.take_for(Term::loss_temporaries);
  if (p.modules().widens_logits) logits = to(p.torch, logits, DType::fp32);
  hold_logits(p, {logits});
  if (stays_divided) return vocabulary_parallel_cross_entropy(p.torch, logits);
  return p.training.loss_chunks > 1 ? chunked_loss(p, logits) : whole_loss(p, std::move(logits));
}

}  // namespace zplan::symbolic
