#include "planner/search/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include "models/base/error.h"
#include "planner/explain/why.h"
#include "planner/plan/accuracy.h"
#include "planner/plan/plan_context.h"
#include "planner/question/framework.h"
#include "planner/question/work.h"
#include "planner/search/candidates.h"
#include "planner/search/families.h"
#include "planner/search/family.h"
#include "planner/search/findings.h"
#include "planner/search/layout_bounds.h"
#include "planner/search/layout_search.h"
#include "planner/search/parallel.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

/// One framework's question, plans and families.
struct FrameworkPlans {
  Question question;
  PlanContext context;
  PlanScreen screen;
  LayoutBounds bounds;
  FrameworkPlans(const Question& q, Framework framework)
      : question(with(q, framework)),
        context(question.model, question.cluster, question.training, question.headroom),
        screen(context),
        bounds(context) {}

 private:
  static Question with(Question q, Framework framework) {
    if (q.training.framework != framework) q.training = with_framework(q.training, framework);
    return q;
  }
};

struct Candidate {
  std::size_t family{};
  Estimate estimate;
};

/// Faster first; of equals what needs less, then what is simpler.
bool is_better(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::tuple(-c.estimate.tokens_per_second, c.estimate.required_low, c.estimate.host, c.family,
                      c.estimate.micro_batch_size);
  };
  return key(a) < key(b);
}

class Explorer {
 public:
  Explorer(const Question& question, const Scope& scope, const Watch& watch)
      : question_(question), scope_(scope), watch_(watch) {
    for (const Framework each : scope.frameworks) frameworks_.emplace_back(question, each);
    result_.families = families(question, scope);
    screened_.resize(result_.families.size());
  }

  Exploration explore() {
    fail_if_nothing_is_legal();
    screen();
    confirm();
    find_front();
    give_reasons();
    drop_unseen();
    result_.stopped = stopped();
    return std::move(result_);
  }

  std::optional<Fastest> fastest(double at_least) {
    std::optional<Fastest> found;
    const bool done = done_unless_stopped([&] {
      screen();
      std::vector<Candidate> preferred = preferred_first();
      std::erase_if(preferred, [&](const Candidate& each) { return speed_of(each) < at_least; });
      found = fastest_of(preferred);
    });
    return done ? std::move(found) : std::nullopt;
  }

 private:
  using FamilyGroup = std::tuple<Framework, int, ParallelLayout, OffloadDevice, OffloadDevice>;
  static FamilyGroup group_of(const FamilyName& name) {
    const Strategy& s = name.strategy;
    return {name.framework, s.zero_stage, s.layout.of_model(), s.offload_optimizer, s.offload_parameters};
  }
  [[nodiscard]] bool stopped() const { return watch_.stop != nullptr && watch_.stop->load(); }
  /// True if f ended before the search was stopped.
  template <class F>
  [[nodiscard]] bool done_unless_stopped(const F& f) const {
    const Work part(watch_.stop);
    try {
      stop_if_asked();
      f();
      return true;
    } catch (const Stopped&) {
      if (!stopped()) throw;
      return false;
    }
  }
  FrameworkPlans& plans_of(const FamilyName& name) {
    return *std::find_if(frameworks_.begin(), frameworks_.end(), [&](const FrameworkPlans& each) {
      return each.question.training.framework == name.framework;
    });
  }
  [[nodiscard]] Bytes available_memory() const { return available(question_.cluster, question_.headroom); }
  [[nodiscard]] Bytes available_host_memory() const {
    return available_on_host(question_.cluster, question_.headroom);
  }
  [[nodiscard]] bool may_fit(const Estimate& e) const {
    return e.required_low <= available_memory() && e.host <= available_host_memory();
  }
  /// Batch: Estimate or LayoutCandidate.
  template <class Batch>
  [[nodiscard]] static Strategy strategy_of(const FamilyName& name, const Batch& batch) {
    Strategy s = name.strategy;
    s.micro_batch_size = batch.micro_batch_size;
    s.gradient_accumulation_steps = batch.gradient_accumulation_steps;
    return s;
  }

