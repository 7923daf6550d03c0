#pragma once
// CondensedTape is a tape without an allocator: events between two actions of the framework become one delta
// of live memory. It is twenty times shorter and has the same peaks.

#include <array>
#include <vector>

#include "planner/model_trace/play.h"

namespace zplan {

/// MemoryDelta is the live memory of a stretch of the tape, relative to what was live before it.
struct MemoryDelta {
  Composition highest;  ///< at the peak
  Composition net;      ///< at the end
  Bytes highest_total{}, net_total{};
  bool operator==(const MemoryDelta&) const = default;
};

struct CondensedEvent {
  enum class Kind : std::uint8_t {
    delta,
    gradient,
    part_of_gradient,
    summed_gradient,
    module,
    workspace,
    phase,
    communicate,
    await,
    compute,
    reference
  };
  Kind kind{Kind::delta};
  std::int32_t delta{-1};  ///< index of a memory delta
  Event event{};           ///< any other event; a gradient's has its size and term
  bool operator==(const CondensedEvent&) const = default;
};

using CondensedSection = std::vector<CondensedEvent>;

struct CondensedTape {
  std::vector<MemoryDelta> deltas;
  std::vector<Bytes> exchanges;  ///< what the tensor-parallel group exchanges, by the number of the event
  CondensedSection start, head, head_backward, end, weights;  ///< around the layers, as Tape has them
  std::array<CondensedSection, kTransfers> transfers;
  struct Layer {
    CondensedSection forward, backward, weights;
    bool operator==(const Layer&) const = default;
  };
  std::vector<Layer> classes;
  std::vector<std::size_t> layers;
};

/// Gives equal loads of `tape` one number. Layers, and slices of a tiled feed-forward, repeat them.
void share_loads(Tape& tape);

/// Condenses `tape`. Numbers its exchanges, and leaves it otherwise unchanged.
[[nodiscard]] CondensedTape condense(Tape& tape);

/// Plays a condensed tape as TapePlayer plays a tape, with handler.delta(delta, number) for allocate and
/// release, and handler.gradient(layer, parameter, size, term) (part_of_gradient) where the gradient's memory
/// is the framework's from here on.
template <class Handler>
class CondensedPlayer {
 public:
  CondensedPlayer(const CondensedTape& tape, Handler& handler)
      : tape_(tape), handler_(handler), layers_(static_cast<int>(tape.layers.size())) {}

  void forward() {
    handler_.phase(Phase::forward);
    section(tape_.start, -1, false);
    for (int i = 0; i < layers_; ++i) section(part(i).forward, i, false);
    section(tape_.head, -1, false);
  }
  void backward() {
    events(tape_.head_backward, -1);
    for (int i = layers_; i-- > 0;) section(part(i).backward, i, true);
    section(tape_.end, -1, true);
  }
  void weights() {
    if constexpr (requires { handler_.begin_weights(); }) handler_.begin_weights();
    for (int i = 0; i < layers_; ++i) section(part(i).weights, i, true);
    section(tape_.weights, -1, true);
  }
  void transfer(Transfer which) { events(tape_.transfers[static_cast<std::size_t>(which)], -1); }

 private:
  void section(const CondensedSection& of, int layer, bool backward) {
    handler_.section(layer, backward);
    events(of, layer);
  }
  void events(const CondensedSection& of, int layer) {
    for (const CondensedEvent& each : of) {
      switch (each.kind) {
        case CondensedEvent::Kind::delta:
          handler_.delta(tape_.deltas[static_cast<std::size_t>(each.delta)], each.delta);
          break;
        case CondensedEvent::Kind::gradient:
          handler_.gradient(named_layer(each.event.index_part, layer, layers_), each.event.index,
                            each.event.size, each.event.term);
          break;
        case CondensedEvent::Kind::module:
          handler_.module(each.event, named_layer(each.event.index_part, layer, layers_));
          break;
        case CondensedEvent::Kind::part_of_gradient:
          handler_.part_of_gradient(named_layer(each.event.index_part, layer, layers_), each.event.index,
                                    each.event.size, each.event.term);
          break;
        case CondensedEvent::Kind::summed_gradient:
          if constexpr (requires { handler_.summed_gradient(0, std::int32_t{}); })
            handler_.summed_gradient(named_layer(each.event.index_part, layer, layers_), each.event.index);
          break;
        case CondensedEvent::Kind::workspace: handler_.workspace(each.event.index); break;
        case CondensedEvent::Kind::phase: handler_.phase(static_cast<Phase>(each.event.index)); break;
        case CondensedEvent::Kind::communicate:
          if constexpr (requires { handler_.communicate(TensorCall{}, Bytes{}, std::int32_t{}); })
            handler_.communicate(static_cast<TensorCall>(each.event.index), each.event.size,
                                 each.event.block);
          break;
        case CondensedEvent::Kind::await:
          if constexpr (requires { handler_.await(TensorCall{}); })
            handler_.await(static_cast<TensorCall>(each.event.index));
          break;
        case CondensedEvent::Kind::compute:
          if constexpr (requires { handler_.compute(std::int32_t{}); }) handler_.compute(each.event.index);
          break;
        case CondensedEvent::Kind::reference:
          if constexpr (requires { handler_.reference(std::int32_t{}); })
            handler_.reference(each.event.index);
          break;
      }
    }
  }
  [[nodiscard]] const CondensedTape::Layer& part(int layer) const {
    return tape_.classes[tape_.layers[static_cast<std::size_t>(layer)]];
  }

  const CondensedTape& tape_;
  Handler& handler_;
  int layers_;
};

template <class Handler>
void play_forward(const CondensedTape& tape, Handler& handler) {
  CondensedPlayer<Handler>(tape, handler).forward();
}
template <class Handler>
void play_backward(const CondensedTape& tape, Handler& handler) {
  CondensedPlayer<Handler>(tape, handler).backward();
}
template <class Handler>
void play_weights(const CondensedTape& tape, Handler& handler) {
  CondensedPlayer<Handler>(tape, handler).weights();
}
template <class Handler>
void play_transfer(const CondensedTape& tape, Transfer which, Handler& handler) {
  CondensedPlayer<Handler>(tape, handler).transfer(which);
}
/// Both passes.
template <class Handler>
void play(const CondensedTape& tape, Handler& handler) {
  play_forward(tape, handler);
  play_backward(tape, handler);
}

}  // namespace zplan
