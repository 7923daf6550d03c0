// Ring attention: every rank keeps its queries and passes keys and values on, whose gradients go round with
// them. Tokens are dealt head and tail to each rank, so all compute as much.
// Source: torch 2.11 distributed/tensor/experimental/_context_parallel/_attention.py
// _templated_ring_attention, _SDPAMerger; compared with PyTorch's own allocations and calls
// (docs/long-context.md).

#include <utility>

#include "planner/model_trace/attention_operators.h"
#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

constexpr std::size_t kTokens = 2;  ///< the dimension of queries, keys and values that is divided

/// What one rank of the ring does, outside the graph.
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

  /// Of keys that came before, this rank's queries see the first half; of later ones the second half of its
  /// queries sees all.
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

  /// Where it lies, or, of half of it, in new memory.
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
  torch.connect(result, node);
  return result;
}

}  // namespace zplan::symbolic
