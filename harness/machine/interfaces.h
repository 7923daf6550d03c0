#pragma once
// What Linux counts of the traffic of this host.

#include <string>

#include "harness/sent.h"

namespace zplan::bench {

/// Bytes sent since the host started: tx_bytes of every network interface, loopback included, and of
/// InfiniBand ports, as "device:port", port_xmit_data, which counts words of four bytes. Interfaces that
/// stand on others (bridges, bonds, VLANs) would count twice and are left out, as is what has no counter.
/// RDMA is in a port's counter alone; what TCP sends over such a port is in its interface's, and may be in
/// both. Without /sys, as in many containers, interfaces are counted by /proc/net/dev, which does not tell
/// bridges apart, and ports of InfiniBand by nothing.
/// Source: Linux Documentation/ABI/testing/sysfs-class-net-statistics, sysfs-class-infiniband; proc(5).
[[nodiscard]] SentBytes sent_bytes(const std::string& root);

}  // namespace zplan::bench
