#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

inline constexpr std::string_view kRecordedFormat = "zplan.model/1";

/// True if the document is a recorded model.
[[nodiscard]] bool is_recorded_model(const Json& document);

/// Reads a zplan.model/1 document: a model with its recorded micro-steps. The caller fills in `source` and
/// `origin`. Throws InputError, which names file and JSON pointer, for invalid documents.
[[nodiscard]] Model read_recorded_model(const JsonReader& document);

/// Returns the recorded model, of those compiled into the program, whose config agrees with `config`. Keys
/// that `config` leaves out, and those that change neither tensors nor operators, are not compared.
[[nodiscard]] std::optional<Model> recorded_model(const JsonReader& config);

/// An architecture with recorded models.
struct RecordedArchitecture {
  std::string name;        ///< model_type
  int sizes{};             ///< models whose tensors were recorded
  int sizes_with_steps{};  ///< those whose micro-steps were
};
/// Returns all of them, by name.
[[nodiscard]] std::vector<RecordedArchitecture> recorded_architectures();

}  // namespace zplan
