// What zplan is told of machines, layout by layout.

#include "harness/machine/cluster_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/machine/smi_topology.h"
#include "topologies.h"

namespace zplan::bench {
namespace {

constexpr std::int64_t kMiBOf24 = 24564;

/// A host with cards of one name and the links of a layout.
Host host_of(int cards, const std::string& name, std::int64_t memory_mib, std::string_view layout) {
  Host host{.name = "b", .memory = 2048 * kGiB - Bytes(1)};
  for (int i = 0; i < cards; ++i)
    host.gpus.push_back({.index = i, .name = name, .memory = memory_mib * kMiB});
  if (!layout.empty()) host.links = gpu_links(parse_smi_topology(layout, "topo"));
  return host;
}

Host linked(Host host, const GpuLink& like) {
  host.links.clear();
  const int cards = static_cast<int>(host.gpus.size());
  for (int from = 0; from < cards; ++from)
    for (int to = from + 1; to < cards; ++to) {
      host.links.push_back(like);
      host.links.back().from = from, host.links.back().to = to;
    }
  return host;
}

ClusterOptions options_of(const std::vector<Host>& hosts) {
  return cluster_options(hosts, built_in_profiles());
}
std::string line_of(const std::vector<Host>& hosts) { return command_line(options_of(hosts)); }

/// Every word is one that zplan takes, whatever the test expects.
void expect_known(const ClusterOptions& options) {
  for (std::size_t i = 0; i + 1 < options.words.size(); i += 2) {
    if (options.words[i] == "--gpu") (void)find_gpu(built_in_profiles(), options.words[i + 1]);
    if (options.words[i] == "--node") (void)find_node(built_in_profiles(), options.words[i + 1]);
    if (options.words[i] == "--network") (void)find_network(built_in_profiles(), options.words[i + 1]);
  }
}

TEST(ClusterOptions, OfSwitchedBoards) {
  const Host a100 = host_of(8, "NVIDIA A100-SXM4-80GB", 81920, kEightA100);
  EXPECT_EQ(line_of({a100}),
            "--gpus 8 --nodes 1 --gpu \"NVIDIA A100-SXM4-80GB\" --node nvswitch --host-mem 2047");
  const Host h100 = host_of(8, "NVIDIA H100 80GB HBM3", 81559, kEightH100);
  EXPECT_EQ(line_of({h100}),
            "--gpus 8 --nodes 1 --gpu \"NVIDIA H100 80GB HBM3\" --node nvswitch --host-mem 2047");
  EXPECT_THAT(options_of({h100}).notes, testing::IsEmpty());
  expect_known(options_of({a100})), expect_known(options_of({h100}));
}

TEST(ClusterOptions, OfTwoCardsOnASwitchOrABridge) {
  const Host board = linked(host_of(2, "NVIDIA H200", 143771, ""),
                            {.kind = LinkKind::nvlink, .lanes = 18, .switched = true});
  EXPECT_THAT(line_of({board}), testing::HasSubstr("--node nvswitch"));
  const GpuLink bridge{.kind = LinkKind::nvlink, .lanes = 12};
  EXPECT_THAT(line_of({linked(host_of(2, "NVIDIA A100 80GB PCIe", 81920, ""), bridge)}),
              testing::HasSubstr("--node nvlink-bridge"));
  const Host half = linked(host_of(2, "NVIDIA A100-SXM4-80GB", 81920, ""), bridge);
  EXPECT_THAT(line_of({half}), testing::HasSubstr("--node nvswitch"));
  EXPECT_THAT(options_of({half}).notes, testing::ElementsAre(testing::HasSubstr("taken as part of one")));
}

TEST(ClusterOptions, OfBridgedPairs) {
  const Host host = host_of(4, "NVIDIA RTX A6000", 49140, kBridgedPairs);
  EXPECT_EQ(line_of({host}),
            "--gpus 4 --nodes 1 --gpu \"NVIDIA RTX A6000\" --node nvlink-bridge --host-mem 2047");
}

TEST(ClusterOptions, OfPcieByWhatTheDriverSays) {
  const Host cards = host_of(4, "NVIDIA GeForce RTX 4090", kMiBOf24, "");
  EXPECT_EQ(line_of({linked(cards, {.kind = LinkKind::pcie, .peer_to_peer = true})}),
            "--gpus 4 --nodes 1 --gpu \"NVIDIA GeForce RTX 4090\" --node pcie --host-mem 2047");
  EXPECT_EQ(line_of({linked(cards, {.kind = LinkKind::host, .peer_to_peer = false})}),
            "--gpus 4 --nodes 1 --gpu \"NVIDIA GeForce RTX 4090\" --node pcie-no-p2p --host-mem 2047");
}

TEST(ClusterOptions, OfPcieByTheCardWhereNothingSays) {
  const ClusterOptions consumer = options_of({host_of(4, "NVIDIA GeForce RTX 4090", kMiBOf24, kFour4090)});
  EXPECT_THAT(command_line(consumer), testing::HasSubstr("--node pcie-no-p2p"));
  EXPECT_THAT(consumer.notes, testing::ElementsAre(testing::HasSubstr("taken as not so")));
  const ClusterOptions server = options_of({host_of(4, "NVIDIA L40S", 46068, kFour4090)});
  EXPECT_THAT(command_line(server), testing::HasSubstr("--node pcie "));
  EXPECT_THAT(server.notes, testing::ElementsAre(testing::HasSubstr("taken as so")));
}

TEST(ClusterOptions, OfOneCard) {
  EXPECT_EQ(line_of({host_of(1, "NVIDIA H200", 143771, kOneCard)}),
            "--gpus 1 --nodes 1 --gpu \"NVIDIA H200\" --node single --host-mem 2047");
}

TEST(ClusterOptions, OfAMesh) {
  const ClusterOptions options = options_of({host_of(8, "Tesla V100-SXM2-32GB", 32768, kEightV100)});
  EXPECT_THAT(command_line(options), testing::HasSubstr("--node nvswitch"));
  EXPECT_THAT(options.notes, testing::ElementsAre(testing::HasSubstr("not all")));
}

TEST(ClusterOptions, OfACardWithAnotherMemoryThanItsName) {
  EXPECT_THAT(line_of({host_of(1, "NVIDIA GeForce RTX 4090", 49140, "")}),
              testing::HasSubstr("--gpu RTX-4090-48GB "));
  EXPECT_THAT(line_of({host_of(1, "NVIDIA L4", 12000, "")}),
              testing::HasSubstr("--gpu \"NVIDIA L4\" --mem 11.71 "));
}

TEST(ClusterOptions, OfACardWithoutAProfile) {
  const ClusterOptions options = options_of({host_of(1, "NVIDIA Graphics Prototype", 20480, "")});
  EXPECT_EQ(command_line(options), "--gpus 1 --nodes 1 --mem 20.00 --node single --host-mem 2047");
  EXPECT_THAT(options.notes,
              testing::ElementsAre(testing::HasSubstr("no profile of \"NVIDIA Graphics Prototype\"")));
}

TEST(ClusterOptions, OfSeveralHostsNameTheNetwork) {
  Host host = host_of(8, "NVIDIA H100 80GB HBM3", 81559, kEightH100);
  for (int i = 0; i < 8; ++i)
    host.nics.push_back({.name = "mlx5_" + std::to_string(i), .rate = BytesPerSecond(50e9)});
  host.nics.push_back({.name = "eth0", .rate = BytesPerSecond(12.5e9)});
  Host smaller = host;
  smaller.memory = 1024 * kGiB;
  EXPECT_EQ(
      line_of({host, smaller}),
      "--gpus 16 --nodes 2 --gpu \"NVIDIA H100 80GB HBM3\" --node nvswitch --host-mem 1024 --network 8x400g");
  expect_known(options_of({host, smaller}));
  host.nics.resize(3);
  EXPECT_THAT(options_of({host, host}).notes,
              testing::ElementsAre(testing::HasSubstr("3 adapters of 400 Gb/s")));
  host.nics.clear();
  EXPECT_THAT(options_of({host, host}).notes, testing::ElementsAre(testing::HasSubstr("not known")));
}

TEST(ClusterOptions, HostsThatDifferAreNoted) {
  Host one = host_of(1, "NVIDIA H200", 143771, ""), other = host_of(1, "NVIDIA L4", 23034, "");
  other.name = "c";
  one.nics = other.nics = {{.name = "eth0", .rate = BytesPerSecond(12.5e9)}};
  EXPECT_THAT(options_of({one, other}).notes,
              testing::Contains(testing::HasSubstr("host c has other cards than b")));
  Host mixed = host_of(2, "NVIDIA L4", 23034, "");
  mixed.gpus[1].name = "NVIDIA T4";
  EXPECT_THAT(options_of({mixed}).notes, testing::Contains(testing::HasSubstr("cards of several kinds")));
}

TEST(ClusterOptions, OfNoCardsAreNone) {
  const ClusterOptions options = options_of({Host{}});
  EXPECT_THAT(options.words, testing::IsEmpty());
  EXPECT_THAT(options.notes, testing::ElementsAre("no cards were found on this host"));
}

TEST(ClusterOptions, AreQuotedForAShell) {
  EXPECT_EQ(command_line({.words = {"--gpu", "a \"b\" $c `d` \\", "e-1.0"}, .notes = {}}),
            "--gpu \"a \\\"b\\\" \\$c \\`d\\` \\\\\" e-1.0");
}

}  // namespace
}  // namespace zplan::bench
