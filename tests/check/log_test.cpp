// Logs: what is read from each, and how it is counted.

#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/nccl_log.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

const MeasuredCalls& calls_of(const Case& measured) { return std::get<MeasuredCalls>(measured.measured); }
const MeasuredMemory& memory_of(const Case& measured) { return std::get<MeasuredMemory>(measured.measured); }

TEST(NcclText, HasMachinesAndTimes) {
  const std::vector<Case> cases = cases_of(sample("all_reduce.txt"));
  ASSERT_EQ(cases.size(), 1U);
  const MeasuredCalls& log = calls_of(cases.front());
  EXPECT_EQ(log.cluster.gpus, 4);
  EXPECT_EQ(log.cluster.nodes, 2);
  EXPECT_EQ(log.cluster.gpu.name, "A100-SXM-80GB");
  ASSERT_EQ(log.calls.size(), 3U);
  EXPECT_EQ(log.calls[1].operation, Operation::all_reduce);
  EXPECT_EQ(log.calls[1].size, kMiB);
  EXPECT_NEAR(log.calls[1].time.value, 80.10e-6, 1e-12);  // out of place
}

// Logs before 2.11 have no root, and no operator for what does not reduce.
TEST(NcclText, OfOldVersions) {
  const MeasuredCalls log = calls_of(cases_of(sample("all_gather_old.txt")).front());
  EXPECT_EQ(log.cluster.gpus, 2);
  EXPECT_EQ(log.cluster.gpu.name, "A100-SXM-40GB");
  EXPECT_EQ(log.calls[0].operation, Operation::all_gather);
  EXPECT_NEAR(log.calls[1].time.value, 40e-6, 1e-12);
}

std::string table_with(const std::string& row, const std::string& before = {}) {
  std::string text = sample("all_reduce.txt");
  const std::size_t first = text.find("           8  ");
  return before + text.substr(0, first) + row + "\n";
}

TEST(NcclText, TellsTheOperationByProgramOrTable) {
  const auto operation = [](const std::string& text) {
    return calls_of(cases_of(text).front()).calls[0].operation;
  };
  EXPECT_EQ(operation(table_with("4096 256 float sum -1 30.0 0 0 0 30.0 0 0 0")), Operation::reduce_scatter);
  EXPECT_EQ(operation(table_with("4096 1024 float none 0 30.0 0 0 0 30.0 0 0 0")), Operation::broadcast);
  EXPECT_EQ(operation(table_with("4096 1024 float sum 2 30.0 0 0 0 30.0 0 0 0")), Operation::reduce);
  EXPECT_EQ(operation(table_with("4096 256 float none -1 30.0 0 0 0 30.0 0 0 0")), Operation::all_gather);
  EXPECT_EQ(operation(table_with("4096 256 float none -1 30.0 0 0 0 30.0 0 0 0", "$ ./alltoall_perf -g 4\n")),
            Operation::all_to_all);
}

TEST(NcclText, TheCommandLineNamesWhatTheLogDoesNot) {
  const Given on_h100{
      built_in_profiles(), {.gpu = "H100-SXM-80GB", .memory = {}, .host_memory = {}}, nullptr};
  const std::vector<Case> cases = read_nccl_text(sample("all_reduce.txt"), "file", on_h100);
  EXPECT_EQ(calls_of(cases.front()).cluster.gpu.name, "H100-SXM-80GB");
  EXPECT_EQ(calls_of(cases.front()).cluster.gpus, 4);
}

TEST(NcclText, ACardWithoutAProfileAsksForOne) {
  std::string text = sample("all_reduce.txt");
  for (std::size_t at = 0; (at = text.find("A100-SXM4-80GB", at)) != std::string::npos; at += 7)
    text.replace(at, 14, "Quadro");
  EXPECT_NE(message_of(text).find("--gpu"), std::string::npos) << message_of(text);
}

TEST(NcclJson, HasTheSame) {
  const MeasuredCalls log = calls_of(cases_of(sample("reduce_scatter.json")).front());
  EXPECT_EQ(log.cluster.gpus, 8);
  EXPECT_EQ(log.cluster.nodes, 1);
  EXPECT_EQ(log.cluster.gpu.name, "H100-SXM-80GB");
  ASSERT_EQ(log.calls.size(), 2U);
  EXPECT_EQ(log.calls[0].operation, Operation::reduce_scatter);
  EXPECT_NEAR(log.calls[0].time.value, 33.12e-6, 1e-12);
  EXPECT_NEAR(log.calls[1].time.value, 41.5e-6, 1e-12);  // a replay has its times in place
}

