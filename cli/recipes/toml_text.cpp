#include "cli/recipes/toml_text.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "models/base/error.h"

namespace zplan {

namespace {

constexpr std::size_t kMostValues = 100'000;

/// Makes a tree of toml++'s, whose places are lines and columns from 1, in characters.
class TomlTree {
 public:
  TomlTree(std::string_view text, const std::string& file) : text_(text), file_(file) {
    lines_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') lines_.push_back(i + 1);
  }

  RecipeValue value(const toml::node& node) {
    RecipeValue made;
    made.line = std::max<std::size_t>(1, node.source().begin.line);
    made.last_line = std::max<std::size_t>(made.line, node.source().end.line);
    made.span = {byte(node.source().begin), byte(node.source().end)};
    if (++values_ > kMostValues)
      throw InputError(fmt::format("{}:{}", file_, made.line), "too many values",
                       "accepted: a file with fewer");
    if (const toml::table* table = node.as_table()) {
      made.kind = RecipeKind::map;
      for (const auto& [key, each] : *table) {
        made.entries.push_back({.key = std::string(key.str()),
                                .line = std::max<std::size_t>(1, key.source().begin.line),
                                .key_span = {byte(key.source().begin), byte(key.source().end)},
                                .value = value(each)});
        made.last_line = std::max(made.last_line, made.entries.back().value.last_line);
      }
      std::ranges::sort(made.entries, {}, [](const RecipeEntry& each) { return each.key_span.begin; });
      return made;
    }
    if (const toml::array* array = node.as_array()) {
      made.kind = RecipeKind::list;
      for (const toml::node& each : *array) made.items.push_back(value(each));
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
  [[nodiscard]] std::size_t byte(const toml::source_position& place) const {
    if (place.line == 0 || place.line > lines_.size()) return 0;
    std::size_t at = lines_[place.line - 1];
    for (std::size_t column = 1; column < place.column && at < text_.size(); ++column) do
        ++at;
      while (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0U) == 0x80U);
    return at;
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<std::size_t> lines_;  ///< where each begins
  std::size_t values_{};
};

}  // namespace

RecipeValue toml_document(std::string_view text, const std::string& file) {
  try {
    const toml::table document = toml::parse(text, file);
    return TomlTree(text, file).value(document);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}:{}", file, std::max<std::size_t>(1, error.source().begin.line)),
                     fmt::format("not TOML: {}", error.description()), "accepted: TOML 1.0");
  }
}

}  // namespace zplan
