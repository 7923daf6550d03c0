#include "planner/frameworks/deepspeed/zero/hooked_parameters.h"

#include <algorithm>
#include <string>
#include <utility>

namespace zplan {

bool enters(const ModuleEvent& event) {
  return event.kind == ModuleEvent::Kind::enter_forward || event.kind == ModuleEvent::Kind::enter_backward;
}

namespace {

std::int64_t elements_of(const ModuleTape& tape, std::span<const std::int32_t> parameters) {
  std::int64_t sum = 0;
  for (const std::int32_t p : parameters) sum += at(tape.parameters, p).elements.value;
  return sum;
}

void link_uses(Trace& trace, std::size_t parameters) {
  trace.first_use.assign(parameters, TracedUse::kNone);
  for (std::int32_t i = size_of(trace.uses) - 1; i >= 0; --i) {
    TracedUse& use = at(trace.uses, i);
    use.next = std::exchange(at(trace.first_use, use.parameter), i);
  }
}

/// Adds the trace that leaves look ahead along: DeepSpeed then counts every module with all that is below it.
void trace_deep(Trace& trace, const ModuleTape& tape, const HookedParameters& hooked) {
  trace.deep_steps.resize(tape.parameters.size());
  trace.traversed_deep = {0};
  for (const ModuleEvent& event : tape.events) {
    if (!enters(event)) continue;
    std::int64_t elements = trace.traversed_deep.back();
    for (const std::span<const std::int32_t> some :
         {std::span<const std::int32_t>(at(tape.modules, event.module).subtree),
          hooked.external(event.module)}) {
      elements += elements_of(tape, some);
      for (const std::int32_t p : some) at(trace.deep_steps, p).push_back(size_of(trace.traversed_deep) - 1);
    }
    trace.traversed_deep.push_back(elements);
  }
}

void require_below(std::string_view what, std::int32_t index, std::size_t count) {
  if (index < 0 || static_cast<std::size_t>(index) >= count)
    throw InputError(std::string(what), std::to_string(index),
                     "0 to " + std::to_string(count) + " exclusive");
}

}  // namespace

HookedParameters::HookedParameters(const ModuleTape& tape) {
  std::vector<std::int32_t> reads(tape.modules.size());
  for (const ModuleEvent& event : tape.events)
    if (event.kind == ModuleEvent::Kind::read) ++at(reads, event.module);
  for (std::size_t m = 0; m < tape.modules.size(); ++m) {
    const ShardedModule& module = tape.modules[m];
    const std::vector<std::int32_t>& own = module.leaf ? module.subtree : module.own;
    first_.push_back(size_of(list_));
    list_.insert(list_.end(), own.begin(), own.end());
    list_.resize(list_.size() + static_cast<std::size_t>(reads[m]), TracedUse::kNone);
    count_.push_back(size_of(own));
  }
  own_count_ = count_;
}

void HookedParameters::add(std::int32_t module, std::int32_t parameter) {
  const auto known = of(module);
  if (std::find(known.begin(), known.end(), parameter) != known.end()) return;
  at(list_, slot(module) + at(count_, module)++) = parameter;
}

Trace trace_of(const ModuleTape& tape, const HookedParameters& hooked) {
  Trace trace;
  trace.traversed = {0};
  for (const ModuleEvent& event : tape.events) {
    if (!enters(event)) continue;
    const ShardedModule& module = at(tape.modules, event.module);
    const auto first = trace.uses.size();
    for (const std::int32_t p : hooked.of(event.module))
      trace.uses.push_back({p, size_of(trace.traversed) - 1});
    std::sort(trace.uses.begin() + static_cast<std::ptrdiff_t>(first), trace.uses.end(),
              [](const TracedUse& a, const TracedUse& b) { return a.parameter < b.parameter; });
    trace.traversed.push_back(trace.traversed.back() + elements_of(tape, module.own) +
                              elements_of(tape, hooked.external(event.module)));
  }
  link_uses(trace, tape.parameters.size());
  if (std::any_of(tape.modules.begin(), tape.modules.end(), [](const auto& each) { return each.leaf; }))
    trace_deep(trace, tape, hooked);
  return trace;
}

void check_tape(const ModuleTape& tape) {
  if (tape.events.empty()) throw InputError("module tape", "no events", "the events of a micro-step");
  const auto require_parameter = [&](std::int32_t p) {
    require_below("parameter", p, tape.parameters.size());
  };
  for (const ShardedModule& module : tape.modules) {
    std::for_each(module.own.begin(), module.own.end(), require_parameter);
    std::for_each(module.subtree.begin(), module.subtree.end(), require_parameter);
  }
  std::for_each(tape.named.begin(), tape.named.end(), require_parameter);
  if (!tape.named.empty() && tape.named.size() != tape.parameters.size())
    throw InputError("module tape", std::to_string(tape.named.size()) + " names",
                     "one for each of " + std::to_string(tape.parameters.size()) + " parameters, or none");
  for (const ModuleEvent& event : tape.events) {
    if (event.kind >= ModuleEvent::Kind::read) require_parameter(event.parameter);
    if (event.kind <= ModuleEvent::Kind::read) require_below("module", event.module, tape.modules.size());
  }
}

void mark_persistent(ModuleTape& tape, Elements threshold, Elements model_threshold) {
  Elements marked{};
  for (std::size_t i = 0; i < tape.parameters.size(); ++i) {
    ShardedParameter& each = tape.parameters[named(tape, i)];
    each.persistent = each.elements <= threshold && each.elements + marked <= model_threshold;
    if (each.persistent) marked += each.elements;
  }
}

}  // namespace zplan
