#pragma once
// DeepSpeed's keys of a ds_config, as data (keys.json, generated from the installed package).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

/// The DeepSpeed release whose keys and rules are written and read here.
inline constexpr std::string_view kDeepSpeedVersion = "0.19.8";

/// One object of a ds_config.
struct DsSection {
  std::string pointer;     ///< "" for the top level, "/zero_optimization", …
  bool rejects_unknown{};  ///< whether DeepSpeed raises for a key that it does not know, or ignores it
  std::vector<std::string>
      keys{};  ///< pydantic sections: JSON names and the Python names, which are accepted too
  std::map<std::string, std::string> replaced_by{};  ///< deprecated key → what took its place
  std::map<std::string, std::string> json_names{};   ///< Python name → JSON name, where they differ
};

/// Arguments of a constructor; nothing where they are not known.
using Arguments = std::optional<std::vector<std::string>>;

struct DsKeys {
  std::vector<DsSection> sections;
  std::map<std::string, std::vector<std::string>>
      removed;  ///< pointer of a section → keys that DeepSpeed took out
  std::map<std::string, Arguments>
      optimizers;  ///< DeepSpeed's in lower case, torch.optim's as torch has them
  std::map<std::string, Arguments> schedulers;  ///< DeepSpeed's and those of torch.optim.lr_scheduler
  std::map<std::string, std::vector<std::string>> required;  ///< scheduler → arguments without a default
  std::vector<std::string> auto_pointers;  ///< where the HF Trainer or accelerate fills "auto" in
};

[[nodiscard]] const DsKeys& ds_keys();

/// Returns the section at `pointer`, or null if that object is not checked.
[[nodiscard]] const DsSection* find_section(const DsKeys& keys, std::string_view pointer);

/// Returns the JSON name of a key that pydantic also takes by its Python name; else the key itself.
[[nodiscard]] std::string json_name(const DsSection& section, const std::string& key);

/// Returns the optimizer that `type` names. DeepSpeed ignores case for its own; torch's are spelled exactly.
[[nodiscard]] const Arguments* find_optimizer(const DsKeys& keys, const std::string& type);

/// True if the value is the text "auto".
[[nodiscard]] bool is_auto(const Json& value);
[[nodiscard]] bool is_auto(const JsonReader& value);

/// Returns a file of DeepSpeed's keys, releases and rules, which are compiled into the program: `name` is
/// "keys.json", "lint.json", …
[[nodiscard]] Json deepspeed_data(std::string_view name);

}  // namespace zplan
