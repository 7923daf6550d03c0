#pragma once
// What zplan's figures were held against and how far off they were: docs/accuracy.md in short, for those who
// look at a figure. The numbers are written by docs/generate_accuracy.py from what `zplan check` prints.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/names.h"
#include "planner/plan.h"

namespace zplan {

enum class AccuracyOf { memory, host_memory, traffic, step_time, collective_time };
template <>
struct EnumNames<AccuracyOf> {
  static constexpr std::array<std::pair<AccuracyOf, std::string_view>, 5> table{
      {{AccuracyOf::memory, "memory"},
       {AccuracyOf::host_memory, "host_memory"},
       {AccuracyOf::traffic, "traffic"},
       {AccuracyOf::step_time, "step_time"},
       {AccuracyOf::collective_time, "collective_time"}}};
};

/// One kind of figure against one kind of measurement. Errors are absolute, as fractions of what was
/// measured.
struct Accuracy {
  AccuracyOf of{};
  std::string against;                 ///< "published runs"
  std::optional<Framework> framework;  ///< absent: whatever trains
  std::int64_t judged{}, exact{};      ///< measurements; those that are equal
  double median{}, nine_in_ten{};
  double too_low{};    ///< share of what was predicted too low by more than 5 %
  std::string anchor;  ///< heading of docs/accuracy.md
};

/// Of a kind the one to show first comes first.
[[nodiscard]] const std::vector<Accuracy>& accuracies();

/// Those of a kind that hold for a framework.
[[nodiscard]] std::vector<Accuracy> accuracies(AccuracyOf of, Framework framework);

/// "94 published runs, median 3.1 %, 90 % within 21 %, too low by more than 5 % in 34 %".
[[nodiscard]] std::string accuracy_text(const Accuracy& accuracy);

/// "memory: 94 published runs, median 3.1 %, 90 % within 21 %": the first of a kind, or that there is none.
[[nodiscard]] std::string accuracy_badge(AccuracyOf of, Framework framework);

/// The page with all of them, from the root of the project: "docs/accuracy.md", with "#heading" where one is
/// given.
[[nodiscard]] std::string accuracy_page(std::string_view anchor = {});

/// What --explain ends with: a line for each of a framework's, and where to read on.
[[nodiscard]] std::vector<std::string> accuracy_sentences(Framework framework);

}  // namespace zplan
