// Plans of frameworks with layers of their own, where nobody asked whether they are legal.

#include <gtest/gtest.h>

#include <functional>

#include "models/base/error.h"
#include "planner/plan/legality.h"
#include "planner/question/framework.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

class OwnLayers : public ::testing::TestWithParam<Framework> {
 protected:
  /// A plan of eight GPUs, whose training `changes` changes.
  static Plan planned(const std::function<void(Training&)>& changes) {
    Question q = question_about("Qwen/Qwen3-0.6B", {.gpu = "H100-SXM-80GB", .gpus = 8});
    q.training.framework = GetParam();
    const FrameworkSpec& framework = spec(GetParam());
    q.training = framework.adapt(q.training);
    changes(q.training);
    Strategy strategy;
    strategy.zero_stage = framework.stages.back();
    strategy.layout.shard = 8;
    framework.choose(q, strategy);
    const bool takes_method = q.training.method == Method::full ||
                              (GetParam() == Framework::megatron && q.training.method == Method::lora);
    EXPECT_EQ(why_illegal(q.model, q.training, strategy, {8, 8}).empty(),
              takes_method && q.training.objective == Objective::sft);
    return make_plan(q.model, q.cluster, q.training, strategy);
  }
};

TEST_P(OwnLayers, AreRefusedWhatTheyHaveNoProgramFor) {
  EXPECT_GT(planned([](Training&) {}).memory().required, Bytes{});
  const auto with_adapters = [] { return planned([](Training& t) { t.method = Method::lora; }); };
  if (GetParam() == Framework::megatron)
    EXPECT_GT(with_adapters().memory().required, Bytes{});
  else
    EXPECT_THROW(static_cast<void>(with_adapters()), InputError);
  EXPECT_THROW(static_cast<void>(planned([](Training& t) { t.method = Method::qlora; })), InputError);
  EXPECT_THROW(static_cast<void>(planned([](Training& t) { t.objective = Objective::ppo; })), InputError);
}

INSTANTIATE_TEST_SUITE_P(Frameworks, OwnLayers,
                         ::testing::Values(Framework::megatron, Framework::torchtitan));

}  // namespace
}  // namespace zplan::testing
