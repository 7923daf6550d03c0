#pragma once
// The part of NVML that is used here, by its documented names and layouts (NVIDIA, "NVML API Reference
// Guide"): no header of it is needed to build, and none of it to run.

#include <array>

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
