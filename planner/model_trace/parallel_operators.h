#pragma once
// What DeepSpeed puts in the place of PyTorch's operators: in models that are divided among the ranks of a
// tensor-parallel group, and in models that zero.Init partitions. Collectives work in place and make nothing.
// Source: DeepSpeed 0.19.8 module_inject/layers.py, sequence/cross_entropy.py, runtime/zero/linear.py;
// compared with PyTorch's own allocations (docs/activations.md).

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

/// torch.nn.functional.linear as zero.Init replaces it: input and weight are kept whether or not a gradient
/// needs them, and the input's gradient is computed first.
[[nodiscard]] Tensor linear_of_partitioned(Autograd& torch, const Tensor& x, const Tensor& weight,
                                           const Tensor* bias);

/// A linear layer that is divided by columns or rows: the bias is added to the product in new memory.
[[nodiscard]] Tensor divided_linear(Autograd& torch, const Tensor& x, const Tensor& weight,
                                    const Tensor* bias);

/// The input of a layer that is divided by columns: gradients are summed over the group on their way back.
[[nodiscard]] Tensor column_parallel_input(Autograd& torch, const Tensor& x);

/// VocabParallelEmbedding: rows of tokens that other ranks hold are zeroed before the ranks' sums.
[[nodiscard]] Tensor vocabulary_parallel_embedding(Autograd& torch, const Tensor& weight, const Tensor& ids);

/// Each rank keeps its part of the vocabulary of logits [b, s, V/t]; maxima and sums per token are exchanged.
[[nodiscard]] Tensor vocabulary_parallel_cross_entropy(Autograd& torch, const Tensor& logits);

}  // namespace zplan::symbolic
