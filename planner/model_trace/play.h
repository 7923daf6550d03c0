#pragma once
// Runs a tape's passes over all layers of the model: events in order, with every block under one number.

#include <vector>

#include "planner/model_trace/tape.h"

namespace zplan {

/// Returns the layer that `part` names, seen from layer `layer` of `layers`; −1: around the layers.
[[nodiscard]] inline int named_layer(std::int32_t part, int layer, int layers) {
  if (part == kOwnPart) return layer;
  if (part == kAroundLayers) return -1;
  if (layer >= 0) return layer + part;
  return part >= 0 ? part : layers + part;
}

/// TapeLayout numbers the blocks of the whole micro-step 0 … blocks − 1.
class TapeLayout {
 public:
  explicit TapeLayout(const Tape& tape) : tape_(tape) {
    starts_.reserve(tape.layers.size());
    std::int32_t next = tape.model.blocks;
    for (const std::size_t each : tape.layers) starts_.push_back(next), next += tape.classes[each].blocks;
    blocks_ = next;
  }
  [[nodiscard]] std::int32_t blocks() const { return blocks_; }

  /// Returns the number of the block that `event` names in layer `layer`; −1: before the layers, or after
  /// them where `behind` is set.
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

/// Runs sections of a tape for a handler, whose functions are
///   handler.section(layer, backward)      a layer begins (−1: around the layers)
///   handler.allocate(block, term, size), handler.release(block)
///   handler.gradient(layer, parameter, block)  the block is that parameter's gradient from here on
///   handler.part_of_gradient(layer, parameter, block)  the same, and more of it follows
///   handler.summed_gradient(layer, parameter)  (where the handler has it) a product added that gradient to
///   the
///                                         framework's sums
///   handler.module(event, layer)          modules are entered and left, parameters read, kept and freed
///   handler.workspace(0 or 1)             cuBLAS or cuBLASLt makes a workspace that stays
///   handler.phase(phase)
/// and, where the handler has them,
///   handler.begin_backward()              the backward pass begins
///   handler.begin_weights()               the second part of a backward in two parts begins
///   handler.communicate(call, size, number)  ranks exchange
///   handler.await(call)                   what follows needs the last of these
///   handler.reference(index)              as Event::Kind::reference
///   handler.compute(load)                 load `load` of the tape runs from here on
template <class Handler>
class TapePlayer {
 public:
  TapePlayer(const Tape& tape, const TapeLayout& layout, Handler& handler)
      : tape_(tape), layout_(layout), handler_(handler), layers_(static_cast<int>(tape.layers.size())) {}

  void forward() {
    handler_.phase(Phase::forward);
    section(tape_.model.forward, -1, false);
    for (int i = 0; i < layers_; ++i) section(part(i).forward, i, false);
    section(tape_.head, -1, false);
  }
  void backward() {
    if constexpr (requires { handler_.begin_backward(); }) handler_.begin_backward();
    events(tape_.head_backward, -1, false);
    for (int i = layers_; i-- > 0;) section(part(i).backward, i, true);
    section(tape_.model.backward, -1, true);
  }
  void weights() {
    if constexpr (requires { handler_.begin_weights(); }) handler_.begin_weights();
    for (int i = 0; i < layers_; ++i) section(part(i).weights, i, true);
    section(tape_.model.weights, -1, true);
  }
  void transfer(Transfer which) {
    // The gradient that the first layer left is sent back.
    events(tape_.transfers[static_cast<std::size_t>(which)], -1, which == Transfer::send_gradient);
  }

 private:
  void section(const std::vector<Event>& of, int layer, bool backward) {
    handler_.section(layer, backward);
    events(of, layer, backward);
  }
  void events(const std::vector<Event>& of, int layer, bool backward) {
    for (const Event& event : of) {
      switch (event.kind) {
        case Event::Kind::allocate:
          handler_.allocate(layout_.block(event, layer, backward), event.term, event.size);
          break;
        case Event::Kind::release: handler_.release(layout_.block(event, layer, backward)); break;
        case Event::Kind::adopt_gradient:
          handler_.gradient(named_layer(event.index_part, layer, layers_), event.index,
                            layout_.block(event, layer, backward));
          break;
        case Event::Kind::add_gradient:
          handler_.part_of_gradient(layer, event.index, layout_.block(event, layer, backward));
          break;
        case Event::Kind::summed_gradient:
          if constexpr (requires { handler_.summed_gradient(0, std::int32_t{}); })
            handler_.summed_gradient(named_layer(event.index_part, layer, layers_), event.index);
          break;
        case Event::Kind::workspace: handler_.workspace(event.index); break;
        case Event::Kind::phase: handler_.phase(static_cast<Phase>(event.index)); break;
        case Event::Kind::communicate:
          if constexpr (requires { handler_.communicate(TensorCall{}, Bytes{}, std::int32_t{}); })
            handler_.communicate(static_cast<TensorCall>(event.index), event.size, event.block);
          break;
        case Event::Kind::await:
          if constexpr (requires { handler_.await(TensorCall{}); })
            handler_.await(static_cast<TensorCall>(event.index));
          break;
        case Event::Kind::compute:
          if constexpr (requires { handler_.compute(std::int32_t{}); }) handler_.compute(event.index);
          break;
        case Event::Kind::reference:
          if constexpr (requires { handler_.reference(std::int32_t{}); }) handler_.reference(event.index);
          break;
        case Event::Kind::end_layers: end_layers(static_cast<std::size_t>(event.index)); break;
        default: handler_.module(event, named_layer(event.index_part, layer, layers_));
      }
    }
  }
  void end_layers(std::size_t which) {
    for (int i = 0; i < layers_; ++i)
      for (const Event& event : part(i).endings[which]) handler_.release(layout_.block(event, i, false));
  }
  [[nodiscard]] const TapePart& part(int layer) const {
    return tape_.classes[tape_.layers[static_cast<std::size_t>(layer)]];
  }

  const Tape& tape_;
  const TapeLayout& layout_;
  Handler& handler_;
  int layers_;
};

template <class Handler>
void play_forward(const Tape& tape, const TapeLayout& layout, Handler& handler) {
  TapePlayer<Handler>(tape, layout, handler).forward();
}
template <class Handler>
void play_backward(const Tape& tape, const TapeLayout& layout, Handler& handler) {
  TapePlayer<Handler>(tape, layout, handler).backward();
}
/// The second part of a backward in two parts.
template <class Handler>
void play_weights(const Tape& tape, const TapeLayout& layout, Handler& handler) {
  TapePlayer<Handler>(tape, layout, handler).weights();
}
template <class Handler>
void play_transfer(const Tape& tape, const TapeLayout& layout, Transfer which, Handler& handler) {
  TapePlayer<Handler>(tape, layout, handler).transfer(which);
}
/// Both passes.
template <class Handler>
void play(const Tape& tape, const TapeLayout& layout, Handler& handler) {
  play_forward(tape, layout, handler);
  play_backward(tape, layout, handler);
}

}  // namespace zplan
