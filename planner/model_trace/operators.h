#pragma once
// PyTorch's operators over tensors without values: what each allocates, what it keeps for its backward, and
// what its backward allocates, in PyTorch's order and under PyTorch's names.
// Source: torch 2.11 tools/autograd/derivatives.yaml and the host code of its CUDA kernels; compared with
// PyTorch's own allocations (docs/activations.md).

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

/// Multiprocessors of an A100. Some kernels divide their work, and allocate, by this number.
inline constexpr std::int64_t kMultiprocessors = 108;

/// Returns x summed to `sizes`: the gradient of an operand that was broadcast.
[[nodiscard]] Tensor sum_to(Autograd& torch, const Tensor& x, const Dimensions& sizes);

// ---- views ------------------------------------------------------------------------------------------------

[[nodiscard]] Tensor view(Autograd& torch, const Tensor& x, Dimensions sizes);
/// A view where strides allow one, a copy otherwise.
[[nodiscard]] Tensor reshape(Autograd& torch, const Tensor& x, Dimensions sizes);
[[nodiscard]] Tensor transpose(Autograd& torch, const Tensor& x, std::size_t a, std::size_t b);
/// Dimension i of the result is dimension `order[i]` of x.
[[nodiscard]] Tensor permute(Autograd& torch, const Tensor& x, const std::vector<std::size_t>& order);
/// Returns the gradient of a part of a tensor of sizes `whole`: zeros with the part's gradient copied in.
[[nodiscard]] Tensor padded(Autograd& torch, const Tensor& part, const Dimensions& whole);
/// A slice of `length` along `axis`; its backward pads with zeros to the whole.
[[nodiscard]] Tensor slice(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t length);
/// torch.split / chunk into parts of these lengths along the last axis; the backward concatenates.
[[nodiscard]] Tensors split(Autograd& torch, const Tensor& x, std::size_t axis,
                            const std::vector<std::int64_t>& lengths);
/// Lengths of `count` slices as torch.chunk makes them: the last is shorter where they do not divide.
[[nodiscard]] std::vector<std::int64_t> chunks(std::int64_t length, std::int64_t count);
[[nodiscard]] Tensor unsqueeze(Autograd& torch, const Tensor& x, std::size_t axis);
/// Size-1 dimensions made `sizes` with stride 0.
[[nodiscard]] Tensor expand(Autograd& torch, const Tensor& x, Dimensions sizes);

// ---- copies -----------------------------------------------------------------------------------------------

