#include "cli/recipes/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>

#include "cli/recipes/shell_syntax.h"
#include "cli/recipes/shell_values.h"
#include "models/base/error.h"

namespace zplan {

namespace {

constexpr std::size_t kLongestScript = 1U << 20;
constexpr std::size_t kMostWork = 4'000'000;  // characters looked at, about
constexpr std::size_t kLongestValue = 1U << 16, kMostFields = 4096, kMostCalls = 2000;
constexpr std::size_t kDeepestRun = 24;

using Fields = std::vector<ShellField>;

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The name that `text` begins with.
std::string_view name_in(std::string_view text) {
  if (text.empty() || is_digit(text.front())) return {};
  return text.substr(
      0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_name_character) - text.begin()));
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

struct Variable {
  Fields items{};
  bool is_array{};
  bool is_exported{};
};

/// Fields while a word is expanded.
struct Building {
  bool splits{};
  Fields done{};
  ShellField now{};
  bool has_now{};    ///< quotes or characters: the field is there even where it is empty
  bool is_quoted{};  ///< anything of it stood in quotes or is literal
  std::size_t pieces{};

  void add(std::string_view text) { now.text.append(text), has_now = true; }
  void flush() {
    if (has_now) done.push_back(std::move(now));
    now = {}, has_now = is_quoted = false, pieces = 0;
  }
};

class Follower {
 public:
  Follower(std::string_view text, const std::string& file,
           const std::function<bool(const ShellCall&)>& is_wanted)
      : text_(text), file_(file), is_wanted_(is_wanted) {}

  ShellScript follow() {
    if (text_.size() > kLongestScript) fail(1, "a script of more than 1 MiB", "accepted: a shorter one");
    scripts_.push_back(parse_shell(text_, 1, 0));
    const ShellSyntax& script = scripts_.back();
    run(script.commands, script, 0);
    if (script.open_quote && !made_.calls.empty())
      fail(*script.open_quote, "a quote that nothing closes", "accepted: flags of a command");
    return std::move(made_);
  }

 private:
  using Status = std::optional<bool>;

  [[noreturn]] void fail(std::size_t line, const std::string& found, const std::string& accepted) const {
    throw InputError(fmt::format("{}:{}", file_, line), found, accepted);
  }

  void work(std::size_t cost) {
    work_ += cost + 1;
    if (work_ > kMostWork) fail(line_, "the script expands to too much", "accepted: a command that trains");
  }

  // ---- commands

  Status run(const ShellList& list, const ShellSyntax& in, std::size_t depth) {
    Status status = true;
    for (const ShellNode& each : list) {
      if (made_.was_ended) return status;
      if (each.link == ShellLink::and_then && status == Status(false)) continue;
      if (each.link == ShellLink::or_else && status != Status(false)) continue;
      status = run(each, in, depth);
      if (each.negated && status) status = !*status;
    }
    return status;
  }

  Status run(const ShellNode& node, const ShellSyntax& in, std::size_t depth) {
    work(1);
    line_ = node.line;
    if (depth > kDeepestRun) return std::nullopt;
    switch (node.kind) {
      case ShellKind::command: return command(node, in, depth);
      case ShellKind::group: return run(node.parts[0], in, depth + 1);
      case ShellKind::branch: return branch(node, in, depth + 1);
      case ShellKind::loop_over: return loop_over(node, in, depth + 1);
      case ShellKind::loop_while: return loop_while(node, in, depth + 1);
      case ShellKind::choice: return choice(node, in, depth + 1);
      case ShellKind::function: break;
    }
    if (!node.words.empty() && !node.parts.empty()) functions_[node.words[0].text] = {&node.parts[0], &in};
    return true;
  }

  /// A branch that only leaves the script is not what the script does.
  static bool leaves(const ShellList& list) {
    return std::ranges::any_of(list, [](const ShellNode& each) {
      return each.kind == ShellKind::command && !each.words.empty() &&
             (each.words[0].text == "exit" || each.words[0].text == "return");
    });
  }

  Status branch(const ShellNode& node, const ShellSyntax& in, std::size_t depth) {
    std::size_t i = 0;
    for (; i + 1 < node.parts.size(); i += 2) {
      const Status holds = run(node.parts[i], in, depth);
      const ShellList& body = node.parts[i + 1];
      if (holds == Status(false) || (!holds && leaves(body))) continue;
      return run(body, in, depth);
    }
    return i < node.parts.size() ? run(node.parts[i], in, depth) : Status(true);
  }

  Status loop_over(const ShellNode& node, const ShellSyntax& in, std::size_t depth) {
    if (node.parts.empty() || node.words.empty()) return true;
    if (node.words[0].text == "((") {
      if (node.words.size() > 1) assign_in(node.words[1].text.substr(0, node.words[1].text.find(';')));
      return run(node.parts.back(), in, depth);
    }
    Fields list;
    for (std::size_t i = 1; i < node.words.size(); ++i) expand(node.words[i], list, depth);
    Status status = true;
    for (const ShellField& each : list) {
      if (made_.was_ended) return status;
      set(node.words[0].text, each);
      status = run(node.parts.back(), in, depth);
      if (each.open) return status;
    }
    return status;
  }

  Status loop_while(const ShellNode& node, const ShellSyntax& in, std::size_t depth) {
    if (node.parts.size() < 2 || run(node.parts[0], in, depth) == Status(false)) return true;
    return run(node.parts[1], in, depth);
  }

  Status choice(const ShellNode& node, const ShellSyntax& in, std::size_t depth) {
    if (node.words.empty()) return true;
    const ShellField word = expand_one(node.words[0], depth);
    for (std::size_t i = 0; i < node.parts.size() && i < node.patterns.size(); ++i)
      for (const ShellWord& each : node.patterns[i]) {
        const ShellField pattern = expand_one(each, depth);
        work(word.text.size());
        if (is_closed(word) && shell_matches(shown_empty(word), pattern.text))
          return run(node.parts[i], in, depth);
      }
    return std::nullopt;
  }

