#pragma once
// Numbers that are the same for a seed on every machine and with every standard library.

#include <cstdint>
#include <string>
#include <vector>

namespace zplan::test {

/// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
    return mixed ^ (mixed >> 31U);
  }
  /// low … high, both among them.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// True with this probability in percent.
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(all.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

/// The stream of one question: whatever others draw, it draws the same.
[[nodiscard]] inline Random stream_of(std::uint64_t seed, std::uint64_t number) {
  return Random(Random(seed).next() ^ (number * 0xD1342543DE82EF95U));
}

}  // namespace zplan::test
