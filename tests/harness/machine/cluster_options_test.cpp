// The options of zplan for hosts of every layout.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "harness/machine/host.h"

namespace zplan::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const GpuLink kPcie{.kind = LinkKind::pcie};

/// A host with GPUs of one name; the link of each pair is `link`, but NVLink where `nvlink` says so.
Host host_of(
    int count, const std::string& name, std::int64_t memory_mib, const GpuLink& link = kPcie,
    const std::function<bool(int, int)>& nvlink = [](int, int) { return false; }) {
  Host host{.name = "b", .memory = 2048 * kGiB - Bytes(1)};
  for (int to = 0; to < count; ++to) {
    host.gpus.push_back({.index = to, .name = name, .memory = memory_mib * kMiB});
    for (int from = 0; from < to; ++from) {
      host.links.push_back(nvlink(from, to) ? GpuLink{.kind = LinkKind::nvlink, .lanes = 4} : link);
      host.links.back().from = from, host.links.back().to = to;
    }
  }
  return host;
}

ClusterOptions options_of(const Host& host) { return cluster_options(host, built_in_profiles()); }
std::string line_of(const Host& host) { return command_line(options_of(host)); }

/// Every word is one that zplan takes, whatever the test expects.
void expect_known(const ClusterOptions& options) {
  for (std::size_t i = 0; i + 1 < options.words.size(); i += 2) {
    if (options.words[i] == "--gpu") (void)find_gpu(built_in_profiles(), options.words[i + 1]);
    if (options.words[i] == "--node") (void)find_node(built_in_profiles(), options.words[i + 1]);
  }
}

TEST(ClusterOptions, OfASwitchedBoard) {
  const GpuLink switched{.kind = LinkKind::nvlink, .lanes = 18, .switched = true};
  const ClusterOptions options = options_of(host_of(8, "NVIDIA H100 80GB HBM3", 81559, switched));
  EXPECT_EQ(command_line(options),
            "--gpus 8 --nodes 1 --gpu \"NVIDIA H100 80GB HBM3\" --node nvswitch --host-mem 2047");
  EXPECT_THAT(options.notes, IsEmpty());
  expect_known(options);
  EXPECT_THAT(line_of(host_of(2, "NVIDIA H200", 143771, switched)), HasSubstr("--node nvswitch"));
}

TEST(ClusterOptions, OfBridgedPairs) {
  const GpuLink bridge{.kind = LinkKind::nvlink, .lanes = 12};
  EXPECT_THAT(line_of(host_of(2, "NVIDIA A100 80GB PCIe", 81920, bridge)), HasSubstr("--node nvlink-bridge"));
  const ClusterOptions half = options_of(host_of(2, "NVIDIA A100-SXM4-80GB", 81920, bridge));
  EXPECT_THAT(command_line(half), HasSubstr("--node nvswitch"));
  EXPECT_THAT(half.notes, ElementsAre(HasSubstr("taken as part of one")));
  const Host pairs = host_of(4, "NVIDIA RTX A6000", 49140, kPcie, [](int a, int b) { return (a ^ 1) == b; });
  EXPECT_EQ(line_of(pairs),
            "--gpus 4 --nodes 1 --gpu \"NVIDIA RTX A6000\" --node nvlink-bridge --host-mem 2047");
}

TEST(ClusterOptions, OfAMesh) {
  const ClusterOptions options =
      options_of(host_of(8, "Tesla V100-SXM2-32GB", 32768, kPcie, [](int a, int b) {
        return a / 4 == b / 4 || a + 4 == b;  // a hybrid cube mesh
      }));
  EXPECT_THAT(command_line(options), HasSubstr("--node nvswitch"));
  EXPECT_THAT(options.notes, ElementsAre(HasSubstr("not all")));
}

TEST(ClusterOptions, OfPcieByWhatTheDriverSays) {
  const auto of = [](const GpuLink& link) {
    return line_of(host_of(4, "NVIDIA GeForce RTX 4090", 24564, link));
  };
  EXPECT_EQ(of({.kind = LinkKind::pcie, .peer_to_peer = true}),
            "--gpus 4 --nodes 1 --gpu \"NVIDIA GeForce RTX 4090\" --node pcie --host-mem 2047");
  EXPECT_EQ(of({.kind = LinkKind::host, .peer_to_peer = false}),
            "--gpus 4 --nodes 1 --gpu \"NVIDIA GeForce RTX 4090\" --node pcie-no-p2p --host-mem 2047");
}

TEST(ClusterOptions, OfPcieByTheGpuWhereTheDriverDoesNotSay) {
  const ClusterOptions consumer = options_of(host_of(4, "NVIDIA GeForce RTX 4090", 24564));
  EXPECT_THAT(command_line(consumer), HasSubstr("--node pcie-no-p2p"));
  EXPECT_THAT(consumer.notes, ElementsAre(HasSubstr("assumed that they do not")));
  const ClusterOptions server = options_of(host_of(4, "NVIDIA L40S", 46068));
  EXPECT_THAT(command_line(server), HasSubstr("--node pcie "));
  EXPECT_THAT(server.notes, ElementsAre(HasSubstr("assumed that they do,")));
}

TEST(ClusterOptions, OfOneGpu) {
  EXPECT_EQ(line_of(host_of(1, "NVIDIA H200", 143771)),
            "--gpus 1 --nodes 1 --gpu \"NVIDIA H200\" --node single --host-mem 2047");
}

TEST(ClusterOptions, OfAGpuWithAnotherMemoryThanItsName) {
  EXPECT_THAT(line_of(host_of(1, "NVIDIA GeForce RTX 4090", 49140)), HasSubstr("--gpu RTX-4090-48GB "));
  EXPECT_THAT(line_of(host_of(1, "NVIDIA L4", 12000)), HasSubstr("--gpu \"NVIDIA L4\" --mem 11.71 "));
}

TEST(ClusterOptions, OfAGpuWithoutAProfile) {
  const ClusterOptions options = options_of(host_of(1, "NVIDIA Graphics Prototype", 20480));
  EXPECT_EQ(command_line(options), "--gpus 1 --nodes 1 --mem 20.00 --node single --host-mem 2047");
  EXPECT_THAT(options.notes, ElementsAre(HasSubstr("no profile of \"NVIDIA Graphics Prototype\"")));
}

TEST(ClusterOptions, OfSeveralKindsOfGpusDescribeTheFirst) {
  Host mixed = host_of(2, "NVIDIA L4", 23034);
  mixed.gpus[1].name = "NVIDIA T4";
  EXPECT_THAT(options_of(mixed).notes, testing::Contains(HasSubstr("GPUs of several kinds")));
}

TEST(ClusterOptions, OfNoGpusAreNone) {
  const ClusterOptions options = options_of(Host{});
  EXPECT_THAT(options.words, IsEmpty());
  EXPECT_THAT(options.notes, ElementsAre("no GPUs were found on this host"));
}

TEST(ClusterOptions, AreQuotedForAShell) {
  EXPECT_EQ(command_line({.words = {"--gpu", "a \"b\" $c `d` \\", "e-1.0"}, .notes = {}}),
            "--gpu \"a \\\"b\\\" \\$c \\`d\\` \\\\\" e-1.0");
}

}  // namespace
}  // namespace zplan::bench
