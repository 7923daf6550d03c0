// The loss of generalized knowledge distillation: a divergence of the probabilities that student and teacher
// give all tokens. Source: TRL 1.16 experimental/gkd/gkd_trainer.py generalized_jsd_loss, compute_loss;
// ms-swift 4.6 rlhf_trainers/gkd_loss.py, gkd_trainer.py compute_loss.

#include <algorithm>

#include "planner/model_trace/megatron_layers.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

/// torch.stack((a, b)).
Tensor as_pair(Autograd& torch, const Tensor& a, const Tensor& b) {
  return cat(torch, {unsqueeze(torch, a, 0), unsqueeze(torch, b, 0)}, 0);
}

/// exp(target) · (target − input).
Tensor weighted_difference(Autograd& torch, const Tensor& input, const Tensor& target) {
  const Tensor weight = exp(torch, target), difference = sub(torch, target, input);
  return mul(torch, weight, difference);
}

/// The logarithm of the mixture of both probabilities.
Tensor mixture(Autograd& torch, const Tensor& student, const Tensor& teacher) {
  Tensor both;
  {
    const Tensor first = add_number(torch, student), second = add_number(torch, teacher);
    both = as_pair(torch, first, second);
  }
  return logsumexp(torch, both, 0);
}

/// Returns the teacher's logits, whose forward the tape has here. Under Megatron-Core the teacher has read
/// all micro-batches of a step before the first of them trains.
Tensor teacher_logits(Program& p, const Tensor& own) {
  Dimensions sizes = own.layout.sizes;
  if (reference_of(p.training) == ReferenceModel::copy)
    sizes.back() = compared_model(p.model).shape.vocabulary_size;
  if (p.strategy.megatron) {
    if (reference_of(p.training) == ReferenceModel::copy) sizes.back() /= p.strategy.layout.tensor;
    return of_batch(sizes, own.type);
  }
  p.torch.recorder().mark(Event::Kind::reference, kReferenceBegins);
  return p.torch.operate({}, Layout::contiguous(sizes), own.type);
}

/// Returns the logarithms of the probabilities of `rows` [n, V]. Ranks that divide the vocabulary exchange
/// the largest logit and the sum of the exponentials of each row. Source: ms-swift 4.6
/// swift/megatron/trainers/vocab_parallel_utils.py vocab_parallel_log_softmax.
Tensor logarithms_of(Program& p, const Tensor& rows) {
  Autograd& torch = p.torch;
  if (!p.strategy.megatron || p.strategy.layout.tensor == 1) return log_softmax(torch, rows);
  const Bytes of_rows = Bytes(size_of(rows.type)) * rows.size(0);
  torch.recorder().communicate(TensorCall::token_maxima, of_rows);
  Tensor sums;
  {
    const Tensor exponentials = exp(torch, add_number(torch, rows));
    sums = sum_last(torch, exponentials);
  }
  torch.recorder().communicate(TensorCall::token_sums, of_rows);
  const Tensor logarithms = unsqueeze(torch, silu(torch, sums), 1);  // keeps its input, as log does
  return sub(torch, add_number(torch, rows), logarithms);
}

// ---- TRL: of all tokens at once

/// The variables of its function live until it returns.
Tensor loss_of_all(Program& p, const Tensor& logits, const Tensor& of_teacher) {
  Autograd& torch = p.torch;
  const std::int64_t s = logits.size(1) - 1, V = logits.size(2), b = logits.size(0);
  const Tensor student = scale(torch, slice(torch, logits, 1, s));
  const Tensor teacher = scale(torch, slice(torch, of_teacher, 1, s));
  const Tensor own = log_softmax(torch, student), given = log_softmax(torch, teacher);
  const auto labelled = [&](const Tensor& divergence) {
    const Tensor indices = torch.operate({}, Layout::contiguous({b * s}), DType::int64);
    return index(torch, reshape(torch, divergence, {b * s, V}), indices);
  };
  const auto sum = [&](Tensor divergence) {
    divergence = labelled(divergence);
    return sum_last(torch, view(torch, divergence, {divergence.elements()}));
  };
  if (p.training.distillation.divergence == Divergence::forward)
    return scale(torch, sum(weighted_difference(torch, own, given)));
  if (p.training.distillation.divergence == Divergence::reverse)
    return scale(torch, sum(weighted_difference(torch, given, own)));
  const Tensor both = mixture(torch, own, given);
  const Tensor of_given = weighted_difference(torch, both, given);
  const Tensor of_own = weighted_difference(torch, both, own);
  Tensor divergence;
  {
    const Tensor first = scale(torch, of_given), second = scale(torch, of_own);
    divergence = add(torch, first, second);
  }
  return scale(torch, sum(std::move(divergence)));
}

