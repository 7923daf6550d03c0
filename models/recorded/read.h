#pragma once

#include <string_view>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

inline constexpr std::string_view kRecordedFormat = "zplan.model/1";

/// Whether the document says that it is a recorded model.
[[nodiscard]] bool is_recorded_model(const Json& document);

/// A zplan.model/1 document → the model with its recorded micro-steps. Unset `source` and `origin` are the
/// caller's to fill. Throws InputError naming file and JSON pointer for whatever such a document cannot hold.
[[nodiscard]] Model read_recorded_model(const JsonReader& document);

}  // namespace zplan
