// Bad usage and bad input: exit 2, exactly one line on stderr, nothing on stdout. The real program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

void expect_one_line(const Result& result, const std::vector<std::string>& parts, const std::string& what) {
  EXPECT_EQ(result.status, kBadInput) << what;
  EXPECT_EQ(result.out, "") << what;
  EXPECT_THAT(result.err, StartsWith("zplan: ")) << what;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << what << "\n" << result.err;
  EXPECT_TRUE(result.err.ends_with('\n')) << what;
  for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part)) << what;
}

struct Case {
  std::string line;
  std::vector<std::string> parts;  ///< that the message holds: option, value, what is accepted
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.line; }

class BadUsage : public testing::TestWithParam<Case> {};
TEST_P(BadUsage, IsOneLineThatHelps) {
  expect_one_line(as_process(split(GetParam().line)), GetParam().parts, GetParam().line);
}

INSTANTIATE_TEST_SUITE_P(
    Words, BadUsage,
    testing::Values(
        Case{"", {"--model", "--gpus"}}, Case{"--modle 8B", {"--modle", "did you mean --model?"}},
        Case{"--model 8B --gpsu 4", {"--gpsu", "--gpus"}}, Case{"-x", {"-x"}},
        Case{"paln --model 8B", {"paln", "did you mean plan?"}},
        Case{"modles list", {"did you mean models?"}}, Case{"plan extra --model 8B", {"extra"}},
        Case{"lint", {"lint", "no file"}}, Case{"lint none.json", {"none.json", "No such file"}},
        Case{"lint --csv none.json", {"--csv", "not an option of lint"}},
        Case{"--model 8B --fix", {"--fix", "with lint"}},
        Case{"fit --model 8B --oom x", {"--oom", "looked for"}},
        Case{"check x.log", {"x.log", "No such file"}}, Case{"--json bench", {"bench", "behind an option"}},
        Case{"--json gui", {"gui", "behind an option"}},
        Case{"--model Qwen/Qwen3-8C --gpus 1", {"--model", "Qwen/Qwen3-8C", "Qwen/Qwen3-8B"}},
        Case{"--model 8B --gpu H100-SXN-80GB", {"--gpu", "H100-SXN-80GB", "did you mean H100-SXM-80GB?"}},
        Case{"--model 8B --framework horovod", {"--framework", "horovod", "deepspeed, fsdp, torch"}},
        Case{"--model 8B --optimizer adamv", {"--optimizer", "adamv", "did you mean adamw?"}},
        Case{"models shwo Qwen/Qwen3-8B", {"shwo", "did you mean show?"}}, Case{"models show", {"no name"}},
        Case{"hardware show H100-SXN-80GB", {"H100-SXM-80GB"}}, Case{"hardware search zzzz", {"zzzz"}},
        Case{"models search zzzz", {"zzzz"}}, Case{"models list --gpus 3", {"--gpus"}},
        Case{"completion tcsh", {"tcsh", "bash, zsh, fish"}}, Case{"completion", {"bash"}},
        Case{"compare --model 8B --gpus 4 zero3", {"two or more"}},
        Case{"compare --model 8B --gpus 4 zero3 zeor2", {"zeor2", "did you mean zero2?"}},
        Case{"compare --model 8B --gpus 4 zero3 tp3+zero1", {"tp3+zero1", "4 GPUs"}},
        Case{"compare --model 8B --gpus 4 --zero 3 zero3 zero2", {"--zero"}}));

