#pragma once
// The program of one optimizer step for one rank, in order, over its queues: the host, which issues
// everything; the compute stream; the collectives of the data-parallel group, which NCCL runs one behind the
// other; transfers between the stages of a pipeline. A run writes the program; queues.h computes how long it
// takes. Neither the order nor what waits for what depends on the micro-batch size, so one program serves all
// sizes.

#include <array>
#include <cstdint>
#include <vector>

#include "planner/question/terms.h"
#include "planner/step/call.h"

namespace zplan {

/// A moment of a step that others can wait for: the end of a collective, or a point that the compute stream
/// reaches. Number 0 is the begin of the step.
struct Instant {
  std::int32_t number{};
  std::int32_t step{};  ///< whose it is: those of earlier steps are over
};

struct ClockEvent {
  enum class Kind : std::uint8_t {
    compute,    ///< load `index` of the tape
    move,       ///< kernels of a framework that read and write `amount` bytes
    optimize,   ///< the optimizer's
    host,       ///< the host is busy with the framework's own code for `amount` seconds
    read_back,  ///< the host reads what the compute stream has made: it waits for that
    note,       ///< how far the compute stream is becomes the next instant
    issue,      ///< call `index`, not before instant `instant`; its end is the next instant
    wait,       ///< the compute stream goes on at instant `instant`
    exchange,   ///< a tensor-parallel call: what is behind it needs its result
    send,       ///< call `index` to rank `peer`, not before instant `instant`; its end is the next instant
    receive,    ///< what `peer` sends next; its arrival is the next instant
    carry,      ///< instant `index` takes the place of `instant`, for the next repetition
    begin_repeated,  ///< what is from here on
    end_repeated,    ///< to here comes `amount` times, of which one is written down
    end_micro_steps,
  };
  Kind kind{Kind::compute};
  Phase phase{Phase::forward};
  std::int32_t index{-1};
  std::int32_t instant{};
  std::int32_t peer{-1};  ///< by place in the list of programs that run together
  double amount{};
  bool operator==(const ClockEvent&) const = default;
};

/// A collective of a step. Those that the tape names have its number, and the size of the micro-batch they
/// were noted for.
struct TimedCall {
  Call call;
  std::int32_t exchange{-1};
  friend bool operator==(const TimedCall& a, const TimedCall& b) {
    return a.exchange == b.exchange && a.call == b.call;
  }
};

struct StepProgram {
  std::vector<ClockEvent> events;
  std::vector<TimedCall> calls;  ///< each once
  std::int32_t instants{};       ///< how many there are, the begin of the step not counted
  bool operator==(const StepProgram&) const = default;
};

/// Writes the program of a step. It keeps no time: planner/cost/queues.h does.
class Clock {
 public:
  /// Begins a step; writes nothing of it unless it is `noted`.
  void begin_step(bool noted = true) { program_ = {}, last_ = {}, ++step_, noted_ = noted; }
  /// Adds load `index` of the tape.
  void compute(std::int32_t index) { add({.kind = ClockEvent::Kind::compute, .index = index}); }
  void move(Bytes size) { amount(ClockEvent::Kind::move, static_cast<double>(size.value)); }
  void optimize(Bytes moved) { amount(ClockEvent::Kind::optimize, static_cast<double>(moved.value)); }
  void host(Seconds time) { amount(ClockEvent::Kind::host, time.value); }
  void read_back() { add({.kind = ClockEvent::Kind::read_back}); }
  /// Returns the moment that the compute stream has reached.
  [[nodiscard]] Instant computed() {
    add({.kind = ClockEvent::Kind::note});
    return {++program_.instants, step_};
  }
  /// Issues a collective of the data-parallel group, which does not begin before `earliest`; returns when it
  /// is through. `exchange` is its number on the tape; −1: it has none.
  [[nodiscard]] Instant issue(const Call& call, Instant earliest, std::int32_t exchange = -1) {
    if (!noted_) return {};
    add({.kind = ClockEvent::Kind::issue, .index = number(call, exchange), .instant = number(earliest)});
    return {++program_.instants, step_};
  }
  void wait(Instant until, Phase phase) {
    if (number(until) > 0) add({.kind = ClockEvent::Kind::wait, .phase = phase, .instant = number(until)});
  }
  void exchange(const Call& call, std::int32_t exchange, Phase phase) {
    if (!noted_) return;
    add({.kind = ClockEvent::Kind::exchange, .phase = phase, .index = number(call, exchange)});
  }
  /// Sends to another rank on a stream of its own, once `earliest` is reached; returns when it is through.
  [[nodiscard]] Instant send(const Call& call, std::int32_t peer, Instant earliest, std::int32_t exchange) {
    return transfer({.kind = ClockEvent::Kind::send, .instant = number(earliest), .peer = peer}, call,
                    exchange);
  }
  /// Receives what `peer` sends; returns when it is there.
  [[nodiscard]] Instant receive(const Call& call, std::int32_t peer, std::int32_t exchange) {
    return transfer({.kind = ClockEvent::Kind::receive, .peer = peer}, call, exchange);
  }
  /// Lets the next repetition wait for `now` where this one waits for `before`, an instant of the repetition
  /// before it.
  void carry(Instant now, Instant before) {
    if (number(now) > 0 && number(before) > 0)
      add({.kind = ClockEvent::Kind::carry, .index = number(now), .instant = number(before)});
  }
  void begin_repeated() { add({.kind = ClockEvent::Kind::begin_repeated}); }
  void end_repeated(std::int64_t times = 1) {
    add({.kind = ClockEvent::Kind::end_repeated, .amount = static_cast<double>(times)});
  }
  void end_micro_steps() { add({.kind = ClockEvent::Kind::end_micro_steps}); }

  [[nodiscard]] const StepProgram& program() const { return program_; }

 private:
  void add(const ClockEvent& event) {
    if (noted_) program_.events.push_back(event);
  }
  [[nodiscard]] Instant transfer(ClockEvent event, const Call& call, std::int32_t exchange) {
    if (!noted_) return {};
    event.index = number(call, exchange);
    add(event);
    return {++program_.instants, step_};
  }
  void amount(ClockEvent::Kind kind, double amount) {
    if (amount > 0) add({.kind = kind, .amount = amount});
  }
  [[nodiscard]] std::int32_t number(Instant instant) const {
    return instant.step == step_ ? instant.number : 0;
  }
  [[nodiscard]] std::int32_t number(const Call& call, std::int32_t exchange);
  [[nodiscard]] std::int32_t find_or_add(const TimedCall& wanted);

  StepProgram program_;
  std::int32_t step_{};
  bool noted_{};
  std::array<std::int32_t, 64> last_{};  ///< numbers, from 1, of the calls of that kind that came last
};

}  // namespace zplan
