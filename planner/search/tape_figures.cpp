#include "planner/search/tape_figures.h"

#include <bit>

namespace zplan {

namespace {

/// FNV-1a over what two micro-steps must have in common to be played by one program.
class OrderHash {
 public:
  void add(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3ULL; }
  void add(const CondensedSection& section) {
    add(section.size());
    for (const CondensedEvent& each : section) {
      add(static_cast<std::uint64_t>(each.kind));
      add(static_cast<std::uint64_t>(each.delta));
      add(static_cast<std::uint64_t>(each.event.index));
      const bool gives =
          each.kind == CondensedEvent::Kind::gradient || each.kind == CondensedEvent::Kind::part_of_gradient;
      if (gives) add(static_cast<std::uint64_t>(each.event.size.value));
    }
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_{0xcbf29ce484222325ULL};
};

std::uint64_t order_of(const CondensedTape& tape) {
  OrderHash hash;
  for (const CondensedSection* each : {&tape.start, &tape.head, &tape.head_backward, &tape.end})
    hash.add(*each);
  for (const CondensedSection& each : tape.transfers) hash.add(each);
  for (const CondensedTape::Layer& each : tape.classes) hash.add(each.forward), hash.add(each.backward);
  for (const std::size_t each : tape.layers) hash.add(each);
  return hash.value();
}

double bytes(Bytes size) { return static_cast<double>(size.value); }

MicroStepFigures<double> figures_of(const Recording& recording, const Cluster& cluster,
                                    const Training& training, std::int64_t tokens,
                                    std::int64_t micro_batch_size) {
  MicroStepFigures<double> result;
  for (const MemoryDelta& each : recording.condensed.deltas)
    result.live.deltas.push_back({bytes(each.highest_total), bytes(each.net_total)});
  result.live.inputs = bytes(token_ids(micro_batch_size * sequences_per_sample(training), tokens));
  const KernelRates rates(cluster, training);
  for (const Load& each : recording.tape.loads) {
    const LoadTime time = rates.time(each);
    result.loads.push_back({time.products.value, time.attention.value, time.other.value, time.host.value});
  }
  for (const Bytes each : recording.condensed.exchanges) result.exchanges.push_back(bytes(each));
  return result;
}

/// Calls f(a's figure, b's, …) for every figure of several micro-steps of one order.
template <class F, class First, class... Rest>
void for_each_figure(F&& f, First& first, Rest&... rest) {
  for (std::size_t i = 0; i < first.live.deltas.size(); ++i) {
    f(first.live.deltas[i].highest, rest.live.deltas[i].highest...);
    f(first.live.deltas[i].net, rest.live.deltas[i].net...);
  }
  f(first.live.inputs, rest.live.inputs...);
  for (std::size_t i = 0; i < first.loads.size(); ++i) {
    f(first.loads[i].products, rest.loads[i].products...);
    f(first.loads[i].attention, rest.loads[i].attention...);
    f(first.loads[i].other, rest.loads[i].other...);
    f(first.loads[i].host, rest.loads[i].host...);
  }
  for (std::size_t i = 0; i < first.exchanges.size(); ++i) f(first.exchanges[i], rest.exchanges[i]...);
}

template <class T>
MicroStepFigures<T> shaped_like(const MicroStepFigures<double>& other) {
  MicroStepFigures<T> result;
  result.live.deltas.resize(other.live.deltas.size());
  result.loads.resize(other.loads.size());
  result.exchanges.resize(other.exchanges.size());
  return result;
}

MicroStepFigures<double> between(const MicroStepFigures<double>& low, const MicroStepFigures<double>& high,
                                 double share) {
  auto result = shaped_like<double>(low);
  for_each_figure([share](double& to, const double a, const double b) { to = a + (b - a) * share; }, result,
                  low, high);
  return result;
}

}  // namespace

const SizedFigures& TapeFigures::recorded(std::int64_t b) {
  const auto known = sized_.find(b);
  if (known != sized_.end()) return known->second;
  const Recording& recording = recorder_(b);
  return sized_
      .emplace(b, SizedFigures{order_of(recording.condensed),
                               figures_of(recording, cluster_, training_, tokens_, b)})
      .first->second;
}

const SizedFigures& TapeFigures::sized(std::int64_t b) {
  const auto known = sized_.find(b);
  if (known != sized_.end()) return known->second;
  const auto low = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(b)));
  if (low == b) return recorded(b);
  const SizedFigures& below = recorded(low);
  const SizedFigures& above = recorded(low * 2);
  if (below.order != above.order) return recorded(b);
  const double share = static_cast<double>(b - low) / static_cast<double>(low);
  return sized_.emplace(b, SizedFigures{below.order, between(below.figures, above.figures, share)})
      .first->second;
}

const SizedFigures& TapeFigures::at(std::int64_t micro_batch_size) {
  const std::lock_guard lock(mutex_);
  return sized(micro_batch_size);
}

const MicroStepFigures<Lanes>& TapeFigures::at(const Sizes& sizes) {
  const std::lock_guard lock(mutex_);
  const auto known = packed_.find(sizes);
  if (known != packed_.end()) return known->second;
  auto packed = shaped_like<Lanes>(sized(sizes.front()).figures);
  for (std::size_t lane = 0; lane < sizes.size(); ++lane)
    for_each_figure([lane](Lanes& to, const double from) { to.of[lane] = from; }, packed,
                    sized(sizes[lane]).figures);
  return packed_.emplace(sizes, std::move(packed)).first->second;
}

}  // namespace zplan
