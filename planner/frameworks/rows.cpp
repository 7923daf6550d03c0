#include "planner/question/framework.h"

#include <fmt/format.h>

namespace zplan {

const FrameworkSpec& spec(Framework framework) {
  switch (framework) {
    case Framework::fsdp: return fsdp_spec();
    case Framework::torch: return ddp_spec();
    case Framework::megatron: return megatron_spec();
    case Framework::torchtitan: return torchtitan_spec();
    case Framework::deepspeed: break;
  }
  return deepspeed_spec();
}

std::string packed_reason(const Training& training, std::string_view framework) {
  if (!is_nf4(training.quantization))
    return fmt::format(
        "{} shards packed weights only where bitsandbytes stores 4-bit values in a floating type: {} "
        "has no such storage",
        framework, to_name(training.quantization));
  return fmt::format(
      "{} does not shard weights packed into bytes (bnb_4bit_quant_storage uint8): "
      "--quant-storage {} stores them in a floating type, which it does",
      framework, to_name(training.precision));
}

std::string packed_loading(const Training& training) {
  constexpr auto torch_name = [](std::string_view type) {
    return type == "bf16" ? "bfloat16" : type == "fp16" ? "float16" : "float32";
  };
  const std::string_view storage = torch_name(to_name(training.quant_storage));
  return fmt::format(
      "load with BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", "
      "bnb_4bit_use_double_quant={}, bnb_4bit_compute_dtype=torch.{}, bnb_4bit_quant_storage=torch.{}) and "
      "dtype=torch.{}",
      spec(training.quantization).nested ? "True" : "False", torch_name(to_name(training.precision)), storage,
      storage);
}

}  // namespace zplan