  /// A variable that is not set is empty where it is compared.
  static bool is_closed(const ShellField& field) { return !field.open || !field.open->variable.empty(); }
  static std::string shown_empty(const ShellField& field) {
    if (!field.open) return field.text;
    std::string text = field.text;
    if (const std::size_t at = text.find(field.open->what); at != std::string::npos)
      text.erase(at, field.open->what.size());
    return text;
  }

  Status command(const ShellNode& node, const ShellSyntax& in, std::size_t depth) {
    if (node.words.empty()) return true;
    if (node.words[0].text == "((") return node.words.size() > 1 ? let(node.words[1].text) : Status(true);
    if (node.words[0].text == "[[") return double_test(node, depth);
    std::size_t first = 0;
    std::map<std::string, ShellField> in_front;
    while (first < node.words.size() && is_assignment(node.words[first].text)) ++first;
    if (first == node.words.size()) {
      for (const ShellWord& each : node.words) assign(each, depth);
      return true;
    }
    for (std::size_t i = 0; i < first; ++i) {
      auto [name, value] = assigned(node.words[i], depth);
      if (!value.items.empty()) in_front[name] = value.items.front();
    }
    if (declares(node.words[first].text)) return declare(node, first, depth);
    Fields words;
    for (std::size_t i = first; i < node.words.size(); ++i) expand(node.words[i], words, depth);
    if (words.empty()) return true;
    if (const auto done = written(node, in, words, depth)) return *done;
    return call({std::move(words), std::move(in_front), node.line}, depth);
  }

  // ---- assignments

  /// NAME=, NAME+= or NAME[…]=.
  static bool is_assignment(std::string_view word) {
    const std::string_view name = name_in(word);
    if (name.empty()) return false;
    std::string_view rest = word.substr(name.size());
    if (rest.starts_with('[')) {
      const std::size_t close = rest.find(']');
      if (close == std::string_view::npos) return false;
      rest.remove_prefix(close + 1);
    }
    return rest.starts_with('=') || rest.starts_with("+=");
  }

  static bool declares(const std::string& word) {
    return word == "export" || word == "declare" || word == "typeset" || word == "local" ||
           word == "readonly";
  }

