#pragma once

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// A layer's product: rows of `in` features to rows of `out`, and what it is given and gives.
struct PackedProduct {
  std::int64_t rows{}, in{}, out{};
  Dimensions given{}, result{};
  [[nodiscard]] std::int64_t count() const { return in * out; }  ///< numbers of the weight
};
[[nodiscard]] PackedProduct packed_product(const Tensor& x, std::int64_t out);
[[nodiscard]] PackedProduct packed_product(const Parameter& weight, const Tensor& x);
/// So many numbers in a row.
[[nodiscard]] Tensor numbers(Program& p, std::int64_t count, DType type);
/// The product with a weight in `type`, in new memory; of the backward the gradient of the input.
[[nodiscard]] Tensor multiplied(Program& p, const PackedProduct& sizes, DType type, bool backward,
                                bool biased = false);

/// Several 4-bit weights [·, in] in one layer, `out` outputs together; `first` is one of them.
[[nodiscard]] Tensor packed_joint_linear(Program& p, const Tensor& x, const Parameter& first,
                                         std::int64_t out, bool biased);
/// A linear layer of QLoRA's packed base: weight [out, in], which no gradient is asked of.
[[nodiscard]] Tensor packed_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias);

/// The same of the libraries that peft adapts beside bitsandbytes and GPTQ: HQQ, AWQ, torchao.
[[nodiscard]] Tensor library_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias);
/// HQQ's weight in 16 bits, [out, in].
[[nodiscard]] Tensor unpacked_by_groups(Program& p, std::int64_t in, std::int64_t out);

/// The weight of bitsandbytes' or HQQ's layer as DoRA reads it, [out, in]: in 16 bits, of 8-bit layers fp32.
[[nodiscard]] Tensor unpacked_base(Program& p, const Parameter& weight, std::int64_t in);

}  // namespace zplan::symbolic
