#pragma once
// Where the parts of a JSON text lie, without reading what is in them: of a data file that is compiled in a
// question needs little, and reading all of it would cost more than many an answer.

#include <string>
#include <string_view>
#include <vector>

namespace zplan {

struct JsonPart {
  std::string_view key;    ///< of a member, as it is written; empty: an element
  std::string_view value;  ///< its text
};

/// Members of an object or elements of an array, in order. `text` is JSON: this does not check it.
[[nodiscard]] std::vector<JsonPart> json_parts(std::string_view text);
/// The value of a member; empty where there is none.
[[nodiscard]] std::string_view json_member(std::string_view object, std::string_view key);
/// What the text of a JSON string says.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace zplan
