#include "hardware_profiles/host.h"

#include <algorithm>
#include <cmath>

#include "hardware_profiles/node.h"

namespace zplan {

namespace {

/// One core's reads and writes in DeepSpeedCPUAdam, with AVX-512. Source:
/// tests/reference/offload/cpu_adam.json.
constexpr double kThread = 43e9;

/// Source: deepspeedai/DeepSpeed pull request 5301: on one GPU pinned copies of 16-bit weights were six times
/// as fast as pageable ones of fp32: 24 GB/s of PCIe 4 by six, of twice the bytes.
constexpr BytesPerSecond kStaging{8e9};

/// Of the rated bandwidth of a whole node by one process. Source: Ren et al. 2021 (ZeRO-Offload), table 4:
/// 10e9 parameters of 28 B in 2.57 s on a DGX-2, whose two Xeon 8168 have twelve channels of DDR4-2666, 256
/// GB/s.
constexpr double kAlone = 0.43;

/// The same by several, whose threads and pages lie on any of its processors: the host's part of steps in
/// training. Source: deepspeedai/DeepSpeed blogs/zenflow-corebinding/README.md: with 1.54e9 parameters on two
/// GPUs of a node whose two EPYC 7742 have sixteen channels of DDR4-3200, 410 GB/s, offload makes a step of
/// 0.24 s one of 1.365 s, of which copies over PCIe 4 take 0.19 s and the rest 42 B a parameter
/// (tests/reference/offload/README.md has others).
constexpr double kTogether = 0.17;

}  // namespace

BytesPerSecond update_rate(const Host& host, std::int64_t processes) {
  const auto each = static_cast<double>(std::max<std::int64_t>(1, processes));
  return std::min(BytesPerSecond(kThread * static_cast<double>(host.threads)),
                  host.bandwidth * ((each > 1 ? kTogether : kAlone) / each));
}

/// 2.5 and 5 GT/s with 8/10 of them data, from generation 3 on 8 GT/s and its doubles with 128/130.
BytesPerSecond rated(const PcieLink& link) {
  const double transfers = link.generation < 3 ? 2.5e9 * static_cast<double>(link.generation)
                                               : 8e9 * std::exp2(static_cast<double>(link.generation - 3));
  const double data = link.generation < 3 ? 0.8 : 128.0 / 130.0;
  return BytesPerSecond(transfers * data / 8 * static_cast<double>(link.lanes));
}

/// 12 GB/s for 16 lanes of generation 3.
BytesPerSecond reached(const PcieLink& link) {
  return BytesPerSecond(0.75e9 * std::exp2(static_cast<double>(link.generation - 3)) *
                        static_cast<double>(link.lanes));
}

BytesPerSecond staging_rate() { return kStaging; }

}  // namespace zplan