  void fail_if_nothing_is_legal() const;
  // ---- by live memory
  [[nodiscard]] std::vector<std::size_t> in_turns() const;
  void screen();
  void screen_one_by_one();
  void screen_layouts();
  [[nodiscard]] bool has_stages(std::size_t family) const {
    return spec(result_.families[family].name.framework).has_stages;
  }
  [[nodiscard]] std::vector<LayoutCandidate> layout_candidates(std::size_t family);
  void number_kinds(std::vector<LayoutCandidate>& candidates) const;
  void note_unseen(std::size_t family, const std::vector<LayoutCandidate>& candidates);
  void drop_unseen();
  [[nodiscard]] bool screen_unless_stopped(std::size_t family);
  void screen(std::size_t family);
  void choose_best(FamilyReport& report, const std::vector<Estimate>& all) const;
  void climb(PlanFamily& family, std::int64_t accumulation, std::vector<Estimate>& all) const;
  void close_in(PlanFamily& family, std::vector<Estimate>& all) const;
  // ---- by the allocator
  [[nodiscard]] std::vector<Candidate> may_fit_fastest_first() const;
  [[nodiscard]] double worth(const Candidate& candidate) const;
  [[nodiscard]] std::vector<Candidate> preferred_first() const;
  [[nodiscard]] std::optional<Fastest> fastest_of(const std::vector<Candidate>& preferred);
  [[nodiscard]] static double most_tokens_per_second(const std::vector<Candidate>& candidates) {
    return std::ranges::max_element(candidates, {}, speed_of)->estimate.tokens_per_second;
  }
  [[nodiscard]] static double speed_of(const Candidate& candidate) {
    return candidate.estimate.tokens_per_second;
  }
  [[nodiscard]] std::optional<Found> safe_one(const std::vector<Candidate>& preferred, Bytes slack);
  [[nodiscard]] std::optional<Found> own_one(std::vector<Candidate> preferred);
  [[nodiscard]] bool is_safe(const Plan& plan) const {
    return plan.memory().required_high <= question_.cluster.usable_memory;
  }
  void leave_out_slow(std::vector<std::vector<Candidate>*>& groups) const;
  void confirm();
  void add_fastest(std::vector<std::optional<Found>>& found);
  [[nodiscard]] std::optional<Found> first_that_runs(const std::vector<Candidate>& fastest_first);
  [[nodiscard]] std::optional<Found> run(const Candidate& candidate);
  [[nodiscard]] std::optional<Found> known(const Candidate& candidate) const;
  void find_front();
  void set_beside_fastest(Found& found) const;
  [[nodiscard]] double tie_within(const FamilyName& a, const FamilyName& b) const {
    return speed_tie(a.framework, b.framework, question_.cluster.gpu.name).within;
  }
  void complete(Found& found);
  // ---- in words
  void give_reasons();
  void forget_what_did_not_run();
  struct Verdict {
    FamilyOutcome outcome{};
    std::string reason;
  };
  [[nodiscard]] Verdict verdict_of(const FamilyReport& family, std::size_t index) const;
  /// Returns the sentence for a family that has plans that run, compared with the fastest of its strategy.
  [[nodiscard]] Verdict beside(const Found& winner, const FamilyReport& family) const;
  [[nodiscard]] std::string size(Bytes bytes) const { return format_bytes(bytes, question_.unit); }

  const Question& question_;
  const Scope& scope_;
  const Watch& watch_;
  std::deque<FrameworkPlans> frameworks_;
  std::vector<std::vector<Estimate>> screened_;    ///< by family
  std::map<std::size_t, std::int64_t> too_gappy_;  ///< by family: the smallest micro-batch that did not run
  std::mutex mutex_;                               ///< of that
  Exploration result_;
};