INSTANTIATE_TEST_SUITE_P(
    Values, BadUsage,
    testing::Values(
        Case{"--model 8B --gpus 2x4090", {"--gpus", "2x4090", "--gpus 2 --gpu \"4090\""}},
        Case{"--model 8B --gpus 0", {"--gpus", "\"0\"", "1 to 1000000"}},
        Case{"--model 8B --gpus -1", {"--gpus", "-1"}}, Case{"--model 8B --gpus 1.5", {"--gpus", "1.5"}},
        Case{"--model 8B --gpus 99999999999999999999", {"--gpus"}},
        Case{"--model 8B --gpus", {"--gpus", "no value"}},
        Case{"--model 8B --gpus 2 --gpus 4", {"--gpus", "more than once"}},
        Case{"--model 8B --mem -3", {"--mem", "-3", "GiB"}}, Case{"--model 8B --mem 0", {"--mem", "\"0\""}},
        Case{"--model 8B --mem 44TB", {"--mem", "44TB", "44GiB"}},
        Case{"--model 8B --mem nan", {"--mem", "nan"}}, Case{"--model 8B --mem inf", {"--mem", "inf"}},
        Case{"--model 8B --mem 1e99", {"--mem", "1e99"}}, Case{"--model 8B --mem 44GB", {"--mem", "44GB"}},
        Case{"--model 8B --mem 0.1", {"--mem", "0.5 to 4096"}},
        Case{"--model 8B --gpus 4 --nodes 3", {"--nodes", "does not divide"}},
        Case{"--model 8B --gpus 6 --tp 4", {"--tp", "6 GPUs are not a multiple of tensor parallel 4"}},
        Case{"--model 8B --gpus 6 --tp 3", {"--tp", "does not divide the 8 key-value heads"}},
        Case{"compare --model 30B --gpus 16 zero3 tp8+zero1",
             {"4 key-value heads (inferred after 01-ai/Yi-34B", "name a real model"}},
        Case{"--model 8B --zero 4", {"--zero", "\"4\"", "0 to 3"}},
        Case{"--model 8B --zero 2,,3", {"--zero"}}, Case{"--model 8B --zero 2,2", {"--zero", "twice"}},
        Case{"--model 8B --offload disk", {"--offload", "disk", "all-nvme"}},
        Case{"--model 8B --micro-batch 0", {"--micro-batch", "max"}},
        Case{"--model 8B --micro-batch many", {"--micro-batch", "many", "max"}},
        Case{"--model 8B --headroom 91", {"--headroom", "91", "0 to 90"}},
        Case{"--model 8B --units MB", {"--units", "MB", "GiB"}},
        Case{"--model 8B --gpus 2 --tp 1 --micro-batch 2 --grad-accum 2 --global-batch 9",
             {"--global-batch"}},
        Case{"--model 8B --seq 0", {"--seq"}},
        Case{"--model 8B --seq 16777216 --micro-batch 65536", {"tokens"}},
        Case{"--model 1000T --gpus 1 --grad-accum 100000", {"--"}},
        Case{"--model 8B --lora-rank 8", {"--lora-rank", "--method"}},
        Case{"--model 8B --lora-dropout 0.05", {"--lora-dropout", "--method"}},
        Case{"--model 8B --images 2", {"--images", "8B", "qwen2_5_vl"}},
        Case{"--model 8B --image-size 10x10", {"--image-size", "--images"}},
        Case{"--model Qwen/Qwen2.5-VL-7B-Instruct --images 2 --image-size 1344",
             {"--image-size", "1344", "1344x1008"}},
        Case{"--model Qwen/Qwen2.5-VL-7B-Instruct --images 2", {"--image-size"}},
        Case{"--model Qwen/Qwen2.5-VL-7B-Instruct --images 2 --image-size 1344x1344 --seq 4096",
             {"--seq", "4608"}},
        Case{"--model 8B --method lora --lora-dropout 5", {"--lora-dropout", "5", "0 to 1"}},
        Case{"--model 8B --method lora --prepare-kbit", {"--prepare-kbit", "qlora"}},
        Case{"--model 8B --method lora --quantization int8", {"--quantization", "qlora"}},
        Case{"--model 8B --method lora --quant-storage bf16", {"--quant-storage", "qlora"}},
        Case{"--model 8B --method qlora --quantization int8 --quant-storage bf16",
             {"--quant-storage", "nf4"}},
        Case{"--model 8B --dora", {"--dora", "lora"}},
        Case{"--model 8B --adapters 2", {"--adapters", "lora"}},
        Case{"--model 8B --method lora --adapters 0", {"--adapters", "0", "1 to 64"}},
        Case{"--model 8B --modules-to-save lm_head", {"--modules-to-save", "lora"}},
        Case{"--model 8B --method lora --modules-to-save wte", {"--modules-to-save", "wte", "embed_tokens"}},
        Case{"--model 8B --reference copy", {"--reference", "dpo"}},
        Case{"--model 8B --value-model 3B", {"--value-model", "sft", "with --objective ppo"}},
        Case{"--model 8B --objective grpo --reward-model 3B",
             {"--reward-model", "grpo", "with --objective ppo"}},
        Case{"--model 8B --objective dpo --mini-batches 2",
             {"--mini-batches", "dpo", "with --objective ppo"}},
        Case{"--model 8B --objective grpo --rollout-batch 2", {"--rollout-batch", "with --objective ppo"}},
        Case{"--model 8B --completion-length 64", {"--completion-length", "grpo, ppo or gkd"}},
        Case{"--model 8B --objective ppo --value-model 8X", {"--value-model", "8X"}},
        Case{"--model 8B --objective ppo --reward-model none-such-model",
             {"--reward-model", "none-such-model"}},
        Case{"--model 8B --objective ppo --generations 8", {"--generations", "one completion", "grpo"}},
        Case{"--model 8B --objective ppo --steps-per-generation 8", {"--steps-per-generation", "grpo"}},
        Case{"--model 8B --objective ppo --rollout colocate", {"--rollout", "colocate", "trainer"}},
        Case{"--model 8B --objective ppo --vllm-memory 0.3", {"--vllm-memory", "grpo"}},
        Case{"--model 8B --objective ppo --reference none", {"--reference", "none", "copy, adapters-off"}},
        Case{"--model 8B --objective ppo --reference precomputed", {"--reference", "copy, adapters-off"}},
        Case{"--model 8B --objective ppo --images 2", {"--images", "ppo", "--completion-length"}},
        Case{"--model 8B --objective ppo --config-style ms-swift",
             {"--config-style", "TRL", "plain, hf-auto"}},
        Case{"--model 0.1B --objective ppo --gpus 1 --mem 80 --micro-batch 65536 --grad-accum 90000 --seq "
             "4096",
             {"--completion-length, --grad-accum", "scores", "fewer"}},
        Case{"--model 8B --objective ppo --rollout-batch 0", {"--rollout-batch", "0", "1 to"}},
        Case{"--model 8B --objective ppo --gpus 1 --mem 80 --seq 512 --completion-length 512",
             {"--completion-length", "no prompt", "511"}},
        Case{"--model 8B --generations 8", {"--generations", "grpo"}},
        Case{"--model 8B --objective dpo --reference none", {"--reference", "none", "copy"}},
        Case{"--model 8B --objective grpo --reference precomputed", {"--reference", "precomputed", "none"}},
        Case{"--model 8B --objective grpo --generations 1", {"--generations", "1", "2 to"}},
        Case{"--model 8B --objective grpo --rollout trainer --vllm-memory 0.3",
             {"--vllm-memory", "colocate"}},
        Case{"--model 8B --objective grpo --rollout server --vllm-sleep 2", {"--vllm-sleep", "colocate"}},
        Case{"--model 8B --objective grpo --rollout trainer --vllm-tp 2",
             {"--vllm-tp", "colocate or server"}},
        Case{"--model 8B --optimizer-in-backward --gpus 1 --mem 80",
             {"--optimizer-in-backward", "--framework fsdp or torch"}},
        Case{"--model 8B --optimizer-in-backward --framework torch --method lora --gpus 1 --mem 80",
             {"--optimizer-in-backward", "--method full"}},
        Case{"--model 8B --objective grpo --vllm-sleep 3", {"--vllm-sleep", "3", "0 to 2"}},
        Case{"--model 8B --objective grpo --gpus 4 --mem 80 --vllm-tp 3", {"--vllm-tp", "3 of 4 GPUs"}},
        Case{"--model 8B --objective grpo --gpus 4 --mem 80 --vllm-memory 0.1",
             {"--vllm-memory", "0.10", "from 0.2"}},
        Case{"--model 70B --objective grpo --gpus 4 --mem 80", {"--vllm-memory", "larger --vllm-tp"}},
        Case{"--model 8B --objective grpo --gpus 4 --mem 80 --seq 512 --completion-length 512",
             {"--completion-length", "no prompt", "511"}},
        Case{"--model Qwen/Qwen3-8B --method lora --lora-targets q_porj", {"--lora-targets", "q_porj"}}));