  /// Returns a part of a word as a word.
  static ShellWord part(const ShellWord& word, std::size_t begin, std::size_t end) {
    const std::size_t lines = static_cast<std::size_t>(
        std::count(word.text.begin(), word.text.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
    const bool is_placed = word.span.end > word.span.begin;
    return {.text = word.text.substr(begin, end - begin),
            .line = word.line + lines,
            .span = is_placed ? Span{word.span.begin + begin, word.span.begin + end} : Span{}};
  }

  std::pair<std::string, Variable> assigned(const ShellWord& word, std::size_t depth) {
    const std::string name(name_in(word.text));
    const std::size_t equals = word.text.find('=');
    const bool adds = equals > 0 && word.text[equals - 1] == '+';
    Variable value;
    if (equals + 1 < word.text.size() && word.text[equals + 1] == '(') {
      value.is_array = true;
      const std::size_t end = word.text.ends_with(')') ? word.text.size() - 1 : word.text.size();
      elements(part(word, equals + 2, std::max(end, equals + 2)), value.items, depth);
    } else {
      value.items.push_back(expand_one(part(word, equals + 1, word.text.size()), depth));
    }
    if (word.text.substr(name.size()).starts_with('[')) return {name, indexed(name, std::move(value))};
    const auto before = variables_.find(name);
    if (adds && before != variables_.end()) {
      Variable sum = before->second;
      append(sum, value);
      return {name, std::move(sum)};
    }
    return {name, std::move(value)};
  }

  /// An element of an array is put at the array's end; maps are of no recipe.
  Variable indexed(const std::string& name, Variable value) {
    Variable whole = variables_[name];
    whole.is_array = true;
    append(whole, value);
    return whole;
  }

  void append(Variable& sum, const Variable& value) {
    if (value.is_array || sum.is_array) {
      sum.is_array = true;
      sum.items.insert(sum.items.end(), value.items.begin(), value.items.end());
    } else if (!value.items.empty()) {
      if (sum.items.empty()) sum.items.emplace_back();
      ShellField& text = sum.items.front();
      text.text += value.items.front().text;
      if (!text.open) text.open = value.items.front().open;
      text.span = {};
    }
    keep_small(sum);
  }

  void keep_small(const Variable& value) {
    std::size_t size = 0;
    for (const ShellField& each : value.items) size += each.text.size();
    work(size / 16 + value.items.size());
    if (size > kLongestValue || value.items.size() > kMostFields)
      fail(line_, "a variable of more than 64 KiB", "accepted: a shorter one");
  }

  void elements(const ShellWord& inside, Fields& into, std::size_t depth) {
    const ShellSyntax words =
        parse_shell(inside.text, inside.line,
                    inside.span.end > inside.span.begin ? std::optional(inside.span.begin) : std::nullopt);
    work(inside.text.size());
    for (const ShellNode& node : words.commands)
      for (const ShellWord& each : node.words) expand(each, into, depth + 1);
  }

  void assign(const ShellWord& word, std::size_t depth) {
    auto [name, value] = assigned(word, depth);
    value.is_exported = exports_all_ || (variables_.contains(name) && variables_[name].is_exported);
    keep_small(value);
    variables_[name] = std::move(value);
  }

  void set(const std::string& name, const ShellField& value) {
    Variable& variable = variables_[name];
    variable.items = {value};
    variable.is_array = false;
  }

  Status declare(const ShellNode& node, std::size_t first, std::size_t depth) {
    const bool exports = node.words[first].text == "export";
    for (std::size_t i = first + 1; i < node.words.size(); ++i) {
      const ShellWord& word = node.words[i];
      if (is_assignment(word.text)) {
        assign(word, depth);
      } else if (word.text.starts_with('-')) {
        continue;
      }
      const std::string name(name_in(word.text));
      if (exports && !name.empty() && variables_.contains(name)) variables_[name].is_exported = true;
    }
    return true;
  }

  Status let(const std::string& text) {
    assign_in(text);
    const auto value = arithmetic(text, 0);
    return value ? Status(*value != 0) : std::nullopt;
  }

  /// NAME=…, NAME+=… and NAME++ of arithmetic.
  void assign_in(const std::string& text) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    const std::string name(name_in(std::string_view(text).substr(begin)));
    if (name.empty()) return;
    const std::size_t behind = begin + name.size();
    const std::string rest = text.substr(std::min(text.find_first_not_of(" \t", behind), text.size()));
    std::string expression;
    if (rest.starts_with("++")) {
      expression = name + "+1";
    } else if (rest.starts_with("--")) {
      expression = name + "-1";
    } else if (rest.starts_with("=") && !rest.starts_with("==")) {
      expression = rest.substr(1);
    } else if (rest.size() > 1 && rest[1] == '=' &&
               std::string_view("+-*/%").find(rest[0]) != std::string_view::npos) {
      expression = fmt::format("{}{}({})", name, rest[0], rest.substr(2));
    } else {
      return;
    }
    const auto value = arithmetic(expression, 0);
    ShellField made{.text = value ? std::to_string(*value) : text, .line = line_};
    if (!value) made.open = ShellOpen{.what = text, .variable = {}};
    set(name, made);
  }

  // ---- tests

  Status double_test(const ShellNode& node, std::size_t depth) {
    Fields words;
    for (std::size_t i = 1; i + 1 < node.words.size(); ++i) words.push_back(expand_one(node.words[i], depth));
    return tested(words);
  }

  Status tested(const Fields& words) { return either(words, 0, words.size(), 0); }

  /// Splits at the first of two signs, or says nothing.
  static std::size_t sign_in(const Fields& words, std::size_t begin, std::size_t end, std::string_view a,
                             std::string_view b) {
    for (std::size_t i = begin; i < end; ++i)
      if (words[i].text == a || words[i].text == b) return i;
    return end;
  }

  Status either(const Fields& words, std::size_t begin, std::size_t end, std::size_t depth) {
    work(end - begin);
    if (depth > kDeepestRun) return std::nullopt;
    const std::size_t at = sign_in(words, begin, end, "||", "-o");
    if (at == end || at == begin) return both(words, begin, end, depth + 1);
    const Status left = both(words, begin, at, depth + 1), right = either(words, at + 1, end, depth + 1);
    if (left == Status(true) || right == Status(true)) return true;
    return left && right ? Status(false) : std::nullopt;
  }

  Status both(const Fields& words, std::size_t begin, std::size_t end, std::size_t depth) {
    if (depth > kDeepestRun) return std::nullopt;
    const std::size_t at = sign_in(words, begin, end, "&&", "-a");
    if (at == end || at == begin) return one(words, begin, end);
    const Status left = one(words, begin, at), right = both(words, at + 1, end, depth + 1);
    if (left == Status(false) || right == Status(false)) return false;
    return left && right ? Status(true) : std::nullopt;
  }

  Status one(const Fields& words, std::size_t begin, std::size_t end) {
    if (begin < end && words[begin].text == "!") {
      const Status inside = one(words, begin + 1, end);
      return inside ? Status(!*inside) : std::nullopt;
    }
    if (end - begin == 1)
      return is_closed(words[begin]) ? Status(!shown_empty(words[begin]).empty()) : std::nullopt;
    if (end - begin == 2) return of_one(words[begin].text, words[begin + 1]);
    if (end - begin == 3) return compared(words[begin], words[begin + 1].text, words[begin + 2]);
    return std::nullopt;
  }

  static Status of_one(const std::string& sign, const ShellField& word) {
    if (!is_closed(word)) return std::nullopt;
    if (sign == "-z") return shown_empty(word).empty();
    if (sign == "-n") return !shown_empty(word).empty();
    return std::nullopt;  // files
  }

  Status compared(const ShellField& left, const std::string& sign, const ShellField& right) {
    if (!is_closed(left) || !is_closed(right)) return std::nullopt;
    const std::string a = shown_empty(left), b = shown_empty(right);
    work(a.size() + b.size());
    if (sign == "=" || sign == "==") return shell_matches(a, b);
    if (sign == "!=") return !shell_matches(a, b);
    const auto number = [](const std::string& text) {
      return shell_arithmetic(text, [](std::string_view) { return std::nullopt; });
    };
    const auto x = number(a), y = number(b);
    if (!x || !y) return std::nullopt;
    if (sign == "-eq") return *x == *y;
    if (sign == "-ne") return *x != *y;
    if (sign == "-lt") return *x < *y;
    if (sign == "-le") return *x <= *y;
    if (sign == "-gt") return *x > *y;
    if (sign == "-ge") return *x >= *y;
    return std::nullopt;
  }

  // ---- calls

  Status call(ShellCall now, std::size_t depth) {
    const std::string& name = now.words[0].text;
    if (name == "[" || name == "test") {
      Fields words(now.words.begin() + 1, now.words.end());
      if (name == "[" && !words.empty() && words.back().text == "]") words.pop_back();
      return tested(words);
    }
    if (name == "true" || name == ":" || name == "set") {
      for (const ShellField& each : now.words)
        exports_all_ = exports_all_ || each.text == "-a" || each.text == "allexport";
      return true;
    }
    if (name == "false") return false;
    if (name == "let" && now.words.size() > 1) return let(now.words[1].text);
    if (name == "unset") {
      for (const ShellField& each : now.words) variables_.erase(each.text);
      return true;
    }
    if (name == "eval") return inner_script(joined(now.words, 1), now, depth);
    if (is_shell(name) && now.words.size() > 2)
      for (std::size_t i = 1; i + 1 < now.words.size(); ++i)
        if (now.words[i].text == "-c" || now.words[i].text == "-lc")
          return inner_script(now.words[i + 1], now, depth);
    if (const auto found = functions_.find(name); found != functions_.end() && depth < kDeepestRun)
      return function(found->second, std::move(now), depth);
    return report(std::move(now));
  }

  static bool is_shell(const std::string& name) {
    const std::string program = name.substr(name.rfind('/') + 1);
    return program == "bash" || program == "sh" || program == "zsh";
  }

  static ShellField joined(const Fields& words, std::size_t first) {
    ShellField made;
    for (std::size_t i = first; i < words.size(); ++i) {
      made.text += (i > first ? " " : "") + words[i].text;
      if (!made.open) made.open = words[i].open;
      made.line = words[first].line;
    }
    return made;
  }

  Status inner_script(const ShellField& text, const ShellCall& from, std::size_t depth) {
    work(text.text.size());
    if (depth + 4 > kDeepestRun) return std::nullopt;
    for (const auto& [name, value] : from.environment) {
      set(name, value);
      variables_[name].is_exported = true;
    }
    scripts_.push_back(parse_shell(text.text, std::max<std::size_t>(1, from.line), std::nullopt));
    return run(scripts_.back().commands, scripts_.back(), depth + 4);
  }

  struct Function {
    const ShellList* body{};
    const ShellSyntax* in{};
  };

  Status function(Function called, ShellCall now, std::size_t depth) {
    std::swap(arguments_, now.words);
    const Status status = run(*called.body, *called.in, depth + 2);
    std::swap(arguments_, now.words);
    return status;
  }

  Status report(ShellCall now) {
    for (const auto& [name, value] : variables_)
      if (value.is_exported && !value.items.empty() && !now.environment.contains(name))
        now.environment[name] = value.items.front();
    constexpr std::size_t kLookedUp = 2000;  // whose command it is
    work(kLookedUp + 16 * variables_.size());
    if (made_.calls.size() < kMostCalls) made_.calls.push_back(now);
    if (is_wanted_(now)) {
      made_.calls.back() = std::move(now);
      made_.was_ended = true;
    }
    return true;
  }

  // ---- files that the script writes

  /// `read NAME <<END`: the name gets the document, without blanks around it and backslashes in front of line
  /// ends. A name that is read from elsewhere stays open.
  void read_document(const ShellNode& node, const ShellSyntax& in, const Fields& words, std::size_t depth) {
    const std::string& name = words.back().text;
    for (const ShellRedirect& each : node.redirects) {
      if (!each.is_here_document || each.document >= in.documents.size()) continue;
      std::string text = document(in.documents[each.document], depth);
      for (std::size_t at = 0; (at = text.find("\\\n", at)) != std::string::npos;) text.replace(at, 2, " ");
      constexpr std::string_view kBlanks = " \t\n";
      text.erase(0, text.find_first_not_of(kBlanks));
      text.erase(text.find_last_not_of(kBlanks) + 1);
      if (text.size() <= kLongestValue) set(name, {.text = std::move(text), .line = words.back().line});
    }
  }

  /// echo, printf, cat and tee with a file, or nothing.
  std::optional<Status> written(const ShellNode& node, const ShellSyntax& in, const Fields& words,
                                std::size_t depth) {
    const std::string& name = words[0].text;
    if (name == "read" && words.size() > 1) return read_document(node, in, words, depth), Status(true);
    if (name != "echo" && name != "printf" && name != "cat" && name != "tee") return std::nullopt;
    std::optional<std::string> path;
    bool appends = false;
    std::string body;
    for (const ShellRedirect& each : node.redirects) {
      if (each.is_here_document) {
        if (each.document < in.documents.size()) body += document(in.documents[each.document], depth);
      } else if (each.sign == "<<<") {
        body += expand_one(each.target, depth).text + "\n";
      } else if (each.sign == ">" || each.sign == ">>" || each.sign == ">|") {
        path = expand_one(each.target, depth).text;
        appends = each.sign == ">>";
      }
    }
    if (name == "tee" && words.size() > 1) path = words.back().text;
    if (name == "echo" || name == "printf") body += echoed(words) + "\n";
    if (path) write(*path, body, appends);
    return Status(true);
  }

  void write(const std::string& path, const std::string& body, bool appends) {
    work(body.size());
    std::string& text = made_.files[path.starts_with("./") ? path.substr(2) : path];
    if (!appends) text.clear();
    if (text.size() + body.size() > kLongestValue) return;
    text += body;
  }

  std::string document(const ShellSyntax::Document& from, std::size_t depth) {
    if (!from.expands) return from.text;
    Building building;
    inside_quotes({.text = from.text, .line = from.line, .span = {}}, building, depth + 1, true);
    return building.now.text;
  }

  static std::string echoed(const Fields& words) {
    std::string text;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (text.empty() && (words[i].text == "-e" || words[i].text == "-n" || words[i].text == "-E")) continue;
      text += (text.empty() ? "" : " ") + words[i].text;
    }
    return text;
  }

