#pragma once
// The parts of a feed-forward with routed experts: the router, the experts, and the adapters that both can
// carry.

#include <string>
#include <vector>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// What a router makes of the hidden states: scores of all experts [T, E], and the chosen ones and their
/// weights [T, experts per token].
struct Routed {
  Tensor scores, weights, indices;
};

/// Groups of experts of which some are chosen first; models of 64 experts (DeepSeek-V2-Lite) have one.
[[nodiscard]] std::int64_t groups_of(const ModelShape& shape);
[[nodiscard]] std::int64_t chosen_groups_of(const ModelShape& shape);

/// The router of hidden states [T, h] or [b, s, h].
[[nodiscard]] Routed route(Program& p, const Parameters& of, const Tensor& x);

/// The chosen experts' outputs for x [T, h], weighed and summed: [T, h].
[[nodiscard]] Tensor run_experts(Program& p, const Parameters& of, const Tensor& x, const Routed& routed);

/// The parameters of the module at `path`, its adapters among them.
[[nodiscard]] std::vector<const Parameter*> parameters_under(const Parameters& of, const std::string& path);

/// The adapter that peft gives a parameter, not a module: while the parameter's module runs, the parameter is
/// replaced by its sum with lora_B @ lora_A; the same sum is made once before, when the replacement is
/// checked. Source: peft 0.21.2 tuners/lora/layer.py ParamWrapper, torch 2.11 torch/nn/utils/parametrize.py.
struct ParameterAdapter {
  const Parameter* down{};
  const Parameter* up{};
};

/// The adapter of the parameter `of.get(name)` whose wrapper stands at `path`; nothing where there is none.
[[nodiscard]] ParameterAdapter parameter_adapter(const Program& p, const Parameters& of,
                                                 const std::string& path, const Parameter& parameter);

}  // namespace zplan::symbolic
