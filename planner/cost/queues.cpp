#include "planner/cost/queues.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>

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

/// When what ranks have sent each other arrives, until it is received.
class Mail {
 public:
  void send(std::int32_t from, std::int32_t to, double arrives) { sent_[{from, to}].push_back(arrives); }
  [[nodiscard]] bool holds(std::int32_t from, std::int32_t to) const {
    const auto found = sent_.find({from, to});
    return found != sent_.end() && !found->second.empty();
  }
  double receive(std::int32_t from, std::int32_t to) {
    std::deque<double>& waiting = sent_.at({from, to});
    const double arrives = waiting.front();
    waiting.pop_front();
    return arrives;
  }

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<double>> sent_;
};

/// The time that each queue has reached and, for one micro-batch size, what it did until then.
template <class T>
class Queues {
 public:
  static constexpr bool kDetailed = std::is_same_v<T, double>;
  Queues(const StepProgram& program, const Durations<T>& durations)
      : program_(program), durations_(durations) {
    instants_.reserve(static_cast<std::size_t>(program.instants) + 1);
    instants_.emplace_back();
  }

  void play() {
    for (const ClockEvent& each : program_.events) take(each);
  }
  [[nodiscard]] PlayedStep figures() const {
    PlayedStep played{did_, repeated_};
    played.once[kStep] = device_, played.once[kMicroSteps] = micro_steps_;
    played.repeated[kStep] = played.repeated[kMicroSteps] = again_;
    return played;
  }
  [[nodiscard]] PlayedLanes spans() const { return {device_, micro_steps_, again_}; }
  /// Returns the time of the compute stream without its waits for collectives.
  [[nodiscard]] T own() const {
    T waited{};
    for (std::size_t i = 0; i < kPhases; ++i) waited += did_[kExposed + i];
    return device_ - waited;
  }
  /// Runs as rank `rank` of several, which exchange through `mail`.
  void join(Mail& mail, std::int32_t rank) { mail_ = &mail, rank_ = rank; }
  /// Writes what it does to `spans` from here on.
  void record(std::vector<QueueSpan>& spans) { spans_ = &spans; }
  /// Marks the spans from here on as repetition `number` of repeated events; 0: the events as written down.
  void begin_repetition(std::int32_t number) { repetition_ = number; }
  [[nodiscard]] std::size_t instants() const { return instants_.size(); }
  /// Forgets the instants behind the first `count`: what comes next writes them anew.
  void forget_instants(std::size_t count) {
    instants_.resize(count);
    for (Expected& each : expected_) std::erase_if(each.instants, [&](std::size_t i) { return i >= count; });
  }
  /// Notes what has arrived since. Returns whether nothing was sent yet of what arrives at `instant`.
  [[nodiscard]] bool expects(std::int32_t instant) {
    take_mail();
    return std::ranges::any_of(expected_, [&](const Expected& each) {
      return std::ranges::find(each.instants, static_cast<std::size_t>(instant)) != each.instants.end();
    });
  }

  void take(const ClockEvent& event) {
    using Kind = ClockEvent::Kind;
    if constexpr (kDetailed) taken_ = &event;
    switch (event.kind) {
      case Kind::compute: return compute(durations_.loads[static_cast<std::size_t>(event.index)]);
      case Kind::move: return move(kOther, event.amount);
      case Kind::optimize: return move(kOptimizer, event.amount);
      case Kind::host: host(host_ + event.amount); return;
      case Kind::read_back: host(larger(host_, device_)); return;
      case Kind::note: instants_.push_back(device_); return;
      case Kind::issue: return issue(event);
      case Kind::wait: return wait(instants_[static_cast<std::size_t>(event.instant)], event.phase);
      case Kind::exchange: return exchange(event);
      case Kind::send: return send(event);
      case Kind::receive: return receive(event);
      case Kind::carry:
        return carry(static_cast<std::size_t>(event.index), static_cast<std::size_t>(event.instant));
      case Kind::begin_repeated: began_ = device_, before_ = did_; return;
      case Kind::end_repeated: return end_repeated();
      case Kind::end_micro_steps: micro_steps_ = device_; return;
    }
  }

