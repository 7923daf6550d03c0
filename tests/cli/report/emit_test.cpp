#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "cli/report/report.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> question(const std::string& emit) {
  return {"--model", "8B", "--gpus", "5", "--mem", "44", "--emit", emit};
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

TEST(Emit, WritesTheRecommendedConfig) {
  const Folder folder;
  const std::string path = folder.path("ds.json");
  const Result result = as_process(question(path));
  EXPECT_EQ(result.status, kFits);
  EXPECT_THAT(result.err, HasSubstr("wrote " + path + " for zero3"));
  EXPECT_THAT(result.out, HasSubstr("--deepspeed " + path));
  EXPECT_EQ(json::parse(read_text(path)), report("--model 8B --gpus 5 --mem 44").at("ds_config"));
  EXPECT_EQ(json::parse(read_text(path)).at("zero_optimization").at("stage"), 3);
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(Emit, TakesThePlaceOfAFileAndFollowsALink) {
  const Folder folder;
  folder.write("real.json", "old");
  fs::create_symlink(folder.path("real.json"), folder.path("link.json"));
  EXPECT_EQ(as_process(question(folder.path("link.json"))).status, kFits);
  EXPECT_TRUE(fs::is_symlink(folder.path("link.json")));
  EXPECT_TRUE(json::parse(read_text(folder.path("real.json"))).is_object());
}

TEST(Emit, ToStdoutIsTheConfigAlone) {
  const Result result = as_process(question("-"));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(json::parse(result.out).at("train_micro_batch_size_per_gpu"), 1);
}

TEST(Emit, StyleLeavesToTheTrainerWhatIsIts) {
  std::vector<std::string> line = question("-");
  line.insert(line.end(), {"--config-style", "hf-auto"});
  EXPECT_EQ(json::parse(as_process(line).out).at("train_micro_batch_size_per_gpu"), "auto");
}

// AutoEP at stage 3 raises an error if the engine shall gather.
TEST(Emit, GathersWhatIsSavedWhereDeepSpeedCan) {
  const std::string line =
      "--model Qwen/Qwen3-30B-A3B --gpus 8 --gpu H200-SXM --zero 3 --tp 1 --offload all --config-style "
      "hf-auto";
  const auto gathers = [&](const std::string& options) {
    return report(line + options)
        .at("ds_config")
        .at("zero_optimization")
        .at("stage3_gather_16bit_weights_on_model_save");
  };
  EXPECT_EQ(gathers(""), true);
  EXPECT_EQ(gathers(" --save sharded"), false);
  EXPECT_EQ(gathers(" --ep 8"), false);
  const Result whole = in_process(line + " --ep 8 --save full");
  EXPECT_EQ(whole.status, 2);
  EXPECT_THAT(whole.err, HasSubstr("AutoEP with ZeRO-3 refuses to gather"));
}

/// The next step that the report prints is a line of the JSON, the one that it names.
TEST(Emit, TheNextStepIsTheLauncherOfTheStyle) {
  for (const auto& [style, launcher] : std::map<std::string, std::string>{
           {"plain", "deepspeed"}, {"hf-auto", "deepspeed"}, {"ms-swift", "swift"}}) {
    const std::vector<std::string> line{"--model", "8B", "--gpus",         "8",
                                        "--mem",   "80", "--config-style", style};
    std::vector<std::string> as_json = line;
    as_json.emplace_back("--json");
    const json launch = json::parse(as_process(as_json).out).at("launch");
    EXPECT_EQ(launch.at("launcher"), launcher);
    std::vector<std::string> in_detail = line;
    in_detail.emplace_back("--verbose");
    const std::string text = as_process(in_detail).out;
    EXPECT_THAT(text, HasSubstr("\n  " + launch.at(launcher).get<std::string>() + "\n"));
    for (const char* other : {"deepspeed", "swift"})
      if (other != launcher) {
        EXPECT_THAT(text, Not(HasSubstr("\n  " + launch.at(other).get<std::string>() + "\n")));
      }
  }
}

TEST(Emit, WhereItCannotBeWrittenIsBadInputAndNothingIsPrinted) {
  const Folder folder;
  folder.write("file", "kept");
  for (const std::string& path :
       {folder.path(), folder.path("no/such/ds.json"), folder.path("file/ds.json")}) {
    const Result result = as_process(question(path));
    EXPECT_EQ(result.status, kBadInput) << path;
    EXPECT_EQ(result.out, "") << path;
    EXPECT_THAT(result.err, HasSubstr("--emit")) << path;
  }
  EXPECT_EQ(read_text(folder.path("file")), "kept");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(Emit, NothingIsWrittenWhereNothingFits) {
  const Folder folder;
  folder.write("ds.json", "kept");
  const Result result =
      as_process({"--model", "175B", "--gpus", "1", "--mem", "8", "--emit", folder.path("ds.json")});
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_THAT(result.err, HasSubstr("is not written"));
  EXPECT_EQ(read_text(folder.path("ds.json")), "kept");
}

TEST(Emit, ToStdoutWhereNothingFitsSaysSoOnStderr) {
  const Result result = as_process({"--model", "175B", "--gpus", "1", "--mem", "8", "--emit", "-"});
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("Nothing fits"));
}

TEST(Emit, WhatIsEmittedIsPlannedTheSame) {
  const Folder folder;
  const std::string path = folder.path("ds.json");
  ASSERT_EQ(as_process(question(path)).status, kFits);
  const json again = report("--model 8B --gpus 5 --mem 44 --ds-config " + path),
             first = report("--model 8B --gpus 5 --mem 44");
  ASSERT_EQ(again.at("plans").size(), 1U);
  EXPECT_EQ(again.at("plans").at(0).at("memory"), plan_of(first, "zero3").at("memory"));
  EXPECT_EQ(again.at("plans").at(0).at("communication"), plan_of(first, "zero3").at("communication"));
}

/// Options that say what a ds_config has no key for, and those that it says.
struct EmitCase {
  std::string script, config;
};

class EmittedConfig : public ::testing::TestWithParam<EmitCase> {};

TEST_P(EmittedConfig, IsPlannedTheSameBesideTheScriptsOptions) {
  const Folder folder;
  const std::string path = folder.path("ds.json");
  const std::string asked = GetParam().script + " " + GetParam().config;
  const Result emitted = in_process(asked + " --json --emit " + path);
  ASSERT_EQ(emitted.status, kFits) << emitted.err;
  const json first = json::parse(emitted.out).at("plans").at(0);
  const json again = report(GetParam().script + " --ds-config " + path).at("plans").at(0);
  EXPECT_EQ(again.at("memory"), first.at("memory"));
  EXPECT_EQ(again.at("time"), first.at("time"));
}

INSTANTIATE_TEST_SUITE_P(
    Questions, EmittedConfig,
    ::testing::Values(
        EmitCase{"--model 8B --gpus 4 --mem 80 --fused-loss --kernels liger --seq 4096", "--micro-batch 2"},
        EmitCase{"--model 8B --gpus 8 --gpu A100-SXM-80GB --checkpointing none", "--grad-accum 4 --zero 2"},
        EmitCase{"--model Qwen/Qwen3-0.6B --gpus 2 --gpu RTX-4090-24GB", "--precision fp32 --zero 3"},
        EmitCase{"--model 8B --gpus 4 --gpu A100-SXM-40GB --method lora --expandable-segments",
                 "--buckets default"},
        EmitCase{"--model 8B --gpus 2 --gpu H100-SXM-80GB",
                 "--zero 2 --offload optimizer --optimizer lion"}));

TEST(Emit, WhatThePlanTakesOfTheScriptIsListed) {
  const Folder folder;
  const std::string line =
      "--model 8B --gpus 4 --mem 80 --fused-loss --kernels liger --seq 4096 --expandable-segments --emit " +
      folder.path("ds.json");
  const Result result = in_process(line);
  for (const char* setting : {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "use_liger_kernel=True",
                              "gradient_checkpointing=True", "per_device_train_batch_size=1",
                              "max_length=4096", "attn_implementation=\"flash_attention_2\"", "bf16=True"}) {
    EXPECT_THAT(result.err, HasSubstr(setting));
  }
}

TEST(Emit, SettingsAreOfTheObjectivesClass) {
  const Folder folder;
  const auto said = [&folder](const std::string& objective) {
    return in_process("--model Qwen/Qwen3-8B --gpus 8 --gpu H100-SXM-80GB --seq 4096 --objective " +
                      objective + " --emit " + folder.path("ds.json"))
        .err;
  };
  EXPECT_THAT(said("dpo"), HasSubstr("DPOConfig(max_length=4096)"));
  EXPECT_THAT(said("reward"), HasSubstr("RewardConfig(max_length=4096)"));
  const std::string grpo = said("grpo --completion-length 1024 --vllm-memory 0.25 --vllm-sleep 2");
  EXPECT_THAT(grpo, HasSubstr("GRPOConfig(max_completion_length=1024, num_generations=8, use_vllm=True, "
                              "vllm_mode=\"colocate\", vllm_gpu_memory_utilization=0.25, "
                              "vllm_enable_sleep_mode=True)"));
  EXPECT_THAT(grpo, HasSubstr("prompts of at most 3072 tokens"));
}

TEST(Emit, KeysThatOnlyAConfigBringsAreKept) {
  const Folder folder;
  const auto emitted = [&folder](const std::string& zero, const std::string& rest) {
    const std::string path = folder.path("out.json");
    const std::string given = folder.write(
        "in.json", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": )" + zero + rest + "}");
    EXPECT_EQ(
        as_process(split("--model 8B --gpus 8 --mem 80 --ds-config " + given + " --emit " + path)).status,
        kFits);
    return json::parse(read_text(path));
  };
  const json second =
      emitted(R"({"stage": 2, "reduce_scatter": false, "use_multi_rank_bucket_allreduce": false})",
              R"(, "bf16": {"enabled": true}, "communication_data_type": "fp32")");
  EXPECT_EQ(second.at("zero_optimization").at("reduce_scatter"), false);
  EXPECT_EQ(second.at("zero_optimization").at("use_multi_rank_bucket_allreduce"), false);
  EXPECT_EQ(second.at("communication_data_type"), "fp32");
  const json third = emitted(
      R"({"stage": 3, "zero_hpz_partition_size": 2, "stage3_use_all_reduce_for_fetch_params": true})", "");
  EXPECT_EQ(third.at("zero_optimization").at("zero_hpz_partition_size"), 2);
  EXPECT_EQ(third.at("zero_optimization").at("stage3_use_all_reduce_for_fetch_params"), true);
  const json quantised =
      emitted(R"({"stage": 3, "zero_quantized_weights": true, "zero_quantized_gradients": true})", "");
  EXPECT_EQ(quantised.at("zero_optimization").at("zero_quantized_weights"), true);
  EXPECT_EQ(quantised.at("zero_optimization").at("zero_quantized_gradients"), true);
}

}  // namespace
}  // namespace zplan::test
