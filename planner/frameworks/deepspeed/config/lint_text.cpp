#include "planner/frameworks/deepspeed/config/lint_text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace zplan {

namespace {

/// Deepest nesting that is read, as in parse_json, which reports deeper texts.
constexpr int kDeepest = 64;
constexpr std::size_t kMostPlaces = std::size_t{32} << 20;  ///< bytes of all pointers
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::array<std::string_view, 3> kNotFinite{"NaN", "-Infinity", "Infinity"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Walks over a text once, notes what stands where, and blanks in `clean` what is not JSON, so that places
/// stay. It stops at the first thing it does not know: the parser of `clean` says what that is.
class Scanner {
 public:
  Scanner(DsText& ds, std::string& clean, const std::string& source)
      : ds_(ds), clean_(clean), source_(source) {}

  void run() {
    if (text().starts_with(kByteOrderMark)) {
      flaw(FlawKind::byte_order_mark, {0, kByteOrderMark.size()}, "");
      at_ = kByteOrderMark.size();
    }
    if (skip("") && value("", 0)) skip("");
  }

 private:
  [[nodiscard]] std::string_view text() const { return ds_.text; }
  [[nodiscard]] char now() const { return at_ < text().size() ? text()[at_] : '\0'; }

  void blank(Span span) {
    for (std::size_t i = span.begin; i < span.end; ++i)
      if (!is_blank(clean_[i])) clean_[i] = ' ';
  }

  void flaw(FlawKind kind, Span span, const std::string& pointer) {
    ds_.flaws.push_back({kind, span, pointer});
    if (kind != FlawKind::not_finite) blank(span);
  }

  /// Past blanks and comments; false where a comment has no end.
  bool skip(const std::string& pointer) {
    while (at_ < text().size()) {
      const std::string_view rest = text().substr(at_);
      std::size_t end = std::string_view::npos;
      if (is_blank(now())) {
        ++at_;
        continue;
      }
      if (rest.starts_with("//") || rest.starts_with('#'))
        end = std::min(rest.find('\n'), rest.size());
      else if (!rest.starts_with("/*"))
        return true;
      else if ((end = rest.find("*/", 2)) == std::string_view::npos)
        return false;
      else
        end += 2;
      flaw(FlawKind::comment, {at_, at_ + end}, pointer);
      at_ += end;
    }
    return true;
  }

  /// Past a string; its span with the quotes.
  bool string(Span& span) {
    if (now() != '"') return false;
    span.begin = at_++;
    while (at_ < text().size() && now() != '"') at_ += now() == '\\' ? 2U : 1U;
    if (at_ >= text().size()) return false;
    span.end = ++at_;
    return true;
  }

  /// Counts what the places of values take: a long key stands in the pointer of each value below it.
  void note(const std::string& pointer) {
    places_ += pointer.size() + sizeof(Span);
    if (places_ > kMostPlaces)
      throw InputError(source_, "too many values, or values under too long keys",
                       "accepted: a smaller config");
  }

  bool value(const std::string& pointer, int depth) {
    if (depth >= kDeepest) return false;
    note(pointer);
    const std::size_t begin = at_;
    Span string_span;
    const bool read = now() == '{'   ? object(pointer, depth)
                      : now() == '[' ? array(pointer, depth)
                      : now() == '"' ? string(string_span)
                                     : word(pointer);
    ds_.values[pointer] = {begin, at_};
    return read;
  }

  /// A number, true, false, null, or a number that is none.
  bool word(const std::string& pointer) {
    for (const std::string_view name : kNotFinite)
      if (text().substr(at_).starts_with(name)) {
        flaw(FlawKind::not_finite, {at_, at_ + name.size()}, pointer);
        clean_.replace(at_, name.size(), "0" + std::string(name.size() - 1, ' '));
        at_ += name.size();
        return true;
      }
    const std::size_t begin = at_;
    constexpr std::string_view kEnds = " \t\r\n,]}/#:\"{[";
    while (at_ < text().size() && kEnds.find(now()) == std::string_view::npos) ++at_;
    return at_ > begin;
  }

  /// Behind an element: true where another follows, which `closed` says is not so.
  bool comma(const std::string& pointer, char close, bool& closed) {
    if (!skip(pointer)) return false;
    const std::size_t at = at_;
    const bool found = now() == ',';
    if (found) {
      ++at_;
      if (!skip(pointer)) return false;
    }
    closed = now() == close;
    if (closed) ++at_;
    if (closed && found) flaw(FlawKind::trailing_comma, {at, at + 1}, pointer);
    return closed || found;
  }

  bool array(const std::string& pointer, int depth) {
    ++at_;
    if (!skip(pointer)) return false;
    bool closed = now() == ']';
    if (closed) ++at_;
    for (int i = 0; !closed; ++i)
      if (!value(pointer + "/" + std::to_string(i), depth + 1) || !comma(pointer, ']', closed)) return false;
    return true;
  }

  bool object(const std::string& pointer, int depth) {
    ++at_;
    ds_.objects[pointer].clear();  // of a key that stands twice the last counts
    if (!skip(pointer)) return false;
    bool closed = now() == '}';
    if (closed) ++at_;
    while (!closed)
      if (!member(pointer, depth) || !comma(pointer, '}', closed)) return false;
    note_duplicates(pointer);
    return true;
  }

  bool member(const std::string& pointer, int depth) {
    TextMember found;
    if (!string(found.key_span) || !skip(pointer) || now() != ':') return false;
    ++at_;
    const std::string_view quoted =
        text().substr(found.key_span.begin, found.key_span.end - found.key_span.begin);
    const Json key = Json::parse(quoted, nullptr, false);
    if (!key.is_string() || !skip(pointer)) return false;
    found.key = key.get<std::string>();
    const std::string own = pointer + "/" + pointer_step(found.key);
    ds_.keys[own] = found.key_span;
    found.value_span.begin = at_;
    if (!value(own, depth + 1)) return false;
    found.value_span.end = at_;
    ds_.objects[pointer].push_back(found);
    return true;
  }

  /// All but the last of members with one key go, and with them what was noted inside them.
  void note_duplicates(const std::string& pointer) {
    std::vector<TextMember>& members = ds_.objects[pointer];
    std::unordered_map<std::string_view, std::size_t> last;
    for (std::size_t i = 0; i < members.size(); ++i) last[members[i].key] = i;
    constexpr std::size_t kMost = 1000;  // of more parse_json says that a key stands twice
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (last[members[i].key] == i || ++duplicates_ > kMost) continue;
      const Span span{members[i].key_span.begin, members[i + 1].key_span.begin};
      flaw(FlawKind::duplicate_key, span, pointer + "/" + pointer_step(members[i].key));
    }
  }

  DsText& ds_;
  std::string& clean_;
  const std::string& source_;
  std::size_t at_{}, places_{}, duplicates_{};
};

std::string parent_of(const std::string& pointer) { return pointer.substr(0, pointer.rfind('/')); }

/// Which member of its object a pointer names: of duplicates the last.
std::size_t index_of(const DsText& ds, const std::vector<TextMember>& members, const std::string& pointer) {
  const std::size_t begin = ds.keys.at(pointer).begin;
  const auto at =
      std::lower_bound(members.begin(), members.end(), begin,
                       [](const TextMember& each, std::size_t place) { return each.key_span.begin < place; });
  return static_cast<std::size_t>(at - members.begin());
}

/// Returns the blanks in front of a member, from the start of its line.
std::string indent_before(const std::string& text, std::size_t begin) {
  std::size_t at = begin;
  while (at > 0 && is_blank(text[at - 1])) --at;
  return text.substr(at, begin - at);
}

}  // namespace

