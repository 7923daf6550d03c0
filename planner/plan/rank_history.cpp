#include "planner/plan/rank_history.h"

#include <map>
#include <string_view>
#include <utility>

#include "hardware_profiles/cluster.h"
#include "planner/plan/rank_run.h"

namespace zplan {

namespace {

constexpr std::string_view kLayerNumber = "{}";

/// Names of a rank's tensors, and of the modules of its tape.
class ModuleNames {
 public:
  explicit ModuleNames(const RankRun& run)
      : recording_(run.recording()), ends_(run.place().stage == 0 ? 0 : recording_.chunks() - 1) {
    std::vector<std::string> base;
    for_each_tensor(run.model().inventory, [&](const Tensor& tensor, int layer) {
      note_prefix(tensor.name, layer);
      base.push_back(numbered(tensor.name, layer));
    });
    std::size_t next = 0;
    for (const RankTensor& each : run.rank().tensors) {
      const bool is_base = !each.added && !each.of_values && next < base.size();
      const std::string part = each.layer >= 0 ? prefix(each.layer) : std::string("model");
      names_[each.layer].push_back(is_base      ? base[next++]
                                   : each.added ? part + " (adapters).weight"
                                                : part + " (model of values).weight");
    }
  }

  /// "model.layers.3.mlp.down_proj", or "model.layers.3 (attention)" of a module without parameters.
  [[nodiscard]] std::string operator()(const BlockCause& cause) const {
    const ModulePlace& place = cause.module;
    const TapePart* part = part_of(place);
    if (part == nullptr) return cause.layer >= 0 ? prefix(cause.layer) : std::string();
    const TapeModule& module = part->modules[static_cast<std::size_t>(place.number)];
    if (!module.own.empty())
      if (const std::string* tensor = tensor_of(place.layer, module.own.front())) return path_of(*tensor);
    // "adapted model.layers.{}.mlp.down_proj.weight"
    if (const std::size_t tensor = module.name.rfind(' ');
        module.name.find(kLayerNumber) != std::string::npos)
      return path_of(numbered(module.name.substr(tensor + 1), place.layer)) + " (" +
             module.name.substr(0, tensor) + ")";
    const std::string inside = place.layer >= 0 ? prefix(place.layer) : std::string("model");
    return module.name.empty() || module.name == "layer" ? inside : inside + " (" + module.name + ")";
  }

 private:
  static std::string numbered(std::string name, int layer) {
    const std::size_t at = name.find(kLayerNumber);
    if (layer >= 0 && at != std::string::npos) name.replace(at, kLayerNumber.size(), std::to_string(layer));
    return name;
  }
  void note_prefix(const std::string& name, int layer) {
    const std::size_t at = name.find(kLayerNumber);
    if (layer >= 0 && at != std::string::npos) layers_ = name.substr(0, at);
  }
  [[nodiscard]] std::string prefix(int layer) const { return layers_ + std::to_string(layer); }
  /// The module that holds a tensor: its name without the last part.
  [[nodiscard]] static std::string path_of(const std::string& tensor) {
    return tensor.substr(0, tensor.rfind('.'));
  }
  [[nodiscard]] const TapePart* part_of(const ModulePlace& place) const {
    if (place.number < 0) return nullptr;
    const TapePart* part = place.layer < 0 ? &recording_.chunk(ends_).tape.model : layer_at(place.layer);
    const bool has_module = part != nullptr && static_cast<std::size_t>(place.number) < part->modules.size();
    return has_module ? part : nullptr;
  }
  /// Layers of one chunk follow those of the chunk before.
  [[nodiscard]] const TapePart* layer_at(int number) const {
    auto layer = static_cast<std::size_t>(number);
    for (std::size_t i = 0; i < recording_.chunks(); ++i) {
      const Tape& tape = recording_.chunk(i).tape;
      if (layer < tape.layers.size()) return &tape.classes[tape.layers[layer]];
      layer -= tape.layers.size();
    }
    return nullptr;
  }
  [[nodiscard]] const std::string* tensor_of(int layer, std::int32_t index) const {
    const auto of_part = names_.find(layer);
    if (of_part == names_.end() || index < 0) return nullptr;
    const auto at = static_cast<std::size_t>(index);
    return at < of_part->second.size() ? &of_part->second[at] : nullptr;
  }

  const Recording& recording_;
  std::size_t ends_;                               ///< the chunk that has what stands around the layers
  std::map<int, std::vector<std::string>> names_;  ///< by layer, −1 around the layers
  std::string layers_{"layers."};
};

}  // namespace

RankHistory rank_history(const Model& model, const Cluster& cluster, const Training& training,
                         const Plan& plan) {
  return rank_history(model, cluster, plan.training.value_or(training), plan.strategy, plan.neediest().place);
}

RankHistory rank_history(const Model& model, const Cluster& cluster, const Training& training,
                         const Strategy& strategy, const RankClass& place) {
  Training named = training;
  named.names_modules = true;
  const RankRun run(model, named, strategy, RankRun::target_of(cluster), place);
  RunInputs inputs = run.inputs();
  const std::optional<Flattening> start = flattening_of(inputs);
  inputs.flattens_on_host = start && cluster.usable_memory < start->gpu;
  std::vector<BlockRequest> requests;
  inputs.requests = &requests;
  const RunResult played = simulate(inputs);
  RankHistory history{.place = run.place(),
                      .memory = memory_history(played.asked, requests, allocator_options(named)),
                      .modules = {}};
  const ModuleNames names(run);
  for (const BlockCause& each : history.memory.causes) history.modules.push_back(names(each));
  return history;
}

}  // namespace zplan
