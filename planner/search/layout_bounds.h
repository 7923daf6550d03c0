#pragma once
// What training in a layout takes at least, by sums over the layers of each stage. Layouts that share a part
// of the model share its recording; no run is simulated for a layout.

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "planner/plan/plan_context.h"
#include "planner/search/explore.h"

namespace zplan {

/// LayoutBounds computes bounds for layouts of one question. Its functions may be called from several threads
/// at once.
///
/// A step of a stage takes the forwards of the stages before it, all of its own passes, and the backwards of
/// the stages before it behind the last of them. A pass takes the compute stream's own work and the
/// exchanges that it waits for; transfers between stages, data-parallel collectives and the optimizer are
/// left out. Nor is a step over before the host has issued all kernels of its passes.
class LayoutBounds {
 public:
  explicit LayoutBounds(PlanContext& context) : context_(context) {}
  /// Returns the bound of a legal strategy whose batch is set.
  [[nodiscard]] LayoutBound of(const Strategy& strategy);

 private:
  /// One layer, or what stands around the layers, of one micro-batch.
  struct Piece {
    Seconds forward, backward;
    Seconds issuing;  ///< what the host takes for both passes
    Bytes saved;      ///< between its forward and its backward
    Bytes output;     ///< of that, the hidden states that it passes on
  };
  /// The whole model, of which stages have parts.
  struct Pieces {
    std::vector<Piece> layers;
    Piece start, end;  ///< embedding; final norm, head and loss
  };
  /// Sums of what one stage runs for a micro-batch.
  struct StageSums {
    Seconds first_forward, first_backward;  ///< of its first chunk of layers
    Seconds all;                            ///< of all chunks
    Seconds issuing;                        ///< likewise, on the host
  };
  struct Stages {
    std::vector<StageSums> sums;
    std::vector<Bytes> saved;  ///< by each chunk of the first stage
  };
  /// What the order of the first stage's step depends on.
  struct OrderKey {
    ParallelLayout of_model;
    std::int64_t micro_batches{};
    std::optional<TitanOptions> torchtitan{};
    std::int64_t group{};
    auto operator<=>(const OrderKey&) const = default;
  };
  /// InStep holds what the first stage has at a moment of its step, by chunk of layers.
  struct InStep {
    std::vector<std::int64_t> in_flight;  ///< micro-batches between forward and backward
    std::vector<std::int64_t> sums;       ///< 1 where there are sums of gradients that were not reduced yet
    std::vector<std::int64_t> gathered;   ///< 1 where FSDP2 has its parameters whole
    auto operator<=>(const InStep&) const = default;
  };
  struct Order {
    std::vector<InStep> fullest;  ///< none has as many of each as another
    bool splits_backward{};  ///< gradients of weights come behind those of inputs, beside other stages' work
  };
  struct States {
    Bytes held;
    std::vector<Elements> trainable;   ///< by chunk of layers
    std::vector<Elements> gatherable;  ///< of that, what all shards' ranks gather: experts may be on fewer
  };
  /// What states of the first stage depend on.
  struct StatesKey {
    TapeKey part;
    std::int64_t shard{}, replicate{};
    int zero_stage{};
    auto operator<=>(const StatesKey&) const = default;
  };
  template <class Value>
  struct Once {
    std::once_flag flag;
    Value value;
  };
  /// Returns the value of `key`, which the first thread to ask for it makes.
  template <class Key, class Value, class Make>
  [[nodiscard]] const Value& known(std::map<Key, Once<Value>>& all, const Key& key, const Make& make) {
    Once<Value>& slot = [&]() -> Once<Value>& {
      const std::lock_guard lock(mutex_);
      return all[key];
    }();
    std::call_once(slot.flag, [&] { slot.value = make(); });
    return slot.value;
  }

  [[nodiscard]] Pieces pieces(Strategy strategy);
  [[nodiscard]] Stages stages(const Pieces& whole, const Strategy& strategy) const;
  [[nodiscard]] Order order(const Strategy& strategy);
  [[nodiscard]] const Order& order_of(const Strategy& strategy);
  [[nodiscard]] States states(const Strategy& strategy);
  [[nodiscard]] Bytes kept_whole(const Strategy& strategy, const States& states, const Order& order,
                                 const InStep& at) const;
  [[nodiscard]] Bytes most_held(const Strategy& strategy, const States& states, const Stages& stages,
                                const Order& order) const;
  static void add_moment(std::vector<InStep>& all, const InStep& now);

  PlanContext& context_;
  std::mutex mutex_;  ///< of the maps; what they hold does not move
  std::map<TapeKey, Once<Pieces>> pieces_;
  std::map<TapeKey, Once<Stages>> stages_;
  std::map<OrderKey, Once<Order>> orders_;
  std::map<StatesKey, Once<States>> states_;
};

}  // namespace zplan
