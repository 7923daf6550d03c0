// Pipeline schedules of torch.distributed.pipelining. Schedules of several chunks of layers are lowered as
// torch lowers them: what FSDP gathers and releases, and the transfers, are put between the passes of all
// ranks at once. Source: torch 2.14.1 distributed/pipelining/schedules.py ScheduleGPipe, Schedule1F1B,
// ScheduleInterleaved1F1B, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble,
// ScheduleDualPipeV, _add_unshard_reshard, _add_reduce_grad, _add_send_recv; compared with recorded steps
// (docs/torchtitan.md).

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "planner/step/step_schedule.h"

namespace zplan {

using Kind = Slot::Kind;

namespace {

/// Action is a pass, or what belongs to a chunk of layers, by the chunk's number in the model.
struct Action {
  Kind kind{Kind::forward};
  std::int64_t part{}, micro_batch{};
  bool joins_next{};  ///< it is one action with the next: what follows from both comes behind both
};
using Actions = std::vector<Action>;

[[nodiscard]] bool is_v_shaped(const TorchPipeline& of) {
  return of.order == TorchPipeline::Order::zero_bubble_v || of.order == TorchPipeline::Order::dual_pipe_v;
}
[[nodiscard]] std::int64_t parts_of(const TorchPipeline& of) { return of.stages * of.chunks; }
/// Returns the rank that holds a part of the model.
[[nodiscard]] std::int64_t rank_of(const TorchPipeline& of, std::int64_t part) {
  return is_v_shaped(of) && part >= of.stages ? parts_of(of) - 1 - part : part % of.stages;
}

/// Writes passes, whose micro-batches count on by part and kind.
class PassWriter {
 public:
  void add(Kind kind, std::int64_t part) {
    actions_.push_back({kind, part, next_[static_cast<std::size_t>(kind)][part]++});
  }
  void add(const Action& action) { actions_.push_back(action); }
  /// Adds a pass whose micro-batch counts on with those of kind `as`.
  void add(Kind kind, std::int64_t part, Kind as) {
    actions_.push_back({kind, part, next_[static_cast<std::size_t>(as)][part]++});
  }
  void join_next() { actions_.back().joins_next = true; }
  [[nodiscard]] std::int64_t count(Kind kind, std::int64_t part) {
    return next_[static_cast<std::size_t>(kind)][part];
  }
  [[nodiscard]] const Actions& actions() const { return actions_; }
  Actions take() { return std::move(actions_); }

 private:
  std::array<std::map<std::int64_t, std::int64_t>, static_cast<std::size_t>(Kind::step) + 1> next_;
  Actions actions_;
};

/// Interleaved 1F1B, and its zero-bubble form, whose gradients of weights follow later. A round of
/// micro-batches runs through all chunks of a rank, then the next round does.
class InterleavedOrder {
 public:
  InterleavedOrder(const TorchPipeline& of, std::int64_t rank)
      : of_(of),
        rank_(rank),
        splits_(of.order == TorchPipeline::Order::interleaved_zero_bubble),
        round_(of.micro_batches / std::max<std::int64_t>(1, of.micro_batches / of.stages)),
        passes_(of.micro_batches * of.chunks),
        ahead_(std::min(passes_, (of.chunks - 1) * round_ + (splits_ ? 1 : 2) * (of.stages - 1 - rank))) {}

  Actions write() {
    for (std::int64_t i = 0; i < ahead_; ++i) forward(i);
    for (std::int64_t i = ahead_; i < passes_; ++i) forward(i), backward(i);
    for (std::int64_t i = passes_; i < passes_ + ahead_; ++i) backward(i);
    while (splits_ && weighed_ < passes_) weigh();
    return writer_.take();
  }

 private:
  void forward(std::int64_t i) { writer_.add(Kind::forward, part(i / round_ % of_.chunks)); }
  void backward(std::int64_t i) {
    writer_.add(splits_ ? Kind::input_gradient : Kind::backward, part_behind(i - ahead_));
    if (splits_ && i - ahead_ >= rank_) weigh();
  }
  void weigh() { writer_.add(Kind::weight_gradient, part_behind(weighed_++)); }
  [[nodiscard]] std::int64_t part_behind(std::int64_t backward) const {
    return part(of_.chunks - 1 - backward / round_ % of_.chunks);
  }
  [[nodiscard]] std::int64_t part(std::int64_t chunk) const { return chunk * of_.stages + rank_; }

