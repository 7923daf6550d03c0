#pragma once
// What `nvidia-smi topo -m` prints.

#include <string>
#include <string_view>
#include <vector>

#include "harness/machine/host.h"

namespace zplan::bench {

/// The way between two devices, nearest first, as nvidia-smi's own legend has them: NVLink, one PCIe switch
/// or bridge at most, several, through a host bridge, within a NUMA node, across processors.
enum class Way { self, nvlink, pix, pxb, phb, node, sys };

/// One row: a card or a network adapter.
struct TopologyRow {
  std::string name;  ///< "GPU0", "NIC0", "mlx5_0"
  std::vector<Way> ways;
  std::vector<int> nvlinks;  ///< beside each way: how many, for nvlink; else 0
  std::string cpu_affinity, numa_affinity;
};

struct SmiTopology {
  std::vector<std::string> devices;                            ///< names of the columns
  std::vector<TopologyRow> rows;                               ///< in the same order
  std::vector<std::pair<std::string, std::string>> nic_names;  ///< of the legend: "NIC0" → "mlx5_0"
};

/// Colours in the text are skipped. Throws InputError naming `source` and the line where it is no such text.
[[nodiscard]] SmiTopology parse_smi_topology(std::string_view text, const std::string& source);

/// Pairs of the cards; whether one may read the other's memory over PCIe is not in that text.
[[nodiscard]] std::vector<GpuLink> gpu_links(const SmiTopology& topology);

/// Cards as `nvidia-smi --query-gpu=index,name,memory.total,compute_cap,pci.bus_id,pcie.link.gen.max,
/// pcie.link.width.max --format=csv,noheader,nounits` lists them. Lines that are none are left out; what is
/// "[N/A]" is not known.
[[nodiscard]] std::vector<GpuDevice> parse_smi_cards(std::string_view text);

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::Way> {
  static constexpr std::array<std::pair<bench::Way, std::string_view>, 7> table{{{bench::Way::self, "X"},
                                                                                 {bench::Way::nvlink, "NV#"},
                                                                                 {bench::Way::pix, "PIX"},
                                                                                 {bench::Way::pxb, "PXB"},
                                                                                 {bench::Way::phb, "PHB"},
                                                                                 {bench::Way::node, "NODE"},
                                                                                 {bench::Way::sys, "SYS"}}};
};

}  // namespace zplan
