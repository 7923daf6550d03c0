#pragma once
// What a file that was opened or dropped on the window is.

#include <string>

#include "cli/scenarios/scenarios.h"

namespace zplan::gui {

struct OpenedFile {
  enum class Kind {
    scenarios,    ///< zplan.scenarios/1
    report,       ///< saved with --json: zplan.report/1
    model,        ///< a config.json, or a folder with one
    ds_config,    ///< of DeepSpeed
    measurements  ///< what `zplan check` reads
  };
  Kind kind{};
  std::string path;
  ScenarioFile scenarios{};  ///< of a scenario file
};

/// Reads as much as tells what it is and that it can be used. Throws InputError naming file and place.
[[nodiscard]] OpenedFile open_file(const std::string& path);

/// A name for what comes from a file: "config.json" in "Llama-3-8B/" is called after its folder.
[[nodiscard]] std::string name_of_file(const std::string& path);

}  // namespace zplan::gui
