#pragma once

#include "planner/model_trace/tape.h"
#include "planner/sharding/expert_model.h"
#include "planner/strategy.h"

namespace zplan {

/// What tells a rank's micro-step from another's.
struct TapeRank {
  std::int64_t context{};  ///< of a ring
  RoutedRows rows{};       ///< under expert parallelism
  bool triton_products{};  ///< DeepSpeed's grouped products are Triton's, not torch's
};

/// The tape of one micro-step of `model` as a rank has it, trained so, on one tensor-parallel rank.
[[nodiscard]] Tape record_tape(const Model& model, const Training& training, const Strategy& strategy,
                               const TapeRank& rank = {});

/// The tape of one forward under torch.no_grad, as a model is evaluated; of a model without a program of its
/// own the micro-step that stands for it, whose forward keeps more.
[[nodiscard]] Tape record_evaluation(const Model& model, const Training& training, const Strategy& strategy);

/// Forwards without gradients of PPO's rollout.
struct RolloutTapes {
  Tape prompt;           ///< of the policy over prompts, with the keys and values that it keeps
  Tape token;            ///< of one token of each sample
  Tape reference;        ///< log-probabilities of whole logits, by the reference
  Tape values, rewards;  ///< a number for each token, by value and reward model
};
/// Of so many samples at once. Source: TRL 1.8 experimental/ppo/ppo_trainer.py batch_generation, train;
/// experimental/utils.py get_reward.
[[nodiscard]] RolloutTapes record_rollout(const Model& model, const Training& training,
                                          const Strategy& strategy, std::int64_t samples);

/// The tape of a forward that computes log-probabilities of completions, as they are scored before training.
[[nodiscard]] Tape record_scores(const Model& model, const Training& training, const Strategy& strategy,
                                 const TapeRank& rank = {});

}  // namespace zplan
