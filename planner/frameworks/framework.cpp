#include "planner/frameworks/framework.h"

#include <fmt/format.h>

namespace zplan {

const FrameworkSpec& spec(Framework framework) {
  switch (framework) {
    case Framework::fsdp: return fsdp_spec();
    case Framework::torch: return ddp_spec();
    case Framework::deepspeed: break;
  }
  return deepspeed_spec();
}

std::string packed_reason(const Training& training, std::string_view framework) {
  const bool four_bits =
      training.quantization == Quantization::nf4 || training.quantization == Quantization::nf4_double;
  if (!four_bits)
    return fmt::format(
        "{} shards packed weights only where bitsandbytes stores 4-bit values in a floating type: {} "
        "has no such storage",
        framework, to_name(training.quantization));
  return fmt::format(
      "{} does not shard weights packed into bytes (bnb_4bit_quant_storage uint8): "
      "--quant-storage {} stores them in a floating type, which it does",
      framework, to_name(training.precision));
}

}  // namespace zplan