void Explorer::fail_if_nothing_is_legal() const {
  std::vector<std::string> reasons;
  for (const FamilyReport& each : result_.families) {
    if (each.outcome != FamilyOutcome::illegal) return;
    reasons.push_back(fmt::format("{}: {}", plan_id(each.name.framework, each.name.strategy), each.reason));
  }
  throw InputError("search", "no legal combination", fmt::format("{}", fmt::join(reasons, "; ")));
}

// ---- by live memory
// ----------------------------------------------------------------------------------------

/// Families in the order in which they are screened. Those that share tapes stand far apart: of two threads
/// one would else wait for what the other records.
std::vector<std::size_t> Explorer::in_turns() const {
  std::map<std::pair<Framework, TapeKey>, std::size_t> turns;
  std::vector<std::pair<std::size_t, std::size_t>> all;  // how many of its kind come before, and the family
  for (std::size_t i = 0; i < result_.families.size(); ++i) {
    if (has_stages(i)) continue;
    const FamilyName& name = result_.families[i].name;
    all.emplace_back(turns[{name.framework, PlanScreen::key_of(question_.training, name.strategy)}]++, i);
  }
  std::sort(all.begin(), all.end());
  std::vector<std::size_t> order;
  for (const auto& [turn, family] : all) order.push_back(family);
  return order;
}

void Explorer::screen() {
  screen_one_by_one();
  screen_layouts();
  for (const FamilyReport& each : result_.families) result_.candidates += each.candidates;
}

void Explorer::screen_one_by_one() {
  const std::vector<std::size_t> order = in_turns();
  std::atomic<std::size_t> done{0};
  for_each_in_parallel(order.size(), [&](std::size_t place) {
    const std::size_t i = order[place];
    if (result_.families[i].outcome != FamilyOutcome::illegal) {
      if (!screen_unless_stopped(i)) result_.families[i].outcome = FamilyOutcome::not_looked_at;
    }
    if (watch_.progress) watch_.progress(++done, order.size());
  });
}

/// Returns the plans of a family of a framework with stages. Where nothing makes a batch, micro-batches are
/// powers of two.
std::vector<LayoutCandidate> Explorer::layout_candidates(std::size_t index) {
  constexpr std::int64_t kMost = 64;
  FamilyReport& report = result_.families[index];
  FrameworkPlans& plans = plans_of(report.name);
  std::vector<LayoutCandidate> all;
  for (const Batches& each : batches(plans.question, scope_, report.name.strategy)) {
    std::vector<std::int64_t> sizes = each.micro_batch_sizes;
    for (std::int64_t size = 1; each.micro_batch_sizes.empty() && size <= kMost; size *= 2)
      sizes.push_back(size);
    for (const std::int64_t size : sizes) {
      Strategy strategy = report.name.strategy;
      strategy.micro_batch_size = size, strategy.gradient_accumulation_steps = each.accumulation;
      const LayoutBound bound = plans.bounds.of(strategy);
      const auto tokens =
          static_cast<double>(strategy.global_batch_size() * plans.question.training.sequence_length);
      all.push_back({.family = index,
                     .micro_batch_size = size,
                     .gradient_accumulation_steps = each.accumulation,
                     .bound = bound,
                     .most_tokens_per_second = tokens / bound.step.value});
    }
  }
  return all;
}

/// Numbers the kinds of candidates: how often stages gather parameters, and wait for each other, follows from
/// these.
void Explorer::number_kinds(std::vector<LayoutCandidate>& candidates) const {
  using Kind = std::tuple<Framework, int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Kind, std::size_t> numbers;
  for (LayoutCandidate& each : candidates) {
    const FamilyName& name = result_.families[each.family].name;
    const ParallelLayout& layout = name.strategy.layout;
    const Kind kind{name.framework,        name.strategy.zero_stage,         layout.pipeline,
                    layout.virtual_stages, each.gradient_accumulation_steps, layout.replicate};
    each.kind = numbers.emplace(kind, numbers.size()).first->second;
  }
}

