#pragma once
// Which architectures' tp_plan divides layers as Llama's does. Source: transformers 5.23
// models/*/configuration_*.py base_model_tp_plan.

#include <span>
#include <string_view>

namespace zplan {

/// Returns the model types whose tp_plan divides queries, keys, values, gate and up by columns, the
/// projections behind them by rows, experts likewise by their width, and gathers the head's logits.
[[nodiscard]] std::span<const std::string_view> architectures_with_llamas_tp_plan();

}  // namespace zplan
