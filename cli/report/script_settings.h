#pragma once
// Lists the settings of a training script that a plan assumes, in its trainer's own words.

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/recipes/recipe.h"
#include "models/base/names.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

/// ScriptPlace says where a setting of a training script stands.
enum class ScriptPlace {
  environment,   ///< of the processes
  trainer,       ///< TrainingArguments, or the trainer's config
  data,          ///< the tokenizer's, or TRL's config for the objective
  model_loader,  ///< from_pretrained
  adapters,      ///< peft.LoraConfig
  packing,       ///< transformers' BitsAndBytesConfig
  config,        ///< the config that accelerate launches with
  code           ///< the script itself: `value` says what it does
};

template <>
struct EnumNames<ScriptPlace> {
  static constexpr std::array<std::pair<ScriptPlace, std::string_view>, 8> table{
      {{ScriptPlace::environment, "environment"},
       {ScriptPlace::trainer, "trainer"},
       {ScriptPlace::data, "data"},
       {ScriptPlace::model_loader, "model"},
       {ScriptPlace::adapters, "adapters"},
       {ScriptPlace::packing, "quantization"},
       {ScriptPlace::config, "config"},
       {ScriptPlace::code, "code"}}};
};

struct ScriptSetting {
  ScriptPlace place{};
  std::string key;    ///< "use_liger_kernel"; empty for `code`
  std::string value;  ///< as it is written: "True", "true", "\"flash_attention_2\""
  std::string text;   ///< key and value: "use_liger_kernel=True", "--use_liger_kernel true"
  bool operator==(const ScriptSetting&) const = default;
};

/// Returns the settings of a plan of `question`. Without a recipe they are those of a script around the
/// Hugging Face Trainer; with one they are keys of its trainer's config.
[[nodiscard]] std::vector<ScriptSetting> script_settings(const Plan& plan, const Question& question,
                                                         const Recipe* recipe);

/// Returns the settings as calls: "TrainingArguments(bf16=True, use_liger_kernel=True)"; lengths as those of
/// the objective's class: "DPOConfig(max_length=2048)".
[[nodiscard]] std::vector<std::string> script_calls(const std::vector<ScriptSetting>& settings,
                                                    Objective objective);

/// Returns the texts of those settings of `wanted` that are not among `now`.
[[nodiscard]] std::vector<std::string> changed_settings(const std::vector<ScriptSetting>& now,
                                                        const std::vector<ScriptSetting>& wanted);

struct Report;
/// Returns the settings of a plan of the report.
[[nodiscard]] std::vector<ScriptSetting> script_of(const Plan& plan, const Report& report);

}  // namespace zplan
