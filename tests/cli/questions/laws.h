#pragma once
// Laws that every answer obeys, whatever its figures.

#include <string>
#include <vector>

#include "cli/report/report.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"
#include "random.h"

namespace zplan::test {

/// A law that an answer breaks.
struct Broken {
  std::string law, what;
};

/// GPUs below required_high that were tried where a smaller one fits. PyTorch's allocator can have less
/// memory available on some of them: that breaks no law, and is counted.
struct LargerCards {
  std::int64_t between{}, without_room{};
};

/// A question that was answered, and how.
struct Answered {
  const std::vector<std::string>& words;
  const Options& options;
  const Question& question;
  const Answer& answer;
};

/// Checks a report, fit or search as JSON: no figure is negative or not finite.
void check_figures(const Json& report, std::vector<Broken>& broken);
/// Checks each plan: required_low <= required <= required_high, and required includes the bytes in use at the peak.
void check_required(const std::vector<Plan>& plans, std::vector<Broken>& broken);
/// A plan is the same by itself, among others, for the window and for the library.
void check_sameness(const Answered& answered, const Plan& plan, Random& random, std::vector<Broken>& broken);
/// It fits no GPU below required_low, every one from required_high on, and between the two where its run
/// completes, which outlines and whole plans say alike (docs/memory.md, Larger GPUs). Left out: GPUs on
/// which DeepSpeed fails as it starts.
void check_cards(const Question& question, const Plan& plan, Random& random, LargerCards& cards,
                 std::vector<Broken>& broken);
/// Longer samples and larger micro-batches have no less live at the peak, and take no less of the host. What
/// a device must have is another thing: gaps can be smaller.
void check_sizes(const Question& question, const Plan& plan, Random& random, std::vector<Broken>& broken);

}  // namespace zplan::test
