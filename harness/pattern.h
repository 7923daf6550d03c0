#pragma once
// Makes the inputs of a collective so that every element of its result can be checked.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/work.h"

namespace zplan::bench {

/// The first wrong element, and their number.
struct WrongElements {
  std::int64_t count{};
  std::int64_t first{};  ///< position in the rank's output
  double is{}, should_be{};
};

/// Inputs and outputs of one call on one group. Inputs are small whole numbers that depend on the rank and on
/// the position with a period of 251, a prime, so that no chunk whose size is a power of two repeats it; sums
/// stay exact in every type (below 256, where bfloat16 ends, on up to 64 ranks; beyond that only some ranks
/// have other than zero at a position).
class Pattern {
 public:
  Pattern(const Work& work, std::int64_t ranks, std::int64_t rank);

  /// Returns the rank's input, layout().send elements, as bytes.
  [[nodiscard]] std::vector<std::byte> input() const;
  /// True if the rank gets a result; of a reduce only the root does.
  [[nodiscard]] bool has_result() const;
  /// Returns the correct output.
  [[nodiscard]] std::vector<std::byte> right_output() const;
  /// Compares an output of layout().receive elements with the correct one. Returns nothing if they are equal.
  [[nodiscard]] std::optional<WrongElements> check(const std::byte* output) const;

 private:
  [[nodiscard]] int value(std::int64_t of_rank, std::int64_t position) const;
  [[nodiscard]] int expected(std::int64_t position) const;
  /// Returns the rank that sends this element of the rank's output in an all_to_all.
  [[nodiscard]] std::int64_t sender(std::int64_t position) const;
  [[nodiscard]] std::vector<int> one_period_of_sums() const;
  [[nodiscard]] std::vector<std::byte> elements(std::int64_t count,
                                                int (Pattern::*value_at)(std::int64_t) const) const;
  [[nodiscard]] int own(std::int64_t position) const { return value(rank_, position); }

  Work work_;
  std::int64_t ranks_, rank_;
  std::vector<int> sums_;  ///< of reductions, by position within a period
};

}  // namespace zplan::bench
