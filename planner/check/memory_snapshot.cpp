#include "planner/check/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "hardware_profiles/cluster.h"
#include "planner/plan/rank_history.h"
#include "planner/question/framework.h"

namespace zplan::check {

namespace {

/// Parts of a step that a stack tells apart: forward and loss; the backward of both; the optimizer's step.
enum class Stretch : std::uint8_t { before, forward, backward, step };
constexpr std::array<std::string_view, 4> kNames{"held between steps", "forward and loss", "backward",
                                                 "optimizer step"};
std::string_view name_of(Stretch stretch) { return kNames[static_cast<std::size_t>(stretch)]; }

/// An allocation or release, with the stretch that it belongs to.
struct Change {
  bool is_alloc{};
  std::int64_t address{};
  Bytes size;
  Stretch stretch{Stretch::before};
  std::int32_t origin{-1};
};

/// Blocks by address.
struct LiveBlock {
  Bytes size;
  std::int32_t origin{-1};
};
using Live = std::map<std::int64_t, LiveBlock>;

/// One step: what was live as it began, and what each stretch had at its highest moment.
struct PlayedHistory {
  Live held;
  std::array<Bytes, 4> highest{};
  std::array<Live, 4> at_highest;
};

Bytes total_of(const Live& live) {
  Bytes sum{};
  for (const auto& [address, block] : live) sum += block.size;
  return sum;
}

void take(const Change& change, Live& live) {
  if (change.is_alloc)
    live[change.address] = {change.size, change.origin};
  else
    live.erase(change.address);
}

/// Plays `changes` from `begin` to `end` over what is live then.
PlayedHistory played(const std::vector<Change>& changes, std::size_t begin, std::size_t end, Live live) {
  PlayedHistory history;
  history.held = live;
  history.at_highest[0] = live;
  Bytes now = history.highest[0] = total_of(live);
  // Two passes: the highest moments first, then what was live at them.
  std::array<std::size_t, 4> moments{};
  for (std::size_t i = begin; i < end; ++i) {
    now += changes[i].is_alloc ? changes[i].size : Bytes{} - changes[i].size;
    const auto stretch = static_cast<std::size_t>(changes[i].stretch);
    if (stretch == 0 || now <= history.highest[stretch]) continue;
    history.highest[stretch] = now, moments[stretch] = i + 1;
  }
  for (std::size_t i = begin; i < end; ++i) {
    take(changes[i], live);
    for (std::size_t stretch = 1; stretch < 4; ++stretch)
      if (moments[stretch] == i + 1) history.at_highest[stretch] = live;
  }
  return history;
}

// ---- what was recorded

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Reads a phase off Python stacks. The autograd engine runs a backward in a thread of its own, whose stacks
/// end in no module of the script, or are empty.
class StackReader {
 public:
  explicit StackReader(const std::vector<std::vector<StackFrame>>& stacks) {
    for (const std::vector<StackFrame>& each : stacks) stretches_.push_back(read(each));
  }
  /// Returns the stretch of a stack; nothing where it does not say.
  [[nodiscard]] std::optional<Stretch> operator()(std::int32_t stack) const {
    if (stack < 0) return Stretch::backward;
    return stretches_[static_cast<std::size_t>(stack)];
  }

 private:
  [[nodiscard]] static std::optional<Stretch> read(const std::vector<StackFrame>& stack) {
    if (stack.empty() || !is_entry(stack.back())) return Stretch::backward;
    std::optional<Stretch> found;
    for (const StackFrame& each : stack) {
      if (is_backward(each)) return Stretch::backward;
      if (is_step(each)) found = Stretch::step;
      if (!found && is_forward(each)) found = Stretch::forward;
    }
    return found;
  }
  /// The outermost frame of a script's own thread.
  [[nodiscard]] static bool is_entry(const StackFrame& frame) {
    return frame.function == "<module>" || frame.function == "_run_module_as_main" ||
           frame.function == "_bootstrap" || frame.function == "main";
  }
  [[nodiscard]] static bool is_backward(const StackFrame& frame) {
    return frame.function == "_engine_run_backward" ||
           (frame.function == "backward" &&
            (contains(frame.file, "/torch/") || contains(frame.file, "/deepspeed/") ||
             contains(frame.file, "/accelerate/")));
  }
  [[nodiscard]] static bool is_step(const StackFrame& frame) {
    const bool steps = frame.function == "step" || frame.function == "_take_model_step";
    const bool of_optimizer = contains(frame.file, "optim") || contains(frame.file, "/deepspeed/runtime/");
    return (steps && of_optimizer) || frame.function == "clip_grad_norm_";
  }
  [[nodiscard]] static bool is_forward(const StackFrame& frame) {
    return frame.function == "_call_impl" || frame.function == "forward";
  }

