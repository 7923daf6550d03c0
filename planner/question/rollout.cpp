#include "planner/question/rollout.h"

#include <algorithm>
#include <numeric>

#include "planner/question/strategy.h"

namespace zplan {

bool trains_values(const Training& training) { return training.objective == Objective::ppo; }

bool generates(const Training& training) {
  return training.objective == Objective::grpo || trains_values(training);
}

bool rolls_out(const Training& training) {
  return generates(training) || (distils(training) && training.distillation.on_policy);
}

std::int64_t passes(const Training& training) {
  constexpr std::int64_t kPpoEpochs = 4;
  if (training.rollout.iterations > 0) return training.rollout.iterations;
  return trains_values(training) ? kPpoEpochs : 1;
}

std::int64_t samples_generated(const Training& training, const Strategy& strategy) {
  return strategy.micro_batch_size * micro_steps_fed(training, strategy);
}

std::int64_t samples_at_once(const Training& training, const Strategy& strategy) {
  const std::int64_t all = samples_generated(training, strategy);
  return trains_values(training) ? std::min(training.rollout.forward_batch, all) : all;
}

std::int64_t chunks_generated(const Training& training, const Strategy& strategy) {
  const std::int64_t chunk = samples_at_once(training, strategy);
  return (samples_generated(training, strategy) + chunk - 1) / chunk;
}

bool follows_micro_step(const Training& training, const Strategy& strategy) {
  return trains_values(training) && strategy.gradient_accumulation_steps > training.rollout.mini_batches;
}

Bytes generation_scores(const Training& training, const Strategy& strategy, std::int64_t vocabulary) {
  if (!trains_values(training)) return {};
  const std::int64_t padded = chunks_generated(training, strategy) * samples_at_once(training, strategy);
  return kGeneratedScore * (padded * completion_tokens(training) * vocabulary);
}

std::int64_t prompt_tokens(const Training& training) {
  return training.sequence_length - completion_tokens(training);
}

std::int64_t completion_tokens(const Training& training) {
  const std::int64_t given = training.rollout.completion_length;
  return given > 0 ? given : training.sequence_length / 2;
}

std::int64_t micro_steps_fed(const Training& training, const Strategy& strategy) {
  if (trains_values(training)) return strategy.gradient_accumulation_steps;
  if (training.rollout.steps_per_generation > 0) return training.rollout.steps_per_generation;
  if (distils(training)) return 1;
  const std::int64_t group = training.rollout.generations;
  return strategy.gradient_accumulation_steps * (group / std::gcd(group, strategy.global_batch_size()));
}

bool scores_policy(const Training& training) {
  const Rollout& rollout = training.rollout;
  const bool is_apart = passes(training) > 1 || rollout.steps_per_generation > 0;
  if (training.objective != Objective::grpo) return false;
  switch (rollout.scoring) {
    case PolicyScoring::where_engines_differ: return is_apart || rollout.engine != RolloutEngine::trainer;
    case PolicyScoring::where_steps_part: return is_apart;
    case PolicyScoring::always: break;
  }
  return true;
}

Bytes rollout_bytes(const Training& training, const Strategy& strategy) {
  if (!generates(training)) return {};
  const std::int64_t samples = samples_generated(training, strategy);
  const std::int64_t kinds = (reference_of(training) ? 1 : 0) + (scores_policy(training) ? 1 : 0) +
                             (training.rollout.engine != RolloutEngine::trainer ? 1 : 0);
  return Bytes(16) * (samples * training.sequence_length) +
         Bytes(4) * (samples * completion_tokens(training) * kinds);
}

}  // namespace zplan
