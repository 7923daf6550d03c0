#include "models/base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/names.h"

namespace zplan {

namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::int64_t kLargest = std::int64_t{64} << 20;

/// Line and column (from 1) of byte `offset`.
std::string line_and_column(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", line, offset - start + 1);
}

/// Follows a document without making values, for what nlohmann accepts silently: depth and keys that stand
/// twice. Its parser with a callback would look at all the values before an object at that object's end.
class Watch final : public Json::json_sax_t {
 public:
  explicit Watch(const std::string& source) : source_(source) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    throw InputError(source_, fmt::format("the key {} stands twice in one object", in_quotes(name)),
                     "accepted: each key once");
  }
  /// Ends the walk: whoever makes the values says what is wrong.
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool open() {
    if (open_.size() >= kDeepest)
      throw InputError(source_, fmt::format("nested deeper than {} levels", kDeepest),
                       "accepted: a flatter document");
    open_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& source_;
  std::vector<std::set<std::string>> open_;  ///< keys of the objects around; a list has none
};

/// Returns the text without the words that Python's json writes for floats outside of JSON. Infinity becomes
/// the largest number of as many characters; NaN is left out.
std::string without_bare_words(std::string_view text) {
  std::string made;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (!in_string && rest.starts_with("Infinity")) {
      made += "1.79e308", i += 7;
    } else if (!in_string && rest.starts_with("NaN")) {
      made += "null", i += 2;
    } else {
      if (text[i] == '"') in_string = !in_string;
      made += text[i];
      if (in_string && text[i] == '\\' && i + 1 < text.size()) made += text[++i];
    }
  }
  return made;
}

/// Parses JSON by RFC 8259: Infinity and NaN are errors.
Json parse_strictly(std::string_view text, const std::string& source) {
  Watch watch(source);
  Json::sax_parse(text, &watch);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::size_t offset = error.byte == 0 ? 0 : error.byte - 1;
    const bool ended = offset >= text.size();
    throw InputError(
        source,
        fmt::format("not JSON: {} at {}", ended ? "the text ends" : "unexpected text",
                    line_and_column(text, offset)),
        ended ? "accepted: a whole JSON document (is the file truncated?)" : "accepted: a JSON document");
  } catch (const Json::exception&) {
    throw InputError(source, "not JSON: a number that no 64-bit value can hold", "accepted: a JSON document");
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  if (static_cast<std::int64_t>(text.size()) > kLargest)
    throw InputError(source, fmt::format("{} bytes", text.size()), "accepted: JSON of at most 64 MiB");
  // nlohmann takes a NUL byte for the end of the text, and would not read the rest.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw InputError(source, fmt::format("not JSON: a NUL byte at {}", line_and_column(text, nul)),
                     "accepted: a JSON document");
  if (text.find("Infinity") == std::string_view::npos && text.find("NaN") == std::string_view::npos)
    return parse_strictly(text, source);
  return parse_strictly(without_bare_words(text), source);
}

std::string read_file(const std::string& path, std::int64_t limit_bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw InputError(path, "is a folder", "accepted: a file");
  if (fs::is_fifo(path, ignored) || fs::is_socket(path, ignored))
    throw InputError(path, "is a pipe or a socket", "accepted: a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path, std::strerror(errno), "accepted: a file that can be read");
  std::string text;
  std::string chunk(std::size_t{1} << 16, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(file.gcount()));
    if (static_cast<std::int64_t>(text.size()) > limit_bytes)
      throw InputError(path, fmt::format("is larger than {} bytes", limit_bytes), "accepted: a smaller file");
  }
  return text;
}

bool JsonReader::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  const auto it = value_->find(key);
  return it != value_->end() && !it->is_null();
}

JsonReader JsonReader::child(const Json& value, std::string_view step) const {
  return {value, source_, pointer_ + "/" + std::string(step)};
}

std::optional<JsonReader> JsonReader::find(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return child(*value_->find(key), key);
}

JsonReader JsonReader::at(std::string_view key) const {
  if (!value_->is_object()) fail_type("a JSON object");
  if (auto found = find(key)) return *found;
  fail(fmt::format("has no {}", in_quotes(key)), "this field is needed");
}

std::vector<JsonReader> JsonReader::items() const {
  if (!value_->is_array()) fail_type("a list");
  std::vector<JsonReader> out;
  for (std::size_t i = 0; i < value_->size(); ++i) out.push_back(child((*value_)[i], std::to_string(i)));
  return out;
}

