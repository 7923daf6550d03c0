#pragma once
// Recognises the format of a document by its schema or shape, never by its name, and reads its cases.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/profiles.h"
#include "models/base/json_reader.h"
#include "planner/check/case.h"
#include "planner/check/memory_snapshot.h"

namespace zplan::check {

/// The part of a log's question that the command line gives.
struct Given {
  const HardwareProfiles& hardware;
  ClusterRequest machines;  ///< what --gpu, --network and the like say; the rest is the log's
  const Setup* plan{};      ///< whose log it is; absent: not said
};

enum class Format {
  published_memory,
  published_speed,
  published_collectives,
  measured_runs,
  recorded_runs,
  schedule_rows,
  step_rows,
  capacity_rows,
  host_rows,
  activation_rows,
  megatron_steps,
  megatron_schedules,
  torchtitan_steps,
  torchtitan_schedules,
  nccl_json,
  bench_result,
  memory_snapshot,
  nccl_text,
  deepspeed_log,
};

/// Returns the format of a JSON document; nothing for one that holds no measurements.
[[nodiscard]] std::optional<Format> recognise(const Json& document);
/// Returns the format of a text that is not JSON.
[[nodiscard]] std::optional<Format> recognise(std::string_view text);

/// True if the plan of such a document is given on the command line.
[[nodiscard]] bool needs_plan(Format format);
/// True if such a document does not state its machines, so that --gpu, --node and --network count.
[[nodiscard]] bool leaves_machines_open(Format format);

/// A file that was read.
struct Document {
  std::string source;  ///< its name in messages and records
  std::string text;
  Json json;  ///< null where it is a text
  std::optional<Format> format;
};

/// Recognises `text`. Throws InputError if it begins as JSON but is neither JSON nor a log.
[[nodiscard]] Document recognised(std::string text, std::string source);

/// Returns the cases of a document of a known format. Throws InputError, naming file and place, for a
/// broken one.
[[nodiscard]] std::vector<Case> read_cases(const Document& document, const Given& given);

// One function per format: document → cases, without `file`. Each throws InputError that names file and
// place for a broken document.

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
/// Steps of Megatron-Core, with their command lines: peaks and held bytes; the calls of such steps.
[[nodiscard]] std::vector<Case> read_megatron_steps(const JsonReader& rows);
[[nodiscard]] std::vector<Case> read_megatron_schedules(const JsonReader& rows);
/// Steps of torchtitan: peaks and held bytes; the calls of such steps.
[[nodiscard]] std::vector<Case> read_torchtitan_steps(const JsonReader& rows);
[[nodiscard]] std::vector<Case> read_torchtitan_schedules(const JsonReader& rows);
/// Gives schedules of Megatron-Core the command lines that the steps of the same ids, in another document,
/// have.
void join_command_lines(std::vector<Document>& documents);
/// Activations that autograd keeps for a few layers, and peaks of one forward and backward pass.
[[nodiscard]] std::vector<Case> read_activation_rows(const JsonReader& rows);

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
/// torch.cuda.memory._snapshot() as JSON, or its pickle as read_pickle() returns it.
[[nodiscard]] std::vector<Case> read_memory_snapshot(const JsonReader& snapshot, const Given& given);
/// Returns the history of the device with the longest trace.
[[nodiscard]] MemorySnapshot memory_snapshot(const JsonReader& snapshot);

}  // namespace zplan::check
