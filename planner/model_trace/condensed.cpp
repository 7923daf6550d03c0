#include "planner/model_trace/condensed.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <unordered_map>
#include <utility>

namespace zplan {

namespace {

struct Block {
  Term term{};
  Bytes size;
};

std::uint64_t hash_of(std::initializer_list<std::uint64_t> values, std::uint64_t hash = 0) {
  for (const std::uint64_t each : values) hash = (std::rotl(hash, 29) ^ each) * 0x9e3779b97f4a7c15ULL;
  return hash;
}

std::uint64_t hash_of(Bytes size) { return static_cast<std::uint64_t>(size.value); }
std::uint64_t hash_of(Flops work) { return std::bit_cast<std::uint64_t>(work.value); }

std::uint64_t hash_of(const MemoryDelta& delta) {
  return hash_of({hash_of(delta.highest_total), hash_of(delta.net_total)});
}

std::uint64_t hash_of(const Load& load) {
  std::uint64_t hash =
      hash_of({hash_of(load.moved), hash_of(load.attention_forward), hash_of(load.attention_backward),
               static_cast<std::uint64_t>(load.kernels), static_cast<std::uint64_t>(load.operators)});
  for (const Product& each : load.products) hash = hash_of({hash_of(each.flops())}, hash);
  return hash;
}

/// Numbers values so that equal ones have one number: layers, and slices of a tiled feed-forward, repeat
/// them.
template <class T>
class Numbers {
 public:
  /// Returns the number of `value` in `all`, to which it is added where it is new.
  std::int32_t number(const T& value, std::vector<T>& all) {
    std::vector<std::int32_t>& alike = by_hash_[hash_of(value)];
    for (const std::int32_t each : alike)
      if (all[static_cast<std::size_t>(each)] == value) return each;
    alike.push_back(static_cast<std::int32_t>(all.size()));
    all.push_back(value);
    return alike.back();
  }

 private:
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> by_hash_;
};

/// Plays the whole tape once and notes each class's sections at their first layer.
class Condenser {
 public:
  explicit Condenser(const Tape& tape)
      : tape_(tape), layout_(tape), blocks_(static_cast<std::size_t>(layout_.blocks())) {
    result_.layers = tape.layers;
    result_.classes.resize(tape.classes.size());
  }

  CondensedTape take() {
    transfer(Transfer::receive_hidden);
    play_forward(tape_, layout_, *this);
    transfer(Transfer::send_hidden);
    transfer(Transfer::receive_gradient);
    play_backward(tape_, layout_, *this);
    transfer(Transfer::send_gradient);
    if (tape_.is_split) play_weights(tape_, layout_, *this);
    close();
    for (CondensedTape::Layer& each : result_.classes)
      each.forward.shrink_to_fit(), each.backward.shrink_to_fit(), each.weights.shrink_to_fit();
    return std::move(result_);
  }

  void section(int layer, bool backward) {
    close();
    layer_ = layer;
    if (layer < 0) {
      target_ = weights_   ? &result_.weights
                : !begun_  ? &result_.start
                : backward ? &result_.end
                           : &result_.head;
      begun_ = true;
      return;
    }
    CondensedTape::Layer& kind = result_.classes[tape_.layers[static_cast<std::size_t>(layer)]];
    target_ = weights_ ? &kind.weights : backward ? &kind.backward : &kind.forward;
    if (!target_->empty()) target_ = &unwanted_;  // noted already
  }
  void begin_backward() {
    close();
    layer_ = -1, target_ = &result_.head_backward;
  }
  void begin_weights() { weights_ = true; }
  void allocate(std::int32_t block, Term term, Bytes size) {
    blocks_[static_cast<std::size_t>(block)] = {term, size};
    delta_.net[term] += size;
    total_ += size;
    if (total_ > highest_) highest_ = total_, delta_.highest = delta_.net;
    open_ = true;
  }
  void release(std::int32_t block) {
    const Block& gone = blocks_[static_cast<std::size_t>(block)];
    delta_.net[gone.term] -= gone.size;
    total_ -= gone.size;
    open_ = true;
  }
  void gradient(int layer, std::int32_t index, std::int32_t block) {
    give(CondensedEvent::Kind::gradient, Event::Kind::adopt_gradient, layer, index, block);
  }
  void part_of_gradient(int layer, std::int32_t index, std::int32_t block) {
    give(CondensedEvent::Kind::part_of_gradient, Event::Kind::add_gradient, layer, index, block);
  }
  void summed_gradient(int layer, std::int32_t index) {
    mark(CondensedEvent::Kind::summed_gradient,
         {.kind = Event::Kind::summed_gradient, .index = index, .index_part = part_of(layer)});
  }
  void module(const Event& event, int) { mark(CondensedEvent::Kind::module, event); }
  void workspace(std::int32_t library) {
    mark(CondensedEvent::Kind::workspace, {.kind = Event::Kind::workspace, .index = library});
  }
  /// Nothing is made or freed: the memory delta that it falls into goes on.
  void communicate(TensorCall call, Bytes size, std::int32_t number) {
    target_->push_back({CondensedEvent::Kind::communicate,
                        -1,
                        {.kind = Event::Kind::communicate,
                         .block = number,
                         .index = static_cast<std::int32_t>(call),
                         .size = size}});
  }
  void await(TensorCall call) {
    target_->push_back({CondensedEvent::Kind::await,
                        -1,
                        {.kind = Event::Kind::await, .index = static_cast<std::int32_t>(call)}});
  }
  void compute(std::int32_t load) {
    target_->push_back({CondensedEvent::Kind::compute, -1, {.kind = Event::Kind::compute, .index = load}});
  }
  void reference(std::int32_t index) {
    mark(CondensedEvent::Kind::reference, {.kind = Event::Kind::reference, .index = index});
  }
  void phase(Phase phase) {
    if (!begun_) return;  // play() itself begins with the forward
    mark(CondensedEvent::Kind::phase,
         {.kind = Event::Kind::phase, .index = static_cast<std::int32_t>(phase)});
  }