/// Says of a family of which no plan was simulated what its bounds say.
void Explorer::note_unseen(std::size_t index, const std::vector<LayoutCandidate>& candidates) {
  FamilyReport& report = result_.families[index];
  for (const LayoutCandidate& each : candidates)
    if (!report.bound || each.bound.required < report.bound->required) report.bound = each.bound;
}

/// Keeps few enough families to report: those with a plan that was simulated.
void Explorer::drop_unseen() {
  if (!result_.layouts) return;
  std::size_t laid_out = 0;
  for (std::size_t i = 0; i < result_.families.size(); ++i) laid_out += has_stages(i) ? 1U : 0U;
  if (laid_out <= kMostReported) return;
  std::erase_if(result_.families,
                [](const FamilyReport& each) { return spec(each.name.framework).has_stages && !each.best; });
}

/// Of frameworks with stages only those plans are simulated that their bounds leave open.
void Explorer::screen_layouts() {
  std::vector<std::size_t> families;
  std::size_t illegal = 0;
  for (std::size_t i = 0; i < result_.families.size(); ++i) {
    if (!has_stages(i)) continue;
    if (result_.families[i].outcome == FamilyOutcome::illegal)
      ++illegal;
    else
      families.push_back(i);
  }
  if (families.empty() && illegal == 0) return;
  std::vector<LayoutCandidate> all;
  const bool bounded = done_unless_stopped([&] {
    for (std::vector<LayoutCandidate>& each :
         mapped_in_parallel(families, [&](std::size_t i) { return layout_candidates(i); })) {
      if (each.empty()) continue;
      note_unseen(each.front().family, each);
      all.insert(all.end(), each.begin(), each.end());
    }
  });
  number_kinds(all);
  const LayoutScreen screen{
      .estimate = [&](const LayoutCandidate& each, Bytes most) -> std::optional<Estimate> {
        const FamilyName& name = result_.families[each.family].name;
        std::optional<Estimate> found;
        const bool done = done_unless_stopped([&] {
          take_step();
          found = estimate_of(plans_of(name).context, strategy_of(name, each), most);
        });
        return done ? found : std::nullopt;
      },
      .device = available_memory(),
      .host = available_host_memory(),
      .progress =
          [&](const LayoutCounts& counts, double fastest) {
            if (watch_.layouts) watch_.layouts(counts, fastest);
          },
      .stopped = [&] { return stopped(); }};
  ScreenedLayouts screened = screen.run(bounded ? std::move(all) : std::vector<LayoutCandidate>{});
  screened.counts.illegal = illegal;
  result_.layouts = screened.counts;
  for (const SimulatedLayout& each : screened.simulated) {
    screened_[each.family].push_back(each.estimate);
    ++result_.families[each.family].candidates;
  }
  for (const std::size_t each : families)
    if (!screened_[each].empty()) choose_best(result_.families[each], screened_[each]);
}

/// False where the search was stopped before it was through: what was found is forgotten.
bool Explorer::screen_unless_stopped(std::size_t index) {
  return done_unless_stopped([&] { screen(index); }) || (screened_[index].clear(), false);
}

void Explorer::screen(std::size_t index) {
  FamilyReport& report = result_.families[index];
  PlanFamily family = plans_of(report.name).screen.family(report.name.strategy);
  report.states = family.states();
  if (report.states > available_memory()) return;
  std::vector<Estimate>& all = screened_[index];
  for (const Batches& each : batches(plans_of(report.name).question, scope_, report.name.strategy)) {
    if (each.micro_batch_sizes.empty()) {
      climb(family, each.accumulation, all);
      continue;
    }
    const std::vector<Estimate> more = family.estimates(each.micro_batch_sizes, each.accumulation);
    all.insert(all.end(), more.begin(), more.end());
  }
  report.candidates = all.size();
  choose_best(report, all);
}

