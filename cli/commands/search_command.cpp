#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>

#include "cli/commands/commands.h"
#include "planner/plan/plan.h"
#include "planner/search/candidates.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

/// Set by Ctrl-C, which reaches nothing but what is static.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// Ctrl-C once asks for the best so far; a second one ends the program as ever.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    interrupted = false;
    before_ = std::signal(SIGINT, [](int) {
      interrupted = true;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~CatchInterrupt() { std::signal(SIGINT, before_); }
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

 private:
  void (*before_)(int);
};

/// One line that is written over, on a terminal, from half a second on.
class ProgressLine {
 public:
  ProgressLine(std::ostream& err, bool shown) : err_(err), shown_(shown) {}
  ~ProgressLine() {
    if (written_) err_ << "\r\x1b[K" << std::flush;
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void tell(std::size_t done, std::size_t all) {
    if (!shown_ || Clock::now() - began_ < std::chrono::milliseconds(500)) return;
    const std::lock_guard lock(mutex_);
    written_ = true;
    err_ << fmt::format("\rzplan: {} of {} families looked at (Ctrl-C keeps the best so far)", done, all)
         << std::flush;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::ostream& err_;
  bool shown_, written_{};
  std::mutex mutex_;
  Clock::time_point began_{Clock::now()};
};

}  // namespace

Scope search_scope(const Options& options, const SearchSpace& space) {
  Scope scope;
  scope.frameworks.clear();
  for (const auto& [framework, name] : EnumNames<Framework>::table) scope.frameworks.push_back(framework);
  if (options.has("--framework")) scope.frameworks = {options.training.framework};
  if (options.has("--checkpointing"))
    scope.checkpointing = {space.checkpointing};
  else if (!options.recipes.empty())  // no trainer's config has another
    scope.checkpointing = {Checkpointing::none, Checkpointing::full};
  if (options.has("--buckets")) scope.buckets = {space.buckets};
  if (options.has("--micro-batch") && space.micro_batch_size)
    scope.micro_batch_sizes = {*space.micro_batch_size};
  if (space.gradient_accumulation_steps) scope.accumulations = {*space.gradient_accumulation_steps};
  scope.global_batch_size = space.global_batch_size;
  return scope;
}

Question pinned_question(const Question& question, const Found& found) {
  Question pinned = question;
  const Strategy& s = found.plan.strategy;
  if (pinned.training.framework != found.name.framework)
    pinned.training = with_framework(pinned.training, found.name.framework);
  SearchSpace& space = pinned.space;
  space = pinned_to({}, s);
  space.micro_batch_size = s.micro_batch_size;
  space.gradient_accumulation_steps = s.gradient_accumulation_steps;
  space.buckets = found.name.buckets.value_or(question.space.buckets);
  return pinned;
}

Exploration search(const Question& question, const Scope& scope, const Environment& environment,
                   std::ostream& err) {
  std::optional<CatchInterrupt> caught;
  if (environment.owns_process) caught.emplace();
  ProgressLine progress(err, environment.errors_are_terminal);
  Exploration found =
      explore(question, scope,
              {.stop = caught ? &interrupted : nullptr,
               .progress = [&progress](std::size_t done, std::size_t all) { progress.tell(done, all); }});
  return found;
}

}  // namespace zplan
