// Losses of ms-swift's trainers over Megatron-Core: of pairs of answers and single ones (DPO, KTO), of
// completions (GRPO), of a teacher's probabilities (GKD), of scores (reward models).
// Source: ms-swift 4.6 swift/megatron/trainers/{dpo,kto,grpo,gkd,reward}_trainer.py, rlhf_mixin.py,
// vocab_parallel_utils.py; mcore-bridge 1.6.5 model/gpt_model.py.

#include <utility>

#include "planner/model_trace/megatron_layers.h"

namespace zplan::symbolic {

namespace {

using namespace megatron;

/// The sum of each sequence's log-probabilities behind a mask: [b].
Tensor sums_of_answers(Program& p, const Tensor& losses) {
  Autograd& torch = p.torch;
  const Tensor logarithms = neg(torch, losses);
  const Tensor mask = of_batch(losses.layout.sizes, DType::boolean);
  const Tensor masked = mul(torch, logarithms, mask);
  return sum_last(torch, masked);
}

/// The policy's and the reference's losses of all tokens travel in one tensor. KTO's other batch counts
/// without a gradient.
Tensor loss_of_answers(Program& p, Tensor losses) {
  if (p.is_reference) return losses;
  Autograd& torch = p.torch;
  Tensor together;
  {
    Tensors all = std::exchange(p.compared, {});
    all.push_back(std::exchange(losses, {}));
    together = cat(torch, all, 0);
  }
  const Tensor own = sums_of_answers(p, slice(torch, together, 0, p.sizes.b));
  const Tensor reference = sums_of_answers(p, slice(torch, together.detached(), 0, p.sizes.b));
  Tensor margins = sub(torch, own, reference);
  if (p.training.objective != Objective::kto) {
    const Tensors pair = split(torch, margins, 0, {p.sizes.b / 2, p.sizes.b / 2});
    margins = sub(torch, pair[0], pair[1]);
  }
  const Tensor logarithm = silu(torch, scale(torch, margins));  // keeps its input, as log-sigmoid does
  return sum_last(torch, logarithm);
}

/// The model returns samples first: with several rows that is a copy.
Tensor by_sample(Program& p, Tensor logits) {
  return p.sizes.b > 1 && options(p).makes_mask ? clone(p.torch, logits) : logits;
}

}  // namespace

Tensor megatron::loss_of_objective(Program& p, Tensor logits) {
  if (compares_answers(p.training)) return loss_of_answers(p, token_losses(p, logits));
  logits = by_sample(p, std::move(logits));
  if (distils(p.training)) return distillation_loss(p, std::move(logits));
  // The cross-entropy of completions is Megatron's own, fused or not.
  const Tensor own = neg(p.torch, token_losses(p, logits, false));
  logits.reset();
  return p.is_reference ? own : loss_of_completions(p, own);
}

Tensor megatron::scores_and_loss(Program& p, const Parameter& weight, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&hidden, &weight.tensor});
  Tensor scores = fresh(torch, with_last(hidden_sizes(p), 1), hidden.type);
  torch.multiply(false, product_of(p.sizes.tokens() / p.sizes.u, p.sizes.h, 1, hidden.type));
  if (node)
    node->backward = [&torch, kept = torch.save(hidden), weight = weight.tensor.detached(),
                      rows = p.sizes.tokens() / p.sizes.u, h = p.sizes.h, &p](Tensors& gradients) {
      const Tensor held = kept.get();
      Tensors outputs(2);
      outputs[0] = fresh(torch, held.layout.sizes, gradients[0].type);
      torch.multiply(false, product_of(rows, 1, h, held.type));
      if (weight.requires_gradient) outputs[1] = weight_gradient(p, weight, weight.type);
      return outputs;
    };
  scores = Autograd::connected(std::move(scores), node);
  if (divides_tokens(p))
    scores = moved(
        torch, scores, [&p](const Tensor& own) { return gather(p, own, TensorCall::gathered_tokens); },
        [&p](const Tensor& gradient) {
          return fresh(p.torch, with_last(hidden_sizes(p), 1), gradient.type);
        });
  const Tensor rows = view(torch, scores, {p.sizes.b, p.sizes.s});
  return reward_loss(p, rows);
}

}  // namespace zplan::symbolic
