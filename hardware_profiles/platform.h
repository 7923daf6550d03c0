#pragma once
// Software platforms of GPUs: runtime, collectives, and kernel libraries that support them. Found by the
// architecture that a profile names ("9.0", "gfx942", "ascend910b", "gaudi2").

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

/// Vendors' software below PyTorch.
enum class Platform { cuda, rocm, cann, gaudi };
template <>
struct EnumNames<Platform> {
  static constexpr std::array<std::pair<Platform, std::string_view>, 4> table{{{Platform::cuda, "CUDA"},
                                                                               {Platform::rocm, "ROCm"},
                                                                               {Platform::cann, "CANN"},
                                                                               {Platform::gaudi, "Gaudi"}}};
};

/// Kernels that bitsandbytes has.
struct BitsandbytesSupport {
  bool four_bit{}, eight_bit{}, optimizers{};
};

/// Properties of a platform that plans depend on.
struct PlatformSpec {
  Platform platform{};
  std::string_view prefix;       ///< of the architectures' names; empty: versions such as "9.0"
  std::string_view collectives;  ///< the library: "NCCL"
  BitsandbytesSupport bitsandbytes;
  std::string_view kernels_source;  ///< where support of bitsandbytes and of flash attention was read
  /// Warning of a plan that memory or time is uncertain there; empty if published runs were compared.
  std::string_view unknown;
};

/// Returns the platform of an architecture.
[[nodiscard]] const PlatformSpec& platform_of(std::string_view architecture);

/// True if kernels of fused attention run there in 16 bits: on CUDA from compute capability 8.0 on, on ROCm
/// and through the vendors' own kernels on CANN and Gaudi.
[[nodiscard]] bool runs_flash_attention(std::string_view architecture);

}  // namespace zplan