/// The fastest that fits, else the one that needs least.
void Explorer::choose_best(FamilyReport& report, const std::vector<Estimate>& all) const {
  report.best.reset(), report.largest_micro_batch = 0;
  for (const Estimate& each : all) {
    const bool fits = may_fit(each);
    if (fits) report.largest_micro_batch = std::max(report.largest_micro_batch, each.micro_batch_size);
    const bool better = !report.best ? true
                        : fits != may_fit(*report.best)
                            ? fits
                            : (fits ? each.tokens_per_second > report.best->tokens_per_second
                                    : each.required_low < report.best->required_low);
    if (better) report.best = each;
  }
}

/// Eight sizes at a time until one of them does not fit, since memory grows with the micro-batch; then those
/// between the last that fits and the first that does not.
void Explorer::climb(PlanFamily& family, std::int64_t accumulation, std::vector<Estimate>& all) const {
  const std::int64_t most = std::max<std::int64_t>(1, kMostTokens / question_.training.sequence_length);
  std::vector<Estimate> tried;
  for (std::size_t step = 0; tried.empty() || may_fit(tried.back());) {
    std::vector<std::int64_t> sizes;
    // One alone first: where that does not fit nothing does.
    const std::size_t next = tried.empty() ? 1 : Lanes::kCount;
    while (sizes.size() < next && micro_batch_step(step) <= most) sizes.push_back(micro_batch_step(step++));
    if (sizes.empty()) break;
    const std::vector<Estimate> more = family.estimates(sizes, accumulation);
    tried.insert(tried.end(), more.begin(), more.end());
  }
  close_in(family, tried);
  all.insert(all.end(), tried.begin(), tried.end());
}

void Explorer::close_in(PlanFamily& family, std::vector<Estimate>& tried) const {
  const auto by_size = [](const Estimate& a, const Estimate& b) {
    return a.micro_batch_size < b.micro_batch_size;
  };
  while (true) {
    const auto first_miss =
        std::find_if(tried.begin(), tried.end(), [&](const Estimate& each) { return !may_fit(each); });
    if (first_miss == tried.begin() || first_miss == tried.end()) return;
    const std::int64_t low = std::prev(first_miss)->micro_batch_size, high = first_miss->micro_batch_size;
    if (high - low <= 1) return;
    std::vector<std::int64_t> sizes;
    const auto parts = static_cast<std::int64_t>(Lanes::kCount) + 1;
    for (std::int64_t i = 1; i < parts; ++i) {
      const std::int64_t size = low + (high - low) * i / parts;
      if (size > low && (sizes.empty() || size > sizes.back())) sizes.push_back(size);
    }
    const std::vector<Estimate> more = family.estimates(sizes, tried.front().gradient_accumulation_steps);
    tried.insert(tried.end(), more.begin(), more.end());
    std::sort(tried.begin(), tried.end(), by_size);
  }
}

// ---- by the allocator
// --------------------------------------------------------------------------------------

std::optional<Found> Explorer::run(const Candidate& candidate) {
  const FamilyName& name = result_.families[candidate.family].name;
  {
    const std::lock_guard lock(mutex_);
    const auto known = too_gappy_.find(candidate.family);
    if (known != too_gappy_.end() && candidate.estimate.micro_batch_size >= known->second)
      return std::nullopt;
  }
  FrameworkPlans& plans = this->plans_of(name);
  if (auto plan = plans.context.outline_if_fits(strategy_of(name, candidate.estimate)))
    return Found{name, *std::move(plan)};
  const std::lock_guard lock(mutex_);
  std::int64_t& smallest = too_gappy_[candidate.family];
  const std::int64_t size = candidate.estimate.micro_batch_size;
  smallest = smallest == 0 ? size : std::min(smallest, size);
  return std::nullopt;
}

/// Returns the plan where it is the best of its strategy, but not of all.
std::optional<Found> Explorer::known(const Candidate& candidate) const {
  const FamilyName& name = result_.families[candidate.family].name;
  const auto found = std::find_if(result_.best.begin() + 1, result_.best.end(), [&](const Found& each) {
    return each.name == name && each.plan.strategy == strategy_of(name, candidate.estimate);
  });
  return found != result_.best.end() ? std::optional(*found) : std::nullopt;
}

