// What people ask for beside one value: three lengths of a sequence, shares of a GPU for vLLM.

#include <algorithm>
#include <array>

#include "planner/moments/rollout.h"
#include "planner/question/framework.h"
#include "planner/search/inverse.h"

namespace zplan {

namespace {

std::int64_t tokens_of(const Solution& solution) {
  return solution.rounded.value_or(solution.value.value_or(0));
}

/// Returns the row of the longest sequence over what a question leaves open; without a plan where none is
/// legal.
std::optional<LengthRow> row_of(const OpenQuestion& open, std::string means, std::string options) {
  try {
    const Inverse found = solve(open, Solve::sequence);
    const Solution& best = found.solutions.front();
    return LengthRow{.means = std::move(means),
                     .options = std::move(options),
                     .tokens = best.value ? std::optional(tokens_of(best)) : std::nullopt,
                     .plan = best.plan};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// The strategy that trains fastest at the question's own length; nothing where none fits.
std::optional<Strategy> fastest_now(const Question& q) {
  const std::optional<Plan> plan = fastest_that_fits(q);
  return plan ? std::optional(plan->strategy) : std::nullopt;
}

/// The options of what the second row takes beyond the question.
std::string lever_options(const Question& before, const Question& after) {
  std::string options;
  const auto add = [&](bool taken, const char* words) {
    if (taken) options += (options.empty() ? "" : " ") + std::string(words);
  };
  add(after.training.fused_loss && !before.training.fused_loss,
      "--fused-loss (use_liger_kernel=True, or a chunked cross-entropy)");
  add(after.space.checkpointing != before.space.checkpointing,
      "--checkpointing full (gradient_checkpointing=True)");
  return options;
}

/// True if the loss may be fused: of next tokens alone.
bool may_fuse(const Training& training) {
  return training.objective == Objective::sft && training.loss_chunks == 1 && !training.fused_head;
}

}  // namespace

std::vector<LengthRow> length_rows(const OpenQuestion& open, const std::vector<Rung>& ladder) {
  std::vector<LengthRow> rows;
  const auto add = [&rows](std::optional<LengthRow> row) {
    if (row) rows.push_back(*std::move(row));
  };
  OpenQuestion fast = open;
  if (fast.question.space.offloads.empty()) fast.question.space.offloads = {Offload{}};
  if (const auto strategy = fastest_now(fast.question))
    fast.question.space = pinned_to(fast.question.space, *strategy);
  add(row_of(fast, "no loss of speed", ""));
  OpenQuestion levers = open;
  if (levers.question.space.offloads.empty()) levers.question.space.offloads = {Offload{}};
  if (may_fuse(levers.question.training)) levers.question.training.fused_loss = true;
  levers.question.space.checkpointing = Checkpointing::full;
  const std::string taken = lever_options(open.question, levers.question);
  add(row_of(levers, "levers", taken));
  OpenQuestion all = levers;
  all.question.space.offloads = open.question.space.offloads;
  add(row_of(all, "everything, states on the host too",
             taken + (taken.empty() ? "" : " ") + "--offload all"));
  const auto longest =
      std::ranges::max_element(ladder, {}, [](const Rung& each) { return each.tokens.value_or(0); });
  if (longest != ladder.end() && longest->tokens && !rows.empty() &&
      *longest->tokens > rows.back().tokens.value_or(0)) {
    rows.back().tokens = longest->tokens, rows.back().plan = longest->plan;
    rows.back().options = "the ladder below, to " + longest->step;
  }
  return rows;
}

EngineShares engine_shares(const Question& q, const Strategy& strategy) {
  EngineShares shares;
  Training training = q.training;
  for (std::int64_t hundredths = 1; hundredths <= 100 && !shares.holds_all; ++hundredths) {
    training.rollout.engine_share = static_cast<double>(hundredths) / 100;
    const EngineMemory engine = engine_memory(q.model, training, strategy, q.cluster.usable_memory);
    shares.wanted = engine.wanted;
    if (!shares.starts && engine.share >= engine.weights + engine.activations + engine.sequence)
      shares.starts = training.rollout.engine_share;
    if (shares.starts && engine.at_once() >= engine.wanted) shares.holds_all = training.rollout.engine_share;
  }
  return shares;
}

}  // namespace zplan
