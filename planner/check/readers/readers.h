#pragma once
// One function per format: the document → what was measured. Each throws InputError that names file and place
// for a document of its format that is broken. Cases come without `file`: the caller knows it.

#include <string_view>
#include <vector>

#include "hardware_profiles/profiles.h"
#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

/// zplan.measurement/1: peak memory of runs that others published, and runs that ran out of memory.
[[nodiscard]] std::vector<Case> read_published_memory(const JsonReader& rows);
/// zplan.speed/1: training speed that others published.
[[nodiscard]] std::vector<Case> read_published_speed(const JsonReader& rows);
/// zplan.collectives/1: nccl-tests logs that others published.
[[nodiscard]] std::vector<Case> read_published_collectives(const JsonReader& rows);

/// Whole training steps by phase, as PyTorch's caching allocator counted them.
[[nodiscard]] std::vector<Case> read_step_rows(const JsonReader& rows);
/// The smallest device on which such a run does not end out of memory.
[[nodiscard]] std::vector<Case> read_capacity_rows(const JsonReader& rows);
/// Host memory of a run's ranks at each of its moments.
[[nodiscard]] std::vector<Case> read_host_rows(const JsonReader& rows);
/// The collectives of such a step.
[[nodiscard]] std::vector<Case> read_schedule_rows(const JsonReader& rows);
/// One recorded optimizer step of DeepSpeed, or a list of them: collectives, and bytes held by every rank.
[[nodiscard]] std::vector<Case> read_recorded_runs(const JsonReader& run);
/// Activations that autograd keeps for a few layers, and peaks of one forward and backward pass.
[[nodiscard]] std::vector<Case> read_activation_rows(const JsonReader& rows);

/// The part of a log's question that the command line gives.
struct Given {
  const HardwareProfiles& hardware;
  ClusterRequest machines;  ///< what --gpu, --network and the like say; the rest is the log's
  const Setup* plan{};      ///< whose log it is; absent: not said
};

/// zplan.runs/1: training runs on a GPU: peaks, what they took of the device, time, and what ended out of
/// memory.
[[nodiscard]] std::vector<Case> read_measured_runs(const JsonReader& file, const Given& given);

/// nccl-tests' own text output, and its JSON (-J).
[[nodiscard]] std::vector<Case> read_nccl_text(std::string_view text, const std::string& source,
                                               const Given& given);
[[nodiscard]] std::vector<Case> read_nccl_json(const JsonReader& report, const Given& given);

/// zplan.bench/1: what the benchmark measured, and a step that it replayed.
[[nodiscard]] std::vector<Case> read_bench(const JsonReader& result, const Given& given);

/// Lines of DeepSpeed's see_memory_usage, and the table of its communication logger.
[[nodiscard]] std::vector<Case> read_deepspeed_log(std::string_view text, const std::string& source,
                                                   const Given& given);
/// torch.cuda.memory._snapshot() as JSON.
[[nodiscard]] std::vector<Case> read_memory_snapshot(const JsonReader& snapshot, const Given& given);

}  // namespace zplan::check