 private:
  void transfer(Transfer which) {
    close();
    layer_ = -1, target_ = &result_.transfers[static_cast<std::size_t>(which)];
    play_transfer(tape_, layout_, which, *this);
    close();
  }
  void give(CondensedEvent::Kind kind, Event::Kind event, int layer, std::int32_t index, std::int32_t block) {
    const Block& given = blocks_[static_cast<std::size_t>(block)];
    mark(kind, {.kind = event,
                .term = given.term,
                .index = index,
                .size = given.size,
                .index_part = part_of(layer)});
  }
  /// A layer as the section that is played names it.
  [[nodiscard]] std::int32_t part_of(int layer) const {
    if (layer == layer_) return kOwnPart;
    if (layer < 0) return kAroundLayers;
    if (layer_ >= 0) return layer - layer_;
    const int layers = static_cast<int>(tape_.layers.size());
    return layer >= layers || 2 * layer < layers ? layer : layer - layers;
  }
  void mark(CondensedEvent::Kind kind, Event event) {
    close();
    target_->push_back({kind, -1, event});
  }
  void close() {
    if (open_ && target_ != &unwanted_) {
      delta_.highest_total = delta_.highest.total(), delta_.net_total = delta_.net.total();
      target_->push_back({CondensedEvent::Kind::delta, deltas_.number(delta_, result_.deltas), {}});
    }
    delta_ = {}, total_ = {}, highest_ = {}, open_ = false;
  }

  const Tape& tape_;
  TapeLayout layout_;
  std::vector<Block> blocks_;
  CondensedTape result_;
  CondensedSection unwanted_;
  CondensedSection* target_{&unwanted_};
  bool begun_{}, open_{}, weights_{};
  int layer_{-1};  ///< that is played
  MemoryDelta delta_;
  Numbers<MemoryDelta> deltas_;
  Bytes total_{}, highest_{};
};

}  // namespace

namespace {

/// True if a part names others than its neighbours.
bool names_far_parts(const Tape& tape) {
  const auto is_near = [](std::int32_t part) {
    return part == kOwnPart || part == kAroundLayers || (part >= -1 && part <= 1);
  };
  const auto any_far = [&](const std::vector<Event>& events) {
    return std::any_of(events.begin(), events.end(), [&](const Event& each) {
      return !is_near(each.index_part) || !is_near(each.block_part);
    });
  };
  return any_far(tape.model.forward) || any_far(tape.head) || any_far(tape.head_backward) ||
         any_far(tape.model.backward) ||
         std::any_of(tape.classes.begin(), tape.classes.end(),
                     [&](const TapePart& each) { return any_far(each.forward) || any_far(each.backward); });
}

/// Equal layers in a row, but for two of them, tell nothing new: their sections are noted once. Not so where
/// the head frees something of every layer.
std::vector<std::size_t> telling_layers(const Tape& tape) {
  const bool freed_together = std::any_of(tape.classes.begin(), tape.classes.end(), [](const TapePart& part) {
    return std::ranges::any_of(part.endings, [](const auto& each) { return !each.empty(); });
  });
  if (freed_together || names_far_parts(tape)) return tape.layers;
  std::vector<std::size_t> layers;
  for (const std::size_t each : tape.layers) {
    const std::size_t n = layers.size();
    if (n < 2 || layers[n - 1] != each || layers[n - 2] != each) layers.push_back(each);
  }
  return layers;
}

template <class F>
void for_each_event(Tape& tape, const F& call) {
  const auto all = [&](std::vector<Event>& events) { std::for_each(events.begin(), events.end(), call); };
  for (std::vector<Event>* each :
       {&tape.model.forward, &tape.head, &tape.head_backward, &tape.model.backward, &tape.model.weights})
    all(*each);
  for (std::vector<Event>& each : tape.transfers) all(each);
  for (TapePart& each : tape.classes) all(each.forward), all(each.backward), all(each.weights);
}

/// Their sizes, by number.
std::vector<Bytes> number_exchanges(Tape& tape) {
  std::vector<Bytes> sizes;
  for_each_event(tape, [&](Event& each) {
    if (each.kind != Event::Kind::communicate) return;
    each.block = static_cast<std::int32_t>(sizes.size());
    sizes.push_back(each.size);
  });
  return sizes;
}

}  // namespace

void share_loads(Tape& tape) {
  std::vector<Load> shared;
  Numbers<Load> numbers;
  for_each_event(tape, [&](Event& each) {
    if (each.kind != Event::Kind::compute) return;
    each.index = numbers.number(tape.loads[static_cast<std::size_t>(each.index)], shared);
  });
  tape.loads = std::move(shared);
}

CondensedTape condense(Tape& tape) {
  std::vector<Bytes> exchanges = number_exchanges(tape);
  const std::vector<std::size_t> all = std::exchange(tape.layers, telling_layers(tape));
  CondensedTape result = Condenser(tape).take();
  result.layers = tape.layers = all;
  result.exchanges = std::move(exchanges);
  return result;
}

}  // namespace zplan
