// Pipeline schedules of torch.distributed.pipelining. Schedules of several chunks of layers are lowered as
// torch lowers them: what FSDP gathers and releases, and the transfers, are put between the passes of all
// ranks at once. Source: torch 2.14.1 distributed/pipelining/schedules.py ScheduleGPipe, Schedule1F1B,
// ScheduleInterleaved1F1B, ScheduleLoopedBFS, _add_unshard_reshard, _add_reduce_grad, _add_send_recv;
// compared with recorded steps (docs/torchtitan.md).

#include <algorithm>
#include <deque>
#include <utility>

#include "planner/step/step_schedule.h"

namespace zplan {

using Kind = Slot::Kind;

namespace {

/// Action is a pass, or what belongs to a chunk of layers, by the chunk's number in the model.
struct Action {
  Kind kind{Kind::forward};
  std::int64_t part{}, micro_batch{};
};
using Actions = std::vector<Action>;

/// Interleaved 1F1B. A round of micro-batches runs through all chunks of a rank, then the next round does.
class InterleavedOrder {
 public:
  InterleavedOrder(const TorchPipeline& of, std::int64_t rank)
      : of_(of),
        rank_(rank),
        round_(of.micro_batches / std::max<std::int64_t>(1, of.micro_batches / of.stages)),
        passes_(of.micro_batches * of.chunks),
        ahead_(std::min(passes_, (of.chunks - 1) * round_ + 2 * (of.stages - 1 - rank))),
        forwards_(static_cast<std::size_t>(of.chunks)),
        backwards_(static_cast<std::size_t>(of.chunks)) {}

  Actions write() {
    for (std::int64_t i = 0; i < ahead_; ++i) forward(i);
    for (std::int64_t i = ahead_; i < passes_; ++i) forward(i), backward(i);
    for (std::int64_t i = passes_; i < passes_ + ahead_; ++i) backward(i);
    return std::move(actions_);
  }

 private:
  void forward(std::int64_t i) { add(Kind::forward, i / round_ % of_.chunks, forwards_); }
  void backward(std::int64_t i) {
    add(Kind::backward, of_.chunks - 1 - (i - ahead_) / round_ % of_.chunks, backwards_);
  }
  void add(Kind kind, std::int64_t chunk, std::vector<std::int64_t>& done) {
    actions_.push_back({kind, chunk * of_.stages + rank_, done[static_cast<std::size_t>(chunk)]++});
  }

  const TorchPipeline& of_;
  std::int64_t rank_, round_, passes_, ahead_;
  std::vector<std::int64_t> forwards_, backwards_;  ///< by chunk: how many micro-batches ran
  Actions actions_;
};

/// Looped breadth first: all micro-batches run through a chunk, then through the next.
Actions breadth_first(const TorchPipeline& of, std::int64_t rank) {
  Actions actions;
  for (std::int64_t chunk = 0; chunk < of.chunks; ++chunk)
    for (std::int64_t i = 0; i < of.micro_batches; ++i)
      actions.push_back({Kind::forward, chunk * of.stages + rank, i});
  for (std::int64_t chunk = of.chunks; chunk-- > 0;)
    for (std::int64_t i = of.micro_batches; i-- > 0;)
      actions.push_back({Kind::backward, chunk * of.stages + rank, i});
  return actions;
}

/// The next chunks that are computed with, at most `most`.
std::vector<std::int64_t> next_parts(const Actions& actions, std::size_t from, std::size_t most) {
  std::vector<std::int64_t> parts;
  for (std::size_t i = from; i < actions.size() && parts.size() < most; ++i)
    if (std::ranges::find(parts, actions[i].part) == parts.end()) parts.push_back(actions[i].part);
  return parts;
}

/// Gathers chunks ahead, of which three stay gathered, and releases others.
Actions with_gathers(const Actions& actions) {
  constexpr std::size_t kActive = 3;
  Actions all;
  std::vector<std::int64_t> active;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::vector<std::int64_t> next = next_parts(actions, i, kActive);
    const auto is_next = [&](std::int64_t part) { return std::ranges::find(next, part) != next.end(); };
    for (const std::int64_t part : std::vector<std::int64_t>(active))
      if (!is_next(part)) all.push_back({Kind::reshard, part, 0}), std::erase(active, part);
    for (const std::int64_t part : next)
      if (std::ranges::find(active, part) == active.end())
        all.push_back({Kind::unshard, part, 0}), active.push_back(part);
    all.push_back(actions[i]);
  }
  for (const std::int64_t part : active) all.push_back({Kind::reshard, part, 0});
  return all;
}

/// Reduces a chunk's gradients behind the last of its backwards.
Actions with_reductions(const Actions& actions, const TorchPipeline& of) {
  Actions all;
  std::vector<std::int64_t> done(static_cast<std::size_t>(of.chunks));
  for (const Action& each : actions) {
    all.push_back(each);
    if (each.kind != Kind::backward) continue;
    if (++done[static_cast<std::size_t>(each.part / of.stages)] == of.micro_batches)
      all.push_back({Kind::reduce, each.part, 0});
  }
  return all;
}

/// Transfers puts sends behind passes, and the receives of their results where the sender is that far.
class Transfers {
 public:
  Transfers(const TorchPipeline& of, std::vector<Actions> passes)
      : of_(of), made_(passes.size()), arrived_(2 * static_cast<std::size_t>(parts() * of.micro_batches)) {
    for (const Actions& each : passes) waiting_.emplace_back(each.begin(), each.end());
  }

