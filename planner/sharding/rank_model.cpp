#include "planner/sharding/rank_model.h"

#include <algorithm>

namespace zplan {

namespace {

/// Whether QLoRA packs this tensor: weights of linear modules except the head. Stacked experts and routers
/// are plain parameters in transformers 5, which bitsandbytes leaves in 16 bits.
bool is_packed(const Tensor& tensor) {
  return tensor.linear && tensor.role != TensorRole::head && tensor.role != TensorRole::expert &&
         tensor.role != TensorRole::router;
}

class Collector {
 public:
  Collector(const Training& training, std::int64_t ranks, std::int64_t rank)
      : training_(training), ranks_(ranks), rank_(rank) {}

  void base(const Tensor& tensor, int layer) {
    const bool trainable = training_.method == Method::full;
    const Elements here = elements_on_rank(tensor, ranks_, rank_);
    add(tensor, here, layer, trainable);
    if (!trainable) model_.frozen += here, model_.frozen_size += stored(tensor, here);
  }
  void adapter(const Tensor& tensor, int layer) {
    add(tensor, elements_on_rank(tensor, ranks_, rank_), layer, true);
  }
  RankModel take() { return std::move(model_); }

 private:
  void add(const Tensor& tensor, Elements here, int layer, bool trainable) {
    if (here.value == 0) return;
    model_.tensors.push_back({here, layer, tensor.role, trainable});
    model_.largest_tensor = std::max(model_.largest_tensor, here);
    if (!trainable) return;
    model_.trainable += here;
    model_.largest_trainable = std::max(model_.largest_trainable, here);
    if (layer >= 0 && tensor.shape.size() > 1) model_.trainable_matrices += here;
  }
  [[nodiscard]] Bytes stored(const Tensor& tensor, Elements here) const {
    if (training_.method != Method::qlora || !is_packed(tensor)) return here * weight_size(training_);
    return packed_size(training_.quantization, here, tensor.linear->out_features);
  }

  const Training& training_;
  std::int64_t ranks_, rank_;
  RankModel model_;
};

}  // namespace

Bytes packed_size(Quantization quantization, Elements elements, std::int64_t out_features) {
  const std::int64_t n = elements.value;
  const std::int64_t blocks = share(elements, 64).value;
  switch (quantization) {
    case Quantization::nf4: return Bytes(share(elements, 2).value + 4 * blocks + 64);
    case Quantization::nf4_double:
      return Bytes(share(elements, 2).value + blocks + 4 * share(Elements(blocks), 256).value + 1092);
    case Quantization::int8: return Bytes(n + 4 * out_features);
  }
  return Bytes(2 * n);
}

RankModel rank_model(const Model& model, const Training& training, std::int64_t tensor_parallel,
                     std::int64_t rank) {
  Collector collector(training, tensor_parallel, rank);
  if (training.method == Method::full) {
    for_each_tensor(model.inventory, [&](const Tensor& tensor, int layer) { collector.base(tensor, layer); });
    return collector.take();
  }
  // peft puts adapters inside the module they adapt; only the order among trainable tensors matters to ZeRO,
  // and that is the order of layers, so a layer's adapters follow its base tensors here.
  const Inventory adapters = lora_adapters(model, training.lora_rank, training.lora_targets);
  const auto both = [&](const std::vector<Tensor>& base, const std::vector<Tensor>& adapted, int layer) {
    for (const Tensor& tensor : base) collector.base(tensor, layer);
    for (const Tensor& tensor : adapted) collector.adapter(tensor, layer);
  };
  both(model.inventory.before, adapters.before, -1);
  for (std::size_t i = 0; i < model.inventory.layers.size(); ++i)
    both(model.inventory.kinds[model.inventory.layers[i]].tensors, adapters.kinds[adapters.layers[i]].tensors,
         static_cast<int>(i));
  both(model.inventory.after, adapters.after, -1);
  return collector.take();
}

}  // namespace zplan