INSTANTIATE_TEST_SUITE_P(Output, BadUsage,
                         testing::Values(Case{"--model 8B --json --csv", {"--csv", "one of"}},
                                         Case{"--model 8B --markdown --json", {"--json", "one of"}},
                                         Case{"--model 8B --json=no", {"--json", "none"}},
                                         Case{"--model 8B --emit - --json", {"--emit"}},
                                         Case{"--model 8B --emit - --explain", {"--emit"}},
                                         Case{"--model 8B --csv --explain", {"--explain"}}));

TEST(BadInput, ControlCharactersAreNotPassedOn) {
  expect_one_line(as_process({"--model", "a\nb\033[31m"}), {"\\x0a"}, "newline in a name");
  expect_one_line(as_process({"--mo\ndel", "8B"}), {}, "newline in an option");
}

TEST(BadInput, EmptyArguments) {
  expect_one_line(as_process({"--model", ""}), {"--model"}, "empty model");
  expect_one_line(as_process({"--model", "8B", "--emit", ""}), {"--emit"}, "empty file name");
  expect_one_line(as_process({""}), {}, "empty word");
}

/// A whole config, with one thing broken in each case.
const json kConfig{{"model_type", "llama"},       {"hidden_size", 64},
                   {"intermediate_size", 128},    {"num_hidden_layers", 2},
                   {"num_attention_heads", 4},    {"num_key_value_heads", 2},
                   {"vocab_size", 1000},          {"max_position_embeddings", 512},
                   {"tie_word_embeddings", false}};