  std::vector<std::optional<Stretch>> stretches_;
};

std::vector<Change> changes_of(const MemorySnapshot& snapshot) {
  const StackReader stretch_of(snapshot.stacks);
  std::vector<Change> changes;
  Stretch now = Stretch::before;
  std::optional<std::size_t> unknown;  // the first of those whose stacks say nothing
  for (const MemorySnapshot::Event& each : snapshot.events) {
    using Action = MemorySnapshot::Event::Action;
    if (each.action != Action::alloc && each.action != Action::free) continue;
    if (each.action == Action::alloc) {
      const std::optional<Stretch> read = stretch_of(each.stack);
      if (!read && !unknown) unknown = changes.size();
      // Nothing runs backward before a forward did: such a stack is of another thread.
      if (read && (*read != Stretch::backward || now != Stretch::before)) now = *read;
      // A script makes a batch before the model sees it.
      if (read == Stretch::forward && unknown)
        for (std::size_t i = *unknown; i < changes.size(); ++i) changes[i].stretch = Stretch::forward;
      if (read) unknown.reset();
    }
    changes.push_back({each.action == Action::alloc, each.address, each.size, now, each.stack});
  }
  return changes;
}

/// Returns what was live before the first change: what is held at the end, walked back.
Live live_before(const std::vector<Change>& changes, const std::vector<MemorySnapshot::Block>& held) {
  Live live;
  for (const MemorySnapshot::Block& each : held) live[each.address] = {each.requested, each.stack};
  for (auto each = changes.rbegin(); each != changes.rend(); ++each) {
    if (each->is_alloc)
      live.erase(each->address);
    else
      live[each->address] = {each->size, -1};
  }
  return live;
}

/// Begin and end of the last step that is there as a whole.
std::optional<std::pair<std::size_t, std::size_t>> last_step(const std::vector<Change>& changes) {
  std::vector<std::size_t> begins;  // where a forward follows a step, or nothing
  std::size_t step_end = 0;
  Stretch before = Stretch::before;
  bool stepped = false;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Stretch now = changes[i].stretch;
    if (now == Stretch::forward && (before == Stretch::step || before == Stretch::before))
      begins.push_back(i);
    if (now == Stretch::step) step_end = i + 1, stepped = true;
    before = now;
  }
  if (!stepped) return std::nullopt;
  while (!begins.empty() && begins.back() >= step_end) begins.pop_back();
  if (begins.empty()) return std::nullopt;
  return std::pair(begins.back(), step_end);
}

// ---- what is predicted

Stretch stretch_of(Phase phase) {
  switch (phase) {
    case Phase::initialisation: return Stretch::before;
    case Phase::forward:
    case Phase::loss: return Stretch::forward;
    case Phase::loss_backward:
    case Phase::backward: return Stretch::backward;
    case Phase::step: return Stretch::step;
  }
  return Stretch::before;
}

PlayedHistory predicted_step(const RankHistory& history) {
  std::vector<Change> changes;
  std::size_t begin = 0;
  Stretch now = Stretch::before;
  for (std::size_t i = 0; i < history.memory.events.size(); ++i) {
    if (!history.memory.steps.empty() && i == history.memory.steps.back()) begin = changes.size();
    const MemoryEvent& each = history.memory.events[i];
    const bool is_alloc = each.action == MemoryEvent::Action::alloc;
    if (!is_alloc && each.action != MemoryEvent::Action::free) continue;
    if (is_alloc) now = stretch_of(history.memory.causes[static_cast<std::size_t>(each.cause)].phase);
    changes.push_back({is_alloc, each.address, each.size, now, each.cause});
  }
  Live live;
  for (std::size_t i = 0; i < begin; ++i) take(changes[i], live);
  return played(changes, begin, changes.size(), std::move(live));
}

// ---- what only one of them has

/// "stage3.py:1189 reduce_scatter < engine.py:2150 step", of the frames that are not PyTorch's own.
std::string origin_of(const MemorySnapshot& snapshot, std::int32_t stack) {
  constexpr std::size_t kMost = 2;
  if (stack < 0) return "no stack was recorded";
  std::vector<std::string> said;
  for (const StackFrame& each : snapshot.stacks[static_cast<std::size_t>(stack)]) {
    if (contains(each.file, "/torch/") || contains(each.file, "frozen ")) continue;
    const std::string name = each.file.substr(each.file.rfind('/') + 1);
    said.push_back(fmt::format("{}:{} {}", name, each.line, each.function));
    if (said.size() == kMost) break;
  }
  if (said.empty()) return "the autograd engine, no Python frame";
  return said.size() == 1 ? said[0] : fmt::format("{} < {}", said[0], said[1]);
}

std::string origin_of(const RankHistory& history, Framework framework, std::int32_t cause) {
  const BlockCause& of = history.memory.causes[static_cast<std::size_t>(cause)];
  const std::string& module = history.modules[static_cast<std::size_t>(cause)];
  const std::string at = of.layer >= 0 ? fmt::format("{} {}", of.at, of.layer) : std::string(of.at);
  std::string said = fmt::format("{}, {}", info(of.term, framework).name, at);
  if (!module.empty()) said += ", " + module;
  return said;
}

/// Sizes of blocks, and how many of each one side has more than the other.
std::map<Bytes, std::int64_t> surplus(const Live& live, const Live& other) {
  std::map<Bytes, std::int64_t> more;
  for (const auto& [address, block] : live) ++more[block.size];
  for (const auto& [address, block] : other)
    if (const auto at = more.find(block.size); at != more.end() && --at->second == 0) more.erase(at);
  return more;
}

template <class OriginOf>
void add_lone(const Live& live, const Live& other, Stretch stretch, bool is_measured,
              const OriginOf& origin_of, std::vector<LoneBlocks>& blocks) {
  std::map<Bytes, std::int64_t> left = surplus(live, other);
  std::map<std::pair<Bytes, std::string>, std::int64_t> counts;
  for (const auto& [address, block] : live) {
    const auto at = left.find(block.size);
    if (at == left.end() || at->second == 0) continue;
    --at->second;
    ++counts[{block.size, origin_of(block.origin)}];
  }
  for (const auto& [of, count] : counts)
    blocks.push_back({is_measured, std::string(name_of(stretch)), of.first, count, of.second});
}

/// Leaves out what was already live when the step began.
Live since(const Live& live, const Live& held) {
  Live left;
  for (const auto& [address, block] : live) {
    const auto at = held.find(address);
    if (at == held.end() || at->second.size != block.size) left.emplace(address, block);
  }
  return left;
}

}  // namespace

