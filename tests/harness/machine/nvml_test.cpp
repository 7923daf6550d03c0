// Reads the driver's facts from a stand-in for its library.

#include "harness/machine/nvml.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fake_nvml.h"
#include "harness/machine/host.h"

namespace zplan::bench {
namespace {

/// The library as loaded by the test, which tells it of a machine.
std::optional<DriverFacts> facts_of(const FakeMachine& machine, std::string& note) {
  void* library = dlopen(ZPLAN_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  reinterpret_cast<decltype(&fake_nvml_set)>(dlsym(library, "fake_nvml_set"))(&machine);
  auto facts = ask_nvml(ZPLAN_FAKE_NVML, note);
  dlclose(library);
  return facts;
}

DriverFacts facts_of(const FakeMachine& machine) {
  std::string note;
  auto facts = facts_of(machine, note);
  EXPECT_EQ(note, "");
  EXPECT_TRUE(facts);
  return facts.value_or(DriverFacts{});
}

FakeMachine h200(unsigned int count) {
  FakeMachine machine;
  for (unsigned int i = 0; i < count; ++i)
    machine.gpus.push_back({.name = "NVIDIA H200",
                            .memory = 150754820096ULL,
                            .bus = 0x1b + i,
                            .links = std::vector<FakeLink>(18, {.to_switch = true})});
  return machine;
}

TEST(Nvml, DescribesGpus) {
  const DriverFacts facts = facts_of(h200(1));
  EXPECT_EQ(facts.driver, "580.65.06");
  EXPECT_EQ(facts.cuda, "13.0");
  EXPECT_THAT(facts.gpus, testing::ElementsAre(GpuDevice{.index = 0,
                                                         .name = "NVIDIA H200",
                                                         .memory = Bytes(150754820096),
                                                         .compute_capability = "9.0",
                                                         .pci = "0000:1b:00.0",
                                                         .pcie_generation = 5,
                                                         .pcie_lanes = 16}));
  EXPECT_THAT(facts.links, testing::IsEmpty());
}

TEST(Nvml, GpusOnASwitchReachEachOther) {
  const DriverFacts facts = facts_of(h200(8));
  ASSERT_EQ(facts.links.size(), 28U);
  for (const GpuLink& link : facts.links) {
    EXPECT_EQ(link.kind, LinkKind::nvlink);
    EXPECT_EQ(link.lanes, 18);
    EXPECT_TRUE(link.switched);
    EXPECT_EQ(link.peer_to_peer, true);
  }
  EXPECT_EQ(facts.links.back().from, 6);
  EXPECT_EQ(facts.links.back().to, 7);
}

TEST(Nvml, BridgesAreCountedByPair) {
  FakeMachine machine;
  for (unsigned int i = 0; i < 4; ++i)
    machine.gpus.push_back(
        {.name = "NVIDIA RTX A6000", .bus = i, .links = std::vector<FakeLink>(4, {.gpu = i ^ 1U})});
  const DriverFacts facts = facts_of(machine);
  EXPECT_EQ(facts.links[0],
            (GpuLink{.from = 0, .to = 1, .kind = LinkKind::nvlink, .lanes = 4, .peer_to_peer = true}));
  EXPECT_EQ(facts.links[1], (GpuLink{.from = 0, .to = 2, .kind = LinkKind::pcie, .peer_to_peer = true}));
}

TEST(Nvml, GpusThatMayNotReadEachOtherGoThroughTheHost) {
  FakeMachine machine{
      .gpus = {{.name = "NVIDIA GeForce RTX 4090", .bus = 1}, {.name = "NVIDIA GeForce RTX 4090", .bus = 2}}};
  machine.peer_to_peer = false;
  EXPECT_THAT(
      facts_of(machine).links,
      testing::ElementsAre(GpuLink{.from = 0, .to = 1, .kind = LinkKind::host, .peer_to_peer = false}));
  machine.says_peer_to_peer = false;
  EXPECT_THAT(facts_of(machine).links,
              testing::ElementsAre(GpuLink{.from = 0, .to = 1, .kind = LinkKind::pcie}));
}

TEST(Nvml, ALostGpuKeepsItsNumber) {
  FakeMachine machine = h200(3);
  machine.gpus[1].lost = true;
  const DriverFacts facts = facts_of(machine);
  ASSERT_EQ(facts.gpus.size(), 2U);
  EXPECT_EQ(facts.gpus[1].index, 2);
  ASSERT_EQ(facts.links.size(), 1U);
  EXPECT_EQ(facts.links[0].to, 2);
}

TEST(Nvml, ADriverThatDoesNotStartIsNoted) {
  std::string note;
  EXPECT_FALSE(facts_of({.init_result = 9}, note));
  EXPECT_EQ(note, std::string(ZPLAN_FAKE_NVML) + " does not start: Driver Not Loaded");
}

TEST(Nvml, ALibraryThatIsNotThereIsNothing) {
  std::string note;
  EXPECT_FALSE(ask_nvml("libzplan-no-such.so", note));
  EXPECT_EQ(note, "");
}

TEST(Nvml, ALibraryWithoutTheFunctionsIsNoted) {
  std::string note;
  EXPECT_FALSE(ask_nvml("libm.so.6", note));
  EXPECT_EQ(note, "libm.so.6 does not start: a function is missing");
}

TEST(HostByDriver, IsWritten) {
  const FakeMachine machine = h200(2);
  void* library = dlopen(ZPLAN_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  reinterpret_cast<decltype(&fake_nvml_set)>(dlsym(library, "fake_nvml_set"))(&machine);
  Host host = read_host("/nonexistent", ZPLAN_FAKE_NVML);
  dlclose(library);
  host.name = "b", host.ranks = {0, 1};
  const Json json = host_json(host);
  EXPECT_EQ(json["name"], "b");
  EXPECT_EQ(json["ranks"], Json({0, 1}));
  EXPECT_EQ(json["gpus"][1]["pci"], "0000:1c:00.0");
  EXPECT_EQ(json["gpus"][1]["memory_bytes"], 150754820096);
  EXPECT_EQ(json["links"][0]["kind"], "nvlink");
  EXPECT_EQ(json["links"][0]["lanes"], 18);
  EXPECT_EQ(json["links"][0]["peer_to_peer"], true);
  EXPECT_EQ(json["nics"], Json::array());
  EXPECT_EQ(host.driver, "580.65.06");
  EXPECT_GT(host.cores, 0) << "of the system where /proc says nothing";
  EXPECT_GT(host.memory, kMiB);
}

}  // namespace
}  // namespace zplan::bench
