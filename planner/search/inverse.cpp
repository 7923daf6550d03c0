#include "planner/search/inverse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "models/base/divisors.h"
#include "planner/cost/cost_model.h"
#include "planner/explain/why.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/question/work.h"
#include "planner/search/candidates.h"
#include "planner/search/findings.h"
#include "planner/search/parallel.h"
#include "planner/search/scale.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

/// Probe holds the plan of a strategy at one value, or why there is none.
struct Probe {
  std::optional<Plan> plan;
  std::string illegal;
  [[nodiscard]] bool fits() const { return plan && plan->fits; }
};

Probe probe(const OpenQuestion& open, Solve solve, const Family& family, std::int64_t value, bool complete) {
  const Question q = pinned_to(question_at(open, solve, value), family);
  const Candidates found = candidates(q);
  if (found.legal.empty())
    return {std::nullopt, found.rejected.empty()
                              ? std::string("no legal combination")
                              : fmt::format("{}", fmt::join(found.rejected.front().reasons, "; "))};
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const Strategy& strategy = found.legal.front();
  return {complete ? context.complete(strategy) : context.outline(strategy), {}};
}

bool is_legal(const OpenQuestion& open, Solve solve, const Family& family, std::int64_t value) {
  return !candidates(pinned_to(question_at(open, solve, value), family)).legal.empty();
}

/// The last index that fits, where `fits` holds up to some index.
template <class F>
std::optional<std::int64_t> last_that_fits(std::int64_t count, const F& fits) {
  const std::int64_t fit = first_that(count, [&fits](std::int64_t index) { return !fits(index); });
  return fit > 0 ? std::optional(fit - 1) : std::nullopt;
}

/// Returns the first that fits of the hardest values, tried one by one; else the last of the rest that fits.
template <class F>
std::optional<std::int64_t> hardest_that_fits(const Scale& scale, const F& fits) {
  const std::int64_t walked = std::min(scale.walked, scale.count);
  for (std::int64_t i = scale.count - 1; i >= scale.count - walked; --i)
    if (fits(i)) return i;
  return last_that_fits(scale.count - walked, fits);
}

std::string end_of_range(const OpenQuestion& open, Solve solve) {
  const ModelShape& shape = open.question.model.shape;
  switch (solve) {
    case Solve::sequence:
      if (shape.max_positions > 0)
        return fmt::format("{} was made for sequences of up to {} tokens", open.question.model.name,
                           shape.max_positions);
      return fmt::format("no more than {} tokens of a micro-batch are planned", kMostTokens);
    case Solve::micro_batch:
      return fmt::format("no more than {} tokens of a micro-batch are planned", kMostTokens);
    case Solve::gpus: return "there is nothing below one tensor-parallel group";
    default: return "the end of what is tried";
  }
}

/// Returns the value as people set it. The rounded value is planned too, since what the allocator keeps
/// varies a little with each length.
std::optional<std::int64_t> rounded(const OpenQuestion& open, Solve solve, const Family& family,
                                    std::int64_t value) {
  constexpr std::int64_t kRound = 128, kRounds = 16;
  if (solve != Solve::sequence || value % kRound == 0) return value;
  const std::int64_t first = value / kRound * kRound;
  for (std::int64_t each = first; each > std::max<std::int64_t>(0, first - kRounds * kRound); each -= kRound)
    if (probe(open, solve, family, each, true).fits()) return each;
  return value;
}

/// Sets why `next` does not fit.
void take_reason(const OpenQuestion& open, Solve solve, const Probe& behind, Solution& solution) {
  const Question q = question_at(open, solve, *solution.next);
  const std::string value = value_text(solve, *solution.next, q.unit);
  if (!behind.plan) {
    solution.limit = Limit::batch, solution.reason = fmt::format("{}: {}", value, behind.illegal);
    return;
  }
  const MemoryPlan& memory = behind.plan->memory();
  const Bytes limit = available(q.cluster, q.headroom), host = available_on_host(q.cluster, q.headroom);
  if (!behind.plan->fits_device) {
    solution.limit = Limit::device_memory;
    solution.reason =
        fmt::format("{} would be short by {} of the {} per GPU{}", value,
                    format_bytes(memory.required - limit, q.unit), format_bytes(limit, q.unit),
                    memory.required_low <= limit ? ", all of it to gaps of PyTorch's allocator" : "");
    return;
  }
  solution.limit = Limit::host_memory;
  solution.reason = fmt::format(
      "{} would be short by {} of the {} of host memory per node", value,
      format_bytes(std::max(memory.host.total, most_on_host(behind.plan->moments)) - host, q.unit),
      format_bytes(host, q.unit));
}

