#pragma once
// Eight numbers at a time: what is worked out for one micro-batch size is worked out for eight at the cost of
// little more, since compilers turn these loops into vector instructions.

#include <algorithm>
#include <array>
#include <cstddef>

namespace zplan {

struct Lanes {
  static constexpr std::size_t kCount = 8;
  alignas(64) std::array<double, kCount> of{};

  Lanes() = default;
  Lanes(double all) { of.fill(all); }  // NOLINT(google-explicit-constructor): a number is eight equal ones

  Lanes& operator+=(const Lanes& other) {
    for (std::size_t i = 0; i < kCount; ++i) of[i] += other.of[i];
    return *this;
  }
  Lanes& operator-=(const Lanes& other) {
    for (std::size_t i = 0; i < kCount; ++i) of[i] -= other.of[i];
    return *this;
  }
  friend Lanes operator+(Lanes a, const Lanes& b) { return a += b; }
  friend Lanes operator-(Lanes a, const Lanes& b) { return a -= b; }
  friend Lanes operator*(Lanes a, double b) {
    for (double& each : a.of) each *= b;
    return a;
  }
  bool operator==(const Lanes&) const = default;
};

[[nodiscard]] inline double larger(double a, double b) { return a > b ? a : b; }
[[nodiscard]] inline Lanes larger(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (std::size_t i = 0; i < Lanes::kCount; ++i) result.of[i] = a.of[i] > b.of[i] ? a.of[i] : b.of[i];
  return result;
}
/// `yes` where a > b, else `no`.
[[nodiscard]] inline double where_above(double a, double b, double yes, double no) {
  return a > b ? yes : no;
}
[[nodiscard]] inline Lanes where_above(const Lanes& a, const Lanes& b, const Lanes& yes, const Lanes& no) {
  Lanes result;
  for (std::size_t i = 0; i < Lanes::kCount; ++i) result.of[i] = a.of[i] > b.of[i] ? yes.of[i] : no.of[i];
  return result;
}

}  // namespace zplan