TEST(BadConfig, TheWholeOneIsRead) {
  const Folder folder;
  const std::string path = folder.write("config.json", kConfig.dump());
  EXPECT_EQ(as_process({"--model", path, "--gpus", "1", "--mem", "24"}).status, kFits);
  EXPECT_EQ(as_process({"--model", folder.path(), "--gpus", "1", "--mem", "24"}).status, kFits);
}

TEST(BadConfig, TruncatedOrNoJson) {
  const Folder folder;
  const std::string whole = kConfig.dump();
  expect_one_line(as_process({"--model", folder.write("cut/config.json", whole.substr(0, whole.size() / 2))}),
                  {"config.json"}, "truncated");
  expect_one_line(as_process({"--model", folder.write("empty/config.json", "")}), {"config.json"}, "empty");
  expect_one_line(as_process({"--model", folder.write("text/config.json", "hidden size: 4096")}),
                  {"config.json"}, "no JSON");
  expect_one_line(as_process({"--model", folder.write("list/config.json", "[1, 2]")}), {"config.json"},
                  "a list");
  expect_one_line(as_process({"--model", folder.write("bytes/config.json", "\xff\xfe\x00\x01")}),
                  {"config.json"}, "bytes");
}

TEST(BadConfig, MissingAndAbsurdFields) {
  const Folder folder;
  const auto with = [&](const std::string& key, const json& value) {
    json config = kConfig;
    if (value.is_null())
      config.erase(key);
    else
      config[key] = value;
    return as_process({"--model", folder.write(key + "/config.json", config.dump())});
  };
  expect_one_line(with("hidden_size", nullptr), {"config.json", "hidden_size"}, "missing");
  expect_one_line(with("num_hidden_layers", -2), {"config.json", "num_hidden_layers", "-2"}, "negative");
  expect_one_line(with("vocab_size", 1e30), {"config.json", "vocab_size"}, "huge");
  expect_one_line(with("num_attention_heads", "four"), {"config.json", "num_attention_heads", "four"},
                  "text");
  json unknown = kConfig;
  unknown["model_type"] = "llamma", unknown.erase("hidden_size");
  expect_one_line(as_process({"--model", folder.write("unknown/config.json", unknown.dump())}),
                  {"config.json", "model_type", "llamma"}, "unknown architecture without a shape");
}

TEST(BadConfig, FilesThatCannotBeRead) {
  const Folder folder;
  std::filesystem::create_directories(folder.path("none"));
  std::filesystem::create_directories(folder.path("folder/config.json"));
  expect_one_line(as_process({"--model", folder.path("none")}), {"none", "config.json"},
                  "a folder without one");
  expect_one_line(as_process({"--model", folder.path("folder")}), {"config.json"}, "a folder in its place");
  expect_one_line(as_process({"--model", folder.path("missing.json")}), {"missing.json"}, "no file");
  expect_one_line(as_process({"--model", "8B", "--ds-config", folder.path("missing.json")}), {"missing.json"},
                  "no ds_config");
  expect_one_line(as_process({"--model", "8B", "--gpu", folder.path("missing.json")}), {"missing.json"},
                  "no profile");
}

TEST(BadInput, AUsersBrokenProfileIsNamed) {
  const Folder folder;
  folder.write("zplan/hardware/mine.json", "{");
  expect_one_line(as_process({"--model", "8B", "--gpus", "1"}, {"XDG_CONFIG_HOME=" + folder.path()}),
                  {"mine.json"}, "broken profile");
}

TEST(Output, AFullDiskIsReported) {
  const Result result = as_process(split("--model 8B --gpus 5 --mem 44"), {}, "/dev/full");
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_THAT(result.err, HasSubstr("stdout"));
}

}  // namespace
}  // namespace zplan::test
