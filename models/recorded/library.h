#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// The recorded model whose config this is, of those compiled into the program: what is not said in `config`
/// is taken as the recorded one has it, and what changes neither tensors nor what runs is not compared.
[[nodiscard]] std::optional<Model> recorded_model(const JsonReader& config);

/// An architecture of which something was recorded.
struct RecordedArchitecture {
  std::string name;        ///< model_type
  int sizes{};             ///< models whose tensors were recorded
  int sizes_with_steps{};  ///< those whose micro-steps were
};
/// All there are, by name.
[[nodiscard]] std::vector<RecordedArchitecture> recorded_architectures();

}  // namespace zplan
