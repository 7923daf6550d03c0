#include "planner/check/readers/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "models/base/error.h"

namespace zplan::check {

namespace {

constexpr const char* kAccepted = "accepted: what torch.cuda.memory._dump_snapshot() wrote";
/// Deeper values are no snapshot; JSON of them could not be written.
constexpr int kDeepest = 64;
/// A snapshot of a million events has six values each. Shared values count each time.
constexpr std::size_t kMostValues = std::size_t{1} << 23;
constexpr std::size_t kMostKeys = 1000;                    // of one dict
constexpr std::size_t kMostText = std::size_t{256} << 20;  // bytes

/// A value, which lists and dicts name by its number: pickles share values.
struct Value {
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, dict };
  Kind kind{Kind::none};
  std::int64_t integer{};
  double real{};
  std::string_view text{};
  std::vector<std::int32_t> items{};  ///< of a dict keys and values in turn
};

/// The stack machine that a pickle is a program of. Source: CPython Lib/pickle.py _Unpickler.
class Machine {
 public:
  Machine(std::string_view file, const std::string& source) : file_(file), source_(source) {}

  std::int32_t run() {
    while (true) {
      const auto opcode = static_cast<unsigned char>(take(1).front());
      if (opcode == '.') return pop();
      step(opcode);
    }
  }
  [[nodiscard]] const Value& at(std::int32_t value) const { return values_[static_cast<std::size_t>(value)]; }

 private:
  using Kind = Value::Kind;

  [[noreturn]] void fail(const std::string& found) const { throw InputError(source_, found, kAccepted); }

  void step(unsigned char opcode) {
    if (std::max({values_.size(), memo_.size(), marks_.size()}) > kMostValues)
      fail(fmt::format("a pickle of more than {} values", kMostValues));
    switch (opcode) {
      case 0x80: take(1); return;  // PROTO
      case 0x95: take(8); return;  // FRAME
      case '(': marks_.push_back(stack_.size()); return;
      case 'N': add({}); return;
      case 0x88: add({.kind = Kind::boolean, .integer = 1}); return;
      case 0x89: add({.kind = Kind::boolean}); return;
      case 'K': add_integer(number(1)); return;
      case 'M': add_integer(number(2)); return;
      case 'J': add_integer(static_cast<std::int32_t>(number(4))); return;
      case 0x8a: add_long(static_cast<std::size_t>(number(1))); return;
      case 'G': add_real(); return;
      case 'X': add_text(static_cast<std::size_t>(number(4))); return;
      case 0x8c: add_text(static_cast<std::size_t>(number(1))); return;
      case 0x8d: add_text(static_cast<std::size_t>(number(8))); return;
      case '}': add({.kind = Kind::dict}); return;
      case ']':
      case ')': add({.kind = Kind::list}); return;
      case 0x85: add_tuple(1); return;
      case 0x86: add_tuple(2); return;
      case 0x87: add_tuple(3); return;
      case 't': add_tuple(stack_.size() - mark()); return;
      case 'a': extend(1, Kind::list); return;
      case 's': extend(2, Kind::dict); return;
      case 'e': extend(stack_.size() - mark(), Kind::list); return;
      case 'u': extend(stack_.size() - mark(), Kind::dict); return;
      case 'q': memo_[number(1)] = top(); return;
      case 'r': memo_[number(4)] = top(); return;
      case 0x94: memo_[static_cast<std::int64_t>(memo_.size())] = top(); return;
      case 'h': recall(number(1)); return;
      case 'j': recall(number(4)); return;
      default: fail(fmt::format("a pickle of other objects (opcode 0x{:02x} at byte {})", opcode, next_ - 1));
    }
  }

  std::string_view take(std::size_t count) {
    if (count > file_.size() - next_) fail("a pickle that is cut off");
    const std::string_view taken = file_.substr(next_, count);
    next_ += count;
    return taken;
  }
  /// A number of `count` bytes, the lowest first.
  std::int64_t number(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view digits = take(count);
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    if (count == 8 && value > static_cast<std::uint64_t>(INT64_MAX))
      fail("a pickle with a length beyond 64 bits");
    return static_cast<std::int64_t>(value);
  }
  void add(Value value) {
    values_.push_back(std::move(value));
    stack_.push_back(static_cast<std::int32_t>(values_.size() - 1));
  }
  void add_integer(std::int64_t value) { add({.kind = Kind::integer, .integer = value}); }
  void add_long(std::size_t count) {
    if (count > 8) fail("a pickle with numbers beyond 64 bits");
    const std::string_view digits = take(count);
    std::uint64_t value = count > 0 && (static_cast<unsigned char>(digits.back()) & 0x80) != 0 ? ~0ULL : 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    add_integer(static_cast<std::int64_t>(value));
  }
  void add_real() {
    std::uint64_t value = 0;
    for (const char each : take(8)) value = value << 8 | static_cast<unsigned char>(each);
    add({.kind = Kind::real, .real = std::bit_cast<double>(value)});
  }
  void add_text(std::size_t size) { add({.kind = Kind::text, .text = take(size)}); }
  void add_tuple(std::size_t count) {
    const std::vector<std::int32_t> items = pop_items(count);
    add({.kind = Kind::list, .items = items});
  }

