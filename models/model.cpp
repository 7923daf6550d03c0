#include "models/model.h"

#include <algorithm>

namespace zplan {

Elements parameters(const Model& model) { return elements(model.inventory); }

bool has_tower(const Model& model) {
  bool found = false;
  for_each_tensor(model.inventory, [&](const Tensor& tensor, int) { found = found || tensor.idle; });
  return found && !model.vision;
}

Elements active_parameters(const Model& model) {
  const Elements all = parameters(model);
  if (!model.shape.experts) return all;
  // Every tensor of the role has one slice per expert, so the division is exact.
  const Elements experts = elements(model.inventory, TensorRole::expert);
  const std::int64_t idle = model.shape.experts->experts - model.shape.experts->experts_per_token;
  return all - Elements(experts.value / model.shape.experts->experts * idle);
}

Elements largest_layer(const Model& model) {
  Elements largest;
  for (const LayerKind& kind : model.inventory.kinds) largest = std::max(largest, elements(kind));
  return largest;
}

}  // namespace zplan
