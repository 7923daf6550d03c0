// Ranks that divide a sample's tokens. Ulysses exchanges tokens for heads before attention and back after it.
// Ring attention keeps each rank's queries and passes keys and values on, and their gradients with them;
// every rank gets tokens from head and tail, so that all compute as much. ALST's tiles run the feed-forward,
// and head with loss, on one slice of the tokens after the other.
// Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py UlyssesSPAttentionHF, TiledMLP,
// TiledFusedLogitsLoss, sequence/layer.py _dim_zero_all_to_all; transformers 5.23 integrations/deepspeed.py
// deepspeed_sp_compute_loss; torch 2.11 distributed/tensor/experimental/_context_parallel/_attention.py
// _templated_ring_attention, _SDPAMerger. Compared with PyTorch's own allocations and calls
// (docs/long-context.md).

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
  if (!node) return result;
  node->backward = [&torch](Tensors& gradients) {
    const Tensor in_order = contiguous(torch, gradients[0]);
    return Tensors{sent_to_all(torch, in_order)};
  };
  return Autograd::connected(result, node);
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

namespace {

constexpr std::size_t kTokens = 2;  ///< the dimension of queries, keys and values that is divided

/// Ring records one rank's steps of the ring, outside the graph.
class Ring {
 public:
  explicit Ring(const Program& p)
      : torch_(p.torch),
        ranks_(p.strategy.layout.context),
        rank_(p.context_rank),
        gathers_(p.strategy.long_context.rotation == KeyRotation::all_gather) {}

  struct Merged {
    Tensor output, sums;
  };

  Merged forward(const Tensor& q, const Tensor& given_k, const Tensor& given_v) {
    Tensor key = contiguous(torch_, given_k), value = contiguous(torch_, given_v);
    Merged merged;
    begin_keys();
    for (std::int64_t i = 0; i < ranks_; ++i) {
      if (i > 0) take_keys(key, value);
      if (i + 1 < ranks_) pass_keys(key, value);
      const Step step = step_of(i, q, key, value);
      const FlashStep made = flash_step(torch_, step.query, step.key, step.value, i == 0);
      merge(merged, made, step.half_of_queries);
    }
    end_keys();
    const Tensor wide = merged.output;
    merged.output = cast(wide, q.type);
    return merged;
  }

  Tensors backward(const Tensor& q, const Tensor& k, const Tensor& v, const Merged& result,
                   const Tensor& gradient) {
    Tensor of_query = zeros(q), of_key = zeros(k), of_value = zeros(v);
    Tensor key = contiguous(torch_, k), value = contiguous(torch_, v), passed;
    begin_keys();
    Tensors made;
    for (std::int64_t i = 0; i < ranks_; ++i) {
      if (i > 0) take_keys(key, value);
      if (i + 1 < ranks_) pass_keys(key, value);
      const Step step = step_of(i, q, key, value);
      const bool half = step.half_of_queries;
      const FlashStep part{half ? second_half(result.output) : result.output,
                           half ? contiguous(torch_, second_half(result.sums)) : result.sums};
      made = flash_step_backward(torch_, step.query, step.key, step.value, part,
                                 half ? second_half(gradient) : gradient, i == 0);
      if (i > 0) {
        torch_.recorder().await(TensorCall::passed_key_gradients);
        of_key = part_of(passed, of_key), of_value = part_of(passed, of_value);
      }
      add_to(of_key, made[1]), add_to(of_value, made[2]);
      const Tensor joined = both(of_key, of_value);
      passed = fresh(torch_, joined.layout.sizes, DType::fp32);
      torch_.recorder().communicate(TensorCall::passed_key_gradients, passed.bytes());
      add_to(of_query, made[0]);
    }
    end_keys();
    Tensor query_gradient = cast(of_query, q.type);
    torch_.recorder().await(TensorCall::passed_key_gradients);
    const Tensor keys_gradient = cast(passed, q.type);
    return {std::move(query_gradient), part_of(keys_gradient, k), part_of(keys_gradient, v)};
  }

 private:
  struct Step {
    Tensor query, key, value;
    bool half_of_queries{};
  };

