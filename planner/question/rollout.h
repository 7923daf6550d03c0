#pragma once
// Reinforcement learning on completions that the model itself generates, as TRL's GRPOTrainer runs it: for
// each prompt a group of completions is generated, scored and trained on; and its PPOTrainer, which scores
// one completion of each prompt by three more models, of which one trains beside the policy. docs/rl.md.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

struct Strategy;
struct Training;

/// RolloutEngine is what generates: the trainer's own model (transformers), an inference engine (vLLM) in the
/// process of each rank, or one on GPUs of its own.
enum class RolloutEngine { trainer, colocate, server };
template <>
struct EnumNames<RolloutEngine> {
  static constexpr std::array<std::pair<RolloutEngine, std::string_view>, 3> table{
      {{RolloutEngine::trainer, "trainer"},
       {RolloutEngine::colocate, "colocate"},
       {RolloutEngine::server, "server"}}};
};

/// PolicyScoring says when the policy's log-probabilities are computed before it is trained: where they may
/// differ from the loss's, engines' own included; where optimizer steps come between alone; always.
enum class PolicyScoring : std::uint8_t { where_engines_differ, where_steps_part, always };

/// WholeLogitsLoss says how GRPO's loss handles whole logits; releases differ (docs/rl.md).
struct WholeLogitsLoss {
  bool divides_in_place{};  ///< by the temperature where they lie; else in new memory
  bool omits_entropy{};     ///< else of chunks of 128 tokens, for metrics
  bool compares_inside{};   ///< the reference's forward runs behind the policy's, whose graph lives
  bool operator==(const WholeLogitsLoss&) const = default;
};

/// Defaults: TRL 1.16 trainer/grpo_config.py; of PPO TRL 1.8 experimental/ppo/ppo_config.py.
struct Rollout {
  std::int64_t completion_length{};     ///< tokens of a sample that are generated; 0: half of them
  std::int64_t generations{8};          ///< completions of each prompt
  std::int64_t steps_per_generation{};  ///< micro-steps that one generation feeds; 0: see micro_steps_fed
  std::int64_t iterations{};            ///< passes over what was generated; 0: see passes
  RolloutEngine engine{RolloutEngine::colocate};
  PolicyScoring scoring{};
  WholeLogitsLoss whole_logits{};
  double engine_share{0.3};      ///< of a GPU's memory: vllm_gpu_memory_utilization
  std::int64_t sleep_level{};    ///< while it trains the engine keeps 0: all, 1: weights on the host, 2: none
  std::int64_t engine_ranks{1};  ///< GPUs that divide the engine's model: vllm_tensor_parallel_size
  std::int64_t mini_batches{1};  ///< of PPO, parts of what was generated: num_mini_batches
  /// Samples that a rank of PPO generates and scores at once: local_rollout_forward_batch_size.
  std::int64_t forward_batch{64};
  bool operator==(const Rollout&) const = default;
};

/// Passes over what was generated: as given, else 1, of PPO 4 (num_ppo_epochs).
[[nodiscard]] std::int64_t passes(const Training& training);
/// True if a model of values trains beside the policy: TRL's PPOTrainer.
[[nodiscard]] bool trains_values(const Training& training);
/// Samples that a rank generates at once, of PPO in chunks; all of a generation under grpo.
[[nodiscard]] std::int64_t samples_at_once(const Training& training, const Strategy& strategy);
/// Returns how many chunks a generation has.
[[nodiscard]] std::int64_t chunks_generated(const Training& training, const Strategy& strategy);
/// Samples of a rank that one generation makes.
[[nodiscard]] std::int64_t samples_generated(const Training& training, const Strategy& strategy);
/// True if variables of PPO's loop still hold tensors of the micro-step before; the first of a mini-batch
/// finds none. Source: TRL 1.8 experimental/ppo/ppo_trainer.py train ("del everything and empty cache").
[[nodiscard]] bool follows_micro_step(const Training& training, const Strategy& strategy);
/// Bytes of a score: generate() widens logits to fp32.
inline constexpr Bytes kGeneratedScore{4};
/// Scores of all tokens of a generation, which PPOTrainer has generate() return and does not let go of
/// before the next one's are there; chunks are padded to one size, and so is the last one. Source: TRL 1.8
/// experimental/ppo/ppo_trainer.py train, batch_generation.
[[nodiscard]] Bytes generation_scores(const Training& training, const Strategy& strategy,
                                      std::int64_t vocabulary);
/// True if the training generates its samples.
[[nodiscard]] bool generates(const Training& training);
/// True if completions are generated between steps: of gkd where the student generates answers.
[[nodiscard]] bool rolls_out(const Training& training);
/// Tokens of a sample that are given, and that are generated.
[[nodiscard]] std::int64_t prompt_tokens(const Training& training);
[[nodiscard]] std::int64_t completion_tokens(const Training& training);
/// Micro-steps of a rank that one generation feeds: as given, else as few optimizer steps' as hold whole
/// groups of completions; of PPO one optimizer step's, whatever mini-batches there are.
[[nodiscard]] std::int64_t micro_steps_fed(const Training& training, const Strategy& strategy);
/// True if the policy's log-probabilities are computed before it is trained: as Rollout::scoring says.
/// Source: TRL 1.16 trainer/grpo_trainer.py _generate_and_score_completions.
[[nodiscard]] bool scores_policy(const Training& training);

/// Returns the bytes that a rank keeps of a generation until it has trained on all of it: ids and masks of
/// prompts and completions, 8 B each, and log-probabilities in fp32 of policy, reference and engine.
[[nodiscard]] Bytes rollout_bytes(const Training& training, const Strategy& strategy);

}  // namespace zplan
