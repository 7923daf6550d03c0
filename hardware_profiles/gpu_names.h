#pragma once
// Reads names of GPUs as drivers print them: "NVIDIA GeForce RTX 3070 Laptop GPU", "NVIDIA A100-SXM4-80GB MIG
// 3g.40gb".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/gpu.h"

namespace zplan {

/// Returns the GPUs that a driver prints under this name: profiles with the same words, brands, memory and
/// words without meaning ("GPU", "Generation", "Edition") aside, the smallest memory first. A size in the
/// name is the GPU's.
[[nodiscard]] std::vector<const Gpu*> gpus_printed_as(const std::vector<Gpu>& gpus, std::string_view name);

/// A name of a part of a GPU that the driver has divided (MIG).
struct MigName {
  std::string gpu;        ///< "NVIDIA A100-SXM4-80GB"
  int compute{};          ///< 3 of "3g.40gb": parts of the multiprocessors
  double memory_gb{};     ///< 40
  std::string profile{};  ///< "3g.40gb"
};
[[nodiscard]] std::optional<MigName> mig_name(std::string_view name);

/// Returns the part of `gpu` that the name says. Source: NVIDIA Multi-Instance GPU user guide: seven compute
/// parts (four of an A30), eight memory parts (four), no NVLink and no peer-to-peer between parts.
[[nodiscard]] Gpu mig_part(const Gpu& gpu, const MigName& name);

/// Returns at most `most` names of profiles that are nearest to `name`, the nearest first.
[[nodiscard]] std::vector<std::string> nearest_gpus(const std::vector<Gpu>& gpus, std::string_view name,
                                                    std::size_t most);

}  // namespace zplan