 private:
  using Lane = QueueSpan::Lane;
  void span(Lane lane, const T& from, const T& until) {
    if constexpr (kDetailed) {
      if (spans_ == nullptr || until <= from) return;
      const auto number = static_cast<std::int32_t>(taken_ - program_.events.data());
      spans_->push_back({.lane = lane,
                         .kind = taken_->kind,
                         .phase = taken_->phase,
                         .event = number,
                         .repetition = repetition_,
                         .from = from,
                         .until = until});
    }
  }
  void host(const T& until) {
    span(Lane::host, host_, until);
    host_ = until;
  }
  /// Runs kernels that take `device` on the compute stream, and `host` to issue.
  void run(const T& device, const T& host, Lane lane = Lane::compute) {
    const T from = larger(device_, host_);
    span(lane, from, from + device);
    this->host(host_ + host);
    const T until = larger(from + device, host_);
    did(kLaunching, (from - device_) + (until - from - device));
    device_ = until;
  }
  void compute(const LoadSeconds<T>& load) {
    did(kProducts, load.products), did(kAttention, load.attention), did(kOther, load.other);
    run(load.products + load.attention + load.other, load.host);
  }
  void move(Figure figure, double bytes) {
    const T time = bytes / durations_.memory_bytes_per_second;
    did(figure, time);
    run(time, T{});
  }
  void issue(const ClockEvent& event) {
    const T& takes = durations_.calls[static_cast<std::size_t>(event.index)];
    did(kCommunication, takes);
    const T& earliest = instants_[static_cast<std::size_t>(event.instant)];
    const T from = larger(larger(collectives_, host_), earliest);
    collectives_ = from + takes;
    span(Lane::collectives, from, collectives_);
    instants_.push_back(collectives_);
  }
  void send(const ClockEvent& event) {
    const T& takes = durations_.calls[static_cast<std::size_t>(event.index)];
    did(kCommunication, takes);
    const T& earliest = instants_[static_cast<std::size_t>(event.instant)];
    const T from = larger(larger(transfers_, host_), earliest);
    transfers_ = from + takes;
    span(Lane::transfers, from, transfers_);
    instants_.push_back(transfers_);
    if constexpr (kDetailed)
      if (mail_ != nullptr) mail_->send(rank_, event.peer, transfers_);
  }
  /// Expected is a message of a peer that is received here and may not have been sent yet. Messages stand in
  /// the order in which they are received.
  struct Expected {
    std::int32_t peer{};
    std::vector<std::size_t> instants;  ///< at which it arrives: one, or a repetition's and the next one's
  };
  void receive(const ClockEvent& event) {
    instants_.push_back(host_);
    if (mail_ != nullptr) expected_.push_back({event.peer, {instants_.size() - 1}});
  }
  void take_mail() {
    if constexpr (kDetailed) {
      std::set<std::int32_t> late;
      std::erase_if(expected_, [&](const Expected& each) {
        if (late.contains(each.peer) || !mail_->holds(each.peer, rank_)) {
          late.insert(each.peer);
          return false;
        }
        const double arrives = mail_->receive(each.peer, rank_);
        for (const std::size_t i : each.instants) instants_[i] = larger(instants_[i], arrives);
        return true;
      });
    }
  }
  /// The next repetition waits for `before` where it means `now`.
  void carry(std::size_t now, std::size_t before) {
    instants_[before] = instants_[now];
    for (Expected& each : expected_)
      if (std::ranges::find(each.instants, now) != each.instants.end()) each.instants.push_back(before);
  }
  void wait(const T& until, Phase phase) {
    const T from = larger(device_, host_);
    if constexpr (kDetailed) {
      did(kLaunching, until > device_ ? from - device_ : 0);
      did(kExposed + static_cast<std::size_t>(phase), until > from ? until - from : 0);
    }
    device_ = where_above(until, device_, larger(from, until), device_);
  }
  void exchange(const ClockEvent& event) {
    const T& takes = durations_.calls[static_cast<std::size_t>(event.index)];
    did(kCommunication, takes), did(kExposedTensor, takes);
    did(kExposed + static_cast<std::size_t>(event.phase), takes);
    run(takes, T{}, Lane::exchange);
  }
  void end_repeated() {
    for (std::size_t i = 0; i < did_.size(); ++i) repeated_[i] = did_[i] - before_[i];
    again_ = device_ - began_;
  }
  void did(std::size_t figure, const T& time) {
    if constexpr (kDetailed) did_[figure] += time;
  }

