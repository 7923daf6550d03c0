#pragma once
// Help against out-of-memory errors: what a message means, where in a plan such a block is allocated, and
// changes that would fit. docs/fit.md

#include <optional>
#include <string>
#include <vector>

#include "planner/explain/oom_message.h"
#include "planner/plan/rank_run.h"
#include "planner/search/inverse.h"
#include "planner/simulation/timeline.h"

namespace zplan {

enum class OomCause {
  beyond_card,
  limit,
  enough_free,
  other_processes,
  fragmentation,
  large_block,
  full,
  unsaid,  ///< the message does not say how large the GPU is
  cuda,
  nccl,
  engine,
  cache,
  sleep,
  host,
  // Differences of what ran from the plan (oom_causes.h).
  planned,  ///< none: the plan itself needs more
  length,
  batch,
  zero_off,
  loading,
  evaluation,
  dtype,
  checkpointing_off,
  attention,
  unfused_loss,
  optimizer,
  adapters_off,
  quantization_off,
  offload_off
};
template <>
struct EnumNames<OomCause> {
  static constexpr std::array<std::pair<OomCause, std::string_view>, 28> table{
      {{OomCause::beyond_card, "beyond_card"},
       {OomCause::limit, "limit"},
       {OomCause::enough_free, "enough_free"},
       {OomCause::other_processes, "other_processes"},
       {OomCause::fragmentation, "fragmentation"},
       {OomCause::large_block, "large_block"},
       {OomCause::full, "full"},
       {OomCause::unsaid, "unsaid"},
       {OomCause::cuda, "cuda"},
       {OomCause::nccl, "nccl"},
       {OomCause::engine, "engine"},
       {OomCause::cache, "cache"},
       {OomCause::sleep, "sleep"},
       {OomCause::host, "host"},
       {OomCause::planned, "planned"},
       {OomCause::length, "length"},
       {OomCause::batch, "batch"},
       {OomCause::zero_off, "zero_off"},
       {OomCause::loading, "loading"},
       {OomCause::evaluation, "evaluation"},
       {OomCause::dtype, "dtype"},
       {OomCause::checkpointing_off, "checkpointing_off"},
       {OomCause::attention, "attention"},
       {OomCause::unfused_loss, "unfused_loss"},
       {OomCause::optimizer, "optimizer"},
       {OomCause::adapters_off, "adapters_off"},
       {OomCause::quantization_off, "quantization_off"},
       {OomCause::offload_off, "offload_off"}}};
};

/// OomReading is a message with what follows from it.
struct OomReading {
  OomMessage message;
  OomCause cause{OomCause::full};
  std::optional<Bytes> outside;  ///< of PyTorch in this process: CUDA context, NCCL, other libraries
  std::optional<Bytes> others;  ///< all other processes; with versions before 2.1 `outside` and these are one
  bool reserved_is_old{};       ///< of those versions: `others` holds both
  std::vector<std::string> sentences;
};
[[nodiscard]] OomReading read_oom(const OomMessage& message, ByteUnit unit = ByteUnit::gib);

/// Returns causes that the message alone leaves possible, the likeliest first: OomReading::cause, then others
/// that would suffice too.
[[nodiscard]] std::vector<OomCause> causes_of(const OomReading& reading);

/// Returns the bytes that PyTorch's allocator could have: by the message what it had and what was free, else
/// the GPU less what lies outside PyTorch.
[[nodiscard]] Bytes pool_of(const Question& question, const Strategy& strategy, const OomReading& reading);

/// Returns the run of the rank that the message is from.
[[nodiscard]] RankRun run_of(const Question& question, const Strategy& strategy, const OomMessage& message);

/// Returns the part of a GPU's usable memory that this process cannot have: what other processes hold, or
/// what a limit keeps back. 0 where the message does not tell other processes from this one.
[[nodiscard]] Bytes taken_by_others(const OomReading& reading, Bytes usable);

/// OomMatch is a block of the plan for which PyTorch would print the size in the message.
struct OomMatch {
  Term term{};
  Phase phase{};
  std::string_view at;
  std::int64_t times{};  ///< in the run until its third step
  Bytes size;            ///< exactly; the smallest of these where several sizes print alike
};

/// OomReplay is the run of a plan on the GPU that ran out, simulated with PyTorch's allocator.
struct OomReplay {
  bool completes{};
  Bytes pool;                           ///< what the allocator can have
  std::optional<BlockRequest> refused;  ///< where it does not complete: the block that ends it
  bool initialising{};                  ///< refused before the first step
  std::vector<OomMatch> matches;        ///< of a run with memory to spare, most frequent first
};
[[nodiscard]] OomReplay replay_oom(const Question& question, const Strategy& strategy,
                                   const OomReading& reading);

/// OomChange is one change against the error, planned.
struct OomChange {
  std::string what;     ///< "micro-batch 1, 4 times accumulated"
  std::string options;  ///< to type: "--micro-batch 1 --grad-accum 4"; empty where no option says it
  std::string launch;   ///< beside options: an environment variable
  /// 0: the same training on the same machines; 1: on more machines; 2: another training.
  int kind{};
  std::optional<Plan> plan;
  std::vector<std::string> illegal;  ///< where there is no plan: why
  Bytes frees;                       ///< of what a GPU needs; negative where it needs more
  double speed{};                    ///< tokens per second over those of what ran
  [[nodiscard]] bool fits() const { return plan && plan->fits; }
};
/// OomRemedies holds the plan of what ran, and changes: first those that make it fit, least cost first; then
/// the others by what they free; impossible ones last. Pairs are tried where no single change of kind 0
/// suffices.
struct OomRemedies {
  Plan plan;
  std::vector<OomChange> changes;
  [[nodiscard]] bool any_fits() const { return !changes.empty() && changes.front().fits(); }
};
/// `strategy`: what ran, legal.
[[nodiscard]] OomRemedies oom_remedies(const OpenQuestion& open, const Strategy& strategy);

}  // namespace zplan
