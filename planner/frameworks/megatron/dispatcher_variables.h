#pragma once
// DispatcherVariables are what Python variables of Megatron-Core's token dispatchers, and the graphs of
// recomputed mixtures, hold of tokens that were routed. Source: Megatron-Core 0.19.2
// core/transformer/moe/token_dispatcher.py; compared with recorded steps (docs/megatron.md).

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/simulation/device.h"

namespace zplan {
struct RunInputs;
struct Training;
}  // namespace zplan

namespace zplan::megatron {

/// True if the graph of the model's first stage begins with the rows of a frozen embedding, which hold their
/// gradient as long as anything holds the graph.
[[nodiscard]] bool begins_with_rows(const Training& training);

class DispatcherVariables {
 public:
  /// Takes the layers of the rank. `hidden`: the size of hidden states between layers.
  DispatcherVariables(Device& device, const RunInputs& inputs, Bytes hidden);

  /// Routes a micro-batch's tokens. Places are kept for its backward: those of the micro-batch that came last
  /// are the dispatcher's.
  void begin_forward();
  void section(int layer, bool backward);
  void end_backward();
  /// Returns how many of the rank's layers have experts.
  [[nodiscard]] std::int64_t mixtures() const {
    return std::ranges::count(layers_, true, &Layer::is_mixture);
  }

 private:
  void keep_hidden(int layer);
  [[nodiscard]] int last_kept() const;

  Device& device_;
  Bytes hidden_, routes_, places_;
  Bytes of_copy_;  ///< of the dispatchers of a frozen copy of the model, or of a teacher
  struct Layer {
    bool is_mixture{}, recomputed{};
  };
  std::vector<Layer> layers_;
  int last_routed_{-1};              ///< the layer whose routes hold rows of a frozen embedding to the end
  std::vector<Device::Block> rows_;  ///< these rows and their gradient
  bool holds_routes_{};              ///< variables hold what was routed last
  std::int64_t in_flight_{};         ///< micro-batches whose backward is still to come
  std::vector<std::vector<Device::Block>>
      earlier_places_;                                  ///< of those in flight but for the last, by number
  std::vector<std::vector<Device::Block>> recomputed_;  ///< hidden states of recomputed mixtures, by layer
};

}  // namespace zplan::megatron
