#pragma once
// Levers are settings of a training script that make a step faster or smaller. The advice of an answer is the
// plan that an expert would take, with the levers that it pulls. docs/search.md#advice

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/question/question.h"
#include "planner/search/explore.h"

namespace zplan {

enum class LeverKind {
  same_result,  ///< what is computed differs by rounding alone
  relief,       ///< the same, but slower or harder to set up: tried where else something would be offloaded
  other_step,   ///< another batch, or other states of the optimizer
  adapters      ///< adapters train in the place of all weights
};

struct Lever {
  std::string_view name;    ///< "a fused loss"
  std::string_view option;  ///< as it is typed: "--fused-loss"
  LeverKind kind{LeverKind::same_result};
  /// Sets it. Returns false where it is set already, or means nothing for this question.
  bool (*pull)(Question& question, Scope& scope);
};

/// Returns all levers, the cheapest to pull first.
[[nodiscard]] std::span<const Lever> levers();

/// LeverGain says what one lever of a plan is worth.
struct LeverGain {
  /// Holds figures of the same strategy without this lever alone.
  struct Without {
    std::string id;
    bool fits{};
    Bytes required_low;
    double tokens_per_second{};
  };
  const Lever* lever{};
  std::optional<Without> without{};  ///< absent where nothing would fit, and of an offer
};

/// Advised is the fastest plan that fits with some levers pulled.
struct Advised {
  std::vector<LeverGain> gains;  ///< of each lever, the cheapest first
  Question question;             ///< with the levers, under the framework of the plan
  Found found;                   ///< with all figures

  [[nodiscard]] const Plan& plan() const { return found.plan; }
};

/// Advice is what an expert would say of a question. It depends on the question and on what is open alone, so
/// `plan` and `search` give the same.
struct Advice {
  /// The fastest plan that trains the same: over strategies, frameworks, checkpointing, and levers that do
  /// not change the result. Absent where nothing fits.
  std::optional<Advised> best{};
  /// The fastest plan with room for all that PyTorch's allocator may want; absent where `best` has it, or no
  /// plan has.
  std::optional<Advised> safer{};
  /// The fastest under the question's own framework, where `best` is of another.
  std::optional<Advised> own{};
  std::vector<Advised> offers{};  ///< plans that train something else and are much faster, or the only ones
};

/// OpenLevers says what of a question may be changed: a search's scope, and the levers that nobody set.
struct OpenLevers {
  Scope scope{};
  std::vector<const Lever*> levers{};
};

/// A plan has to be faster by this share to be named beside another, and a lever to be pulled.
inline constexpr double kWorthPulling = 0.02;
/// A plan for which the allocator may want more than the GPU has is named first only where the fastest is
/// faster by this share than one with room for that.
inline constexpr double kWorthRisking = 0.05;
/// A plan that changes the result is offered where it makes training faster by this share.
inline constexpr double kWorthOffering = 0.25;

/// Returns the advice. Adapters are offered only where nothing trains all weights on the GPUs alone.
[[nodiscard]] Advice advise(const Question& question, const OpenLevers& open, const Watch& watch = {});

/// True if the advised plan is faster than `plan`, which may be null, by a share that is worth a change.
[[nodiscard]] bool improves(const Advised& advised, const Plan* plan);

}  // namespace zplan
