#pragma once
// Plays a tape over all layers of the model: events in order, with every block under one number.

#include <vector>

#include "planner/model_trace/tape.h"

namespace zplan {

/// The layer that `part` names, as seen from layer `layer` of `layers`; −1: around the layers.
[[nodiscard]] inline int named_layer(std::int32_t part, int layer, int layers) {
  if (part == kOwnPart) return layer;
  if (part == kAroundLayers) return -1;
  if (layer >= 0) return layer + part;
  return part >= 0 ? part : layers + part;
}

/// Blocks of the whole micro-step, numbered 0 … blocks − 1.
class TapeLayout {
 public:
  explicit TapeLayout(const Tape& tape) : tape_(tape) {
    starts_.reserve(tape.layers.size());
    std::int32_t next = tape.model.blocks;
    for (const std::size_t each : tape.layers) starts_.push_back(next), next += tape.classes[each].blocks;
    blocks_ = next;
  }
  [[nodiscard]] std::int32_t blocks() const { return blocks_; }

  /// The number of the block that `event` names in layer `layer` (−1: before or behind the layers; `behind`
  /// tells which).
  [[nodiscard]] std::int32_t block(const Event& event, int layer, bool behind) const {
    const int last = static_cast<int>(tape_.layers.size()) - 1;
    switch (event.owner) {
      case Owner::here: return (layer < 0 ? 0 : start(layer)) + event.block;
      case Owner::model: return event.block;
      case Owner::previous_output: {
        const int before = layer < 0 ? last : layer - 1;
        return start(before) + part(before).output;
      }
      case Owner::other_part: {
        const int other = named_layer(event.block_part, layer, last + 1);
        return (other < 0 ? 0 : start(other)) + event.block;
      }
      case Owner::next_gradient: {
        const int next = layer < 0 && behind ? 0 : layer + 1;
        return start(next) + part(next).gradient;
      }
    }
    return -1;
  }

 private:
  [[nodiscard]] std::int32_t start(int layer) const { return starts_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] const TapePart& part(int layer) const {
    return tape_.classes[tape_.layers[static_cast<std::size_t>(layer)]];
  }

  const Tape& tape_;
  std::vector<std::int32_t> starts_;
  std::int32_t blocks_{};
};

/// Calls, in order:
///   handler.section(layer, backward)      a layer begins (−1: around the layers)
///   handler.allocate(block, term, size), handler.release(block)
///   handler.gradient(layer, parameter, block)  the block is that parameter's gradient from here on
///   handler.part_of_gradient(layer, parameter, block)  likewise, and more of it follows
///   handler.module(event, layer)          modules are entered and left, parameters read, kept and freed
///   handler.workspace(0 or 1)             cuBLAS or cuBLASLt makes a workspace that stays
///   handler.phase(phase)
///   handler.communicate(call, size, number) ranks exchange, where the handler has it
///   handler.await(call)                   what follows needs the last of these, where the handler has it
///   handler.reference(index)              as Event::Kind::reference, where the handler has it
///   handler.compute(load)                 load `load` of the tape runs from here on, where the handler has
///   it
template <class Handler>
void play(const Tape& tape, const TapeLayout& layout, Handler& handler) {
  const int layers = static_cast<int>(tape.layers.size());
  const auto ending = [&](std::size_t which) {
    for (int i = 0; i < static_cast<int>(tape.layers.size()); ++i)
      for (const Event& event : tape.classes[tape.layers[static_cast<std::size_t>(i)]].endings[which])
        handler.release(layout.block(event, i, false));
  };
  const auto section = [&](const std::vector<Event>& events, int layer, bool backward) {
    handler.section(layer, backward);
    for (const Event& event : events) {
      switch (event.kind) {
        case Event::Kind::allocate:
          handler.allocate(layout.block(event, layer, backward), event.term, event.size);
          break;
        case Event::Kind::release: handler.release(layout.block(event, layer, backward)); break;
        case Event::Kind::adopt_gradient:
          handler.gradient(named_layer(event.index_part, layer, layers), event.index,
                           layout.block(event, layer, backward));
          break;
        case Event::Kind::add_gradient:
          handler.part_of_gradient(layer, event.index, layout.block(event, layer, backward));
          break;
        case Event::Kind::workspace: handler.workspace(event.index); break;
        case Event::Kind::phase: handler.phase(static_cast<Phase>(event.index)); break;
        case Event::Kind::communicate:
          if constexpr (requires { handler.communicate(TensorCall{}, Bytes{}, std::int32_t{}); })
            handler.communicate(static_cast<TensorCall>(event.index), event.size, event.block);
          break;
        case Event::Kind::await:
          if constexpr (requires { handler.await(TensorCall{}); })
            handler.await(static_cast<TensorCall>(event.index));
          break;
        case Event::Kind::compute:
          if constexpr (requires { handler.compute(std::int32_t{}); }) handler.compute(event.index);
          break;
        case Event::Kind::reference:
          if constexpr (requires { handler.reference(std::int32_t{}); }) handler.reference(event.index);
          break;
        case Event::Kind::end_layers: ending(static_cast<std::size_t>(event.index)); break;
        default: handler.module(event, named_layer(event.index_part, layer, layers));
      }
    }
  };
  const auto part = [&](int i) -> const TapePart& {
    return tape.classes[tape.layers[static_cast<std::size_t>(i)]];
  };
  handler.phase(Phase::forward);
  section(tape.model.forward, -1, false);
  for (int i = 0; i < layers; ++i) section(part(i).forward, i, false);
  section(tape.head, -1, false);
  for (int i = layers; i-- > 0;) section(part(i).backward, i, true);
  section(tape.model.backward, -1, true);
}

}  // namespace zplan