  /// Returns step i. This rank's queries see the first half of keys from earlier ranks; of keys from later
  /// ranks the second half of its queries sees all.
  [[nodiscard]] Step step_of(std::int64_t i, const Tensor& q, const Tensor& k, const Tensor& v) const {
    if (i == 0) return {q, k, v};
    if (i <= rank_) return {q, first_half(k), first_half(v)};
    return {second_half(q), k, v, true};
  }

  static Tensor first_half(const Tensor& x) {
    return alias(x, x.layout.narrowed(kTokens, x.size(kTokens) / 2));
  }
  static Tensor second_half(const Tensor& x) { return first_half(x); }

  Tensor both(const Tensor& key, const Tensor& value) {
    return torch_.kernel({&key, &value}, Layout::contiguous({key.elements() + value.elements()}), key.type);
  }
  /// A part of one memory with the sizes of `like`.
  static Tensor part_of(const Tensor& whole, const Tensor& like) {
    return alias(whole, Layout::contiguous(like.layout.sizes));
  }
  Tensor cast(const Tensor& x, DType type) { return torch_.kernel({&x}, elementwise({&x.layout}), type); }
  Tensor zeros(const Tensor& like) { return torch_.kernel({}, elementwise({&like.layout}), DType::fp32); }

  void begin_keys() { gathered_ = {}; }
  void end_keys() { gathered_ = {}, joined_ = {}; }
  /// Calls run beside the attention of the step that follows.
  void pass_keys(const Tensor& key, const Tensor& value) {
    joined_ = both(key, value);
    if (gathers_ && gathered_.defined()) return;
    const TensorCall call = gathers_ ? TensorCall::gathered_keys : TensorCall::passed_keys;
    gathered_ = fresh(torch_, {joined_.elements() * (gathers_ ? ranks_ : 1)}, joined_.type);
    torch_.drop_kernel();
    torch_.recorder().communicate(call, gathered_.bytes());
    waits_ = true;
    joined_ = {};
  }
  void take_keys(Tensor& key, Tensor& value) {
    if (std::exchange(waits_, false))
      torch_.recorder().await(gathers_ ? TensorCall::gathered_keys : TensorCall::passed_keys);
    key = part_of(gathered_, key), value = part_of(gathered_, value);
  }

  /// out − sigmoid(block_lse − lse)·(out − block_out), in fp32.
  void merge(Merged& merged, const FlashStep& made, bool half) {
    const Tensor block = cast(made.output, DType::fp32);
    if (!merged.output.defined()) {
      merged.output = block, merged.sums = made.sums;
      return;
    }
    const Tensor old = half ? second_half(merged.output) : merged.output;
    Tensor updated;
    {
      const Tensor share = cast(made.sums, DType::fp32);
      Tensor step;
      {
        const Tensor difference =
            torch_.kernel({&old, &block}, elementwise({&old.layout, &block.layout}), DType::fp32);
        step = torch_.kernel({&share, &difference}, elementwise({&difference.layout}), DType::fp32);
      }
      updated = torch_.kernel({&old, &step}, elementwise({&old.layout, &step.layout}), DType::fp32);
    }
    const Tensor sums = torch_.kernel({&made.sums}, made.sums.layout, DType::fp32);
    if (!half) {
      merged.output = std::move(updated), merged.sums = sums;
      return;
    }
    merged.sums = torch_.kernel({&merged.sums}, Layout::contiguous(merged.sums.layout.sizes), DType::fp32);
    merged.output =
        torch_.kernel({&merged.output}, Layout::contiguous(merged.output.layout.sizes), DType::fp32);
  }

  /// Adds in place, or for half of the sum in new memory.
  void add_to(Tensor& sum, const Tensor& made) {
    if (sum.elements() == made.elements()) return torch_.change(sum, &made);
    sum = torch_.kernel({&sum, &made}, Layout::contiguous(sum.layout.sizes), DType::fp32);
  }

  Autograd& torch_;
  std::int64_t ranks_, rank_;
  bool gathers_;
  bool waits_{};
  Tensor gathered_, joined_;
};

}  // namespace

