#include "cli/recipes/shell_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace zplan {

namespace {

constexpr std::size_t kDeepestNesting = 40;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::size_t single_quoted_end(std::string_view text, std::size_t at) {
  const std::size_t end = text.find('\'', at + 1);
  return end == std::string_view::npos ? text.size() : end + 1;
}

std::size_t back_quoted_end(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '`'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

bool begins_inner(std::string_view text, std::size_t at) {
  return text[at] == '`' ||
         (text[at] == '$' && at + 1 < text.size() && (text[at + 1] == '(' || text[at + 1] == '{'));
}

std::size_t double_quoted_end(std::string_view text, std::size_t at, std::size_t depth) {
  for (++at; at < text.size() && text[at] != '"';) {
    if (text[at] == '\\')
      at += 2;
    else
      at = begins_inner(text, at) ? shell_end(text, at, depth + 1) : at + 1;
  }
  return std::min(at + 1, text.size());
}

/// Returns the end of what `open` at `at` begins and `close` ends.
std::size_t paired_end(std::string_view text, std::size_t at, char open, char close, std::size_t depth) {
  std::size_t nested = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
    } else if (c == '\'' || c == '"' || begins_inner(text, at)) {
      at = shell_end(text, at, depth + 1);
    } else if (c == '#' && open == '(' && at > 0 &&
               std::isspace(static_cast<unsigned char>(text[at - 1])) != 0) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      if (c == open) ++nested;
      ++at;
      if (c == close && --nested == 0) return at;
    }
  }
  return text.size();
}

struct Token {
  enum class Kind { word, sign, end } kind{Kind::end};
  ShellWord word{};
  std::string sign{};  ///< "\n", ";", "&&", …
  bool is_glued{};     ///< nothing stands between it and the word in front
};

/// Signs, longer ones first.
constexpr std::array<std::string_view, 25> kSigns{"&>>", "<<<", "<<-", ";;&", "&&", "||", ";;", ";&", "|&",
                                                  "&>",  ">>",  "<<",  ">&",  "<&", "<>", ">|", "((", ";",
                                                  "&",   "|",   "(",   ")",   "<",  ">",  "\n"};

class Lexer {
 public:
  Lexer(std::string_view text, std::size_t first_line, std::optional<std::size_t> place)
      : text_(text), line_(first_line), place_(place) {}

  Token next() {
    skip_blanks();
    if (at_ >= text_.size()) return {};
    if (const auto sign = sign_here()) return take_sign(*sign);
    return take_word();
  }

  /// A here-document's body follows the line.
  std::size_t await(const ShellWord& end, bool strips) {
    std::string name;
    bool quoted = false;
    for (const char c : end.text) {
      if (c == '\'' || c == '"' || c == '\\')
        quoted = true;
      else
        name += c;
    }
    documents.push_back({.text = {}, .expands = !quoted, .line = line_});
    awaited_.push_back({name, strips, documents.size() - 1});
    return documents.size() - 1;
  }

  /// The text up to "))", behind "((".
  ShellWord arithmetic() {
    const std::size_t begin = at_;
    const std::size_t end = at_ >= 2 ? paired_end(text_, at_ - 2, '(', ')', 0) : text_.size();
    at_ = std::max(end, begin);
    ShellWord word = made(begin, std::max(begin, end >= begin + 2 ? end - 2 : begin));
    count_lines(begin, at_);
    return word;
  }

  std::vector<ShellSyntax::Document> documents;
  std::optional<std::size_t> open_quote;

