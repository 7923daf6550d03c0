#pragma once
// One row of tests/reference/steps/steps.json as the planner's own types.

#include "planner/check/readers/training_row.h"
#include "planner/memory/memory.h"
#include "tests/planner/support.h"

namespace zplan::testing {

/// The measured step, with everything that its inputs refer to.
struct MeasuredStep {
  explicit MeasuredStep(const Json& row)
      : MeasuredStep(*check::read_training_row(JsonReader(row, "row")).setup) {}

  [[nodiscard]] StepInputs inputs() const { return {model, training, strategy, rank, shard, slice}; }

  Model model;
  Training training;
  Strategy strategy;
  RankModel rank;
  Shard shard;
  Slice slice;

 private:
  explicit MeasuredStep(const check::Setup& setup)
      : model(setup.model),
        training(setup.training),
        strategy(setup.strategy),
        rank(rank_model(model, training, strategy.tensor_parallel)),
        shard(make_shard(rank, training, strategy)),
        slice(strategy.zero_stage == 1 || strategy.zero_stage == 2 ? slices(rank, training, strategy).front()
                                                                   : Slice{}) {}
};

}  // namespace zplan::testing
