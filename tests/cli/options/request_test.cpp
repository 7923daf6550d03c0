// What options make of a model and of what trains of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

std::int64_t counted(const json& report, const char* what) { return report.at("model").at(what); }

std::int64_t peak_of(const json& report) {
  return report.at("plans").at(0).at("memory").at("peak_allocated").get<std::int64_t>();
}

const std::string kSmall = "--model Qwen/Qwen2.5-0.5B --gpus 1 --mem 80 --framework torch --seq 512 ";

// 24 layers of 14.9 M parameters each; embeddings and norms are frozen.
TEST(TrainedLayers, AreAllThatTrains) {
  const json all = report(kSmall), two = report(kSmall + "--train-layers 22,23");
  constexpr std::int64_t kLayer = 14'912'384;
  EXPECT_EQ(counted(two, "trainable_parameters"), 2 * kLayer);
  EXPECT_EQ(counted(two, "parameters"), counted(all, "parameters"));
  EXPECT_EQ(two.at("training").at("trained_layers"), json({22, 23}));
  // fp32 gradients and two moments of the others are not there.
  const std::int64_t frozen = counted(all, "parameters") - 2 * kLayer;
  EXPECT_LT(peak_of(two), peak_of(all) - 10 * frozen);
  EXPECT_THAT(in_process("plan " + kSmall + "--train-layers 24").err, HasSubstr("0 to 23"));
  const auto named = [](const std::string& words) {
    return report(kSmall + "--train-layers " + words).at("training").at("trained_layers");
  };
  EXPECT_EQ(named("last:2"), json({22, 23}));
  EXPECT_EQ(named("first:2"), json({0, 1}));
  EXPECT_EQ(named("every:4"), json({5, 11, 17, 23}));
  EXPECT_THAT(in_process("plan " + kSmall + "--train-layers every:5").err, HasSubstr("a divisor"));
  EXPECT_THAT(in_process("plan " + kSmall + "--train-layers next:5").err, HasSubstr("last:2"));
  EXPECT_THAT(in_process("plan " + kSmall + "--method lora --train-layers 1").err,
              HasSubstr("--train-layers"));
}

// Third steps of transformers' own model, frozen in bf16 but for these layers.
TEST(TrainedLayers, TakeWhatWasRecorded) {
  std::ifstream file(std::string(ZPLAN_TEST_DATA) + "/reference/frozen_layers/steps.json");
  const json rows = json::parse(file);
  for (const json& row : rows) {
    std::string layers;
    for (const json& each : row.at("layers")) layers += (layers.empty() ? "" : ",") + each.dump();
    const std::string line =
        "--model Qwen/Qwen2.5-0.5B --gpus 1 --mem 80 --framework torch --attention sdpa --seq 1024 "
        "--micro-batch 2 --train-layers " +
        layers + " --checkpointing " + row.at("checkpointing").get<std::string>() +
        (row.at("wide").get<bool>() ? "" : " --no-master-weights");
    const auto recorded = row.at("peak_allocated").get<double>();
    EXPECT_NEAR(static_cast<double>(peak_of(report(line))), recorded, 0.002 * recorded) << line;
  }
  EXPECT_EQ(rows.size(), 6U);
}

TEST(ExpandedBlocks, AreAddedBehindEachGroup) {
  const json plain = report(kSmall), expanded = report(kSmall + "--expand-blocks 4");
  EXPECT_EQ(expanded.at("training").at("trained_layers"), json({6, 13, 20, 27}));
  EXPECT_EQ(counted(expanded, "parameters"),
            counted(plain, "parameters") + counted(expanded, "trainable_parameters"));
  EXPECT_THAT(in_process("plan " + kSmall + "--expand-blocks 5").err,
              HasSubstr("accepted: a divisor of the number of layers"));
}

// Beside adapters of all linear layers of the language model, the tower's and projector's own parameters.
TEST(TrainedTower, TrainsWholeBesideAdapters) {
  const std::string line =
      "--model Qwen/Qwen2.5-VL-3B-Instruct --gpus 2 --mem 80 --zero 2 --offload none --method lora "
      "--freeze vision,projector ";
  const std::string own =
      "--model Qwen/Qwen2.5-VL-3B-Instruct --gpus 2 --mem 80 --zero 2 --offload none --method lora ";
  const json without = report(line), with = report(own + "--train-tower");
  EXPECT_GT(counted(with, "trainable_parameters"), counted(without, "trainable_parameters") + 600'000'000);
  EXPECT_GT(peak_of(with), peak_of(without));
  EXPECT_THAT(in_process("plan " + kSmall + "--method lora --train-tower").err, HasSubstr("has no tower"));
}

TEST(Teacher, IsNeededAndNamed) {
  const std::string line = "--model Qwen/Qwen2.5-0.5B --objective gkd --gpus 4 --mem 80 --seq 512 ";
  EXPECT_THAT(in_process("plan " + line).err, HasSubstr("gkd without a teacher"));
  EXPECT_THAT(in_process("plan " + line + "--teacher nobody/knows --offline").err,
              HasSubstr("--teacher: no model"));
  EXPECT_THAT(in_process("plan " + line + "--reference none").err, HasSubstr("--teacher-top N"));
  EXPECT_THAT(in_process("plan " + line + "--reference adapters-off --teacher 1.5B").err,
              HasSubstr("--teacher: beside --reference adapters-off"));
  EXPECT_THAT(in_process("plan --model 0.5B --gpus 1 --mem 80 --teacher 1.5B").err, HasSubstr("gkd"));
}

// Sharded at ZeRO-3, whole at ZeRO-2; 16-bit weights of a larger teacher are more than all of the student.
TEST(Teacher, IsHeldAsTheFrameworkHasIt) {
  const std::string line =
      "--model Qwen/Qwen2.5-0.5B --objective gkd --gpus 8 --mem 80 --seq 512 --offload none ";
  const auto frozen = [](const json& r) {
    return r.at("plans").at(0).at("memory").at("parameters").get<std::int64_t>();
  };
  constexpr std::int64_t kTeacher = std::int64_t{2} * 7'615'616'512;
  const std::string taught = line + "--teacher Qwen/Qwen2.5-7B ";
  const std::int64_t whole = frozen(report(taught + "--zero 2")),
                     shared = frozen(report(taught + "--zero 3"));
  EXPECT_GT(whole, kTeacher);
  EXPECT_LT(whole, kTeacher + kTeacher / 8);
  EXPECT_GT(shared, kTeacher / 8);
  EXPECT_LT(shared, kTeacher / 2) << "with what is gathered";
  const json own = report(line + "--zero 2 --reference adapters-off --method lora");
  EXPECT_LT(frozen(own), kTeacher / 8);
}

}  // namespace
}  // namespace zplan::test
