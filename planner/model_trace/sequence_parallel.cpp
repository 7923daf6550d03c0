// Ulysses: ranks that divide a sample's tokens exchange them for heads before attention and back behind it.
// Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py UlyssesSPAttentionHF, sequence/layer.py
// _dim_zero_all_to_all; transformers 5.23 integrations/deepspeed.py deepspeed_sp_compute_loss. Compared with
// PyTorch's own allocations and calls (docs/long-context.md).

#include <algorithm>
#include <utility>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

/// The part of each rank along the first dimension goes to that rank.
Tensor sent_to_all(Autograd& torch, const Tensor& x) {
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), x.type);
  torch.drop_kernel();
  torch.recorder().communicate(TensorCall::token_exchange, result.bytes());
  return result;
}

Tensor all_to_all(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = sent_to_all(torch, x);
  if (node) {
    node->backward = [&torch](Tensors& gradients) {
      const Tensor in_order = contiguous(torch, gradients[0]);
      return Tensors{sent_to_all(torch, in_order)};
    };
    Autograd::connect(result, node);
  }
  return result;
}

/// torch.repeat_interleave along dimension 2 of four.
Tensor repeat_heads(Autograd& torch, const Tensor& x, std::int64_t times) {
  const Tensor wide =
      expand(torch, unsqueeze(torch, x, 3), {x.size(0), x.size(1), x.size(2), times, x.size(3)});
  return view(torch, contiguous(torch, wide), {x.size(0), x.size(1), x.size(2) * times, x.size(3)});
}

/// [b, heads, s, d] → [s·ranks, b, heads/ranks, d]. Heads that are fewer than the ranks are repeated.
Tensor all_tokens(Program& p, const Tensor& x) {
  Autograd& torch = p.torch;
  const std::int64_t ranks = p.strategy.layout.sequence, d = x.size(3);
  Tensor input = permute(torch, x, {2, 0, 1, 3});
  if (x.size(1) < ranks) input = repeat_heads(torch, input, ranks / x.size(1));
  const std::int64_t s = input.size(0), b = input.size(1), own = input.size(2) / ranks;
  input = reshape(torch, input, {s, b, ranks, own, d});
  input = contiguous(torch, permute(torch, input, {2, 0, 1, 3, 4}));
  const Tensor output = all_to_all(torch, input);
  return view(torch, output, {s * ranks, b, own, d});
}

/// [s·ranks, b, own·d] → [s, b, own·d·ranks].
Tensor own_tokens(Program& p, const Tensor& x) {
  Autograd& torch = p.torch;
  const std::int64_t ranks = p.strategy.layout.sequence, s = x.size(0) / ranks, b = x.size(1);
  const Tensor input = contiguous(torch, reshape(torch, x, {ranks, s, b, x.size(2)}));
  Tensor output = all_to_all(torch, input);
  output = permute(torch, output, {1, 2, 0, 3});
  return reshape(torch, output, {s, b, ranks * x.size(2)});
}

/// One tensor for each rank, and all in one.
Tensors gathered_positions(Program& p) {
  const std::int64_t ranks = p.strategy.layout.sequence;
  Tensors kept;
  for (std::int64_t i = 0; i < ranks; ++i)
    kept.push_back(p.torch.operate({}, Layout::contiguous({p.sizes.b, p.sizes.s}), DType::int64));
  p.torch.recorder().communicate(TensorCall::positions, kept.front().bytes() * ranks);
  kept.push_back(p.torch.operate({}, Layout::contiguous({p.sizes.b, p.sizes.s * ranks}), DType::int64));
  return kept;
}

}  // namespace

Tensor ulysses_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionKernel& kernel) {
  Autograd& torch = p.torch;
  const Tensors positions = gathered_positions(p);
  Tensor query = all_tokens(p, q), key = all_tokens(p, k), value = all_tokens(p, v);
  for (Tensor* each : {&query, &key, &value}) *each = contiguous(torch, permute(torch, *each, {1, 2, 0, 3}));
  Tensor context;
  {
    // A mask that was made for the rank's own tokens is of no use for all.
    Tensor mask = std::exchange(p.given.mask, {});
    context = kernel(query, key, value);
    p.given.mask = std::move(mask);
  }
  const Tensor by_token = transpose(torch, context, 0, 1);
  const Tensor output = transpose(torch, own_tokens(p, by_token), 0, 1);
  return contiguous(torch, output);
}

Tensor loss_over_ranks(Program& p, const Tensor& loss) {
  Autograd& torch = p.torch;
  Recorder& recorder = torch.recorder();
  const std::int64_t ranks = p.strategy.layout.sequence;
  const auto node = torch.node({&loss});
  Tensor losses = fresh(torch, {ranks}, DType::fp32);
  recorder.communicate(TensorCall::rank_losses, losses.bytes());
  if (node) {
    node->backward = [&torch, ranks](Tensors&) {
      torch.recorder().communicate(TensorCall::loss_gradient, Bytes(4) * ranks);
      return Tensors{fresh(torch, {}, DType::fp32)};
    };
    Autograd::connect(losses, node);
  }
  {
    const Tensor counted = torch.operate({}, Layout::contiguous({p.sizes.tokens()}), DType::boolean);
    const Tensor counts = torch.operate({&counted}, Layout::contiguous({ranks}), DType::int64);
    recorder.communicate(TensorCall::rank_token_counts, counts.bytes());
  }
  return scale(torch, losses);  // their weighted mean
}

}  // namespace zplan::symbolic
