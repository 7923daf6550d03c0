#include "planner/frameworks/megatron/stage_variables.h"

#include <vector>

namespace zplan::megatron {

void StageVariables::begin_forward(const Slot& slot) {
  of_module_[slot.tape] = pass_of(slot);
  release_unheld();
}

/// Hidden states hold their gradient.
void StageVariables::sent_gradient(const Slot& slot) {
  const Pass pass = pass_of(slot);
  of_loop_ = pass;
  Held& held = held_.emplace_back(Held{.pass = pass});
  if (holds_hidden(pass)) held.hidden = device_.allocate(Term::layer_working_set, size_);
  held.gradient = device_.allocate(Term::layer_working_set, size_);
  release_unheld();
}

void StageVariables::release_unheld() {
  for (Held& each : held_) {
    if (holds_hidden(each.pass)) continue;
    device_.release(each.hidden);
    if (of_loop_ != each.pass) device_.release(each.gradient);
  }
  std::erase_if(held_, [&](const Held& each) { return !holds_hidden(each.pass) && of_loop_ != each.pass; });
}

}  // namespace zplan::megatron