/// The most values that are stepped over for the next legal one. Outlines and whole plans agree on what fits,
/// so between a value that fits and the next there can only be illegal sizes of models.
constexpr std::int64_t kFew = 100;

/// Returns the next legal value. Of models it is one of the next few, since a tensor-parallel degree need not
/// divide their heads.
std::int64_t next_index(const OpenQuestion& open, Solve solve, const Scale& scale, const Family& family,
                        std::int64_t index) {
  const std::int64_t last = std::min(index + kFew, scale.count - 1);
  for (std::int64_t next = index + 1; solve == Solve::model && next <= last; ++next)
    if (is_legal(open, solve, family, scale.value(next))) return next;
  return index + 1;
}

/// Plans the value after the solution in full. Where that fits after all it becomes the solution, and the one
/// after it the next.
void take_limit(const OpenQuestion& open, Solve solve, const Scale& scale, const Family& family,
                std::int64_t index, Solution& solution) {
  for (std::int64_t tried = 0; tried < kFew && index + 1 < scale.count; ++tried) {
    index = next_index(open, solve, scale, family, index);
    solution.next = scale.value(index);
    Probe behind = probe(open, solve, family, *solution.next, true);
    if (!behind.fits()) return take_reason(open, solve, behind, solution);
    solution.value = solution.next, solution.plan = std::move(*behind.plan);
  }
  solution.next.reset();
  const bool positions = solve == Solve::sequence && open.question.model.shape.max_positions > 0;
  solution.limit = positions ? Limit::positions : Limit::range;
  solution.reason = end_of_range(open, solve);
}

Solution solve_one(const OpenQuestion& open, Solve solve, const Scale& scale, const Family& family) {
  const auto fits = [&](std::int64_t index) {
    const Probe each = probe(open, solve, family, scale.value(index), false);
    // A shape that is illegal says nothing of larger ones.
    return each.fits() || (solve == Solve::model && !each.plan);
  };
  Solution solution;
  const std::optional<std::int64_t> found = hardest_that_fits(scale, fits);
  // The value that is reported must fit with all its figures too.
  const std::int64_t from = found.value_or(-1), last = std::max<std::int64_t>(0, from - kFew);
  for (std::int64_t index = from; index >= last; --index) {
    Probe whole = probe(open, solve, family, scale.value(index), true);
    if (!whole.fits()) continue;
    solution.value = scale.value(index), solution.plan = std::move(*whole.plan);
    take_limit(open, solve, scale, family, index, solution);
    solution.rounded = rounded(open, solve, family, *solution.value);
    return solution;
  }
  std::int64_t first = 0;
  while (first + 1 < scale.count && !is_legal(open, solve, family, scale.value(first))) ++first;
  Probe easiest = probe(open, solve, family, scale.value(first), true);
  if (easiest.plan) solution.plan = *easiest.plan;
  solution.next = scale.value(first);
  take_reason(open, solve, easiest, solution);
  return solution;
}

/// With a global batch the next larger size that makes it, else one more.
std::int64_t next_micro_batch(const OpenQuestion& open, const Family& family, std::int64_t size) {
  const auto global = open.question.space.global_batch_size;
  if (!global) return size + 1;
  for (const std::int64_t each : divisors(*global))
    if (each > size && is_legal(open, Solve::micro_batch, family, each)) return each;
  return size + 1;
}

/// Plans the next micro-batch in full, as take_limit plans the next value.
void take_micro_batch_limit(const OpenQuestion& open, const Family& family, Solution& solution) {
  for (std::int64_t tried = 0; tried < kFew; ++tried) {
    const std::int64_t next = next_micro_batch(open, family, *solution.value);
    if (next > kMostTokens / open.question.training.sequence_length) {
      solution.next.reset(), solution.reason = end_of_range(open, Solve::micro_batch);
      return;
    }
    solution.next = next;
    Probe behind = probe(open, Solve::micro_batch, family, next, true);
    if (!behind.fits()) return take_reason(open, Solve::micro_batch, behind, solution);
    solution.value = next, solution.plan = std::move(*behind.plan);
  }
}

Solution solve_micro_batch(const OpenQuestion& open, const Family& family) {
  Question q = pinned_to(open.question, family);
  q.space.micro_batch_size.reset();
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const Strategy strategy = candidates(q).legal.front();
  Solution solution;
  solution.value = largest_micro_batch(q, context, strategy);
  if (solution.value) {
    Probe whole = probe(open, Solve::micro_batch, family, *solution.value, true);
    if (whole.fits())
      solution.plan = std::move(*whole.plan);
    else
      solution.value.reset();
  }
  if (!solution.value) {
    const std::int64_t first = next_micro_batch(open, family, 0);
    solution.next = first;
    Probe least = probe(open, Solve::micro_batch, family, first, true);
    solution.plan = least.plan ? *least.plan : context.complete(strategy);
    take_reason(open, Solve::micro_batch, {solution.plan, {}}, solution);
    return solution;
  }
  take_micro_batch_limit(open, family, solution);
  solution.rounded = solution.value;
  return solution;
}

