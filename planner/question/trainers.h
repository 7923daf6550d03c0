#pragma once
// What trainers choose where their user does not, as data: a row for each default, with the releases that
// have it and where they say so. Rows set what options of the command line set, and an option that was given
// wins.

#include <array>
#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/names.h"
#include "planner/question/strategy.h"

namespace zplan {

enum class Trainer { trl, transformers, swift, llama_factory, axolotl, torchtune, litgpt };
template <>
struct EnumNames<Trainer> {
  static constexpr std::array<std::pair<Trainer, std::string_view>, 7> table{
      {{Trainer::trl, "trl"},
       {Trainer::transformers, "transformers"},
       {Trainer::swift, "swift"},
       {Trainer::llama_factory, "llama-factory"},
       {Trainer::axolotl, "axolotl"},
       {Trainer::torchtune, "torchtune"},
       {Trainer::litgpt, "litgpt"}}};
};

struct TrainerRelease {
  int major{}, minor{};
  auto operator<=>(const TrainerRelease&) const = default;
};

/// A trainer, and the release of it; the newest that the table knows where none is named.
struct TrainerChoice {
  Trainer trainer{};
  TrainerRelease release{};
  bool operator==(const TrainerChoice&) const = default;
};
/// "trl 1.16"
[[nodiscard]] std::string to_text(const TrainerChoice& choice);
/// "trl", "trl@1.16" or "trl@1.16.2": throws InputError(place, …) for anything else.
[[nodiscard]] TrainerChoice parse_trainer(std::string_view place, std::string_view text);

/// For which runs a default holds.
enum class TrainerCase {
  always,
  full,            ///< all weights train
  adapters,        ///< lora or qlora
  packed,          ///< qlora
  plain,           ///< plain PyTorch, full training: the weights' type is that of the optimizer's states
  plain_adapters,  ///< plain PyTorch, lora: the base's type
  deepspeed_adapters,
  not_replicated,    ///< all but DDP
  next_tokens,       ///< sft
  log_probabilities  ///< sft, dpo, kto and grpo, whose TRL trainers ask for log-probabilities of labels
};

struct TrainerDefault {
  Trainer trainer{};
  TrainerRelease since{}, before{};  ///< releases that have it: since ≤ release < before; {} before: to date
  TrainerCase when{};
  std::string_view option;  ///< "--checkpointing"; in words without dashes where there is no such option
  std::string_view value;   ///< as the option takes it: "on" and "off" of flags; empty: known, not planned
  std::string_view source;  ///< file of that release
};
[[nodiscard]] const std::vector<TrainerDefault>& trainer_defaults();

/// A default that was taken from a trainer, or of which is known that a plan leaves it out.
struct AppliedDefault {
  TrainerChoice trainer;
  std::string_view option, value, source;
  bool operator==(const AppliedDefault&) const = default;
};

/// What defaults set.
struct TrainerTarget {
  Training& training;
  Checkpointing& checkpointing;
  std::int64_t samples{1};  ///< of a micro-batch, whose tokens slices of the loss divide
};

/// Sets what `choices` leave to their defaults, in order, but for options that `given` names; says which.
std::vector<AppliedDefault> apply_trainers(const std::vector<TrainerChoice>& choices, TrainerTarget target,
                                           std::int64_t gpus,
                                           const std::function<bool(std::string_view)>& given);

}  // namespace zplan
