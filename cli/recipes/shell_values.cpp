#include "cli/recipes/shell_values.h"

#include <array>
#include <cctype>
#include <charconv>
#include <tuple>
#include <utility>

namespace zplan {

namespace {

constexpr int kDeepestTerm = 60;
constexpr int kMostTerms = 20'000;
constexpr std::size_t kLongestText = 4096, kLongestPattern = 256;

/// C's unsigned arithmetic wraps round, as the shell's does.
std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

struct Operator {
  std::string_view sign;
  int level{};
};
/// Two-character signs stand in front of their first character.
constexpr std::array<Operator, 19> kOperators{{{"**", 11},
                                               {"||", 1},
                                               {"&&", 2},
                                               {"==", 6},
                                               {"!=", 6},
                                               {"<=", 7},
                                               {">=", 7},
                                               {"<<", 8},
                                               {">>", 8},
                                               {"|", 3},
                                               {"^", 4},
                                               {"&", 5},
                                               {"=", 6},
                                               {"<", 7},
                                               {">", 7},
                                               {"+", 9},
                                               {"-", 9},
                                               {"*", 10},
                                               {"/", 10}}};

class Arithmetic {
 public:
  /// `terms`: how many more are evaluated, those of variables included.
  Arithmetic(std::string_view text, const ShellLookup& lookup, int& terms)
      : text_(text), lookup_(lookup), terms_(terms) {}

  std::optional<std::int64_t> value() {
    const auto found = ternary();
    skip();
    return at_ == text_.size() ? found : std::nullopt;
  }

 private:
  using Value = std::optional<std::int64_t>;

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(std::string_view sign) {
    skip();
    if (text_.substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }

  Value ternary() {
    if (++depth_ > kDeepestTerm) return std::nullopt;
    Value condition = binary(1);
    if (condition && take("?")) {
      const Value yes = ternary();
      if (!take(":")) return std::nullopt;
      const Value no = ternary();
      condition = *condition != 0 ? yes : no;
    }
    --depth_;
    return condition;
  }

  const Operator* next_operator() {
    skip();
    static constexpr Operator kModulo{"%", 10};
    for (const Operator& each : kOperators)
      if (text_.substr(at_, each.sign.size()) == each.sign) return &each;
    return text_.substr(at_, 1) == "%" ? &kModulo : nullptr;
  }

  Value binary(int lowest) {
    if (++depth_ > kDeepestTerm) return std::nullopt;
    Value left = unary();
    for (const Operator* each = next_operator(); left && each != nullptr && each->level >= lowest;
         each = next_operator()) {
      at_ += each->sign.size();
      const Value right = binary(each->sign == "**" ? each->level : each->level + 1);
      left = right ? applied(each->sign, *left, *right) : std::nullopt;
    }
    --depth_;
    return left;
  }

  static Value power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0 || exponent > 63) return std::nullopt;
    std::uint64_t product = 1;
    for (std::int64_t i = 0; i < exponent; ++i) product *= bits(base);
    return wrapped(product);
  }

  static Value divided(std::string_view sign, std::int64_t left, std::int64_t right) {
    if (right == 0) return std::nullopt;
    if (right == -1) return sign == "/" ? wrapped(0 - bits(left)) : 0;
    return sign == "/" ? left / right : left % right;
  }

  static Value applied(std::string_view sign, std::int64_t left, std::int64_t right) {
    if (sign == "+") return wrapped(bits(left) + bits(right));
    if (sign == "-") return wrapped(bits(left) - bits(right));
    if (sign == "*") return wrapped(bits(left) * bits(right));
    if (sign == "**") return power(left, right);
    if (sign == "/" || sign == "%") return divided(sign, left, right);
    if (sign == "<<") return wrapped(bits(left) << (bits(right) & 63U));
    if (sign == ">>") return left >> (bits(right) & 63U);
    if (sign == "&") return left & right;
    if (sign == "|") return left | right;
    if (sign == "^") return left ^ right;
    if (sign == "&&") return left != 0 && right != 0 ? 1 : 0;
    if (sign == "||") return left != 0 || right != 0 ? 1 : 0;
    return compared(sign, left, right) ? 1 : 0;
  }

