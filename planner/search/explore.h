#pragma once
// The search for the config that trains fastest, over everything legal: stage × tensor parallel × offload ×
// checkpointing × bucket sizes × micro-batch × accumulation. It screens families of plans by live memory and
// time, then confirms the fastest with the allocator.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

/// Scope lists what a search tries beside the strategies of Question::space.
struct Scope {
  std::vector<Framework> frameworks{Framework::deepspeed};
  std::vector<Checkpointing> checkpointing{Checkpointing::none, Checkpointing::selective,
                                           Checkpointing::full};
  std::vector<Buckets> buckets{Buckets::hf_auto, Buckets::defaults};
  std::vector<std::int64_t> micro_batch_sizes;  ///< empty: from 1 to the largest that fits
  std::vector<std::int64_t> accumulations;      ///< empty: 1, or what makes the global batch
  std::optional<std::int64_t> global_batch_size;
  bool operator==(const Scope&) const = default;
};

/// LayoutCounts says what became of the layouts of frameworks with stages. Each counts once for each of its
/// batches.
struct LayoutCounts {
  std::size_t illegal{};    ///< families that cannot be trained
  std::size_t seen{};       ///< plans that can
  std::size_t too_large{};  ///< plans whose states and activations exceed the device
  std::size_t slower{};     ///< plans that cannot be faster, nor need less, than one that was simulated
  std::size_t simulated{};
  std::size_t not_looked_at{};  ///< plans that were open when the search ended
  bool operator==(const LayoutCounts&) const = default;
};

/// Lets a search be watched and stopped from outside.
struct Watch {
  /// Set: families that are not looked at by then are left out, and of the others the fastest is taken to the
  /// allocator, where that was not done. Where the whole Work is stopped there is no result at all.
  const std::atomic<bool>* stop{};
  std::function<void(std::size_t done, std::size_t all)> progress{};  ///< families; from several threads
  /// Layouts that a search with stages has looked at, and the fastest so far in tokens per second.
  std::function<void(const LayoutCounts&, double fastest)> layouts{};
};

/// A strategy with its buckets, whose micro-batch and accumulation are open.
struct FamilyName {
  Framework framework{Framework::deepspeed};
  Strategy strategy;
  std::optional<Buckets> buckets;  ///< absent where nothing is sent through them, or a config names them
  bool operator==(const FamilyName&) const = default;
};

enum class FamilyOutcome {
  best,          ///< the fastest of its strategy that fits
  slower,        ///< fits by live memory; another of the same strategy is faster
  too_large,     ///< not even the smallest micro-batch's live memory fits the device
  gaps,          ///< what would fit by live memory runs out of memory in PyTorch's allocator
  host_memory,   ///< fits the device, not the host
  illegal,       ///< cannot be trained
  not_looked_at  ///< the search was stopped
};
template <>
struct EnumNames<FamilyOutcome> {
  static constexpr std::array<std::pair<FamilyOutcome, std::string_view>, 7> table{
      {{FamilyOutcome::best, "best"},
       {FamilyOutcome::slower, "slower"},
       {FamilyOutcome::too_large, "too large"},
       {FamilyOutcome::gaps, "gaps"},
       {FamilyOutcome::host_memory, "host memory"},
       {FamilyOutcome::illegal, "illegal"},
       {FamilyOutcome::not_looked_at, "not looked at"}}};
};

/// LayoutBound holds figures that no run of a layout is below (LayoutBounds).
struct LayoutBound {
  Bytes required;  ///< device bytes: states of the first stage and the activations that it has in flight
  Seconds step;    ///< the stage that works longest, with the passes that it waits for
  bool operator==(const LayoutBound&) const = default;
};

/// Estimate is a plan as a search first sees it: by live memory, without the allocator's gaps.
struct Estimate {
  std::int64_t micro_batch_size{1};
  std::int64_t gradient_accumulation_steps{1};
  Bytes required_low;  ///< device bytes, were memory packed without a gap: no less will do
  Bytes host;          ///< per node
  Seconds step;
  double tokens_per_second{};
  Bytes sent;  ///< over links, per GPU and optimizer step
  bool operator==(const Estimate&) const = default;
};

/// FamilyReport says how a family came out.
struct FamilyReport {
  FamilyName name;
  FamilyOutcome outcome{FamilyOutcome::slower};
  Bytes states{};                      ///< on the device between steps, whatever the micro-batch
  std::optional<LayoutBound> bound{};  ///< of a framework with stages: of the plan that needs least
  std::optional<Estimate> best;  ///< the fastest that fits by live memory, or the smallest that does not
  std::int64_t largest_micro_batch{};  ///< that fits by live memory
  std::size_t candidates{};
  std::string reason;  ///< one sentence
};

/// A plan that the allocator has confirmed.
struct Found {
  FamilyName name;
  Plan plan;                ///< by live memory: `required` is its low end
  double share_of_best{1};  ///< of the fastest's tokens per second
  double tie_within{};      ///< it is as fast as the fastest if it loses less than this; see Tie
  [[nodiscard]] bool ties() const { return share_of_best > 1 - tie_within; }
};

struct Exploration {
  std::vector<Found> best;  ///< the fastest of each strategy, fastest first; the first in all its figures
  /// No plan is faster with as little device and host memory: least memory last. Steps of less than
  /// kFrontStep in speed are left out, of frameworks with stages only where they save little memory, too.
  std::vector<Found> front;
  /// In the order in which they are tried; of frameworks with stages only those with a plan that was
  /// simulated, where there are more than kMostReported.
  std::vector<FamilyReport> families;
  std::size_t candidates{};               ///< that were estimated
  std::optional<LayoutCounts> layouts{};  ///< of frameworks with stages
  bool stopped{};
};

/// The most families of frameworks with stages that are reported one by one.
inline constexpr std::size_t kMostReported = 200;
/// The most strategies of frameworks with stages whose fastest plan the allocator confirms.
inline constexpr std::size_t kMostConfirmed = 8;

/// The least step in speed between plans of the front, so that it stays short.
inline constexpr double kFrontStep = 0.03;

/// Throws InputError where what was pinned leaves nothing that is legal.
[[nodiscard]] Exploration explore(const Question& question, const Scope& scope, const Watch& watch = {});

/// Other bucket sizes than the question's have to make training faster by this share.
inline constexpr double kWorthChanging = 0.02;
/// Another framework, or selective checkpointing, which no argument of a trainer turns on, has to make it
/// faster by this share: a script has to be written for it.
inline constexpr double kWorthWriting = 0.04;
/// The most speed that a plan with fewer departures may give up.
inline constexpr double kMostGivenUp = 0.045;

/// Fastest is the plan that trains fastest, and a safer one beside it.
struct Fastest {
  Found found;                      ///< with all figures
  double most_tokens_per_second{};  ///< of any plan that fits by live memory
  /// The fastest of which PyTorch's allocator never wants more than the GPU has. Absent where that holds for
  /// `found`, or for none.
  std::optional<Found> safer{};
  /// The fastest under the question's own framework, where `found` is of another.
  std::optional<Found> own{};
};

/// Returns the fastest plan of a scope, departures from the question counted; nothing where no plan that is
/// legal and fits trains `at_least` tokens per second, or where the search was stopped. Takes less than
/// explore(), which finds the fastest of every strategy.
[[nodiscard]] std::optional<Fastest> find_fastest(const Question& question, const Scope& scope,
                                                  const Watch& watch = {}, double at_least = 0);

}  // namespace zplan