  std::vector<Actions> write() {
    const auto is_over = [](const auto& each) { return each.empty(); };
    while (!std::ranges::all_of(waiting_, is_over))
      for (std::size_t rank = 0; rank < waiting_.size(); ++rank) advance(rank);
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::int64_t parts() const { return of_.stages * of_.chunks; }
  /// Whether a pass' input arrived: hidden states, or their gradient.
  [[nodiscard]] auto arrived(bool forward, std::int64_t part, std::int64_t micro_batch) {
    return arrived_[static_cast<std::size_t>(((forward ? 0 : parts()) + part) * of_.micro_batches +
                                             micro_batch)];
  }
  [[nodiscard]] bool is_ready(const Action& each) {
    if (each.kind == Kind::forward && each.part > 0) return arrived(true, each.part, each.micro_batch);
    if (each.kind == Kind::backward && each.part + 1 < parts())
      return arrived(false, each.part, each.micro_batch);
    return true;
  }
  void advance(std::size_t rank) {
    if (waiting_[rank].empty() || !is_ready(waiting_[rank].front())) return;
    const Action next = waiting_[rank].front();
    waiting_[rank].pop_front();
    made_[rank].push_back(next);
    if (next.kind == Kind::forward && next.part + 1 < parts())
      send(rank, next, next.part + 1, Kind::send_hidden, Kind::receive_hidden);
    if (next.kind == Kind::backward && next.part > 0)
      send(rank, next, next.part - 1, Kind::send_gradient, Kind::receive_gradient);
  }
  void send(std::size_t rank, const Action& pass, std::int64_t to, Kind sends, Kind receives) {
    made_[rank].push_back({sends, pass.part, pass.micro_batch});
    made_[static_cast<std::size_t>(to % of_.stages)].push_back({receives, to, pass.micro_batch});
    arrived(pass.kind == Kind::forward, to, pass.micro_batch) = true;
  }

  const TorchPipeline& of_;
  std::vector<std::deque<Action>> waiting_;
  std::vector<Actions> made_;
  std::vector<bool> arrived_;
};

/// Returns the actions of every rank, which follow from each other. Plans ask for one rank after the other,
/// so those of the last pipeline are kept.
const std::vector<Actions>& lowered(const TorchPipeline& of) {
  thread_local TorchPipeline last;
  thread_local std::vector<Actions> made;
  if (!made.empty() && last == of) return made;
  std::vector<Actions> all;
  for (std::int64_t each = 0; each < of.stages; ++each) {
    const Actions order = of.breadth_first ? breadth_first(of, each) : InterleavedOrder(of, each).write();
    all.push_back(with_reductions(with_gathers(order), of));
  }
  made = Transfers(of, std::move(all)).write(), last = of;
  return made;
}

void add_step(StepSchedule& schedule) { schedule.rounds.push_back({.slots = {{.kind = Kind::step}}}); }

/// Adds the reduction of all gradients in front of the optimizer step.
StepSchedule with_reduction(StepSchedule schedule) {
  schedule.rounds.insert(schedule.rounds.end() - 1, {.slots = {{.kind = Kind::reduce, .last = true}}});
  return schedule;
}

/// Writes the first repetition of a repeated round out: gradients that the one before left are in its way,
/// and its own in that of those behind it.
StepSchedule with_second_round(StepSchedule schedule) {
  for (std::size_t i = 0; i < schedule.rounds.size(); ++i) {
    if (schedule.rounds[i].repeats < 2) continue;
    Round first = schedule.rounds[i];
    first.repeats = 1, first.steady = false;
    Round& rest = schedule.rounds[i];
    --rest.repeats, rest.steady = rest.repeats > 1;
    for (Slot& slot : rest.slots) slot.micro_batch += first.begun();
    schedule.rounds.insert(schedule.rounds.begin() + static_cast<std::ptrdiff_t>(i), std::move(first));
    break;
  }
  return schedule;
}

}  // namespace

StepSchedule torch_one_forward_one_backward(std::int64_t stage, std::int64_t stages,
                                            std::int64_t micro_batches) {
  return with_reduction(with_second_round(one_forward_one_backward(stage, stages, micro_batches)));
}

StepSchedule torch_gpipe(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  StepSchedule schedule;
  Round& all = schedule.rounds.emplace_back();
  const auto add = [&](Kind kind, std::int64_t i) {
    all.slots.push_back({.kind = kind, .micro_batch = i, .last = i + 1 == micro_batches});
  };
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    if (stage > 0) add(Kind::receive_hidden, i);
    add(Kind::forward, i);
    if (stage + 1 < stages) add(Kind::send_hidden, i);
  }
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    if (stage + 1 < stages) add(Kind::receive_gradient, i);
    add(Kind::backward, i);
    if (stage > 0) add(Kind::send_gradient, i);
  }
  add_step(schedule);
  return with_reduction(std::move(schedule));
}

StepSchedule torch_looped(std::int64_t stage, const TorchPipeline& of) {
  StepSchedule schedule;
  Round& all = schedule.rounds.emplace_back();
  for (const Action& each : lowered(of)[static_cast<std::size_t>(stage)])
    all.slots.push_back({.kind = each.kind,
                         .micro_batch = each.micro_batch,
                         .tape = static_cast<std::size_t>(each.part / of.stages)});
  const auto last = std::find_if(all.slots.rbegin(), all.slots.rend(),
                                 [](const Slot& each) { return each.kind == Kind::reduce; });
  last->last = true;
  add_step(schedule);
  return schedule;
}

}  // namespace zplan
