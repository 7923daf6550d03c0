// Questions about Megatron-Core as they are typed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/frameworks/megatron/arguments.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kLarge =
    "--model meta-llama/Llama-3.1-405B --gpus 512 --nodes 64 --gpu H100-SXM-80GB --framework megatron "
    "--global-batch 512 --seq 8k";
const std::string kMachine = "--model 8B --gpus 8 --gpu H100-SXM-80GB --framework megatron --seq 8k";
const std::string kSmall = kMachine + " --global-batch 64";

std::int64_t required_at(const json& stage) { return stage.at("required").get<std::int64_t>(); }

TEST(Megatron, ReportsEveryStage) {
  const json plan = report(kLarge + " --tp 8 --pp 16 --zero 1").at("plans")[0];
  EXPECT_EQ(plan.at("id"), "tp8+pp16+distopt");
  const json& stages = plan.at("stages");
  ASSERT_EQ(stages.size(), 16U);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    EXPECT_EQ(stages[i].at("stage"), i);
    most = std::max(most, required_at(stages[i]));
  }
  EXPECT_EQ(plan.at("memory").at("required"), most);
  // The first stages hold the activations of most micro-batches.
  EXPECT_GT(required_at(stages[1]), required_at(stages[14]));
  EXPECT_EQ(plan.at("strategy").at("pipeline_parallel"), 16);
  EXPECT_THAT(plan.at("strategy").at("megatron").dump(), HasSubstr("account-for-loss-in-pipeline-split"));
  EXPECT_TRUE(plan.at("fits"));
}

TEST(Megatron, NamesTheNeediestStageAndTheArguments) {
  const std::string text = in_process(kSmall + " --tp 2 --pp 2 --zero 1").out;
  EXPECT_THAT(text, HasSubstr("needs most"));
  EXPECT_THAT(text, HasSubstr("--tensor-model-parallel-size 2"));
  EXPECT_THAT(text, HasSubstr("--pipeline-model-parallel-size 2"));
  EXPECT_THAT(text, Not(HasSubstr("TrainingArguments")));
}

TEST(Megatron, AFewMicroBatchesLeaveStagesWaiting) {
  const auto step = [](const std::string& more) {
    return report(kMachine + " --pp 4 --tp 1 --zero 1 --checkpointing full --global-batch " + more)
        .at("plans")[0]
        .at("time")
        .at("tokens_per_second")
        .get<double>();
  };
  // Two ranks a stage: 4 micro-batches a rank wait 3/4 of their time, 32 wait 3/32.
  EXPECT_GT(step("64"), 1.4 * step("8"));
}

TEST(Megatron, ChunksOfLayersLeaveStagesWaitingLess) {
  const std::string options = kMachine + " --pp 4 --tp 1 --zero 1 --global-batch 16";
  const json whole = report(options).at("plans")[0], chunks = report(options + " --vpp 4").at("plans")[0];
  EXPECT_EQ(chunks.at("id"), "pp4+vpp4+distopt");
  EXPECT_EQ(chunks.at("strategy").at("virtual_stages"), 4);
  const auto speed = [](const json& plan) { return plan.at("time").at("tokens_per_second").get<double>(); };
  // Eight micro-batches a rank: stages wait 3/8 of the time that they work, or 3/32.
  EXPECT_GT(speed(chunks), 1.15 * speed(whole));
  // More micro-batches are in flight.
  EXPECT_GT(required_at(chunks.at("stages")[1]), required_at(whole.at("stages")[1]));
  EXPECT_THAT(in_process(options + " --vpp 4").out, HasSubstr("--num-virtual-stages-per-pipeline-rank 4"));
  const std::string compared =
      in_process(
          "compare pp4+distopt pp4+vpp4+distopt --model 8B --gpus 8 --gpu H100-SXM-80GB --seq 8k "
          "--global-batch 16")
          .out;
  EXPECT_THAT(compared, HasSubstr("pp4+vpp4+distopt"));
}

