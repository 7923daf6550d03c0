#include "cli/recipes/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "models/base/error.h"

// toml++ 3.3 asserts, and in optimised builds assumes, what texts that are not TOML break: that a character
// which may be a name follows "[". Here it throws instead, in every build.
namespace zplan {
namespace {
struct BrokenAssumption {};
constexpr void assume(bool holds) {
  if (!holds) throw BrokenAssumption();
}
}  // namespace
}  // namespace zplan
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(holds) zplan::assume(static_cast<bool>(holds))
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace zplan {

namespace {

constexpr std::size_t kMostValues = 100'000, kMostParts = 16, kMostLevels = 64;
constexpr std::string_view kMark = "\xEF\xBB\xBF";  ///< of byte order

/// Returns the end of the string that begins at `at`, or of the text.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view marks = text.substr(at, 3);
  const std::size_t length = marks.size() == 3 && marks[1] == quote && marks[2] == quote ? 3 : 1;
  for (at += length; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (length == 1 && text[at] == '\n')
      return at;
    else if (text[at] == quote && text.substr(at, length) == marks.substr(0, length)) {
      at += length;  // a text of several lines may end with two quotes of its own
      for (std::size_t own = 0; length == 3 && own < 2 && at < text.size() && text[at] == quote; ++own) ++at;
      return at;
    }
  }
  return text.size();
}

/// Throws InputError for what toml++ does not stand: a dotted key of many parts, each of which makes a table
/// within the one before, removed by as many calls within calls; and a letter outside of ASCII where a key or
/// a value begins, of which it does not know whether it is a blank (undefined behaviour in 3.3).
void check_keys(std::string_view text, const std::string& file) {
  constexpr std::string_view kOfKeys = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_- \t";
  std::size_t line = 1, parts = 1;
  for (std::size_t at = text.starts_with(kMark) ? kMark.size() : 0; at < text.size();) {
    const char each = text[at];
    if (static_cast<unsigned char>(each) >= 0x80U)
      throw InputError(fmt::format("{}:{}", file, line),
                       "not TOML: a character outside of ASCII, and no quotes", "accepted: TOML 1.0");
    if (each == '"' || each == '\'') {
      const std::size_t end = end_of_string(text, at);
      line += static_cast<std::size_t>(std::count(text.begin() + at, text.begin() + end, '\n'));
      at = end;
      continue;
    }
    if (each == '.')
      ++parts;
    else if (kOfKeys.find(each) == std::string_view::npos)
      parts = 1;
    if (parts > kMostParts)
      throw InputError(fmt::format("{}:{}", file, line), "a key of too many parts",
                       fmt::format("accepted: up to {}", kMostParts));
    if (each == '\n') ++line;
    at = each == '#' ? std::min(text.find('\n', at), text.size()) : at + 1;
  }
}

/// Makes a tree of toml++'s, whose places are lines and columns from 1, in characters.
class TomlTree {
 public:
  TomlTree(std::string_view text, const std::string& file) : text_(text), file_(file) {
    lines_.push_back(0);
    // toml++ does not count the mark.
    for (std::size_t i = text.starts_with(kMark) ? kMark.size() : 0; i < text.size(); ++i) {
      if (!begins_character(i)) continue;
      if (characters_ % kEvery == 0) marks_.push_back(i);
      ++characters_;
      if (text[i] == '\n') lines_.push_back(characters_);
    }
  }

  RecipeValue value(const toml::node& node, std::size_t level = 0) {
    RecipeValue made;
    made.line = std::max<std::size_t>(1, node.source().begin.line);
    made.last_line = std::max<std::size_t>(made.line, node.source().end.line);
    made.span = {byte(node.source().begin), byte(node.source().end)};
    if (++values_ > kMostValues)
      throw InputError(fmt::format("{}:{}", file_, made.line), "too many values",
                       "accepted: a file with fewer");
    if (level > kMostLevels)
      throw InputError(fmt::format("{}:{}", file_, made.line), "too many levels",
                       fmt::format("accepted: up to {}", kMostLevels));
    if (const toml::table* table = node.as_table()) {
      made.kind = RecipeKind::map;
      for (const auto& [key, each] : *table) {
        made.entries.push_back({.key = std::string(key.str()),
                                .line = std::max<std::size_t>(1, key.source().begin.line),
                                .key_span = {byte(key.source().begin), byte(key.source().end)},
                                .value = value(each, level + 1)});
        made.last_line = std::max(made.last_line, made.entries.back().value.last_line);
      }
      std::ranges::sort(made.entries, {}, [](const RecipeEntry& each) { return each.key_span.begin; });
      return made;
    }
    if (const toml::array* array = node.as_array()) {
      made.kind = RecipeKind::list;
      for (const toml::node& each : *array) made.items.push_back(value(each, level + 1));
      return made;
    }
    made.kind = RecipeKind::scalar;
    if (const auto* text = node.as_string())
      made.text = text->get(), made.quoted = true;
    else if (const auto* number = node.as_integer())
      made.text = std::to_string(number->get());
    else
      made.text = std::string(text_.substr(made.span.begin, made.span.end - made.span.begin));
    if (node.is_floating_point()) std::erase(made.text, '_');
    return made;
  }

 private:
  static constexpr std::size_t kEvery = 64;

  [[nodiscard]] bool begins_character(std::size_t at) const {
    return (static_cast<unsigned char>(text_[at]) & 0xC0U) != 0x80U;
  }
  [[nodiscard]] std::size_t byte(const toml::source_position& place) const {
    if (place.line == 0 || place.column == 0 || place.line > lines_.size()) return 0;
    const std::size_t wanted = lines_[place.line - 1] + place.column - 1;
    if (wanted >= characters_) return text_.size();
    std::size_t at = marks_[wanted / kEvery];
    for (std::size_t left = wanted % kEvery; left > 0; --left) do
        ++at;
      while (!begins_character(at));
    return at;
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<std::size_t> lines_;  ///< the number of the character with which each begins
  std::vector<std::size_t> marks_;  ///< where every kEvery-th character begins
  std::size_t characters_{};
  std::size_t values_{};
};

/// True if toml++ assumes of the text's first `lines` lines what does not hold.
bool breaks_assumption(std::string_view text, std::size_t lines) {
  std::size_t end = 0;
  for (; lines > 0 && end < text.size(); --lines) end = std::min(text.find('\n', end), text.size() - 1) + 1;
  try {
    static_cast<void>(toml::parse(text.substr(0, end)));
  } catch (const toml::parse_error&) {
    return false;
  } catch (const BrokenAssumption&) {
    return true;
  }
  return false;
}

/// Returns the line, from 1, at which toml++ assumes what does not hold.
std::size_t line_of_assumption(std::string_view text) {
  std::size_t holds = 0, breaks = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  while (breaks - holds > 1) {
    const std::size_t middle = holds + (breaks - holds) / 2;
    (breaks_assumption(text, middle) ? breaks : holds) = middle;
  }
  return breaks;
}

}  // namespace

RecipeValue toml_document(std::string_view text, const std::string& file) {
  check_keys(text, file);
  try {
    const toml::table document = toml::parse(text, file);
    return TomlTree(text, file).value(document);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}:{}", file, std::max<std::size_t>(1, error.source().begin.line)),
                     fmt::format("not TOML: {}", error.description()), "accepted: TOML 1.0");
  } catch (const BrokenAssumption&) {
    throw InputError(fmt::format("{}:{}", file, line_of_assumption(text)), "not TOML", "accepted: TOML 1.0");
  }
}

}  // namespace zplan