std::vector<std::string> JsonReader::keys() const {
  if (!value_->is_object()) fail_type("a JSON object");
  std::vector<std::string> out;
  for (const auto& [key, value] : value_->items()) out.push_back(key);
  return out;
}

std::int64_t JsonReader::integer(std::int64_t low, std::int64_t high) const {
  const std::string accepted = fmt::format("a whole number from {} to {}", low, high);
  // 5e8 is how people write bucket sizes: a float with a whole value is a whole number.
  if (value_->is_number_float()) {
    const double given = value_->get<double>();
    // 2^63 itself is a double but no 64-bit integer, though static_cast<double>(INT64_MAX) is 2^63.
    constexpr double kTooLarge = 9223372036854775808.0;
    if (std::floor(given) != given || given < static_cast<double>(low) || given > static_cast<double>(high) ||
        given >= kTooLarge)
      fail_type(accepted);
    return static_cast<std::int64_t>(given);
  }
  if (!value_->is_number_integer()) fail_type(accepted);
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    fail_type(accepted);
  const auto given = value_->get<std::int64_t>();
  if (given < low || given > high) fail_type(accepted);
  return given;
}

double JsonReader::number(double low, double high) const {
  if (!value_->is_number()) fail_type(fmt::format("a number from {} to {}", low, high));
  const double given = value_->get<double>();
  if (!(given >= low && given <= high)) fail_type(fmt::format("a number from {} to {}", low, high));
  return given;
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

std::string JsonReader::text() const {
  if (!value_->is_string()) fail_type("a text in quotes");
  return value_->get<std::string>();
}

std::int64_t JsonReader::integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                    std::int64_t high) const {
  const auto found = find(key);
  return found ? found->integer(low, high) : fallback;
}

bool JsonReader::boolean_or(std::string_view key, bool fallback) const {
  const auto found = find(key);
  return found ? found->boolean() : fallback;
}

std::string JsonReader::text_or(std::string_view key, std::string_view fallback) const {
  const auto found = find(key);
  return found ? found->text() : std::string(fallback);
}

void JsonReader::only_keys(const std::vector<std::string>& known) const {
  for (const std::string& key : keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail(fmt::format("unknown key {}", in_quotes(key)), accepted_words(key, known));
  }
}

std::string JsonReader::place() const { return pointer_.empty() ? source_ : source_ + "#" + pointer_; }

void JsonReader::fail(const std::string& found, const std::string& accepted) const {
  throw InputError(place(), found, accepted);
}

void JsonReader::fail_type(const std::string& accepted) const {
  // A value may be a whole document: scalars are shown, the rest only named.
  const std::string shown = value_->is_structured() ? std::string("a JSON ") + value_->type_name()
                            : value_->is_string()   ? in_quotes(value_->get_ref<const std::string&>())
                                                    : value_->dump();
  throw InputError(place(), shown, "accepted: " + accepted);
}

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

/// Behind the string that begins at `at`.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

/// Behind the value that begins at `at`.
std::size_t behind_value(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = behind_string(text, at);
    } else {
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) return at;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at;
    }
    if (depth == 0 && (c == '"' || c == '}' || c == ']')) return at;
  }
  return at;
}

}  // namespace

std::vector<JsonPart> json_parts(std::string_view text) {
  std::vector<JsonPart> parts;
  std::size_t at = skip_space(text, 0);
  if (at == text.size()) return parts;
  const bool has_keys = text[at] == '{';
  for (at = skip_space(text, at + 1); at < text.size() && text[at] != '}' && text[at] != ']';) {
    JsonPart part;
    if (has_keys) {
      const std::size_t end = behind_string(text, at);
      part.key = text.substr(at + 1, end - at - 2);
      at = skip_space(text, std::min(text.find(':', end), text.size() - 1) + 1);
    }
    const std::size_t end = behind_value(text, at);
    part.value = text.substr(at, end - at);
    parts.push_back(part);
    at = skip_space(text, end);
    if (at < text.size() && text[at] == ',') at = skip_space(text, at + 1);
  }
  return parts;
}

std::string_view json_member(std::string_view object, std::string_view key) {
  for (const JsonPart& each : json_parts(object))
    if (each.key == key) return each.value;
  return {};
}

std::string json_string(std::string_view text) {
  if (text.find('\\') != std::string_view::npos) return nlohmann::json::parse(text).get<std::string>();
  return std::string(text.substr(1, text.size() - 2));
}

}  // namespace zplan
