// Made-up /proc and /sys.

#include "harness/machine/system_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/machine/host.h"
#include "tests/harness/machine/made_up_root.h"

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;

using SystemFiles = Root;

TEST_F(SystemFiles, CoresAreCountedOnceHoweverManyThreadsTheyRun) {
  std::string text;
  for (int cpu = 0; cpu < 8; ++cpu)
    text += "processor\t: " + std::to_string(cpu) +
            "\nmodel name\t: Some Processor @ 2.0GHz\nphysical id\t: " + std::to_string(cpu % 2) +
            "\ncore id\t\t: " + std::to_string(cpu / 4) + "\n\n";
  put("proc/cpuinfo", text);
  EXPECT_EQ(processor_name(root), "Some Processor @ 2.0GHz");
  EXPECT_EQ(core_count(root), 4);
}

TEST_F(SystemFiles, ProcessorsWithoutCoresAreCounted) {
  put("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2\n\nprocessor\t: 1\n");
  EXPECT_EQ(processor_name(root), "");
  EXPECT_EQ(core_count(root), 2);
}

TEST_F(SystemFiles, MemoryIsTheMachinesOrTheGroups) {
  put("proc/meminfo", "MemTotal:       1056270664 kB\nMemFree: 1 kB\n");
  EXPECT_EQ(host_memory(root), Bytes(std::int64_t{1056270664} * 1024));
  put("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(host_memory(root), Bytes(std::int64_t{1056270664} * 1024));
  put("sys/fs/cgroup/memory.max", "34359738368\n");
  EXPECT_EQ(host_memory(root), 32 * kGiB);
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host_memory(root), 32 * kGiB);
}

TEST_F(SystemFiles, AdaptersAreThoseOfDevicesEachOnce) {
  put("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  put("sys/class/infiniband/mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  put("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  put("sys/class/infiniband/mlx5_2/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  put("sys/class/infiniband/mlx5_2/ports/2/rate", "unknown\n");
  put("sys/class/infiniband/mlx5_2/device/net/ens1/speed", "100000\n");
  put("sys/class/net/ens1/speed", "100000\n");
  put("sys/class/net/ens1/device/vendor", "0x15b3\n");
  put("sys/class/net/eth0/speed", "25000\n");
  put("sys/class/net/eth0/device/vendor", "0x1d0f\n");
  put("sys/class/net/eth1/speed", "-1\n");
  put("sys/class/net/eth1/device/vendor", "0x1d0f\n");
  put("sys/class/net/lo/speed", "0\n");
  put("sys/class/net/docker0/speed", "10000\n");
  EXPECT_THAT(nics(root),
              testing::ElementsAre(Nic{"mlx5_0", BytesPerSecond(50e9)},
                                   Nic{"mlx5_2:1", BytesPerSecond(12.5e9)}, Nic{"mlx5_2:2", std::nullopt},
                                   Nic{"eth0", BytesPerSecond(25e9 / 8)}, Nic{"eth1", std::nullopt}));
}

TEST_F(SystemFiles, InAContainerAdaptersAreInterfacesThatAreUp) {
  put("sys/class/net/eth0/speed", "10000\n");
  put("sys/class/net/eth0/operstate", "up\n");
  put("sys/class/net/tunl0/operstate", "down\n");
  put("sys/class/net/br0/operstate", "up\n");
  put("sys/class/net/br0/bridge/bridge_id", "0\n");
  EXPECT_THAT(nics(root), testing::ElementsAre(Nic{"eth0", BytesPerSecond(1.25e9)}));
}

TEST_F(SystemFiles, GpusWithoutADriverAreOnTheBus) {
  for (const std::string address : {"0000:1b:00.0", "0000:0a:00.0"}) {
    put("sys/bus/pci/devices/" + address + "/vendor", "0x10de\n");
    put("sys/bus/pci/devices/" + address + "/class", "0x030200\n");
    put("sys/bus/pci/devices/" + address + "/device", "0x2335\n");
    put("sys/bus/pci/devices/" + address + "/max_link_speed", "32.0 GT/s PCIe\n");
    put("sys/bus/pci/devices/" + address + "/max_link_width", "16\n");
  }
  put("sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n");
  put("sys/bus/pci/devices/0000:00:02.0/vendor", "0x10de\n");
  put("sys/bus/pci/devices/0000:00:02.0/class", "0x040300\n");  // the audio function of a GPU
  const Host host = read_host(root, "/nonexistent");
  ASSERT_EQ(host.gpus.size(), 2U);
  EXPECT_EQ(host.gpus[0], (GpuDevice{.index = 0,
                                     .name = "NVIDIA device 0x2335",
                                     .pci = "0000:0a:00.0",
                                     .pcie_generation = 5,
                                     .pcie_lanes = 16}));
  EXPECT_THAT(host.notes, testing::ElementsAre(testing::HasSubstr("driver does not answer")));
}

TEST_F(SystemFiles, AHostWithoutSysSaysSo) {
  const auto host = [&] { return read_host(root, "/nonexistent"); };
  fs::create_directories(root / "sys");
  EXPECT_EQ(host().numa_nodes, 0);  // one would be hwloc's guess
  EXPECT_THAT(host().notes, testing::ElementsAre(testing::StartsWith("/sys is not mounted: NUMA nodes")));
  put("sys/devices/system/cpu/online", "0-1\n");
  EXPECT_THAT(host().notes, testing::IsEmpty());
}

TEST_F(SystemFiles, NothingThereIsNothing) {
  EXPECT_EQ(core_count(root), 0);
  EXPECT_EQ(host_memory(root), Bytes(0));
  EXPECT_THAT(nics(root), testing::IsEmpty());
  EXPECT_THAT(gpus_on_the_bus(root), testing::IsEmpty());
}

TEST(ThisHost, IsDescribed) {
  const Host host = read_host();
  EXPECT_FALSE(host.name.empty());
  EXPECT_FALSE(host.processor.empty());
  EXPECT_GE(host.cores, 1);
  EXPECT_GT(host.memory, 64 * kMiB);
  EXPECT_GE(numa_node_count(), 0);
  const Json json = host_json(host);
  for (const char* key : {"name", "ranks", "processor", "cores", "memory_bytes", "gpus", "links", "nics"})
    EXPECT_TRUE(json.contains(key)) << key;
}

}  // namespace
}  // namespace zplan::bench
