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

/// Returns "model name" of /proc/cpuinfo, empty if there is none (not x86).
[[nodiscard]] std::string processor_name(const std::string& root);

/// Returns the number of cores of all processors, without their second threads: by "physical id" and "core
/// id" of /proc/cpuinfo, else its entries. 0 if there is no such file.
[[nodiscard]] int core_count(const std::string& root);

/// Returns the memory that a process may use: MemTotal, or less if the control group limits it. 0 if unknown.
[[nodiscard]] Bytes host_memory(const std::string& root);

/// Returns the network adapters, by name: active InfiniBand ports with their rate, and network interfaces of
/// other devices. If there are no devices (in a container), the interfaces that are up.
[[nodiscard]] std::vector<Nic> nics(const std::string& root);

/// Returns NVIDIA's GPUs on the PCI bus, in order of address, for hosts without a driver.
[[nodiscard]] std::vector<GpuDevice> gpus_on_the_bus(const std::string& root);

/// Returns the bytes sent since the host started, by name: tx_bytes of every network interface, loopback
/// included, and of InfiniBand ports, as "device:port", port_xmit_data, which counts words of four bytes.
/// Leaves out interfaces that use others (bridges, bonds, VLANs), which would count twice. RDMA is in a
/// port's counter alone; TCP over such a port is in its interface's, and may be in both. Without /sys, as in
/// many containers, counts interfaces by /proc/net/dev, which does not tell bridges apart, and no InfiniBand
/// ports. Source: Linux Documentation/ABI/testing/sysfs-class-net-statistics, sysfs-class-infiniband;
/// proc(5).
[[nodiscard]] SentBytes sent_bytes(const std::string& root);

}  // namespace zplan::bench
