#pragma once
// Optimizers: what each keeps, takes for a moment and is called. A row each, read wherever one is named,
// sharded, simulated or written to a config.

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

/// AdamW, SGD (foreach or fused) and Adafactor of torch or transformers, Lion of lion-pytorch, Muon of
/// DeepSpeed, 4-bit AdamW of torchao; the others are bitsandbytes'.
enum class Optimizer {
  adamw,
  adamw8bit,
  adamw4bit,
  adamw32bit,
  paged_adamw8bit,
  paged_adamw32bit,
  sgd,
  sgd_momentum,
  adafactor,
  adafactor_torch,
  lion,
  lion8bit,
  lion32bit,
  paged_lion8bit,
  paged_lion32bit,
  muon,
};

/// `moments`: tensors of the parameter's size and type. `packed`: bitsandbytes', in 8 bits with an fp32
/// maximum per block of 256, or in fp32; torchao's in 4 bits, with one per block of 128. `factored`: a row
/// and a column of each matrix. `muon`: one moment of matrices, two of the rest.
enum class StateForm { moments, packed, factored, factored_fp32, muon };

/// UpdateTemporaries are what one step allocates for a moment, beside states. `denominators`: Adam without a
/// fused kernel.
enum class UpdateTemporaries { none, denominators, copied_moment, estimate, fp32_update };

struct OptimizerSpec {
  Optimizer optimizer{};
  std::string_view names{};  ///< zplan's first, then those of the HF Trainer's --optim, with spaces between
  StateForm form{StateForm::moments};
  int moments{};
  bool eight_bit{};     ///< of packed ones
  bool four_bit{};      ///< of packed ones
  bool paged{};         ///< of packed ones: they lie in managed memory
  bool counts_steps{};  ///< a fused kernel reads the step's number on the device
  UpdateTemporaries temporaries{UpdateTemporaries::none};

  /// "type" of a ds_config: DeepSpeed's own, or a class of torch.optim, which it looks up by name; empty:
  /// only a training script can make it. Source: DeepSpeed 0.19.8 runtime/engine.py
  /// _configure_basic_optimizer; runtime/zero/utils.py.
  std::string_view deepspeed_type{};
  bool deepspeed_tested{};  ///< ZeRO takes it without zero_allow_untested_optimizer
  bool deepspeed_only{};
  bool on_cpu{};  ///< DeepSpeed has a version for offloaded states
  bool takes_weight_decay{};
  std::string_view bitsandbytes_class{};
  /// Its name in --optim of the HF Trainer, for where no config names it.
  /// Source: transformers 5.23 training_args.py OptimizerNames.
  std::string_view trainer_name{};
};

