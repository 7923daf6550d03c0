#pragma once
// What the C++ standard library of Debian's emscripten (libc++ 14) lacks of C++20. Only packaging/build-web
// includes it, ahead of every file; any other build uses its own library's.

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstdlib>
#include <functional>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// There are no threads: what is asked of one waits until its result is wanted. Each call has its policy
// first.
#define async(policy, ...) async(std::launch::deferred, __VA_ARGS__)

namespace std {

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

// Three-way comparisons of containers. Source: C++20 [expos.only.func] synth-three-way, [alg.three.way].

namespace zplan_shims {
template <class T>
constexpr auto compare(const T& a, const T& b) {
  if constexpr (requires { a <=> b; })
    return a <=> b;
  else
    return a < b ? weak_ordering::less : b < a ? weak_ordering::greater : weak_ordering::equivalent;
}

template <class Range>
constexpr auto compare_elements(const Range& a, const Range& b) -> decltype(compare(*a.begin(), *b.begin())) {
  auto i = a.begin();
  auto j = b.begin();
  for (; i != a.end() && j != b.end(); ++i, ++j)
    if (const auto order = compare(*i, *j); order != 0) return order;
  return a.size() <=> b.size();
}
}  // namespace zplan_shims

template <class T>
constexpr auto operator<=>(const optional<T>& a, const optional<T>& b)
    -> decltype(zplan_shims::compare(*a, *b)) {
  if (a && b) return zplan_shims::compare(*a, *b);
  return a.has_value() <=> b.has_value();
}

template <class T, class U>
constexpr auto operator<=>(const pair<T, U>& a, const pair<T, U>& b)
    -> common_comparison_category_t<decltype(zplan_shims::compare(a.first, b.first)),
                                    decltype(zplan_shims::compare(a.second, b.second))> {
  if (const auto order = zplan_shims::compare(a.first, b.first); order != 0) return order;
  return zplan_shims::compare(a.second, b.second);
}

inline strong_ordering operator<=>(const string& a, const string& b) { return a.compare(b) <=> 0; }
constexpr strong_ordering operator<=>(string_view a, string_view b) { return a.compare(b) <=> 0; }

template <class T>
auto operator<=>(const vector<T>& a, const vector<T>& b) {
  return zplan_shims::compare_elements(a, b);
}

/// Reads a number as its grammar has it: neither blanks nor a plus sign come first. Source: C++20
/// [charconv.from.chars].
inline from_chars_result from_chars(const char* first, const char* last, double& value,
                                    chars_format format = chars_format::general) {
  const auto digits = [&](const char* at) {
    return find_if(at, last, [](char c) { return c < '0' || c > '9'; });
  };
  const char* const whole = first + (first != last && *first == '-');
  const char* end = digits(whole);
  bool has_digit = end != whole;
  if (end != last && *end == '.') {
    const char* const fraction = digits(end + 1);
    has_digit = has_digit || fraction != end + 1;
    end = fraction;
  }
  if (!has_digit) return {first, errc::invalid_argument};
  if (format != chars_format::fixed && end != last && (*end == 'e' || *end == 'E')) {
    const char* const power = end + 1 + (end + 1 != last && (end[1] == '-' || end[1] == '+'));
    if (digits(power) != power) end = digits(power);
  }
  const double read = strtod(string(first, end).c_str(), nullptr);
  if (read - read != 0) return {end, errc::result_out_of_range};
  value = read;
  return {end, errc()};
}

// Algorithms over ranges, with projections. Source: C++20 [algorithms].

namespace ranges {

template <class R, class S, class F = std::equal_to<>, class P = identity, class Q = identity>
constexpr bool equal(R&& range, S&& other, F test = {}, P of = {}, Q of_other = {}) {
  return std::equal(begin(range), end(range), begin(other), end(other), [&](auto&& a, auto&& b) -> bool {
    return invoke(test, invoke(of, a), invoke(of_other, b));
  });
}

template <class R, class F, class P = identity>
constexpr auto find_if(R&& range, F test, P of = {}) {
  return std::find_if(begin(range), end(range),
                      [&](auto&& each) -> bool { return invoke(test, invoke(of, each)); });
}

template <class R, class F, class P = identity>
constexpr auto find_if_not(R&& range, F test, P of = {}) {
  return ranges::find_if(
      range, [&](auto&& each) { return !invoke(test, each); }, of);
}

template <class R, class T, class P = identity>
constexpr auto find(R&& range, const T& value, P of = {}) {
  return ranges::find_if(
      range, [&](auto&& each) { return each == value; }, of);
}

template <class R, class S>
constexpr auto find_first_of(R&& range, S&& values) {
  return std::find_first_of(begin(range), end(range), begin(values), end(values));
}

template <class R, class F, class P = identity>
constexpr bool any_of(R&& range, F test, P of = {}) {
  return ranges::find_if(range, test, of) != end(range);
}

template <class R, class F, class P = identity>
constexpr bool all_of(R&& range, F test, P of = {}) {
  return ranges::find_if_not(range, test, of) == end(range);
}

template <class R, class F, class P = identity>
constexpr bool none_of(R&& range, F test, P of = {}) {
  return !ranges::any_of(range, test, of);
}

template <class R, class F, class P = identity>
constexpr auto count_if(R&& range, F test, P of = {}) {
  return std::count_if(begin(range), end(range),
                       [&](auto&& each) -> bool { return invoke(test, invoke(of, each)); });
}

template <class R, class T, class P = identity>
constexpr auto count(R&& range, const T& value, P of = {}) {
  return ranges::count_if(
      range, [&](auto&& each) { return each == value; }, of);
}

template <class R, class C = less, class P = identity>
constexpr auto max_element(R&& range, C before = {}, P of = {}) {
  return std::max_element(begin(range), end(range), [&](auto&& a, auto&& b) -> bool {
    return invoke(before, invoke(of, a), invoke(of, b));
  });
}

template <class R, class C = less, class P = identity>
constexpr void sort(R&& range, C before = {}, P of = {}) {
  std::sort(begin(range), end(range),
            [&](auto&& a, auto&& b) -> bool { return invoke(before, invoke(of, a), invoke(of, b)); });
}

template <class R, class C = less, class P = identity>
constexpr void stable_sort(R&& range, C before = {}, P of = {}) {
  std::stable_sort(begin(range), end(range),
                   [&](auto&& a, auto&& b) -> bool { return invoke(before, invoke(of, a), invoke(of, b)); });
}

template <class R>
constexpr bool is_sorted(R&& range) {
  return std::is_sorted(begin(range), end(range));
}

template <class R, class T>
constexpr bool binary_search(R&& range, const T& value) {
  return std::binary_search(begin(range), end(range), value);
}

template <class R, class T>
constexpr auto upper_bound(R&& range, const T& value) {
  return std::upper_bound(begin(range), end(range), value);
}

template <class R, class T>
constexpr void replace(R&& range, const T& old_value, const T& new_value) {
  std::replace(begin(range), end(range), old_value, new_value);
}

template <class R, class F, class T>
constexpr void replace_if(R&& range, F test, const T& new_value) {
  std::replace_if(begin(range), end(range), test, new_value);
}

template <class R, class O, class F>
constexpr void transform(R&& range, O to, F made) {
  std::transform(begin(range), end(range), to, made);
}

template <class R, class O>
constexpr void move(R&& range, O to) {
  std::move(begin(range), end(range), to);
}

}  // namespace ranges
}  // namespace std
