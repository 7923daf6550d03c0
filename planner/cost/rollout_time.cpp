#include "planner/cost/rollout_time.h"

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/kernel_model.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/step_time.h"
#include "planner/moments/rollout.h"
#include "planner/strategy.h"

namespace zplan {

namespace {

/// What an engine does for one generation.
struct Work {
  double sequences{}, prompts{};  ///< samples, and those whose prompts differ
  double waves{};                 ///< it takes as many of them at once as keys and values have room for
  double parameters{};
  double prompt_tokens{}, completion_tokens{};
};

Work work_of(const Model& model, const Training& training, const EngineMemory& engine) {
  const auto wanted = static_cast<double>(engine.wanted);
  const auto at_once = static_cast<double>(std::max<std::int64_t>(1, engine.at_once()));
  const double completion = static_cast<double>(completion_tokens(training));
  return {.sequences = wanted,
          .prompts = std::max(1.0, wanted / static_cast<double>(training.rollout.generations)),
          .waves = wanted / std::min(at_once, wanted),
          .parameters = parameters_of_token(model) / static_cast<double>(training.rollout.engine_ranks),
          .prompt_tokens = static_cast<double>(training.sequence_length) - completion,
          .completion_tokens = completion};
}

/// Each token of a wave reads the weights once, and what each sequence has cached, on the average its prompt
/// and half of its completion; where many run at once their products take longer.
Seconds decoding(const Work& work, const EngineMemory& engine, BytesPerSecond memory, FlopsPerSecond matrix) {
  const double whole = work.prompt_tokens + work.completion_tokens;
  const double cached =
      static_cast<double>(engine.sequence.value) * (work.prompt_tokens + work.completion_tokens / 2) / whole;
  const double of_wave = work.sequences / work.waves;
  const double read = (static_cast<double>(engine.weights.value) + of_wave * cached) / memory.value;
  const double computed = 2 * work.parameters * of_wave / matrix.value;
  return Seconds(work.waves * work.completion_tokens * std::max(read, computed));
}

}  // namespace

RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                         const Cluster& cluster) {
  if (!generates(training)) return {};
  const EngineMemory engine = engine_memory(model, training, strategy, cluster.usable_memory);
  const Work work = work_of(model, training, engine);
  const KernelRates rates(cluster, training);
  const FlopsPerSecond matrix(rate_of(cluster.gpu, training.precision).value *
                              efficiency_of(cluster.gpu, cluster.kernels).products);
  const Seconds prompts(2 * work.parameters * work.prompts * work.prompt_tokens / matrix.value);
  const Seconds completions = decoding(work, engine, rates.memory(), matrix);
  const double steps = static_cast<double>(micro_steps_fed(training, strategy) * passes(training)) /
                       static_cast<double>(strategy.gradient_accumulation_steps);
  return {prompts * (1 / steps), completions * (1 / steps)};
}

}  // namespace zplan