  [[nodiscard]] std::int32_t top() const {
    if (stack_.empty()) fail("a broken pickle");
    return stack_.back();
  }
  std::int32_t pop() {
    const std::int32_t value = top();
    stack_.pop_back();
    return value;
  }
  std::size_t mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) fail("a broken pickle");
    const std::size_t at = marks_.back();
    marks_.pop_back();
    return at;
  }
  std::vector<std::int32_t> pop_items(std::size_t count) {
    if (count > stack_.size()) fail("a broken pickle");
    const auto from = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::int32_t> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    return items;
  }
  void extend(std::size_t count, Kind kind) {
    const std::vector<std::int32_t> items = pop_items(count);
    Value& into = values_[static_cast<std::size_t>(top())];
    if (into.kind != kind || (kind == Kind::dict && items.size() % 2 != 0)) fail("a broken pickle");
    into.items.insert(into.items.end(), items.begin(), items.end());
  }
  void recall(std::int64_t name) {
    const auto found = memo_.find(name);
    if (found == memo_.end()) fail("a broken pickle");
    stack_.push_back(found->second);
  }

  std::string_view file_;
  const std::string& source_;
  std::size_t next_{};
  std::deque<Value> values_;
  std::vector<std::int32_t> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::int64_t, std::int32_t> memo_;
};

class Converter {
 public:
  Converter(const Machine& machine, const std::string& source) : machine_(machine), source_(source) {}

  Json convert(std::int32_t root) {
    Json json = json_of(root, 0);
    if (json.is_object()) json["stacks"] = std::move(stacks_);
    return json;
  }

 private:
  Json json_of(std::int32_t number, int depth) {
    if (depth > kDeepest) throw InputError(source_, "a pickle with values in each other", kAccepted);
    const Value& value = machine_.at(number);
    count(value);
    switch (value.kind) {
      case Value::Kind::none: return nullptr;
      case Value::Kind::boolean: return value.integer != 0;
      case Value::Kind::integer: return value.integer;
      case Value::Kind::real: return value.real;
      case Value::Kind::text: return std::string(value.text);
      case Value::Kind::list: {
        Json list = Json::array();
        for (const std::int32_t each : value.items) list.push_back(json_of(each, depth + 1));
        return list;
      }
      case Value::Kind::dict: return dict_of(value, depth);
    }
    return nullptr;
  }
  /// A value in several places becomes as many values.
  void count(const Value& value) {
    text_ += value.text.size();
    if (++values_ > kMostValues || text_ > kMostText)
      throw InputError(source_, fmt::format("a pickle of more than {} values", kMostValues), kAccepted);
  }
  Json dict_of(const Value& value, int depth) {
    if (value.items.size() / 2 > kMostKeys)
      throw InputError(source_, fmt::format("a pickle with {} keys in one dict", value.items.size() / 2),
                       kAccepted);
    Json dict = Json::object();
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const Value& key = machine_.at(value.items[i]);
      if (key.kind != Value::Kind::text) continue;  // of allocator settings
      const std::string name(key.text);
      dict[name] = name == "frames" ? Json(stack_of(value.items[i + 1], depth))
                                    : json_of(value.items[i + 1], depth + 1);
    }
    return dict;
  }
  std::size_t stack_of(std::int32_t number, int depth) {
    const auto [at, is_new] = known_.try_emplace(number, stacks_.size());
    if (is_new) {
      Json stack = json_of(number, depth + 1);
      stacks_.push_back(std::move(stack));
    }
    return at->second;
  }

  const Machine& machine_;
  const std::string& source_;
  Json stacks_ = Json::array();
  std::size_t values_{}, text_{};
  std::map<std::int32_t, std::size_t> known_;
};

}  // namespace

bool begins_as_pickle(std::string_view file) {
  return file.size() > 2 && file[0] == '\x80' && file[1] >= 2 && file[1] <= 5;
}

Json read_pickle(std::string_view file, const std::string& source) {
  Machine machine(file, source);
  const std::int32_t root = machine.run();
  return Converter(machine, source).convert(root);
}

}  // namespace zplan::check
