#include "planner/model_trace/recorder.h"

#include <algorithm>

namespace zplan::symbolic {

std::vector<Event>& Recorder::list() {
  if (transfer_) return transfers_[static_cast<std::size_t>(*transfer_)];
  if (current_ != kModel) {
    started_ = true;
    TapePart& layer = part(current_);
    if (weights_) return layer.weights;
    return backward_ ? layer.backward : layer.forward;
  }
  if (weights_) return model_.weights;
  if (!started_ && !backward_) return model_.forward;  // a chunk of a pipeline may have no layers
  if (behind_layers_) return model_.backward;
  return backward_ ? head_backward_ : head_;
}

std::shared_ptr<Storage> Recorder::allocate(Bytes size) {
  const int maker = maker_.value_or(current_);
  const std::int32_t number = part(maker).blocks++;
  blocks_.push_back({maker, number});
  list().push_back({.kind = Event::Kind::allocate,
                    .owner = maker == current_ ? Owner::here : Owner::model,
                    .term = term_,
                    .block = number,
                    .size = size});
  return std::make_shared<Storage>(*this, static_cast<std::int32_t>(blocks_.size() - 1));
}

void Recorder::name(Event& event, std::int32_t id) {
  const Block& block = blocks_[static_cast<std::size_t>(id)];
  event.block = block.number;
  if (block.part == current_) return;
  if (block.part == kModel) {
    event.owner = Owner::model;
    return;
  }
  TapePart& owner = part(block.part);
  const int last = static_cast<int>(parts_.size()) - 1;
  const bool is_before =
      current_ == kModel ? block.part == last && (!behind_layers_ || weights_) : block.part == current_ - 1;
  std::int32_t& port = is_before ? owner.output : owner.gradient;
  const bool is_behind = current_ == kModel ? block.part == 0 && behind_layers_ : block.part == current_ + 1;
  if ((!is_before && !is_behind) || (port != -1 && port != block.number))
    throw std::logic_error("a tensor of one layer is freed in another that does not follow it");
  port = block.number;
  event.owner = is_before ? Owner::previous_output : Owner::next_gradient;
}

void Recorder::release(std::int32_t block) noexcept {
  if (failure_) return;
  try {
    free(block);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Recorder::free(std::int32_t block) {
  if (const Block& of = blocks_[static_cast<std::size_t>(block)]; of.parameter >= 0)
    return free_parameter(of);
  Event event{.kind = Event::Kind::release};
  if (const Block& of = blocks_[static_cast<std::size_t>(block)]; ending_ && of.part != kModel) {
    event.block = of.number;
    part(of.part).endings[*ending_].push_back(event);
    return;
  }
  name(event, block);
  list().push_back(event);
}

void Recorder::give_gradient(Event::Kind kind, Storage& storage, std::int32_t index) {
  Event event{.kind = kind, .index = index};
  name(event, storage.block());
  storage.give_away();
  step_in(event);
}

void Recorder::mark(Event::Kind kind, std::int32_t index) { step_in({.kind = kind, .index = index}); }

void Recorder::step_in(const Event& event) {
  if (before_step_in) before_step_in();
  list().push_back(event);
  loaded_ = nullptr;
}

Load& Recorder::load() {
  std::vector<Event>& events = list();
  if (loaded_ != &events) {
    loaded_ = &events;
    events.push_back({.kind = Event::Kind::compute, .index = static_cast<std::int32_t>(loads_.size())});
    loads_.emplace_back();
  }
  return loads_.back();
}

void Recorder::communicate(TensorCall call, Bytes size) {
  step_in({.kind = Event::Kind::communicate, .index = static_cast<std::int32_t>(call), .size = size});
}

std::shared_ptr<Storage> Recorder::keep_parameter(std::int32_t index) {
  mark(Event::Kind::keep_parameter, index);
  blocks_.push_back({current_, -1, index});
  return std::make_shared<Storage>(*this, static_cast<std::int32_t>(blocks_.size() - 1));
}

void Recorder::free_parameter(const Block& kept) {
  const int outside = std::exchange(current_, kept.part);
  mark(Event::Kind::free_parameter, kept.parameter);
  current_ = outside;
}

std::int32_t Recorder::module_number(const TapeModule& module) {
  std::vector<TapeModule>& modules = part(current_).modules;
  const auto found = std::find(modules.begin(), modules.end(), module);
  if (found != modules.end()) return static_cast<std::int32_t>(found - modules.begin());
  modules.push_back(module);
  return static_cast<std::int32_t>(modules.size() - 1);
}

void Recorder::read_parameter(std::int32_t module, std::int32_t index) {
  step_in({.kind = Event::Kind::read_parameter, .block = module, .index = index});
}

Tape Recorder::finish(const std::vector<std::size_t>& classes) {
  if (failure_) std::rethrow_exception(failure_);
  Tape tape;
  tape.model = std::move(model_);
  tape.head = std::move(head_), tape.head_backward = std::move(head_backward_);
  tape.transfers = std::move(transfers_);
  tape.loads = std::move(loads_);
  tape.is_split = weights_;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (classes[i] != tape.classes.size()) continue;
    TapePart& part = tape.classes.emplace_back(std::move(parts_[i].tape));
    part.forward.shrink_to_fit(), part.backward.shrink_to_fit(), part.weights.shrink_to_fit();
  }
  return tape;
}

}  // namespace zplan::symbolic
