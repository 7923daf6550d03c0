#include "planner/model_trace/recorded_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "models/base/error.h"
#include "planner/question/framework.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

/// Way holds the settings that decide which recorded tape applies.
struct Way {
  RecordedMethod method{};
  bool fp32_adapters{}, checkpointed{}, partitioned{}, autocast{};
};

Way way_of(const Training& training, const Strategy& strategy) {
  const FrameworkSpec& framework = spec(training.framework);
  Way way;
  way.method = training.method == Method::full ? RecordedMethod::full : RecordedMethod::lora;
  way.fp32_adapters = training.method != Method::full && training.fp32_adapters &&
                      !framework.casts_adapters(training, strategy);
  way.checkpointed = strategy.checkpointing == Checkpointing::full;
  way.partitioned = gathers_at_modules(training, strategy);
  way.autocast = framework.autocasts_masters && training.master_weights && training.method == Method::full;
  return way;
}

bool has_way(const RecordedTape& tape, const Way& way) {
  return tape.method == way.method && tape.checkpointed == way.checkpointed &&
         tape.partitioned == way.partitioned && tape.autocast == way.autocast &&
         (way.method == RecordedMethod::full || tape.fp32_adapters == way.fp32_adapters);
}

/// torch's embedding backward takes other memory above this many tokens, and a batch of one is recorded below
/// it. Source: torch 2.11 aten/src/ATen/native/cuda/Embedding.cu.
constexpr std::int64_t kFewTokens = 3072;

const RecordedTape* find_tape(const Recorded& recorded, const Way& way, std::int64_t b, std::int64_t s) {
  const RecordedTape* found = nullptr;
  for (const RecordedTape& each : recorded.tapes) {
    if (!has_way(each, way) || s < each.from || (each.below > 0 && s >= each.below)) continue;
    const bool single = b == 1 && s <= kFewTokens;
    if (found == nullptr || (each.batch == 1) == single) found = &each;
  }
  return found;
}

/// A tape of events made of what was recorded, sizes worked out.
class Maker {
 public:
  Maker(const Model& model, const RecordedTape& tape, std::int64_t b, std::int64_t s, std::int64_t rank)
      : model_(model), recorded_(*model.recorded), tape_(tape) {
    for (const RecordedSize& each : tape.sizes) sizes_.push_back(each.at(b, s, rank));
    check_sum();
  }

  Tape make() {
    Tape tape;
    tape.layers = layers();
    phase_ = Phase::forward, in_layers_ = false;
    tape.model = part(tape_.around, -1, recorded_.modules);
    made_ = 0;
    tape.model.forward = events(tape_.around.forward);
    phase_ = Phase::forward;
    tape.head = events(tape_.around.head);
    const auto turn = std::ranges::find_if(tape.head, begins_loss_backward);
    tape.head_backward.assign(turn, tape.head.end());
    tape.head.erase(turn, tape.head.end());
    phase_ = Phase::backward;
    tape.model.backward = events(tape_.around.backward);
    in_layers_ = true;
    for (const auto& [kind, inventory_kind] : classes_) {
      const RecordedPart& recorded = tape_.kinds[kind];
      TapePart made = part(recorded, 0, recorded_.layer_modules[inventory_kind]);
      made_ = 0;
      phase_ = Phase::forward;
      made.forward = events(recorded.forward);
      phase_ = Phase::backward;
      made.backward = events(recorded.backward);
      tape.classes.push_back(std::move(made));
    }
    for (const RecordedLoad& each : tape_.loads) tape.loads.push_back(load(each));
    give_workspaces(tape);
    return tape;
  }

 private:
  /// Whatever a file says, 64 bits hold what is live.
  void check_sum() const {
    const auto made_in = [&](std::size_t section) {
      double sum = 0;
      for (const RecordedEvent& each : recorded_.sections[section])
        if (each.kind == RecordedEvent::Kind::allocate)
          sum += static_cast<double>(sizes_[static_cast<std::size_t>(each.index)].value);
      return sum;
    };
    std::vector<double> kinds;
    for (const RecordedPart& each : tape_.kinds)
      kinds.push_back(made_in(each.forward) + made_in(each.backward));
    double total =
        made_in(tape_.around.forward) + made_in(tape_.around.head) + made_in(tape_.around.backward);
    for (const std::size_t each : tape_.layers) total += kinds[each];
    if (total > 0x1p62)
      throw InputError(model_.name, fmt::format("blocks of {:.3g} bytes in a micro-step", total),
                       "accepted: recorded sizes of at most 2^62 bytes");
  }