  // ---- expansion

  void expand(const ShellWord& word, Fields& into, std::size_t depth) {
    Building building{.splits = true};
    expand(word, building, depth);
    building.flush();
    const bool is_one = building.done.size() == 1;
    for (ShellField& each : building.done) {
      if (into.size() >= kMostFields) fail(word.line, "more than 4096 words", "accepted: fewer");
      if (each.line == 0) each.line = word.line;
      if (each.span.end == each.span.begin && is_one) each.span = word.span;
      into.push_back(std::move(each));
    }
  }

  ShellField expand_one(const ShellWord& word, std::size_t depth) {
    Building building;
    expand(word, building, depth);
    ShellField made = std::move(building.now);
    made.line = word.line, made.span = word.span;
    return made;
  }

  void expand(const ShellWord& word, Building& into, std::size_t depth) {
    const std::string_view raw = word.text;
    work(raw.size());
    if (depth > kDeepestRun) return into.add(raw);
    std::size_t at = 0;
    if (raw.starts_with("~/") || raw == "~") {
      open(into, "~", "HOME");
      at = 1;
    }
    while (at < raw.size()) {
      const char c = raw[at];
      if (c == '\\') {
        if (at + 1 < raw.size() && raw[at + 1] != '\n')
          into.add(raw.substr(at + 1, 1)), into.is_quoted = true;
        at += 2;
      } else if (c == '\'') {
        const std::size_t end = shell_end(raw, at);
        into.add(raw.substr(at + 1, std::max(end, at + 2) - at - 2)), into.is_quoted = true;
        at = end;
      } else if (c == '"') {
        const std::size_t end = shell_end(raw, at);
        const std::size_t last = std::max(end - (end > at + 1 && raw[end - 1] == '"' ? 1U : 0U), at + 1);
        into.has_now = into.has_now || !is_array_alone(raw.substr(at + 1, last - at - 1)),
        into.is_quoted = true;
        inside_quotes(part(word, at + 1, last), into, depth + 1, false);
        at = end;
      } else if (c == '$' && at + 1 < raw.size() && (raw[at + 1] == '\'' || raw[at + 1] == '"')) {
        ++at;
      } else if (c == '$' || c == '`') {
        at = dollar(word, at, into, depth, false);
      } else {
        into.add(raw.substr(at, 1)), into.is_quoted = true;
        ++at;
      }
    }
  }