 private:
  struct Awaited {
    std::string end;
    bool strips{};
    std::size_t document{};
  };

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_, 2) == "\\\n" || text_.substr(at_, 3) == "\\\r\n") {
        at_ += text_[at_ + 1] == '\n' ? 2U : 3U;
        ++line_;
      } else if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  [[nodiscard]] std::optional<std::string_view> sign_here() const {
    for (const std::string_view sign : kSigns)
      if (text_.substr(at_, sign.size()) == sign) return sign;
    return std::nullopt;
  }

  Token take_sign(std::string_view sign) {
    const bool is_glued = at_ > 0 && !is_blank(text_[at_ - 1]);
    at_ += sign.size();
    if (sign == "\n") {
      ++line_;
      read_documents();
    }
    return {.kind = Token::Kind::sign,
            .word = {.text = {}, .line = line_, .span = {}},
            .sign = std::string(sign),
            .is_glued = is_glued};
  }

  [[nodiscard]] ShellWord made(std::size_t begin, std::size_t end) const {
    const Span span = place_ ? Span{*place_ + begin, *place_ + end} : Span{};
    return {.text = std::string(text_.substr(begin, end - begin)), .line = line_, .span = span};
  }

  void count_lines(std::size_t begin, std::size_t end) {
    line_ += static_cast<std::size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  }

  Token take_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && !ends_word(begin)) step();
    if (at_ == begin) ++at_;
    at_ = std::min(at_, text_.size());
    Token token{.kind = Token::Kind::word, .word = made(begin, at_), .sign = {}};
    count_lines(begin, at_);
    return token;
  }

  [[nodiscard]] bool ends_word(std::size_t begin) const {
    const char c = text_[at_];
    if (is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == ')' || c == '<' || c == '>')
      return true;
    return c == '(' && (at_ == begin || text_[at_ - 1] != '=');
  }

  void step() {
    const char c = text_[at_];
    if (c == '\\') {
      at_ = std::min(at_ + 2, text_.size());
    } else if (c == '\'' || c == '"') {
      const std::size_t begin = at_;
      at_ = shell_end(text_, at_);
      const bool closed = at_ > begin + 1 && text_[at_ - 1] == c;
      if (!closed && !open_quote) open_quote = line_;
    } else if (c == '(' || begins_inner(text_, at_)) {
      at_ = shell_end(text_, at_);
    } else {
      ++at_;
    }
  }

  void read_documents() {
    for (const Awaited& each : awaited_) {
      documents[each.document].line = line_;
      read_document(each);
    }
    awaited_.clear();
  }

  void read_document(const Awaited& awaited) {
    std::string& body = documents[awaited.document].text;
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = std::min(end + 1, text_.size());
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      while (awaited.strips && line.starts_with('\t')) line.remove_prefix(1);
      if (line == awaited.end) return;
      body.append(line).append("\n");
    }
  }

  std::string_view text_;
  std::size_t at_{}, line_;
  std::optional<std::size_t> place_;
  std::vector<Awaited> awaited_;
};

class Parser {
 public:
  Parser(std::string_view text, std::size_t first_line, std::optional<std::size_t> place)
      : lexer_(text, first_line, place) {
    advance();
  }

  ShellSyntax parse() {
    ShellSyntax made;
    while (token_.kind != Token::Kind::end) {
      ShellList more = list();
      std::ranges::move(more, std::back_inserter(made.commands));
      if (token_.kind != Token::Kind::end) advance();  // what ends nothing
    }
    made.documents = std::move(lexer_.documents);
    made.open_quote = lexer_.open_quote;
    return made;
  }

 private:
  void advance() { token_ = lexer_.next(); }
  [[nodiscard]] bool is_sign(std::string_view sign) const {
    return token_.kind == Token::Kind::sign && token_.sign == sign;
  }
  [[nodiscard]] bool is_word(std::string_view word) const {
    return token_.kind == Token::Kind::word && token_.word.text == word;
  }
  bool take_word(std::string_view word) {
    if (!is_word(word)) return false;
    advance();
    return true;
  }
  [[nodiscard]] bool ends_list() const {
    if (token_.kind == Token::Kind::end || is_sign(")") || is_sign(";;") || is_sign(";&") || is_sign(";;&"))
      return true;
    constexpr std::array<std::string_view, 8> kEnds{"then", "fi", "else", "elif", "do", "done", "esac", "}"};
    return token_.kind == Token::Kind::word && std::ranges::find(kEnds, token_.word.text) != kEnds.end();
  }

