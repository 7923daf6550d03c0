// `compare`: baselines, differences, and whatever can be compared.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "planner/plan/accuracy.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kSmall = "compare --model 0.5B --gpus 2 --mem 24 ";

const json& delta_of(const json& report, const std::string& id) {
  for (const json& each : report.at("comparison").at("deltas"))
    if (each.at("id") == id) return each.at("delta");
  throw std::runtime_error("no delta of " + id);
}

std::vector<std::vector<std::string>> cells(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find('\r'));
    rows.emplace_back();
    bool quoted = false;
    std::string cell;
    for (const char each : line) {
      if (each == '"') quoted = !quoted;
      if (each == ',' && !quoted)
        rows.back().push_back(std::exchange(cell, {}));
      else
        cell += each;
    }
    rows.back().push_back(cell);
  }
  return rows;
}

/// The plan's own cell under a heading.
std::string cell(const std::vector<std::vector<std::string>>& rows, const std::string& id,
                 const std::string& heading) {
  const auto column = std::find(rows.front().begin(), rows.front().end(), heading) - rows.front().begin();
  for (const auto& row : rows)
    if (row.front() == id) return row.at(static_cast<std::size_t>(column));
  throw std::runtime_error("no row of " + id);
}

TEST(CompareBaseline, IsTheFirstUnlessNamed) {
  EXPECT_EQ(report(kSmall + "zero3 zero2").at("comparison").at("baseline"), "zero3");
  EXPECT_EQ(report(kSmall + "zero3 zero2 --baseline zero2").at("comparison").at("baseline"), "zero2");
}

TEST(CompareBaseline, StandsInTheFirstColumn) {
  const std::string out = in_detail(kSmall + "zero3 zero1 --baseline zero1").out;
  EXPECT_THAT(out, HasSubstr("Differences are from zero1;"));
  const std::size_t heading = out.find("\n\n", out.find("Differences are from")) + 2;
  EXPECT_LT(out.find("zero1", heading), out.find("zero3", heading));
}

TEST(CompareBaseline, IsPlannedTooWhereItIsNotAmongThem) {
  const json r = report(kSmall + "zero3 --baseline zero2");
  EXPECT_EQ(r.at("plans").size(), 2U);
  EXPECT_EQ(r.at("comparison").at("deltas").at(0).at("id"), "zero2");
  EXPECT_EQ(report(kSmall + "zero3 zero1+tp1 --baseline tp1+zero1").at("plans").size(), 2U);
}

TEST(CompareBaseline, DeltasAreDifferencesOfTheFigures) {
  const json r = report(kSmall + "zero3 zero2");
  const json &base = plan_of(r, "zero3"), &plan = plan_of(r, "zero2"), &delta = delta_of(r, "zero2");
  for (const char* part : {"required", "parameters", "gradients", "optimizer_states", "loss", "host"})
    EXPECT_EQ(delta.at(part).at("absolute").get<std::int64_t>(),
              plan.at("memory").at(part).get<std::int64_t>() - base.at("memory").at(part).get<std::int64_t>())
        << part;
  const double step = base.at("time").at("step");
  EXPECT_NEAR(delta.at("step").at("fraction").get<double>(),
              plan.at("time").at("step").get<double>() / step - 1, 1e-9);
  EXPECT_NE(delta.at("parameters").at("absolute"), 0);
  EXPECT_TRUE(delta.at("host").at("fraction").is_null());
  EXPECT_EQ(delta_of(r, "zero3").at("required").at("absolute"), 0);
}

TEST(CompareBaseline, CsvHasTheSameDeltasInTheOrderAsked) {
  const json r = report(kSmall + "zero3 zero2 --baseline zero2");
  const auto rows = cells(in_process(kSmall + "zero3 zero2 --baseline zero2 --csv").out);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].front(), "zero3");
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows.front().size());
  EXPECT_EQ(std::stoll(cell(rows, "zero3", "required_delta_bytes")),
            delta_of(r, "zero3").at("required").at("absolute"));
  EXPECT_NEAR(std::stod(cell(rows, "zero3", "tokens_per_second_ratio")) - 1,
              delta_of(r, "zero3").at("tokens_per_second").at("fraction"), 1e-6);
  EXPECT_EQ(cell(rows, "zero2", "step_delta_seconds"), "0");
  EXPECT_EQ(cell(rows, "zero3", "baseline"), "zero2");
}

