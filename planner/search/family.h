#pragma once
// Estimates plans that differ only in micro-batch and accumulation. Their runs differ only in sizes and
// durations, so one is simulated, and its program is evaluated for each.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "planner/cost/rollout_time.h"
#include "planner/plan/plan_context.h"
#include "planner/search/explore.h"
#include "planner/search/tape_figures.h"

namespace zplan {

/// Returns the estimate of one plan, whose ranks are simulated by live memory; nothing where one of them
/// needs more than `most`. Of a pipeline's step whose rounds are alike but written out one by one, two are
/// simulated and the others added.
[[nodiscard]] std::optional<Estimate> estimate_of(PlanContext& context, const Strategy& strategy, Bytes most);

/// Estimates the plans of one family, without pipeline stages. Its functions may be called from several
/// threads at once.
class PlanFamily {
 public:
  /// `strategy` but for its micro-batch and accumulation. `tapes` is of its kind (PlanScreen finds it), and
  /// `following` of micro-steps that find what one before left, where they differ (follows_micro_step).
  PlanFamily(PlanContext& context, TapeFigures& tapes, TapeFigures& following, const Strategy& strategy)
      : context_(context), tapes_(tapes), following_(following), strategy_(strategy) {}

  /// Returns the device bytes of states between steps, whatever the micro-batch: needs no run.
  [[nodiscard]] Bytes states();
  /// Returns an estimate for each micro-batch size, at `accumulation` micro-steps.
  [[nodiscard]] std::vector<Estimate> estimates(const std::vector<std::int64_t>& micro_batch_sizes,
                                                std::int64_t accumulation);
  [[nodiscard]] Estimate estimate(std::int64_t micro_batch_size, std::int64_t accumulation) {
    return estimates({micro_batch_size}, accumulation).front();
  }

 private:
  /// One, two, or more micro-steps run differently.
  struct Kind {
    std::uint64_t order{};
    std::int64_t micro_steps{};  ///< 1, 2 or 3
    auto operator<=>(const Kind&) const = default;
  };
  /// Programs of a run, with all figures that do not depend on the micro-batch.
  struct Noted {
    StepProgram program;
    std::vector<LiveProgram> live;  ///< of every rank that can need most
    Bytes initialisation, outside, host;
    Bytes held;       ///< live between steps, of a generation nothing
    Bytes generated;  ///< what of a generation was there
    bool follows{};   ///< whose tapes it played
    Shard shard;
    std::vector<double> calls;                          ///< seconds; of exchanges 0
    std::map<std::size_t, CollectivePricer> exchanges;  ///< of them, by number of the call
    std::vector<Bytes> sent_once;  ///< per call of the program, all its calls together, by one GPU
    std::vector<Bytes> sent_repeated;
    Schedule offload, offload_repeated;  ///< transfers; what each further micro-step adds
    double memory_bytes_per_second{};
  };
  /// Figures of PPO's generation.
  struct RolloutFigures {
    bool is_known{};
    Bytes generation, scoring;  ///< over what is held
    ChunkTime time;
  };
  using Sizes = TapeFigures::Sizes;
  struct Played {
    Lanes highest;
    PlayedLanes time;
    Lanes sent_once, sent_repeated;
  };

  [[nodiscard]] const Noted& noted(std::int64_t micro_batch_size, std::int64_t micro_steps);
  [[nodiscard]] Noted note(std::int64_t micro_batch_size, std::int64_t micro_steps);
  [[nodiscard]] TapeFigures& tapes(std::int64_t played_micro_steps) const;
  /// Device bytes of PPO's generation and scoring.
  [[nodiscard]] Bytes phases(const Noted& noted, const Strategy& strategy);
  [[nodiscard]] const RolloutFigures& rollout_of(const Strategy& strategy);
  [[nodiscard]] const ChunkTime& own_generation(const Strategy& strategy);
  [[nodiscard]] RolloutTime rollout(const Strategy& strategy);
  [[nodiscard]] const Played& played(const Noted& noted, const Sizes& sizes);
  [[nodiscard]] Played play(const Noted& noted, const Sizes& sizes);
  [[nodiscard]] Estimate estimate(const Noted& noted, const Played& played, std::size_t lane,
                                  std::int64_t micro_batch_size, std::int64_t accumulation);

  PlanContext& context_;
  TapeFigures& tapes_;
  TapeFigures& following_;
  Strategy strategy_;
  std::mutex mutex_;
  std::map<Kind, Noted> noted_;
  std::map<std::pair<std::int64_t, std::int64_t>, RolloutFigures>
      rollouts_;                                             ///< by samples of a chunk, of all
  std::map<std::int64_t, ChunkTime> own_generations_;        ///< without PPO's, by samples
  std::map<std::pair<const Noted*, Sizes>, Played> played_;  ///< whatever the accumulation
};

/// Makes the families of one question, which share tapes. Its functions may be called from several threads at
/// once.
class PlanScreen {
 public:
  explicit PlanScreen(PlanContext& context) : context_(context) {}
  /// Returns what strategies have in common that share tapes.
  [[nodiscard]] static TapeKey key_of(const Training& training, const Strategy& strategy);
  [[nodiscard]] PlanFamily family(const Strategy& strategy);

 private:
  [[nodiscard]] TapeFigures& tapes(const Strategy& strategy);

  PlanContext& context_;
  std::mutex mutex_;
  std::map<TapeKey, TapeFigures> tapes_;  ///< of micro-batches of all sizes
};

}  // namespace zplan
