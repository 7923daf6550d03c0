#include "planner/search/layout_search.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "planner/search/parallel.h"

namespace zplan {

namespace {

/// Candidates that are simulated side by side, whatever the number of threads.
constexpr std::size_t kRound = 8;

Bytes share_of(Bytes bytes, double share) {
  return Bytes(static_cast<std::int64_t>(static_cast<double>(bytes.value) * share));
}

/// Fastest first; of equals what needs less, then what comes first.
void sort_by_bound(std::vector<LayoutCandidate>& all) {
  const auto key = [](const LayoutCandidate& each) {
    return std::tuple(-each.most_tokens_per_second, each.bound.required, each.family, each.micro_batch_size);
  };
  std::sort(all.begin(), all.end(),
            [&](const LayoutCandidate& a, const LayoutCandidate& b) { return key(a) < key(b); });
}

/// Plans that fit, of which none is faster than another that needs as little.
class Front {
 public:
  explicit Front(Bytes available) : available_(available) {}
  [[nodiscard]] double fastest() const { return fastest_; }
  /// Returns the most bytes with which a plan of at most this speed adds to the front.
  [[nodiscard]] Bytes room(double tokens_per_second) const {
    Bytes room = available_;
    for (const Estimate& each : plans_)
      if (each.tokens_per_second >= tokens_per_second)
        room = std::min(room, share_of(each.required_low, 1 - LayoutScreen::kLeastSaved));
    return room;
  }
  void add(const Estimate& estimate) {
    fastest_ = std::max(fastest_, estimate.tokens_per_second);
    std::erase_if(plans_, [&](const Estimate& each) {
      return each.tokens_per_second <= estimate.tokens_per_second &&
             each.required_low >= estimate.required_low;
    });
    plans_.push_back(estimate);
  }

 private:
  Bytes available_;
  double fastest_{};
  std::vector<Estimate> plans_;
};

/// Mean shares of their bounds' speeds that simulated plans reach.
class Misses {
 public:
  void add(const LayoutCandidate& candidate, double tokens_per_second) {
    const double share = tokens_per_second / candidate.most_tokens_per_second;
    of_all_.add(share), of_kind_[candidate.kind].add(share);
  }
  /// Returns the speed that a candidate promises.
  [[nodiscard]] double promised(const LayoutCandidate& candidate) const {
    const auto kind = of_kind_.find(candidate.kind);
    const Mean& mean = kind != of_kind_.end() ? kind->second : of_all_;
    return candidate.most_tokens_per_second * mean.value();
  }

 private:
  struct Mean {
    double sum{};
    int count{};
    void add(double value) { sum += value, ++count; }
    [[nodiscard]] double value() const { return count == 0 ? 1 : sum / count; }
  };
  Mean of_all_;
  std::map<std::size_t, Mean> of_kind_;
};

/// Removes a round of candidates that promise most from `all`, which stays in order, and returns it.
std::vector<LayoutCandidate> take_most_promising(std::vector<LayoutCandidate>& all, const Misses& misses) {
  std::vector<std::pair<double, std::size_t>> promised;
  for (std::size_t i = 0; i < all.size(); ++i) promised.emplace_back(-misses.promised(all[i]), i);
  const auto end = promised.begin() + static_cast<std::ptrdiff_t>(std::min(kRound, promised.size()));
  std::partial_sort(promised.begin(), end, promised.end());
  promised.erase(end, promised.end());
  std::vector<LayoutCandidate> round;
  for (const auto& [speed, place] : promised) round.push_back(all[place]);
  std::ranges::sort(promised, std::greater<>(), &std::pair<double, std::size_t>::second);
  for (const auto& [speed, place] : promised) all.erase(all.begin() + static_cast<std::ptrdiff_t>(place));
  return round;
}

}  // namespace

ScreenedLayouts LayoutScreen::run(std::vector<LayoutCandidate> candidates) const {
  ScreenedLayouts result;
  LayoutCounts& counts = result.counts;
  counts.seen = candidates.size();
  std::erase_if(candidates, [&](const LayoutCandidate& each) { return each.bound.required > device; });
  counts.too_large = counts.seen - candidates.size();
  sort_by_bound(candidates);
  Front front(device);
  Misses misses;
  while (!candidates.empty()) {
    if (stopped && stopped()) {
      result.stopped = true;
      break;
    }
    counts.slower += std::erase_if(candidates, [&](const LayoutCandidate& each) {
      return each.most_tokens_per_second < front.fastest() * kSlowest ||
             each.bound.required > front.room(each.most_tokens_per_second);
    });
    if (counts.simulated >= kMostSimulated) {
      counts.not_looked_at = candidates.size();
      break;
    }
    const std::vector<LayoutCandidate> round = take_most_promising(candidates, misses);
    const std::vector<std::optional<Estimate>> estimates = mapped_in_parallel(
        round,
        [&](const LayoutCandidate& each) { return estimate(each, front.room(each.most_tokens_per_second)); });
    counts.simulated += round.size();
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::optional<Estimate>& each = estimates[i];
      if (!each) continue;
      misses.add(round[i], each->tokens_per_second);
      if (each->host > host) continue;
      front.add(*each);
      result.simulated.push_back({round[i].family, *each});
    }
    if (progress) progress(counts, front.fastest());
  }
  return result;
}

}  // namespace zplan