  const TorchPipeline& of_;
  std::int64_t rank_;
  bool splits_;
  std::int64_t round_, passes_, ahead_;
  std::int64_t weighed_{};  ///< gradients of weights so far
  PassWriter writer_;
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

/// The zero-bubble schedule whose chunks form a V. Passes of micro-batches that a short step lacks are left
/// out.
Actions zero_bubble_v(const TorchPipeline& of, std::int64_t rank) {
  PassWriter made;
  const std::int64_t first = rank, second = parts_of(of) - 1 - rank, behind = of.stages - rank;
  const std::int64_t micro_batches = std::max(2 * of.stages - 1, of.micro_batches);
  const auto both = [&](std::int64_t part) {
    made.add(Kind::input_gradient, part), made.add(Kind::weight_gradient, part);
  };
  for (std::int64_t i = 0; i < 2 * behind - 1; ++i) made.add(Kind::forward, first);
  for (std::int64_t i = 0; i < rank; ++i) made.add(Kind::forward, second), made.add(Kind::forward, first);
  for (std::int64_t i = 0; i < behind; ++i) made.add(Kind::forward, second), both(second);
  const auto forwards = [&](std::int64_t part) { return made.count(Kind::forward, part); };
  while (forwards(second) < forwards(first) || forwards(first) < micro_batches) {
    if (forwards(first) < micro_batches) made.add(Kind::forward, first);
    both(first);
    made.add(Kind::forward, second);
    both(second);
  }
  for (std::int64_t i = 0; i < rank; ++i)
    made.add(Kind::input_gradient, first), made.add(Kind::input_gradient, second);
  for (std::int64_t i = 0; i < behind; ++i) both(first);
  for (const std::int64_t part : {second, first})
    while (made.count(Kind::weight_gradient, part) < made.count(Kind::input_gradient, part))
      made.add(Kind::weight_gradient, part);
  Actions actions = made.take();
  std::erase_if(actions, [&](const Action& each) { return each.micro_batch >= of.micro_batches; });
  return actions;
}

/// DualPipe's order on chunks that form a V: a forward and a backward of different chunks are one action, and
/// backwards at both ends of the step are in two parts.
class DualPipeOrder {
 public:
  DualPipeOrder(const TorchPipeline& of, std::int64_t rank)
      : of_(of), rank_(rank), first_(rank), second_(parts_of(of) - 1 - rank) {}

  Actions write() {
    const std::int64_t behind = of_.stages - rank_ - 1;
    for (std::int64_t i = 0; i < 2 * behind; ++i) made_.add(Kind::forward, first_);
    for (std::int64_t i = 0; i <= rank_; ++i)
      made_.add(Kind::forward, first_), made_.add(Kind::forward, second_);
    for (std::int64_t i = 0; i < behind; ++i)
      backward(second_, true), weigh(), made_.add(Kind::forward, second_);
    for (std::int64_t i = 0; i <= of_.micro_batches - 2 * of_.stages + rank_; ++i) {
      made_.add(Kind::forward, first_);
      if (i > 0 || behind > 0) made_.join_next();
      backward(second_, false);
      forward_and_backward();
    }
    for (std::int64_t i = 0; i < behind; ++i) backward(second_, false), forward_and_backward();
    bool splits = false;
    for (std::int64_t i = 0; i <= rank_; ++i) {
      const bool is_middle = i == (rank_ + 1) / 2;
      splits = splits || (is_middle && rank_ % 2 == 1);
      backward(second_, splits);
      splits = splits || (is_middle && rank_ % 2 == 0);
      backward(first_, splits);
    }
    for (std::int64_t i = 0; i < behind; ++i) weigh(), backward(first_, splits);
    for (std::int64_t i = 0; i <= rank_; ++i) weigh();
    return made_.take();
  }