bool comes_before(Solve solve, const Solution& a, const Solution& b) {
  if (a.value.has_value() != b.value.has_value()) return a.value.has_value();
  if (!a.value) return better_plan(a.plan, b.plan);
  const std::int64_t sign = asks_for_most(solve) ? -1 : 1;
  return std::tuple(sign * *a.value, -a.plan.time.tokens_per_second) <
         std::tuple(sign * *b.value, -b.plan.time.tokens_per_second);
}

/// Reasons of the plan that is shown in full.
void explain_first(const OpenQuestion& open, Inverse& result) {
  if (result.solutions.empty()) return;
  Solution& first = result.solutions.front();
  const std::int64_t value = first.value ? *first.value : first.next.value_or(1);
  const Question q = question_at(open, result.solve, value);
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  first.plan.why = why(first.plan, findings_of(first.plan, q, context), q.unit);
}

}  // namespace

Inverse solve(const OpenQuestion& open, Solve solve) {
  Scales scales = scales_of(open, solve);
  const std::vector<std::pair<Family, Scale>> all(scales.of_family.begin(), scales.of_family.end());
  Inverse result{.solve = solve, .solutions = {}, .rejected = std::move(scales.rejected)};
  result.solutions = mapped_in_parallel(all, [&open, solve](const auto& each) {
    const auto& [family, scale] = each;
    return solve == Solve::micro_batch ? solve_micro_batch(open, family)
                                       : solve_one(open, solve, scale, family);
  });
  std::stable_sort(result.solutions.begin(), result.solutions.end(),
                   [solve](const Solution& a, const Solution& b) { return comes_before(solve, a, b); });
  explain_first(open, result);
  return result;
}

// ---- values that are names: GPUs and models of the catalogues

namespace {

/// The question on another GPU, in the node and network that it usually comes with unless they were given;
/// nothing where those and the GPU do not go together.
std::optional<Question> on_card(const OpenQuestion& open, const Gpu& gpu) {
  Question q = open.question;
  ClusterRequest request = open.cluster;
  request.gpu = gpu.name;
  request.memory.reset();
  request.instance.clear();  // its counts are in open.question
  request.gpus = q.cluster.gpus, request.nodes = q.cluster.nodes;
  try {
    q.cluster = assemble_cluster(request, *open.hardware);
  } catch (const InputError&) {
    return std::nullopt;
  }
  if (!why_no_bitsandbytes(q.training, gpu).empty()) return std::nullopt;
  if (q.training.attention == Attention::flash && !runs_flash(q.training, gpu)) {
    if (open.attention_given) return std::nullopt;
    q.training.attention = Attention::sdpa;
  }
  return q;
}

/// Returns everything in a question that decides how much memory its plans need and have. GPUs that agree in
/// it need not be tried one by one.
auto memory_key(const Question& q) {
  const Cluster& c = q.cluster;
  return std::tuple(c.memory, c.usable_memory, c.host_memory_per_node, c.gpu.compute_capability,
                    c.gpus_per_node, c.gpu.unified_memory, q.training.attention);
}

/// Returns the outlines that fit, of all strategies.
std::vector<Plan> outlines_that_fit(const Question& q, PlanContext& context) {
  std::vector<Plan> outlines;
  for (const Strategy& each : candidates(q).legal) {
    Plan plan = context.outline(each);
    if (plan.fits) outlines.push_back(std::move(plan));
  }
  return outlines;
}

/// Returns the best of them that fits with all its figures.
std::optional<Plan> best_in_full(std::vector<Plan> outlines, PlanContext& context) {
  std::stable_sort(outlines.begin(), outlines.end(), better_plan);
  for (const Plan& each : outlines)
    if (Plan plan = context.complete(each.strategy); plan.fits) return plan;
  return std::nullopt;
}

std::vector<Strategy> strategies_that_fit(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  std::vector<Strategy> fit;
  for (const Plan& each : outlines_that_fit(q, context)) fit.push_back(each.strategy);
  return fit;
}

/// True if any strategy fits. The last ones are tried first: they shard and offload most.
bool something_fits(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const std::vector<Strategy> legal = candidates(q).legal;
  return std::any_of(legal.rbegin(), legal.rend(),
                     [&context](const Strategy& each) { return context.outline(each).fits; });
}

/// The fastest of the strategies, all of which fit by their outlines, that fits with all its figures.
std::optional<Plan> fastest_of(const Question& q, const std::vector<Strategy>& strategies) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  std::vector<Plan> timed;
  for (const Strategy& each : strategies) {
    Plan& plan = timed.emplace_back();
    plan.framework = q.training.framework, plan.strategy = each;
    plan.fits = plan.fits_device = plan.fits_host = true;
    if (strategies.size() > 1) plan.time = context.time(each);
  }
  return best_in_full(std::move(timed), context);
}