std::optional<Found> Explorer::first_that_runs(const std::vector<Candidate>& fastest_first) {
  for (const Candidate& each : fastest_first)
    if (std::optional<Found> found = run(each)) return found;
  return std::nullopt;
}

std::vector<Candidate> Explorer::may_fit_fastest_first() const {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < screened_.size(); ++i)
    for (const Estimate& each : screened_[i])
      if (may_fit(each)) all.push_back({i, each});
  std::sort(all.begin(), all.end(), is_better);
  return all;
}

/// Returns the speed of a candidate, less what its departures from the question have to be worth.
double Explorer::worth(const Candidate& candidate) const {
  const FamilyName& name = result_.families[candidate.family].name;
  const SearchSpace& asked = question_.space;
  const bool is_selective = name.strategy.checkpointing == Checkpointing::selective;
  double share = 0;
  if (name.framework != question_.training.framework) share += kWorthWriting;
  if (name.buckets.value_or(asked.buckets) != asked.buckets) share += kWorthChanging;
  if (is_selective && asked.checkpointing != Checkpointing::selective) share += kWorthWriting;
  return candidate.estimate.tokens_per_second * (1 - std::min(share, kMostGivenUp));
}

std::vector<Candidate> Explorer::preferred_first() const {
  std::vector<Candidate> all = may_fit_fastest_first();
  std::stable_sort(all.begin(), all.end(),
                   [&](const Candidate& a, const Candidate& b) { return worth(a) > worth(b); });
  return all;
}

std::optional<Fastest> Explorer::fastest_of(const std::vector<Candidate>& preferred) {
  std::optional<Found> found = first_that_runs(preferred);
  if (!found) return std::nullopt;
  complete(*found);
  Fastest fastest{.found = *std::move(found), .most_tokens_per_second = most_tokens_per_second(preferred)};
  const MemoryPlan& memory = fastest.found.plan.memory();
  if (!is_safe(fastest.found.plan))
    fastest.safer = safe_one(preferred, memory.required_high - memory.required_low);
  if (fastest.found.name.framework != question_.training.framework) fastest.own = own_one(preferred);
  return fastest;
}

/// Returns the first of `preferred` under the question's framework.
std::optional<Found> Explorer::own_one(std::vector<Candidate> preferred) {
  std::erase_if(preferred, [&](const Candidate& each) {
    return result_.families[each.family].name.framework != question_.training.framework;
  });
  std::optional<Found> found = first_that_runs(preferred);
  if (found) complete(*found);
  return found;
}

/// Returns the first of `preferred` that is safe. Of those whose live memory leaves no `slack`, none is.
std::optional<Found> Explorer::safe_one(const std::vector<Candidate>& preferred, Bytes slack) {
  constexpr int kMostTried = 8;  // each is simulated in full
  int tried = 0;
  for (const Candidate& each : preferred) {
    if (each.estimate.required_low + slack > question_.cluster.usable_memory) continue;
    std::optional<Found> found = run(each);
    if (!found) continue;
    complete(*found);
    if (is_safe(found->plan)) return found;
    if (++tried == kMostTried) break;
  }
  return std::nullopt;
}

/// The fastest of all, where its strategy has none in `found`.
void Explorer::add_fastest(std::vector<std::optional<Found>>& found) {
  std::optional<Found> fastest = first_that_runs(may_fit_fastest_first());
  if (!fastest) return;
  const bool known = std::any_of(found.begin(), found.end(), [&](const std::optional<Found>& each) {
    return each && group_of(each->name) == group_of(fastest->name);
  });
  if (!known) found.push_back(std::move(fastest));
}

