#include "models/base/json_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "models/base/names.h"

namespace zplan {

namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostKeys = 100'000;  // of one object
constexpr std::int64_t kLargest = std::int64_t{64} << 20;

/// Line and column (from 1) of byte `offset`.
std::string line_and_column(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", line, offset - start + 1);
}

/// Makes a document's values, and refuses what nlohmann accepts silently: depth, and keys that stand twice.
/// Its own maker compares each key with all before it, which takes the square of an object's keys, and with a
/// callback the square of a list's objects.
class Maker final : public Json::json_sax_t {
 public:
  explicit Maker(const std::string& source) : source_(source) {}

  [[nodiscard]] Json& document() { return document_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override {
    check_keys(members(*open_.back()));
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    Members& all = members(*open_.back());
    if (all.size() >= kMostKeys)
      throw InputError(source_, fmt::format("an object of more than {} keys", kMostKeys), "accepted: fewer");
    all.emplace_back(std::move(name), nullptr);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    if (const auto* broken = dynamic_cast<const Json::parse_error*>(&error)) throw *broken;
    throw InputError(source_, "not JSON: a number that no 64-bit value can hold",
                     "accepted: a JSON document");
  }

 private:
  using Members = Json::object_t::Container;
  static Members& members(Json& object) { return *object.get_ptr<Json::object_t*>(); }

  /// Puts the value behind the last key, or at the end of a list, or makes it the document.
  Json& put(Json value) {
    if (open_.empty()) return document_ = std::move(value);
    Json& around = *open_.back();
    if (around.is_object()) return members(around).back().second = std::move(value);
    Json::array_t& list = *around.get_ptr<Json::array_t*>();
    return list.emplace_back(std::move(value));
  }
  bool add(Json value) {
    put(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kDeepest)
      throw InputError(source_, fmt::format("nested deeper than {} levels", kDeepest),
                       "accepted: a flatter document");
    open_.push_back(&put(std::move(value)));
    return true;
  }
  void check_keys(const Members& all) {
    names_.assign(all.size(), {});
    std::transform(all.begin(), all.end(), names_.begin(),
                   [](const auto& each) { return std::string_view(each.first); });
    std::sort(names_.begin(), names_.end());
    if (const auto twice = std::adjacent_find(names_.begin(), names_.end()); twice != names_.end())
      throw InputError(source_, fmt::format("the key {} stands twice in one object", in_quotes(*twice)),
                       "accepted: each key once");
  }

  const std::string& source_;
  Json document_;
  std::vector<Json*>
      open_;  ///< the objects and lists around; what is around does not move while they are open
  std::vector<std::string_view> names_;
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
  Maker maker(source);
  try {
    Json::sax_parse(text, &maker);
    return std::move(maker.document());
  } catch (const Json::parse_error& error) {
    const std::size_t offset = error.byte == 0 ? 0 : error.byte - 1;
    const bool ended = offset >= text.size();
    throw InputError(
        source,
        fmt::format("not JSON: {} at {}", ended ? "the text ends" : "unexpected text",
                    line_and_column(text, offset)),
        ended ? "accepted: a whole JSON document (is the file truncated?)" : "accepted: a JSON document");
  }
}

/// A file open for reading. What is open is judged, not its name, which may mean another file a moment later;
/// and opening a pipe does not wait for a writer.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
    if (file_ < 0) fail(errno == ENXIO ? "is a pipe or a socket" : std::strerror(errno));
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Returns what it is, where that is no file with an end, and its size in bytes.
  [[nodiscard]] std::pair<std::string_view, std::int64_t> kind_and_size() const {
    struct stat about {};
    if (::fstat(file_, &about) != 0) fail(std::strerror(errno));
    if (S_ISDIR(about.st_mode)) return {"is a folder", 0};
    if (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode)) return {"is a pipe or a socket", 0};
    if (!S_ISREG(about.st_mode)) return {"is a device", 0};
    return {"", about.st_size};
  }
  /// Fills `chunk` from its begin. Returns the number of bytes; 0 at the end.
  [[nodiscard]] std::size_t read(std::string& chunk) const {
    ssize_t count = 0;
    do {
      count = ::read(file_, chunk.data(), chunk.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) fail(std::strerror(errno));
    return static_cast<std::size_t>(count);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(path_, why, "accepted: a file that can be read");
  }

  const std::string& path_;
  int file_;
};

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
  const OpenFile file(path);
  const auto [kind, size] = file.kind_and_size();
  if (!kind.empty()) throw InputError(path, std::string(kind), "accepted: a file");
  const auto check = [&](std::int64_t bytes) {
    if (bytes > limit_bytes)
      throw InputError(path, fmt::format("is larger than {} bytes", limit_bytes), "accepted: a smaller file");
  };
  check(size);
  std::string text;
  std::string chunk(std::size_t{1} << 16, '\0');
  while (const std::size_t count = file.read(chunk)) {  // files of the kernel's have no size, and files grow
    text.append(chunk, 0, count);
    check(static_cast<std::int64_t>(text.size()));
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