 private:
  void forward_and_backward() {
    made_.add(Kind::forward, second_);
    made_.join_next();
    backward(first_, false);
  }
  void backward(std::int64_t part, bool splits) {
    made_.add(splits ? Kind::input_gradient : Kind::backward, part, Kind::input_gradient);
    if (splits) waiting_.push_back(made_.actions().back());
  }
  /// Adds the gradients of weights that have waited longest.
  void weigh() {
    if (waiting_.empty()) return;
    Action next = waiting_.front();
    waiting_.pop_front();
    next.kind = Kind::weight_gradient;
    made_.add(next);
  }

  const TorchPipeline& of_;
  std::int64_t rank_, first_, second_;
  std::deque<Action> waiting_;
  PassWriter made_;
};

Actions order_of(const TorchPipeline& of, std::int64_t rank) {
  switch (of.order) {
    case TorchPipeline::Order::breadth_first: return breadth_first(of, rank);
    case TorchPipeline::Order::zero_bubble_v: return zero_bubble_v(of, rank);
    case TorchPipeline::Order::dual_pipe_v: return DualPipeOrder(of, rank).write();
    case TorchPipeline::Order::interleaved:
    case TorchPipeline::Order::interleaved_zero_bubble: break;
  }
  return InterleavedOrder(of, rank).write();
}

/// Returns for each pass which chunks are computed with from there on, the next ones first, at most `most`.
std::vector<std::vector<std::int64_t>> next_parts(const Actions& actions, std::size_t most) {
  std::vector<std::vector<std::int64_t>> all(actions.size());
  std::vector<std::int64_t> upcoming;
  for (std::size_t i = actions.size(); i-- > 0;) {
    std::erase(upcoming, actions[i].part);
    upcoming.insert(upcoming.begin(), actions[i].part);
    all[i].assign(upcoming.begin(),
                  upcoming.begin() + static_cast<std::ptrdiff_t>(std::min(most, upcoming.size())));
  }
  return all;
}

/// Gathers chunks ahead, of which three stay gathered, and releases others. Those of a V are two.
Actions with_gathers(const Actions& actions) {
  constexpr std::size_t kActive = 3;
  Actions all;
  std::vector<std::int64_t> active;
  const std::vector<std::vector<std::int64_t>> all_next = next_parts(actions, kActive);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::vector<std::int64_t>& next = all_next[i];
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
  std::vector<std::int64_t> done(static_cast<std::size_t>(parts_of(of)));
  Actions reductions;
  for (const Action& each : actions) {
    all.push_back(each);
    const bool ends_backward = each.kind == Kind::backward || each.kind == Kind::weight_gradient;
    if (ends_backward && ++done[static_cast<std::size_t>(each.part)] == of.micro_batches)
      reductions.push_back({Kind::reduce, each.part, 0});
    if (each.joins_next) continue;
    for (const Action& reduction : std::exchange(reductions, {})) all.push_back(reduction);
  }
  return all;
}

/// Transfers puts sends behind passes, and the receives of their results where the sender is that far.
class Transfers {
 public:
  Transfers(const TorchPipeline& of, std::vector<Actions> passes)
      : of_(of),
        made_(passes.size()),
        arrived_(2 * static_cast<std::size_t>(parts_of(of) * of.micro_batches)) {
    for (const Actions& each : passes) waiting_.emplace_back(each.begin(), each.end());
  }

  std::vector<Actions> write() {
    const auto is_over = [](const auto& each) { return each.empty(); };
    while (!std::ranges::all_of(waiting_, is_over))
      for (std::size_t rank = 0; rank < waiting_.size(); ++rank) advance(rank);
    return std::move(made_);
  }