  static bool is_array_alone(std::string_view text) {
    return text == "$@" || (text.starts_with("${") && text.ends_with("[@]}"));
  }

  void inside_quotes(const ShellWord& word, Building& into, std::size_t depth, bool is_document) {
    const std::string_view raw = word.text;
    for (std::size_t at = 0; at < raw.size();) {
      const char c = raw[at];
      if (c == '\\' && at + 1 < raw.size()) {
        const char next = raw[at + 1];
        const bool escapes = next == '$' || next == '`' || next == '\\' || (next == '"' && !is_document);
        if (next != '\n') into.add(raw.substr(escapes ? at + 1 : at, escapes ? 1 : 2));
        at += 2;
      } else if (c == '$' || c == '`') {
        at = dollar(word, at, into, depth, true);
      } else {
        // A backslash that ends the text stands for itself.
        const std::size_t end = std::min(raw.find_first_of("\\$`", at + 1), raw.size());
        into.add(raw.substr(at, end - at));
        at = end;
      }
    }
  }

  /// Expands what begins at `at` and returns where it ends.
  std::size_t dollar(const ShellWord& word, std::size_t at, Building& into, std::size_t depth,
                     bool in_quotes) {
    const std::string_view raw = word.text;
    const std::string_view rest = raw.substr(at);
    if (depth > kDeepestRun) {
      into.add(rest);
      return raw.size();
    }
    if (rest.starts_with("$((")) {
      const std::size_t end = shell_end(raw, at);
      if (rest.substr(0, end - at).ends_with("))")) {
        put(into, arithmetic_field(rest.substr(0, end - at), depth), in_quotes);
        return end;
      }
    }
    if (rest.starts_with("$(") || rest.starts_with('`')) {
      const std::size_t end = shell_end(raw, at);
      const std::size_t skipped = rest.starts_with('`') ? 1 : 2;
      const std::size_t inner = std::max(end - at, skipped + 1) - skipped - 1;
      put(into, substituted(rest.substr(skipped, inner), rest.substr(0, end - at), word.line, depth + 1),
          in_quotes);
      return end;
    }
    if (rest.starts_with("${")) {
      const std::size_t end = shell_end(raw, at);
      const std::size_t inner = std::max<std::size_t>(end - at, 3) - 3;
      braced(std::string(rest.substr(2, inner)), into, word, depth + 1, in_quotes);
      return end;
    }
    const std::string_view name = name_in(rest.substr(1));
    if (!name.empty()) {
      put_variable(into, std::string(name), in_quotes);
      return at + 1 + name.size();
    }
    if (rest.size() < 2 || std::string_view("@*#?$!-0123456789").find(rest[1]) == std::string_view::npos) {
      into.add("$"), into.is_quoted = true;
      return at + 1;
    }
    special(rest[1], into, in_quotes);
    return at + 2;
  }

  void special(char c, Building& into, bool in_quotes) {
    if (c == '@' || c == '*') return put_all(into, positional(), in_quotes);
    if (c == '#') return put(into, ShellField{.text = std::to_string(positional().size())}, in_quotes);
    if (c == '?') return put(into, ShellField{.text = "0"}, in_quotes);
    if (c == '0') return put(into, ShellField{.text = file_}, in_quotes);
    put_variable(into, std::string(1, c), in_quotes);
  }

  [[nodiscard]] Fields positional() const {
    return arguments_.empty() ? Fields{} : Fields(arguments_.begin() + 1, arguments_.end());
  }

  /// A variable's or argument's items; null where it is not set.
  [[nodiscard]] const Fields* items_of(const std::string& name) const {
    if (const auto found = variables_.find(name); found != variables_.end()) return &found->second.items;
    return nullptr;
  }
  [[nodiscard]] std::optional<ShellField> value_of(const std::string& name) const {
    if (!name.empty() && is_digit(name[0])) {
      const std::size_t at = name.size() > 3 ? arguments_.size() : std::stoul(name);
      return at < arguments_.size() ? std::optional(arguments_[at]) : std::nullopt;
    }
    if (name == "PWD") return ShellField{.text = "."};
    if (name == "BASH_SOURCE") return ShellField{.text = file_};
    const Fields* items = items_of(name);
    if (items == nullptr) return std::nullopt;
    return items->empty() ? ShellField{} : items->front();
  }

  static void open(Building& into, const std::string& what, const std::string& variable) {
    if (!into.now.open) into.now.open = ShellOpen{what, variable};
    into.add(what);
  }

