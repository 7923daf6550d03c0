#include "planner/frameworks/megatron/dispatcher_variables.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "planner/sharding/expert_model.h"
#include "planner/simulation/run.h"

namespace zplan::megatron {

namespace {

bool is_mixture(const Inventory& inventory, std::size_t layer) {
  const std::vector<Tensor>& tensors = inventory.kinds[inventory.layers[layer]].tensors;
  return std::ranges::find(tensors, TensorRole::expert, &Tensor::role) != tensors.end();
}

bool recomputes_mixture(const Strategy& strategy, std::size_t layer) {
  const Checkpointing how = strategy.checkpointing;
  if (how == Checkpointing::selective) return strategy.megatron->recomputes(RecomputedModule::moe);
  const std::optional<std::int64_t> first = block_layers(*strategy.megatron);
  return how == Checkpointing::full && (!first || static_cast<std::int64_t>(layer) < *first);
}

/// Bytes that a dispatcher's variables hold of the last tokens: weights of all experts and which experts were
/// chosen; places that rows were taken from.
struct Routing {
  Bytes routes, places;
};

Routing routing_of(const RunInputs& inputs, const Model& model) {
  const StepInputs& in = inputs.step;
  const MegatronOptions& options = *in.strategy.megatron;
  const ParallelLayout& layout = in.strategy.layout;
  const MixtureOfExperts& about = *model.shape.experts;
  const std::int64_t ranks = options.sequence_parallel ? layout.tensor : 1;
  const std::int64_t rows_of_batch = in.strategy.micro_batch_size * sequences_per_sample(in.training);
  const std::int64_t tokens = rows_of_batch * local_tokens(in.training, in.strategy) / ranks;
  const std::int64_t weight = options.router_in_fp32 ? 4 : 2;
  if (!options.exchanges_rows()) {
    // Every rank has the tokens of all: which of its own experts they chose, and rows with their weights.
    const RoutedRows rows = routed_rows(model, in.training, in.strategy, inputs.place.expert);
    const std::int64_t own = rows.received * layout.expert_tensor;
    return {.routes = Bytes(tokens * layout.expert_tensor * about.experts + weight * own),
            .places = Bytes(8 * own)};
  }
  const std::int64_t place =
      options.permute_fusion ? 4 * (2 * about.experts + 1) : 8 * about.experts_per_token;
  return {.routes = Bytes(tokens * (weight + 1) * about.experts), .places = Bytes(tokens * place)};
}

/// Returns what the dispatchers of a frozen model beside the trained one hold: it is not recomputed.
Bytes held_by_copy(const RunInputs& inputs) {
  const Model& copy = compared_model(inputs.step.model);
  if (reference_of(inputs.step.training) != ReferenceModel::copy || !copy.shape.experts) return {};
  std::int64_t mixtures = 0;
  for (std::size_t i = 0; i < copy.inventory.layers.size(); ++i) mixtures += is_mixture(copy.inventory, i);
  const Routing routing = routing_of(inputs, copy);
  return (routing.routes + routing.places) * mixtures;
}

}  // namespace

bool begins_with_rows(const Training& training) {
  static constexpr std::string_view kTable = "word_embeddings";
  const bool trains_table = std::ranges::any_of(
      training.modules_to_save, [](const std::string& each) { return each.ends_with(kTable); });
  return training.method != Method::full && !trains_table;
}

DispatcherVariables::DispatcherVariables(Device& device, const RunInputs& inputs, Bytes hidden)
    : device_(device), hidden_(hidden) {
  const Inventory& inventory = inputs.step.model.inventory;
  bool has_mixtures = false;
  for (std::size_t i = 0; i < inventory.layers.size(); ++i) {
    const bool mixture = is_mixture(inventory, i);
    layers_.push_back({mixture, mixture && recomputes_mixture(inputs.step.strategy, i)});
    has_mixtures = has_mixtures || mixture;
  }
  recomputed_.resize(layers_.size());
  of_copy_ = held_by_copy(inputs);
  if (!has_mixtures) return;
  if (inputs.place.stage == 0 && begins_with_rows(inputs.step.training)) last_routed_ = last_kept();
  const Routing routing = routing_of(inputs, inputs.step.model);
  routes_ = routing.routes, places_ = routing.places;
}

/// Returns the number of the last mixture that is not recomputed; −1 where there is none.
int DispatcherVariables::last_kept() const {
  for (std::size_t i = layers_.size(); i-- > 0;)
    if (layers_[i].is_mixture && !layers_[i].recomputed) return static_cast<int>(i);
  return -1;
}

void DispatcherVariables::begin_forward() {
  if (!holds_routes_ && of_copy_.value > 0) device_.allocate(Term::saved_activations, of_copy_);
  for (const Layer& each : layers_) {
    if (!each.is_mixture) continue;
    if (!holds_routes_)
      device_.allocate(Term::saved_activations, routes_ + places_);
    else if (in_flight_ > 0 && !each.recomputed)
      earlier_places_[static_cast<std::size_t>(in_flight_) - 1].push_back(
          device_.allocate(Term::saved_activations, places_));
  }
  holds_routes_ = true;
  if (static_cast<std::size_t>(++in_flight_) > earlier_places_.size()) earlier_places_.emplace_back();
}

/// Weights that a recomputed mixture routed by hold on to the graph's input and its gradient, until the next
/// forward routes anew. The gradient is what the layer before runs on: it counts there as long as that runs.
void DispatcherVariables::section(int layer, bool backward) {
  if (backward) return keep_hidden(layer + 1), keep_hidden(layer + 2);
  if (layer >= 0) device_.release(recomputed_[static_cast<std::size_t>(layer)]);
  if (layer >= 0 && layer == last_routed_) device_.release(rows_);
}

void DispatcherVariables::end_backward() {
  if (--in_flight_ > 0) device_.release(earlier_places_[static_cast<std::size_t>(in_flight_) - 1]);
  keep_hidden(0);
  // The graph of the weights that were routed by last begins with the embedding's rows, which hold their
  // gradient.
  if (last_routed_ < 0 || in_flight_ > 0) return;
  for (int each = 0; each < 2; ++each) rows_.push_back(device_.allocate(Term::saved_activations, hidden_));
}

void DispatcherVariables::keep_hidden(int layer) {
  const auto of = static_cast<std::size_t>(layer);
  if (of < layers_.size() && layers_[of].recomputed)
    recomputed_[of].push_back(device_.allocate(Term::saved_activations, hidden_));
}

}  // namespace zplan::megatron
