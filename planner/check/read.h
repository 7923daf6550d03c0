#pragma once
// Recognises the format of a document by its schema or shape, never by its name, and reads its cases.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/check/readers/readers.h"

namespace zplan::check {

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

/// Returns the cases of a document of a known format. Throws InputError, naming file and place, for a broken
/// one.
[[nodiscard]] std::vector<Case> read_cases(const Document& document, const Given& given);

}  // namespace zplan::check
