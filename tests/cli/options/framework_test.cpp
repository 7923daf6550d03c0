// --framework fsdp and torch, and `compare` across frameworks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::set<std::string> ids(const json& report) {
  std::set<std::string> found;
  for (const json& plan : report.at("plans")) found.insert(plan.at("id"));
  return found;
}

TEST(FrameworkOption, FsdpIsPlannedWithAndWithoutReshardingAndOffloaded) {
  const json fsdp = report("--model 8B --gpus 8 --mem 80 --framework fsdp");
  EXPECT_EQ(ids(fsdp), (std::set<std::string>{"fsdp", "fsdp+no-reshard", "fsdp+offload-all"}));
  EXPECT_EQ(fsdp.at("training").at("framework"), "fsdp");
  for (const json& plan : fsdp.at("plans")) EXPECT_EQ(plan.at("strategy").at("framework"), "fsdp");
  EXPECT_EQ(ids(report("--model 8B --gpus 8 --mem 80 --framework torch")), (std::set<std::string>{"ddp"}));
  EXPECT_EQ(report("--model 8B --gpus 8 --mem 80 --framework ddp").at("training").at("framework"), "torch");
}

TEST(FrameworkOption, OffloadMovesShardsGradientsAndStatesToTheHost) {
  const json fsdp = report("--model 8B --gpus 8 --mem 80 --framework fsdp");
  const json& memory = plan_of(fsdp, "fsdp+offload-all").at("memory");
  EXPECT_EQ(memory.at("optimizer_states"), 0);
  const double parameters = fsdp.at("model").at("parameters");
  EXPECT_GT(memory.at("host").get<double>(), 16 * parameters) << "4 B of weight and gradient, 8 B of moments";
  EXPECT_EQ(plan_of(fsdp, "fsdp").at("memory").at("host"), 0);
}

TEST(FrameworkOption, SentencesAndExplanationsKnowNothingOfDeepSpeed) {
  for (const char* framework : {"fsdp", "torch"}) {
    const Result text =
        in_process(std::string("--model 8B --gpus 8 --mem 80 --explain --framework ") + framework);
    EXPECT_THAT(text.out,
                AllOf(Not(HasSubstr("DeepSpeed")), Not(HasSubstr("ZeRO-")), Not(HasSubstr("deepspeed"))));
  }
}

TEST(FrameworkOption, TheConfigIsAccelerates) {
  const json fsdp = report("--model 8B --gpus 8 --mem 80 --framework fsdp --zero 3 --offload none");
  EXPECT_EQ(fsdp.at("ds_config"), nullptr);
  EXPECT_EQ(fsdp.at("fsdp_config").at("fsdp_config").at("fsdp_reshard_after_forward"), true);
  EXPECT_EQ(fsdp.at("launch").at("deepspeed"), nullptr);
  EXPECT_EQ(fsdp.at("launch").at("accelerate"), "accelerate launch --config_file fsdp.yaml train.py");
  const json ddp = report("--model 0.5B --gpus 2 --mem 80 --framework torch");
  EXPECT_EQ(ddp.at("ds_config"), nullptr);
  EXPECT_EQ(ddp.at("fsdp_config"), nullptr);
}