TEST(CompareBaseline, APlanOfItsOwnHasNoDeltas) {
  EXPECT_THAT(in_process("--model 0.5B --gpus 2 --mem 24 --csv").out, Not(HasSubstr("delta")));
  EXPECT_THAT(in_process("--model 0.5B --gpus 2 --mem 24 --baseline zero3").err,
              AllOf(HasSubstr("--baseline"), HasSubstr("compare")));
}

/// Lines of a Markdown table; the first two are its head.
int lines_of_table(const std::string& markdown) {
  std::istringstream lines(markdown);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with("| ") ? 1 : 0;
  return count;
}

TEST(CompareDifferences, DoNothingForPrograms) {
  for (const char* format : {"--csv", "--json"})
    EXPECT_THAT(in_process(kSmall + "zero3 zero2 --differences " + format).err, HasSubstr("--markdown"))
        << format;
}

TEST(CompareDifferences, LeavesOutWhatIsAlikeAndSaysHowMuch) {
  const std::string all = in_process(kSmall + "zero3 zero2 --markdown").out,
                    some = in_process(kSmall + "zero3 zero2 --markdown --differences").out;
  const std::size_t at = some.find("; ", some.find("best of a line"));
  ASSERT_NE(at, std::string::npos);
  const int left_out = std::stoi(some.substr(at + 2));
  EXPECT_GT(left_out, 2);
  EXPECT_EQ(lines_of_table(all) - left_out, lines_of_table(some));
  EXPECT_THAT(all, HasSubstr("| host memory per node"));
  EXPECT_THAT(some, Not(HasSubstr("| host memory per node")));
  EXPECT_THAT(some, AllOf(HasSubstr("| parameters"), Not(HasSubstr("(=)"))));
}

TEST(CompareWords, NameBatchAndMethod) {
  const json r = report(kSmall + "zero2 zero2+b4+a2 lora+zero2");
  const json& batch = plan_of(r, "zero2+b4+a2").at("strategy");
  EXPECT_EQ(batch.at("micro_batch_size"), 4);
  EXPECT_EQ(batch.at("gradient_accumulation_steps"), 2);
  EXPECT_EQ(plan_of(r, "lora+zero2").at("training").at("method"), "lora");
  EXPECT_FALSE(plan_of(r, "zero2").contains("training"));
  EXPECT_EQ(
      plan_of(r, "zero2+b4+a2").at("memory"),
      plan_of(
          report(
              "--model 0.5B --gpus 2 --mem 24 --zero 2 --tp 1 --offload none --micro-batch 4 --grad-accum 2"),
          "zero2")
          .at("memory"));
  for (const char* key : {"memory", "time"})
    EXPECT_EQ(plan_of(r, "lora+zero2").at(key),
              plan_of(report("--model 0.5B --gpus 2 --mem 24 --zero 2 --tp 1 --offload none --method lora"),
                      "zero2")
                  .at(key));
}

TEST(CompareWords, TheBatchThatNobodyNamedFollows) {
  const std::string line = "compare --model 0.5B --gpus 2 --mem 24 --global-batch 16 ";
  const json r = report(line + "zero2 zero2+b2 zero2+a2");
  EXPECT_EQ(plan_of(r, "zero2+b2").at("strategy").at("gradient_accumulation_steps"), 4);
  EXPECT_EQ(plan_of(r, "zero2+a2").at("strategy").at("micro_batch_size"), 4);
  EXPECT_EQ(in_process(line + "zero2 zero2+b3").status, kBadInput);
}

TEST(CompareWords, TheConfigIsOfThePlanThatIsTaken) {
  const Result emitted = in_process(kSmall + "zero0+b64 lora+zero2+b2+a4 --emit -");
  const json config = json::parse(emitted.out);
  EXPECT_EQ(config.at("train_micro_batch_size_per_gpu"), 2);
  EXPECT_EQ(config.at("gradient_accumulation_steps"), 4);
}

