#include "planner/model_trace/program.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "planner/question/framework.h"
#include "planner/sharding/plan_split.h"

namespace zplan::symbolic {

const Parameter* Parameters::find(std::string_view name) const {
  const auto found = std::find_if(list_.begin(), list_.end(), [&](const Parameter& each) {
    const std::string_view full = each.about->name;
    return full == name ||
           (full.size() > name.size() && full.ends_with(name) && full[full.size() - name.size() - 1] == '.');
  });
  return found == list_.end() ? nullptr : &*found;
}

const Parameter& Parameters::get(std::string_view name) const {
  if (const Parameter* found = find(name)) return *found;
  throw std::logic_error("the model's program asks for a tensor that the model does not have: " +
                         std::string(name));
}

const Parameter* saved_copy(const Program& p, const Parameters& of, const Parameter& weight) {
  if (p.adapters_off || p.training.modules_to_save.empty()) return nullptr;
  const std::string& name = weight.about->name;
  return of.find(name.substr(0, name.rfind('.')) + ".modules_to_save.default.weight");
}

std::vector<const Parameter*> Parameters::linears(TensorRole role, TensorParallelSplit split) const {
  std::vector<const Parameter*> found;
  for (const Parameter& each : list_)
    if (each.about->role == role && each.about->split == split && each.about->linear &&
        each.about->name.find("lora_") == std::string::npos)
      found.push_back(&each);
  return found;
}

namespace {

/// Returns the same tensor with a hook on its gradient.
Tensor tapped(Program& p, const Tensor& x, Event::Kind kind, std::int32_t module) {
  const auto node = p.torch.node({&x});
  if (!node) return x;
  Tensor result = x;
  node->backward = [&recorder = p.torch.recorder(), kind, module](Tensors& gradients) {
    recorder.mark(kind, module);
    return Tensors{gradients[0]};
  };
  return Autograd::connected(result, node);
}

/// Sets a flag for as long as it stands, exceptions included: recomputation ends by one.
class Flagged {
 public:
  Flagged(bool& flag, bool value) : flag_(flag), before_(std::exchange(flag, value)) {}
  ~Flagged() { flag_ = before_; }
  Flagged(const Flagged&) = delete;
  Flagged& operator=(const Flagged&) = delete;

 private:
  bool& flag_;
  bool before_;
};

}  // namespace

Tensor hooked_logits(Program& p, const Tensor& logits) {
  const bool is_apart = !follows_plan(p) || !p.shape().tied_embeddings;
  const bool is_unit = zplan::wraps_ends(p.training, p.strategy) && is_apart;
  return is_unit ? tapped(p, logits, Event::Kind::enter_backward, kHeadUnit) : logits;
}

Tensor hooked_hidden(Program& p, const Tensor& hidden) {
  const bool is_unit = follows_plan(p) && p.shape().tied_embeddings;
  return is_unit ? tapped(p, hidden, Event::Kind::enter_backward, kHeadUnit) : hidden;
}

bool follows_plan(const Program& p) { return zplan::follows_plan(p.training, p.strategy); }

bool hooks_modules(const Program& p) { return !p.in_leaf && gathers_at_modules(p.training, p.strategy); }

Tensor hooked(Program& p, const std::vector<const Parameter*>& own, const Tensor& x,
              const std::function<Tensor(const Tensor&)>& call, const ModuleCall& how) {
  const bool hooks = hooks_modules(p);
  if (!hooks && (p.in_leaf || !p.training.names_modules)) return call(x);
  TapeModule held{.name = how.name, .leaf = how.leaf};
  for (const Parameter* each : own)
    if (each != nullptr) held.own.push_back(each->index);
  Recorder& recorder = p.torch.recorder();
  const std::int32_t module = recorder.module_number(held);
  recorder.mark(Event::Kind::enter_module, module);
  if (!hooks) {
    Tensor named = call(x);
    recorder.mark(Event::Kind::leave_module, module);
    return named;
  }
  const Tensor input = how.by_keyword ? x : tapped(p, x, Event::Kind::leave_backward, module);
  Tensor output;
  {
    const Flagged flagged(p.in_leaf, how.leaf);
    output = call(input);
  }
  Tensor result = tapped(p, output, Event::Kind::enter_backward, module);
  recorder.mark(Event::Kind::leave_module, module);
  return result;
}

Tensor hooked(Program& p, const ModuleCall& how, const Tensor& x,
              const std::function<Tensor(const Tensor&)>& call) {
  return hooked(p, {}, x, call, how);
}

}  // namespace zplan::symbolic
