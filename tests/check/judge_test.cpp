// Judging: each statistic is compared with its prediction.

#include "planner/check/judge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/predict.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

MemoryPrediction prediction() {
  MemoryPrediction made;
  made.peak_requested = Bytes(90), made.peak_allocated = Bytes(100), made.peak_reserved = Bytes(120);
  made.required = Bytes(110), made.outside = Bytes(50);
  return made;
}

Bytes predicted(Statistic statistic, Range range = {0, 0}, Kind kind = Kind::measurement) {
  return predicted_bytes(prediction(), {statistic, range}, kind);
}

TEST(Judging, EachStatisticHasItsOwnFigure) {
  EXPECT_EQ(predicted(Statistic::requested), Bytes(90));
  EXPECT_EQ(predicted(Statistic::allocated), Bytes(100));
  EXPECT_EQ(predicted(Statistic::active), Bytes(100));
  EXPECT_EQ(predicted(Statistic::reserved), Bytes(120));
  EXPECT_EQ(predicted(Statistic::device), Bytes(170));
}

// A GPU holds the CUDA context too; the stand-in that capacities were bisected on does not.
TEST(Judging, RequiredIsOfTheCardOrOfTheAllocator) {
  EXPECT_EQ(predicted(Statistic::required, {0, 0}, Kind::measurement), Bytes(160));
  EXPECT_EQ(predicted(Statistic::required, {0, 0}, Kind::step), Bytes(110));
}

// Not stated is anything from allocated (100) to device (170): the nearest of it counts.
TEST(Judging, UnknownIsJudgedOnTheWholeSpan) {
  EXPECT_EQ(predicted(Statistic::unknown, {130, 140}), Bytes(130));
  EXPECT_EQ(predicted(Statistic::unknown, {80, 90}), Bytes(100));
  EXPECT_EQ(predicted(Statistic::unknown, {90, 105}), Bytes(100));
  EXPECT_EQ(predicted(Statistic::unknown, {200, 210}), Bytes(170));
}

/// A row of a published file, as it is or with other options.
Setup row_of(const std::string& path, const std::string& id, const Json& options = Json::object()) {
  const Json rows =
      parse_json(read_file(std::string(ZPLAN_TEST_DATA) + "/reference/published/" + path), path);
  for (Json row : rows) {
    if (row.at("id") != id) continue;
    row.at("options").update(options);
    return *cases_of(Json::array({row}).dump()).front().setup;
  }
  return {};
}

Bytes peak_of(const Setup& setup, Phase phase) {
  return predict_memory(setup, false).phases.at(static_cast<std::size_t>(phase)).requested;
}

// minGPT's loop under FSDP calls zero_grad between forward and backward: each of four ranks has a quarter of
// the fp32 gradients then.
TEST(Predicting, GradientsOfTheStepBeforeLiveUntilTheyAreZeroed) {
  const Json earlier = {{"zeroes_behind_forward", false}};
  const Bytes more = peak_of(row_of("fresh_memory.json", "fm205"), Phase::forward) -
                     peak_of(row_of("fresh_memory.json", "fm205", earlier), Phase::forward);
  constexpr std::int64_t kParameters = 1'475'974'400;
  EXPECT_GE(more, Bytes(kParameters));
  EXPECT_LT(more, Bytes(kParameters + kParameters / 100));  // shards are padded
  EXPECT_EQ(peak_of(row_of("fresh_memory.json", "fm205"), Phase::step),
            peak_of(row_of("fresh_memory.json", "fm205", earlier), Phase::step));
}

// Under autocast torch.nn.functional.normalize and linear leave the quotient in bf16 beside the logits:
// 0.959 GiB of Baichuan2-7B, as PyTorch 2.11 allocates them.
TEST(Predicting, ANormalisedHeadIsOneMoreCopyOfItsWeight) {
  const check::Setup setup = row_of("memory.json", "m224");
  ASSERT_TRUE(setup.model.shape.operators.normalises_head);
  check::Setup usual = setup;
  usual.model.shape.operators.normalises_head = false;
  EXPECT_EQ(peak_of(setup, Phase::loss_backward) - peak_of(usual, Phase::loss_backward),
            Bytes(125'696LL * 4096 * 2));
}

CallTally call(Operation operation, std::int64_t count, std::int64_t elements,
               std::string dtype = "bfloat16") {
  return {operation, std::move(dtype), 4, Phase::backward, count, Elements(elements)};
}

TEST(CompareCalls, EqualWhateverTheirOrderAndGrouping) {
  const ScheduleDifference same =
      compare_calls({call(Operation::all_reduce, 1, 10), call(Operation::all_gather, 2, 8),
                     call(Operation::all_reduce, 2, 20)},
                    {call(Operation::all_gather, 2, 8), call(Operation::all_reduce, 3, 30)});
  EXPECT_TRUE(same.equal);
  EXPECT_EQ(same.share, 0);
  EXPECT_EQ(same.planned, 5);
  EXPECT_EQ(same.recorded, 5);
}

TEST(CompareCalls, ACallOfAnotherKindIsTwoThatDiffer) {
  const ScheduleDifference other =
      compare_calls({call(Operation::all_reduce, 1, 10)}, {call(Operation::all_reduce, 1, 10, "float32")});
  EXPECT_FALSE(other.equal);
  EXPECT_DOUBLE_EQ(other.share, 2);
}

TEST(CompareCalls, TooFewCallsAreNegative) {
  EXPECT_DOUBLE_EQ(compare_calls({}, {call(Operation::all_reduce, 4, 10)}).share, -1);
  EXPECT_DOUBLE_EQ(
      compare_calls({call(Operation::all_reduce, 3, 10)}, {call(Operation::all_reduce, 4, 10)}).share, -0.25);
}

TEST(CompareCalls, ElementsCountWhereCallsAgree) {
  const ScheduleDifference more =
      compare_calls({call(Operation::all_reduce, 1, 12)}, {call(Operation::all_reduce, 1, 10)});
  EXPECT_FALSE(more.equal);
  EXPECT_DOUBLE_EQ(more.share, 0.2);
}

Case memory_case(std::vector<MeasuredFigure> figures) {
  return {.id = "a",
          .file = "b",
          .kind = Kind::step,
          .measured = MeasuredMemory{std::move(figures), {}},
          .setup = sample_plan()};
}

TEST(Judge, MakesOneRecordPerStatistic) {
  const std::vector<Record> records =
      judge(memory_case({{Statistic::allocated, {1, 1}}, {Statistic::reserved, {1e15, 1e15}}}));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].statistic, Statistic::allocated);
  EXPECT_GT(*records[0].error, 0);
  EXPECT_LT(*records[1].error, 0);
  EXPECT_GE(*records[1].predicted, *records[0].predicted);  // the pool holds what is allocated
}