// ms-swift's sequence parallelism beside DDP: four all-to-alls a layer and pass, activations of a part of the
// tokens, a line for ms-swift alone.
TEST(FrameworkOption, DdpExchangesTokensForHeads) {
  const std::string line = "--model Qwen/Qwen2.5-0.5B --gpus 2 --mem 80 --framework torch --seq 8192 ";
  const json whole = report(line), divided = report(line + "--sp 2");
  const json& plan = plan_of(divided, "sp2+ddp");
  EXPECT_EQ(plan.at("strategy").at("sequence_parallel"), 2);
  const auto peak = [](const json& of) { return of.at("memory").at("peak_allocated").get<double>(); };
  EXPECT_LT(peak(plan), peak(plan_of(whole, "ddp")) - 2.0 * 4096 * 151'936) << "half of the logits";
  EXPECT_NE(divided.at("launch").at("swift").get<std::string>().find("--sequence_parallel_size 2"),
            std::string::npos);
  EXPECT_EQ(divided.at("launch").at("accelerate"), nullptr);
  const Result refused =
      in_process("--model Qwen/Qwen2.5-0.5B --gpus 4 --mem 80 --framework torch --seq 8192 --sp 4");
  EXPECT_THAT(refused.out + refused.err, HasSubstr("14 attention heads"));
}

// Hybrid sharding: each copy is shared by half of the GPUs.
TEST(FrameworkOption, ReplicasAreCopiesOfWhatIsSharded) {
  const std::string question = "--model 8B --gpus 8 --mem 80 --framework fsdp --zero 3 --offload none";
  const json hybrid = report(question + " --dp-replicate 2");
  const json& plan = plan_of(hybrid, "fsdp+replicas2");
  EXPECT_EQ(plan.at("strategy").at("dp_replicate"), 2);
  EXPECT_EQ(plan.at("strategy").at("data_parallel"), 8);
  const json whole = report(question);
  const json& memory = plan_of(whole, "fsdp").at("memory");
  EXPECT_FALSE(plan_of(whole, "fsdp").at("strategy").contains("dp_replicate"));
  EXPECT_NEAR(plan.at("memory").at("optimizer_states").get<double>(),
              2 * memory.at("optimizer_states").get<double>(), 1e4);  // each tensor is rounded up
  const json& degrees = hybrid.at("fsdp_config").at("parallelism_config");
  EXPECT_EQ(degrees.at("parallelism_config_dp_replicate_size"), 2);
  EXPECT_EQ(degrees.at("parallelism_config_dp_shard_size"), 4);
  const Result refused = in_process(question + " --dp-replicate 3");
  EXPECT_EQ(refused.status, kBadInput);
  EXPECT_THAT(refused.err, HasSubstr("replicas do not divide"));
}

// transformers divides layers and shards what each rank has of them; accelerate's config names the degrees.
TEST(FrameworkOption, FsdpShardsWhatTensorParallelRanksHold) {
  const std::string question =
      "--model 8B --gpus 8 --mem 80 --framework fsdp --zero 3 --offload none --micro-batch 1 --tp ";
  const json divided = report(question + "2"), both = report(question + "2 --dp-replicate 2");
  const json& plan = plan_of(divided, "tp2+fsdp");
  EXPECT_EQ(plan.at("strategy").at("tensor_parallel"), 2);
  EXPECT_EQ(plan.at("strategy").at("data_parallel"), 4);
  const json& config = divided.at("fsdp_config");
  EXPECT_EQ(config.at("distributed_type"), "MULTI_GPU");
  EXPECT_FALSE(config.contains("fsdp_config"));
  EXPECT_EQ(config.at("parallelism_config").at("parallelism_config_tp_size"), 2);
  EXPECT_EQ(config.at("parallelism_config").at("parallelism_config_dp_shard_size"), 4);
  EXPECT_THAT(in_process(question + "2").out, HasSubstr("DistributedConfig(tp_size=2, fsdp_size=4,"));
  EXPECT_THAT(in_process(question + "2 --dp-replicate 2").out,
              HasSubstr("DistributedConfig(tp_size=2, fsdp_size=2,"));
  EXPECT_TRUE(plan_of(both, "tp2+fsdp+replicas2").is_object());
}

TEST(FrameworkOption, TensorParallelismBesideFsdpHasItsLimits) {
  const std::string line = "--gpus 8 --mem 80 --framework fsdp --zero 3 --offload none ";
  const auto refusal = [&](const std::string& more) {
    const Result result = in_process(line + more);
    EXPECT_EQ(result.status, kBadInput) << more;
    return result.err;
  };
  EXPECT_THAT(refusal("--model 8B --tp 8"), HasSubstr("no dimension for FSDP to shard across"));
  EXPECT_THAT(refusal("--model 8B --tp 4 --dp-replicate 2"), HasSubstr("cannot be used with pure data"));
  EXPECT_THAT(refusal("--model 8B --tp 2 --method lora"), HasSubstr("shape is invalid"));
  EXPECT_THAT(refusal("--model 8B --tp 2 --cp 2"), HasSubstr("ReplicateParallel"));
  EXPECT_THAT(refusal("--model Qwen/Qwen2.5-0.5B --tp 4"), HasSubstr("2 key-value heads"));
}

TEST(FrameworkOption, EmitsYamlAndJsonWhereTheFileIsCalledSo) {
  const Folder folder;
  const std::vector<std::string> question =
      split("--model 8B --gpus 8 --mem 80 --framework fsdp --zero 3 --emit");
  const auto emitted = [&](const std::string& name) {
    std::vector<std::string> line = question;
    line.push_back(folder.path(name));
    EXPECT_EQ(as_process(line).status, kFits);
    return read_text(folder.path(name));
  };
  EXPECT_THAT(emitted("fsdp.yaml"), AllOf(HasSubstr("distributed_type: FSDP\n"),
                                          HasSubstr("\n  fsdp_reshard_after_forward: true\n")));
  EXPECT_EQ(json::parse(emitted("fsdp.json")).at("fsdp_config").at("fsdp_version"), 2);
}

TEST(FrameworkOption, OptionsOfDeepSpeedAreRefused) {
  for (const char* option :
       {"--buckets default", "--config-style hf-auto", "--deepspeed-version 0.18", "--nvme-path /x"})
    for (const char* framework : {"fsdp", "torch"}) {
      const Result result =
          in_process(std::string("--model 8B --gpus 8 --mem 80 ") + option + " --framework " + framework);
      EXPECT_EQ(result.status, kBadInput) << option;
      EXPECT_THAT(result.err, HasSubstr("does nothing with --framework")) << option;
    }
  EXPECT_EQ(in_process("--model 8B --gpus 8 --mem 80 --framework torch --emit -").status, kBadInput);
  EXPECT_EQ(in_process("--model 8B --gpus 8 --mem 80 --framework torch --tp 2").status, kBadInput);
  EXPECT_EQ(in_process("--model 8B --gpus 8 --mem 80 --framework fsdp --zero 1").status, kBadInput);
  EXPECT_EQ(in_process("--model 8B --gpus 8 --mem 80 --framework horovod").status, kBadInput);
}

TEST(CompareFrameworks, EachWordBringsItsOwn) {
  const json mixed = report("compare --model 8B --gpus 8 --mem 80 zero3 fsdp fsdp+no-reshard ddp");
  EXPECT_EQ(ids(mixed), (std::set<std::string>{"zero3", "fsdp", "fsdp+no-reshard", "ddp"}));
  const json fsdp = report("--model 8B --gpus 8 --mem 80 --framework fsdp"),
             zero = report("--model 8B --gpus 8 --mem 80 --zero 3 --offload none");
  EXPECT_EQ(plan_of(mixed, "fsdp").at("memory"), plan_of(fsdp, "fsdp").at("memory"));
  EXPECT_EQ(plan_of(mixed, "zero3").at("memory"), plan_of(zero, "zero3").at("memory"));
  EXPECT_EQ(plan_of(mixed, "fsdp").at("time"), plan_of(fsdp, "fsdp").at("time"));
}

TEST(CompareFrameworks, SidesOfAContestKeepTheirNames) {
  const json both = report("compare --model 8B --gpus 8 --mem 80 zero3 fsdp");
  const std::set<std::string> named{both.at("comparison").at("faster"), both.at("comparison").at("slower")};
  EXPECT_EQ(named, (std::set<std::string>{"zero3", "fsdp"}));
}

TEST(CompareFrameworks, WhatAFrameworkCannotIsSaid) {
  const Result result = in_process("compare --model 8B --gpus 8 --mem 80 zero3 tp2+ddp");
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_THAT(result.err, HasSubstr("tensor parallelism is planned for DeepSpeed's AutoTP and FSDP2"));
}

TEST(DeepSpeedVersion, DecidesWhatTheConfigSays) {
  const auto offload = [](const std::string& version) {
    const json answer =
        report("--model 8B --gpus 8 --mem 80 --zero 3 --offload all --deepspeed-version " + version);
    EXPECT_EQ(answer.at("training").at("deepspeed_version"), version);
    return answer.at("ds_config").at("zero_optimization").at("offload_param");
  };
  EXPECT_EQ(offload("0.16.9").at("pin_memory"), true);
  EXPECT_FALSE(offload("0.19.8").contains("pin_memory"));
}

TEST(DeepSpeedVersion, DecidesWhatCanBeHad) {
  const json old = report("--model 8B --gpus 8 --mem 80 --tp 1,2 --zero 1 --deepspeed-version 0.16.3");
  EXPECT_EQ(ids(old), (std::set<std::string>{"zero1"}));
  EXPECT_THAT(old.at("rejected").dump(), HasSubstr("does not train under AutoTP: that came with 0.16.4"));
  EXPECT_EQ(in_process("--model 8B --gpus 8 --mem 80 --deepspeed-version 0.15").status, kBadInput);
}

TEST(NvmePath, StandsInTheConfig) {
  const json answer =
      report("--model 8B --gpus 8 --mem 80 --zero 3 --offload all-nvme --nvme-path /mnt/fast");
  EXPECT_EQ(answer.at("ds_config").at("zero_optimization").at("offload_optimizer").at("nvme_path"),
            "/mnt/fast");
}

}  // namespace
}  // namespace zplan::test
