#include "planner/step/step_schedule.h"

#include <algorithm>

#include "planner/question/framework.h"

namespace zplan {

using Kind = Slot::Kind;

std::int64_t Round::begun() const {
  const auto first = std::ranges::find(slots, Kind::forward, &Slot::kind);
  return std::count_if(first, slots.end(), [&](const Slot& each) {
    return each.kind == Kind::forward && each.tape == first->tape;
  });
}

StepSchedule schedule_of_stage(const Training& training, const Strategy& strategy, std::int64_t stage) {
  const auto own = spec(training.framework).schedule;
  return own != nullptr ? own(strategy, stage)
                        : one_forward_one_backward(stage, strategy.layout.pipeline,
                                                   strategy.gradient_accumulation_steps);
}

StepSchedule unfolded(const StepSchedule& schedule) {
  StepSchedule whole;
  for (const Round& round : schedule.rounds)
    for (std::int64_t i = 0; i < round.repeats; ++i) {
      whole.rounds.push_back({.slots = round.slots});
      for (Slot& slot : whole.rounds.back().slots) slot.micro_batch += i * round.begun();
    }
  return whole;
}

StepSchedule at_ends(const StepSchedule& schedule) {
  std::int64_t last = 0;
  for (const Round& round : schedule.rounds) {
    const std::int64_t further = (round.repeats - 1) * round.begun();
    for (const Slot& slot : round.slots) last = std::max(last, slot.micro_batch + further);
  }
  StepSchedule ends;
  for (const Round& round : schedule.rounds) {
    Round kept;
    for (const Slot& slot : round.slots)
      if (slot.micro_batch == 0 || slot.micro_batch == last) kept.slots.push_back(slot);
    if (!kept.slots.empty()) ends.rounds.push_back(std::move(kept));
  }
  return ends;
}

StepSchedule repeated(const StepSchedule& schedule, std::int64_t passes, std::int64_t micro_batches) {
  if (passes == 1) return schedule;
  StepSchedule all;
  for (std::int64_t pass = 0; pass < passes; ++pass)
    for (Round round : schedule.rounds) {
      const bool steps = round.slots.front().kind == Kind::step;
      if (steps && pass + 1 < passes) continue;
      for (Slot& slot : round.slots) {
        slot.micro_batch += steps ? 0 : pass * micro_batches;
        slot.last = slot.last && pass + 1 == passes;
      }
      all.rounds.push_back(std::move(round));
    }
  return all;
}

StepSchedule accumulate_gradients(std::int64_t micro_batches) {
  const auto both = [&](std::int64_t i) -> std::vector<Slot> {
    const bool last = i + 1 == micro_batches;
    return {{.kind = Kind::forward, .micro_batch = i, .last = last},
            {.kind = Kind::backward, .micro_batch = i, .last = last}};
  };
  StepSchedule schedule{{{.slots = both(0)}}};
  if (micro_batches > 2)
    schedule.rounds.push_back({.slots = both(1), .repeats = repeats_of(micro_batches), .steady = true});
  if (micro_batches > 1) schedule.rounds.push_back({.slots = both(micro_batches - 1)});
  schedule.rounds.push_back({.slots = {{.kind = Kind::step}}});
  return schedule;
}

StepSchedule accumulate_lengths(std::size_t tapes, std::int64_t micro_batches) {
  StepSchedule schedule;
  std::int64_t micro_batch = 0;
  for (std::size_t i = 1; i <= tapes; ++i) {
    const std::size_t tape = i % tapes;
    const bool last = tape == 0 || micro_batch + 1 == micro_batches;
    Round round;
    for (const Kind each : {Kind::forward, Kind::backward})
      round.slots.push_back({.kind = each, .micro_batch = micro_batch, .tape = tape, .last = last});
    if (last) round.slots.push_back({.kind = Kind::step});
    micro_batch = last ? 0 : micro_batch + 1;
    schedule.rounds.push_back(std::move(round));
  }
  return schedule;
}

namespace {

/// Writes the slots of one stage.
class Stage {
 public:
  Stage(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches)
      : first_(stage == 0), last_(stage + 1 == stages), micro_batches_(micro_batches) {}

  void forward(Round& round, std::int64_t micro_batch) const {
    if (!first_) add(round, Kind::receive_hidden, micro_batch);
    add(round, Kind::forward, micro_batch);
    if (!last_) add(round, Kind::send_hidden, micro_batch);
  }
  void backward(Round& round, std::int64_t micro_batch) const {
    if (!last_) add(round, Kind::receive_gradient, micro_batch);
    add(round, Kind::backward, micro_batch);
    if (!first_) add(round, Kind::send_gradient, micro_batch);
  }

 private:
  void add(Round& round, Kind kind, std::int64_t micro_batch) const {
    round.slots.push_back(
        {.kind = kind, .micro_batch = micro_batch, .last = micro_batch + 1 == micro_batches_});
  }

  bool first_, last_;
  std::int64_t micro_batches_;
};

}  // namespace

StepSchedule one_forward_one_backward(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  const Stage of(stage, stages, micro_batches);
  const std::int64_t ahead = std::min(stages - stage - 1, micro_batches);
  StepSchedule schedule;
  for (std::int64_t i = 0; i < ahead; ++i) of.forward(schedule.rounds.emplace_back(), i);
  const std::int64_t both = micro_batches - ahead;
  const auto add_both = [&](std::int64_t i, std::int64_t repeats) {
    Round& round = schedule.rounds.emplace_back();
    round.repeats = repeats, round.steady = repeats > 1;
    of.forward(round, ahead + i), of.backward(round, i);
  };
  // The first and the last round of both are simulated by themselves, as gradient accumulation's are.
  if (both > 0) add_both(0, 1);
  if (both > 2) add_both(1, both - 2);
  if (both > 1) add_both(both - 1, 1);
  for (std::int64_t i = both; i < micro_batches; ++i) of.backward(schedule.rounds.emplace_back(), i);
  schedule.rounds.push_back({.slots = {{.kind = Kind::step}}});
  return schedule;
}

}  // namespace zplan
