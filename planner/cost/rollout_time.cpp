#include "planner/cost/rollout_time.h"

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/gpu.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/step_time.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/moments/evaluation.h"
#include "planner/moments/rollout.h"
#include "planner/question/strategy.h"

namespace zplan {

namespace {

/// An engine's work for one generation.
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
          .prompt_tokens = static_cast<double>(prompt_tokens(training)),
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

/// A forward alone: the device and the host that issues its kernels run beside each other.
struct ForwardTime {
  Seconds device, host;
  [[nodiscard]] Seconds taken() const { return std::max(device, host); }
};

ForwardTime time_of(const Tape& tape, const KernelRates& rates) {
  ForwardTime sum;
  const auto add = [&](const std::vector<Event>& events) {
    for (const Event& each : events) {
      if (each.kind != Event::Kind::compute) continue;
      const LoadTime time = rates.time(tape.loads[static_cast<std::size_t>(each.index)]);
      sum.device += time.device(), sum.host += time.host;
    }
  };
  add(tape.model.forward);
  for (const std::size_t layer : tape.layers) add(tape.classes[layer].forward);
  add(tape.head);
  return sum;
}

/// Optimizer steps that one generation feeds.
double steps_fed(const Training& training, const Strategy& strategy) {
  return static_cast<double>(micro_steps_fed(training, strategy) * passes(training)) /
         static_cast<double>(strategy.gradient_accumulation_steps);
}

}  // namespace

bool generates_itself(const Training& training) {
  return trains_values(training) ||
         (rolls_out(training) && training.rollout.engine == RolloutEngine::trainer);
}

ChunkTime chunk_time(const Tape& prompt, const Tape& token, const Training& training,
                     const Cluster& cluster) {
  const KernelRates rates(cluster, training);
  const ForwardTime of_token = time_of(token, rates);
  return {.prompt = time_of(prompt, rates).taken(),
          .token_device = of_token.device,
          .token_host = of_token.host,
          .scoring = {}};
}

ChunkTime chunk_time(const Tape& prompt, const Tape& token, const ScoringTapes& scoring,
                     const Training& training, const Cluster& cluster) {
  const KernelRates rates(cluster, training);
  ChunkTime time = chunk_time(prompt, token, training, cluster);
  time.scoring = time_of(scoring.reference, rates).taken() + time_of(scoring.values, rates).taken() +
                 time_of(scoring.rewards, rates).taken();
  return time;
}

ChunkTime chunk_time(const Model& model, const Training& training, const Strategy& strategy,
                     const Cluster& cluster) {
  const Tape prompt = record_prediction(model, training, strategy, prompt_tokens(training));
  const Tape token = record_prediction(model, training, strategy, 1);
  if (!trains_values(training)) return chunk_time(prompt, token, training, cluster);
  return chunk_time(prompt, token, record_scoring(model, training, strategy), training, cluster);
}

/// torch.cat reads and writes all that is cached at each token, and attention reads it. Scores become fp32,
/// are divided by the temperature, and their probabilities are drawn from; PPO's are stacked, padded, and
/// read once more when they are scored.
RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                         const Cluster& cluster, const ChunkTime& chunk) {
  constexpr std::int64_t kCachePasses = 3, kKeptScorePasses = 20, kScorePasses = 8;
  const std::int64_t samples = samples_generated(training, strategy);
  const std::int64_t at_once = samples_at_once(training, strategy);
  const std::int64_t completion = completion_tokens(training);
  const GenerationCache cache = generation_cache(model, training, strategy, at_once);
  const Bytes moved = cache.keys_values(training.sequence_length - completion / 2) * kCachePasses +
                      kGeneratedScore * (at_once * model.shape.vocabulary_size *
                                         (trains_values(training) ? kKeptScorePasses : kScorePasses));
  const Seconds read = moved / KernelRates(cluster, training).memory();
  const Seconds token = std::max(chunk.token_device + read, chunk.token_host);
  const double each = static_cast<double>(samples) / static_cast<double>(at_once);
  const double steps = steps_fed(training, strategy);
  return {
      .prompts = chunk.prompt * (each / steps),
      .completions = token * (static_cast<double>(chunks_generated(training, strategy) * completion) / steps),
      .scoring = chunk.scoring * (each / steps)};
}

RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                         const Cluster& cluster) {
  if (!rolls_out(training)) return {};
  if (generates_itself(training))
    return rollout_time(model, training, strategy, cluster, chunk_time(model, training, strategy, cluster));
  const EngineMemory engine = engine_memory(model, training, strategy, cluster.usable_memory);
  const Work work = work_of(model, training, engine);
  const KernelRates rates(cluster, training);
  const FlopsPerSecond matrix(rate_of(cluster.gpu, training.precision).value *
                              efficiency_of(cluster.gpu, cluster.kernels).products);
  const Seconds prompts(2 * work.parameters * work.prompts * work.prompt_tokens / matrix.value);
  const Seconds completions = decoding(work, engine, rates.memory(), matrix);
  const double steps = steps_fed(training, strategy);
  return {.prompts = prompts * (1 / steps), .completions = completions * (1 / steps), .scoring = {}};
}

}  // namespace zplan
