// torchtitan's TOML configs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLlama =
    "[job]\ndescription = \"Llama 3\"\n\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n\n";

json titan_report(const std::string& text, const std::string& options) {
  const Folder folder;
  return report("--recipe " + folder.write("train.toml", text) + " " + options);
}

std::string titan_refusal(const std::string& text, const std::string& options = "--gpus 8 --mem 80") {
  const Folder folder;
  const Result result = in_process("--recipe " + folder.write("train.toml", text) + " " + options);
  EXPECT_EQ(result.status, kBadInput) << text;
  return result.err;
}

TEST(TorchtitanConfigs, SayModelDegreesAndBatch) {
  const json r =
      titan_report(std::string(kLlama) +
                       "[training]\nlocal_batch_size = 2\nseq_len = 8_192\n\n"
                       "[parallelism]\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n\n"
                       "[activation_checkpoint]\nmode = \"full\"\n",
                   "--gpus 8 --gpu H100-SXM-80GB");
  EXPECT_EQ(r.at("model").at("name"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(r.at("training").at("sequence_length"), 8192);
  const json& strategy = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(strategy.at("framework"), "torchtitan");
  EXPECT_EQ(strategy.at("tensor_parallel"), 2);
  EXPECT_EQ(strategy.at("data_parallel"), 4);
  EXPECT_EQ(strategy.at("micro_batch_size"), 2);
  EXPECT_EQ(strategy.at("activation_checkpointing"), "full");
}

// These releases have no loss in slices, and attention is torch's own.
TEST(TorchtitanConfigs, HaveDefaultsOfTheirReleases) {
  const json r = titan_report(kLlama, "--gpus 8 --gpu H100-SXM-80GB");
  EXPECT_EQ(r.at("training").at("sequence_length"), 2048);
  const json& strategy = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(strategy.at("micro_batch_size"), 8);
  EXPECT_EQ(strategy.at("activation_checkpointing"), "selective");
  EXPECT_THAT(strategy.at("torchtitan"), ElementsAre("attn_backend=varlen", "num_chunks=0"));
}

TEST(TorchtitanConfigs, DivideTheLocalBatchAmongStages) {
  const json r =
      titan_report(std::string(kLlama) +
                       "[training]\nlocal_batch_size = 8\n\n"
                       "[parallelism]\npipeline_parallel_degree = 4\ndata_parallel_shard_degree = 2\n"
                       "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
                   "--gpu H100-SXM-80GB");
  EXPECT_EQ(r.at("cluster").at("gpus"), 8);
  const json& strategy = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(strategy.at("pipeline_parallel"), 4);
  EXPECT_EQ(strategy.at("virtual_stages"), 2);
  EXPECT_EQ(strategy.at("micro_batch_size"), 1);
  EXPECT_EQ(strategy.at("gradient_accumulation_steps"), 8);
}

TEST(TorchtitanConfigs, NameWhatIsNotPlanned) {
  const json r = titan_report(std::string(kLlama) +
                                  "converters = [\"float8\"]\n[compile]\nenable = true\n[parallelism]\n"
                                  "enable_async_tensor_parallel = true\nnew_key = 1\n",
                              "--gpus 8 --gpu H100-SXM-80GB");
  std::vector<std::string> keys;
  for (const json& each : r.at("recipes").at(0).at("not_planned")) keys.push_back(each.at("key"));
  EXPECT_THAT(keys, ElementsAre("model.converters", "compile.enable",
                                "parallelism.enable_async_tensor_parallel", "activation_checkpoint.mode"));
  EXPECT_EQ(r.at("recipes").at(0).at("unknown").at(0).at("key"), "parallelism.new_key");
  EXPECT_EQ(r.at("recipes").at(0).at("unknown").at(0).at("line"), 13);
}

TEST(TorchtitanConfigs, AreRefusedAtTheirLine) {
  EXPECT_THAT(titan_refusal("[model]\nflavor = \"9B\"\n"), HasSubstr("train.toml:2: model.flavor: \"9B\""));
  EXPECT_THAT(titan_refusal("[model\nflavor = \"8B\"\n"), HasSubstr("train.toml:1: not TOML"));
  EXPECT_THAT(titan_refusal("[model]\nflavor = \"8B\"\nflavor = \"70B\"\n"),
              HasSubstr("train.toml:3: not TOML"));
  EXPECT_THAT(titan_refusal(std::string(kLlama) + "[activation_checkpoint]\nmode = \"memory_budget\"\n"),
              HasSubstr("train.toml:9: activation_checkpoint.mode: \"memory_budget\""));
  EXPECT_THAT(titan_refusal("# nothing\n"), HasSubstr("not a recipe"));
}

TEST(TorchtitanConfigs, SayNumbersThatArePlanned) {
  const std::string degrees = std::string(kLlama) + "[parallelism]\npipeline_parallel_degree = 2\n";
  EXPECT_THAT(titan_refusal(std::string(kLlama) +
                            "[parallelism]\ndata_parallel_shard_degree = 1073741824\n"
                            "tensor_parallel_degree = 1073741824\ncontext_parallel_degree = 1073741824\n"),
              HasSubstr("with the other degrees more than 1000000 GPUs"));
  EXPECT_THAT(titan_refusal(std::string(kLlama) + "[parallelism]\ntensor_parallel_degree = \"1,2\"\n"),
              HasSubstr("tensor_parallel_degree: \"1,2\"; accepted: one value"));
  EXPECT_THAT(titan_refusal(degrees + "pipeline_parallel_microbatch_size = [2]\n"),
              HasSubstr("pipeline_parallel_microbatch_size: a list"));
  EXPECT_THAT(titan_refusal(degrees + "pipeline_parallel_layers_per_stage = -1\n"),
              HasSubstr("pipeline_parallel_layers_per_stage"));
  EXPECT_THAT(titan_refusal(degrees + "pipeline_parallel_schedule = \"Interleaved1F1B\"\n"
                                      "pipeline_parallel_layers_per_stage = 4\n"
                                      "pipeline_parallel_first_stage_less_layers = -1\n"),
              HasSubstr("first_stage_less_layers"));
}

TEST(TorchtitanConfigs, NameTheFirstOfManyConverters) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "\"float8\", ";
  const std::string text = "[model]\nflavor = \"8B\"\nconverters = [" + many + "]\n";
  const json r = titan_report(text, "--gpus 8 --mem 80");
  EXPECT_EQ(r.at("recipes").at(0).at("not_planned").size(), 22U);  // one of checkpointing, which is not said
  EXPECT_THAT(titan_refusal("[model]\nflavor = \"8B\"\nconverters = \"float8\"\n"),
              HasSubstr("model.converters: \"float8\"; accepted: a list"));
}

TEST(TorchtitanConfigs, HaveValuesThatAreNoOtherSettings) {
  EXPECT_THAT(titan_refusal(std::string(kLlama) +
                            "[parallelism]\nfsdp_reshard_after_forward = \"never,num_chunks=8\"\n"),
              HasSubstr("fsdp_reshard_after_forward: \"fsdp_reshard_after_forward=never,num_chunks=8\""));
  EXPECT_THAT(titan_refusal(std::string(kLlama) + "[parallelism]\npipeline_parallel_degree = 2\n"
                                                  "pipeline_parallel_schedule = \"1F1B,num_chunks=8\"\n"),
              HasSubstr("pipeline_parallel_schedule: \"pipeline_parallel_schedule=1F1B,num_chunks=8\""));
}

TEST(TorchtitanConfigs, AreWrittenBack) {
  const Folder folder;
  const std::string from =
      folder.write("train.toml", std::string(kLlama) + "[training]\nlocal_batch_size = 8  # of a rank\n");
  const std::string to = folder.path("new.toml");
  ASSERT_EQ(in_process("--recipe " + from +
                       " --gpus 8 --gpu H100-SXM-80GB --micro-batch 2 --tp 2 "
                       "--checkpointing full --recipe-out " +
                       to)
                .status,
            0);
  const std::string text = read_text(to);
  EXPECT_THAT(text, HasSubstr("local_batch_size = 2  # of a rank\n"));
  EXPECT_THAT(text, HasSubstr("[parallelism]\ndata_parallel_shard_degree = 4\ntensor_parallel_degree = 2\n"));
  EXPECT_THAT(text, HasSubstr("[activation_checkpoint]\nmode = \"full\"\n"));
  const json again = report("--recipe " + to + " --gpus 8 --gpu H100-SXM-80GB");
  EXPECT_EQ(again.at("plans").at(0).at("strategy").at("tensor_parallel"), 2);
  EXPECT_EQ(again.at("plans").at(0).at("strategy").at("micro_batch_size"), 2);
}

// toml++ is not given what it does not stand.
TEST(TorchtitanConfigs, RefuseWhatTomlParsersFailAt) {
  std::string dots;
  for (int i = 0; i < 20; ++i) dots += "a.";
  for (const std::string& each :
       {dots + "a = 1\n", "[" + dots + "a]\n", "a = { \"b\" = 1, " + dots + "a = 1 }\n",
        "a = [\"\"\"x\"\"\"\"\", {" + dots + "a = 1}]\n"})
    EXPECT_THAT(titan_refusal(kLlama + each),
                HasSubstr("train.toml:8: a key of too many parts; accepted: up to 16"));
  EXPECT_THAT(titan_refusal(std::string(kLlama) + "\xC3\xA9 = 1\n"), HasSubstr("train.toml:8: not TOML"));
  EXPECT_THAT(
      titan_refusal(std::string(kLlama) + "a = " + std::string(100, '[') + std::string(100, ']') + "\n"),
      HasSubstr("train.toml:8: too many levels; accepted: up to 64"));
}

TEST(TorchtitanConfigs, MayBeginWithAByteOrderMark) {
  const std::string text = "\xEF\xBB\xBFtraining.local_batch_size = 4  # \xC3\xA9\n" + std::string(kLlama);
  const json r = titan_report(text, "--gpus 8 --gpu H100-SXM-80GB");
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("micro_batch_size"), 4);
}

}  // namespace
}  // namespace zplan::test
