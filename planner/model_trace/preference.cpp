// Losses over pairs of sequences, as TRL's trainers have them: log-probabilities of both, and what is made of
// them and of a reference model's.

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

/// Of each sequence of `logits` [n, s, V] the sum of its labels' log-probabilities, [n]. What has 16 bits
/// goes sequence by sequence. Source: TRL 1.16 trainer/utils.py selective_log_softmax, without its Triton
/// kernel.
Tensor log_probabilities(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const std::int64_t n = logits.size(0), s = logits.size(1), V = logits.size(2);
  const Tensor predicting = slice(torch, logits, 1, s - 1);
  Tensors sums;
  for (const Tensor& row :
       split(torch, predicting, 0, std::vector<std::int64_t>(static_cast<std::size_t>(n), 1))) {
    const Tensor sequence = view(torch, row, {s - 1, V});
    const Tensor chosen = gather_one(torch, log_softmax(torch, sequence));
    sums.push_back(view(torch, chosen, {1, s - 1}));
  }
  return sum_last(torch, cat(torch, sums, 0));
}

/// The first half of what is one behind the other.
Tensors halves(Program& p, const Tensor& x) {
  const std::int64_t each = x.size(0) / 2;
  return split(p.torch, x, 0, {each, each});
}

Tensor mean_of(Program& p, const Tensor& x) { return view(p.torch, mean(p.torch, x), {}); }

/// −log σ(β · margin), averaged.
Tensor of_margin(Program& p, const Tensor& margins) {
  const Tensor scaled = scale(p.torch, margins);
  const Tensor logarithm = silu(p.torch, scaled);  // keeps its input, as log-sigmoid does
  return mean_of(p, neg(p.torch, logarithm));
}

/// Of the reference model, whose forward the tape has in this place, or of the batch.
Tensor compared(Program& p, const Tensor& own) {
  if (reference_of(p.training) == ReferenceModel::precomputed) return of_batch(own.layout.sizes, DType::fp32);
  p.torch.recorder().mark(Event::Kind::reference, kReferenceBegins);
  return p.torch.operate({}, own.layout, own.type);
}

/// The negative log-likelihood of the chosen sequences, which ORPO adds. Source: TRL 0.24
/// trainer/orpo_trainer.py concatenated_forward.
Tensor chosen_likelihood(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const std::int64_t b = logits.size(0) / 2, s = logits.size(1), V = logits.size(2);
  const Tensor chosen = slice(torch, logits, 0, b);
  const Tensor predicting = contiguous(torch, slice(torch, chosen, 1, s - 1));
  return cross_entropy(torch, view(torch, predicting, {b * (s - 1), V}),
                       of_batch({b * (s - 1)}, DType::int64));
}

}  // namespace

Tensor preference_loss(Program& p, Tensor scores) {
  p.torch.recorder().take_for(Term::loss_temporaries);
  const Tensor own = p.training.fused_head ? sum_last(p.torch, scores) : log_probabilities(p, scores);
  if (p.is_reference) return own;
  Tensor likelihood;
  if (p.training.objective == Objective::orpo) likelihood = chosen_likelihood(p, scores);
  scores.reset();
  Tensor against = own;
  if (reference_of(p.training)) {
    const Tensor reference = compared(p, own);
    against = sub(p.torch, own, reference);
  }
  if (p.training.objective == Objective::kto) return of_margin(p, against);
  Tensor loss;
  {
    const Tensors pair = halves(p, against);
    loss = of_margin(p, sub(p.torch, pair[0], pair[1]));
  }
  return likelihood.defined() ? add(p.torch, likelihood, loss) : loss;
}

Tensor reward_loss(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  torch.recorder().take_for(Term::loss_temporaries);
  const std::int64_t n = logits.size(0), s = logits.size(1);
  const Tensor all = view(torch, logits, {n, s});
  const Tensors pair = halves(p, view(torch, gather_one(torch, all), {n}));
  return of_margin(p, sub(torch, pair[0], pair[1]));
}

}  // namespace zplan::symbolic
