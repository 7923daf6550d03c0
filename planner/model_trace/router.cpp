// Routers: how they choose and weigh experts. Source: transformers 5.23
// models/<architecture>/modeling_<architecture>.py.

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

std::int64_t groups_of(const ModelShape& shape) {
  const std::int64_t experts = shape.experts->experts;
  return experts == 64 || experts % 8 != 0 ? 1 : shape.operators.expert_groups;
}

std::int64_t chosen_groups_of(const ModelShape& shape) {
  return groups_of(shape) == 1 ? 1 : shape.operators.chosen_expert_groups;
}

namespace {

/// Router is the context of a router's forward.
struct Router {
  Program& p;
  const Tensor& base;
  const Tensor* bias{};
  Tensor update{};  ///< the adapter's addition
  Tensor sum{};     ///< base and update, made at the first use

  [[nodiscard]] Tensor weight() {
    if (!update.defined()) return base;
    if (!sum.defined()) sum = add(p.torch, base, update);
    return sum;
  }

  [[nodiscard]] std::int64_t experts() const { return p.shape().experts->experts; }
  [[nodiscard]] Chosen best(const Tensor& of) const {
    return topk(p.torch, of, p.shape().experts->experts_per_token);
  }
  [[nodiscard]] Tensor flat(const Tensor& x) const {
    return view(p.torch, x, {x.elements() / p.sizes.h, p.sizes.h});
  }
  [[nodiscard]] Tensor scores(const Tensor& x) { return linear(p.torch, flat(x), weight(), bias); }
  /// Records the scores in fp32, with a copy of the weight.
  [[nodiscard]] Tensor wide_scores(const Tensor& x) {
    const Tensor wide = to(p.torch, flat(x), DType::fp32);
    const Tensor wide_weight = to(p.torch, weight(), DType::fp32);
    return linear(p.torch, wide, wide_weight);
  }
  void divide_by_sum(Tensor& weights) const {
    const Tensor total = symbolic::sum(p.torch, weights, 1, true);
    div_in_place(p.torch, weights, total);
  }
  /// Returns scores [T, E] as [T, groups, E / groups].
  [[nodiscard]] Tensor by_group(const Tensor& of) const {
    const std::int64_t groups = groups_of(p.shape());
    return view(p.torch, of, {of.size(0), groups, experts() / groups});
  }
};

/// ChosenGroups holds a mask of the chosen groups, and the mask expanded over their experts. Neither has a
/// gradient.
struct ChosenGroups {
  Tensor indices, ones, expanded;
};

ChosenGroups choose_groups(const Router& r, const Tensor& group_scores) {
  Autograd& torch = r.p.torch;
  const std::int64_t rows = group_scores.size(0), groups = group_scores.size(1);
  ChosenGroups chosen;
  chosen.indices = topk(torch, group_scores, chosen_groups_of(r.p.shape())).indices;
  chosen.ones = numbers(torch, {rows, groups}, DType::fp32);
  // One group's is a view.
  chosen.expanded = groups == 1 ? chosen.ones : numbers(torch, {rows, r.experts()}, DType::fp32);
  return chosen;
}

/// Returns the scores with those of experts outside the chosen groups masked.
Tensor of_chosen_groups(const Router& r, const Tensor& scores) {
  Tensor inverse;
  {
    const Tensor truth = numbers(r.p.torch, scores.layout.sizes, DType::boolean);
    inverse = numbers(r.p.torch, scores.layout.sizes, DType::boolean);
  }
  return masked_fill(r.p.torch, scores, inverse);
}

Routing route_mixtral(Router& r, const Tensor& x) {
  Autograd& torch = r.p.torch;
  Tensor scores = r.scores(x), probabilities;
  {
    const Tensor wide = to(torch, scores, DType::fp32);
    probabilities = softmax(torch, wide, DType::fp32);
  }
  Chosen best = r.best(probabilities);
  r.divide_by_sum(best.values);
  return {.scores = scores, .weights = best.values, .indices = best.indices};
}

Routing route_qwen(Router& r, const Tensor& x) {
  Autograd& torch = r.p.torch;
  const Tensor scores = r.scores(x);
  const Tensor probabilities = softmax(torch, scores, DType::fp32);
  Chosen best = r.best(probabilities);
  if (r.p.operators().divides_weights) r.divide_by_sum(best.values);
  return {.scores = scores, .weights = to(torch, best.values, scores.type), .indices = best.indices};
}

Routing route_minimax(Router& r, const Tensor& x) {
  Autograd& torch = r.p.torch;
  Tensor scores = r.scores(x), probabilities;
  {
    const Tensor wide = to(torch, scores, DType::fp32);
    probabilities = sigmoid(torch, wide);
  }
  const Tensor corrected = add_number(torch, probabilities);
  const Chosen best = r.best(corrected);
  Tensor weights = gather(torch, probabilities, best.indices);
  r.divide_by_sum(weights);
  return {.scores = scores, .weights = weights, .indices = best.indices};
}

Routing route_deepseek_v2(Router& r, const Tensor& x) {
  Autograd& torch = r.p.torch;
  const Tensor scores = r.wide_scores(x);
  Tensor probabilities = softmax(torch, scores, DType::fp32), of_groups;
  ChosenGroups groups;
  if (groups_of(r.p.shape()) > 1) {
    of_groups = max(torch, r.by_group(probabilities)).values;
    groups = choose_groups(r, of_groups);
    probabilities = of_chosen_groups(r, probabilities);
  }
  Chosen best = r.best(probabilities);
  best.values = scale(torch, best.values);
  return {.scores = scores, .weights = best.values, .indices = best.indices};
}

Routing route_deepseek_v3(Router& r, const Tensor& x) {
  Autograd& torch = r.p.torch;
  const Tensor scores = r.wide_scores(x);
  const Tensor probabilities = sigmoid(torch, scores);
  Tensor corrected = add_number(torch, probabilities), of_groups;
  {
    const Tensor best_two = topk(torch, r.by_group(corrected), 2).values;
    of_groups = sum(torch, best_two, 2, false);
  }
  const ChosenGroups groups = choose_groups(r, of_groups);
  corrected = of_chosen_groups(r, corrected);
  const Tensor indices = r.best(corrected).indices;
  Tensor weights = gather(torch, probabilities, indices), denominator;
  {
    const Tensor total = sum(torch, weights, 1, true);
    denominator = add_number(torch, total);
  }
  div_in_place(torch, weights, denominator);
  weights = scale(torch, weights);
  return {.scores = scores, .weights = weights, .indices = indices};
}

Routing route_gpt_oss(Router& r, const Tensor& x) {
  const Tensor scores = r.scores(x);
  const Chosen best = r.best(scores);
  return {.scores = scores,
          .weights = softmax(r.p.torch, best.values, best.values.type),
          .indices = best.indices};
}

Routing run(Router& r, const Tensor& x) {
  switch (r.p.operators().router) {
    case RouterForm::mixtral: return route_mixtral(r, x);
    case RouterForm::qwen: return route_qwen(r, x);
    case RouterForm::minimax: return route_minimax(r, x);
    case RouterForm::deepseek_v2: return route_deepseek_v2(r, x);
    case RouterForm::deepseek_v3: return route_deepseek_v3(r, x);
    case RouterForm::gpt_oss: return route_gpt_oss(r, x);
  }
  return {};
}

/// Records lora_B @ lora_A * scaling in the parameter's type.
Tensor low_rank_update(Program& p, const ParameterAdapter& adapter, DType type) {
  Tensor scaled;
  {
    const Tensor product =
        linear(p.torch, adapter.up->tensor, transpose(p.torch, adapter.down->tensor, 0, 1));
    scaled = scale(p.torch, product);
  }
  return to(p.torch, scaled, type);
}

Routing router_forward(Program& p, const Parameters& of, const std::string& path, const Tensor& x) {
  const Parameter& weight = of.get(path + ".weight");
  const Parameter* bias = of.find(path + ".bias");
  Router router{.p = p, .base = weight.tensor, .bias = bias != nullptr ? &bias->tensor : nullptr};
  if (const ParameterAdapter adapter = parameter_adapter(p, of, path, weight); adapter.down != nullptr) {
    router.update = low_rank_update(p, adapter, weight.tensor.type);
    const Tensor checked = add(p.torch, weight.tensor, router.update);
  }
  return run(router, x);
}

}  // namespace

Routing route(Program& p, const Parameters& of, const Tensor& x) {
  const std::string path(p.names().router);
  Routing routed;
  // Gradients come back through the weights alone.
  Tensor weights = hooked(p, parameters_under(of, path), x, [&](const Tensor& input) {
    routed = router_forward(p, of, path, input);
    return std::move(routed.weights);
  });
  routed.weights = std::move(weights);
  return routed;
}

}  // namespace zplan::symbolic
