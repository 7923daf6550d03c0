#include "planner/search/layout_search.h"

#include <algorithm>
#include <tuple>

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

}  // namespace

ScreenedLayouts LayoutScreen::run(std::vector<LayoutCandidate> candidates) const {
  ScreenedLayouts result;
  LayoutCounts& counts = result.counts;
  counts.seen = candidates.size();
  std::erase_if(candidates, [&](const LayoutCandidate& each) { return each.bound.required > device; });
  counts.too_large = counts.seen - candidates.size();
  sort_by_bound(candidates);
  Front front(device);
  for (std::size_t at = 0; at < candidates.size();) {
    if (stopped && stopped()) {
      result.stopped = true;
      break;
    }
    struct Chosen {
      const LayoutCandidate* candidate;
      Bytes room;
    };
    std::vector<Chosen> round;
    for (; at < candidates.size() && round.size() < kRound; ++at) {
      const LayoutCandidate& next = candidates[at];
      if (next.most_tokens_per_second < front.fastest() * kSlowest) {
        counts.slower += candidates.size() - at;
        at = candidates.size();
        break;
      }
      const Bytes room = front.room(next.most_tokens_per_second);
      if (next.bound.required > room)
        ++counts.slower;
      else
        round.push_back({&next, room});
    }
    const std::vector<std::optional<Estimate>> estimates =
        mapped_in_parallel(round, [&](const Chosen& each) { return estimate(*each.candidate, each.room); });
    counts.simulated += round.size();
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::optional<Estimate>& each = estimates[i];
      if (!each || each->host > host) continue;
      front.add(*each);
      result.simulated.push_back({round[i].candidate->family, *each});
    }
    if (progress) progress(counts, front.fastest());
  }
  return result;
}

}  // namespace zplan
