#pragma once
// Plans of every kind, to write configs of.

#include <string>
#include <vector>

#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace zplan::testing {

struct GridCase {
  std::string name;
  Plan plan;  ///< only its strategy is filled in: a config depends on nothing else
  Question question;
};

/// A Llama-style model of 8 B parameters.
Model llama_8b();

Question question_of(const Model& model, std::int64_t gpus, std::int64_t nodes,
                     const Training& training = {});
Plan plan_of(const Strategy& strategy);

/// Legal plans: stages × offload × tensor parallelism × precision × optimizers and methods × 1 to 64 GPUs,
/// with bucket sizes, accumulation and batches varied along the way.
std::vector<GridCase> grid();

struct GoldenCase {
  std::string name;  ///< of golden/<name>.json
  Strategy strategy;
  Training training;
  std::int64_t gpus{8};
  ConfigStyle style{ConfigStyle::plain};
};

/// The plans whose configs are kept in golden/.
std::vector<GoldenCase> golden_cases();
Json golden_config(const GoldenCase& each);

}  // namespace zplan::testing