 private:
  /// Whether a pass' input arrived: hidden states, or their gradient.
  [[nodiscard]] auto arrived(bool forward, std::int64_t part, std::int64_t micro_batch) {
    return arrived_[static_cast<std::size_t>(((forward ? 0 : parts_of(of_)) + part) * of_.micro_batches +
                                             micro_batch)];
  }
  [[nodiscard]] static bool makes_input_gradient(const Action& each) {
    return each.kind == Kind::backward || each.kind == Kind::input_gradient;
  }
  [[nodiscard]] bool is_ready(const Action& each) {
    if (each.kind == Kind::forward && each.part > 0) return arrived(true, each.part, each.micro_batch);
    if (makes_input_gradient(each) && each.part + 1 < parts_of(of_))
      return arrived(false, each.part, each.micro_batch);
    return true;
  }
  void advance(std::size_t rank) {
    std::deque<Action>& waiting = waiting_[rank];
    std::size_t joined = 1;
    while (joined < waiting.size() && waiting[joined - 1].joins_next) ++joined;
    if (waiting.empty() ||
        !std::all_of(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(joined),
                     [&](const Action& each) { return is_ready(each); }))
      return;
    const Actions next(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(joined));
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(joined));
    for (const Action& each : next) {
      made_[rank].push_back(each);
      // A tensor that stays on the rank is passed on within the action.
      pass_on(rank, each, true);
    }
    for (const Action& each : next) pass_on(rank, each, false);
  }
  /// Passes the result of a pass on to the next part, on this rank or on another.
  void pass_on(std::size_t rank, const Action& pass, bool on_rank) {
    const bool forward = pass.kind == Kind::forward;
    if (!forward && !makes_input_gradient(pass)) return;
    const std::int64_t to = pass.part + (forward ? 1 : -1);
    if (to < 0 || to == parts_of(of_)) return;
    const auto receiver = static_cast<std::size_t>(rank_of(of_, to));
    if ((receiver == rank) != on_rank) return;
    made_[rank].push_back({forward ? Kind::send_hidden : Kind::send_gradient, pass.part, pass.micro_batch});
    if (!on_rank)
      made_[receiver].push_back(
          {forward ? Kind::receive_hidden : Kind::receive_gradient, to, pass.micro_batch});
    arrived(forward, to, pass.micro_batch) = true;
  }

  const TorchPipeline& of_;
  std::vector<std::deque<Action>> waiting_;
  std::vector<Actions> made_;
  std::vector<bool> arrived_;
};

/// Returns the actions of a rank. Those of all ranks are made, because receives stand where their senders
/// are.
Actions lowered(const TorchPipeline& of, std::int64_t rank) {
  std::vector<Actions> all;
  for (std::int64_t each = 0; each < of.stages; ++each)
    all.push_back(with_reductions(with_gathers(order_of(of, each)), of));
  return std::move(Transfers(of, std::move(all)).write()[static_cast<std::size_t>(rank)]);
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

namespace {

/// Returns the slot of an action of rank `rank`.
Slot slot_of(const Action& each, const TorchPipeline& of, std::int64_t rank) {
  Slot slot{.kind = each.kind,
            .micro_batch = each.micro_batch,
            .tape = static_cast<std::size_t>(each.part / of.stages)};
  const bool is_sent = each.kind == Kind::send_hidden || each.kind == Kind::send_gradient;
  const std::int64_t to = each.part + (each.kind == Kind::send_hidden ? 1 : -1);
  slot.is_local = is_sent && rank_of(of, to) == rank;
  slot.is_backwards = is_v_shaped(of) && slot.tape == 1;
  return slot;
}

}  // namespace

StepSchedule torch_looped(std::int64_t stage, const TorchPipeline& of) {
  StepSchedule schedule;
  Round& all = schedule.rounds.emplace_back();
  std::set<std::pair<std::size_t, std::int64_t>> split;  // chunks, and their micro-batches
  for (const Action& each : lowered(of, stage)) {
    all.slots.push_back(slot_of(each, of, stage));
    if (each.kind == Kind::input_gradient) split.emplace(all.slots.back().tape, each.micro_batch);
  }
  const auto is_of_pass = [](Kind kind) {
    return kind != Kind::unshard && kind != Kind::reshard && kind != Kind::reduce;
  };
  for (Slot& each : all.slots)
    each.is_split = is_of_pass(each.kind) && split.contains({each.tape, each.micro_batch});
  const auto last = std::find_if(all.slots.rbegin(), all.slots.rend(),
                                 [](const Slot& each) { return each.kind == Kind::reduce; });
  last->last = true;
  add_step(schedule);
  return schedule;
}

}  // namespace zplan
