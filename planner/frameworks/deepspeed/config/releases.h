#pragma once
// Keys of DeepSpeed's releases before the newest, as data (releases.json, recorded from the releases
// themselves).

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/question/strategy.h"

namespace zplan {

/// A key of a ds_config that not every release knows, or whose default changed.
struct KeyHistory {
  struct Default {
    DeepSpeedRelease since;
    Json value;
  };
  std::string pointer;                    ///< "/zero_optimization/offload_param/pin_memory"
  std::optional<DeepSpeedRelease> since;  ///< absent: every release knows it
  std::vector<Default> defaults;          ///< oldest first; empty: always the same
};
[[nodiscard]] const std::vector<KeyHistory>& key_histories();

/// The norm that gradients are clipped to where a config has no gradient_clipping; 0: they are not.
[[nodiscard]] double default_clipping(DeepSpeedRelease release);

/// Every release that was recorded, oldest first.
[[nodiscard]] const std::vector<DeepSpeedRelease>& known_releases();

/// "0.18.3", or "0.18" for the last release of that line. Throws InputError naming `place` for any other
/// text.
[[nodiscard]] DeepSpeedRelease parse_release(const std::string& place, std::string_view text);

/// Makes a config of the newest release one of `release`: keys that it does not know are taken out, and where
/// its default is another one the newest default is written. One sentence for each key that is lost.
[[nodiscard]] std::vector<std::string> fit_to_release(Json& config, DeepSpeedRelease release);

}  // namespace zplan
