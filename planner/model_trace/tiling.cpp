// ALST's tiles: the feed-forward, and head with loss, over slices of the tokens one by one.
// Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py TiledMLP, TiledFusedLogitsLoss; compared
// with PyTorch's own allocations (docs/long-context.md).

#include <utility>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

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
  Autograd::connect(output, node);
  return output;
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
  if (node) {
    node->backward = [kept = torch.save(alias(gradient, Layout::contiguous(hidden.layout.sizes)))](Tensors&) {
      return Tensors{kept.get()};
    };
    Autograd::connect(result, node);
  }
  return result;
}

}  // namespace zplan::symbolic