Tensor ring_attention(Program& p, const Tensor& given_q, const Tensor& given_k, const Tensor& given_v) {
  Autograd& torch = p.torch;
  const Tensor v = torch.autocast().narrow(torch, given_v);
  const Tensor k = torch.autocast().narrow(torch, given_k);
  const Tensor q = torch.autocast().narrow(torch, given_q);
  const auto node = torch.node({&q, &k, &v});
  Ring::Merged merged;
  {
    const Autograd::GradMode disabled(torch, false);
    merged = Ring(p).forward(q, k, v);
  }
  Tensor result = merged.output;
  if (!node) return result;
  node->backward = [&p, query = torch.save(q), key = torch.save(k), value = torch.save(v),
                    output = torch.save(result), sums = torch.save(merged.sums)](Tensors& gradients) {
    const Tensor held_q = query.get(), held_k = key.get(), held_v = value.get();
    return Ring(p).backward(held_q, held_k, held_v, {output.get(), sums.get()}, gradients[0]);
  };
  return Autograd::connected(result, node);
}

namespace {

/// A slice of the tokens whose gradient is added to its part of one that is there.
Tensor slice_with_gradient(Autograd& torch, const Tensor& rows, std::int64_t length) {
  Tensor slice = alias(rows, rows.layout.narrowed(0, length));
  auto sink = std::make_shared<Node>();
  sink->sequence = Node::kLeaf;
  sink->part = torch.recorder().current();
  sink->backward = [&torch](Tensors& gradients) {
    torch.change(gradients[0]);
    return Tensors{};
  };
  slice.requires_gradient = true;
  slice.gradient = {std::move(sink), 0};
  return slice;
}

Tensor as_rows(const Tensor& x) {
  const std::int64_t width = x.layout.sizes.back();
  return alias(x, Layout::contiguous({x.elements() / width, width}));
}

/// Forward and backward of each slice of `rows`; parameters' gradients are complete with the last. The
/// result of a slice lives until the next one's is there. Returns the gradient of the rows.
Tensor run_backward(Autograd& torch, const Tensor& rows, std::int64_t tiles,
                    const std::function<Tensor(const Tensor&)>& call,
                    const std::function<Tensor(const Tensor& output)>& gradient_of) {
  Tensor gradient = torch.kernel({}, Layout::contiguous(rows.layout.sizes), rows.type);
  const std::vector<std::int64_t> lengths = chunks(rows.size(0), tiles);
  Tensor output;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    torch.holds_gradients = i + 1 < lengths.size();
    const Tensor slice = slice_with_gradient(torch, rows, lengths[i]);
    {
      const Autograd::GradMode enabled(torch, true);
      output = call(slice);
    }
    torch.backward(output, gradient_of(output));
    output.gradient = {};
  }
  torch.holds_gradients = false;
  return gradient;
}

}  // namespace

Tensor tiled(Program& p, const Tensor& x, std::int64_t tiles,
             const std::function<Tensor(const Tensor&)>& call) {
  Autograd& torch = p.torch;
  torch.recorder().communicate(TensorCall::tile_count, Bytes(8));
  const auto node = torch.node({&x});
  Tensor output;
  {
    const Autograd::GradMode disabled(torch, false);
    Tensors outputs;
    for (const std::int64_t length : chunks(x.size(1), tiles))
      outputs.push_back(call(alias(x, x.layout.narrowed(1, length))));
    output = cat(torch, outputs, 1);
  }
  if (!node) return output;
  node->backward = [&torch, kept = torch.save(x), tiles, call](Tensors& gradients) {
    const Tensor held = kept.get(), incoming = as_rows(gradients[0]);
    const Tensor gradient = run_backward(torch, as_rows(held), tiles, call, [&incoming](const Tensor& of) {
      return alias(incoming, incoming.layout.narrowed(0, of.size(0)));
    });
    return Tensors{alias(gradient, held.layout)};
  };
  return Autograd::connected(output, node);
}

Tensor tiled_loss(Program& p, const Tensor& hidden, std::int64_t tiles,
                  const std::function<Tensor(const Tensor&)>& loss) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&hidden});
  Tensor gradient;
  {
    const Autograd::GradMode disabled(torch, false);
    const Tensor one = torch.operate({}, Layout::contiguous({}), hidden.type);
    gradient = run_backward(torch, as_rows(hidden), tiles, loss, [&one](const Tensor&) { return one; });
  }
  Tensor result = fresh(torch, {}, DType::fp32);
  if (!node) return result;
  node->backward = [kept = torch.save(alias(gradient, Layout::contiguous(hidden.layout.sizes)))](Tensors&) {
    return Tensors{kept.get()};
  };
  return Autograd::connected(result, node);
}

}  // namespace zplan::symbolic
