#include "planner/model_trace/analogous_tape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

using EventKind = Event::Kind;

/// A parameter of the model's own: the size of its gradient, and whether it has one.
struct Own {
  Bytes size;
  bool trained{};
};

std::vector<Own> own_tensors(const std::vector<Tensor>& base, const std::vector<Tensor>& adapters,
                             const Training& training) {
  std::vector<Own> made;
  for (const Tensor& each : base)
    made.push_back({each.elements() * weight_size(training),
                    training.method == Method::full && !each.idle && !freezes(training, each)});
  for (const Tensor& each : adapters) made.push_back({each.elements() * adapter_size(training), true});
  return made;
}

/// Returns `events` without those of the analogue's parameters: gradients are only freed, modules are not
/// entered.
std::vector<Event> without_parameters(const std::vector<Event>& events) {
  std::vector<Event> kept;
  for (Event each : events) {
    switch (each.kind) {
      case EventKind::adopt_gradient:
        each.kind = EventKind::release, each.index = -1;
        kept.push_back(each);
        break;
      case EventKind::enter_module:
      case EventKind::leave_module:
      case EventKind::enter_backward:
      case EventKind::leave_backward:
      case EventKind::read_parameter:
      case EventKind::keep_parameter:
      case EventKind::free_parameter: break;
      default: kept.push_back(each);
    }
  }
  return kept;
}

void surround(std::vector<Event>& events, EventKind before, EventKind behind) {
  events.insert(events.begin(), {.kind = before, .index = 0});
  events.push_back({.kind = behind, .index = 0});
}

void add_gradients(TapePart& part, const std::vector<Own>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].trained) continue;
    part.backward.push_back({.kind = EventKind::allocate,
                             .term = Term::layer_working_set,
                             .block = part.blocks,
                             .size = tensors[i].size});
    part.backward.push_back(
        {.kind = EventKind::adopt_gradient, .block = part.blocks++, .index = static_cast<std::int32_t>(i)});
  }
}

/// All parameters of the part in one module.
TapeModule module_of(const std::vector<Own>& tensors) {
  TapeModule module{.name = "part", .own = std::vector<std::int32_t>(tensors.size())};
  std::iota(module.own.begin(), module.own.end(), 0);
  return module;
}

TapePart with_own(const TapePart& analogue, const std::vector<Own>& tensors) {
  TapePart part = analogue;
  part.forward = without_parameters(analogue.forward);
  part.backward = without_parameters(analogue.backward);
  part.modules = {module_of(tensors)};
  surround(part.forward, EventKind::enter_module, EventKind::leave_module);
  add_gradients(part, tensors);
  surround(part.backward, EventKind::enter_backward, EventKind::leave_backward);
  return part;
}

}  // namespace

Tape analogous_tape(const Model& model, const Tape& analogue, const Training& training) {
  const Inventory& inventory = model.inventory;
  if (inventory == model.analogue->inventory) return analogue;
  const Inventory adapters =
      training.method == Method::full ? Inventory{} : added_tensors(model, adapters_of(training));
  Tape tape = analogue;
  tape.classes.clear(), tape.layers.clear();
  std::vector<std::pair<std::size_t, std::size_t>> classes;
  for (std::size_t i = 0; i < inventory.layers.size(); ++i) {
    const std::pair own{analogue.layers[std::min(i, analogue.layers.size() - 1)], inventory.layers[i]};
    auto at = std::find(classes.begin(), classes.end(), own);
    if (at == classes.end()) {
      at = classes.insert(at, own);
      const std::size_t kind = own.second;
      tape.classes.push_back(
          with_own(analogue.classes[own.first],
                   own_tensors(inventory.kinds[kind].tensors,
                               adapters.kinds.empty() ? std::vector<Tensor>{} : adapters.kinds[kind].tensors,
                               training)));
    }
    tape.layers.push_back(static_cast<std::size_t>(at - classes.begin()));
  }
  std::vector<Own> around = own_tensors(inventory.before, adapters.before, training);
  const std::vector<Own> behind = own_tensors(inventory.after, adapters.after, training);
  around.insert(around.end(), behind.begin(), behind.end());
  tape.model = with_own(analogue.model, around);
  tape.head = without_parameters(analogue.head);
  tape.head_backward = without_parameters(analogue.head_backward);
  return tape;
}

}  // namespace zplan