  /// Layers of one kind of tape and of one kind of tensors are a class.
  std::vector<std::size_t> layers() {
    std::vector<std::size_t> of_layer;
    for (std::size_t i = 0; i < tape_.layers.size(); ++i) {
      const std::pair own{tape_.layers[i], model_.inventory.layers[i]};
      auto at = std::find(classes_.begin(), classes_.end(), own);
      if (at == classes_.end()) at = classes_.insert(at, own);
      of_layer.push_back(static_cast<std::size_t>(at - classes_.begin()));
    }
    return of_layer;
  }

  static TapePart part(const RecordedPart& recorded, int, const std::vector<RecordedModule>& modules) {
    TapePart made;
    made.blocks = recorded.blocks;
    for (const RecordedModule& each : recorded.modules ? *recorded.modules : modules)
      made.modules.push_back({.name = {}, .own = each.own, .leaf = each.leaf});
    return made;
  }

  [[nodiscard]] Term term() const {
    switch (phase_) {
      case Phase::loss: return Term::logits;
      case Phase::loss_backward: return Term::loss_temporaries;
      case Phase::backward: return Term::layer_working_set;
      default: return in_layers_ ? Term::saved_activations : Term::model_inputs;
    }
  }

  std::vector<Event> events(std::size_t section) {
    std::vector<Event> made;
    for (const RecordedEvent& each : recorded_.sections[section]) made.push_back(event(each));
    return made;
  }

  Event event(const RecordedEvent& given) {
    Event made{.index = given.index, .index_part = given.index_part, .block_part = given.block_part};
    const auto block = [&](Event::Kind kind) {
      made.kind = kind;
      made.block = given.block;
      made.owner = given.block_part == kOwnPart ? Owner::here : Owner::other_part;
    };
    const auto phase = [&](Phase begins) {
      made.kind = Event::Kind::phase, made.index = static_cast<std::int32_t>(begins);
      phase_ = begins;
    };
    switch (given.kind) {
      case RecordedEvent::Kind::allocate:
        return {.kind = Event::Kind::allocate,
                .term = term(),
                .block = made_++,
                .size = sizes_[static_cast<std::size_t>(given.index)]};
      case RecordedEvent::Kind::free: block(Event::Kind::release), made.index = -1; break;
      case RecordedEvent::Kind::gradient: block(Event::Kind::adopt_gradient); break;
      case RecordedEvent::Kind::enter: made.kind = Event::Kind::enter_module; break;
      case RecordedEvent::Kind::leave: made.kind = Event::Kind::leave_module; break;
      case RecordedEvent::Kind::enter_backward: made.kind = Event::Kind::enter_backward; break;
      case RecordedEvent::Kind::leave_backward: made.kind = Event::Kind::leave_backward; break;
      case RecordedEvent::Kind::read:
        made.kind = Event::Kind::read_parameter;
        made.block = given.index, made.index = given.block;
        break;
      case RecordedEvent::Kind::keep: made.kind = Event::Kind::keep_parameter; break;
      case RecordedEvent::Kind::let_go: made.kind = Event::Kind::free_parameter; break;
      case RecordedEvent::Kind::loss: phase(Phase::loss); break;
      case RecordedEvent::Kind::loss_backward: phase(Phase::loss_backward); break;
      case RecordedEvent::Kind::backward: phase(Phase::backward); break;
      case RecordedEvent::Kind::compute: made.kind = Event::Kind::compute; break;
    }
    return made;
  }

  [[nodiscard]] Load load(const RecordedLoad& given) const {
    const auto value = [&](std::int32_t number) { return sizes_[static_cast<std::size_t>(number)].value; };
    Load made;
    for (const RecordedLoad::Product& each : given.products)
      made.add({.batch = value(each.batch),
                .rows = value(each.rows),
                .inner = value(each.inner),
                .columns = value(each.columns),
                .element = Bytes(2),
                .times = value(each.times)});
    if (given.attention >= 0)
      (given.backward ? made.attention_backward : made.attention_forward) =
          Flops(static_cast<double>(value(given.attention)));
    if (given.moved >= 0) made.moved = Bytes(value(given.moved));
    made.kernels = made.operators = given.kernels;
    if (given.backward) made.nodes = given.kernels / 2;
    return made;
  }

