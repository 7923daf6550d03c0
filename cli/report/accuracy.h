#pragma once
// What a plan's figures were validated against, in words.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/plan/accuracy.h"

namespace zplan {

struct Plan;
struct Question;

/// The framework, method and GPU of a plan of `question`.
[[nodiscard]] Coverage coverage_of(const Plan& plan, const Question& question);
/// "deepspeed, full, on A100-SXM-80GB".
[[nodiscard]] std::string coverage_text(const Coverage& plan);

/// "reserved: 12 published runs of fsdp, full, on A100-SXM-80GB, median 3.1 %, 90 % within 21 %, worst 40 %,
/// too low by more than 5 % in 34 %".
[[nodiscard]] std::string accuracy_text(const Accuracy& accuracy);

/// In a line what speaks for a plan's figures of a kind: measurements on its own GPU with its framework and
/// method, or that nothing was measured there and what is nearest; and recorded steps, which had no GPU.
[[nodiscard]] std::string accuracy_badge(AccuracyOf of, const Coverage& plan);

/// The page with all of them, from the root of the project: "docs/accuracy.md", with "#heading" where one is
/// given.
[[nodiscard]] std::string accuracy_page(std::string_view anchor = {});

/// What --explain ends with: for each kind of figure every statistic that was measured, or that nothing was;
/// and where to read on.
[[nodiscard]] std::vector<std::string> accuracy_sentences(const Coverage& plan);

/// The same as numbers: "accuracy" of a plan in the JSON report.
[[nodiscard]] Json accuracy_json(const Coverage& plan);

/// "ranges" of a plan in the JSON report: of its step, its speed and its peak.
[[nodiscard]] Json ranges_json(const Plan& plan, const Question& question);

/// What makes a tie of speeds: "half of the 24 speeds of published runs of deepspeed on A100-SXM-80GB were
/// further off than 12 %".
[[nodiscard]] std::string tie_text(const Tie& tie);

/// "3 %", "0.02 %": an error as text.
[[nodiscard]] std::string error_share(double fraction);

}  // namespace zplan
