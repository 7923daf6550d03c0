// Losses of preference training over pairs of sequences, as TRL, LLaMA-Factory and torchtune compute them,
// and of GRPO's and PPO's completions, as TRL's trainers do. Source: TRL 1.16 trainer/grpo_trainer.py
// _get_per_token_logps_and_entropies, _compute_loss (dapo); of whole logits TRL 0.18, 0.29 and 1.8, ms-swift
// 4.6 rlhf_trainers/grpo_trainer.py _get_logps_via_local_forward.

#include <algorithm>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

/// Records the sum of the labels' log-probabilities of each sequence of `logits` [n, s, V]: [n]. 16-bit
/// logits are handled sequence by sequence. Source: TRL 1.16 trainer/utils.py selective_log_softmax, without
/// its Triton kernel.
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

/// Records the log-probabilities of all sequences in one tensor: [n]. log_softmax copies logits that are not
/// contiguous.
/// Source: LLaMA-Factory 0.9.5 train/trainer_utils.py get_batch_logps; torchtune 0.7
/// rlhf/sequence_processing.py get_batch_log_probs, rlhf/rewards.py logits_to_logprobs.
Tensor log_probabilities_at_once(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const std::int64_t n = logits.size(0), s = logits.size(1);
  const Tensor predicting = slice(torch, logits, 1, s - 1);
  Tensor logarithms;
  if (p.training.answer_loss == AnswerLoss::whole) {
    const Tensor divided = scale(torch, predicting);
    logarithms = log_softmax(torch, divided);
  } else {
    logarithms = log_softmax(torch, predicting);
    if (!predicting.layout.is_contiguous())
      static_cast<void>(torch.make(Layout::contiguous(predicting.layout.sizes), predicting.type));
  }
  const Tensor chosen = view(torch, gather_one(torch, logarithms), {n, s - 1});
  return sum_last(torch, scale(torch, chosen));
}

/// Returns the logits as the trainer takes log-probabilities of them.
Tensor taken_logits(Program& p, Tensor scores) {
  if (!takes_answers_at_once(p) || p.training.answer_loss != AnswerLoss::whole_fp32) return scores;
  return to(p.torch, scores, DType::fp32);
}

Tensor answer_log_probabilities(Program& p, const Tensor& scores) {
  if (p.training.fused_head) return sum_last(p.torch, scores);
  return takes_answers_at_once(p) ? log_probabilities_at_once(p, scores) : log_probabilities(p, scores);
}

/// Returns the first and the second half along the first dimension.
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

/// Returns the log-probabilities to compare with: of the reference model, whose forward the tape has here, or
/// of the batch.
Tensor compared(Program& p, const Tensor& own) {
  if (reference_of(p.training) == ReferenceModel::precomputed) return of_batch(own.layout.sizes, DType::fp32);
  p.torch.recorder().mark(Event::Kind::reference, kReferenceBegins);
  return p.torch.operate({}, own.layout, own.type);
}