  /// The first product of the forward, and of the backward, makes cuBLAS keep a workspace.
  static void give_workspaces(Tape& tape) {
    const Event workspace{.kind = Event::Kind::workspace, .index = 0};
    tape.model.forward.insert(tape.model.forward.begin(), workspace);
    std::vector<Event>& turn = tape.head_backward.empty() ? tape.head : tape.head_backward;
    turn.insert(tape.head_backward.empty() ? turn.end() : turn.begin() + 1, workspace);
  }
  static bool begins_loss_backward(const Event& event) {
    return event.kind == Event::Kind::phase && event.index == static_cast<std::int32_t>(Phase::loss_backward);
  }

  const Model& model_;
  const Recorded& recorded_;
  const RecordedTape& tape_;
  std::vector<Bytes> sizes_;
  std::vector<std::pair<std::size_t, std::size_t>> classes_;  ///< kinds of the tape and of the inventory
  std::int32_t made_{};                                       ///< blocks of the part so far
  Phase phase_{};
  bool in_layers_{};
};

}  // namespace

namespace {

/// Returns why the recording has no micro-step for this training; empty where it has one.
std::optional<std::string> why_no_tape(const Model& model, const Training& training,
                                       const Strategy& strategy) {
  const auto missing = [](std::string_view what) {
    return fmt::format(
        "the recorded model has no micro-step {}; \"zplan trace\" of zplan's Python package records one",
        what);
  };
  if (strategy.layout.tensor > 1) return "tensor parallelism of a recorded model is not known";
  if (strategy.layout.token_ranks() > 1)
    return "sequence and context parallelism of a recorded model are not known";
  if (strategy.long_context.tiles()) return missing("with tiles");
  if (strategy.long_context.checkpoint_offload != CheckpointOffload::none)
    return missing("whose checkpoints wait on the host");
  if (training.objective != Objective::sft) return missing(fmt::format("of {}", to_name(training.objective)));
  if (training.modules.replaces_modules() || training.modules.kernels.replace_layers())
    return missing("of another library's layers");
  if (training.method != Method::full && (training.dora || !training.modules_to_save.empty()))
    return missing("with DoRA or trained copies");
  if (training.fused_loss || training.cut_loss || training.loss_chunks > 1 || training.fused_head)
    return missing("with a fused or sliced loss");
  if (training.lora_dropout > 0 && training.method != Method::full)
    return missing("with dropout in front of adapters");
  if (training.method == Method::qlora) return missing("with a quantised base");
  if (training.precision == Precision::fp32) return missing("in fp32");
  if (strategy.checkpointing == Checkpointing::selective) return missing("with selective checkpointing");
  if (training.method == Method::lora && training.lora_targets != LoraTargets{})
    return missing("with adapters on other modules than all-linear");
  const Way way = way_of(training, strategy);
  if (find_tape(*model.recorded, way, strategy.micro_batch_size, training.sequence_length) != nullptr)
    return std::nullopt;
  Way other = way;
  other.checkpointed = !way.checkpointed;
  if (find_tape(*model.recorded, other, strategy.micro_batch_size, training.sequence_length) != nullptr)
    return fmt::format("the model was recorded {} checkpointing alone: --checkpointing {}",
                       way.checkpointed ? "without" : "with", way.checkpointed ? "none" : "full");
  return missing(fmt::format("of {} training{}{}{} at a sequence length of {}",
                             way.method == RecordedMethod::full ? "full" : "LoRA",
                             way.checkpointed ? " with checkpointing" : " without checkpointing",
                             way.partitioned ? " under ZeRO-3" : "", way.autocast ? " under autocast" : "",
                             training.sequence_length));
}

}  // namespace

bool is_by_analogy(const Model& model, const Training& training, const Strategy& strategy) {
  return model.analogue && (!model.recorded || why_no_tape(model, training, strategy).has_value());
}

std::optional<std::string> why_not_recorded(const Model& model, const Training& training,
                                            const Strategy& strategy) {
  if (!model.recorded || model.analogue) return std::nullopt;
  return why_no_tape(model, training, strategy);
}

Tape recorded_tape(const Model& model, const Training& training, const Strategy& strategy) {
  const RecordedTape* tape = find_tape(*model.recorded, way_of(training, strategy), strategy.micro_batch_size,
                                       training.sequence_length);
  if (tape == nullptr) throw std::logic_error("no recorded tape has this micro-step");
  return Maker(model, *tape, strategy.micro_batch_size, training.sequence_length, training.lora_rank).make();
}

// ---- by analogy
// ----------------------------------------------------------------------------------------------

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