  static bool compared(std::string_view sign, std::int64_t left, std::int64_t right) {
    if (sign == "!=") return left != right;
    if (sign == "<") return left < right;
    if (sign == ">") return left > right;
    if (sign == "<=") return left <= right;
    if (sign == ">=") return left >= right;
    return left == right;
  }

  Value unary() {
    if (++depth_ > kDeepestTerm) return std::nullopt;
    Value found;
    if (take("++") || take("--") || take("+"))
      found = unary();
    else if (take("-"))
      found = mapped(unary(), [](std::int64_t value) { return wrapped(0 - bits(value)); });
    else if (take("!"))
      found = mapped(unary(), [](std::int64_t value) { return std::int64_t{value == 0}; });
    else if (take("~"))
      found = mapped(unary(), [](std::int64_t value) { return ~value; });
    else
      found = primary();
    --depth_;
    return found;
  }

  static Value mapped(Value value, std::int64_t (*function)(std::int64_t)) {
    return value ? Value(function(*value)) : std::nullopt;
  }

  Value primary() {
    if (--terms_ < 0) return std::nullopt;
    if (take("(")) {
      const Value inside = ternary();
      return take(")") ? inside : std::nullopt;
    }
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) return number(word);
    return of_name(word);
  }

  static Value number(std::string_view word) {
    int base = 10;
    if (word.starts_with("0x") || word.starts_with("0X")) {
      base = 16, word.remove_prefix(2);
    } else if (word.size() > 1 && word.front() == '0') {
      base = 8, word.remove_prefix(1);
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    return error == std::errc() && end == word.data() + word.size() ? Value(value) : std::nullopt;
  }

  Value of_name(std::string_view name) {
    skip();
    // An assignment's value is what it assigns.
    if (at_ + 1 < text_.size() && text_[at_] == '=' && text_[at_ + 1] != '=') {
      ++at_;
      return ternary();
    }
    const auto text = lookup_(name);
    if (!text) return std::nullopt;
    Arithmetic inner(*text, lookup_, terms_);
    inner.depth_ = depth_ + 10;  // a variable that names itself ends
    const Value value = text->empty() ? Value(0) : inner.depth_ > kDeepestTerm ? std::nullopt : inner.value();
    if (!take("++")) take("--");
    return value;
  }

  std::string_view text_;
  const ShellLookup& lookup_;
  std::size_t at_{};
  int& terms_;
  int depth_{};
};

/// Returns where the set […] at `at` ends, and whether it has `c`.
std::pair<std::size_t, bool> matched_set(std::string_view pattern, std::size_t at, char c) {
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool has = false;
  for (const std::size_t first = i; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      has = has || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      has = has || pattern[i] == c;
    }
  }
  return {std::min(i + 1, pattern.size()), has != negated};
}

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view text, const ShellLookup& lookup) {
  int terms = kMostTerms;
  return Arithmetic(text, lookup, terms).value();
}

bool shell_matches(std::string_view text, std::string_view pattern) {
  if (text.size() > kLongestText || pattern.size() > kLongestPattern) return text == pattern;
  std::size_t at = 0, in_pattern = 0, star = std::string_view::npos, behind_star = 0;
  while (at < text.size()) {
    std::size_t next = in_pattern + 1;
    bool same = false;
    if (in_pattern < pattern.size()) {
      const char c = pattern[in_pattern];
      if (c == '*') {
        star = in_pattern++, behind_star = at;
        continue;
      }
      if (c == '[')
        std::tie(next, same) = matched_set(pattern, in_pattern, text[at]);
      else if (c == '\\' && next < pattern.size())
        same = pattern[next] == text[at], ++next;
      else
        same = c == '?' || c == text[at];
    }
    if (same) {
      ++at, in_pattern = next;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1, at = ++behind_star;
    } else {
      return false;
    }
  }
  while (in_pattern < pattern.size() && pattern[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern.size();
}

}  // namespace zplan
