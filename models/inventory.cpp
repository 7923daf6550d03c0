#include "models/inventory.h"

#include <numeric>

namespace zplan {

Elements Tensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return Elements(product);
}

void replace_head_by_score(Inventory& inventory, std::int64_t hidden_size, std::int64_t outputs) {
  std::erase_if(inventory.after, [](const Tensor& each) { return each.role == TensorRole::head; });
  Tensor score;
  score.name = "score.weight", score.module = "score";
  score.shape = {outputs, hidden_size};
  score.role = TensorRole::head;
  score.linear = Linear{.in_features = hidden_size, .out_features = outputs};
  inventory.after.push_back(std::move(score));
}

void for_each_tensor(const Inventory& inventory, const std::function<void(const Tensor&, int layer)>& visit) {
  for (const Tensor& tensor : inventory.before) visit(tensor, -1);
  for (std::size_t layer = 0; layer < inventory.layers.size(); ++layer)
    for (const Tensor& tensor : inventory.kinds[inventory.layers[layer]].tensors)
      visit(tensor, static_cast<int>(layer));
  for (const Tensor& tensor : inventory.after) visit(tensor, -1);
}

namespace {

/// Sum over the inventory of what `count` says of a list of tensors; each kind is counted once.
template <class Count>
Elements sum(const Inventory& inventory, const Count& count) {
  Elements total = count(inventory.before) + count(inventory.after);
  std::vector<std::int64_t> layers(inventory.kinds.size());
  for (const std::size_t kind : inventory.layers) ++layers[kind];
  for (std::size_t kind = 0; kind < layers.size(); ++kind)
    total += count(inventory.kinds[kind].tensors) * layers[kind];
  return total;
}

}  // namespace

Elements elements(const std::vector<Tensor>& tensors) {
  Elements total;
  for (const Tensor& tensor : tensors) total += tensor.elements();
  return total;
}

Elements elements(const LayerKind& kind) { return elements(kind.tensors); }

Elements elements(const Inventory& inventory) {
  return sum(inventory, [](const std::vector<Tensor>& tensors) { return elements(tensors); });
}

Elements elements(const Inventory& inventory, TensorRole role) {
  return sum(inventory, [role](const std::vector<Tensor>& tensors) {
    Elements total;
    for (const Tensor& tensor : tensors)
      if (tensor.role == role) total += tensor.elements();
    return total;
  });
}

double approximate_elements(const Inventory& inventory) {
  double total = 0;
  std::vector<double> kinds;
  const auto count = [](const std::vector<Tensor>& tensors) {
    double sum = 0;
    for (const Tensor& tensor : tensors)
      sum += std::accumulate(
          tensor.shape.begin(), tensor.shape.end(), 1.0,
          [](double product, std::int64_t extent) { return product * static_cast<double>(extent); });
    return sum;
  };
  for (const LayerKind& kind : inventory.kinds) kinds.push_back(count(kind.tensors));
  for (const std::size_t kind : inventory.layers) total += kinds[kind];
  return total + count(inventory.before) + count(inventory.after);
}

std::int64_t units_on_rank(std::int64_t total, std::int64_t ranks, std::int64_t rank) {
  return total / ranks + (rank < total % ranks ? 1 : 0);
}

Elements elements_on_rank(const Tensor& tensor, std::int64_t ranks, std::int64_t rank) {
  if (tensor.split == TensorParallelSplit::replicated) return tensor.elements();
  const std::int64_t unit = tensor.elements().value / tensor.split_units;
  return Elements(unit * units_on_rank(tensor.split_units, ranks, rank));
}

}  // namespace zplan
