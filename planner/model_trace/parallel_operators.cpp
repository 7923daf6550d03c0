#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// Returns the result of an operator without a gradient, whose operands are no larger.
Tensor made(Autograd& torch, const Dimensions& sizes, DType type) {
  return torch.operate({}, Layout::contiguous(sizes), type);
}

/// Records which numbers lie outside of [start, end): two comparisons and their union.
Tensor outside(Autograd& torch, const Dimensions& sizes) {
  const Tensor before = made(torch, sizes, DType::boolean), behind = made(torch, sizes, DType::boolean);
  return made(torch, sizes, DType::boolean);
}

/// x masked or divided by `other`, which is kept: the backward does the same to the gradient.
Tensor masked_or_divided(Autograd& torch, const Tensor& x, const Tensor& other) {
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, x.layout.sizes, x.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(other), sizes = x.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{fresh(torch, sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

void exchange(Autograd& torch, TensorCall call, const Tensor& x) {
  torch.recorder().communicate(call, x.bytes());
}

Dimensions result_sizes(const Tensor& x, const Tensor& weight) {
  Dimensions sizes = with_last(x.layout.sizes, weight.size(0));
  return sizes;
}

}  // namespace

Tensor linear_of_partitioned(Autograd& torch, const Tensor& x, const Tensor& weight, const Tensor* bias) {
  const Tensor none;
  const Tensor& addend = bias != nullptr ? *bias : none;
  const auto node = torch.node({&x, &weight, &addend});
  Tensor result = fresh(torch, result_sizes(x, weight), x.type);
  const std::int64_t in = x.layout.sizes.back(), out = weight.size(0), rows = x.elements() / in;
  torch.multiply(bias != nullptr && x.layout.rank() == 2, product_of(rows, in, out, x.type));
  if (bias != nullptr && x.layout.rank() != 2) torch.change(result, bias);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_x = torch.save(x), kept_weight = torch.save(weight),
                    kept_bias = bias != nullptr ? torch.save(*bias) : Saved{}, rows, in,
                    out](Tensors& gradients) {
    const Tensor held = kept_x.get(), held_weight = kept_weight.get(), held_bias = kept_bias.get();
    Tensors outputs(3);
    const DType type = gradients[0].type;
    if (itself.needs(0)) {
      outputs[0] = fresh(torch, held.layout.sizes, type);
      torch.multiply(false, product_of(rows, out, in, type));
    }
    if (itself.needs(1)) {
      const Tensor gradient = contiguous(torch, gradients[0]), inputs = contiguous(torch, held);
      outputs[1] = fresh(torch, held_weight.layout.sizes, type);
      torch.multiply(false, product_of(out, rows, in, type));
    }
    if (itself.needs(2)) outputs[2] = sum_to(torch, gradients[0], held_bias.layout.sizes);
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor divided_linear(Autograd& torch, const Tensor& x, const Tensor& weight, const Tensor* bias) {
  const Tensor product = plain_linear(torch, x, weight);
  return bias != nullptr ? add(torch, product, *bias) : product;
}

Tensor column_parallel_input(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  if (!node) return x;
  Tensor result = x;
  node->backward = [&torch](Tensors& gradients) {
    exchange(torch, TensorCall::column_input, gradients[0]);
    return std::move(gradients);
  };
  return Autograd::connected(result, node);
}

Tensor vocabulary_parallel_embedding(Autograd& torch, const Tensor& weight, const Tensor& ids) {
  const Tensor mask = outside(torch, ids.layout.sizes);
  Tensor own;
  {
    const Tensor shifted = made(torch, ids.layout.sizes, DType::int64);
    own = made(torch, ids.layout.sizes, DType::int64);
  }
  const Tensor rows = embedding(torch, weight, own);
  Tensor result = masked_or_divided(torch, rows, mask);  // zero where the mask says so
  exchange(torch, TensorCall::split_embedding, result);
  return result;
}

// ---- DTensor's, as transformers' tp_plan asks for them ----------------------------------------------------

Tensor summed(Autograd& torch, TensorCall call, const Tensor& part) {
  const auto node = torch.node({&part});
  Tensor result = torch.kernel({&part}, Layout::contiguous(part.layout.sizes), part.type);
  exchange(torch, call, result);
  if (!node) return result;
  node->backward = [](Tensors& gradients) { return std::move(gradients); };
  return Autograd::connected(result, node);
}

Tensor replicated_input(Autograd& torch, TensorCall call, const Tensor& x, bool in_place) {
  const auto node = torch.node({&x});
  if (!node) return x;
  Tensor result = x;
  node->backward = [&torch, call, in_place](Tensors& gradients) {
    Tensor& part = gradients[0];
    if (in_place) {
      exchange(torch, call, part);
      return std::move(gradients);
    }
    Tensor whole = torch.kernel({&part}, Layout::contiguous(part.layout.sizes), part.type);
    exchange(torch, call, whole);
    return Tensors{std::move(whole)};
  };
  return Autograd::connected(result, node);
}

Tensor summed_in_place(Autograd& torch, TensorCall call, const Tensor& part) {
  exchange(torch, call, part);
  return part;
}

Tensor divided_embedding(Autograd& torch, const Tensor& weight, const Tensor& ids, std::int64_t rows) {
  const auto node = torch.node({&weight});
  Tensor table = weight.detached();
  Tensor result;
  {
    Tensor own;
    const Tensor mask = outside(torch, ids.layout.sizes);
    {
      const Tensor copied = made(torch, ids.layout.sizes, DType::int64);
      own = made(torch, ids.layout.sizes, DType::int64);
    }
    const Tensor part = embedding(torch, table, own);
    own.reset();
    torch.change(part, &mask);
    result = summed(torch, TensorCall::split_embedding, part);
  }
  if (!node) return result;
  table.layout = Layout::contiguous({rows, weight.size(1)});
  node->backward = [&torch, kept = torch.save(ids), table](Tensors& gradients) {
    return Tensors{embedding_gradient(torch, kept.get(), table, gradients[0])};
  };
  return Autograd::connected(result, node);
}

// ---- cross-entropy ----------------------------------------------------------------------------------------

namespace {

/// KeptOfLoss is what _VocabParallelCrossEntropy saves.
struct KeptOfLoss {
  Tensor exponentials, sums, targets, own, valid;
};

using Shape = Dimensions;

/// Records the places of targets in this rank's part of the vocabulary, and whether they lie in it.
void find_targets(Autograd& torch, const Shape& tokens, KeptOfLoss& kept) {
  kept.valid = made(torch, tokens, DType::boolean);
  {
    Tensor from;
    {
      const Tensor comparison = made(torch, tokens, DType::boolean);
      from = made(torch, tokens, DType::boolean);
    }
    const Tensor until = made(torch, tokens, DType::boolean);
    kept.own = made(torch, tokens, DType::boolean);
  }
  const Tensor shifted = made(torch, tokens, DType::int64);
  kept.targets = made(torch, tokens, DType::int64);
}

/// torch.where(condition, x, torch.zeros_like(x)).
Tensor where_or_zero(Autograd& torch, const Tensor& x) {
  const Tensor zeros = made(torch, x.layout.sizes, x.type);
  return made(torch, x.layout.sizes, x.type);
}

/// log(sums) + maxima − logits of the targets, zero where a target is ignored.
Tensor losses(Autograd& torch, const Shape& tokens) {
  Tensor difference;
  {
    Tensor sum;
    {
      const Tensor logarithms = made(torch, tokens, DType::fp32);
      sum = made(torch, tokens, DType::fp32);
    }
    difference = made(torch, tokens, DType::fp32);
  }
  return where_or_zero(torch, difference);
}

/// The forward; returns the losses of the tokens.
Tensor losses_of(Autograd& torch, const Tensor& logits, const Shape& tokens, KeptOfLoss& kept) {
  const auto large = [&](const Tensor& of) {
    return torch.operate({&of}, Layout::contiguous(of.layout.sizes), DType::fp32);
  };
  const auto of_rows = [&](const Tensor& of) {
    return torch.operate({&of}, Layout::contiguous(tokens), DType::fp32);
  };
  torch.issue(6);  // views and collectives
  const Tensor wide = large(logits);
  const Tensor own_maxima = of_rows(wide), maxima = made(torch, tokens, DType::fp32);
  exchange(torch, TensorCall::token_maxima, maxima);
  {
    const Tensor differences = large(wide);
    kept.exponentials = large(differences);
  }
  kept.sums = of_rows(kept.exponentials);
  exchange(torch, TensorCall::token_sums, kept.sums);
  find_targets(torch, tokens, kept);
  Tensor of_targets = made(torch, tokens, DType::fp32);
  of_targets = where_or_zero(torch, of_targets);
  exchange(torch, TensorCall::token_sums, of_targets);
  return losses(torch, tokens);
}

Tensor gradient_of_losses(Autograd& torch, const KeptOfLoss& held, DType type) {
  const Shape &logits = held.exponentials.layout.sizes, &tokens = held.sums.layout.sizes;
  const Tensor gradient = fresh(torch, logits, DType::fp32);
  { const Tensor own = fresh(torch, tokens, DType::fp32), negative = fresh(torch, tokens, DType::fp32); }
  torch.change(gradient);  // zeros where a target is ignored
  { const Tensor valid = fresh(torch, tokens, DType::fp32); }
  torch.change(gradient);  // times the gradient of the loss
  torch.read(gradient);
  return fresh(torch, logits, type);
}

Tensor token_losses(Autograd& torch, const Tensor& logits) {
  const auto node = torch.node({&logits});
  KeptOfLoss kept;
  Shape tokens = logits.layout.sizes;
  tokens.pop_back();
  Tensor result = losses_of(torch, logits, tokens, kept);
  if (!node) return result;
  node->backward = [&torch, exponentials = torch.save(kept.exponentials), sums = torch.save(kept.sums),
                    targets = torch.save(kept.targets), own = torch.save(kept.own),
                    valid = torch.save(kept.valid), type = logits.type](Tensors&) {
    const KeptOfLoss held{exponentials.get(), sums.get(), targets.get(), own.get(), valid.get()};
    return Tensors{gradient_of_losses(torch, held, type)};
  };
  return Autograd::connected(result, node);
}

/// A sum over all elements; the gradient is expanded, a view.
Tensor sum(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, {}, x.type);
  if (!node) return result;
  node->backward = [sizes = x.layout.sizes](Tensors& gradients) {
    Tensor expanded = gradients[0];
    expanded.layout = {sizes, Dimensions(sizes.size(), 0)};
    expanded.view = true;
    return Tensors{expanded};
  };
  return Autograd::connected(result, node);
}

/// Records the number of targets that count: at least one.
Tensor count_of_valid(Autograd& torch, const Shape& tokens) {
  Tensor count;
  {
    Tensor whole;
    {
      const Tensor valid = made(torch, tokens, DType::boolean);
      whole = made(torch, {}, DType::int64);
      const Tensor widened = fresh(torch, tokens, DType::int64);
    }
    count = made(torch, {}, DType::fp32);
  }
  return count;
}

/// Targets that no part of the vocabulary has make an error; the answer lives as long as the loss is
/// computed.
Tensor check_targets(Autograd& torch, const Shape& tokens) {
  Tensor invalid;
  {
    const Tensor counts = made(torch, tokens, DType::boolean), strange = outside(torch, tokens);
    invalid = made(torch, tokens, DType::boolean);
  }
  any(torch, invalid.elements());
  return invalid;
}

}  // namespace

Tensor vocabulary_parallel_cross_entropy(Autograd& torch, const Tensor& logits) {
  const Shape tokens{logits.size(0), logits.size(1) - 1};
  // With one sequence the shifted labels are a view, as are the logits of all tokens but the last.
  const Tensor labels = tokens[0] > 1 ? made(torch, tokens, DType::int64) : Tensor{};
  const Tensor shifted = contiguous(torch, slice(torch, logits, 1, tokens[1]));
  const Tensor invalid = check_targets(torch, tokens);
  const Tensor per_token = token_losses(torch, shifted);
  const Tensor total = sum(torch, per_token);
  const Tensor count = count_of_valid(torch, tokens);
  const Tensor divisor = made(torch, {}, DType::fp32);
  return masked_or_divided(torch, total, divisor);
}

}  // namespace zplan::symbolic