/// Of frameworks with stages the fastest strategies alone are confirmed.
void Explorer::leave_out_slow(std::vector<std::vector<Candidate>*>& groups) const {
  std::vector<std::vector<Candidate>*> laid_out;
  for (std::vector<Candidate>* each : groups)
    if (has_stages(each->front().family)) laid_out.push_back(each);
  if (laid_out.size() <= kMostConfirmed) return;
  std::ranges::sort(laid_out, [](const std::vector<Candidate>* a, const std::vector<Candidate>* b) {
    return is_better(a->front(), b->front());
  });
  laid_out.erase(laid_out.begin(), laid_out.begin() + kMostConfirmed);
  std::erase_if(groups, [&](std::vector<Candidate>* each) {
    return std::ranges::find(laid_out, each) != laid_out.end();
  });
}

void Explorer::confirm() {
  std::map<FamilyGroup, std::vector<Candidate>> groups;
  for (const Candidate& each : may_fit_fastest_first())
    groups[group_of(result_.families[each.family].name)].push_back(each);
  std::vector<std::vector<Candidate>*> all;
  for (auto& [group, candidates] : groups) all.push_back(&candidates);
  leave_out_slow(all);
  std::vector<std::optional<Found>> found(all.size());
  // Stage 3, which is last in order, runs longest: start it first.
  const bool done = done_unless_stopped([&] {
    for_each_in_parallel(all.size(), [&](std::size_t i) {
      const std::size_t place = all.size() - 1 - i;
      found[place] = first_that_runs(*all[place]);
    });
  });
  if (!done) add_fastest(found);
  for (std::optional<Found>& each : found)
    if (each) result_.best.push_back(std::move(*each));
  std::stable_sort(result_.best.begin(), result_.best.end(),
                   [](const Found& a, const Found& b) { return better_plan(a.plan, b.plan); });
  for (Found& each : result_.best) set_beside_fastest(each);
}

void Explorer::set_beside_fastest(Found& found) const {
  const Found& fastest = result_.best.front();
  found.share_of_best = found.plan.time.tokens_per_second / fastest.plan.time.tokens_per_second;
  found.tie_within = tie_within(found.name, fastest.name);
}

/// Meanwhile the fastest plan gets all its figures.
void Explorer::find_front() {
  if (result_.best.empty()) return;
  std::vector<Candidate> front;
  double last = result_.best.front().plan.time.tokens_per_second;
  Bytes least = result_.best.front().plan.memory().required_low;
  std::vector<Estimate> faster;
  for (const Candidate& each : may_fit_fastest_first()) {
    const Estimate& e = each.estimate;
    const bool dominated = std::any_of(faster.begin(), faster.end(), [&](const Estimate& other) {
      return other.required_low <= e.required_low && other.host <= e.host;
    });
    if (dominated) continue;
    faster.push_back(e);
    const bool saves = static_cast<double>(e.required_low.value) <
                       static_cast<double>(least.value) * (1 - LayoutScreen::kLeastSaved);
    if (e.tokens_per_second > last * (1 - kFrontStep) && !(saves && has_stages(each.family))) continue;
    front.push_back(each), last = e.tokens_per_second, least = e.required_low;
  }
  std::vector<std::optional<Found>> found(front.size());
  bool completed = false;
  static_cast<void>(done_unless_stopped([&] {
    for_each_in_parallel(front.size() + 1, [&](std::size_t i) {
      if (i == 0) {
        complete(result_.best.front()), completed = true;
        return;
      }
      const Candidate& candidate = front[i - 1];
      found[i - 1] = known(candidate);
      if (!found[i - 1]) found[i - 1] = run(candidate);
    });
  }));
  if (!completed) complete(result_.best.front());
  if (!result_.best.front().plan.fits) {
    // The allocator was not asked of each stage before (PlanContext::fits_device).
    result_.best.erase(result_.best.begin());
    if (result_.best.empty()) return;
    for (Found& each : result_.best) set_beside_fastest(each);
    return find_front();
  }
  result_.front.push_back(result_.best.front());
  for (std::optional<Found>& each : found) {
    if (!each) continue;
    set_beside_fastest(*each);
    result_.front.push_back(std::move(*each));
  }
}

