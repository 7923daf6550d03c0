#pragma once
// How far the queues of a GPU are while a run is played: the host, which issues everything; the compute
// stream; the collectives of the data-parallel group, which NCCL runs one behind the other. A step takes what
// its queues take, and what one waits for another shows.

#include <algorithm>
#include <array>

#include "planner/terms.h"
#include "planner/time/pace.h"

namespace zplan {

/// What the compute stream does, and what it waits for, in one optimizer step.
struct RunTime {
  Seconds step;                            ///< from the first micro-step's begin to the optimizer step's end
  Seconds micro_steps;                     ///< of that, until the last backward is through
  Seconds products, attention, other;      ///< kernels, by class; other: that only move bytes
  Seconds optimizer;                       ///< on the device
  Seconds launching;                       ///< the device waits for the host to issue kernels
  Seconds communication;                   ///< all collectives
  std::array<Seconds, kPhases> exposed{};  ///< of them, what the compute stream waits for, by phase
  Seconds exposed_tensor;                  ///< of that, tensor-parallel ones

  [[nodiscard]] Seconds exposed_communication() const {
    Seconds sum;
    for (const Seconds each : exposed) sum += each;
    return sum;
  }
  [[nodiscard]] Seconds compute() const { return products + attention + other; }
};

/// Without a pace nothing takes time.
class Clock {
 public:
  explicit Clock(Pace* pace) : pace_(pace) {}

  void begin_step() {
    synchronise();
    time_ = {}, began_ = device_;
  }
  /// Load `index` of the tape.
  void compute(std::int32_t index) {
    if (pace_ == nullptr) return;
    const LoadTime& load = pace_->load(index);
    time_.products += load.products, time_.attention += load.attention, time_.other += load.other;
    run(load.device(), load.host);
  }
  /// Kernels of a framework that read and write so much.
  void move(Bytes size) {
    if (pace_ == nullptr) return;
    const Seconds time = pace_->moving(size);
    time_.other += time;
    run(time, {});
  }
  void optimize(Bytes moved) {
    if (pace_ == nullptr) return;
    const Seconds time = pace_->moving(moved);
    time_.optimizer += time;
    run(time, {});
  }
  /// The host is busy with the framework's own code.
  void host(Seconds time) {
    if (pace_ != nullptr) host_ += time;
  }
  /// How far the compute stream is.
  [[nodiscard]] Seconds computed() const { return device_; }
  /// A collective of the data-parallel group is issued, and does not begin before `earliest`; when it is
  /// through.
  Seconds issue(const Call& call, Seconds earliest) {
    if (pace_ == nullptr) return {};
    const Seconds takes = pace_->call(call);
    time_.communication += takes;
    collectives_ = std::max({collectives_, host_, earliest}) + takes;
    return collectives_;
  }
  /// The compute stream goes on when a collective is through.
  void wait(Seconds until, Phase phase) {
    if (until <= device_) return;
    const Seconds from = std::max(device_, host_);
    time_.launching += from - device_;
    if (until > from) time_.exposed[static_cast<std::size_t>(phase)] += until - from;
    device_ = std::max(from, until);
  }
  /// A tensor-parallel collective: what is behind it needs its result.
  void exchange(const Call& call, Phase phase) {
    if (pace_ == nullptr) return;
    const Seconds takes = pace_->call(call);
    time_.communication += takes, time_.exposed_tensor += takes;
    time_.exposed[static_cast<std::size_t>(phase)] += takes;
    run(takes, {});
  }
  /// The host waits for the device.
  void synchronise() { host_ = device_ = std::max({host_, device_}); }

  void begin_micro_step() { micro_step_ = device_, before_ = time_; }
  /// The micro-step that was played stands for `more` beside it.
  void repeat(std::int64_t more);
  void end_micro_steps() { time_.micro_steps = device_ - began_; }
  /// Of the step so far.
  [[nodiscard]] RunTime time() const {
    RunTime result = time_;
    result.step = device_ - began_;
    return result;
  }

 private:
  /// Kernels that take `device` on the compute stream, and `host` to issue.
  void run(Seconds device, Seconds host) {
    const Seconds from = std::max(device_, host_);
    host_ += host;
    const Seconds until = std::max(from + device, host_);
    time_.launching += (from - device_) + (until - from - device);
    device_ = until;
  }

  Pace* pace_;
  Seconds host_, device_, collectives_;
  Seconds began_, micro_step_;
  RunTime time_, before_;
};

}  // namespace zplan