DsText read_ds_text(std::string_view text, const std::string& source) {
  DsText ds;
  ds.text = std::string(text);
  std::string clean(text);
  Scanner(ds, clean, source).run();
  ds.document = parse_json(clean, source);
  return ds;
}

LineColumn line_and_column(std::string_view text, std::size_t offset) { return TextPlaces(text).of(offset); }

LineColumn TextPlaces::of(std::size_t offset) {
  if (offset < reached_) reached_ = 0, place_ = {};
  for (const char c : text_.substr(reached_, offset - reached_)) {
    if (c == '\n')
      ++place_.line, place_.column = 1;
    else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U)
      ++place_.column;
  }
  reached_ = std::min(offset, text_.size());
  return place_;
}

std::string pointer_step(std::string_view key) {
  std::string step;
  for (const char c : key) step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return step;
}

std::vector<TextEdit> remove_member(const DsText& ds, const std::string& pointer) {
  const std::vector<TextMember>& members = ds.objects.at(parent_of(pointer));
  const std::size_t i = index_of(ds, members, pointer);
  if (i + 1 < members.size()) return {{{members[i].key_span.begin, members[i + 1].key_span.begin}, ""}};
  if (i > 0) return {{{members[i - 1].value_span.end, members[i].value_span.end}, ""}};
  const std::size_t blanks = indent_before(ds.text, members[i].key_span.begin).size();
  std::size_t end = members[i].value_span.end;
  while (end < ds.text.size() && is_blank(ds.text[end])) ++end;
  return {{{members[i].key_span.begin - blanks, end}, ""}};
}

std::vector<TextEdit> rename_member(const DsText& ds, const std::string& pointer, std::string_view key) {
  return {{ds.keys.at(pointer), Json(std::string(key)).dump()}};
}

std::vector<TextEdit> set_member(const DsText& ds, const std::string& pointer, const std::string& key,
                                 const std::string& json) {
  const std::string own = pointer + "/" + pointer_step(key);
  if (ds.values.contains(own)) return replace_value(ds, own, json);
  const std::string member = Json(key).dump() + ": " + json;
  const std::vector<TextMember>& members = ds.objects.at(pointer);
  if (members.empty()) {
    const Span span = ds.values.at(pointer);
    return {{{span.begin + 1, span.begin + 1}, member}};
  }
  const std::size_t end = members.back().value_span.end;
  const std::string indent = indent_before(ds.text, members.back().key_span.begin);
  return {{{end, end}, "," + (indent.empty() ? " " : indent) + member}};
}

std::vector<TextEdit> replace_value(const DsText& ds, const std::string& pointer, const std::string& json) {
  return {{ds.values.at(pointer), json}};
}

std::string edited(const std::string& text, std::vector<TextEdit> edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const TextEdit& a, const TextEdit& b) { return a.span.begin < b.span.begin; });
  std::vector<TextEdit> kept;
  for (TextEdit& edit : edits)
    if (kept.empty() || edit.span.begin >= kept.back().span.end) kept.push_back(std::move(edit));
  std::string made;
  std::size_t at = 0;
  for (const TextEdit& edit : kept) {
    made.append(text, at, edit.span.begin - at).append(edit.text);
    at = edit.span.end;
  }
  return made.append(text, at);
}

}  // namespace zplan