void Explorer::complete(Found& found) {
  FrameworkPlans& plans = this->plans_of(found.name);
  found.plan = plans.context.complete(found.plan.strategy);
  found.plan.why =
      why(found.plan, findings_of(found.plan, plans.question, plans.context), plans.question.unit);
}

// ---- in words
// ----------------------------------------------------------------------------------------------

void Explorer::give_reasons() {
  forget_what_did_not_run();
  for (std::size_t i = 0; i < result_.families.size(); ++i) {
    FamilyReport& family = result_.families[i];
    if (family.outcome == FamilyOutcome::illegal) continue;
    const Verdict verdict = family.outcome == FamilyOutcome::not_looked_at
                                ? Verdict{family.outcome, "the search was stopped before"}
                                : verdict_of(family, i);
    family.outcome = verdict.outcome, family.reason = verdict.reason;
  }
}

/// Removes plans that run out of memory in the allocator from the best of their families.
void Explorer::forget_what_did_not_run() {
  for (const auto& [index, smallest] : too_gappy_) {
    std::vector<Estimate> ran;
    for (const Estimate& each : screened_[index])
      if (each.micro_batch_size < smallest) ran.push_back(each);
    if (!ran.empty()) choose_best(result_.families[index], ran);
  }
}

Explorer::Verdict Explorer::verdict_of(const FamilyReport& family, std::size_t index) const {
  using enum FamilyOutcome;
  if (!family.best && family.bound && family.bound->required <= available_memory())
    return result_.best.empty()
               ? Verdict{too_large, fmt::format("needs more than {}", size(available_memory()))}
               : Verdict{slower, fmt::format("cannot be faster than {}, or need less",
                                             result_.best.front().plan.id())};
  if (!family.best && family.bound)
    return {too_large,
            fmt::format("needs at least {} of {}", size(family.bound->required), size(available_memory()))};
  if (!family.best)
    return {too_large,
            fmt::format("its states alone take {} of {}", size(family.states), size(available_memory()))};
  const Estimate& nearest = *family.best;
  if (nearest.required_low > available_memory())
    return {too_large, fmt::format("needs at least {} of {} at micro-batch {}", size(nearest.required_low),
                                   size(available_memory()), nearest.micro_batch_size)};
  if (nearest.host > available_host_memory())
    return {host_memory, fmt::format("needs {} of {} host memory per node", size(nearest.host),
                                     size(available_host_memory()))};
  const auto winner = std::find_if(result_.best.begin(), result_.best.end(), [&](const Found& each) {
    return group_of(each.name) == group_of(family.name);
  });
  const auto smallest = too_gappy_.find(index);
  const bool gappy = smallest != too_gappy_.end() && smallest->second <= nearest.micro_batch_size;
  if (gappy || winner == result_.best.end())
    return {gaps,
            fmt::format("{} are live at micro-batch {}, and PyTorch's allocator finds no memory between them",
                        size(nearest.required_low), nearest.micro_batch_size)};
  return beside(*winner, family);
}

Explorer::Verdict Explorer::beside(const Found& winner, const FamilyReport& family) const {
  using enum FamilyOutcome;
  const double fastest = winner.plan.time.tokens_per_second;
  if (winner.name == family.name)
    return {FamilyOutcome::best, fmt::format("the fastest {}: {:.0f} tokens/s", winner.plan.id(), fastest)};
  const double share = family.best->tokens_per_second / fastest;
  const double within = tie_within(winner.name, family.name);
  if (share > 1 - within)
    return {slower,
            fmt::format("as fast as the best {} within {:.1f} %: a tie", winner.plan.id(), within * 100)};
  return {slower, fmt::format("{:.0f} % slower than the best {}", (1 - share) * 100, winner.plan.id())};
}

}  // namespace

Exploration explore(const Question& question, const Scope& scope, const Watch& watch) {
  return Explorer(question, scope, watch).explore();
}

std::optional<Fastest> find_fastest(const Question& question, const Scope& scope, const Watch& watch,
                                    double at_least) {
  return Explorer(question, scope, watch).fastest(at_least);
}

}  // namespace zplan
