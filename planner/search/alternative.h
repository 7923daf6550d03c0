#pragma once
// What would fit where nothing does that was asked for.

namespace zplan {

struct Answer;
struct Question;

/// Fills in `alternative` and `alternative_change` of an answer without a plan that fits: the best plan of
/// the question that loosens least of what was pinned and has one. Nothing where none does.
void add_alternative(const Question& question, Answer& answer);

}  // namespace zplan
