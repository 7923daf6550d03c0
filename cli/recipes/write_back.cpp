#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/document/text.h"
#include "cli/recipes/recipe_text.h"
#include "models/base/shell.h"

namespace zplan {

namespace {

constexpr std::string_view kAdded = "# Added by zplan.\n";

bool is_number_or_flag(const std::string& value) {
  return value == "true" || value == "false" || nlohmann::json::parse(value, nullptr, false).is_number();
}

std::string json_value(const std::string& value) {
  return is_number_or_flag(value) ? value : nlohmann::json(value).dump();
}

std::string yaml_value(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(":#'\"{}[],&*?|<>=!%@\\` ") == std::string::npos;
  return plain || is_number_or_flag(value) ? value : json_value(value);
}

std::string pointer_of(std::string_view path) {
  std::string pointer = "/" + std::string(path);
  std::ranges::replace(pointer, '.', '/');
  return pointer;
}

std::string changed_json(const RecipeText& recipe, const std::vector<RecipeChange>& changes) {
  std::string text = recipe.text;
  for (const RecipeChange& each : changes) {
    const DsText document = read_ds_text(text, recipe.file);
    const std::string pointer = pointer_of(each.key);
    const bool is_there = document.values.contains(pointer);
    if (!each.value && !is_there) continue;
    const std::size_t slash = pointer.rfind('/');
    text = edited(text, !each.value ? remove_member(document, pointer)
                        : is_there  ? replace_value(document, pointer, json_value(*each.value))
                                   : set_member(document, pointer.substr(0, slash), pointer.substr(slash + 1),
                                                json_value(*each.value)));
  }
  return text;
}

const RecipeEntry* find_entry(const RecipeValue& map, std::string_view path) {
  const std::size_t dot = path.find('.');
  for (const RecipeEntry& each : map.entries)
    if (each.key == path.substr(0, dot))
      return dot == std::string_view::npos ? &each : find_entry(each.value, path.substr(dot + 1));
  return nullptr;
}

/// True if the text has the flag itself: it stands in no variable and in no config that the command names.
bool is_placed(const RecipeEntry& entry) {
  return entry.value.source == 0 && entry.key_span.end > entry.key_span.begin && entry.value.span.end > 0;
}

/// True if the command's own flags, without its launcher's, have dashes between their words.
bool has_dashed_flags(const RecipeText& recipe) {
  bool has_dash = false;
  for (const RecipeEntry& each : recipe.root.entries) {
    const bool is_launcher = std::ranges::find(recipe.launcher, each.key) != recipe.launcher.end();
    if (is_launcher || !is_placed(each)) continue;
    const std::string flag = recipe.text.substr(each.key_span.begin, each.key_span.end - each.key_span.begin);
    if (!flag.starts_with("--")) continue;
    if (flag.find('_') != std::string::npos) return false;
    has_dash = has_dash || flag.find('-', 2) != std::string::npos;
  }
  return has_dash;
}

/// A flag that is added. One of a command with dashed flags is a switch where it is true.
std::string added_flag(const RecipeChange& change, bool dashed) {
  std::string key = change.key;
  if (dashed) std::ranges::replace(key, '_', '-');
  if (dashed && *change.value == "true") return fmt::format(" \\\n    --{}", key);
  return fmt::format(" \\\n    --{} {}", key, shell_quote(*change.value));
}

/// Flags that the text has not itself are added behind the command: the last of equal flags counts.
std::string changed_shell(const RecipeText& recipe, const std::vector<RecipeChange>& changes) {
  std::vector<TextEdit> edits;
  std::string added;
  const bool dashed = has_dashed_flags(recipe);
  for (const RecipeChange& each : changes) {
    const RecipeEntry* entry = find_entry(recipe.root, each.key);
    if (entry == nullptr || !is_placed(*entry)) {
      if (each.value) added += added_flag(each, dashed);
    } else if (!each.value) {
      edits.push_back({{entry->key_span.begin, std::max(entry->key_span.end, entry->value.span.end)}, ""});
    } else if (entry->value.span.begin == entry->value.span.end) {
      edits.push_back({entry->value.span, " " + shell_quote(*each.value)});
    } else {
      edits.push_back({entry->value.span, shell_quote(*each.value)});
    }
  }
  if (!added.empty()) edits.push_back({{recipe.command_end, recipe.command_end}, added});
  return edited(recipe.text, edits);
}

/// Returns where line `number` begins; the text's end behind the last line.
std::size_t line_begin(const std::string& text, std::size_t number) {
  std::size_t at = 0;
  for (std::size_t line = 1; line < number && at != std::string::npos; ++line) {
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  return std::min(at, text.size());
}

void comment_out(const RecipeText& recipe, const RecipeEntry& entry, std::vector<TextEdit>& edits) {
  for (std::size_t line = entry.line; line <= std::max(entry.line, entry.value.last_line); ++line) {
    const std::size_t at = line_begin(recipe.text, line);
    edits.push_back({{at, at}, "# "});
  }
}

/// In a block: a section, or a list that does not stand on its key's line.
bool is_block(const RecipeText& recipe, const RecipeValue& value) {
  if (value.kind != RecipeKind::map && value.kind != RecipeKind::list) return false;
  const char first = value.span.begin < recipe.text.size() ? recipe.text[value.span.begin] : '\0';
  return first != '[' && first != '{';
}

std::string changed_yaml(const RecipeText& recipe, const std::vector<RecipeChange>& changes) {
  std::vector<TextEdit> edits;
  std::string added, opened;  // `opened`: the section that `added` ends with
  for (const RecipeChange& each : changes) {
    const RecipeEntry* entry = find_entry(recipe.root, each.key);
    if (entry != nullptr && each.value && !is_block(recipe, entry->value)) {
      const Span span = entry->value.span;
      edits.push_back({span, (span.begin == span.end ? " " : "") + yaml_value(*each.value)});
      continue;
    }
    if (entry != nullptr) comment_out(recipe, *entry, edits);
    if (!each.value) continue;
    const std::size_t dot = each.key.rfind('.');
    const RecipeEntry* section =
        dot == std::string::npos ? nullptr : find_entry(recipe.root, each.key.substr(0, dot));
    const std::string line = fmt::format("{}: {}\n", each.key.substr(dot + 1), yaml_value(*each.value));
    if (section == nullptr) {
      const std::string name = dot == std::string::npos ? std::string() : each.key.substr(0, dot);
      if (!name.empty() && name != opened) added += name + ":\n";
      opened = name;
      added += (name.empty() ? "" : "  ") + line;
      continue;
    }
    const std::size_t at = line_begin(recipe.text, section->line + 1);
    const std::size_t indent = section->value.entries.empty()
                                   ? 2
                                   : section->value.entries.front().key_span.begin -
                                         line_begin(recipe.text, section->value.entries.front().line);
    edits.push_back({{at, at}, std::string(indent, ' ') + line});
  }
  std::string text = edited(recipe.text, edits);
  if (added.empty()) return text;
  if (!text.ends_with('\n')) text += '\n';
  return text + std::string(kAdded) + added;
}

/// Returns `[section]`s of TOML changed: a new key stands below the header of its section, and a section that
/// is not there at the end.
std::string changed_toml(const RecipeText& recipe, const std::vector<RecipeChange>& changes) {
  std::vector<TextEdit> edits;
  std::string added, opened;  // `opened`: the section that `added` ends with
  for (const RecipeChange& each : changes) {
    const RecipeEntry* entry = find_entry(recipe.root, each.key);
    if (entry != nullptr && each.value) {
      edits.push_back({entry->value.span, json_value(*each.value)});
      continue;
    }
    if (entry != nullptr) comment_out(recipe, *entry, edits);
    if (!each.value) continue;
    const std::size_t dot = each.key.rfind('.');
    const std::string line = fmt::format("{} = {}\n", each.key.substr(dot + 1), json_value(*each.value));
    const std::string name = each.key.substr(0, dot);
    if (const RecipeEntry* section = find_entry(recipe.root, name); section != nullptr) {
      const std::size_t at = line_begin(recipe.text, section->line + 1);
      edits.push_back({{at, at}, line});
      continue;
    }
    if (name != opened) added += fmt::format("\n[{}]\n", name);
    opened = name, added += line;
  }
  std::string text = edited(recipe.text, edits);
  if (added.empty()) return text;
  if (!text.ends_with('\n')) text += '\n';
  return text + '\n' + std::string(kAdded) + added.substr(1);
}

}  // namespace

std::string changed_recipe(const RecipeText& recipe, const std::vector<RecipeChange>& changes) {
  switch (recipe.syntax) {
    case RecipeSyntax::json: return changed_json(recipe, changes);
    case RecipeSyntax::shell: return changed_shell(recipe, changes);
    case RecipeSyntax::toml: return changed_toml(recipe, changes);
    case RecipeSyntax::yaml: break;
  }
  return changed_yaml(recipe, changes);
}

}  // namespace zplan
