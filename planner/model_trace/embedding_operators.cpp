// torch.nn.functional.embedding and the memory of its backward.
// Source: torch 2.11 aten/src/ATen/native/cuda/{Embedding,EmbeddingBackwardKernel}.cu; CCCL 3.0
// cub/device/dispatch/dispatch_{unique_by_key,scan}.cuh.

#include <algorithm>

#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/operators.h"
#include "planner/model_trace/rare_operators.h"

namespace zplan::symbolic {

namespace {

Tensor numbers(Autograd& torch, std::int64_t count) {
  return torch.make(Layout::contiguous({count}), DType::int64);
}

Tensor bytes(Autograd& torch, std::int64_t count) {
  return torch.make(Layout::contiguous({count}), DType::uint8);
}

/// Tokens are sorted; rows of one token are summed ten at a time in fp32, then these sums.
Tensor gradient_by_sorting(Autograd& torch, std::int64_t tokens, const Tensor& weight, DType type) {
  constexpr std::int64_t kRowsPerThread = 10, kUniqueTile = 1792, kScanTile = 896;
  const std::int64_t width = weight.size(1), segments = std::min(tokens, weight.size(0));
  const Tensor sorted = numbers(torch, tokens), order = numbers(torch, tokens);
  {
    const Tensor range = numbers(torch, tokens);
    const Tensor memory = bytes(torch, radix_sort_memory(tokens, 64).value);
  }
  const Tensor result = torch.make(Layout::contiguous({weight.size(0), width}), type);
  const Tensor starts = numbers(torch, tokens), count = numbers(torch, 1);
  {
    const Tensor unique = numbers(torch, tokens);
    const Tensor memory = bytes(torch, scan_memory(tokens, kUniqueTile, 8));
  }
  const Tensor partials = numbers(torch, segments), offsets = numbers(torch, segments);
  { const Tensor memory = bytes(torch, scan_memory(segments, kScanTile, 8)); }
  const Tensor partial_count = numbers(torch, 1);
  const std::int64_t most = tokens / kRowsPerThread + segments;
  const Tensor partial_offsets = numbers(torch, most);
  const Tensor sums = torch.make(Layout::contiguous({most, width}), DType::fp32);
  return result;
}

}  // namespace

Tensor embedding(Autograd& torch, const Tensor& weight, const Tensor& ids) {
  const auto node = torch.node({&weight});
  Saved kept;
  if (node) kept = torch.save(ids);
  Dimensions sizes = ids.layout.sizes;
  sizes.push_back(weight.size(1));
  Tensor result = torch.make(Layout::contiguous(sizes), weight.type);
  torch.read_only(ids.bytes() + result.bytes());  // as many rows of the table
  if (node) {
    node->backward = [&torch, kept, table = weight.detached()](Tensors& gradients) {
      constexpr std::int64_t kUnsorted = 3072;  // up to here one kernel adds rows where they belong
      const Tensor held = kept.get();
      const DType type = gradients[0].type;
      if (held.elements() > kUnsorted)
        return Tensors{gradient_by_sorting(torch, held.elements(), table, type)};
      torch.change(gradients[0], &gradients[0]);  // as many rows are read, added to and written
      return Tensors{torch.make(Layout::contiguous(table.layout.sizes), type)};
    };
    torch.connect(result, node);
  }
  return result;
}

}  // namespace zplan::symbolic