TEST(CompareWords, AdaptersOptionsGoWithAWordThatHasSome) {
  EXPECT_EQ(in_process(kSmall + "zero2 lora+zero2 --lora-rank 4").status, kFits);
  EXPECT_EQ(in_process(kSmall + "zero2 zero3 --lora-rank 4").status, kBadInput);
  EXPECT_EQ(in_process(kSmall + "zero2 lora+zero2 --quantization nf4").status, kBadInput);
}

/// The two that trade places are the plans that are compared, method and batch included.
TEST(CompareWords, SidesOfAContestKeepTheirNames) {
  const json r = report("compare --model 8B --gpus 8 --gpu A100-SXM-80GB zero3+b8 lora+zero3+b8");
  const json& comparison = r.at("comparison");
  const std::set<std::string> named{comparison.at("faster"), comparison.at("slower")};
  EXPECT_EQ(named, (std::set<std::string>{"zero3+b8", "lora+zero3+b8"}));
  const json& one = plan_of(r, comparison.at("faster")).at("time").at("tokens_per_second");
  const json& other = plan_of(r, comparison.at("slower")).at("time").at("tokens_per_second");
  EXPECT_DOUBLE_EQ(comparison.at("ratio"), one.get<double>() / other.get<double>());
}

/// Adapters send next to nothing, so that they win on a slow link; a larger micro-batch wins on a fast one.
TEST(CompareWords, ACrossoverIsBetweenThePlansThatAreCompared) {
  const json comparison = report(kSmall + "zero2+b2 lora+zero2").at("comparison");
  ASSERT_FALSE(comparison.at("crossover").is_null());
  EXPECT_EQ(comparison.at("crossover").at("faster_below"), "lora+zero2");
  EXPECT_EQ(comparison.at("crossover").at("faster_above"), "zero2+b2");
  EXPECT_LT(comparison.at("crossover").at("bytes_per_second"), comparison.at("link").at("bytes_per_second"));
}

TEST(CompareWords, EachOnce) {
  EXPECT_THAT(in_process(kSmall + "zero1 --baseline tp1+zero1").err, HasSubstr("one strategy"));
  EXPECT_THAT(in_process(kSmall + "zero3 zero3").err, HasSubstr("named twice"));
  EXPECT_THAT(in_process(kSmall + "tp1+zero1 zero1").err, HasSubstr("named twice"));
}

TEST(CompareConfigs, AFileStandsBesideStrategies) {
  const Folder folder;
  const std::string file = folder.write(
      "mine.json",
      R"({"zero_optimization": {"stage": 2}, "fp16": {"enabled": true}, "train_micro_batch_size_per_gpu": 2})");
  const json r = report(kSmall + "zero3 " + file + " --baseline " + file);
  EXPECT_EQ(r.at("comparison").at("baseline"), file);
  const json& plan = plan_of(r, file);
  EXPECT_EQ(plan.at("training").at("precision"), "fp16");
  const json alone = report("--model 0.5B --gpus 2 --mem 24 --ds-config " + file);
  EXPECT_EQ(plan.at("memory"), plan_of(alone, "zero2").at("memory"));
  EXPECT_EQ(plan.at("time"), plan_of(alone, "zero2").at("time"));
  EXPECT_EQ(plan_of(r, "zero3").at("strategy").at("micro_batch_size"), 1);
}

TEST(CompareConfigs, WhatIsNoConfigIsSaid) {
  const Folder folder;
  EXPECT_THAT(in_process(kSmall + "zero3 " + folder.path("none.json")).err, HasSubstr("none.json"));
  const std::string saved = folder.write("saved.json", in_process(kSmall + "zero3 zero2 --json").out);
  EXPECT_THAT(in_process(kSmall + "zero3 " + saved).err, HasSubstr("accepted: a ds_config, or --baseline"));
}