  const StepProgram& program_;
  const Durations<T>& durations_;
  T host_{}, device_{}, collectives_{}, transfers_{}, began_{}, again_{}, micro_steps_{};
  std::vector<T> instants_;
  RunFigures did_{}, before_{}, repeated_{};
  Mail* mail_{};
  std::int32_t rank_{};
  std::vector<Expected> expected_;
  std::vector<QueueSpan>* spans_{};
  std::int32_t repetition_{};  ///< of the repeated events that are taken
  const ClockEvent* taken_{};
};

/// One of several ranks, and how far it is in its program.
class Runner {
 public:
  Runner(const RankProgram& rank, Mail& mail, std::int32_t number)
      : events_(rank.program->events), queues_(*rank.program, *rank.durations) {
    queues_.join(mail, number);
  }

  [[nodiscard]] bool is_through() const { return next_ == events_.size(); }
  [[nodiscard]] PlayedStep figures() const { return queues_.figures(); }
  void record(std::vector<QueueSpan>& spans) { queues_.record(spans); }
  /// Goes on until the end, or to a wait for what was not sent yet; returns whether it got anywhere.
  bool advance() {
    const std::size_t from = next_;
    bool again = false;
    for (; !is_through() && !waits(events_[next_]); ++next_) {
      const ClockEvent& event = events_[next_];
      if (event.kind == ClockEvent::Kind::begin_repeated)
        began_ = next_, instants_ = queues_.instants(), times_ = 1;
      if (event.kind == ClockEvent::Kind::end_repeated && static_cast<double>(times_) < event.amount) {
        queues_.begin_repetition(static_cast<std::int32_t>(times_));
        ++times_, next_ = began_, again = true;
        queues_.forget_instants(instants_);
        continue;
      }
      if (event.kind == ClockEvent::Kind::end_repeated) queues_.begin_repetition(0);
      queues_.take(event);
    }
    return again || next_ != from;
  }

 private:
  [[nodiscard]] bool waits(const ClockEvent& event) {
    return event.kind == ClockEvent::Kind::wait && queues_.expects(event.instant);
  }

  const std::vector<ClockEvent>& events_;
  Queues<double> queues_;
  std::size_t next_{}, began_{}, instants_{};
  std::int64_t times_{};  ///< that the repeated events have come so far
};

}  // namespace

