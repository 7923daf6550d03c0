#include "hardware_profiles/platform.h"

#include <algorithm>

#include "hardware_profiles/gpu.h"

namespace zplan {

namespace {

constexpr std::array<PlatformSpec, 4> kPlatforms{{
    {Platform::rocm,
     "gfx",
     "RCCL",
     {true, true, true},
     "bitsandbytes 0.50 installation guide: AMD GPUs; Dao-AILab/flash-attention README: Composable Kernel on "
     "CDNA 2 and later, Triton on RDNA",
     "no published training run was compared on ROCm; context and RCCL's buffers are counted as CUDA's and "
     "NCCL's, collectives priced by NCCL's own model on these links"},
    {Platform::cann,
     "ascend",
     "HCCL",
     {false, false, false},
     "bitsandbytes 0.50 installation guide names no Ascend; transformers integrations/npu_flash_attention.py",
     "no published training run was compared on CANN; context, workspaces and HCCL's buffers are counted as "
     "CUDA's, cuBLAS's and NCCL's, collectives priced by NCCL's own model on these links"},
    {Platform::gaudi,
     "gaudi",
     "HCCL (Gaudi)",
     {true, false, false},
     "bitsandbytes 0.50 installation guide: Gaudi with 4 bits; optimum-habana's FusedSDPA",
     "no published training run was compared on Gaudi; its graph compiler allocates otherwise than PyTorch's "
     "caching allocator; context, workspaces and HCCL's buffers are counted as CUDA's, cuBLAS's and NCCL's, "
     "collectives priced by NCCL's own model on these links"},
    {Platform::cuda,
     "",
     "NCCL",
     {true, true, true},
     "bitsandbytes 0.50 installation guide; Dao-AILab/flash-attention README: Ampere and later",
     ""},
}};

}  // namespace

const PlatformSpec& platform_of(std::string_view architecture) {
  return *std::find_if(kPlatforms.begin(), kPlatforms.end(), [architecture](const PlatformSpec& each) {
    return architecture.starts_with(each.prefix);
  });
}

bool runs_flash_attention(std::string_view architecture) {
  constexpr int kAmpere = 8;
  return platform_of(architecture).platform != Platform::cuda || capability_major(architecture) >= kAmpere;
}

}  // namespace zplan
