#include "planner/search/deadline.h"

#include <algorithm>
#include <map>
#include <set>

#include "planner/search/candidates.h"
#include "planner/search/scale.h"

namespace zplan {

namespace {

Question pinned_question(const Question& question, const Found& found) {
  Question pinned = question;
  const Strategy& s = found.plan.strategy;
  if (pinned.training.framework != found.name.framework)
    pinned.training = with_framework(pinned.training, found.name.framework);
  pinned.space = pinned_to({}, s);
  pinned.space.micro_batch_size = s.micro_batch_size;
  pinned.space.gradient_accumulation_steps = s.gradient_accumulation_steps;
  pinned.space.buckets = found.name.buckets.value_or(question.space.buckets);
  return pinned;
}

/// Runs, each planned once.
class Runs {
 public:
  Runs(const OpenQuestion& open, const Scope& scope) : open_(open), scope_(scope) {}

  /// The fastest run on so many GPUs; null where none fits or none is legal.
  const TimedRun* on(std::int64_t gpus) {
    const auto known = runs_.find(gpus);
    if (known != runs_.end()) return known->second ? &*known->second : nullptr;
    std::optional<TimedRun>& run = runs_[gpus];
    run = planned(gpus);
    return run ? &*run : nullptr;
  }
  [[nodiscard]] std::vector<TimedRun> all() const {
    std::vector<TimedRun> runs;
    for (const auto& [gpus, run] : runs_)
      if (run) runs.push_back(*run);
    return runs;
  }

 private:
  [[nodiscard]] std::optional<TimedRun> planned(std::int64_t gpus) const {
    const Question q = question_at(open_, Solve::gpus, gpus);
    try {
      const Exploration found = explore(q, scope_);
      if (found.best.empty()) return std::nullopt;
      Question pinned = pinned_question(q, found.best.front());
      const auto cost = run_cost(found.best.front().plan, pinned);
      if (!cost) return std::nullopt;
      return TimedRun{gpus, std::move(pinned), found.best.front().plan, *cost};
    } catch (const InputError&) {
      return std::nullopt;  // nothing is legal on this number
    }
  }

  const OpenQuestion& open_;
  const Scope& scope_;
  std::map<std::int64_t, std::optional<TimedRun>> runs_;
};

/// Numbers of GPUs, fewest first: powers of two within a node, then whole nodes.
std::vector<std::int64_t> counts_up_to(std::int64_t most, std::int64_t node) {
  std::set<std::int64_t> counts;
  for (std::int64_t n = 1; n <= std::min(node, most); n *= 2) counts.insert(n);
  for (std::int64_t n = node; n <= most; n += node) counts.insert(n);
  return {counts.begin(), counts.end()};
}

}  // namespace

Deadline solve_deadline(const OpenQuestion& open, const Scope& scope, Seconds within, std::int64_t most) {
  Runs runs(open, scope);
  const std::vector<std::int64_t> counts = counts_up_to(most, node_of_open(open));
  const auto in_time = [&](std::int64_t gpus) {
    const TimedRun* run = runs.on(gpus);
    return run != nullptr && run->cost.wall <= within;
  };
  // More GPUs are faster, up to where communication takes over: the first in time, then doublings of it.
  std::size_t low = 0, high = counts.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (in_time(counts[middle]))
      high = middle;
    else
      low = middle + 1;
  }
  for (std::size_t at = std::min(low, counts.size() - 1); at < counts.size(); at = at * 2 + 1)
    static_cast<void>(runs.on(counts[at]));
  if (low + 1 < counts.size()) static_cast<void>(runs.on(counts[low + 1]));
  static_cast<void>(runs.on(counts.back()));
  Deadline out{
      .within = within, .tried = runs.all(), .fewest = {}, .cheapest = {}, .fastest = {}, .nearest = {}};
  const auto better = [&](std::optional<std::size_t>& best, std::size_t i, auto less) {
    if (!best || less(out.tried[i].cost, out.tried[*best].cost)) best = i;
  };
  const auto shorter = [](const RunCost& a, const RunCost& b) { return a.wall < b.wall; };
  for (std::size_t i = 0; i < out.tried.size(); ++i) {
    if (out.tried[i].cost.wall > within) {
      better(out.nearest, i, shorter);
      continue;
    }
    if (!out.fewest) out.fewest = i;
    better(out.cheapest, i, [](const RunCost& a, const RunCost& b) { return a.gpu_hours < b.gpu_hours; });
    better(out.fastest, i, shorter);
  }
  if (out.fewest) out.nearest.reset();
  return out;
}

}  // namespace zplan
