#pragma once
// Layouts of machines as `nvidia-smi topo -m` prints them.

#include <string_view>

namespace zplan::bench {

extern const std::string_view
    kEightA100;  ///< eight A100 SXM, NVSwitch: NV12 each; ten adapters; two sockets, NUMA of four
extern const std::string_view
    kEightH100;  ///< eight H100 SXM, NVSwitch: NV18 each; adapters named NIC0 to NIC9
extern const std::string_view kFour4090;      ///< four RTX 4090, two on each socket: PHB, SYS
extern const std::string_view kBridgedPairs;  ///< four RTX A6000 in two bridged pairs: NV4
extern const std::string_view kOneCard;
extern const std::string_view kEightV100;  ///< hybrid cube mesh: NV1, NV2 and SYS
extern const std::string_view kTwoOld;     ///< a driver that prints SOC for what later ones print as SYS

}  // namespace zplan::bench