  void put_variable(Building& into, const std::string& name, bool in_quotes) {
    if (const auto value = value_of(name)) return put(into, *value, in_quotes);
    put(into, ShellField{.text = "$" + name, .open = ShellOpen{"$" + name, name}}, in_quotes);
  }

  /// Adds a value to the word; outside of quotes it is split at blanks.
  void put(Building& into, const ShellField& value, bool in_quotes) {
    work(value.text.size());
    ++into.pieces;
    if (!into.now.open && value.open) into.now.open = value.open;
    if (in_quotes || !into.splits) {
      into.add(value.text), into.is_quoted = into.is_quoted || in_quotes;
      return;
    }
    if (value.open && value.text == value.open->what) {
      const bool is_alone = !into.has_now;
      into.add(value.text);
      into.now.is_bare = is_alone && !value.open->variable.empty();
      return;
    }
    split(into, value);
  }

  static void split(Building& into, const ShellField& value) {
    std::size_t at = 0;
    while (at < value.text.size()) {
      if (is_space(value.text[at])) {
        const auto open = into.now.open;
        into.flush();
        if (!into.done.empty() && !into.done.back().open) into.now.open = open;
        ++at;
        continue;
      }
      std::size_t end = at;
      while (end < value.text.size() && !is_space(value.text[end])) ++end;
      into.add(std::string_view(value.text).substr(at, end - at));
      at = end;
    }
    if (!into.has_now) into.now.open.reset();
  }

  /// Adds the elements of an array, each a word.
  void put_all(Building& into, const Fields& items, bool in_quotes) {
    bool first = true;
    for (const ShellField& each : items) {
      if (!first) {
        if (into.splits)
          into.flush();
        else
          into.add(" ");
      }
      const bool is_fresh = !into.has_now;
      put(into, each, in_quotes);
      if (is_fresh && into.splits && into.has_now && in_quotes)
        into.now.span = each.span, into.now.line = each.line;
      if (in_quotes) into.has_now = true;
      first = false;
    }
  }

  // ---- ${…}

  void braced(const std::string& inside, Building& into, const ShellWord& word, std::size_t depth,
              bool in_quotes) {
    const std::string written = "${" + inside + "}";
    if (inside.starts_with('#') && inside.size() > 1)
      return put(into, length_of(inside.substr(1), written), in_quotes);
    if (inside.starts_with('!')) return indirect(inside.substr(1), written, into, in_quotes);
    std::string name(name_in(inside));
    if (name.empty() && !inside.empty()) {
      std::size_t digits = 0;
      while (digits < inside.size() && is_digit(inside[digits])) ++digits;
      name = inside.substr(0, std::max<std::size_t>(1, digits));
    }
    std::string rest = inside.substr(std::min(name.size(), inside.size()));
    if (name == "@" || name == "*") return put_all(into, sliced(positional(), rest), in_quotes);
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) {
      const Fields* items = items_of(name);
      return put_all(into, items == nullptr ? Fields{} : sliced(*items, rest.substr(3)), in_quotes);
    }
    std::optional<ShellField> value = value_of(name);
    if (rest.starts_with('[')) {
      const std::size_t close = std::min(rest.find(']'), rest.size() - 1);
      value = element(name, rest.substr(1, close - 1), depth);
      rest = rest.substr(close + 1);
    }
    put(into, operated(std::move(value), name, rest, written, word, depth), in_quotes);
  }

  /// "${A[@]:1}" and "${@:2}".
  Fields sliced(const Fields& items, const std::string& rest) {
    if (!rest.starts_with(':')) return items;
    const auto from = arithmetic(rest.substr(1, rest.find(':', 1) - 1), 0);
    const std::size_t begin = from && *from > 0 ? static_cast<std::size_t>(*from) : 0;
    return begin < items.size() ? Fields(items.begin() + static_cast<std::ptrdiff_t>(begin), items.end())
                                : Fields{};
  }

  std::optional<ShellField> element(const std::string& name, const std::string& index, std::size_t depth) {
    const Fields* items = items_of(name);
    const auto at = arithmetic(index, depth);
    if (items == nullptr || !at) return name == "BASH_SOURCE" ? value_of(name) : std::nullopt;
    const std::int64_t size = static_cast<std::int64_t>(items->size());
    const std::int64_t place = *at < 0 ? *at + size : *at;
    if (place < 0 || place >= size) return std::nullopt;
    return (*items)[static_cast<std::size_t>(place)];
  }

  ShellField length_of(const std::string& of, const std::string& written) {
    const std::string name(name_in(of));
    if (of == "@" || of == "*") return {.text = std::to_string(positional().size())};
    const Fields* items = items_of(name);
    if (items == nullptr) return {.text = written, .open = ShellOpen{written, name}};
    if (of.ends_with("[@]") || of.ends_with("[*]")) return {.text = std::to_string(items->size())};
    const ShellField value = items->empty() ? ShellField{} : items->front();
    if (value.open) return {.text = written, .open = ShellOpen{written, {}}};
    return {.text = std::to_string(value.text.size())};
  }

  void indirect(const std::string& name, const std::string& written, Building& into, bool in_quotes) {
    const auto value = value_of(name);
    const auto behind = value && !value->open ? value_of(value->text) : std::nullopt;
    put(into, behind ? *behind : ShellField{.text = written, .open = ShellOpen{written, {}}}, in_quotes);
  }

