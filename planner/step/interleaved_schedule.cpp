// Interleaved 1F1B: each stage of a pipeline holds several chunks of layers.

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/step/step_schedule.h"

namespace zplan {

using Kind = Slot::Kind;

namespace {

/// Pass is a micro-batch in one of a stage's chunks.
struct Pass {
  std::int64_t micro_batch{};
  std::int64_t chunk{};
};

enum class Direction : bool { forward, backward };

/// Writes the slots of one stage. Its passes are numbered in the order of its forwards, and in that of its
/// backwards.
class InterleavedStage {
 public:
  InterleavedStage(std::int64_t stage, const Interleaving& of)
      : of_(of),
        stage_(stage),
        passes_(of.micro_batches * of.chunks),
        ahead_(std::min(passes_, 2 * (of.stages - stage - 1) + (of.chunks - 1) * of.group)),
        is_reduced_(static_cast<std::size_t>(of.chunks)) {}

  StepSchedule write() {
    begin_round();
    if (!is_first()) receive(Direction::forward, pass(Direction::forward, 0), {.awaited = true});
    for (std::int64_t i = 0; i < ahead_; ++i) run_ahead(i);
    run_all_both();
    free_sent_behind(passes_ - 1);
    if (both() == 0 && !is_last())
      receive(Direction::backward, pass(Direction::backward, 0), {.awaited = true});
    for (std::int64_t i = both(); i < passes_; ++i) run_behind(i);
    for (std::int64_t chunk = 0; chunk < of_.chunks; ++chunk)
      if (!is_reduced_[static_cast<std::size_t>(chunk)]) reduce(chunk);
    schedule_.rounds.push_back({.slots = {{.kind = Kind::step}}});
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] bool is_first() const { return stage_ == 0; }
  [[nodiscard]] bool is_last() const { return stage_ + 1 == of_.stages; }
  /// Returns how many forwards and backwards come in turn.
  [[nodiscard]] std::int64_t both() const { return passes_ - ahead_; }

  /// Returns pass `i`: a group of micro-batches runs through all chunks, then the next group does. Backwards
  /// run through chunks from the last to the first.
  [[nodiscard]] Pass pass(Direction direction, std::int64_t i) const {
    const std::int64_t passes = of_.group * of_.chunks, first = i / passes * of_.group;
    const std::int64_t group = std::min(of_.group, of_.micro_batches - first);
    const std::int64_t chunk = i % passes / group;
    return {first + i % passes % group, direction == Direction::forward ? chunk : of_.chunks - 1 - chunk};
  }

  /// Returns whether another stage needs what the pass computes.
  [[nodiscard]] bool sends(Direction direction, const Pass& of) const {
    return direction == Direction::forward ? !is_last() || of.chunk + 1 < of_.chunks
                                           : !is_first() || of.chunk > 0;
  }

  /// Returns the pass whose input is received behind pass `i`: the next one. The stage that leads gets what
  /// the stage at the other end, which is behind by the stages between, computed for the next chunk.
  [[nodiscard]] std::optional<Pass> received_behind(Direction direction, std::int64_t i) const {
    if (i + 1 == passes_) return std::nullopt;
    const bool leads = direction == Direction::forward ? is_first() : is_last();
    if (!leads) return pass(direction, i + 1);
    const std::int64_t computed = i - (of_.stages - 1);
    if (computed < 0) return std::nullopt;
    Pass next = pass(direction, computed);
    next.chunk += direction == Direction::forward ? 1 : -1;
    return next.chunk < 0 || next.chunk == of_.chunks ? std::nullopt : std::optional(next);
  }

  void begin_round() { schedule_.rounds.emplace_back(); }
  void add(Kind kind, const Pass& of, Slot slot = {}) {
    slot.kind = kind, slot.micro_batch = of.micro_batch, slot.tape = static_cast<std::size_t>(of.chunk);
    schedule_.rounds.back().slots.push_back(slot);
  }

  void receive(Direction direction, const std::optional<Pass>& of, const Slot& how) {
    if (!of) return;
    add(direction == Direction::forward ? Kind::receive_hidden : Kind::receive_gradient, *of, how);
  }
  /// Adds a send. The odd one of two stages sends over a communicator of its own, so that both directions run
  /// at once.
  void send(Direction direction, const Pass& of, Slot how) {
    if (!sends(direction, of)) return;
    how.over_world = of_.overlaps && of_.stages == 2 && stage_ % 2 == 1;
    add(direction == Direction::forward ? Kind::send_hidden : Kind::send_gradient, of, how);
  }
  /// Even stages send first and odd ones receive first, unless all transfers are issued as one.
  void exchange(Direction direction, const Pass& sent, const Slot& send_as,
                const std::optional<Pass>& received, const Slot& receive_as) {
    const bool sends_first = !of_.overlaps || stage_ % 2 == 0;
    if (sends_first) send(direction, sent, send_as);
    receive(direction, received, receive_as);
    if (!sends_first) send(direction, sent, send_as);
  }