// ---- ms-swift: of slices

/// The rows of logits [b, s, V] that have labels, copied: all of them are planned.
Tensor rows_with_labels(Program& p, const Tensor& logits) {
  const std::int64_t rows = logits.size(0) * logits.size(1);
  const Tensor indices = p.torch.operate({}, Layout::contiguous({rows}), DType::int64);
  return index(p.torch, reshape(p.torch, logits, {rows, logits.size(2)}), indices);
}

/// Vocabularies of different sizes: the smaller one's logits are padded, and what is new copied into them.
Tensor with_vocabulary(Program& p, const Tensor& rows, std::int64_t vocabulary) {
  const std::int64_t more = vocabulary - rows.size(1);
  return more > 0 ? pad(p.torch, rows, 1, more) : rows;
}

Tensor slice_divergence(Program& p, const Tensor& own, const Tensor& given) {
  Autograd& torch = p.torch;
  const auto by_row = [&](const Tensor& input, const Tensor& target) {
    return sum_last(torch, weighted_difference(torch, input, target));
  };
  switch (p.training.distillation.divergence) {
    case Divergence::forward: return by_row(own, given);
    case Divergence::reverse: return by_row(given, own);
    case Divergence::mixture: break;
  }
  const Tensor both = mixture(torch, own, given);
  const Tensor first = scale(torch, by_row(both, given)), second = scale(torch, by_row(both, own));
  return add(torch, first, second);
}

/// A slice's log-probabilities of the teacher live until the next ones are there, in a variable of the loop.
Tensor loss_of_slices(Program& p, const Tensor& student, const Tensor& teacher) {
  constexpr std::int64_t kSlice = 512;
  Autograd& torch = p.torch;
  const std::int64_t rows = student.size(0);
  Tensor total, own, given;
  for (std::int64_t at = 0; at < rows; at += kSlice) {
    const std::int64_t length = std::min(kSlice, rows - at);
    own = logarithms_of(p, slice(torch, student, 0, length));
    given = logarithms_of(p, slice(torch, teacher, 0, length));
    const Tensor sum = sum_last(torch, slice_divergence(p, own, given));
    total = total.defined() ? add(torch, total, sum) : sum;
  }
  return scale(torch, total);
}

Tensor loss_of_labelled(Program& p, const Tensor& logits, const Tensor& of_teacher) {
  Autograd& torch = p.torch;
  const std::int64_t top = p.training.distillation.top;
  const Tensor own = rows_with_labels(p, logits);
  Tensor given;
  if (of_teacher.defined() && top == 0) given = rows_with_labels(p, of_teacher);
  if (top > 0) {
    const Tensor indices = of_batch({own.size(0), top}, DType::int64);
    const Tensor chosen = gather(torch, own, indices);
    return loss_of_slices(p, scale(torch, chosen), of_batch(chosen.layout.sizes, own.type));
  }
  const std::int64_t vocabulary = std::max(own.size(1), given.size(1));
  Tensor student = with_vocabulary(p, own, vocabulary), teacher = with_vocabulary(p, given, vocabulary);
  student = scale(torch, student), teacher = scale(torch, teacher);
  return loss_of_slices(p, student, teacher);
}

/// Records the loss of next tokens beside the divergence.
Tensor likelihood_of(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const std::int64_t V = logits.size(2), rows = logits.size(0) * logits.size(1);
  if (p.strategy.megatron) return sum_last(torch, view(torch, megatron::token_losses(p, logits), {rows}));
  const Tensor wide = to(torch, logits, DType::fp32);
  return cross_entropy(torch, view(torch, wide, {rows, V}), of_batch({rows}, DType::int64));
}

}  // namespace

Tensor distillation_loss(Program& p, Tensor logits) {
  Autograd& torch = p.torch;
  torch.recorder().take_for(Term::loss_temporaries);
  if (p.is_reference) return logits;
  const Distillation& about = p.training.distillation;
  Tensor likelihood;
  if (about.adds_likelihood) {
    likelihood = likelihood_of(p, logits);
  }
  Tensor of_teacher;
  if (reference_of(p.training)) of_teacher = teacher_logits(p, logits);
  const Tensor loss =
      about.in_slices ? loss_of_labelled(p, logits, of_teacher) : loss_of_all(p, logits, of_teacher);
  return likelihood.defined() ? add(torch, loss, likelihood) : loss;
}

}  // namespace zplan::symbolic
