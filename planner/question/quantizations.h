#pragma once
// Packed weights under QLoRA: how each library stores them, and what it, peft and transformers do about them.
// A row each, read wherever one is named, stored, traced or refused.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

/// bitsandbytes' NF4 and LLM.int8(), packed as the model is loaded; models that GPTQ or AWQ packed before;
/// HQQ's 4 bits; torchao's weight-only integers; gpt-oss's own MXFP4.
enum class Quantization {
  nf4,
  nf4_double,
  int8,
  gptq_int4,
  gptq_int8,
  awq,
  hqq,
  torchao_int8,
  torchao_int4,
  mxfp4
};

/// PackedBy names the library whose layers hold the weights.
enum class PackedBy { bitsandbytes, gptq, awq, hqq, torchao, transformers };

struct QuantizationSpec {
  Quantization quantization{};
  std::string_view name{};
  PackedBy library{};
  std::int64_t bits{4};
  std::int64_t group{};        ///< numbers that share a scale; 0: a row of the weight does
  std::int64_t whole_group{};  ///< what a row, or under `groups_whole_weights` the weight, is a multiple of
  bool groups_whole_weights{};
  std::int64_t whole_rows{1};  ///< what its number of rows is a multiple of
  bool nested{};               ///< the scales are packed themselves
  std::size_t values_block{};  ///< which of packed_blocks the parameter itself holds
  bool packed_before{};        ///< the model is stored packed: loading it makes nothing wider

  /// True if packing a weight allocates, beside its 16-bit copy, a rounded copy and a byte per number for a
  /// moment.
  bool rounds_copy{};
  std::int64_t fit_size{};

  /// peft finds a floating type to make adapters in: the weight's own or the layer's compute_dtype. Beside
  /// packed integers they stay as they were made, fp32. Source: peft 0.21.2 tuners/tuners_utils.py
  /// _get_base_layer_device_and_dtype, _move_adapter_to_device_of_base_layer.
  bool types_adapters{};
  /// peft has DoRA beside it: 0.21.2 tuners/lora/ gptq.py and awq.py refuse it.
  bool takes_dora{true};
  /// peft.prepare_model_for_kbit_training makes fp32 of what is not packed. Source: peft 0.21.2
  /// utils/other.py.
  bool prepared{};
  bool splits{};  ///< tensor parallelism of it is planned
  /// Its tensors can be cast, viewed and divided, so that engines and several GPUs take them.
  bool moves{true};
  /// Why no library trains adapters over it, and what to take; empty: it does.
  std::string_view untrained{};
};

inline constexpr std::array<QuantizationSpec, 10> kQuantizations{{
    {.quantization = Quantization::nf4,
     .name = "nf4",
     .library = PackedBy::bitsandbytes,
     .group = 64,
     .values_block = 1,
     .types_adapters = true,
     .prepared = true,
     .splits = true},
    {.quantization = Quantization::nf4_double,
     .name = "nf4-double",
     .library = PackedBy::bitsandbytes,
     .group = 64,
     .nested = true,
     .types_adapters = true,
     .prepared = true,
     .splits = true},
    {.quantization = Quantization::int8,
     .name = "int8",
     .library = PackedBy::bitsandbytes,
     .bits = 8,
     .values_block = 1,
     .rounds_copy = true,
     .prepared = true,
     .splits = true},
    {.quantization = Quantization::gptq_int4,
     .name = "gptq-int4",
     .library = PackedBy::gptq,
     .group = 128,
     .packed_before = true,
     .takes_dora = false,
     .splits = true},
    {.quantization = Quantization::gptq_int8,
     .name = "gptq-int8",
     .library = PackedBy::gptq,
     .bits = 8,
     .group = 128,
     .packed_before = true,
     .takes_dora = false,
     .splits = true},
    // gptqmodel 7.7.0 nn_modules/qlinear/__init__.py AWQuantLinear.
    {.quantization = Quantization::awq,
     .name = "awq",
     .library = PackedBy::awq,
     .group = 128,
     .whole_group = 128,
     .whole_rows = 8,
     .packed_before = true,
     .takes_dora = false,
     .prepared = true},
    // hqq 0.2.8 core/quantize.py.
    {.quantization = Quantization::hqq,
     .name = "hqq",
     .library = PackedBy::hqq,
     .group = 64,
     .whole_group = 64,
     .groups_whole_weights = true,
     .fit_size = 4 + 4 * 2},
    // torchao 0.18's Int8Tensor has none of the operators by which DDP broadcasts parameters (view), FSDP2
    // divides them (split) and DeepSpeed's engine casts them (PyTorch: _apply(): Couldn't swap
    // Linear.weight).
    {.quantization = Quantization::torchao_int8,
     .name = "torchao-int8",
     .library = PackedBy::torchao,
     .bits = 8,
     .values_block = 2,
     .types_adapters = true,
     .takes_dora = false,
     .moves = false},
    // transformers 5.23 quantizers/quantizer_torchao.py is_trainable (8 bits alone); peft 0.21.2
    // tuners/lora/torchao.py _check_dtype_supported; torchao 0.18 calls kernels without a backward.
    {.quantization = Quantization::torchao_int4,
     .name = "torchao-int4",
     .library = PackedBy::torchao,
     .untrained =
         "torchao's int4 weights do not train: transformers' Trainer refuses them, peft takes torchao's int8 "
         "alone, and their kernels have no backward: --quantization torchao-int8, hqq or nf4"},
    // transformers 5.23 quantizers/quantizer_mxfp4.py is_trainable.
    {.quantization = Quantization::mxfp4,
     .name = "mxfp4",
     .library = PackedBy::transformers,
     .untrained =
         "MXFP4 weights do not train in transformers: it has them dequantised to 16 bits as they are loaded, "
         "Mxfp4Config(dequantize=True), and adapters train beside those: --method lora"},
}};

[[nodiscard]] constexpr const QuantizationSpec& spec(Quantization quantization) {
  return kQuantizations[static_cast<std::size_t>(quantization)];
}

[[nodiscard]] constexpr bool quantizations_are_in_order() {
  for (std::size_t i = 0; i < kQuantizations.size(); ++i)
    if (static_cast<std::size_t>(kQuantizations[i].quantization) != i) return false;
  return true;
}
static_assert(quantizations_are_in_order());

[[nodiscard]] constexpr auto quantizations_by_name() {
  std::array<std::pair<Quantization, std::string_view>, kQuantizations.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].first = kQuantizations[i].quantization, all[i].second = kQuantizations[i].name;
  return all;
}

template <>
struct EnumNames<Quantization> {
  static constexpr std::array<std::pair<Quantization, std::string_view>, kQuantizations.size()> table =
      quantizations_by_name();
};

/// True if bitsandbytes packs it.
[[nodiscard]] constexpr bool is_bitsandbytes(Quantization quantization) {
  return spec(quantization).library == PackedBy::bitsandbytes;
}
[[nodiscard]] constexpr bool is_nf4(Quantization quantization) {
  return is_bitsandbytes(quantization) && spec(quantization).bits == 4;
}

}  // namespace zplan
