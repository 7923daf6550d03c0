#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "planner/plan/plan_context.h"
#include "planner/question/framework.h"
#include "planner/question/work.h"
#include "planner/search/candidates.h"
#include "planner/search/inverse.h"

namespace zplan {

namespace {

struct Means {
  std::string step, options;
  std::function<void(SearchSpace&)> take;
};

/// Lengths that are tried are multiples of it: people set such lengths, and ranks and rings divide them.
std::int64_t unit_of(const SearchSpace& space) {
  constexpr std::int64_t kRound = 128;
  const std::int64_t sequence = space.sequence_parallel.empty() ? 1 : space.sequence_parallel.front();
  const std::int64_t context = space.context_parallel.empty() ? 1 : space.context_parallel.front();
  return std::lcm(kRound, sequence * context * 2);
}

Question at_length(Question q, std::int64_t tokens) {
  q.training.sequence_length = tokens;
  return q;
}

std::optional<Strategy> legal_strategy(const Question& q) {
  const Candidates found = candidates(q);
  return found.legal.empty() ? std::nullopt : std::optional(found.legal.front());
}

/// The plan at a length; nothing where it is not legal there.
std::optional<Plan> plan_at(const Question& base, std::int64_t tokens, bool complete) {
  const Question q = at_length(base, tokens);
  const std::optional<Strategy> strategy = legal_strategy(q);
  if (!strategy) return std::nullopt;
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  return complete ? context.complete(*strategy) : context.outline(*strategy);
}

/// The longest that fits, with all its figures.
void find_longest(const Question& q, Rung& rung) {
  const std::int64_t unit = unit_of(q.space);
  const std::int64_t most =
      kMostTokens / std::max<std::int64_t>(1, q.space.micro_batch_size.value_or(1)) / unit;
  const auto fits = [&](std::int64_t index, bool complete) {
    const std::optional<Plan> plan = plan_at(q, (index + 1) * unit, complete);
    if (plan && complete) rung.plan = *plan;
    return plan && plan->fits;
  };
  std::int64_t longest = first_that(most, [&](std::int64_t index) { return !fits(index, false); }) - 1;
  constexpr std::int64_t kTried = 8;  // outlines agree with whole plans but for a few lengths
  for (std::int64_t tried = 0; longest >= 0 && tried < kTried; ++tried, --longest)
    if (fits(longest, true)) {
      rung.tokens = (longest + 1) * unit;
      return;
    }
  if (const std::optional<Plan> shortest = plan_at(q, unit, true)) rung.plan = *shortest;
}

/// Degrees that divide the GPUs, largest first.
std::vector<std::int64_t> degrees(std::int64_t gpus) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = gpus; d > 1; --d)
    if (gpus % d == 0) found.push_back(d);
  return found;
}

/// The largest degree that is legal in the place of `axis`.
std::optional<std::int64_t> largest_degree(const Question& base,
                                           std::vector<std::int64_t> SearchSpace::*axis) {
  if (!(base.space.*axis).empty()) {
    const auto& given = base.space.*axis;
    const std::int64_t most = *std::max_element(given.begin(), given.end());
    return most > 1 ? std::optional(most) : std::nullopt;
  }
  for (const std::int64_t degree : degrees(base.cluster.gpus)) {
    Question q = base;
    q.space.*axis = {degree};
    if (legal_strategy(at_length(q, unit_of(q.space)))) return degree;
  }
  return std::nullopt;
}

std::vector<Means> deepspeed_means(const Question& q) {
  std::vector<Means> all{{"tiled loss", "--tiled-loss auto",
                          [](SearchSpace& s) { s.long_context.tiled_loss = LongContext::kAutoTiles; }}};
  if (const auto degree = largest_degree(q, &SearchSpace::sequence_parallel))
    all.push_back({fmt::format("sequence parallel {}", *degree), fmt::format("--sp {}", *degree),
                   [degree](SearchSpace& s) { s.sequence_parallel = {*degree}; }});
  all.push_back({"tiled MLP", "--tiled-mlp auto",
                 [](SearchSpace& s) { s.long_context.tiled_mlp = LongContext::kAutoTiles; }});
  all.push_back({"checkpoints on the host", "--checkpoint-offload alst",
                 [](SearchSpace& s) { s.long_context.checkpoint_offload = CheckpointOffload::host; }});
  return all;
}

std::vector<Means> fsdp_means(const Question& q) {
  const auto degree = largest_degree(q, &SearchSpace::context_parallel);
  if (!degree) return {};
  return {{fmt::format("context parallel {}", *degree), fmt::format("--cp {}", *degree),
           [degree](SearchSpace& s) { s.context_parallel = {*degree}; }}};
}

std::vector<Means> means_of(const Question& q) {
  const FrameworkSpec& framework = spec(q.training.framework);
  std::vector<Means> all = framework.runs_alst ? deepspeed_means(q) : fsdp_means(q);
  if (!q.space.offloads.empty()) return all;
  for (const Offload& each : framework.offloads)
    if (each != Offload{})
      all.push_back({fmt::format("offload {}", to_name(each)), fmt::format("--offload {}", to_name(each)),
                     [each](SearchSpace& s) { s.offloads = {each}; }});
  return all;
}

/// Returns the question below the first rung: everything sharded, layers checkpointed, nothing offloaded.
Question ground(const OpenQuestion& open) {
  Question q = open.question;
  const bool learned = elements(q.model.inventory, TensorRole::position_embedding).value > 0;
  if (!learned) q.model.shape.max_positions = 0;
  if (q.space.zero_stages.empty()) q.space.zero_stages = {spec(q.training.framework).stages.back()};
  if (q.space.offloads.size() != 1) q.space.offloads = {Offload{}};
  q.space.tensor_parallel = {q.space.tensor_parallel.empty() ? 1 : q.space.tensor_parallel.front()};
  q.space.sequence_parallel = {1}, q.space.context_parallel = {1};
  return q;
}

}  // namespace

std::vector<Rung> sequence_ladder(const OpenQuestion& open) {
  const FrameworkSpec& framework = spec(open.question.training.framework);
  if (open.question.cluster.gpus == 1 || !(framework.runs_alst || framework.passes_keys)) return {};
  Question base = ground(open);
  if (!legal_strategy(at_length(base, unit_of(base.space)))) return {};
  Question asked = open.question;
  asked.model = base.model;
  asked.space.zero_stages = base.space.zero_stages;
  asked.space.tensor_parallel = base.space.tensor_parallel;
  std::vector<Rung> rungs;
  std::int64_t longest = 0;
  const auto climb = [&](const Means& means) {
    Question q = base;
    means.take(q.space);
    if (!legal_strategy(at_length(q, unit_of(q.space)))) return;
    Rung rung{.step = means.step, .options = means.options, .tokens = {}, .gained = 0, .plan = {}};
    find_longest(q, rung);
    rung.gained = rung.tokens.value_or(0) - longest;
    rung.kept = rungs.empty() || rung.gained >= 0;
    if (rung.kept) base = q, longest = rung.tokens.value_or(0);
    rungs.push_back(std::move(rung));
  };
  const std::string ground_name =
      plan_id(base.training.framework, *legal_strategy(at_length(base, unit_of(base.space))));
  climb({ground_name, "", [](SearchSpace&) {}});
  for (const Means& each : means_of(asked)) climb(each);
  return rungs;
}

}  // namespace zplan
