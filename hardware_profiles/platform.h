#pragma once
// What stands between PyTorch and a GPU: whose runtime and whose collectives, and which libraries of kernels
// have some for it. By the architecture that a profile names ("9.0", "gfx942", "ascend910b", "gaudi2").

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

enum class Platform { cuda, rocm, cann, gaudi };
template <>
struct EnumNames<Platform> {
  static constexpr std::array<std::pair<Platform, std::string_view>, 4> table{{{Platform::cuda, "CUDA"},
                                                                               {Platform::rocm, "ROCm"},
                                                                               {Platform::cann, "CANN"},
                                                                               {Platform::gaudi, "Gaudi"}}};
};

/// What bitsandbytes has kernels for.
struct BitsandbytesSupport {
  bool four_bit{}, eight_bit{}, optimizers{};
};

/// What the planner asks about a platform.
struct PlatformSpec {
  Platform platform{};
  std::string_view prefix;       ///< of the architectures' names; empty: versions such as "9.0"
  std::string_view collectives;  ///< the library: "NCCL"
  BitsandbytesSupport bitsandbytes;
  std::string_view kernels_source;  ///< where support of bitsandbytes and of flash attention was read
  /// What is not known of memory and time there, as a plan says it; empty: published runs were compared.
  std::string_view unknown;
};

[[nodiscard]] const PlatformSpec& platform_of(std::string_view architecture);

/// Whether kernels of fused attention run there in 16 bits: on CUDA from compute capability 8.0 on, on ROCm
/// and through the vendors' own kernels on CANN and Gaudi.
[[nodiscard]] bool runs_flash_attention(std::string_view architecture);

}  // namespace zplan