/// Returns the GPUs that are worth a try, least memory first.
std::vector<const Gpu*> cards_from(const OpenQuestion& open, Bytes from) {
  constexpr double kTried = 0.9;
  std::vector<const Gpu*> cards;
  for (const Gpu& each : open.hardware->gpus)
    if (each.name != "generic" && ratio(each.memory, from) >= kTried &&
        matrix_peak(each, open.question.training.precision))
      cards.push_back(&each);
  std::stable_sort(cards.begin(), cards.end(),
                   [](const Gpu* a, const Gpu* b) { return a->memory < b->memory; });
  return cards;
}

}  // namespace

std::optional<Plan> fastest_that_fits(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  return best_in_full(outlines_that_fit(q, context), context);
}

std::vector<CardFit> cards_that_fit(const OpenQuestion& open, Bytes from, std::size_t planned) {
  struct Asked {
    const Gpu* card;
    Question question;
    std::size_t alike;  ///< its place among those that differ to memory
  };
  std::vector<Asked> asked;
  std::map<decltype(memory_key(open.question)), std::size_t> places;
  std::vector<std::size_t> first;  // of each place, one that stands for it
  for (const Gpu* card : cards_from(open, from)) {
    std::optional<Question> q = on_card(open, *card);
    if (!q) continue;
    const auto [place, is_new] = places.emplace(memory_key(*q), first.size());
    if (is_new) first.push_back(asked.size());
    asked.push_back({card, *std::move(q), place->second});
  }
  std::vector<Question> unlike;
  for (const std::size_t each : first) unlike.push_back(asked[each].question);
  // Not vector<bool>, whose neighbours two threads cannot write at once. Skipped where all are planned in
  // full.
  const std::vector<char> fitting = planned >= asked.size()
                                        ? std::vector<char>(unlike.size(), 1)
                                        : mapped_in_parallel(unlike, [](const Question& each) {
                                            return static_cast<char>(something_fits(each));
                                          });
  std::erase_if(asked, [&fitting](const Asked& each) { return fitting[each.alike] == 0; });
  const std::size_t shown = std::min(planned, asked.size());
  std::vector<std::vector<Strategy>> strategies(unlike.size());
  std::set<std::size_t> wanted;
  for (std::size_t i = 0; i < shown; ++i) wanted.insert(asked[i].alike);
  const std::vector<std::size_t> listed(wanted.begin(), wanted.end());
  for_each_in_parallel(
      listed.size(), [&](std::size_t i) { strategies[listed[i]] = strategies_that_fit(unlike[listed[i]]); });
  std::vector<std::optional<Plan>> plans(shown);
  for_each_in_parallel(
      shown, [&](std::size_t i) { plans[i] = fastest_of(asked[i].question, strategies[asked[i].alike]); });
  std::vector<CardFit> fits;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (i >= shown || plans[i])
      fits.push_back({asked[i].card->name, asked[i].card->memory,
                      i < shown ? std::move(plans[i]) : std::optional<Plan>()});
  return fits;
}

std::vector<ModelFit> largest_models(const OpenQuestion& open, std::vector<Model> models, std::size_t most) {
  std::stable_sort(models.begin(), models.end(),
                   [](const Model& a, const Model& b) { return parameters(a) > parameters(b); });
  constexpr std::size_t kAtOnce = 8;
  std::vector<ModelFit> fits;
  for (std::size_t at = 0; at < models.size() && fits.size() < most; at += kAtOnce) {
    const std::size_t end = std::min(at + kAtOnce, models.size());
    std::vector<std::optional<Plan>> plans(end - at);
    for_each_in_parallel(end - at, [&](std::size_t i) {
      Question q = open.question;
      q.model = as_trained(models[at + i], q.model, q.training.objective);
      plans[i] = fastest_that_fits(q);
    });
    for (std::size_t i = at; i < end; ++i)
      if (plans[i - at] && fits.size() < most)
        fits.push_back({models[i].name, parameters(models[i]), std::move(*plans[i - at])});
  }
  return fits;
}

}  // namespace zplan
