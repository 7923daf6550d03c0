#pragma once
// Quantities with units as types: to add bytes to elements, or to divide bytes by seconds the wrong way
// round, does not compile.

#include <compare>
#include <cstdint>

namespace zplan {

/// A number with a unit. `Tag` names the unit, `Rep` is how it is counted: 64-bit integers for what is
/// counted exactly (bytes, elements), doubles for what is estimated (seconds, rates).
/// Only operators that mean something exist: sums of one unit, multiples, and ratios.
template <class Tag, class Rep>
struct Quantity {
  using rep = Rep;
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;

  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity(a.value * factor); }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return Quantity(a.value * factor); }

  /// Returns a / b as a plain fraction.
  friend constexpr double ratio(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Elements =
    Quantity<struct ElementsTag, std::int64_t>;  ///< scalars in tensors; DeepSpeed counts buckets in these
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using Flops = Quantity<struct FlopsTag, double>;  ///< floating-point operations (a count, not a rate)
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

[[nodiscard]] constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(static_cast<double>(size.value) / rate.value);
}
[[nodiscard]] constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds(work.value / rate.value);
}

/// Returns one of `parts` equal shares, rounded up: the share of the rank that holds the most.
template <class Tag>
[[nodiscard]] constexpr Quantity<Tag, std::int64_t> share(Quantity<Tag, std::int64_t> whole,
                                                          std::int64_t parts) {
  return Quantity<Tag, std::int64_t>(whole.value / parts + (whole.value % parts != 0 ? 1 : 0));
}

/// Returns a size as a floating-point number, for rates and shares.
[[nodiscard]] constexpr double number_of_bytes(Bytes size) { return static_cast<double>(size.value); }

/// Returns a / b, rounded up. Both are positive.
[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Returns the next multiple of `step` at or above `whole`.
template <class Tag>
[[nodiscard]] constexpr Quantity<Tag, std::int64_t> round_up(Quantity<Tag, std::int64_t> whole,
                                                             std::int64_t step) {
  return share(whole, step) * step;
}

[[nodiscard]] constexpr Bytes operator*(Elements count, Bytes each) {
  return Bytes(count.value * each.value);
}
[[nodiscard]] constexpr Bytes operator*(Bytes each, Elements count) { return count * each; }

inline constexpr Bytes kKiB{std::int64_t{1} << 10};
inline constexpr Bytes kMiB{std::int64_t{1} << 20};
inline constexpr Bytes kGiB{std::int64_t{1} << 30};

namespace literals {
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v)); }
constexpr Elements operator""_el(unsigned long long v) { return Elements(static_cast<std::int64_t>(v)); }
}  // namespace literals

}  // namespace zplan
