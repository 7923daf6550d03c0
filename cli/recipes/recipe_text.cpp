#include "cli/recipes/recipe_text.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/base/error.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

constexpr std::size_t kMostNodes = 100'000, kDeepest = 64;

/// libyaml's events of one document, turned into a tree.
class YamlTree {
 public:
  YamlTree(std::string_view text, const std::string& file) : file_(file) {
    if (yaml_parser_initialize(&parser_) == 0) throw InputError(file, "no memory to read it", "");
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    // Marks count characters, edits bytes.
    for (std::size_t i = 0; i < text.size(); ++i)
      if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) bytes_.push_back(i);
    bytes_.push_back(text.size());
    if (text.starts_with("\xEF\xBB\xBF")) bytes_.erase(bytes_.begin());
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~YamlTree() { yaml_parser_delete(&parser_); }
  YamlTree(const YamlTree&) = delete;
  YamlTree& operator=(const YamlTree&) = delete;

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
    const std::size_t before = nodes_;
    count(1, depth, line_of(event->start_mark));
    RecipeValue made;
    made.line = made.last_line = line_of(event->start_mark);
    made.span = span_of(*event);
    switch (event->type) {
      case YAML_SCALAR_EVENT:
        scalar(*event, made);
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
    made.quoted = from.style != YAML_PLAIN_SCALAR_STYLE;
    // A block scalar ends behind its last line's end.
    made.last_line = event.end_mark.line + (event.end_mark.column == 0 ? 0 : 1);
    made.last_line = std::max(made.last_line, made.line);
    const bool null = !made.quoted && (made.text.empty() || made.text == "~" || made.text == "null" ||
                                       made.text == "Null" || made.text == "NULL");
    made.kind = null ? RecipeKind::nothing : RecipeKind::scalar;
    if (null) made.text.clear();
  }

  void list(RecipeValue& made, std::size_t depth) {
    Event each = next();
    for (; each->type != YAML_SEQUENCE_END_EVENT; each = next()) made.items.push_back(value(each, depth + 1));
    made.span.end = byte(each->end_mark.index);
    if (!made.items.empty()) made.last_line = made.items.back().last_line;
  }

  void map(RecipeValue& made, std::size_t depth) {
    Event each = next();
    for (; each->type != YAML_MAPPING_END_EVENT; each = next()) {
      if (each->type != YAML_SCALAR_EVENT)
        fail(line_of(each->start_mark), "a key that is no text", "accepted: key: value");
      RecipeEntry entry{.key = text_of(each->data.scalar.value),
                        .line = line_of(each->start_mark),
                        .key_span = span_of(*each),
                        .value = {}};
      if (made.find(entry.key) != nullptr)
        fail(entry.line, fmt::format("{} stands there twice", in_quotes(entry.key)), "accepted: once");
      entry.value = value(next(), depth + 1);
      made.last_line = std::max(made.last_line, entry.value.last_line);
      made.entries.push_back(std::move(entry));
    }
    made.span.end = byte(each->end_mark.index);
  }

  /// An alias stands for as many values as what it names.
  void count(std::size_t nodes, std::size_t depth, std::size_t line) {
    nodes_ += nodes;
    if (nodes_ > kMostNodes || depth > kDeepest) fail(line, "too many values", "accepted: a file with fewer");
  }

  const RecipeValue& remembered(const yaml_char_t* anchor, const RecipeValue& made, std::size_t before) {
    if (anchor != nullptr) anchors_[text_of(anchor)] = {made, nodes_ - before};
    return made;
  }

  RecipeValue anchored(const yaml_event_t& event, std::size_t depth) {
    const std::size_t line = line_of(event.start_mark);
    const auto found = anchors_.find(text_of(event.data.alias.anchor));
    if (found == anchors_.end()) fail(line, "an alias of nothing", "accepted: an alias behind its anchor");
    count(found->second.nodes, depth, line);
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
    std::size_t nodes{};
  };
  std::map<std::string, Anchored> anchors_;
  std::size_t nodes_{};
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
  if (looks_like_json(made.text, file)) {
    made.syntax = RecipeSyntax::json;
    (void)parse_json(made.text, file);  // says better than YAML's grammar what is wrong
  } else if (auto script = read_shell_script(made.text, file)) {
    script->file = file, script->text = std::move(made.text), script->syntax = RecipeSyntax::shell;
    return std::move(*script);
  }
  made.root = YamlTree(made.text, file).document();
  if (made.root.kind != RecipeKind::map || made.root.entries.empty())
    throw InputError(file, "not a recipe: it has no keys", "accepted: YAML or JSON of key: value");
  return made;
}

}  // namespace zplan
