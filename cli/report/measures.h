#pragma once
// What a comparison has lines for: figures with their differences, and settings. The terminal's tables, their
// Markdown and the window are made from these.

#include <string>
#include <vector>

#include "models/base/format.h"

namespace zplan {

struct Plan;
struct Question;

enum class Best { none, least, most };

/// A figure of a plan.
struct Measure {
  std::string name, unit;
  double (*value)(const Plan&, const Question&);
  std::string (*text)(double, ByteUnit);  ///< without the unit
  Best best{Best::least};
};

[[nodiscard]] std::vector<Measure> memory_measures(ByteUnit unit);
/// One GPU sends nothing, one node nothing out of it; a link is named where all clusters have the same one.
/// `questions` are not empty.
[[nodiscard]] std::vector<Measure> traffic_measures(const std::vector<const Question*>& questions);
[[nodiscard]] std::vector<Measure> time_measures();
/// How long the run takes and what it costs; none where a question has no budget. `questions` are not empty.
[[nodiscard]] std::vector<Measure> cost_measures(const std::vector<const Question*>& questions);

/// What `value` differs by from `base`, with its sign; "=" where that prints as nothing.
[[nodiscard]] std::string difference_text(const Measure& measure, double value, double base, ByteUnit unit);

/// What is asked for, in words: model, GPU, method, batch.
struct Setting {
  std::string name;
  std::string (*text)(const Plan&, const Question&);
};
[[nodiscard]] const std::vector<Setting>& settings();

/// "fits", "does not fit", "short of host".
[[nodiscard]] std::string comparison_verdict(const Plan& plan);

}  // namespace zplan
