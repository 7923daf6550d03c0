#pragma once
// NVIDIA's driver, asked through its management library, which is looked for at run time.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "harness/machine/host.h"

namespace zplan::bench::nvml {

using Result = int;  ///< 0: success
using Device = void*;

inline constexpr int kMostLinks =
    36;  ///< of one GPU; asking for one that is not there is an error that ends the list

enum class P2pCapability : int { read = 0, write = 1, nvlink = 2 };
enum class RemoteKind : int { gpu = 0, npu = 1, nvswitch = 2 };

struct Memory {
  unsigned long long total{}, free{}, used{};
};

struct Pci {
  std::array<char, 16> legacy_bus_id{};
  unsigned int domain{}, bus{}, device{};
  unsigned int device_id{}, subsystem_id{};
  std::array<char, 32> bus_id{};
};

}  // namespace zplan::bench::nvml

namespace zplan::bench {

/// The driver's versions, GPUs and links.
struct DriverFacts {
  std::string driver, cuda;
  std::vector<GpuDevice> gpus;
  std::vector<GpuLink> links;
};

/// Nothing where the library is not there or does not work, with why in `note` (empty: it is not there).
[[nodiscard]] std::optional<DriverFacts> ask_nvml(const std::string& library, std::string& note);

}  // namespace zplan::bench
