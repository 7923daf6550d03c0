#pragma once

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"
#include "planner/sharding/expert_model.h"

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

/// The tape of a forward under torch.no_grad over so many tokens of each sample that PPO generates at once:
/// it predicts the next one, and keeps keys and values. Source: TRL 1.8 experimental/ppo/ppo_trainer.py
/// batch_generation.
[[nodiscard]] Tape record_prediction(const Model& model, const Training& training, const Strategy& strategy,
                                     std::int64_t tokens);

/// Forwards without gradients that score what PPO generated.
struct ScoringTapes {
  Tape reference;        ///< log-probabilities of whole logits
  Tape values, rewards;  ///< a number for each token, by value and reward model
};
/// Of the samples that are scored at once. Source: TRL 1.8 experimental/ppo/ppo_trainer.py train;
/// experimental/utils.py get_reward.
[[nodiscard]] ScoringTapes record_scoring(const Model& model, const Training& training,
                                          const Strategy& strategy);

/// The tape of a forward that computes log-probabilities of completions, as they are scored before training.
[[nodiscard]] Tape record_scores(const Model& model, const Training& training, const Strategy& strategy,
                                 const TapeRank& rank = {});

}  // namespace zplan