  /// Commands up to a word or sign that ends a list.
  ShellList list() {
    ShellList commands;
    ShellLink link = ShellLink::then;
    while (!ends_list()) {
      if (token_.kind == Token::Kind::sign && is_separator()) {
        link = separator();
        continue;
      }
      ShellNode node = command();
      node.link = link;
      link = ShellLink::then;
      commands.push_back(std::move(node));
    }
    return commands;
  }

  [[nodiscard]] bool is_separator() const {
    constexpr std::array<std::string_view, 7> kSeparators{"\n", ";", "&", "&&", "||", "|", "|&"};
    return std::ranges::find(kSeparators, token_.sign) != kSeparators.end();
  }

  ShellLink separator() {
    const std::string sign = token_.sign;
    advance();
    const ShellLink link = sign == "&&"                  ? ShellLink::and_then
                           : sign == "||"                ? ShellLink::or_else
                           : sign == "|" || sign == "|&" ? ShellLink::piped
                                                         : ShellLink::then;
    if (link != ShellLink::then)
      while (is_sign("\n")) advance();
    return link;
  }

  ShellNode command() {
    ShellNode node{.line = token_.word.line};
    if (depth_ >= kDeepestNesting) {  // what is nested deeper is no recipe
      advance();
      return node;
    }
    ++depth_;
    if (take_word("!")) node.negated = true;
    node.line = token_.word.line;
    if (token_.kind == Token::Kind::sign)
      of_sign(node);
    else if (!of_keyword(node))
      simple(node);
    --depth_;
    return node;
  }

  void of_sign(ShellNode& node) {
    if (is_sign("((")) {
      node.words.push_back({.text = "((", .line = token_.word.line, .span = {}});
      node.words.push_back(lexer_.arithmetic());
      advance();
    } else if (is_sign("(")) {
      advance();
      node.kind = ShellKind::group;
      node.parts.push_back(list());
      if (is_sign(")")) advance();
      redirects(node);
    } else if (is_redirect()) {
      simple(node);
    } else {
      advance();
    }
  }

  bool of_keyword(ShellNode& node) {
    if (take_word("if")) return branch(node), true;
    if (take_word("while") || take_word("until")) return loop_while(node), true;
    if (take_word("for") || take_word("select")) return loop_over(node), true;
    if (take_word("case")) return choice(node), true;
    if (take_word("function")) return function(node), true;
    if (take_word("{")) {
      node.kind = ShellKind::group;
      node.parts.push_back(list());
      take_word("}");
      redirects(node);
      return true;
    }
    if (is_word("[[")) return test(node), true;
    return false;
  }

  void branch(ShellNode& node) {
    node.kind = ShellKind::branch;
    do {
      node.parts.push_back(list());  // the condition
      take_word("then");
      node.parts.push_back(list());
    } while (take_word("elif"));
    if (take_word("else")) node.parts.push_back(list());
    take_word("fi");
    redirects(node);
  }

  void body(ShellNode& node) {
    while (is_sign("\n") || is_sign(";")) advance();
    take_word("do");
    node.parts.push_back(list());
    take_word("done");
    redirects(node);
  }

  void loop_while(ShellNode& node) {
    node.kind = ShellKind::loop_while;
    node.parts.push_back(list());
    body(node);
  }

  void loop_over(ShellNode& node) {
    node.kind = ShellKind::loop_over;
    if (is_sign("((")) {
      node.words.push_back({.text = "((", .line = token_.word.line, .span = {}});
      node.words.push_back(lexer_.arithmetic());
      advance();
      return body(node);
    }
    if (token_.kind == Token::Kind::word) {
      node.words.push_back(token_.word);
      advance();
    }
    while (is_sign("\n")) advance();
    if (take_word("in"))
      while (token_.kind == Token::Kind::word) {
        node.words.push_back(token_.word);
        advance();
      }
    body(node);
  }

