#pragma once

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// Several 4-bit weights [·, in] in one layer, `out` outputs together; `first` is one of them.
[[nodiscard]] Tensor packed_joint_linear(Program& p, const Tensor& x, const Parameter& first,
                                         std::int64_t out, bool biased);
/// A linear layer of QLoRA's packed base: weight [out, in], which no gradient is asked of.
[[nodiscard]] Tensor packed_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias);

/// The same of the libraries that peft adapts beside bitsandbytes and GPTQ: HQQ, AWQ, torchao.
[[nodiscard]] Tensor library_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias);
/// HQQ's weight in 16 bits, [out, in].
[[nodiscard]] Tensor unpacked_by_groups(Program& p, std::int64_t in, std::int64_t out);

/// The weight of bitsandbytes' 4-bit layer in 16 bits, [out, in].
[[nodiscard]] Tensor unpacked_base(Program& p, const Parameter& weight, std::int64_t in);

}  // namespace zplan::symbolic
