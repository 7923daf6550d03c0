// Layouts as nvidia-smi prints them, and text that is none.

#include "harness/machine/smi_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/machine/topology.h"
#include "topologies.h"

namespace zplan::bench {
namespace {

SmiTopology parsed(std::string_view text) { return parse_smi_topology(text, "topo"); }

std::string complaint(std::string_view text) {
  try {
    (void)parsed(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

std::ptrdiff_t count_nvlink(const std::vector<GpuLink>& links, int lanes) {
  return std::count_if(links.begin(), links.end(), [lanes](const GpuLink& link) {
    return link.kind == LinkKind::nvlink && link.lanes == lanes;
  });
}

TEST(SmiTopology, OfEightA100) {
  const SmiTopology topology = parsed(kEightA100);
  ASSERT_EQ(topology.devices.size(), 18U);
  EXPECT_EQ(topology.devices[8], "mlx5_0");
  EXPECT_EQ(topology.rows[0].ways[0], Way::self);
  EXPECT_EQ(topology.rows[0].ways[8], Way::pxb);
  EXPECT_EQ(topology.rows[8].ways[9], Way::pix);
  EXPECT_EQ(topology.rows[12].ways[3], Way::node);
  EXPECT_EQ(topology.rows[0].cpu_affinity, "48-63,176-191");
  EXPECT_EQ(topology.rows[4].numa_affinity, "7");
  EXPECT_EQ(topology.rows[8].cpu_affinity, "");
  const auto links = gpu_links(topology);
  EXPECT_EQ(links.size(), 28U);
  EXPECT_EQ(count_nvlink(links, 12), 28);
  EXPECT_EQ(links[0].peer_to_peer, true);
}

TEST(SmiTopology, OfEightH100HasColoursAndALegendOfAdapters) {
  const SmiTopology topology = parsed(kEightH100);
  EXPECT_EQ(count_nvlink(gpu_links(topology), 18), 28);
  ASSERT_EQ(topology.nic_names.size(), 10U);
  EXPECT_EQ(topology.nic_names[9], std::pair(std::string("NIC9"), std::string("mlx5_9")));
  EXPECT_EQ(topology.rows[7].numa_affinity, "1");
}

TEST(SmiTopology, OfFour4090) {
  const SmiTopology topology = parsed(kFour4090);
  EXPECT_THAT(topology.rows[0].ways, testing::ElementsAre(Way::self, Way::phb, Way::sys, Way::sys));
  for (const GpuLink& link : gpu_links(topology)) {
    EXPECT_EQ(link.kind, LinkKind::pcie);
    EXPECT_EQ(link.peer_to_peer, std::nullopt);
  }
}

TEST(SmiTopology, OfBridgedPairs) {
  const auto links = gpu_links(parsed(kBridgedPairs));
  ASSERT_EQ(links.size(), 6U);
  EXPECT_EQ(links[0],
            (GpuLink{.from = 0, .to = 1, .kind = LinkKind::nvlink, .lanes = 4, .peer_to_peer = true}));
  EXPECT_EQ(links[1], (GpuLink{.from = 0, .to = 2, .kind = LinkKind::pcie}));
  EXPECT_EQ(count_nvlink(links, 4), 2);
}

TEST(SmiTopology, OfOneCardHasNoLinks) {
  const SmiTopology topology = parsed(kOneCard);
  EXPECT_THAT(topology.devices, testing::ElementsAre("GPU0"));
  EXPECT_EQ(topology.rows[0].cpu_affinity, "0-15");
  EXPECT_THAT(gpu_links(topology), testing::IsEmpty());
}

TEST(SmiTopology, OfAMeshAndOfAnOldDriver) {
  const auto links = gpu_links(parsed(kEightV100));
  EXPECT_EQ(count_nvlink(links, 1), 8);
  EXPECT_EQ(count_nvlink(links, 2), 8);
  EXPECT_EQ(parsed(kTwoOld).rows[0].ways[1], Way::sys);
}

TEST(SmiTopology, TextThatIsNoneIsNamedByLine) {
  EXPECT_EQ(complaint(""), "topo line 1: no heading with GPU0; accepted: what `nvidia-smi topo -m` prints");
  EXPECT_THAT(complaint("NVIDIA-SMI has failed because it couldn't communicate\n"),
              testing::HasSubstr("no heading"));
  EXPECT_THAT(complaint("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\n"),
              testing::HasSubstr("ends before the row of GPU1"));
  EXPECT_THAT(complaint("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\nGPU2\tNV4\t X \n"),
              testing::HasSubstr("topo line 3: no row of GPU1"));
  EXPECT_THAT(complaint("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tWIFI\t0-3\n"),
              testing::HasSubstr("topo line 2: \"WIFI\""));
  EXPECT_THAT(complaint("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \n"), testing::HasSubstr("1 of 2 columns"));
  EXPECT_THAT(complaint("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV99999999999999\t0\n"),
              testing::HasSubstr("NV9999"));
}

TEST(SmiTopology, EveryCutOfATextIsReadOrRefused) {
  const std::size_t whole = kEightH100.find("\nLegend");
  std::size_t refused = 0;
  for (std::size_t size = 0; size < whole; size += 7)
    refused += complaint(kEightH100.substr(0, size)) != "none" ? 1U : 0U;
  EXPECT_GT(refused, whole / 7 - 30);
}

TEST(SmiCards, AreRead) {
  const auto cards = parse_smi_cards(
      "0, NVIDIA H200, 143771, 9.0, 00000000:1B:00.0, 5, 16\n"
      "1, Tesla K80, 11441, [N/A], 00000000:0A:00.0, [N/A], 8\n"
      "garbage\n\n1, 2\n");
  ASSERT_EQ(cards.size(), 2U);
  EXPECT_EQ(cards[0], (GpuDevice{.index = 0,
                                 .name = "NVIDIA H200",
                                 .memory = 143771 * kMiB,
                                 .compute_capability = "9.0",
                                 .pci = "0000:1b:00.0",
                                 .pcie_generation = 5,
                                 .pcie_lanes = 16}));
  EXPECT_EQ(cards[1].compute_capability, "");
  EXPECT_EQ(cards[1].pcie_generation, 0);
}

/// A host whose driver answers through nvidia-smi alone.
Host host_with(std::optional<std::string> cards, std::optional<std::string> matrix) {
  return read_host(
      {.root = "/nonexistent",
       .nvml = "/nonexistent/libnvidia-ml.so.1",
       .run = [cards = std::move(cards), matrix = std::move(matrix)](const std::string& command) {
         return command == "nvidia-smi topo -m" ? matrix : cards;
       }});
}

TEST(HostBySmi, HasCardsAndLinks) {
  std::string cards;
  for (int i = 0; i < 4; ++i)
    cards += std::to_string(i) + ", NVIDIA RTX A6000, 49140, 8.6, 00000000:0" + std::to_string(i) +
             ":00.0, 4, 16\n";
  const Host host = host_with(cards, std::string(kBridgedPairs));
  EXPECT_EQ(host.gpus.size(), 4U);
  EXPECT_EQ(host.links.size(), 6U);
  EXPECT_THAT(host.notes, testing::ElementsAre(testing::HasSubstr("/sys is not mounted")));
  EXPECT_GT(host.cores, 0) << "of the system where /proc says nothing";
  EXPECT_GT(host.memory, kMiB);
}

TEST(HostBySmi, WithoutACardHasNone) {
  EXPECT_THAT(host_with(std::nullopt, std::nullopt).gpus, testing::IsEmpty());
  EXPECT_THAT(host_with("No devices were found\n", std::nullopt).gpus, testing::IsEmpty());
}

TEST(HostBySmi, NotesAMatrixThatIsNone) {
  const Host host = host_with("0, A, 1, 8.6, x, 4, 16\n1, A, 1, 8.6, x, 4, 16\n", "broken");
  EXPECT_THAT(host.notes, testing::ElementsAre(testing::HasSubstr("/sys is not mounted"),
                                               testing::HasSubstr("nvidia-smi topo -m line 1: no heading")));
}

TEST(OutputOf, IsTheCommandsOrNothing) {
  EXPECT_EQ(output_of("echo one; echo two >&2"), "one\n");
  EXPECT_EQ(output_of("echo one; exit 3"), std::nullopt);
  EXPECT_EQ(output_of("zplan-no-such-program"), std::nullopt);
}

}  // namespace
}  // namespace zplan::bench
