#include "cli/recipes/recipe_text.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/recipes/toml_text.h"
#include "models/base/error.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

constexpr std::size_t kMostNodes = 100'000, kDeepest = 64;
constexpr std::size_t kMostKeys = 4096;                   ///< of one section
constexpr std::size_t kMostText = std::size_t{64} << 20;  ///< of scalars and keys, aliases written out

// Plain numbers, as PyYAML resolves them. Source: PyYAML 6 resolver.py, constructor.py construct_yaml_int.

bool all_of(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

/// Digits of a base, with underscores among them, as a number; nothing where it has others or is too large.
std::optional<std::int64_t> digits(std::string text, std::string_view allowed, int base) {
  if (!all_of(text, std::string(allowed) + "_")) return std::nullopt;
  std::erase(text, '_');
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

/// "1:30" is 90: groups of sixty behind the first.
std::optional<std::int64_t> sexagesimal(const std::string& text) {
  std::int64_t number = 0;
  std::istringstream groups(text);
  bool is_first = true;
  for (std::string group; std::getline(groups, group, ':'); is_first = false) {
    const auto value = digits(group, "0123456789", 10);
    if (!value || *value > (is_first ? 1'000'000'000 : 59) || number > 1'000'000'000'000) return std::nullopt;
    if (is_first ? group.front() == '0' : group.size() > 2 || group.find('_') != std::string::npos)
      return std::nullopt;
    number = number * 60 + *value;
  }
  return number;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  constexpr std::string_view kDecimal = "0123456789";
  if (text.starts_with("0b")) return digits(text.substr(2), "01", 2);
  if (text.starts_with("0x")) return digits(text.substr(2), "0123456789abcdefABCDEF", 16);
  if (text.size() > 1 && text.front() == '0') return digits(text, "01234567", 8);
  if (text.find(':') != std::string::npos) return text.ends_with(':') ? std::nullopt : sexagesimal(text);
  return digits(text, kDecimal, 10);
}

/// "1_000.5", whose underscores mean nothing; a number without a point is none.
bool is_fraction(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return false;
  const std::string_view whole = text.substr(0, point);
  std::string_view rest = text.substr(point + 1);
  if (const std::size_t e = rest.find_first_of("eE"); e != std::string_view::npos) {
    const std::string_view power = rest.substr(e + 1);
    if (power.size() < 2 || (power.front() != '+' && power.front() != '-') ||
        !all_of(power.substr(1), "0123456789"))
      return false;
    rest = rest.substr(0, e);
  }
  const bool has_digit = !whole.empty() || !rest.empty();
  return has_digit && !whole.starts_with('_') && all_of(whole, "0123456789_") && all_of(rest, "0123456789_");
}

/// The plain scalar as its number is usually written: 500_000 as 500000, 0x10 as 16. Other text stays.
std::string usual_number(std::string text) {
  if (text.empty() || text.find_first_of("0123456789") == std::string::npos) return text;
  const bool is_signed = text.front() == '-' || text.front() == '+';
  const std::string bare = text.substr(is_signed ? 1 : 0);
  if (bare.empty() || bare.front() == '_') return text;
  const std::string sign = text.front() == '-' ? "-" : "";
  if (const auto number = whole_number(bare)) return sign + std::to_string(*number);
  if (is_fraction(bare)) std::erase(text, '_');
  return text;
}

/// libyaml's events of one document, turned into a tree.
class YamlTree {
 public:
  YamlTree(std::string_view text, const std::string& file) : file_(file) {
    if (yaml_parser_initialize(&parser_) == 0) throw InputError(file, "no memory to read it", "");
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    // libyaml takes a byte order mark for a column of the first line.
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    const std::size_t begin = text.starts_with(kMark) ? kMark.size() : 0;
    // Marks count characters, edits bytes.
    for (std::size_t i = begin; i < text.size(); ++i)
      if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) bytes_.push_back(i);
    bytes_.push_back(text.size());
    text.remove_prefix(begin);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~YamlTree() { yaml_parser_delete(&parser_); }
  YamlTree(const YamlTree&) = delete;
  YamlTree& operator=(const YamlTree&) = delete;

  [[nodiscard]] const std::vector<RepeatedKey>& repeated() const { return repeated_; }

  RecipeValue document() {
    expect(next(), YAML_STREAM_START_EVENT);
    const Event first = next();
    if (first->type == YAML_STREAM_END_EVENT) return {};
    RecipeValue root = value(next(), 0);
    expect(next(), YAML_DOCUMENT_END_EVENT);
    if (const Event after = next(); after->type != YAML_STREAM_END_EVENT)
      fail(line_of(after->start_mark), "a second document", "accepted: one");
    return root;
  }

 private:
  struct Deleter {
    void operator()(yaml_event_t* event) const {
      yaml_event_delete(event);
      delete event;
    }
  };
  using Event = std::unique_ptr<yaml_event_t, Deleter>;
  /// Counts values, and bytes of their text.
  struct Size {
    std::size_t nodes{}, text{};
  };

  static std::size_t line_of(const yaml_mark_t& mark) { return mark.line + 1; }
  static std::string text_of(const yaml_char_t* text) { return reinterpret_cast<const char*>(text); }
  [[nodiscard]] Span span_of(const yaml_event_t& event) const {
    return {byte(event.start_mark.index), byte(event.end_mark.index)};
  }
  [[nodiscard]] std::size_t byte(std::size_t character) const {
    return bytes_.at(std::min(character, bytes_.size() - 1));
  }

  [[noreturn]] void fail(std::size_t line, const std::string& found, const std::string& accepted) const {
    throw InputError(fmt::format("{}:{}", file_, line), found, accepted);
  }

  Event next() {
    auto event = std::make_unique<yaml_event_t>();
    if (yaml_parser_parse(&parser_, event.get()) == 0)
      fail(line_of(parser_.problem_mark),
           fmt::format("not YAML: {}", parser_.problem != nullptr ? parser_.problem : "unreadable"),
           "accepted: YAML or JSON");
    return Event(event.release());
  }

  void expect(const Event& event, yaml_event_type_t type) const {
    if (event->type != type) fail(line_of(event->start_mark), "not YAML", "accepted: YAML or JSON");
  }

  RecipeValue value(const Event& event, std::size_t depth) {
    const Size before = size_;
    count(1, depth, line_of(event->start_mark));
    RecipeValue made;
    made.line = made.last_line = line_of(event->start_mark);
    made.span = span_of(*event);
    switch (event->type) {
      case YAML_SCALAR_EVENT:
        scalar(*event, made);
        count_text(made.text.size(), made.line);
        return remembered(event->data.scalar.anchor, made, before);
      case YAML_SEQUENCE_START_EVENT:
        made.kind = RecipeKind::list;
        list(made, depth);
        return remembered(event->data.sequence_start.anchor, made, before);
      case YAML_MAPPING_START_EVENT:
        made.kind = RecipeKind::map;
        map(made, depth);
        return remembered(event->data.mapping_start.anchor, made, before);
      case YAML_ALIAS_EVENT: return anchored(*event, depth);
      default: fail(made.line, "not YAML", "accepted: YAML or JSON");
    }
  }

  static void scalar(const yaml_event_t& event, RecipeValue& made) {
    const auto& from = event.data.scalar;
    made.text.assign(reinterpret_cast<const char*>(from.value), from.length);
    const std::string tag = from.tag != nullptr ? text_of(from.tag) : std::string();
    made.quoted = from.style != YAML_PLAIN_SCALAR_STYLE || tag == YAML_STR_TAG || tag == "!";
    // A block scalar ends behind its last line's end.
    made.last_line = event.end_mark.line + (event.end_mark.column == 0 ? 0 : 1);
    made.last_line = std::max(made.last_line, made.line);
    const bool null = !made.quoted && (made.text.empty() || made.text == "~" || made.text == "null" ||
                                       made.text == "Null" || made.text == "NULL");
    made.kind = null ? RecipeKind::nothing : RecipeKind::scalar;
    if (null) made.text.clear();
    if (!made.quoted) made.text = usual_number(std::move(made.text));
  }

  void list(RecipeValue& made, std::size_t depth) {
    Event each = next();
    for (; each->type != YAML_SEQUENCE_END_EVENT; each = next()) made.items.push_back(value(each, depth + 1));
    made.span.end = byte(each->end_mark.index);
    if (!made.items.empty()) made.last_line = made.items.back().last_line;
  }

  void map(RecipeValue& made, std::size_t depth) {
    std::vector<RecipeEntry> merged;
    Event each = next();
    for (; each->type != YAML_MAPPING_END_EVENT; each = next()) {
      if (each->type != YAML_SCALAR_EVENT)
        fail(line_of(each->start_mark), "a key that is no text", "accepted: key: value");
      RecipeEntry entry{.key = text_of(each->data.scalar.value),
                        .line = line_of(each->start_mark),
                        .key_span = span_of(*each),
                        .value = {}};
      const bool merges = entry.key == "<<" && each->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
      entry.value = value(next(), depth + 1);
      made.last_line = std::max(made.last_line, entry.value.last_line);
      const std::size_t line = entry.line;
      count_text(entry.key.size(), line);
      if (merges)
        merge(entry, merged);
      else
        add(made, std::move(entry));
      if (made.entries.size() + merged.size() > kMostKeys)
        fail(line, fmt::format("more than {} keys in one section", kMostKeys), "accepted: fewer");
    }
    made.span.end = byte(each->end_mark.index);
    for (RecipeEntry& from : merged)
      if (made.find(from.key) == nullptr) made.entries.push_back(std::move(from));
  }

  /// The later of two keys counts, as in a Python dict.
  void add(RecipeValue& made, RecipeEntry entry) {
    const auto before = std::ranges::find(made.entries, entry.key, &RecipeEntry::key);
    if (before == made.entries.end()) return made.entries.push_back(std::move(entry));
    repeated_.push_back({entry.key, before->line, entry.line});
    made.entries.erase(before);
    made.entries.push_back(std::move(entry));
  }

  /// "<<: *base": the entries of a map, or of several, of which the first that has a key counts.
  void merge(const RecipeEntry& entry, std::vector<RecipeEntry>& merged) const {
    const auto take = [&](const RecipeValue& map) {
      if (map.kind != RecipeKind::map)
        fail(entry.line, "<<: a value that is no section", "accepted: a section, or a list of these");
      for (const RecipeEntry& from : map.entries) {
        if (std::ranges::find(merged, from.key, &RecipeEntry::key) != merged.end()) continue;
        merged.push_back(from);
        merged.back().line = merged.back().value.line = merged.back().value.last_line = entry.line;
        merged.back().key_span = entry.key_span, merged.back().value.span = entry.value.span;
      }
    };
    if (entry.value.kind != RecipeKind::list) return take(entry.value);
    for (const RecipeValue& each : entry.value.items) take(each);
  }

  /// An alias stands for as many values as what it names.
  void count(std::size_t nodes, std::size_t depth, std::size_t line) {
    size_.nodes += nodes;
    if (size_.nodes > kMostNodes || depth > kDeepest)
      fail(line, "too many values", "accepted: a file with fewer");
  }

  void count_text(std::size_t bytes, std::size_t line) {
    size_.text += bytes;
    if (size_.text > kMostText) fail(line, "more than 64 MiB of text", "accepted: a file with less");
  }

  const RecipeValue& remembered(const yaml_char_t* anchor, const RecipeValue& made, const Size& before) {
    if (anchor != nullptr)
      anchors_[text_of(anchor)] = {made, {size_.nodes - before.nodes, size_.text - before.text}};
    return made;
  }

  RecipeValue anchored(const yaml_event_t& event, std::size_t depth) {
    const std::size_t line = line_of(event.start_mark);
    const auto found = anchors_.find(text_of(event.data.alias.anchor));
    if (found == anchors_.end()) fail(line, "an alias of nothing", "accepted: an alias behind its anchor");
    count(found->second.size.nodes, depth, line);
    count_text(found->second.size.text, line);
    RecipeValue made = found->second.value;
    made.line = made.last_line = line;
    made.span = span_of(event);
    return made;
  }

  const std::string& file_;
  yaml_parser_t parser_{};
  std::vector<std::size_t> bytes_;
  struct Anchored {
    RecipeValue value;
    Size size;
  };
  std::map<std::string, Anchored> anchors_;
  Size size_{};
  std::vector<RepeatedKey> repeated_;
};

bool looks_like_json(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return file.ends_with(".json") || (first != std::string_view::npos && text[first] == '{');
}

}  // namespace

const RecipeValue* RecipeValue::find(std::string_view key) const {
  const auto at = std::ranges::find_if(entries, [key](const RecipeEntry& each) { return each.key == key; });
  return at == entries.end() ? nullptr : &at->value;
}

const RecipeValue* RecipeValue::find_path(std::string_view path) const {
  const RecipeValue* at = this;
  while (at != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    at = at->find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return at;
}

RecipeText read_recipe_text(std::string text, const std::string& file) {
  RecipeText made{.file = file, .text = std::move(text)};
  if (file.ends_with(".toml")) {
    made.syntax = RecipeSyntax::toml;
    made.root = toml_document(made.text, file);
    if (made.root.entries.empty())
      throw InputError(file, "not a recipe: it has no keys", "accepted: TOML of key = value");
    return made;
  }
  if (looks_like_json(made.text, file)) {
    made.syntax = RecipeSyntax::json;
    (void)parse_json(made.text, file);  // says better than YAML's grammar what is wrong
  } else if (auto script = read_shell_script(made.text, file)) {
    script->file = file, script->text = std::move(made.text), script->syntax = RecipeSyntax::shell;
    return std::move(*script);
  }
  YamlTree tree(made.text, file);
  made.root = tree.document();
  made.repeated = tree.repeated();
  if (made.root.kind != RecipeKind::map || made.root.entries.empty())
    throw InputError(file, "not a recipe: it has no keys", "accepted: YAML or JSON of key: value");
  return made;
}

}  // namespace zplan