[[nodiscard]] Tensor contiguous(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor clone(Autograd& torch, const Tensor& x);
/// x.to(type): the same tensor where it has that type already.
[[nodiscard]] Tensor to(Autograd& torch, const Tensor& x, DType type);
[[nodiscard]] Tensor cat(Autograd& torch, const Tensors& parts, std::size_t axis);
/// Returns forward(x), whose gradient goes through `backward`. Both make new tensors; nothing is kept.
[[nodiscard]] Tensor moved(Autograd& torch, const Tensor& x,
                           const std::function<Tensor(const Tensor&)>& forward,
                           const std::function<Tensor(const Tensor&)>& backward);

// ---- elementwise ------------------------------------------------------------------------------------------

/// Returns the same memory under another layout, as a view that autograd knows.
[[nodiscard]] Tensor alias(const Tensor& x, Layout layout);
/// Returns a tensor of the batch, which exists before the step and outlives it.
[[nodiscard]] Tensor of_batch(Dimensions sizes, DType type);
/// Returns an elementwise result of two operands: PyTorch's promoted type and order of strides.
[[nodiscard]] Tensor elementwise_result(Autograd& torch, const Tensor& a, const Tensor& b);
/// Returns a new contiguous tensor.
[[nodiscard]] Tensor fresh(Autograd& torch, Dimensions sizes, DType type);
/// Returns an elementwise result with x's sizes, type and order of strides.
[[nodiscard]] Tensor like(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor add(Autograd& torch, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor sub(Autograd& torch, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(Autograd& torch, const Tensor& a, const Tensor& b);
/// Multiplication, division or addition with a number: nothing is kept. `backward_scales`: the gradient is
/// computed in new memory (multiplication), not passed through (addition).
[[nodiscard]] Tensor scale(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor add_number(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor neg(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor pow(Autograd& torch, const Tensor& x);       ///< x², keeps x
[[nodiscard]] Tensor rsqrt(Autograd& torch, const Tensor& x);     ///< keeps the result
[[nodiscard]] Tensor tanh(Autograd& torch, const Tensor& x);      ///< keeps the result
[[nodiscard]] Tensor relu(Autograd& torch, const Tensor& x);      ///< keeps the result
[[nodiscard]] Tensor silu(Autograd& torch, const Tensor& x);      ///< keeps x
[[nodiscard]] Tensor softplus(Autograd& torch, const Tensor& x);  ///< keeps x
[[nodiscard]] Tensor exp(Autograd& torch, const Tensor& x);       ///< keeps the result
[[nodiscard]] Tensor gelu(Autograd& torch, const Tensor& x);      ///< keeps x
/// torch.nn.functional.dropout in training: keeps a mask of one byte per element.
[[nodiscard]] Tensor dropout(Autograd& torch, const Tensor& x);

// ---- reductions and norms ---------------------------------------------------------------------------------

/// Mean over the last dimension, kept as size 1.
[[nodiscard]] Tensor mean(Autograd& torch, const Tensor& x);
/// x.any() of that many elements: its memory, made and freed.
void any(Autograd& torch, std::int64_t elements);
/// Softmax over the last dimension, computed and kept as `type`.
[[nodiscard]] Tensor softmax(Autograd& torch, const Tensor& x, DType type);
/// Over the last dimension; keeps the result.
[[nodiscard]] Tensor log_softmax(Autograd& torch, const Tensor& x);
/// torch.logsumexp over `axis`, which goes: keeps x and the result, which the backward subtracts again.
[[nodiscard]] Tensor logsumexp(Autograd& torch, const Tensor& x, std::size_t axis);
/// torch.gather of one element of each row of x [..., n]: [..., 1]. The index, a view of the batch, is kept.
[[nodiscard]] Tensor gather_one(Autograd& torch, const Tensor& x);
/// Sum over the last dimension, which goes.
[[nodiscard]] Tensor sum_last(Autograd& torch, const Tensor& x);
/// a / b where b needs no gradient: keeps b.
[[nodiscard]] Tensor div_by_constant(Autograd& torch, const Tensor& a, const Tensor& b);
/// torch.nn.functional.layer_norm: keeps x, mean and reciprocal deviation in fp32.
[[nodiscard]] Tensor layer_norm(Autograd& torch, const Tensor& x, const Tensor* weight, const Tensor* bias);

// ---- matrix products --------------------------------------------------------------------------------------

/// Returns the product of [batch, rows, inner] and [batch, inner, columns].
[[nodiscard]] Product product_of(std::int64_t rows, std::int64_t inner, std::int64_t columns, DType type,
                                 std::int64_t batch = 1);
/// torch.nn.functional.linear of x [..., in] with weight [out, in]; DeepSpeed may have replaced it.
[[nodiscard]] Tensor linear(Autograd& torch, const Tensor& x, const Tensor& weight,
                            const Tensor* bias = nullptr);
/// transformers' Conv1D: x [..., in] with weight [in, out].
[[nodiscard]] Tensor conv1d(Autograd& torch, const Tensor& x, const Tensor& weight, const Tensor& bias);
/// PyTorch's own torch.nn.functional.linear; torch.matmul with the transposed weight.
[[nodiscard]] Tensor plain_linear(Autograd& torch, const Tensor& x, const Tensor& weight,
                                  const Tensor* bias = nullptr);
/// torch.matmul of [b, h, m, k] and [b, h, k, n].
[[nodiscard]] Tensor matmul(Autograd& torch, const Tensor& a, const Tensor& b);

// ---- embedding and loss -----------------------------------------------------------------------------------

[[nodiscard]] Tensor embedding(Autograd& torch, const Tensor& weight, const Tensor& ids);
/// Records the gradient of a lookup's table.
[[nodiscard]] Tensor embedding_gradient(Autograd& torch, const Tensor& ids, const Tensor& table,
                                        const Tensor& gradient);
/// torch.nn.functional.cross_entropy of [T, V] fp32 logits: a scalar.
[[nodiscard]] Tensor cross_entropy(Autograd& torch, const Tensor& logits, const Tensor& labels);

// ---- rare architectures -----------------------------------------------------------------------------------

/// x.select(axis, …): one entry along `axis`, which goes. Its backward pads with zeros to the whole.
[[nodiscard]] Tensor select(Autograd& torch, const Tensor& x, std::size_t axis);
/// x[..., [i], ...] along `axis`: a copy of one entry; keeps the index, which is made on the device.
[[nodiscard]] Tensor index_one(Autograd& torch, const Tensor& x, std::size_t axis);
/// x /= number, x *= number.
void scale_in_place(Autograd& torch, Tensor& x);
/// torch.stack((a, b), dim=-1).flatten(-2).
[[nodiscard]] Tensor interleave(Autograd& torch, const Tensor& a, const Tensor& b);
/// Complex numbers, as twice as many real ones, times those of a table: view_as_real(view_as_complex(x) ·
/// table).
[[nodiscard]] Tensor multiply_complex(Autograd& torch, const Tensor& x, const Tensor& table);
/// A new tensor whose slices along `axis` the parts are copied into, one after the other.
[[nodiscard]] Tensor fill(Autograd& torch, const Tensors& parts, std::size_t axis);
/// Returns the temporary bytes of CUB's one-pass scan: two numbers of `size` for each tile and each thread of
/// a warp, and 256 more. Source: CCCL 3.0 cub/device/dispatch/dispatch_scan.cuh.
[[nodiscard]] std::int64_t scan_memory(std::int64_t items, std::int64_t tile, std::int64_t size);
/// transformers' BloomGelu, whose function keeps x and computes the slope again.
[[nodiscard]] Tensor gelu_bloom(Autograd& torch, const Tensor& x);

// ---- mixtures of experts ----------------------------------------------------------------------------------

struct Chosen {
  Tensor values, indices;
};

/// torch.topk along the last dimension; keeps the indices. Source: torch 2.11
/// aten/src/ATen/native/cuda/TensorTopK.cu, whose one-block kernels take no memory of their own: those run
/// for fewer than 400 scores.
[[nodiscard]] Chosen topk(Autograd& torch, const Tensor& x, std::int64_t k);
/// x.max(dim=-1): keeps the indices.
[[nodiscard]] Chosen max(Autograd& torch, const Tensor& x);
/// torch.sort of a vector of whole numbers: values, and where they stood.
[[nodiscard]] Chosen sort(Autograd& torch, const Tensor& x);

/// x[indices] along the first dimension; keeps the indices. Its backward sorts them.
[[nodiscard]] Tensor index(Autograd& torch, const Tensor& x, const Tensor& indices);
/// x.gather(-1, indices); keeps the indices.
[[nodiscard]] Tensor gather(Autograd& torch, const Tensor& x, const Tensor& indices);
/// x.masked_fill(mask, number); keeps the mask.
[[nodiscard]] Tensor masked_fill(Autograd& torch, const Tensor& x, const Tensor& mask);
/// torch.cumsum of a vector of at most 1920 whole numbers, one block of the kernel's.
[[nodiscard]] Tensor cumsum(Autograd& torch, const Tensor& x);
/// Whole numbers that depend on no gradient: arange, empty_like, comparisons, histc, x // n.
[[nodiscard]] Tensor numbers(Autograd& torch, Dimensions sizes, DType type);

/// x.sum(dim=axis, keepdim); only views of the gradient in the backward.
[[nodiscard]] Tensor sum(Autograd& torch, const Tensor& x, std::size_t axis, bool keep);
/// a / b in new memory; keeps both.
[[nodiscard]] Tensor div(Autograd& torch, const Tensor& a, const Tensor& b);
/// a /= b; keeps b and, for its gradient, a copy of a as it was.
void div_in_place(Autograd& torch, Tensor& a, const Tensor& b);
/// a += b, where b need not be kept.
void add_in_place(Autograd& torch, Tensor& a, const Tensor& b);
[[nodiscard]] Tensor sigmoid(Autograd& torch, const Tensor& x);  ///< keeps the result
/// x.clamp(low, high); keeps x. `sides`: how many of the two are given.
[[nodiscard]] Tensor clamp(Autograd& torch, const Tensor& x, int sides);
/// x[..., start::step]: its backward pads with zeros to the whole.
[[nodiscard]] Tensor strided(Autograd& torch, const Tensor& x, std::int64_t step);

/// torch.nn.functional.grouped_mm of x [S, in] and weights [E, in, out], rows divided at `offsets`. Keeps x
/// for the weights' gradient, the weights for x's, and the offsets. `parameter`: the parameter whose view the
/// weights are, which the recorder then keeps (Recorder::keep_parameter).
[[nodiscard]] Tensor grouped_mm(Autograd& torch, const Tensor& x, const Tensor& weights,
                                const Tensor& offsets, std::optional<std::int32_t> parameter = {});

/// torch.baddbmm(base, left, right, alpha=…) of a frozen base [E, m, n], left [E, m, k] and right [E, k, n];
/// keeps left and right. Operands whose strides cuBLAS cannot take are copied for the product.
[[nodiscard]] Tensor baddbmm(Autograd& torch, const Tensor& base, const Tensor& left, const Tensor& right);

/// index_put with accumulation: rows are sorted by destination, so that sums are deterministic. Source: torch
/// 2.11 aten/src/ATen/native/cuda/Indexing.cu index_put_with_sort_kernel.
void accumulate_rows(Autograd& torch, std::int64_t rows, std::int64_t into);

/// Temporary memory of CUB's radix sort of `items` pairs of two 64-bit numbers whose keys have `bits` bits.
/// Source: CCCL 3.0 (CUDA 13.0) cub/device/dispatch/dispatch_radix_sort.cuh, invoke_onesweep, and its tuning
/// for compute capability 8.0; 256 bins per pass.
[[nodiscard]] Bytes radix_sort_memory(std::int64_t items, int bits);

// ---- linear attention -------------------------------------------------------------------------------------

/// Tokens that the gated delta rule computes side by side.
inline constexpr std::int64_t kDeltaChunk = 64;

/// DeltaRuleInputs are the operands of the gated delta rule: [b, s, heads, d]; decays and betas are [b, s,
/// heads].
struct DeltaRuleInputs {
  const Tensor &query, &key, &value, &decay, &beta;
};

/// torch.nn.functional.conv1d of x [b, D, s] with weight [D, 1, k], a group for each channel, padded by k − 1
/// on both sides: [b, D, s + k − 1]. Keeps x and the weight; copies an x that is not contiguous, in the
/// backward too. Source: torch 2.11 aten/src/ATen/native/Convolution.cpp (ConvBackend::CudaDepthwise2d).
[[nodiscard]] Tensor depthwise_convolution(Autograd& torch, const Tensor& x, const Tensor& weight);
/// x.to(type, memory_format=torch.contiguous_format): the same tensor where it has that type already.
[[nodiscard]] Tensor to_contiguous(Autograd& torch, const Tensor& x, DType type);
/// torch.nn.functional.pad after the last entries along `axis`; a copy where nothing is added.
[[nodiscard]] Tensor pad(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t more);
/// x.repeat_interleave(times, dim=axis).
[[nodiscard]] Tensor repeat_interleave(Autograd& torch, const Tensor& x, std::size_t axis,
                                       std::int64_t times);
/// x.cumsum along the last dimension of floats; keeps nothing.
[[nodiscard]] Tensor running_sum(Autograd& torch, const Tensor& x);
/// torch.matmul of [..., m, k] and [..., k, n] of the same leading sizes, whose strides cuBLAS takes.
[[nodiscard]] Tensor batched_matmul(Autograd& torch, const Tensor& a, const Tensor& b);
/// torch.linalg.solve_triangular of a [..., n, n], lower and with ones on its diagonal, and b [..., n, m]:
/// column by column in memory. Keeps a and the result. Batched cuBLAS is given its matrices by address.
/// Source: torch 2.11 aten/src/ATen/native/cuda/linalg/BatchLinearAlgebra.cpp triangular_solve_kernel,
/// native/BatchLinearAlgebra.cpp linalg_solve_triangular, FunctionsManual.cpp.
[[nodiscard]] Tensor solve_triangular(Autograd& torch, const Tensor& a, const Tensor& b);
/// Returns `length` entries along `axis`, which may be all. The backward pads with zeros to the whole.
[[nodiscard]] Tensor part(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t length);
/// x[..., i, ...] = value for a slice of x: x becomes the node's output (CopySlices), whose backward copies
/// the gradient of all of x.
void assign(Autograd& torch, Tensor& x, const Tensor& value);

// ---- image-text models
// --------------------------------------------------------------------------------------

/// A convolution with stride equal to its kernel size, which is a product over patches. `result`: the
/// output's layout. Keeps x for the weight's gradient. cuDNN's workspace is not counted.
[[nodiscard]] Tensor patch_convolution(Autograd& torch, const Tensor& x, const Tensor& weight,
                                       const Tensor* bias, Layout result);
/// x.unbind(axis): views; the backward stacks their gradients.
[[nodiscard]] Tensors unbind(Autograd& torch, const Tensor& x, std::size_t axis);
/// torch.split along `axis` into parts that are used one by one: the same memory. The backward concatenates
/// gradients.
[[nodiscard]] Tensor as_parts(Autograd& torch, const Tensor& x);
/// x.masked_scatter(mask, source): a copy of x with rows of the source; keeps the mask, of one value a row.
/// Its backward finds the places of the source's gradient element by element.
/// Source: torch 2.11 aten/src/ATen/native/cuda/{IndexKernel,Indexing,Nonzero}.cu, tools/autograd.
[[nodiscard]] Tensor masked_scatter(Autograd& torch, const Tensor& x, const Tensor& mask,
                                    const Tensor& source);
/// torch.nn.functional.unfold of a grid of patches [rows · columns, h] into squares of `side` patches:
/// [squares, h · side²] seen by square. Keeps nothing; copies its input, and its gradient in the backward.
/// Source: torch 2.11 aten/src/ATen/native/cuda/{Im2Col,Col2Im}.cu.
[[nodiscard]] Tensor unfold(Autograd& torch, const Tensor& x, std::int64_t side);
/// x[at] = x[at] + features on a clone of x: the rows of image tokens. Keeps the mask, from which the places
/// are found each time.
[[nodiscard]] Tensor add_at_rows(Autograd& torch, const Tensor& x, const Tensor& mask,
                                 const Tensor& features);
/// torch.nn.AvgPool2d over [b, c, s, s] to `side` along each side; keeps x.
[[nodiscard]] Tensor average_pool(Autograd& torch, const Tensor& x, std::int64_t side);

// ---- attention --------------------------------------------------------------------------------------------

// torch.nn.functional.scaled_dot_product_attention: which kernel runs, and what each allocates and keeps.
// Source: torch 2.11 aten/src/ATen/native/transformers/{attention.cpp,cuda/attention.cu,
// cuda/attention_backward.cu}.

/// AttentionOptions say how an attention's scores are masked and dropped.
struct AttentionOptions {
  bool causal{};      ///< by position, without a mask
  bool dropout{};     ///< probabilities drop out
  bool broadcasts{};  ///< one key-value head is broadcast, not repeated (no enable_gqa)
  bool operator==(const AttentionOptions&) const = default;
};

/// q [b, a, s, d], k and v [b, k, s, d] with k dividing a; `mask`, of booleans that broadcast to [b, a, s,
/// s], may be undefined. Returns [b, a, s, d].
[[nodiscard]] Tensor scaled_dot_product_attention(Autograd& torch, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& mask,
                                                  AttentionOptions options);

/// The FlashAttention kernel: causal, 16 bits, no mask, up to 256 features a head. `samples` of equal length
/// follow one another along s.
[[nodiscard]] Tensor flash_attention(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                     bool dropout = false, std::int64_t samples = 1);

/// TokenParts divides a sample's tokens into `count` parts of `length` tokens. Parts of one length are
/// recorded as one block with the sum of their sizes.
struct TokenParts {
  std::int64_t count{}, length{};
  bool operator==(const TokenParts&) const = default;
};
[[nodiscard]] Tensor attention_by_parts(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const std::vector<TokenParts>& parts);
/// scaled_dot_product_attention in which every token sees all others.
[[nodiscard]] Tensor whole_attention(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v);

/// torch.where(mask, x, number) as in PyTorch up to 1.10: the backward also reads a tensor of zeros. The
/// mask, which all heads share, is not counted. Source: tools/autograd/derivatives.yaml _s_where.
[[nodiscard]] Tensor where(Autograd& torch, const Tensor& x);

/// FlashStep is one step of ring attention, outside the graph: queries attend to one rank's keys, `causal`
/// where both are the same tokens.
struct FlashStep {
  Tensor output, sums;
};
[[nodiscard]] FlashStep flash_step(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                   bool causal);
/// Returns the gradients of its queries, keys and values.
[[nodiscard]] Tensors flash_step_backward(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                          const FlashStep& step, const Tensor& gradient, bool causal);

// ---- tensor parallelism and zero.Init ---------------------------------------------------------------------

// DeepSpeed's functions in the place of PyTorch's. Collectives work in place and allocate nothing.
// Source: DeepSpeed 0.19.8 module_inject/layers.py, sequence/cross_entropy.py, runtime/zero/linear.py.

/// torch.nn.functional.linear as zero.Init replaces it: input and weight are kept whether or not a gradient
/// needs them, and the input's gradient is computed first.
[[nodiscard]] Tensor linear_of_partitioned(Autograd& torch, const Tensor& x, const Tensor& weight,
                                           const Tensor* bias);

/// A linear layer divided by columns or rows: the bias is added to the product in new memory.
[[nodiscard]] Tensor divided_linear(Autograd& torch, const Tensor& x, const Tensor& weight,
                                    const Tensor* bias);

/// The input of a layer divided by columns: its gradient is summed over the group.
[[nodiscard]] Tensor column_parallel_input(Autograd& torch, const Tensor& x);

/// VocabParallelEmbedding: rows of tokens that other ranks hold are zeroed before the ranks' sums.
[[nodiscard]] Tensor vocabulary_parallel_embedding(Autograd& torch, const Tensor& weight, const Tensor& ids);
/// Records the sum over tensor-parallel ranks of what each computed, in new memory, as DTensor reduces a
/// partial result; its gradient is that of every part.
[[nodiscard]] Tensor summed(Autograd& torch, TensorCall call, const Tensor& part);
/// Records an input that each rank takes whole and multiplies by its own columns: the backward sums its
/// gradients. `in_place`: without new memory, as transformers' own function does (not DTensor).
[[nodiscard]] Tensor replicated_input(Autograd& torch, TensorCall call, const Tensor& x, bool in_place);
/// Records an output that ranks sum in place; its gradient is that of every part.
[[nodiscard]] Tensor summed_in_place(Autograd& torch, TensorCall call, const Tensor& part);
/// Records the lookup in a table of `rows` rows that DTensor divides by rows. The backward makes the gradient
/// of the whole table and keeps the rank's rows. Source: torch 2.11
/// distributed/tensor/_ops/_embedding_ops.py; whole steps traced (tests/reference/fsdp_tp).
[[nodiscard]] Tensor divided_embedding(Autograd& torch, const Tensor& weight, const Tensor& ids,
                                       std::int64_t rows);

/// Each rank keeps its part of the vocabulary of logits [b, s, V/t]; maxima and sums per token are exchanged.
[[nodiscard]] Tensor vocabulary_parallel_cross_entropy(Autograd& torch, const Tensor& logits);

}  // namespace zplan::symbolic
