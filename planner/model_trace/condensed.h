#pragma once
// A tape for questions that need no allocator: what happens between two of the framework's steps becomes one
// memory delta of live memory. Twenty times shorter, with the same peaks.

#include <vector>

#include "planner/model_trace/play.h"

namespace zplan {

/// Live memory of a stretch of the tape, against what was live before it.
struct MemoryDelta {
  Composition highest;  ///< at its highest
  Composition net;      ///< behind it
  Bytes highest_total{}, net_total{};
  bool operator==(const MemoryDelta&) const = default;
};

struct CondensedEvent {
  enum class Kind : std::uint8_t {
    delta,
    gradient,
    part_of_gradient,
    module,
    workspace,
    phase,
    communicate,
    await,
    compute,
    reference
  };
  Kind kind{Kind::delta};
  std::int32_t delta{-1};  ///< into the tape's memory deltas
  Event event{};           ///< of the other kinds; a gradient's carries its size and term
  bool operator==(const CondensedEvent&) const = default;
};

using CondensedSection = std::vector<CondensedEvent>;

struct CondensedTape {
  std::vector<MemoryDelta> deltas;
  std::vector<Bytes> exchanges;  ///< what the tensor-parallel group exchanges, by the number of the event
  CondensedSection start, head,
      end;  ///< around the layers: before them, between forward and backward, behind
  struct Layer {
    CondensedSection forward, backward;
    bool operator==(const Layer&) const = default;
  };
  std::vector<Layer> classes;
  std::vector<std::size_t> layers;
};

/// Numbers the exchanges of `tape`, which is else as it was when this returns.
[[nodiscard]] CondensedTape condense(Tape& tape);

/// As play() of a whole tape, with handler.delta(delta, number) for allocate and release, and
/// handler.gradient(layer, parameter, size, term) (part_of_gradient) where the gradient's memory is the
/// framework's from here on.
template <class Handler>
void play(const CondensedTape& tape, Handler& handler) {
  const int layers = static_cast<int>(tape.layers.size());
  const auto section = [&](const CondensedSection& part, int layer, bool backward) {
    handler.section(layer, backward);
    for (const CondensedEvent& each : part) {
      switch (each.kind) {
        case CondensedEvent::Kind::delta:
          handler.delta(tape.deltas[static_cast<std::size_t>(each.delta)], each.delta);
          break;
        case CondensedEvent::Kind::gradient:
          handler.gradient(named_layer(each.event.index_part, layer, layers), each.event.index,
                           each.event.size, each.event.term);
          break;
        case CondensedEvent::Kind::module:
          handler.module(each.event, named_layer(each.event.index_part, layer, layers));
          break;
        case CondensedEvent::Kind::part_of_gradient:
          handler.part_of_gradient(named_layer(each.event.index_part, layer, layers), each.event.index,
                                   each.event.size, each.event.term);
          break;
        case CondensedEvent::Kind::workspace: handler.workspace(each.event.index); break;
        case CondensedEvent::Kind::phase: handler.phase(static_cast<Phase>(each.event.index)); break;
        case CondensedEvent::Kind::communicate:
          if constexpr (requires { handler.communicate(TensorCall{}, Bytes{}, std::int32_t{}); })
            handler.communicate(static_cast<TensorCall>(each.event.index), each.event.size, each.event.block);
          break;
        case CondensedEvent::Kind::await:
          if constexpr (requires { handler.await(TensorCall{}); })
            handler.await(static_cast<TensorCall>(each.event.index));
          break;
        case CondensedEvent::Kind::compute:
          if constexpr (requires { handler.compute(std::int32_t{}); }) handler.compute(each.event.index);
          break;
        case CondensedEvent::Kind::reference:
          if constexpr (requires { handler.reference(std::int32_t{}); }) handler.reference(each.event.index);
          break;
      }
    }
  };
  const auto part = [&](int i) -> const CondensedTape::Layer& {
    return tape.classes[tape.layers[static_cast<std::size_t>(i)]];
  };
  handler.phase(Phase::forward);
  section(tape.start, -1, false);
  for (int i = 0; i < layers; ++i) section(part(i).forward, i, false);
  section(tape.head, -1, false);
  for (int i = layers; i-- > 0;) section(part(i).backward, i, true);
  section(tape.end, -1, true);
}

}  // namespace zplan
