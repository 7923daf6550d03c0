#include "planner/model_trace/reference.h"

#include <algorithm>
#include <utility>

#include "planner/model_trace/play.h"

namespace zplan {

namespace {

using Kind = Event::Kind;

bool names_module(Kind kind) {
  return kind == Kind::enter_module || kind == Kind::leave_module || kind == Kind::enter_backward ||
         kind == Kind::leave_backward;
}

/// Writes another tape's events one behind the other, as the part around the policy's layers names what they
/// make.
class Grafted {
 protected:
  Grafted(Tape& policy, const Tape& other)
      : policy_(policy),
        other_(other),
        layout_(other),
        first_block_(policy.model.blocks),
        first_load_(static_cast<std::int32_t>(policy.loads.size())) {}

  Event& add(const Event& event) { return made_.emplace_back(event); }
  void add_load(const Event& event) { add(event).index += first_load_; }
  Event& add_block(const Event& event, int layer, bool behind) {
    Event& made = add(event);
    made.block = first_block_ + layout_.block(event, layer, behind);
    made.owner = Owner::here, made.block_part = kOwnPart;
    return made;
  }
  void end_layers(std::size_t which) {
    for (int i = 0; i < layers(); ++i)
      for (const Event& each : part(i).endings[which]) add_block(each, i, false);
  }
  /// The policy's tape has room for what was written.
  void make_room() {
    policy_.model.blocks += layout_.blocks();
    policy_.loads.insert(policy_.loads.end(), other_.loads.begin(), other_.loads.end());
  }
  [[nodiscard]] int layers() const { return static_cast<int>(other_.layers.size()); }
  [[nodiscard]] const TapePart& part(int layer) const {
    return other_.classes[other_.layers[static_cast<std::size_t>(layer)]];
  }

  Tape& policy_;
  const Tape& other_;
  TapeLayout layout_;
  std::int32_t first_block_, first_load_;
  std::vector<Event> made_;
};

/// A forward.
class Insertion : Grafted {
 public:
  Insertion(Tape& policy, const Tape& reference, bool shares_modules)
      : Grafted(policy, reference), shares_modules_(shares_modules) {}

  std::vector<Event> events(std::int32_t begins = kReferenceBegins) {
    mark(begins);
    append(other_.model.forward, -1);
    for (int i = 0; i < layers(); ++i) {
      mark(i);
      append(part(i).forward, i);
    }
    append(other_.head, -1);
    mark(kReferenceEnds);
    make_room();
    return std::move(made_);
  }

 private:
  void mark(std::int32_t index) { made_.push_back({.kind = Kind::reference, .index = index}); }

  void append(const std::vector<Event>& events, int layer) {
    for (const Event& each : events) {
      switch (each.kind) {
        case Kind::phase:
        case Kind::workspace: break;  // the policy's forward has them
        case Kind::end_layers: end_layers(static_cast<std::size_t>(each.index)); break;
        case Kind::allocate:
        case Kind::release: add_block(each, layer, false); break;
        case Kind::compute: add_load(each); break;
        case Kind::communicate:
        case Kind::await: add(each); break;
        default: add_hook(each, layer);
      }
    }
  }
  void add_hook(const Event& event, int layer) {
    const int of = named_layer(event.index_part, layer, layers());
    Event& made = add(event);
    made.index_part = of < 0 ? kOwnPart : of;
    if (!shares_modules_) return;
    if (names_module(event.kind)) made.index = in_policy(of, event.index);
    const bool is_of_module = event.kind == Kind::read_parameter && event.block >= 0;
    if (is_of_module) made.block = in_policy(of, event.block);
  }
  /// The number that the policy has for a module of the same name and parameters.
  std::int32_t in_policy(int layer, std::int32_t number) {
    const auto place = static_cast<std::size_t>(std::max(layer, 0));
    const TapePart& own = layer < 0 ? other_.model : part(layer);
    TapePart& policys = layer < 0 ? policy_.model : policy_.classes[policy_.layers[place]];
    const TapeModule& module = own.modules[static_cast<std::size_t>(number)];
    const auto known = std::find(policys.modules.begin(), policys.modules.end(), module);
    const auto index = static_cast<std::int32_t>(known - policys.modules.begin());
    if (known == policys.modules.end()) policys.modules.push_back(module);
    return index;
  }

