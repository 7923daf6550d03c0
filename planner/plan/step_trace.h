#pragma once
// The predicted optimizer step of a plan's slowest rank as stretches of work in lanes.

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/step/call.h"

namespace zplan {

/// Holds one of the units that work in parallel: the host, a stream of the GPU, an engine for copies.
struct TraceLane {
  enum class Kind : std::uint8_t {
    host,          ///< the Python thread that issues everything
    compute,       ///< the stream of kernels
    communicator,  ///< NCCL's stream of one group of ranks
    copies,        ///< between host and device
    optimizer,     ///< the host's optimizer, and its drives
    engine,        ///< an inference engine, or the trainer's own generation
  };
  Kind kind{Kind::host};
  std::string name;  ///< "NCCL data-parallel, 8 ranks"
  Call call{};       ///< of a communicator: its group
};

struct TraceSpan {
  std::size_t lane{};
  std::string name{};           ///< "layer forward", "all_gather layer weights"
  Phase phase{Phase::forward};  ///< initialisation: generation, before the micro-steps
  int layer{-1};                ///< −1: around the layers, or not known
  std::int64_t micro_step{};    ///< from 1; 0: outside the micro-steps
  Seconds from{}, until{};
  std::int32_t call{-1};  ///< of a collective or a send: in StepTrace::calls
  double flops{};         ///< of kernels that multiply matrices
  Bytes moved{};          ///< by other kernels, or by copies
  std::int64_t kernels{};
};

struct StepTrace {
  std::int64_t rank_stage{};  ///< of the rank, where there are stages of a pipeline
  std::int64_t world{1};
  std::vector<TraceLane> lanes;
  std::vector<TraceSpan> spans;  ///< of each lane in order, none over another
  std::vector<Call> calls;       ///< that spans refer to
  Seconds step;                  ///< the plan's
  std::int64_t left_out{};       ///< micro-steps that are like the one before the gap
};

/// Is the number of equal micro-steps that are written out.
inline constexpr std::int64_t kMostWrittenMicroSteps = 4;

/// Returns the step of the slowest rank of `plan`, which was made for this question.
[[nodiscard]] StepTrace step_trace(const Model& model, const Cluster& cluster, const Training& training,
                                   const Plan& plan);

}  // namespace zplan
