#include "planner/sharding/expert_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace zplan {

namespace {

/// A stack of the rank's own experts, [local, out, in].
Tensor local_stack(const Tensor& of, const std::string& name, std::int64_t local, std::int64_t out,
                   std::int64_t in) {
  Tensor stack = of;
  stack.name = of.name.substr(0, of.name.rfind('.') + 1) + name;
  stack.shape = {local, out, in};
  stack.split = TensorParallelSplit::replicated;
  stack.split_units = 1;
  stack.linear = Linear{.in_features = in, .out_features = out, .copies = local};
  return stack;
}

bool is_stack(const Tensor& tensor) { return tensor.role == TensorRole::expert; }

/// The router, as AutoEP's TokenChoiceTopKRouter holds it.
Tensor router_of(Tensor tensor) {
  const std::size_t module = tensor.name.find("mlp.");
  if (module != std::string::npos) {
    const std::string last = tensor.name.substr(tensor.name.rfind('.') + 1);
    tensor.name = tensor.name.substr(0, module) + "mlp.router.gate." + last;
  }
  return tensor;
}

LayerKind divided(const LayerKind& kind, const ModelShape& shape, std::int64_t ranks) {
  const auto first = std::find_if(kind.tensors.begin(), kind.tensors.end(), [](const Tensor& each) {
    return is_stack(each) || each.role == TensorRole::router;
  });
  const auto stack = std::find_if(kind.tensors.begin(), kind.tensors.end(), is_stack);
  if (stack == kind.tensors.end()) return kind;
  const std::int64_t local = shape.experts->experts / ranks, width = shape.experts->intermediate_size;
  LayerKind result{kind.name, {kind.tensors.begin(), first}};
  for (const Tensor& each : kind.tensors)
    if (each.role == TensorRole::router) result.tensors.push_back(router_of(each));
  result.tensors.push_back(local_stack(*stack, "w1", local, width, shape.hidden_size));
  result.tensors.push_back(local_stack(*stack, "w2", local, shape.hidden_size, width));
  result.tensors.push_back(local_stack(*stack, "w3", local, width, shape.hidden_size));
  std::copy_if(first, kind.tensors.end(), std::back_inserter(result.tensors),
               [](const Tensor& each) { return !is_stack(each) && each.role != TensorRole::router; });
  return result;
}

/// Beside AutoEP, AutoTP divides what its partition_config names, and the presets that go with AutoEP name
/// the projections of attention and of dense feed-forwards alone.
void leave_whole(std::vector<Tensor>& tensors) {
  for (Tensor& each : tensors)
    if (each.role != TensorRole::attention && each.role != TensorRole::mlp)
      each.split = TensorParallelSplit::replicated, each.split_units = 1;
}

std::int64_t even_part(std::int64_t whole, std::int64_t parts, std::int64_t part) {
  return whole / parts + (part < whole % parts ? 1 : 0);
}

/// Returns how many of the `rows` that one rank sends go to rank `to`.
std::int64_t rows_for(std::int64_t rows, std::int64_t ranks, std::int64_t to, double skew) {
  if (skew == 1 || ranks == 1) return even_part(rows, ranks, to);
  const std::int64_t first = std::min<std::int64_t>(
      rows, std::llrint(skew * static_cast<double>(rows) / static_cast<double>(ranks)));
  return to == 0 ? first : even_part(rows - first, ranks - 1, to - 1);
}

}  // namespace

Model with_local_experts(const Model& model, const Strategy& strategy) {
  if (!strategy.experts.enabled || !model.shape.experts) return model;
  Model result = model;
  for (LayerKind& kind : result.inventory.kinds) kind = divided(kind, model.shape, strategy.layout.expert);
  if (strategy.layout.tensor == 1) return result;
  for (std::vector<Tensor>* some : {&result.inventory.before, &result.inventory.after}) leave_whole(*some);
  for (LayerKind& kind : result.inventory.kinds) leave_whole(kind.tensors);
  return result;
}

std::vector<std::int64_t> rows_to_each(const Model& model, const Training& training,
                                       const Strategy& strategy) {
  const std::int64_t rows_of_batch = strategy.micro_batch_size * sequences_per_sample(training);
  const std::int64_t pairs =
      rows_of_batch * local_tokens(training, strategy) * model.shape.experts->experts_per_token;
  const std::int64_t ranks = strategy.layout.expert;
  // Without expert parallelism torchtitan divides each expert instead of the rows.
  const bool divides_rows = !strategy.torchtitan || ranks > 1;
  const std::int64_t sent = divides_rows ? even_part(pairs, strategy.layout.tensor, 0) : pairs;
  std::vector<std::int64_t> rows;
  for (std::int64_t to = 0; to < ranks; ++to)
    rows.push_back(rows_for(sent, ranks, to, training.routing_skew));
  return rows;
}

RoutedRows routed_rows(const Model& model, const Training& training, const Strategy& strategy,
                       std::int64_t expert_rank) {
  const std::vector<std::int64_t> rows = rows_to_each(model, training, strategy);
  return {std::accumulate(rows.begin(), rows.end(), std::int64_t{}),
          rows[static_cast<std::size_t>(expert_rank)] * strategy.layout.expert};
}

}  // namespace zplan