  bool shares_modules_;
};

/// The ending at which a micro-step is over, of the two that layers have (Event::Kind::end_layers).
constexpr std::int32_t kMicroStepEnds = 1;

/// The micro-step of a model of values, forward and backward apart.
class ValueStep : Grafted {
 public:
  ValueStep(Tape& policy, const Tape& values, std::int32_t parameters)
      : Grafted(policy, values),
        first_parameter_(parameters),
        first_layer_(static_cast<std::int32_t>(policy.layers.size())) {}

  void write() {
    append(other_.model.forward, -1, false);
    for (int i = 0; i < layers(); ++i) append(part(i).forward, i, false);
    append(other_.head, -1, false);
    std::vector<Event>& forward = policy_.model.forward;
    forward.insert(forward.begin(), made_.begin(), made_.end());
    made_.clear();
    append(other_.head_backward, -1, false);
    for (int i = layers(); i-- > 0;) append(part(i).backward, i, true);
    append(other_.model.backward, -1, true);
    // The training loop releases what it keeps of the policy after both.
    std::vector<Event>& backward = policy_.model.backward;
    const auto ends = std::ranges::find_if(backward, [](const Event& each) {
      return each.kind == Kind::end_layers && each.index == kMicroStepEnds;
    });
    backward.insert(ends, made_.begin(), made_.end());
    make_room();
  }

 private:
  void append(const std::vector<Event>& events, int layer, bool behind) {
    for (const Event& each : events) {
      switch (each.kind) {
        case Kind::allocate:
        case Kind::release: add_block(each, layer, behind); break;
        case Kind::adopt_gradient: add_gradient(each, layer, behind); break;
        case Kind::compute: add_load(each); break;
        case Kind::end_layers: end_layers(static_cast<std::size_t>(each.index)); break;
        default: break;  // hooks, phases and workspaces are the policy's
      }
    }
  }
  void add_gradient(const Event& event, int layer, bool behind) {
    const int of = named_layer(event.index_part, layer, layers());
    Event& made = add_block(event, layer, behind);
    made.index_part = of < 0 ? kOwnPart : first_layer_ + of;
    if (of < 0) made.index += first_parameter_;
  }

  std::int32_t first_parameter_, first_layer_;
};

ReferenceModules modules_of(const Tape& reference) {
  ReferenceModules modules{.model = reference.model.modules, .classes = {}, .layers = reference.layers};
  for (const TapePart& each : reference.classes) modules.classes.push_back(each.modules);
  return modules;
}

}  // namespace

Training reference_training(const Training& training) {
  Training of = training;
  if (reference_of(training) != ReferenceModel::copy) return of;
  of.method = Method::full;
  of.modules_to_save.clear();
  of.trained_layers.clear();
  of.dora = false;
  // LLaMA-Factory loads the copy in the type that computes.
  if (training.answer_loss == AnswerLoss::whole_fp32 || distils(training)) of.master_weights = false;
  return of;
}

Strategy reference_strategy(const Strategy& strategy) {
  Strategy of = strategy;
  of.checkpointing = Checkpointing::none;
  of.long_context.checkpoint_offload = CheckpointOffload::none;
  return of;
}

Tape with_reference(Tape policy, const Tape& reference, ReferenceModel kind) {
  const auto place = std::find_if(policy.head.begin(), policy.head.end(),
                                  [](const Event& each) { return each.kind == Kind::reference; });
  const auto at = place - policy.head.begin();
  const bool is_marked = place != policy.head.end();
  const std::vector<Event> events = Insertion(policy, reference, kind != ReferenceModel::copy).events();
  std::vector<Event>& part = is_marked ? policy.head : policy.model.forward;
  if (is_marked) part.erase(part.begin() + at);
  part.insert(part.begin() + (is_marked ? at : 0), events.begin(), events.end());
  if (kind == ReferenceModel::copy) policy.reference = modules_of(reference);
  return policy;
}

Tape with_values(Tape policy, const Tape& values, std::int32_t parameters) {
  ValueStep(policy, values, parameters).write();
  return policy;
}

Tape with_scores(Tape policy, const Tape& scores) {
  const std::vector<Event> events = Insertion(policy, scores, true).events(kScoringBegins);
  policy.model.forward.insert(policy.model.forward.begin(), events.begin(), events.end());
  return policy;
}

}  // namespace zplan