const SnapshotPhase* SnapshotDifference::largest() const {
  const auto size = [](const SnapshotPhase& each) {
    return std::max(each.difference(), Bytes{} - each.difference());
  };
  const auto at = std::max_element(phases.begin(), phases.end(),
                                   [&](const auto& a, const auto& b) { return size(a) < size(b); });
  return at == phases.end() ? nullptr : &*at;
}

SnapshotDifference compare_snapshot(const MemorySnapshot& measured, const Setup& setup) {
  SnapshotDifference difference;
  difference.plan = plan_id(setup.training.framework, setup.strategy);
  const bool has_stacks =
      std::ranges::any_of(measured.stacks, [](const auto& each) { return !each.empty(); });
  if (!has_stacks) {
    difference.note =
        "it has no Python stacks, which tell phases apart: _record_memory_history(stacks=\"python\") keeps "
        "them";
    return difference;
  }
  const std::vector<Change> changes = changes_of(measured);
  const auto step = last_step(changes);
  if (!step) {
    difference.note =
        "its history has no whole optimizer step: max_entries was too low, or it ended before one";
    return difference;
  }
  Live live = live_before(changes, measured.held);
  for (std::size_t i = 0; i < step->first; ++i) take(changes[i], live);
  const PlayedHistory there = played(changes, step->first, step->second, std::move(live));
  const RankHistory history = rank_history(setup.model, setup.cluster, setup.training, setup.strategy,
                                           class_of(setup.strategy.layout, setup.rank));
  const PlayedHistory here = predicted_step(history);
  const auto measured_origin = [&](std::int32_t stack) { return origin_of(measured, stack); };
  const auto predicted_origin = [&](std::int32_t cause) {
    return origin_of(history, setup.training.framework, cause);
  };
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const auto stretch = static_cast<Stretch>(i);
    difference.phases.push_back({std::string(name_of(stretch)), there.highest[i], here.highest[i]});
    const Live was = i == 0 ? there.held : since(there.at_highest[i], there.held);
    const Live is = i == 0 ? here.held : since(here.at_highest[i], here.held);
    add_lone(was, is, stretch, true, measured_origin, difference.blocks);
    add_lone(is, was, stretch, false, predicted_origin, difference.blocks);
  }
  std::ranges::stable_sort(difference.blocks, std::ranges::greater{}, &LoneBlocks::total);
  return difference;
}

}  // namespace zplan::check