  ShellField operated(std::optional<ShellField> value, const std::string& name, const std::string& rest,
                      const std::string& written, const ShellWord& word, std::size_t depth) {
    const ShellField unset{.text = written, .open = ShellOpen{written, name}};
    if (rest.empty())
      return value ? *value : ShellField{.text = "$" + name, .open = ShellOpen{"$" + name, name}};
    const bool colon = rest[0] == ':';
    const char sign = rest[colon ? 1U : 0U];
    const bool is_there = value && (!colon || !value->text.empty());
    const auto argument = [&] {
      const std::string text = rest.substr(colon ? 2U : 1U);
      return expand_one({.text = text, .line = word.line, .span = {}}, depth + 1);
    };
    if (rest.size() > 1 || !colon) switch (sign) {
        case '-': return is_there ? *value : argument();
        case '=': {
          if (is_there) return *value;
          const ShellField made = argument();
          set(name, made);
          return made;
        }
        case '+': return is_there ? argument() : ShellField{};
        case '?':
          return is_there ? *value : ShellField{.text = "$" + name, .open = ShellOpen{"$" + name, name}};
        default: break;
      }
    if (!value) return unset;
    if (value->open) return {.text = written, .open = value->open};
    return changed(value->text, rest, written, word, depth);
  }

  /// ${V#…}, ${V%…}, ${V/…/…}, ${V:…:…}, ${V^^} and ${V,,}.
  ShellField changed(const std::string& text, const std::string& rest, const std::string& written,
                     const ShellWord& word, std::size_t depth) {
    const auto plain = [&](const std::string& raw) {
      return expand_one({.text = raw, .line = word.line, .span = {}}, depth + 1).text;
    };
    const bool twice = rest.size() > 1 && rest[1] == rest[0];
    switch (rest[0]) {
      case '#': return {.text = without_front(text, plain(rest.substr(twice ? 2 : 1)), twice)};
      case '%': return {.text = without_end(text, plain(rest.substr(twice ? 2 : 1)), twice)};
      case '/': {
        const std::string raw = rest.substr(twice ? 2 : 1);
        const std::size_t cut = std::min(raw.find('/'), raw.size());
        return {.text = replaced(text, plain(raw.substr(0, cut)),
                                 cut < raw.size() ? plain(raw.substr(cut + 1)) : "", twice)};
      }
      case '^':
      case ',': {
        std::string made = text;
        for (std::size_t i = 0; i < made.size() && (twice || i == 0); ++i)
          made[i] = static_cast<char>(rest[0] == '^' ? std::toupper(static_cast<unsigned char>(made[i]))
                                                     : std::tolower(static_cast<unsigned char>(made[i])));
        return {.text = made};
      }
      case ':': {
        const std::size_t second = rest.find(':', 1);
        const auto from =
            arithmetic(rest.substr(1, second == std::string::npos ? second : second - 1), depth);
        const auto count = second == std::string::npos ? std::optional<std::int64_t>(kLongestValue)
                                                       : arithmetic(rest.substr(second + 1), depth);
        if (from && count && *from >= 0 && *count >= 0)
          return {.text = static_cast<std::size_t>(*from) < text.size()
                              ? text.substr(static_cast<std::size_t>(*from), static_cast<std::size_t>(*count))
                              : std::string()};
        break;
      }
      default: break;
    }
    return {.text = written, .open = ShellOpen{written, {}}};
  }

  bool matches(std::string_view text, std::string_view pattern) {
    work(text.size() * (pattern.find_first_of("*[") == std::string_view::npos ? 1 : pattern.size()));
    return shell_matches(text, pattern);
  }

