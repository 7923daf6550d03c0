#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/recipes/recipe_text.h"
#include "models/base/error.h"

namespace zplan {

namespace {

struct ShellWord {
  std::string text;
  std::size_t line{};
  Span span;
};
using ShellCommand = std::vector<ShellWord>;

/// Words of one command, line ends behind a backslash included.
class ShellReader {
 public:
  explicit ShellReader(std::string_view text) : text_(text) {}

  std::vector<ShellCommand> commands() {
    std::vector<ShellCommand> all(1);
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        at_ += 2, ++line_;
      } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
        if (c == '\n') ++line_;
        ++at_;
        if (!all.back().empty()) all.emplace_back();
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else {
        all.back().push_back(word());
      }
    }
    return all;
  }
  /// The line on which a quote begins that nothing closes.
  [[nodiscard]] std::optional<std::size_t> open_quote() const { return open_quote_; }

 private:
  ShellWord word() {
    ShellWord made{.text = {}, .line = line_, .span = {at_, at_}};
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        quoted(c, made.text);
      } else if (c == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] == '\n') break;
        made.text += text_[at_ + 1];
        at_ += 2;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == ';' || c == '&' || c == '|') {
        break;
      } else {
        made.text += c;
        ++at_;
      }
    }
    made.span.end = at_;
    return made;
  }

  void quoted(char quote, std::string& into) {
    const std::size_t line = line_;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      into += text_[at_];
    }
    if (at_ >= text_.size())
      open_quote_ = line;
    else
      ++at_;
  }

  std::string_view text_;
  std::size_t at_{}, line_{1};
  std::optional<std::size_t> open_quote_;
};

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

RecipeValue scalar_of(const ShellWord& word) {
  RecipeValue value;
  value.kind = word.text.empty() ? RecipeKind::nothing : RecipeKind::scalar;
  value.text = word.text, value.line = value.last_line = word.line, value.span = word.span;
  value.quoted = true;
  return value;
}

/// Returns a flag's value: true without a word, a list for several words.
RecipeValue value_of(const std::vector<ShellWord>& words, const ShellWord& flag) {
  if (words.size() == 1) return scalar_of(words.front());
  RecipeValue value;
  value.line = value.last_line = flag.line, value.span = {flag.span.end, flag.span.end};
  if (words.empty()) {
    value.kind = RecipeKind::scalar, value.text = "true";
    return value;
  }
  value.kind = RecipeKind::list;
  for (const ShellWord& each : words) value.items.push_back(scalar_of(each));
  value.span = {words.front().span.begin, words.back().span.end};
  value.last_line = words.back().line;
  return value;
}

/// Adds a flag; the last of equal flags counts, as in argparse.
void put(RecipeValue& flags, RecipeEntry entry) {
  std::erase_if(flags.entries, [&](const RecipeEntry& each) { return each.key == entry.key; });
  flags.entries.push_back(std::move(entry));
}

std::string key_of(std::string_view flag) {
  std::string key(flag.substr(2));
  std::ranges::replace(key, '-', '_');
  return key;
}

ShellFlags flags_of(const ShellCommand& words) {
  ShellFlags made;
  made.flags.kind = RecipeKind::map;
  std::size_t i = 0;
  for (; i < words.size() && !is_flag(words[i].text); ++i) {
    const std::size_t equals = words[i].text.find('=');
    if (made.command.empty() && equals != std::string::npos && equals > 0) {
      ShellWord value = words[i];
      value.text = words[i].text.substr(equals + 1);
      value.span.begin += equals + 1;
      put(made.flags, {words[i].text.substr(0, equals), words[i].line, words[i].span, scalar_of(value)});
    } else {
      if (made.command.empty()) made.line = words[i].line;
      made.command.push_back(words[i].text);
    }
  }
  while (i < words.size()) {
    const ShellWord& flag = words[i++];
    std::vector<ShellWord> values;
    const std::size_t equals = flag.text.find('=');
    if (equals != std::string::npos) {
      values.push_back(
          {flag.text.substr(equals + 1), flag.line, {flag.span.begin + equals + 1, flag.span.end}});
    } else {
      while (i < words.size() && !is_flag(words[i].text)) values.push_back(words[i++]);
    }
    put(made.flags, {key_of(flag.text.substr(0, equals)), flag.line, flag.span, value_of(values, flag)});
  }
  return made;
}

/// A command has a word in front of its flags; "- --x" of a list in YAML has none that names a program.
bool has_flags(const ShellCommand& words) {
  return words.size() > 1 && !is_flag(words.front().text) && words.front().text != "-" &&
         !words.front().text.ends_with(':') &&
         std::ranges::any_of(words, [](const ShellWord& each) { return is_flag(each.text); });
}

/// YAML's documents begin so, and its entries have a colon.
bool looks_like_yaml(const ShellCommand& words) {
  return words.empty() || words.front().text == "---" || words.front().text.ends_with(':');
}

}  // namespace

std::optional<ShellFlags> shell_flags(std::string_view text, const std::string& file) {
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return std::nullopt;
  ShellReader reader(text);
  const std::vector<ShellCommand> all = reader.commands();
  if (!all.empty() && looks_like_yaml(all.front()) && !file.ends_with(".sh")) return std::nullopt;
  const auto last = std::find_if(all.rbegin(), all.rend(), has_flags);
  if (last == all.rend()) return std::nullopt;
  if (const auto line = reader.open_quote())
    throw InputError(fmt::format("{}:{}", file, *line), "a quote that nothing closes",
                     "accepted: flags of a command");
  return flags_of(*last);
}

}  // namespace zplan
