#pragma once
// Which format a document is of, told by its schema or shape and never by its name; and its cases.

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

/// The format of a JSON document; nothing for one that holds no measurements.
[[nodiscard]] std::optional<Format> recognise(const Json& document);
/// The format of a text that is no JSON.
[[nodiscard]] std::optional<Format> recognise(std::string_view text);

/// Whether such a document leaves its plan to the command line.
[[nodiscard]] bool needs_plan(Format format);
/// Whether it leaves open which machines it was run on: what the command line says of them counts.
[[nodiscard]] bool leaves_machines_open(Format format);

/// A file's text, and what it is.
struct Document {
  std::string source;  ///< its name in messages and records
  std::string text;
  Json json;  ///< null where it is a text
  std::optional<Format> format;
};

/// `text` recognised. Throws InputError where it begins as JSON does, is none and is no log either.
[[nodiscard]] Document recognised(std::string text, std::string source);

/// The cases of a document of a known format. Throws InputError for a broken one, naming file and place.
[[nodiscard]] std::vector<Case> read_cases(const Document& document, const Given& given);

}  // namespace zplan::check
