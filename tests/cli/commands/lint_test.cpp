// zplan lint: exit status, files written, formats, what a config costs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kClean = R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
  "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 123456789}}
)";
constexpr const char* kBroken = R"({
  "train_micro_batch_size_per_gpu": 2, // per GPU
  "gradient_clipp1ng": 0.50,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "stage3_max_live_parameters": 1e9}
}
)";
constexpr const char* kRepaired = R"({
  "train_micro_batch_size_per_gpu": 2,
  "gradient_clipping": 0.50,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}
}
)";

TEST(LintCommand, StatusIsZeroWhereNothingIsAnError) {
  const Folder folder;
  const Result clean = in_process("lint " + folder.write("a.json", kClean));
  EXPECT_EQ(clean.status, kFits);
  EXPECT_THAT(clean.out, HasSubstr("a.json: 0 errors, 0 warnings, 0 notes\n"));
  const Result warned = in_process("lint " + folder.write("b.json", R"({"train_batch_size": 8 /* x */})"));
  EXPECT_EQ(warned.status, kFits);
  EXPECT_THAT(warned.out, HasSubstr("1 warning"));
}

TEST(LintCommand, StatusIsOneWhereSomethingIs) {
  const Folder folder;
  const Result result = in_process("lint " + folder.write("a.json", kBroken));
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("1 error, 2 warnings, 0 notes; --fix repairs 3 of them"),
                    HasSubstr("3:3  error    /gradient_clipp1ng: unknown key"), HasSubstr("[unknown-key]")));
}

TEST(LintCommand, NoJsonIsOneLine) {
  const Folder folder;
  const Result result = in_process("lint " + folder.write("a.json", "{\"a\": 1,\n b}"));
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_THAT(result.err, HasSubstr("a.json: not JSON: unexpected text at line 2, column 2"));
  EXPECT_THAT(result.out, IsEmpty());
}

TEST(LintCommand, FixWritesInPlaceAndKeepsWhatWasThere) {
  const Folder folder;
  const std::string path = folder.write("a.json", kBroken);
  const Result result = in_process("lint --fix " + path);
  EXPECT_EQ(result.status, kFits);
  EXPECT_EQ(read_text(path), kRepaired);
  EXPECT_EQ(read_text(path + ".orig"), kBroken);
  EXPECT_THAT(result.out, HasSubstr("repaired: /gradient_clipp1ng: rename to \"gradient_clipping\""));
  EXPECT_THAT(result.err, HasSubstr("zplan: repaired " + path));
}

TEST(LintCommand, FixingTwiceTouchesNothing) {
  const Folder folder;
  const std::string path = folder.write("a.json", kBroken);
  EXPECT_EQ(in_process("lint --fix " + path).status, kFits);
  const auto written = std::filesystem::last_write_time(path);
  const Result again = in_process("lint --fix " + path);
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  EXPECT_EQ(read_text(path + ".orig"), kBroken) << "the first original stays";
}

TEST(LintCommand, TheFirstOriginalStays) {
  const Folder folder;
  const std::string path = folder.write("a.json", kBroken);
  folder.write("a.json.orig", "MINE");
  const Result result = in_process("lint --fix " + path);
  EXPECT_THAT(result.err, HasSubstr("what it was is in " + path + ".orig.1"));
  EXPECT_EQ(read_text(path + ".orig"), "MINE");
  EXPECT_EQ(read_text(path + ".orig.1"), kBroken);
}

TEST(LintCommand, ACleanFileIsLeftAlone) {
  const Folder folder;
  const std::string path = folder.write("a.json", kClean);
  EXPECT_EQ(in_process("lint --fix " + path).status, kFits);
  EXPECT_FALSE(std::filesystem::exists(path + ".orig"));
}

TEST(LintCommand, OneBadFileLeavesAllAsTheyAre) {
  const Folder folder;
  const std::string path = folder.write("a.json", kBroken), bad = folder.write("b.json", "{");
  EXPECT_EQ(in_process("lint --fix " + path + " " + bad).status, kBadInput);
  EXPECT_EQ(read_text(path), kBroken);
}

TEST(LintCommand, EmitWritesElsewhere) {
  const Folder folder;
  const std::string path = folder.write("a.json", kBroken);
  const Result piped = in_process("lint " + path + " --emit -");
  EXPECT_EQ(piped.out, kRepaired);
  EXPECT_THAT(piped.err, HasSubstr("repaired"));
  EXPECT_EQ(in_process("lint " + path + " --emit " + folder.path("b.json")).status, kFits);
  EXPECT_EQ(read_text(folder.path("b.json")), kRepaired);
  EXPECT_EQ(read_text(path), kBroken);
  EXPECT_EQ(in_process("lint " + path + " " + path + " --emit -").status, kBadInput);
}

json lint_json(const std::string& line) { return json::parse(in_process("lint " + line + " --json").out); }

TEST(LintCommand, JsonHasEverything) {
  const Folder folder;
  const json report = lint_json(folder.write("a.json", kBroken));
  EXPECT_EQ(report.at("schema"), "zplan.lint/1");
  EXPECT_EQ(report.at("deepspeed_version"), "0.19.8");
  const json& file = report.at("files").at(0);
  EXPECT_EQ(file.at("summary"), (json{{"errors", 1}, {"warnings", 2}, {"notes", 0}, {"fixable", 3}}));
  const json& finding = file.at("findings").at(1);
  EXPECT_EQ(finding.at("pointer"), "/gradient_clipp1ng");
  EXPECT_EQ(finding.at("outcome"), "ignored");
  EXPECT_EQ(finding.at("line"), 3);
  const json edit = {
      {"line", 3}, {"column", 3}, {"end_line", 3}, {"end_column", 22}, {"text", "\"gradient_clipping\""}};
  EXPECT_EQ(finding.at("fix").at("edits"), json::array({edit}));
  EXPECT_TRUE(file.at("plan").is_null());
}