TEST(Megatron, RefusesChunksThatMegatronCannotRun) {
  const auto error = [](const std::string& more) {
    const auto run = in_process(kMachine + " --tp 1 --zero 1 " + more);
    EXPECT_EQ(run.status, 2) << more;
    return run.err;
  };
  EXPECT_THAT(error("--pp 1 --vpp 2 --global-batch 16"), HasSubstr("more than one pipeline stage"));
  EXPECT_THAT(error("--pp 4 --vpp 3 --global-batch 16"), HasSubstr("not divisible by 4 pipeline stages"));
  EXPECT_THAT(error("--pp 4 --vpp 2 --global-batch 4"), HasSubstr("between the 4 stages and the 2"));
  EXPECT_THAT(error("--pp 4 --vpp 2 --global-batch 12"), HasSubstr("leave 2 over"));
  EXPECT_THAT(error("--pp 2 --vpp 2 --global-batch 16 --megatron no-overlap-p2p-communication"),
              HasSubstr("more than 2 pipeline stages"));
}

TEST(Megatron, RefusesWhatMegatronCannotRun) {
  EXPECT_EQ(in_process(kSmall + " --pp 3").status, 2);
  const auto odd = in_process("--model 8B --gpus 12 --mem 80 --framework megatron --pp 3 --tp 1");
  EXPECT_EQ(odd.status, 2);
  EXPECT_THAT(odd.err, HasSubstr("32 layers are not divisible by 3 pipeline stages"));
  const auto word = in_process(kSmall + " --megatron overlap-grads");
  EXPECT_EQ(word.status, 2);
  EXPECT_THAT(word.err, HasSubstr("overlap-grad-reduce"));
  const auto value = in_process(kSmall + " --megatron exp-avg-dtype=int8");
  EXPECT_EQ(value.status, 2);
  EXPECT_THAT(value.err, HasSubstr("exp-avg-dtype=VALUE, accepted: fp32, fp16, bf16, fp8"));
  const auto alone = in_process(kSmall + " --zero 1 --tp 1 --pp 1 --megatron exp-avg-dtype=bf16");
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("need use-precision-aware-optimizer"));
  EXPECT_EQ(in_process("--model 8B --gpus 8 --mem 80 --pp 2").status, 2);
  EXPECT_EQ(in_process("--model google/gemma-2-9b --gpus 8 --mem 80 --framework megatron").status, 2);
  for (const std::string more :
       {"--zero 3", "--offload all", "--kernels liger", "--fused-loss", "--method qlora", "--attention eager",
        "--no-master-weights", "--sp 2", "--optimizer lion"})
    EXPECT_EQ(in_process(kSmall + " " + more).status, 2) << more;
}

// A layout of stages has the shell's pipe in it; several words of one argument are several of the shell's.
TEST(Megatron, QuotesWhatTheShellWouldTakeForItsOwn) {
  const json answer = report(
      kMachine + " --tp 1 --pp 2 --grad-accum 4 --megatron pipeline-model-parallel-layout=Et*16|t*16L");
  const std::string layout =
      " --pipeline-model-parallel-layout 'E" + std::string(16, 't') + "|" + std::string(16, 't') + "L' ";
  EXPECT_THAT(answer.at("launch").at("torchrun").get<std::string>(), HasSubstr(layout));
  EXPECT_EQ(megatron::shell_text({"--recompute-modules", "core_attn mlp"}),
            "--recompute-modules core_attn mlp");
}