  std::string without_front(const std::string& text, const std::string& pattern, bool longest) {
    const std::string_view view = text;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const std::size_t length = longest ? text.size() - i : i;
      if (matches(view.substr(0, length), pattern)) return text.substr(length);
    }
    return text;
  }

  std::string without_end(const std::string& text, const std::string& pattern, bool longest) {
    const std::string_view view = text;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const std::size_t begin = longest ? i : text.size() - i;
      if (matches(view.substr(begin), pattern)) return text.substr(0, begin);
    }
    return text;
  }

  /// Replaces text; a pattern with signs of its own is left alone.
  std::string replaced(const std::string& text, const std::string& pattern, const std::string& by, bool all) {
    if (pattern.empty() || pattern.find_first_of("*?[") != std::string::npos) return text;
    std::string made;
    std::size_t at = 0;
    for (std::size_t found = text.find(pattern); found != std::string::npos; found = text.find(pattern, at)) {
      work(by.size());
      made += text.substr(at, found - at) + by;
      at = found + pattern.size();
      if (!all || made.size() > kLongestValue) break;
    }
    return made + text.substr(at);
  }

  // ---- $((…)) and $(…)

  std::optional<std::int64_t> arithmetic(const std::string& text, std::size_t depth) {
    const ShellField inside = expand_one({.text = text, .line = line_, .span = {}}, depth + 1);
    work(inside.text.size());
    if (inside.open) return std::nullopt;
    return shell_arithmetic(inside.text, [&](std::string_view name) -> std::optional<std::string> {
      const auto value = value_of(std::string(name));
      return value && !value->open ? std::optional(value->text) : std::nullopt;
    });
  }

  ShellField arithmetic_field(std::string_view written, std::size_t depth) {
    const std::string inside(written.substr(3, written.size() - 5));
    if (const auto value = arithmetic(inside, depth)) return {.text = std::to_string(*value)};
    return {.text = std::string(written), .open = opened_in(inside, std::string(written))};
  }

  /// The first variable of an expression that is not known.
  ShellOpen opened_in(const std::string& expression, const std::string& written) {
    for (std::size_t i = 0; i < expression.size(); ++i) {
      const std::string name(name_in(std::string_view(expression).substr(i)));
      if (name.empty() || (i > 0 && is_name_character(expression[i - 1]))) continue;
      const auto value = value_of(name);
      if (!value) return {"$" + name, name};
      if (value->open) return *value->open;
    }
    return {written, {}};
  }

  ShellField substituted(std::string_view inside, std::string_view written, std::size_t line,
                         std::size_t depth) {
    work(inside.size());
    const ShellField unknown{.text = std::string(written), .open = ShellOpen{std::string(written), {}}};
    if (depth > kDeepestRun) return unknown;
    const ShellSyntax script = parse_shell(inside, line, std::nullopt);
    std::optional<ShellField> text;
    for (const ShellNode& each : script.commands) {
      if (each.kind != ShellKind::command || each.words.empty()) return unknown;
      Fields words;
      for (const ShellWord& word : each.words) expand(word, words, depth);
      if (words.empty()) return unknown;
      const bool takes = each.link == ShellLink::piped;
      text = printed(words, takes ? text : std::nullopt);
      if (!text) return unknown;
      if (text->open) {
        if (text->open->variable.empty()) return unknown;
        return {.text = std::string(written), .open = text->open};
      }
    }
    if (!text) return {};
    return {.text = trimmed(text->text)};
  }

  /// Returns what a command prints that only looks at text; nothing where that is not known.
  std::optional<ShellField> printed(const Fields& words, const std::optional<ShellField>& input) {
    const std::string& name = words[0].text;
    const auto open =
        std::ranges::find_if(words, [](const ShellField& each) { return each.open.has_value(); });
    if (open != words.end()) return ShellField{.text = {}, .open = open->open};
    if (name == "echo") return ShellField{.text = echoed(words) + "\n"};
    if (name == "printf") return formatted(words);
    if (name == "expr") return counted(joined(words, 1).text);
    if (name == "bc" && input) return counted(trimmed(input->text));
    if (name == "pwd") return ShellField{.text = folder_ + "\n"};
    if (name == "cd" && words.size() > 1) {
      folder_ = words.back().text;
      return ShellField{};
    }
    if (name == "dirname" && words.size() > 1) return ShellField{.text = folder_of(words.back().text) + "\n"};
    if (name == "basename" && words.size() > 1) return ShellField{.text = base_of(words) + "\n"};
    if (name == "seq" && words.size() > 1) return sequence(words);
    if (name == "tr" && input && words.size() == 3)
      return translated(input->text, words[1].text, words[2].text);
    if (name == "wc" && input && words.size() == 2) return tally(input->text, words[1].text);
    if (name == "awk" && input) return field_count(input->text, words);
    return std::nullopt;
  }

  static std::optional<ShellField> formatted(const Fields& words) {
    if (words.size() == 2 && words[1].text.find('%') == std::string::npos) return words[1];
    if (words.size() == 3 && (words[1].text == "%s" || words[1].text == "%d" || words[1].text == "%s\\n"))
      return words[2];
    return std::nullopt;
  }

  std::optional<ShellField> counted(const std::string& expression) {
    work(expression.size());
    const auto value = shell_arithmetic(expression, [](std::string_view) { return std::nullopt; });
    if (!value) return std::nullopt;
    return ShellField{.text = std::to_string(*value)};
  }

  static std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  }

  static std::string base_of(const Fields& words) {
    std::string path = words[1].text;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    path = path.substr(path.rfind('/') + 1);
    if (words.size() > 2 && path.ends_with(words[2].text)) path.resize(path.size() - words[2].text.size());
    return path;
  }

  std::optional<ShellField> sequence(const Fields& words) {
    const auto number = [](const std::string& text) {
      return shell_arithmetic(text, [](std::string_view) { return std::nullopt; });
    };
    const auto first = words.size() > 2 ? number(words[1].text) : std::optional<std::int64_t>(1);
    const auto last = number(words.back().text);
    constexpr std::int64_t kMost = 1000;
    if (!first || !last || words.size() > 3 || *last > kMost || *first < -kMost) return std::nullopt;
    std::string text;
    for (std::int64_t i = *first; i <= *last; ++i) text += std::to_string(i) + "\n";
    work(text.size());
    return ShellField{.text = text};
  }

  static std::optional<ShellField> translated(std::string text, const std::string& from,
                                              const std::string& to) {
    if (from == "-d") {
      std::erase_if(text, [&](char c) { return to.find(c) != std::string::npos; });
      return ShellField{.text = text};
    }
    if (from.size() != 1 || (to != "\\n" && to.size() != 1)) return std::nullopt;
    std::ranges::replace(text, from[0], to == "\\n" ? '\n' : to[0]);
    return ShellField{.text = text};
  }

  static std::optional<ShellField> tally(const std::string& text, const std::string& unit) {
    if (unit == "-l") return ShellField{.text = std::to_string(std::ranges::count(text, '\n'))};
    if (unit != "-w") return std::nullopt;
    std::size_t words = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
      if (!is_space(text[i]) && (i == 0 || is_space(text[i - 1]))) ++words;
    return ShellField{.text = std::to_string(words)};
  }

  /// awk -F, '{print NF}'.
  static std::optional<ShellField> field_count(const std::string& text, const Fields& words) {
    std::string separator;
    bool prints = false;
    for (std::size_t i = 1; i < words.size(); ++i) {
      std::string word = words[i].text;
      if (word == "-F" && i + 1 < words.size())
        separator = words[++i].text;
      else if (word.starts_with("-F"))
        separator = word.substr(2);
      else {
        std::erase_if(word, is_space);
        prints = word == "{printNF}";
      }
    }
    if (!prints || separator.size() != 1) return std::nullopt;
    const std::string line = trimmed(text);
    return ShellField{.text = std::to_string(line.empty() ? 0 : std::ranges::count(line, separator[0]) + 1)};
  }

  std::string_view text_;
  const std::string& file_;
  const std::function<bool(const ShellCall&)>& is_wanted_;
  ShellScript made_;
  std::deque<ShellSyntax> scripts_;  // commands that eval and functions point to
  std::map<std::string, Variable> variables_;
  std::map<std::string, Function, std::less<>> functions_;
  Fields arguments_;  // of the function that runs: its name, and what it is called with
  std::string folder_{"."};
  bool exports_all_{};
  std::size_t work_{}, line_{1};
};

}  // namespace

ShellScript follow_shell(std::string_view text, const std::string& file,
                         const std::function<bool(const ShellCall&)>& is_wanted) {
  return Follower(text, file, is_wanted).follow();
}

}  // namespace zplan
