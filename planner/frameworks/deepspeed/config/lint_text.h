#pragma once
// The text of a ds_config with the place of every key and value, read as leniently as people write.

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

/// A stretch of a text, in bytes.
struct Span {
  std::size_t begin{}, end{};
  [[nodiscard]] bool operator==(const Span&) const = default;
};

/// Replaces a stretch of a text.
struct TextEdit {
  Span span;
  std::string text;
};

/// One "key": value of an object.
struct TextMember {
  std::string key;
  Span key_span, value_span;
};

/// Text that is not JSON, but that people write in a ds_config.
enum class FlawKind { comment, trailing_comma, byte_order_mark, duplicate_key, not_finite };

struct TextFlaw {
  FlawKind kind{};
  Span span;
  std::string pointer;  ///< of the member or value; of a comment the object it stands in
};

/// A document and where everything in it stands. Pointers are JSON pointers (RFC 6901).
struct DsText {
  std::string text;
  Json document;                       ///< of duplicate keys the last counts
  std::map<std::string, Span> values;  ///< pointer → where the value stands
  std::map<std::string, Span> keys;    ///< pointer → where its key stands, with the quotes
  std::map<std::string, std::vector<TextMember>> objects;  ///< pointer of an object → members as written
  std::vector<TextFlaw> flaws;
};

/// Reads JSON with comments, trailing commas, keys that stand twice, NaN and infinities (which become 0).
/// Throws InputError naming `source` with line and column for any other text.
[[nodiscard]] DsText read_ds_text(std::string_view text, const std::string& source);

/// Line and column of a byte, from 1; columns are code points.
struct LineColumn {
  int line{1}, column{1};
  [[nodiscard]] bool operator==(const LineColumn&) const = default;
};
[[nodiscard]] LineColumn line_and_column(std::string_view text, std::size_t offset);

/// Places in one text. Asked in ascending order, it walks over the text once. The text must outlive it.
class TextPlaces {
 public:
  explicit TextPlaces(std::string_view text) : text_(text) {}
  /// The line and column of a byte.
  [[nodiscard]] LineColumn of(std::size_t offset);

 private:
  std::string_view text_;
  std::size_t reached_{};
  LineColumn place_;
};

/// `key` as a step of a JSON pointer.
[[nodiscard]] std::string pointer_step(std::string_view key);

/// Edits that take a member out of its object, or give it another key. The pointer must exist.
[[nodiscard]] std::vector<TextEdit> remove_member(const DsText& ds, const std::string& pointer);
[[nodiscard]] std::vector<TextEdit> rename_member(const DsText& ds, const std::string& pointer,
                                                  std::string_view key);
/// Edit that writes `json` as the value of `key` in the object at `pointer`: over the value there, or as a
/// new last member, indented as the others.
[[nodiscard]] std::vector<TextEdit> set_member(const DsText& ds, const std::string& pointer,
                                               const std::string& key, const std::string& json);
/// Edit that writes `json` over the value at `pointer`, which must exist.
[[nodiscard]] std::vector<TextEdit> replace_value(const DsText& ds, const std::string& pointer,
                                                  const std::string& json);

/// The text with the edits made. Edits that overlap one before them are left out.
[[nodiscard]] std::string edited(const std::string& text, std::vector<TextEdit> edits);

}  // namespace zplan
