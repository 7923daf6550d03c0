#pragma once
// Reads /proc and /sys of Linux.

#include <filesystem>
#include <string>
#include <vector>

#include "harness/machine/host.h"
#include "harness/sent.h"

namespace zplan::bench {

/// True if the path exists and may be looked at.
[[nodiscard]] bool there(const std::filesystem::path& path);
/// Returns the entries of a folder, sorted; none if it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> entries(const std::filesystem::path& folder);
/// True if /sys is mounted; many containers have none.
[[nodiscard]] bool has_sysfs(const std::string& root);

/// "model name" of /proc/cpuinfo; empty where there is none (not x86).
[[nodiscard]] std::string processor_name(const std::string& root);

/// Cores of all processors, each counted once however many threads it runs: by "physical id" and "core id" of
/// /proc/cpuinfo, else its entries; 0 where there is no such file.
[[nodiscard]] int core_count(const std::string& root);

/// Memory that a process may have: MemTotal, or less where the control group limits it; 0: nothing says.
[[nodiscard]] Bytes host_memory(const std::string& root);

/// Network adapters: InfiniBand ports that are active, with their rate, and network interfaces of devices
/// that are none of these; where there are no devices (in a container), interfaces that are up. By name.
[[nodiscard]] std::vector<Nic> nics(const std::string& root);

/// NVIDIA's GPUs on the PCI bus, in order of address, without what only a driver knows; for hosts without
/// one.
[[nodiscard]] std::vector<GpuDevice> gpus_on_the_bus(const std::string& root);

/// Bytes sent since the host started: tx_bytes of every network interface, loopback included, and of
/// InfiniBand ports, as "device:port", port_xmit_data, which counts words of four bytes. Interfaces that
/// stand on others (bridges, bonds, VLANs) would count twice and are left out, as is what has no counter.
/// RDMA is in a port's counter alone; what TCP sends over such a port is in its interface's, and may be in
/// both. Without /sys, as in many containers, interfaces are counted by /proc/net/dev, which does not tell
/// bridges apart, and ports of InfiniBand by nothing.
/// Source: Linux Documentation/ABI/testing/sysfs-class-net-statistics, sysfs-class-infiniband; proc(5).
[[nodiscard]] SentBytes sent_bytes(const std::string& root);

}  // namespace zplan::bench