/// Records the copies of good and bad answers' logits that KTOTrainer makes for its metrics. Source:
/// LLaMA-Factory 0.9.5 train/kto/trainer.py concatenated_forward.
Tensor picked_by_answer(Program& p, const Tensor& logits) {
  return p.torch.make(Layout::contiguous(logits.layout.sizes), logits.type);
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

bool takes_answers_at_once(const Program& p) {
  return p.training.answer_loss != AnswerLoss::by_sequence && !p.training.fused_head;
}

Tensor preference_loss(Program& p, Tensor scores) {
  p.torch.recorder().take_for(Term::loss_temporaries);
  scores = taken_logits(p, std::move(scores));
  const Tensor own = answer_log_probabilities(p, scores);
  if (p.is_reference) return own;
  Tensor likelihood;
  if (p.training.objective == Objective::orpo && !takes_answers_at_once(p))
    likelihood = chosen_likelihood(p, scores);
  const bool keeps_logits = takes_answers_at_once(p) && p.training.answer_loss == AnswerLoss::whole_fp32;
  // The reference's own logits wait for a second batch's log-probabilities.
  Tensor of_reference;
  if (keeps_logits && p.training.objective == Objective::kto) {
    scores = picked_by_answer(p, scores);
    if (reference_of(p.training) != ReferenceModel::precomputed)
      of_reference = p.torch.make(scores.layout, scores.type);
  }
  if (!keeps_logits) scores.reset();
  Tensor against = own;
  if (reference_of(p.training)) {
    const Tensor reference = compared(p, own);
    against = sub(p.torch, own, reference);
  }
  of_reference.reset();
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

namespace {

/// The last tokens of x [b, n], copied: torch.cat of one part.
Tensor of_completions(Program& p, const Tensor& x) {
  return cat(p.torch, {slice(p.torch, x, 1, completion_tokens(p.training))}, 0);
}

/// Returns the sequences [1, c, V] of `logits` [b, c, V].
Tensors sequences_of(Autograd& torch, const Tensor& logits) {
  return split(torch, logits, 0, std::vector<std::int64_t>(static_cast<std::size_t>(logits.size(0)), 1));
}

/// Records the log-probability [b, c] of each token of fp32 `logits` [b, c, V]: its logit less the logarithm
/// of all exponentials' sum. Source: TRL 0.18 and 1.8 trainer/utils.py selective_log_softmax.
Tensor logarithms_of_wide(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const std::int64_t n = logits.size(0), c = logits.size(1), V = logits.size(2);
  const Tensor chosen = view(torch, gather_one(torch, logits), {n, c});
  Tensors sums;
  for (const Tensor& row : sequences_of(torch, logits))
    sums.push_back(view(torch, logsumexp(torch, view(torch, row, {c, V}), 1), {1, c}));
  return sub(torch, chosen, cat(torch, sums, 0));
}

/// Records the log-probability [b, c] of each token of `logits` [b, c, V], sequence by sequence. Source: TRL
/// 0.24 trainer/utils.py selective_log_softmax.
Tensor logarithms_by_sequence(Program& p, const Tensor& logits) {
  if (logits.type == DType::fp32) return logarithms_of_wide(p, logits);
  Autograd& torch = p.torch;
  const std::int64_t c = logits.size(1), V = logits.size(2);
  Tensors rows;
  Tensor of_row;  // names the row before while the next one is made
  for (const Tensor& row : sequences_of(torch, logits)) {
    of_row = log_softmax(torch, view(torch, row, {c, V}));
    const Tensor chosen = gather_one(torch, of_row);
    rows.push_back(view(torch, chosen, {1, c}));
  }
  return cat(torch, rows, 0);
}

/// The entropy of each token, for metrics: chunks of 128 tokens, without gradients. Source: TRL 0.24
/// trainer/utils.py entropy_from_logits.
Tensor entropies_of(Program& p, const Tensor& logits) {
  constexpr std::int64_t kChunk = 128;
  Autograd& torch = p.torch;
  const Autograd::GradMode off(torch, false);
  const std::int64_t rows = logits.size(0) * logits.size(1), V = logits.size(2);
  Tensors parts;
  Tensor logarithms, chunk = logits.detached();
  for (std::int64_t at = 0; at < rows; at += kChunk) {
    chunk.layout = Layout::contiguous({std::min(kChunk, rows - at), V});
    logarithms = log_softmax(torch, chunk);
    parts.push_back(sum_last(torch, mul(torch, tanh(torch, logarithms), logarithms)));
  }
  return cat(torch, parts, 0);
}

/// Records the in-place division of the completions' logits. The backward copies the gradient of all logits,
/// divides the completions' part and copies it back (CopySlices). Source: torch 2.11
/// csrc/autograd/functions/tensor.cpp.
Tensor divided_in_place(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const std::int64_t c = completion_tokens(p.training);
  Dimensions part = logits.layout.sizes;
  part[1] = c;
  const auto node = torch.node({&logits});
  Tensor result = alias(logits, logits.layout);
  torch.change(result);
  if (!node) return result;
  node->backward = [&torch, whole = logits.layout.sizes, part](Tensors& gradients) {
    const DType type = gradients[0].type;
    Tensor copied = torch.kernel({&gradients[0]}, Layout::contiguous(whole), type);
    const Tensor own = torch.kernel({}, Layout::contiguous(part), type);
    const Tensor divided = torch.kernel({&own}, Layout::contiguous(part), type);
    torch.copy(divided);
    return Tensors{copied};
  };
  return Autograd::connected(result, node);
}

/// PPOTrainer holds on to all logits of a micro-step, divides those of the completions where they lie, and
/// has of the micro-step before the probabilities that its entropies were made of. Source: TRL 1.8
/// experimental/ppo/ppo_trainer.py train.
Tensor of_held_logits(Program& p, const Tensor& logits) {
  if (!p.is_reference) {
    p.leaves.logits.push_back(logits.bytes());
    p.outputs.push_back(logits.detached());
    p.earlier_logits.clear();
  }
  const Tensor divided = divided_in_place(p, logits);
  return logarithms_by_sequence(p, slice(p.torch, divided, 1, completion_tokens(p.training)));
}

/// Returns the logits of the completions, divided by the temperature.
Tensor at_temperature(Program& p, Tensor logits) {
  const std::int64_t c = completion_tokens(p.training);
  if (p.training.rollout.whole_logits.divides_in_place)
    return slice(p.torch, divided_in_place(p, logits), 1, c);
  return scale(p.torch, slice(p.torch, logits, 1, c));
}

/// Records the log-probability of each token of the completions [b, c]: a part of the fused head's, or from
/// whole logits.
Tensor token_log_probabilities(Program& p, Tensor scores) {
  if (trains_values(p.training)) return of_held_logits(p, scores);
  if (p.training.fused_head) return of_completions(p, scores);
  const Tensor scaled = at_temperature(p, std::move(scores));
  Tensor logarithms = logarithms_by_sequence(p, scaled);
  if (!p.is_reference && !p.training.rollout.whole_logits.omits_entropy)
    static_cast<void>(entropies_of(p, scaled));
  return logarithms;
}

/// Returns each token's log-probability as generation or a reference model left it in the batch.
Tensor noted(const Tensor& like) { return of_batch(like.layout.sizes, like.type); }

/// exp(r − l) − (r − l) − 1, weighed by how the policy has moved.
Tensor divergence(Program& p, const Tensor& own, const Tensor& moved) {
  Autograd& torch = p.torch;
  const Tensor reference = noted(own);
  const Tensor exponential = tanh(torch, sub(torch, reference, own));  // keeps its result, as exp does
  const Tensor difference = sub(torch, exponential, sub(torch, reference, own));
  return mul(torch, add_number(torch, difference), moved);
}

/// The less of the ratio and the clipped ratio, weighed by the advantage.
Tensor clipped_loss(Program& p, const Tensor& moved) {
  Autograd& torch = p.torch;
  const Tensor clamped = silu(torch, moved);  // keeps its input, as clamp does
  const Tensor weighed = scale(torch, moved), clipped = scale(torch, clamped);
  return neg(torch, mul(torch, weighed, clipped));  // keeps both, as min does
}

}  // namespace

bool keeps_result(const Program& p) { return trains_values(p.training) && !p.is_value && !p.is_reference; }

Bytes completion_logits(const Program& p) {
  return Bytes(size_of(p.weights) * p.sizes.b * completion_tokens(p.training) * p.sizes.V);
}

Tensor value_loss(Program& p, const Tensor& scores) {
  Autograd& torch = p.torch;
  torch.recorder().take_for(Term::loss_temporaries);
  const Tensor values = slice(torch, scores, 1, completion_tokens(p.training));
  const Tensor errors = pow(torch, sub(torch, contiguous(torch, values), noted(values)));
  return scale(torch, sum_last(torch, view(torch, errors, {errors.elements()})));
}

Tensor policy_loss(Program& p, Tensor scores) {
  p.torch.recorder().take_for(Term::loss_temporaries);
  const Tensor own = token_log_probabilities(p, std::move(scores));
  if (p.is_reference) return own;
  if (reference_of(p.training) && p.training.rollout.whole_logits.compares_inside)
    p.torch.recorder().mark(Event::Kind::reference, kReferenceBegins);
  return loss_of_completions(p, own);
}

Tensor loss_of_completions(Program& p, const Tensor& own) {
  Autograd& torch = p.torch;
  const Tensor moved = tanh(torch, sub(torch, own, noted(own)));  // the ratio: exp keeps its result
  Tensor loss = clipped_loss(p, moved);
  if (p.training.rollout.engine != RolloutEngine::trainer) loss = scale(torch, loss);
  if (reference_of(p.training)) loss = add(torch, loss, scale(torch, divergence(p, own, moved)));
  const Tensor masked = scale(torch, loss);
  return scale(torch, sum_last(torch, view(torch, masked, {masked.elements()})));
}

}  // namespace zplan::symbolic