TEST(LintCommand, SarifNamesRulesAndPlaces) {
  const Folder folder;
  const json log = json::parse(in_process({"lint", folder.write("a b.json", kBroken), "--sarif"}).out);
  EXPECT_EQ(log.at("version"), "2.1.0");
  const json& run = log.at("runs").at(0);
  const json& result = run.at("results").at(1);
  EXPECT_EQ(result.at("ruleId"), "unknown-key");
  EXPECT_EQ(run.at("tool").at("driver").at("rules").at(result.at("ruleIndex").get<std::size_t>()).at("id"),
            "unknown-key");
  const json& place = result.at("locations").at(0).at("physicalLocation");
  EXPECT_EQ(place.at("region"), (json{{"startLine", 3}, {"startColumn", 3}}));
  EXPECT_THAT(place.at("artifactLocation").at("uri").get<std::string>(), testing::EndsWith("/a%20b.json"));
}

TEST(LintCommand, SaysWhatTheConfigCosts) {
  const Folder folder;
  const std::string path = folder.write("a.json", kClean);
  const std::string cluster = " --model 8B --gpus 8 --mem 80";
  const json plan = lint_json(path + cluster).at("files").at(0).at("plan");
  const json planned = report("--ds-config " + path + cluster).at("plans").at(0);
  EXPECT_EQ(plan.at("id"), planned.at("id"));
  EXPECT_EQ(plan.at("required"), planned.at("memory").at("required"));
  EXPECT_EQ(plan.at("tokens_per_second"), planned.at("time").at("tokens_per_second"));
  EXPECT_THAT(in_process("lint " + path + cluster).out, HasSubstr("plan: zero2 fits: needs"));
}

TEST(LintCommand, NotFittingIsAnError) {
  const Folder folder;
  const Result result =
      in_process("lint " + folder.write("a.json", kClean) + " --model 8B --gpus 2 --mem 24");
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_THAT(result.out, AllOf(HasSubstr("[does-not-fit]"), HasSubstr("does not fit")));
}

TEST(LintCommand, PlansTheRepairedConfig) {
  const Folder folder;
  const json file =
      lint_json(folder.write("a.json", kBroken) + " --model 0.5B --gpus 4 --mem 80").at("files").at(0);
  EXPECT_EQ(file.at("plan").at("as_fixed"), true);
  const json torn =
      lint_json(folder.write("b.json", R"({"train_batch_size": 9, "zero_optimization": {"foo": 1}})") +
                " --model 0.5B --gpus 4 --mem 80")
          .at("files")
          .at(0);
  EXPECT_TRUE(torn.at("plan").is_null());
  EXPECT_THAT(torn.at("not_planned").get<std::string>(), HasSubstr("errors remain"));
}

TEST(LintCommand, NamesWhatMegatronRefuses) {
  const Folder folder;
  const std::string flags =
      "NPROC_PER_NODE=6 megatron sft --model Qwen/Qwen2.5-7B --max_length 2048 --global_batch_size 12 ";
  const auto effects = [&](const std::string& more) {
    const json file = lint_json(folder.write("run.sh", flags + more)).at("files").at(0);
    std::string all;
    for (const json& each : file.at("findings"))
      all += each.at("found").get<std::string>() + "; " + each.at("effect").get<std::string>() + "\n";
    return all;
  };
  EXPECT_EQ(effects("--tensor_model_parallel_size 2"), "");
  EXPECT_THAT(effects("--recompute_granularity full --optimizer muon"),
              AllOf(HasSubstr("full without recompute_method"), HasSubstr("muon")));
  EXPECT_THAT(effects("--tensor_model_parallel_size 3"), HasSubstr("does not divide a feed-forward"));
  EXPECT_THAT(effects("--overlap_param_gather true"), HasSubstr("--overlap-param-gather needs"));
  EXPECT_EQ(in_process("lint " + folder.write("bad.sh", flags + "--fp8_format e4m3")).status, kNothingFits);
  EXPECT_THAT(in_process("lint " + folder.write("x.sh", "swift sft --model Qwen/Qwen3-8B")).err,
              HasSubstr("accepted: DeepSpeed configs, and scripts that train with Megatron-Core"));
}

TEST(LintCommand, ABadQuestionIsBadUsage) {
  const Folder folder;
  const std::string path = folder.write("a.json", kClean);
  EXPECT_EQ(in_process("lint " + path + " --model nosuch/model --gpus 4").status, kBadInput);
  EXPECT_EQ(in_process("lint " + path + " --gpu nosuchcard").status, kBadInput);
  EXPECT_THAT(in_process("lint " + path + " --seq 4096").err,
              HasSubstr("--seq: does nothing for lint without"));
  EXPECT_THAT(in_process("lint " + path + " --tp 1,2").err, HasSubstr("--tp: several degrees"));
}

TEST(LintCommand, LinesKeepToTheWidthAndColourToTerminals) {
  const Folder folder;
  const std::string path = folder.write("a.json", kBroken);
  Environment terminal;
  terminal.output_is_terminal = true;
  terminal.terminal_width = 60;
  const Result narrow = in_process({"lint", path}, terminal);
  EXPECT_THAT(narrow.out, HasSubstr("  3:3  \033[31merror\033[0m    /gradient_clipp1ng: unknown key\n"));
  EXPECT_THAT(in_process("lint " + path).out, Not(HasSubstr("\033[")));
}

}  // namespace
}  // namespace zplan::test
