#include "planner/time/queues.h"

namespace zplan {

namespace {

enum Figure : std::size_t {
  kStep,
  kMicroSteps,
  kProducts,
  kAttention,
  kOther,
  kOptimizer,
  kLaunching,
  kCommunication,
  kExposedTensor,
  kExposed,
};

/// How far each queue is, and what it did on the way.
template <class T>
class Queues {
 public:
  Queues(const StepProgram& program, const Durations<T>& durations)
      : program_(program), durations_(durations) {
    instants_.reserve(static_cast<std::size_t>(program.instants) + 1);
    instants_.emplace_back();
  }

  PlayedStep<T> play() {
    for (const ClockEvent& each : program_.events) take(each);
    PlayedStep<T> played{did_, repeated_};
    played.once[kStep] = device_;
    return played;
  }

 private:
  void take(const ClockEvent& event) {
    using Kind = ClockEvent::Kind;
    switch (event.kind) {
      case Kind::compute: return compute(durations_.loads[static_cast<std::size_t>(event.index)]);
      case Kind::move: return move(kOther, event.amount);
      case Kind::optimize: return move(kOptimizer, event.amount);
      case Kind::host: host_ += event.amount; return;
      case Kind::note: instants_.push_back(device_); return;
      case Kind::issue: return issue(event);
      case Kind::wait: return wait(instants_[static_cast<std::size_t>(event.instant)], event.phase);
      case Kind::exchange: return exchange(event);
      case Kind::begin_repeated: began_ = device_, before_ = did_; return;
      case Kind::end_repeated: return end_repeated();
      case Kind::end_micro_steps: did_[kMicroSteps] = device_; return;
    }
  }

  /// Kernels that take `device` on the compute stream, and `host` to issue.
  void run(const T& device, const T& host) {
    const T from = larger(device_, host_);
    host_ += host;
    const T until = larger(from + device, host_);
    did_[kLaunching] += (from - device_) + (until - from - device);
    device_ = until;
  }
  void compute(const LoadSeconds<T>& load) {
    did_[kProducts] += load.products, did_[kAttention] += load.attention, did_[kOther] += load.other;
    run(load.products + load.attention + load.other, load.host);
  }
  void move(Figure figure, double bytes) {
    const T time = bytes / durations_.memory_bytes_per_second;
    did_[figure] += time;
    run(time, T{});
  }
  void issue(const ClockEvent& event) {
    const T& takes = durations_.calls[static_cast<std::size_t>(event.index)];
    did_[kCommunication] += takes;
    const T& earliest = instants_[static_cast<std::size_t>(event.instant)];
    collectives_ = larger(larger(collectives_, host_), earliest) + takes;
    instants_.push_back(collectives_);
  }
  void wait(const T& until, Phase phase) {
    const T from = larger(device_, host_);
    did_[kLaunching] += where_above(until, device_, from - device_);
    did_[kExposed + static_cast<std::size_t>(phase)] += where_above(until, from, until - from);
    device_ += where_above(until, device_, larger(from, until) - device_);
  }
  void exchange(const ClockEvent& event) {
    const T& takes = durations_.calls[static_cast<std::size_t>(event.index)];
    did_[kCommunication] += takes, did_[kExposedTensor] += takes;
    did_[kExposed + static_cast<std::size_t>(event.phase)] += takes;
    run(takes, T{});
  }
  void end_repeated() {
    for (std::size_t i = 0; i < did_.size(); ++i) repeated_[i] = did_[i] - before_[i];
    repeated_[kStep] = repeated_[kMicroSteps] = device_ - began_;
  }

  const StepProgram& program_;
  const Durations<T>& durations_;
  T host_{}, device_{}, collectives_{}, began_{};
  std::vector<T> instants_;
  RunFigures<T> did_{}, before_{}, repeated_{};
};

}  // namespace

template <class T>
PlayedStep<T> play(const StepProgram& program, const Durations<T>& durations) {
  return Queues<T>(program, durations).play();
}
template PlayedStep<double> play(const StepProgram&, const Durations<double>&);
template PlayedStep<Lanes> play(const StepProgram&, const Durations<Lanes>&);

RunTime run_time(const PlayedStep<double>& played, std::int64_t repeats) {
  const auto figure = [&](std::size_t i) {
    return Seconds(played.once[i] + played.repeated[i] * static_cast<double>(repeats - 1));
  };
  RunTime time{.step = figure(kStep),
               .micro_steps = figure(kMicroSteps),
               .products = figure(kProducts),
               .attention = figure(kAttention),
               .other = figure(kOther),
               .optimizer = figure(kOptimizer),
               .launching = figure(kLaunching),
               .communication = figure(kCommunication),
               .exposed_tensor = figure(kExposedTensor)};
  for (std::size_t i = 0; i < kPhases; ++i) time.exposed[i] = figure(kExposed + i);
  return time;
}

Durations<double> durations(const StepProgram& program, Pace& pace) {
  Durations<double> result;
  for (const LoadTime& each : pace.loads())
    result.loads.push_back({each.products.value, each.attention.value, each.other.value, each.host.value});
  for (const TimedCall& each : program.calls) result.calls.push_back(pace.call(each.call).value);
  result.memory_bytes_per_second = pace.memory().value;
  return result;
}

RunTime run_time(const StepProgram& program, Pace& pace, const Strategy& strategy) {
  return run_time(play(program, durations(program, pace)), repeats_of(strategy.gradient_accumulation_steps));
}

}  // namespace zplan
