#pragma once
// Reads and checks JSON from outside. Errors name file and JSON pointer. Code that looks into a Json itself
// must include <nlohmann/json.hpp>, which is slow to compile and left out here.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.h"

namespace zplan {

using Json = nlohmann::ordered_json;

/// Parses JSON. Throws InputError, which names `source`, line and column, if the text is not JSON, is nested
/// deeper than 64 levels, has a duplicate key, or is larger than 64 MiB.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& source);

/// Returns the whole file. Throws InputError, which names it, if it cannot be read or is longer than
/// `limit_bytes`.
[[nodiscard]] std::string read_file(const std::string& path,
                                    std::int64_t limit_bytes = std::int64_t{64} << 20);

/// A place in a JSON document. Copying is cheap; the document must outlive it.
class JsonReader {
 public:
  JsonReader(const Json& root, std::string source) : value_(&root), source_(std::move(source)) {}

  [[nodiscard]] bool has(std::string_view key) const;       ///< present and not null
  [[nodiscard]] JsonReader at(std::string_view key) const;  ///< InputError where absent or null
  [[nodiscard]] std::optional<JsonReader> find(std::string_view key) const;  ///< nothing where absent or null
  [[nodiscard]] std::vector<JsonReader> items() const;                       ///< elements of an array
  [[nodiscard]] std::vector<std::string> keys() const;  ///< keys of an object, in file order

  [[nodiscard]] std::int64_t integer(std::int64_t low,
                                     std::int64_t high) const;  ///< whole number in [low, high]
  [[nodiscard]] double number(double low, double high) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string text() const;

  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                        std::int64_t high) const;
  [[nodiscard]] bool boolean_or(std::string_view key, bool fallback) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback) const;

  /// Throws InputError for the first key that is not in `known`, naming the nearest one that is.
  void only_keys(const std::vector<std::string>& known) const;

  /// Throws InputError for this place: "<file>#<pointer>: <found>; <accepted>".
  [[noreturn]] void fail(const std::string& found, const std::string& accepted) const;
  [[noreturn]] void fail_type(const std::string& accepted) const;  ///< found = this value, shortened

  [[nodiscard]] const Json& raw() const { return *value_; }
  [[nodiscard]] std::string place() const;

 private:
  JsonReader(const Json& value, std::string source, std::string pointer)
      : value_(&value), source_(std::move(source)), pointer_(std::move(pointer)) {}
  [[nodiscard]] JsonReader child(const Json& value, std::string_view step) const;

  const Json* value_;
  std::string source_;
  std::string pointer_;
};

/// Returns a document as it is printed and saved: indented, with a newline at the end. Replaces bytes that
/// are not UTF-8, which names of files may have.
[[nodiscard]] std::string json_text(const Json& json);

struct JsonPart {
  std::string_view key;    ///< of a member, as it is written; empty: an element
  std::string_view value;  ///< its text
};

/// Returns the members of an object or the elements of an array, in order, without reading what is in them: a
/// question needs little of a data file that is compiled in. Does not check that `text` is JSON.
[[nodiscard]] std::vector<JsonPart> json_parts(std::string_view text);
/// Returns the text of a member's value, empty if there is none.
[[nodiscard]] std::string_view json_member(std::string_view object, std::string_view key);
/// Returns the value of a JSON string's text.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace zplan