TEST(CompareSaved, NothingHasChanged) {
  const Folder folder;
  const std::string then = folder.write("then.json", in_detail(kSmall + "zero3 zero2 --json").out);
  const json r = report(kSmall + "--baseline " + then);
  EXPECT_EQ(r.at("plans").size(), 2U);
  for (const json& each : r.at("comparison").at("deltas"))
    for (const auto& [name, delta] : each.at("delta").items()) EXPECT_EQ(delta.at("absolute"), 0) << name;
  const std::string text = in_detail(kSmall + "--differences --baseline " + then).out;
  EXPECT_THAT(text, Not(HasSubstr("not asked as in")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\nneeds ")), HasSubstr("No line differs")));
}

TEST(CompareSaved, NowAgainstThen) {
  const Folder folder;
  const json before = json::parse(in_detail(kSmall + "zero3 zero2 --json").out);
  const std::string then = folder.write("then.json", before.dump());
  const std::string line = kSmall + "--seq 4096 zero2 zero1 --baseline " + then;
  const json r = report(line);
  EXPECT_EQ(delta_of(r, "zero2").at("required").at("absolute").get<std::int64_t>(),
            plan_of(r, "zero2").at("memory").at("required").get<std::int64_t>() -
                plan_of(before, "zero2").at("memory").at("required").get<std::int64_t>());
  EXPECT_TRUE(delta_of(r, "zero1").is_null());
  std::string text = in_detail(line).out;
  std::replace(text.begin(), text.end(), '\n', ' ');
  EXPECT_THAT(text, HasSubstr("zero2 then"));
  EXPECT_THAT(text, HasSubstr("sequence_length: 2048 then, 4096 now"));
  EXPECT_THAT(text, HasSubstr("has no zero1"));
}

TEST(CompareSaved, OneStrategyAloneHasNoRival) {
  const Folder folder;
  const std::string then = folder.write("then.json", in_process(kSmall + "zero3 zero2 --json").out);
  const json comparison = report(kSmall + "zero3 --baseline " + then).at("comparison");
  EXPECT_TRUE(comparison.at("faster").is_null());
  EXPECT_EQ(comparison.at("baseline"), then);
}

/// One line that names file and place.
TEST(CompareSaved, ABrokenReportIsNamed) {
  const Folder folder;
  const json good = json::parse(in_process(kSmall + "zero3 zero2 --json").out);
  const auto error_of = [&](const std::string& text) {
    const Result result = in_process(kSmall + "zero3 --baseline " + folder.write("then.json", text));
    EXPECT_EQ(result.status, kBadInput);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error_of(good.dump().substr(0, 500)), HasSubstr("then.json"));
  json other = good;
  other["schema"] = "zplan.fit/1";
  EXPECT_THAT(error_of(other.dump()), AllOf(HasSubstr("then.json#/schema"), HasSubstr("zplan.fit/1")));
  other = good;
  other["plans"][1]["memory"].erase("required");
  EXPECT_THAT(error_of(other.dump()), HasSubstr("then.json#/plans/1/memory"));
  other = good;
  other["plans"][0]["time"]["step"] = "fast";
  EXPECT_THAT(error_of(other.dump()), HasSubstr("then.json#/plans/0/time/step"));
  other = good;
  other["plans"] = json::array();
  EXPECT_THAT(error_of(other.dump()), HasSubstr("then.json#/plans"));
  other = good;
  other.erase("cluster");
  EXPECT_THAT(error_of(other.dump()), HasSubstr("then.json"));
}

/// The sentence and the JSON agree, on either side of what half of DeepSpeed's speeds are off.
TEST(CompareBaseline, NearTiesAreCalledThat) {
  const double within = speed_tie(Framework::deepspeed, "generic").within;
  int ties = 0, wins = 0;
  for (const char* pair : {"zero0 zero1", "zero1 zero2", "zero2 zero3+offload-all", "zero2 zero2+b2"}) {
    const json comparison = report(kSmall + pair).at("comparison");
    EXPECT_EQ(comparison.at("tie_within"), within) << pair;
    const bool tie = comparison.at("ratio").get<double>() < 1 + within;
    EXPECT_EQ(comparison.at("tie"), tie) << pair;
    const std::string text = in_process(kSmall + pair).out;
    EXPECT_EQ(text.find(" tie here: ") != std::string::npos, tie) << pair;
    EXPECT_EQ(text.find(" is faster here") != std::string::npos, !tie) << pair;
    ++(tie ? ties : wins);
  }
  EXPECT_GT(ties, 0);
  EXPECT_GT(wins, 0);
}

}  // namespace
}  // namespace zplan::test