inline constexpr std::array<OptimizerSpec, 16> kOptimizers{{
    {.optimizer = Optimizer::adamw,
     .names = "adamw adam adamw_torch adamw_torch_fused",
     .moments = 2,
     .counts_steps = true,
     .temporaries = UpdateTemporaries::denominators,
     .deepspeed_type = "AdamW",
     .deepspeed_tested = true,
     .on_cpu = true,
     .takes_weight_decay = true},
    {.optimizer = Optimizer::adamw8bit,
     .names = "adamw8bit adamw_8bit adamw_bnb_8bit",
     .form = StateForm::packed,
     .moments = 2,
     .eight_bit = true,
     .bitsandbytes_class = "AdamW8bit",
     .trainer_name = "adamw_bnb_8bit"},
    {.optimizer = Optimizer::adamw4bit,
     .names = "adamw4bit adamw_4bit adamw_torch_4bit ao_adamw_4bit",
     .form = StateForm::packed,
     .moments = 2,
     .four_bit = true,
     .trainer_name = "adamw_torch_4bit"},
    {.optimizer = Optimizer::adamw32bit,
     .names = "adamw32bit adamw_32bit",
     .form = StateForm::packed,
     .moments = 2,
     .bitsandbytes_class = "AdamW32bit"},
    {.optimizer = Optimizer::paged_adamw8bit,
     .names = "paged_adamw8bit paged_adamw_8bit",
     .form = StateForm::packed,
     .moments = 2,
     .eight_bit = true,
     .paged = true,
     .bitsandbytes_class = "PagedAdamW8bit",
     .trainer_name = "paged_adamw_8bit"},
    {.optimizer = Optimizer::paged_adamw32bit,
     .names = "paged_adamw32bit paged_adamw_32bit paged_adamw",
     .form = StateForm::packed,
     .moments = 2,
     .paged = true,
     .bitsandbytes_class = "PagedAdamW32bit",
     .trainer_name = "paged_adamw_32bit"},
    {.optimizer = Optimizer::sgd, .names = "sgd", .deepspeed_type = "SGD"},
    {.optimizer = Optimizer::sgd_momentum,
     .names = "sgd-momentum sgd_momentum",
     .moments = 1,
     .deepspeed_type = "SGD"},
    {.optimizer = Optimizer::adafactor,
     .names = "adafactor",
     .form = StateForm::factored_fp32,
     .temporaries = UpdateTemporaries::fp32_update,
     .deepspeed_type = "Adafactor"},
    {.optimizer = Optimizer::adafactor_torch,
     .names = "adafactor_torch",
     .form = StateForm::factored,
     .temporaries = UpdateTemporaries::estimate,
     .deepspeed_type = "Adafactor"},
    {.optimizer = Optimizer::lion,
     .names = "lion",
     .moments = 1,
     .temporaries = UpdateTemporaries::copied_moment,
     .deepspeed_type = "Lion",
     .deepspeed_tested = true,
     .on_cpu = true,
     .takes_weight_decay = true},
    {.optimizer = Optimizer::lion8bit,
     .names = "lion8bit lion_8bit",
     .form = StateForm::packed,
     .moments = 1,
     .eight_bit = true,
     .bitsandbytes_class = "Lion8bit",
     .trainer_name = "lion_8bit"},
    {.optimizer = Optimizer::lion32bit,
     .names = "lion32bit lion_32bit",
     .form = StateForm::packed,
     .moments = 1,
     .bitsandbytes_class = "Lion32bit",
     .trainer_name = "lion_32bit"},
    {.optimizer = Optimizer::paged_lion8bit,
     .names = "paged_lion8bit paged_lion_8bit",
     .form = StateForm::packed,
     .moments = 1,
     .eight_bit = true,
     .paged = true,
     .bitsandbytes_class = "PagedLion8bit",
     .trainer_name = "paged_lion_8bit"},
    {.optimizer = Optimizer::paged_lion32bit,
     .names = "paged_lion32bit paged_lion_32bit paged_lion",
     .form = StateForm::packed,
     .moments = 1,
     .paged = true,
     .bitsandbytes_class = "PagedLion32bit",
     .trainer_name = "paged_lion_32bit"},
    {.optimizer = Optimizer::muon,
     .names = "muon",
     .form = StateForm::muon,
     .moments = 1,
     .deepspeed_type = "Muon",
     .deepspeed_tested = true,
     .deepspeed_only = true,
     .takes_weight_decay = true},
}};
static_assert(
    [] {
      for (std::size_t i = 0; i < kOptimizers.size(); ++i)
        if (kOptimizers[i].optimizer != static_cast<Optimizer>(i)) return false;
      return true;
    }(),
    "the table is indexed by Optimizer");

[[nodiscard]] constexpr const OptimizerSpec& spec(Optimizer optimizer) {
  return kOptimizers[static_cast<std::size_t>(optimizer)];
}

/// All names, each with its optimizer.
[[nodiscard]] constexpr std::size_t optimizer_names() {
  std::size_t count = 0;
  for (const OptimizerSpec& each : kOptimizers) {
    ++count;
    for (const char c : each.names) count += c == ' ' ? 1 : 0;
  }
  return count;
}
[[nodiscard]] constexpr auto optimizers_by_name() {
  std::array<std::pair<Optimizer, std::string_view>, optimizer_names()> all{};
  std::size_t next = 0;
  for (const OptimizerSpec& each : kOptimizers)
    for (std::string_view rest = each.names; !rest.empty(); ++next) {
      const std::size_t end = rest.find(' ');
      all[next].first = each.optimizer, all[next].second = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  return all;
}

template <>
struct EnumNames<Optimizer> {
  static constexpr std::array<std::pair<Optimizer, std::string_view>, optimizer_names()> table =
      optimizers_by_name();
};

}  // namespace zplan