  void choice(ShellNode& node) {
    node.kind = ShellKind::choice;
    if (token_.kind == Token::Kind::word) {
      node.words.push_back(token_.word);
      advance();
    }
    while (is_sign("\n")) advance();
    take_word("in");
    while (token_.kind != Token::Kind::end && !take_word("esac")) {
      std::vector<ShellWord> patterns;
      while (token_.kind != Token::Kind::end && !is_sign(")") && !is_word("esac")) {
        if (token_.kind == Token::Kind::word) patterns.push_back(token_.word);
        advance();
      }
      if (!is_sign(")")) continue;
      advance();
      node.patterns.push_back(std::move(patterns));
      node.parts.push_back(list());
      while (is_sign(";;") || is_sign(";&") || is_sign(";;&")) advance();
      if (is_sign(")"))
        advance();
      else if (ends_list() && !is_word("esac") && token_.kind == Token::Kind::word)
        advance();
    }
    redirects(node);
  }

  void function(ShellNode& node) {
    node.kind = ShellKind::function;
    if (token_.kind == Token::Kind::word) {
      node.words.push_back(token_.word);
      advance();
    }
    function_body(node);
  }

  void function_body(ShellNode& node) {
    if (is_sign("(")) advance();
    if (is_sign(")")) advance();
    while (is_sign("\n")) advance();
    ShellList body;
    if (!ends_list()) body.push_back(command());
    node.parts.push_back(std::move(body));
  }

  /// "[[ … ]]": signs in it are words.
  void test(ShellNode& node) {
    while (token_.kind != Token::Kind::end && !is_word("]]") && !is_sign("\n")) {
      ShellWord word = token_.word;
      if (token_.kind == Token::Kind::sign) word.text = token_.sign;
      node.words.push_back(std::move(word));
      advance();
    }
    if (is_word("]]")) {
      node.words.push_back(token_.word);
      advance();
    }
  }

  [[nodiscard]] bool is_redirect() const {
    return token_.kind == Token::Kind::sign && token_.sign.find_first_of("<>") != std::string::npos;
  }

  void redirect(ShellNode& node) {
    ShellRedirect made{.sign = token_.sign, .target = {}};
    advance();
    if (token_.kind == Token::Kind::word) {
      made.target = token_.word;
      made.is_here_document = made.sign == "<<" || made.sign == "<<-";
      if (made.is_here_document) made.document = lexer_.await(made.target, made.sign == "<<-");
      advance();
    }
    node.redirects.push_back(std::move(made));
  }

  void redirects(ShellNode& node) {
    while (is_redirect()) redirect(node);
  }

  void simple(ShellNode& node) {
    while (token_.kind == Token::Kind::word || is_redirect()) {
      if (is_redirect()) {
        redirect(node);
        continue;
      }
      node.words.push_back(token_.word);
      advance();
      if (is_redirect() && token_.is_glued && is_descriptor(node.words.back())) node.words.pop_back();
      if (node.words.size() == 1 && is_sign("(")) return named_function(node);
    }
  }

  /// "2" of "2>&1".
  static bool is_descriptor(const ShellWord& word) {
    return word.text.size() == 1 && std::isdigit(static_cast<unsigned char>(word.text[0])) != 0;
  }

  void named_function(ShellNode& node) {
    const auto is_plain = [](char c) { return is_name_character(c) || c == '-' || c == ':' || c == '.'; };
    if (!std::ranges::all_of(node.words[0].text, is_plain)) return;
    node.kind = ShellKind::function;
    function_body(node);
  }

  Lexer lexer_;
  Token token_;
  std::size_t depth_{};
};

}  // namespace

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::size_t shell_end(std::string_view text, std::size_t at, std::size_t depth) {
  if (depth > kDeepestNesting) return text.size();
  switch (text[at]) {
    case '\'': return single_quoted_end(text, at);
    case '"': return double_quoted_end(text, at, depth);
    case '`': return back_quoted_end(text, at);
    case '(': return paired_end(text, at, '(', ')', depth);
    case '$': break;
    default: return at + 1;
  }
  if (at + 1 >= text.size()) return text.size();
  if (text[at + 1] == '(') return paired_end(text, at + 1, '(', ')', depth);
  if (text[at + 1] == '{') return paired_end(text, at + 1, '{', '}', depth);
  return at + 1;
}

ShellSyntax parse_shell(std::string_view text, std::size_t first_line, std::optional<std::size_t> place) {
  return Parser(text, first_line, place).parse();
}

}  // namespace zplan