TEST(Megatron, DividesExperts) {
  const std::string question =
      "--model Qwen3-30B-A3B --gpus 8 --gpu H200-SXM-141GB --framework megatron --seq 4k";
  const json plan = report(question + " --ep 8 --tp 1 --pp 1 --zero 1").at("plans")[0];
  EXPECT_EQ(plan.at("id"), "ep8+distopt");
  EXPECT_EQ(plan.at("strategy").at("expert_parallel"), 8);
  const json both = report(question + " --ep 4 --etp 2 --tp 2 --pp 1 --zero 1");
  const std::string text = both.at("launch").at("torchrun");
  EXPECT_THAT(text, HasSubstr("--expert-model-parallel-size 4"));
  EXPECT_THAT(text, HasSubstr("--expert-tensor-parallel-size 2"));
  EXPECT_THAT(text, HasSubstr("--moe-token-dispatcher-type alltoall"));
  const auto three = in_process(question + " --ep 3 --tp 1 --pp 1");
  EXPECT_EQ(three.status, 2);
  const auto alone = in_process(question + " --ep 2 --tp 2 --pp 1 --megatron moe-grouped-gemm");
  EXPECT_THAT(alone.err, HasSubstr("sequence parallelism"));
  EXPECT_THAT(in_process(kSmall + " --ep 2").err, HasSubstr("which the model does not have"));
  const auto narrow = in_process(question +
                                 " --ep 8 --tp 1 --pp 1 --zero 1 --megatron "
                                 "moe-grouped-gemm,no-bias-swiglu-fusion");
  EXPECT_EQ(narrow.status, 2);
  EXPECT_THAT(narrow.err, HasSubstr("planned for models without experts"));
}

TEST(Megatron, PlansLatentAttention) {
  const json plan =
      report(
          "--model deepseek-ai/DeepSeek-V2-Lite --gpus 8 --gpu H100-SXM-80GB --framework megatron "
          "--ep 8 --tp 1 --pp 1 --zero 1 --seq 4k")
          .at("plans")[0];
  EXPECT_EQ(plan.at("id"), "ep8+distopt");
}

TEST(Megatron, IsNotTriedUnasked) {
  const std::string search = "search --model 8B --gpus 8 --mem 80";
  EXPECT_THAT(report(search).at("search").dump(), Not(HasSubstr("megatron")));
  EXPECT_THAT(report(search + " --framework megatron").at("search").dump(), HasSubstr("megatron"));
}

TEST(Megatron, TheOptimizerMayBeNarrowOrOnTheHost) {
  const std::string plain = kSmall + " --tp 1 --pp 1 --zero 1";
  const auto plan_of = [&](const std::string& words) {
    return report(plain + " --megatron no-create-attention-mask-in-dataloader" + words).at("plans")[0];
  };
  const std::int64_t usual = required_at(plan_of("").at("memory"));
  const json narrow = plan_of(",use-precision-aware-optimizer,exp-avg-dtype=bf16,exp-avg-sq-dtype=bf16");
  EXPECT_LT(required_at(narrow.at("memory")), usual);
  EXPECT_THAT(narrow.at("strategy").at("megatron").dump(), HasSubstr("exp-avg-dtype=bf16"));
  const json away = plan_of(",use-precision-aware-optimizer,optimizer-cpu-offload");
  EXPECT_LT(required_at(away.at("memory")), required_at(narrow.at("memory")));
  EXPECT_EQ(away.at("strategy").at("offload_optimizer"), "cpu");
  EXPECT_GT(away.at("memory").at("host"), 0);
}

TEST(Megatron, SwitchesChangeWhatIsHeld) {
  const auto required = [](const std::string& more) {
    return required_at(report(kSmall + " --tp 1 --pp 1 --zero 1" + more).at("plans")[0].at("memory"));
  };
  // Sums of gradients of half the size, against fp32 copies of a rank's share of them.
  EXPECT_LT(required(" --megatron grad-reduce-in-bf16,no-create-attention-mask-in-dataloader"),
            required(" --megatron no-create-attention-mask-in-dataloader"));
  EXPECT_GT(required(" --megatron cross-entropy-loss-fusion,no-create-attention-mask-in-dataloader"),
            required(" --megatron no-create-attention-mask-in-dataloader"));
}

}  // namespace
}  // namespace zplan::test
