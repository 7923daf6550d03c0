#include "planner/search/kernels.h"

#include <fmt/format.h>

#include "hardware_profiles/platform.h"
#include "planner/question/optimizers.h"

namespace zplan {

bool runs_flash(const Training& training, const Gpu& gpu) {
  return training.precision != Precision::fp32 && runs_flash_attention(gpu.compute_capability);
}

std::string why_no_bitsandbytes(const Training& training, const Gpu& gpu) {
  const PlatformSpec& platform = platform_of(gpu.compute_capability);
  const BitsandbytesSupport& has = platform.bitsandbytes;
  const auto missing = [&](std::string_view what) {
    return fmt::format("bitsandbytes has no {} for {}, which {} runs on", what, to_name(platform.platform),
                       gpu.name);
  };
  if (training.method == Method::qlora && is_nf4(training.quantization) && !has.four_bit)
    return missing("4-bit weights");
  if (training.method == Method::qlora && training.quantization == Quantization::int8 && !has.eight_bit)
    return missing("8-bit weights");
  if (!spec(training.optimizer).bitsandbytes_class.empty() && !has.optimizers)
    return missing(fmt::format("optimizer {}", to_name(training.optimizer)));
  return {};
}

}  // namespace zplan