namespace {

/// Plays all ranks; the spans of rank `recorded` go to `spans` where that is not null.
std::vector<PlayedStep> play_together(const std::vector<RankProgram>& ranks, std::size_t recorded,
                                      std::vector<QueueSpan>* spans) {
  Mail mail;
  std::vector<Runner> runners;
  runners.reserve(ranks.size());
  for (const RankProgram& each : ranks)
    runners.emplace_back(each, mail, static_cast<std::int32_t>(runners.size()));
  if (spans != nullptr) runners.at(recorded).record(*spans);
  bool moved = true;
  while (moved) {
    moved = false;
    for (Runner& each : runners) moved = each.advance() || moved;
  }
  std::vector<PlayedStep> played;
  for (const Runner& each : runners) {
    if (!each.is_through()) throw std::logic_error("ranks of a step wait for each other");
    played.push_back(each.figures());
  }
  return played;
}

/// Spans of a step whose repeated micro-step was played once, in the order in which they were written.
class Repetition {
 public:
  Repetition(const StepProgram& program, const PlayedStep& played, std::int64_t repeats, std::int64_t most)
      : again_(played.repeated[kStep]), more_(repeats - 1), written_(std::min(repeats, most) - 1) {
    const std::vector<ClockEvent>& events = program.events;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].kind == ClockEvent::Kind::begin_repeated) begin_ = static_cast<std::int32_t>(i);
      if (events[i].kind == ClockEvent::Kind::end_repeated) end_ = static_cast<std::int32_t>(i);
    }
  }

  [[nodiscard]] std::vector<QueueSpan> write(const std::vector<QueueSpan>& once) {
    for (const QueueSpan& each : once)
      if (each.event < end_) add(each, 0);
    for (std::int64_t i = 1; i <= written_; ++i)
      for (const QueueSpan& each : once)
        if (each.event >= begin_ && each.event < end_) add(each, i);
    for (const QueueSpan& each : once)
      if (each.event >= end_) add(each, more_, 0);
    return std::move(spans_);
  }

 private:
  void add(const QueueSpan& span, std::int64_t times) { add(span, times, times); }
  /// Adds a span of repetition `repetition`. Where the queue is still busy with the micro-step before, the
  /// span begins later.
  void add(QueueSpan span, std::int64_t times, std::int64_t repetition) {
    const double shift = again_ * static_cast<double>(times);
    double& reached = reached_[static_cast<std::size_t>(span.lane)];
    span.from = std::max(span.from + shift, reached), span.until += shift;
    if (span.until <= span.from) return;
    span.repetition = static_cast<std::int32_t>(repetition);
    reached = span.until;
    spans_.push_back(span);
  }

  double again_;
  std::int64_t more_, written_;
  std::int32_t begin_{}, end_{};
  std::array<double, 5> reached_{};
  std::vector<QueueSpan> spans_;
};

}  // namespace

std::vector<PlayedStep> play(const std::vector<RankProgram>& ranks) {
  return play_together(ranks, 0, nullptr);
}

QueueHistory queue_history(const StepProgram& program, const Durations<double>& durations,
                           std::int64_t repeats, std::int64_t most_repetitions) {
  QueueHistory history;
  std::vector<QueueSpan> once;
  Queues<double> queues(program, durations);
  queues.record(once);
  queues.play();
  const PlayedStep played = queues.figures();
  const RunTime time = run_time(played, repeats);
  history.spans = Repetition(program, played, repeats, most_repetitions).write(once);
  history.step = time.step.value, history.micro_steps = time.micro_steps.value;
  return history;
}

QueueHistory queue_history(const std::vector<RankProgram>& ranks, std::size_t rank) {
  QueueHistory history;
  const RunTime time = run_time(play_together(ranks, rank, &history.spans)[rank], 1);
  history.step = time.step.value, history.micro_steps = time.micro_steps.value;
  return history;
}

PlayedStep play(const StepProgram& program, const Durations<double>& durations) {
  Queues<double> queues(program, durations);
  queues.play();
  return queues.figures();
}

PlayedLanes play(const StepProgram& program, const Durations<Lanes>& durations) {
  Queues<Lanes> queues(program, durations);
  queues.play();
  return queues.spans();
}

std::vector<double> own_work(const StepProgram& program, const Durations<double>& durations) {
  Queues<double> queues(program, durations);
  std::vector<double> done;
  done.reserve(program.events.size() + 1);
  for (const ClockEvent& each : program.events) {
    done.push_back(queues.own());
    queues.take(each);
  }
  done.push_back(queues.own());
  return done;
}

RunTime run_time(const PlayedStep& played, std::int64_t repeats) {
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

Durations<double> durations(const StepProgram& program, CostModel& cost_model) {
  Durations<double> result;
  for (const LoadTime& each : cost_model.loads())
    result.loads.push_back({each.products.value, each.attention.value, each.other.value, each.host.value});
  for (const TimedCall& each : program.calls) result.calls.push_back(cost_model.call(each.call).value);
  result.memory_bytes_per_second = cost_model.memory().value;
  return result;
}

RunTime run_time(const StepProgram& program, CostModel& cost_model, const Strategy& strategy) {
  return run_time(play(program, durations(program, cost_model)),
                  repeats_of(strategy.gradient_accumulation_steps));
}

}  // namespace zplan