TEST(DeepSpeedLog, PeaksAreOfTrainingWithWhatRoundingHides) {
  const std::vector<Case> cases = cases_of(sample("deepspeed.log"));
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].kind, Kind::log);
  const std::vector<MeasuredFigure>& figures = memory_of(cases[0]).figures;
  const auto gib = static_cast<double>(kGiB.value);
  EXPECT_EQ(figures[0].statistic, Statistic::allocated);  // not the 9.99 and 8.88 of the initialisation
  EXPECT_NEAR(figures[0].range.low, 2.885 * gib, 1);
  EXPECT_NEAR(*figures[0].range.high, 2.895 * gib, 1);
  EXPECT_EQ(figures[1].statistic, Statistic::reserved);
  EXPECT_NEAR(figures[1].range.low, 4.545 * gib, 1);  // CA 4.55
  EXPECT_NEAR(*figures[1].range.high, 5.5 * gib, 1);  // Max_CA is rounded to whole GiB
}

TEST(DeepSpeedLog, CommunicationTable) {
  const MeasuredCalls log = calls_of(cases_of(sample("deepspeed.log"))[1]);
  ASSERT_EQ(log.calls.size(), 3U);  // nothing empty, no barriers, not the table of stragglers
  EXPECT_EQ(log.calls[0].operation, Operation::broadcast);
  EXPECT_EQ(log.calls[0].size, kKiB * 256);
  EXPECT_NEAR(log.calls[0].time.value, 0.22e-3, 1e-9);
  EXPECT_EQ(log.calls[1].operation, Operation::all_gather);
  EXPECT_EQ(log.calls[1].size, kKiB * 512);  // one rank's part times four ranks
  EXPECT_EQ(log.calls[2].size, Bytes(525'824));
}

TEST(DeepSpeedLog, WithoutAPlanAsksForOne) {
  const Given no_plan{built_in_profiles(), {}, nullptr};
  EXPECT_THROW((void)read_deepspeed_log(sample("deepspeed.log"), "file", no_plan), InputError);
}

// The trace is walked back from what is there at its end: 1,048,580 B, and 2,000,000 B more at the peak. The
// other device is another process's.
TEST(MemorySnapshot, PeaksAreInTheTrace) {
  const std::vector<Case> cases = cases_of(sample("snapshot.json"));
  ASSERT_EQ(cases.size(), 1U);
  const std::vector<MeasuredFigure>& figures = memory_of(cases.front()).figures;
  EXPECT_EQ(figures[0].statistic, Statistic::requested);
  EXPECT_EQ(figures[0].range, (Range{3'048'580, 3'048'580}));
  EXPECT_EQ(figures[1].statistic, Statistic::reserved);
  EXPECT_EQ(figures[1].range, (Range{23'068'672, 23'068'672}));
}

TEST(Links, AreNamedAsPeopleWriteThem) {
  EXPECT_EQ(links_named("8x 200 Gb/s InfiniBand HDR per node").network, "8x200g");
  EXPECT_EQ(links_named("32x 100 Gb/s EFA per node").network, "efa-32x100g");
  EXPECT_EQ(links_named("1600 Gb/s per node, RoCE").network, "8x200g");
  EXPECT_EQ(links_named("TCP sockets").network, "tcp");
  EXPECT_EQ(links_named("25 Gb/s per node, TCP (g5.4xlarge)").network, "25g");
  EXPECT_EQ(links_named("10 Gb/s per node, TCP").network, "10g");
  EXPECT_EQ(links_named("RoCE, rate not stated").network, "");
  EXPECT_EQ(links_named("NVSwitch").node, "nvswitch");
  EXPECT_EQ(links_named("NVLink bridge in pairs, PCIe across sockets").node, "nvlink-bridge");
  EXPECT_EQ(links_named("PCIe 3 through the host").node, "pcie-no-p2p");
  EXPECT_TRUE(links_named("NVLink domain of 72").one_domain);
  EXPECT_EQ(links_named(""), NamedLinks{});
}

}  // namespace
}  // namespace zplan::check::testing
