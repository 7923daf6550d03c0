#pragma once
// Which architectures' tp_plan divides layers as Llama's does. Source: transformers 5.23
// models/*/configuration_*.py base_model_tp_plan.

#include <span>
#include <string_view>

namespace zplan {

/// Returns the model types whose tp_plan divides the weights of queries, keys, values, gate and up by columns
/// and those of the output and down projections by rows, divides experts by their intermediate width, and
/// gathers the head's logits.
[[nodiscard]] std::span<const std::string_view> architectures_with_llamas_tp_plan();

}  // namespace zplan