TEST(Judge, SkipsWithTheReasonAndJudgesNothing) {
  Case skipped = memory_case({{Statistic::allocated, {1, 1}}, {Statistic::reserved, {1, 1}}});
  skipped.skip.add("float8 products");
  const std::vector<Record> records = judge(skipped);
  ASSERT_EQ(records.size(), 2U);
  for (const Record& record : records) {
    EXPECT_FALSE(record.judged());
    EXPECT_FALSE(record.predicted);
    EXPECT_EQ(record.skip.text(), "float8 products");
  }
}

TEST(Judge, SaysWhetherThePhaseIsRight) {
  Case measured = memory_case({{Statistic::allocated, {1, 1}}});
  auto& memory = std::get<MeasuredMemory>(measured.measured);
  const Phase peak = predict_memory(sample_plan(), false).peak_phase;
  memory.peak_phases = {peak};
  EXPECT_TRUE(*judge(measured).front().phase_right);
  memory.peak_phases = {peak == Phase::step ? Phase::forward : Phase::step};
  EXPECT_FALSE(*judge(measured).front().phase_right);
}

TEST(Judge, HeldBytesAreExactOnlyWhereEveryRankAndRoleIs) {
  MeasuredHeld held;
  for (std::int64_t rank = 0; rank < 4; ++rank) held.ranks.push_back(predict_held(sample_plan(), rank));
  Case measured{.id = "a", .file = "b", .kind = Kind::schedule, .measured = held, .setup = sample_plan()};
  EXPECT_TRUE(judge(measured).front().exact);
  EXPECT_EQ(*judge(measured).front().error, 0);
  // Equal sums in other roles are not equal.
  std::get<MeasuredHeld>(measured.measured).ranks[2].moments += Bytes(8);
  std::get<MeasuredHeld>(measured.measured).ranks[2].parameters -= Bytes(8);
  EXPECT_FALSE(judge(measured).front().exact);
  std::get<MeasuredHeld>(measured.measured).ranks[1].moments += Bytes(1 << 20);
  const Record worst = judge(measured).front();
  EXPECT_EQ(worst.part, "rank 1");
  EXPECT_LT(*worst.error, 0);
}

// A plan's time and the model's are two predictions; without curves they are one.
TEST(PredictCall, IsAMeasuredCurveOrTheModel) {
  const Cluster machines = assemble_cluster({.gpu = "a100-80gb", .gpus = 8}, built_in_profiles());
  const CallPrediction measured = predict_call(machines, Operation::all_reduce, kGiB);
  EXPECT_TRUE(measured.measured);
  EXPECT_NE(measured.time, measured.by_model);
  Cluster bare = machines;
  bare.gpu.collectives.clear();
  bare.gpu.links.clear();
  const CallPrediction modelled = predict_call(bare, Operation::all_reduce, kGiB);
  EXPECT_FALSE(modelled.measured);
  EXPECT_EQ(modelled.time, modelled.by_model);
  EXPECT_EQ(modelled.by_model, measured.by_model);
}

// A log that a profile has a curve of is judged by what the others say.
TEST(PredictCall, LeavesTheLogUnderJudgementOut) {
  const Cluster machines =
      assemble_cluster({.gpu = "rtx-4090-24gb", .gpus = 4, .node = "pcie"}, built_in_profiles());
  const Seconds with = predict_call(machines, Operation::all_reduce, kGiB).time;
  const Seconds without = predict_call(machines, Operation::all_reduce, kGiB, "n27").time;
  EXPECT_NEAR(with.value, 0.063624, 1e-9);  // the log's own row
  EXPECT_NE(with, without);
}

// Lengths change what stays reserved, not what lives at the peak.
TEST(VariedLengths, ReserveMoreThanTheLongestAlone) {
  check::Setup setup = sample_plan();
  setup.training.framework = Framework::torch;
  setup.strategy.zero_stage = 0;
  setup.strategy.micro_batch_size = 8;
  const MemoryPrediction steady = predict_memory(setup, false);
  setup.varies = true;
  const MemoryPrediction varied = predict_memory(setup, false);
  EXPECT_EQ(varied.peak_allocated, steady.peak_allocated);
  EXPECT_GT(varied.peak_reserved, steady.peak_reserved);
}

}  // namespace
}  // namespace zplan::check::testing
