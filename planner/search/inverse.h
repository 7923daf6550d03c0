#pragma once
// The inverse questions: not what a plan takes, but the most or the least of one thing with which it fits.
// docs/fit.md

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/search/candidates.h"

namespace zplan {

/// What is asked for; values are whole samples, tokens, GPUs, parameters, GiB of a GPU, GiB of a node.
enum class Solve { micro_batch, sequence, gpus, model, memory, host_memory };
template <>
struct EnumNames<Solve> {
  static constexpr std::array<std::pair<Solve, std::string_view>, 6> table{
      {{Solve::micro_batch, "micro-batch"},
       {Solve::sequence, "sequence"},
       {Solve::gpus, "gpus"},
       {Solve::model, "model"},
       {Solve::memory, "memory"},
       {Solve::host_memory, "host-memory"}}};
};

/// Whether the largest value is asked for, not the smallest.
[[nodiscard]] constexpr bool asks_for_most(Solve solve) {
  return solve == Solve::micro_batch || solve == Solve::sequence || solve == Solve::model;
}

/// What stands in the way of the next value.
enum class Limit { device_memory, host_memory, positions, batch, range };
template <>
struct EnumNames<Limit> {
  static constexpr std::array<std::pair<Limit, std::string_view>, 5> table{{{Limit::device_memory, "device"},
                                                                            {Limit::host_memory, "host"},
                                                                            {Limit::positions, "positions"},
                                                                            {Limit::batch, "batch"},
                                                                            {Limit::range, "range"}}};
};

/// A question that leaves one value open.
struct OpenQuestion {
  Question question;                               ///< all else, as given or by default
  ClusterRequest cluster;                          ///< what question.cluster was assembled from
  const HardwareProfiles* hardware{};              ///< outlives it
  std::function<Model(Elements)> model_of_size{};  ///< for Solve::model
  bool attention_given{};  ///< else GPUs without kernels for flash attention are planned with sdpa
};

/// The question with `value` in the place of what is asked for.
[[nodiscard]] Question question_at(const OpenQuestion& open, Solve solve, std::int64_t value);

/// The answer of one strategy.
struct Solution {
  std::optional<std::int64_t> value;  ///< absent: it fits nowhere in the range
  Plan
      plan;  ///< at the value; where there is none, where it comes nearest: the smallest batch, the most GPUs
  /// As people would set it: of a sequence the longest multiple of 128 up to it that fits too, else as it is.
  std::optional<std::int64_t> rounded;
  std::optional<std::int64_t> next;  ///< the value behind it; absent at the end of the range
  Limit limit{Limit::range};
  std::string reason;  ///< one sentence: why not `next`
};

struct Inverse {
  Solve solve{};
  std::vector<Solution> solutions;  ///< best value first, then faster; those without one last, nearest first
  std::vector<Rejection> rejected;

  [[nodiscard]] bool fits() const { return !solutions.empty() && solutions.front().value.has_value(); }
  [[nodiscard]] const Solution* best() const { return fits() ? &solutions.front() : nullptr; }
};

/// The answer over every legal strategy that the question leaves open. Each value fits, by a plan with all
/// figures, and the one behind it does not; in between memory is taken to grow with samples, tokens and
/// parameters and to shrink with GPUs beyond a node, and every size in steps of 100 million parameters, GPUs
/// and nodes in whole GiB. Throws InputError where not one combination is legal.
[[nodiscard]] Inverse solve(const OpenQuestion& open, Solve solve);

/// Sizes of models that are tried: multiples of it.
inline constexpr std::int64_t kModelStep = 100'000'000;
/// The most GPUs that are tried.
inline constexpr std::int64_t kMostSolvedGpus = 1024;

/// The fastest plan that fits, with all its figures; nothing where none does, or none is legal.
[[nodiscard]] std::optional<Plan> fastest_that_fits(const Question& question);

/// A GPU of the profiles, and the fastest plan on it.
struct CardFit {
  std::string name;
  Bytes memory;              ///< as nvidia-smi totals it
  std::optional<Plan> plan;  ///< absent beyond the first that are planned
};
/// GPUs on which some strategy fits, least memory first. Each is planned with its own context, links and
/// attention kernels, the first `planned` of them in full; whether something fits is asked once of all GPUs
/// that are alike to the memory of a plan. Not tried: GPUs of less than nine tenths of `from`, and those
/// whose matrix units do not know the precision.
[[nodiscard]] std::vector<CardFit> cards_that_fit(
    const OpenQuestion& open, Bytes from, std::size_t planned = std::numeric_limits<std::size_t>::max());

/// A model, and the fastest plan for it.
struct ModelFit {
  std::string name;
  Elements size;
  Plan plan;
};
/// The `most` largest of `models` for which some strategy fits, largest first.
[[nodiscard]] std::vector<ModelFit> largest_models(const OpenQuestion& open, std::vector<Model> models,
                                                   std::size_t most);

/// One means, with all before it that were kept.
struct Rung {
  std::string step;                    ///< "sequence parallel 8"
  std::string options;                 ///< what asks for it: "--sp 8"
  std::optional<std::int64_t> tokens;  ///< longest sequence, a multiple of what divides it; absent: none fits
  std::int64_t gained{};               ///< tokens beyond the longest before
  Plan plan;                           ///< at that length; where there is none, at the shortest
  bool kept{};                         ///< what follows stands on it: it lost nothing
};

/// Tiles, ranks that divide a sample's tokens, checkpoints and states on the host, in the order in which ALST
/// adds them (FSDP2: a ring, and everything on the host). Means that are not legal for the model, and those
/// that the question pins otherwise, are left out; positions that the model was made for are no limit unless
/// it learned them. Empty where one GPU divides nothing.
[[nodiscard]] std::vector<Rung> sequence_ladder(const OpenQuestion& open);

}  // namespace zplan
