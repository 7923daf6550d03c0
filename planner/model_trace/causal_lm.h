#pragma once

#include <string_view>

#include "planner/layout/rank_class.h"
#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Records one micro-step of `model`, the part that ranks of class `place` hold (model_part),
/// trained so. `compute_capability` of the GPU, where it is known, decides between kernels.
[[nodiscard]] Tape record_tape(const Model& model, const Training& training, const Strategy& strategy,
                               const RankClass& place = {}, std::string_view compute_capability = {});

/// Records the micro-step of a pipeline's stage behind the first with its backward in two parts.
[[nodiscard]] Tape record_split_tape(const Model& model, const Training& training, const Strategy& strategy,
                                     const RankClass& place, std::string_view compute_capability);

/// Records one forward under torch.no_grad, as in evaluation. For a model without a program of its own,
/// returns the micro-step that stands for it, whose forward keeps more.
[[nodiscard]] Tape record_evaluation(const Model& model, const Training& training, const Strategy& strategy);

/// Records a forward under torch.no_grad over `tokens` tokens of each sample that PPO generates at once. It
/// predicts the next token and keeps keys and values. Source: TRL 1.8 experimental/ppo/ppo_trainer.py
/// batch_generation.
[[nodiscard]] Tape record_prediction(const Model& model, const Training& training, const Strategy& strategy,
                                     std::int64_t tokens);

/// ScoringTapes holds forwards without gradients that score what PPO generated.
struct ScoringTapes {
  Tape reference;        ///< log-probabilities of whole logits
  Tape values, rewards;  ///< a number for each token, by value and reward model
};
/// Records the scoring of the samples that are scored at once. Source: TRL 1.8
/// experimental/ppo/ppo_trainer.py train; experimental/utils.py get_reward.
[[nodiscard]] ScoringTapes record_scoring(const Model& model, const Training& training,
                                          const Strategy& strategy);

/// Records a forward that computes completions' log-probabilities before training.
[[nodiscard]] Tape record_scores(const Model& model, const Training& training, const Strategy& strategy,
                                 const RankClass& place = {}, std::string_view compute_capability = {});

}  // namespace zplan
