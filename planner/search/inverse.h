#pragma once
// Inverse questions: the most or the least of one thing with which a plan fits. docs/fit.md

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

/// Solve names the value that an inverse question solves for, in samples, tokens, GPUs, parameters, GiB of a
/// GPU, GiB of a node, hundredths of a GPU.
enum class Solve { micro_batch, sequence, gpus, model, memory, host_memory, vllm_memory };
template <>
struct EnumNames<Solve> {
  static constexpr std::array<std::pair<Solve, std::string_view>, 7> table{
      {{Solve::micro_batch, "micro-batch"},
       {Solve::sequence, "sequence"},
       {Solve::gpus, "gpus"},
       {Solve::model, "model"},
       {Solve::memory, "memory"},
       {Solve::host_memory, "host-memory"},
       {Solve::vllm_memory, "vllm-memory"}}};
};

/// True if the largest value is wanted, false for the smallest.
[[nodiscard]] constexpr bool asks_for_most(Solve solve) {
  return solve == Solve::micro_batch || solve == Solve::sequence || solve == Solve::model ||
         solve == Solve::vllm_memory;
}

/// Limit says what rules out the next value.
enum class Limit { device_memory, host_memory, positions, batch, range };
template <>
struct EnumNames<Limit> {
  static constexpr std::array<std::pair<Limit, std::string_view>, 5> table{{{Limit::device_memory, "device"},
                                                                            {Limit::host_memory, "host"},
                                                                            {Limit::positions, "positions"},
                                                                            {Limit::batch, "batch"},
                                                                            {Limit::range, "range"}}};
};

/// OpenQuestion is a question that leaves one value open.
struct OpenQuestion {
  Question question;                               ///< all else, as given or by default
  ClusterRequest cluster;                          ///< what question.cluster was assembled from
  const HardwareProfiles* hardware{};              ///< outlives it
  std::function<Model(Elements)> model_of_size{};  ///< for Solve::model
  bool attention_given{};  ///< else GPUs without kernels for flash attention are planned with sdpa
};

/// Returns the question with `value` filled in for `solve`.
[[nodiscard]] Question question_at(const OpenQuestion& open, Solve solve, std::int64_t value);

/// Solution is the answer of one strategy.
struct Solution {
  std::optional<std::int64_t> value;  ///< absent: it fits nowhere in the range
  Plan
      plan;  ///< at the value; where there is none, where it comes nearest: the smallest batch, the most GPUs
  /// The value as people set it: the longest multiple of 128 tokens that fits, other values unchanged.
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

/// Returns the answer over every legal strategy that the question leaves open. Each value fits, by a plan
/// with all figures, and the next does not. The search assumes that memory grows with samples, tokens and
/// parameters and shrinks with GPUs beyond a node. Models are tried in steps of 100 million parameters,
/// memories in whole GiB. Throws InputError where no combination is legal.
[[nodiscard]] Inverse solve(const OpenQuestion& open, Solve solve);

/// The step between sizes of models that are tried, in parameters.
inline constexpr std::int64_t kModelStep = 100'000'000;
/// The most GPUs that are tried.
inline constexpr std::int64_t kMostSolvedGpus = 1024;

/// Returns the fastest plan that fits, with all its figures; nothing where none fits or none is legal.
[[nodiscard]] std::optional<Plan> fastest_that_fits(const Question& question);

/// CardFit holds a GPU of the profiles and the fastest plan on it.
struct CardFit {
  std::string name;
  Bytes memory;              ///< as nvidia-smi totals it
  std::optional<Plan> plan;  ///< absent beyond the first that are planned
};
/// Returns the GPUs on which some strategy fits, least memory first. Each is planned with its own context,
/// links and attention kernels, the first `planned` of them in full. GPUs that do not differ in the memory of
/// a plan share one test of whether something fits. GPUs with less than nine tenths of `from`, and those
/// whose matrix units lack the precision, are not tried.
[[nodiscard]] std::vector<CardFit> cards_that_fit(
    const OpenQuestion& open, Bytes from, std::size_t planned = std::numeric_limits<std::size_t>::max());

/// ModelFit holds a model and the fastest plan for it.
struct ModelFit {
  std::string name;
  Elements size;
  Plan plan;
};
/// Returns the `most` largest of `models` for which some strategy fits, largest first.
[[nodiscard]] std::vector<ModelFit> largest_models(const OpenQuestion& open, std::vector<Model> models,
                                                   std::size_t most);

/// Rung is one means to a longer sequence, on top of all before it that were kept. docs/long-context.md
struct Rung {
  std::string step;                    ///< "sequence parallel 8"
  std::string options;                 ///< what asks for it: "--sp 8"
  std::optional<std::int64_t> tokens;  ///< longest sequence, a multiple of what divides it; absent: none fits
  std::int64_t gained{};               ///< tokens beyond the longest before
  Plan plan;                           ///< at that length; where there is none, at the shortest
  bool kept{};                         ///< what follows stands on it: it lost nothing
};

/// Returns how long a sequence can be with each means on top of the ones before: tiles, ranks that divide a
/// sample's tokens, checkpoints and states on the host, in the order in which ALST adds them; under FSDP2 a
/// ring, and everything on the host. Means that are illegal for the model, or that the question pins
/// otherwise, are left out. The model's positions are no limit unless it learned them. Empty where one GPU
/// divides nothing.
[[nodiscard]] std::vector<Rung> sequence_ladder(const OpenQuestion& open);

/// LengthRow is the longest sequence with some means, and the plan at it.
struct LengthRow {
  std::string means;                   ///< "no loss of speed"
  std::string options;                 ///< what asks for it; empty: nothing beyond what was typed
  std::optional<std::int64_t> tokens;  ///< a multiple of 128 where one fits; absent: none fits
  Plan plan;                           ///< at that length; where there is none, at the shortest
};

/// Returns how long a sequence can be, three times: as the fastest strategy trains it; with levers that cost
/// little and change no result (a fused loss, full checkpointing, every sharding); with everything, states on
/// the host and `ladder`'s longest rung included.
[[nodiscard]] std::vector<LengthRow> length_rows(const OpenQuestion& open, const std::vector<Rung>& ladder);

/// Shares of a GPU for colocated vLLM, in hundredths.
struct EngineShares {
  std::optional<double> starts;     ///< the least with which it starts
  std::optional<double> holds_all;  ///< the least that runs all sequences of a generation at once
  std::int64_t wanted{};            ///< those sequences
};
[[nodiscard]] EngineShares engine_shares(const Question& question, const Strategy& strategy);

}  // namespace zplan
