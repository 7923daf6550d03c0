#pragma once
// A measured run, and the question whose plan predicts it.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hardware_profiles/bench_result.h"
#include "hardware_profiles/cluster.h"
#include "planner/check/record.h"
#include "planner/moments/moments.h"
#include "planner/question/strategy.h"
#include "planner/question/terms.h"

namespace zplan::check {

/// The question of a prediction.
struct Setup {
  static constexpr std::int64_t kFullestRank = -1;

  Model model;
  Training training{};
  Strategy strategy{};
  Cluster cluster{};
  std::int64_t rank{};   ///< of the world, whose figures were measured; or the one that needs most memory
  bool card_is_known{};  ///< `cluster` has the memory of the GPU that was used
  bool varies{};         ///< the sequence length is a limit: samples have all lengths up to it
};

/// One figure of a run, in the unit of its statistic.
struct MeasuredFigure {
  Statistic statistic{Statistic::allocated};
  Range range;
};

/// Peak memory of a training step, by one or more statistics.
struct MeasuredMemory {
  std::vector<MeasuredFigure> figures;
  std::vector<Phase> peak_phases{};  ///< the planner's phases that agree with what was seen; empty: not seen
  std::string failed_in{};  ///< initialisation or phase in which it ran out of memory; empty: not known
};

struct MeasuredSpeed {
  double tokens_per_second_per_gpu{};
};

/// One message size of a collective.
struct TimedCall {
  Operation operation{Operation::all_reduce};
  Bytes size;  ///< as nccl-tests counts: of all_gather and reduce_scatter the buffer over all ranks
  Seconds time;
};
struct MeasuredCalls {
  Cluster cluster{};
  std::vector<TimedCall> calls{};
  std::string record{};  ///< id of a published log, of which a profile may have a curve
  bool by_model{true};   ///< whether NCCL's model alone is compared with them, too
};

/// Bytes that hosts sent to each other in `calls` calls of a collective.
struct MeasuredSent {
  Cluster cluster{};
  Operation operation{Operation::all_reduce};
  Bytes size;
  std::int64_t calls{};
  Bytes sent;  ///< by all hosts
};

/// Calls of one kind in an optimizer step.
struct CallTally {
  Operation operation{Operation::all_reduce};
  std::string dtype;
  std::int64_t group_size{1};
  Phase phase{Phase::backward};
  std::int64_t count{};
  Elements elements;  ///< sum: output of an all_gather, input of a reduce_scatter, else the buffer
  bool operator==(const CallTally&) const = default;
};
/// Appends `call` to the sequence, or adds it to the last entry if each of its calls equals those.
void append_folded(std::vector<CallTally>& sequence, CallTally call);
struct MeasuredSchedule {
  std::vector<CallTally> calls{};
  /// In order of issue, with equal neighbours folded into one; empty: not recorded.
  std::vector<CallTally> sequence{};
  /// Tokens were routed by their values, so a plan cannot know how many rows an all_to_all moved.
  bool routed{};
  /// The recording does not tell hidden states that stages send each other from their gradients.
  bool undirected{};
};

/// Calls of one kind in a replayed step, as planned and as counted where they were issued. Absent: that side
/// has no such kind.
struct ReplayedKind {
  std::string name;  ///< "all_gather, data, 4 ranks, forward, bfloat16, layer weights"
  std::optional<ReplayKind> planned{}, counted{};
};
/// One rank's calls, issued again without the model.
struct MeasuredReplay {
  std::vector<ReplayedKind> kinds{};
  std::optional<Seconds> planned{};  ///< the step; absent: the plan has no time for what was replayed
  Seconds measured{};                ///< median of whole steps
};

/// Bytes that one rank held between steps. Absent: the run does not show it.
struct HeldBytes {
  Bytes parameters;
  std::optional<Bytes> parameters_on_host{};  ///< given where they are offloaded
  Bytes persistent_parameters;
  std::optional<Bytes> master_weights{};  ///< stage 0 keeps its copy where no field names it
  Bytes moments, gradients, bucket;
  [[nodiscard]] Bytes total() const {
    return parameters + persistent_parameters + master_weights.value_or(Bytes{}) + moments + gradients +
           bucket;
  }
  bool operator==(const HeldBytes&) const = default;
};
struct MeasuredHeld {
  std::vector<HeldBytes> ranks;  ///< of the world, in order
};

/// Anonymous memory of all ranks of a node at the worst instant of a moment, in a run whose device is the
/// CPU.
struct MomentOnHost {
  RunMoment moment{};
  Bytes resident;
  Bytes processes;  ///< of that, the processes' own: measured on the same ranks with a tiny model
};
struct MeasuredHost {
  std::vector<MomentOnHost> moments{};
  bool trained{};  ///< framework and optimizer had their states; false: there were weights alone
};

/// Bytes above parameters, inputs and workspaces of one forward and backward pass whose gradients start
/// unallocated.
struct ActivationFigures {
  Bytes saved_after_forward;
  Bytes forward, loss, loss_backward, layers_backward;  ///< peaks
  bool operator==(const ActivationFigures&) const = default;
};
struct MeasuredActivations {
  ActivationFigures requested, allocated;
  std::optional<Setup> first{};  ///< run by the same process before, with a short input
};

using Measured = std::variant<MeasuredMemory, MeasuredSpeed, MeasuredCalls, MeasuredSent, MeasuredSchedule,
                              MeasuredReplay, MeasuredHeld, MeasuredHost, MeasuredActivations>;

/// One measured run.
struct Case {
  std::string id;
  std::string file{};
  Kind kind{Kind::measurement};
  Measured measured{};
  std::optional<Setup> setup{};  ///< absent where it was not needed, or could not be made
  Skip skip{};                   ///< empty: judge it
  std::string subset{};          ///< as in Record
  std::string card{}, grade{};   ///< as in Traits
  std::string source{};          ///< who measured, where the document says
  std::vector<SweepPlace> sweeps{};
  std::vector<std::string> flaws{};  ///< contradictions inside the document, for which the check fails
  std::vector<std::string> notes{};  ///< remarks on the document that are printed
};

/// Returns the statistic of each record that judging `measured` gives.
[[nodiscard]] std::vector<Statistic> statistics_of(const Measured& measured);

}  // namespace zplan::check
