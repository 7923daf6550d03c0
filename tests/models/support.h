#pragma once
// Reference files, and models read from JSON, for the tests of this folder.

#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/inventory.h"
#include "models/model.h"

namespace zplan::test {

/// A JSON file below tests/.
[[nodiscard]] Json test_data(const std::string& path);
/// A model from a config.json's content.
[[nodiscard]] Model model_of(const Json& config);
[[nodiscard]] Model model_of(const char* config);
/// The message of the InputError that reading `config` ends in; empty where it does not.
[[nodiscard]] std::string message_of(const std::string& config);
/// Characters of a test's name: letters and digits only.
[[nodiscard]] std::string test_name(const std::string& text);
/// The tensor called `name`, with {} for the layer's number.
[[nodiscard]] const Tensor& tensor_named(const Inventory& inventory, const std::string& name);

/// A model of parameter_counts.json.
struct Counted {
  std::string name;
  Json row;
};
[[nodiscard]] const std::vector<Counted>& counted_models();
[[nodiscard]] Model model_of(const Counted& counted);

}  // namespace zplan::test