  /// A forward before the first backward. Transfers are waited for unless they overlap here, too; then all
  /// but the first stage receive before they compute.
  void run_ahead(std::int64_t i) {
    begin_round();
    const Pass now = pass(Direction::forward, i);
    std::optional<Pass> next = received_behind(Direction::forward, i);
    const bool waits = !of_.overlaps_ends, ends = i + 1 == ahead_ && both() > 0;
    if (!waits && !is_first()) receive(Direction::forward, std::exchange(next, std::nullopt), {});
    add(Kind::forward, now);
    exchange(Direction::forward, now, {.awaited = true}, next,
             {.awaited = waits, .kept = waits && ends && of_.overlaps});
    if (ends && !is_last())
      receive(Direction::backward, pass(Direction::backward, 0), {.awaited = !of_.overlaps});
  }

  /// A forward and a backward. Where transfers overlap, what a forward sends stays until the next one.
  void run_both(std::int64_t i) {
    begin_round();
    const std::int64_t ahead = ahead_ + i;
    const Pass there = pass(Direction::forward, ahead), back = pass(Direction::backward, i);
    const auto next = received_behind(Direction::forward, ahead);
    const auto next_back = received_behind(Direction::backward, i);
    if (i > 0) free_sent_behind(ahead - 1);
    add(Kind::forward, there);
    if (of_.overlaps) exchange(Direction::forward, there, {.awaited = true, .kept = true}, next, {});
    backward(i);
    if (of_.overlaps) return exchange(Direction::backward, back, {}, next_back, {});
    send(Direction::backward, back, {.awaited = true}), send(Direction::forward, there, {.awaited = true});
    receive(Direction::forward, next, {.awaited = true});
    receive(Direction::backward, next_back, {.awaited = true});
  }

  /// Groups of micro-batches that are not at an end of the step are alike: one stands for all where they are
  /// many. The first and the last are written by themselves, as gradient accumulation's are.
  void run_all_both() {
    constexpr std::int64_t kLeast = 4;
    const std::int64_t passes = of_.group * of_.chunks;
    const std::int64_t whole = of_.micro_batches / of_.group * passes;  // without a last group of fewer
    const std::int64_t alike = (whole - ahead_ - 1) / passes - 2;
    std::int64_t i = 0;
    for (const std::int64_t end = alike < kLeast ? both() : passes; i < end; ++i) run_both(i);
    if (alike >= kLeast) fold(i, passes, alike), i += passes * alike;
    for (; i < both(); ++i) run_both(i);
  }
  /// Writes `passes` forwards and backwards from the `first` on as one round that comes `times` times.
  void fold(std::int64_t first, std::int64_t passes, std::int64_t times) {
    const std::size_t begin = schedule_.rounds.size();
    for (std::int64_t i = 0; i < passes; ++i) run_both(first + i);
    Round one{.slots = {}, .repeats = times, .steady = true};
    for (std::size_t i = begin; i < schedule_.rounds.size(); ++i) {
      const std::vector<Slot>& slots = schedule_.rounds[i].slots;
      one.slots.insert(one.slots.end(), slots.begin(), slots.end());
    }
    schedule_.rounds.resize(begin);
    schedule_.rounds.push_back(std::move(one));
  }

  /// A backward behind the last forward.
  void run_behind(std::int64_t i) {
    begin_round();
    const bool waits = !of_.overlaps_ends;
    std::optional<Pass> next = received_behind(Direction::backward, i);
    if (!waits && !is_last()) receive(Direction::backward, std::exchange(next, std::nullopt), {});
    backward(i);
    exchange(Direction::backward, pass(Direction::backward, i), {.awaited = waits}, next, {.awaited = waits});
  }

  void free_sent_behind(std::int64_t i) {
    const Pass of = pass(Direction::forward, i);
    if (of_.overlaps && both() > 0 && sends(Direction::forward, of)) add(Kind::free_sent, of);
  }

  /// Backward `i`, and the reduction of a chunk. All stages reduce a chunk at about the same time: later
  /// stages are through with it earlier, and wait.
  void backward(std::int64_t i) {
    add(Kind::backward, pass(Direction::backward, i), {.last = i + 1 == passes_});
    if (i < stage_) return;
    const Pass reduced = pass(Direction::backward, i - stage_);
    if (reduced.micro_batch + 1 == of_.micro_batches) reduce(reduced.chunk);
  }
  void reduce(std::int64_t chunk) {
    is_reduced_[static_cast<std::size_t>(chunk)] = true;
    const bool last = std::ranges::find(is_reduced_, false) == is_reduced_.end();
    add(Kind::reduce, {of_.micro_batches - 1, chunk}, {.last = last});
  }

  Interleaving of_;
  std::int64_t stage_, passes_;
  std::int64_t ahead_;  ///< forwards before the first backward
  std::vector<bool> is_reduced_;
  StepSchedule schedule_;
};

}  // namespace

StepSchedule interleaved_one_forward_one_backward(std::int64_t stage, const Interleaving& of) {
  return InterleavedStage(stage, of).write();
}

}  // namespace zplan
