#include "planner/check/readers/read.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/pickle.h"

namespace zplan::check {

namespace {

/// A format by the keys that its first row has.
struct Shape {
  Format format;
  std::vector<std::string_view> keys;
};

const std::vector<Shape>& row_shapes() {
  static const std::vector<Shape> shapes{
      {Format::recorded_runs, {"spec", "ds_config", "memory_per_rank"}},
      {Format::capacity_rows, {"options", "runs_with", "fails_with"}},
      {Format::megatron_steps, {"coordinates", "effective", "measured"}},
      {Format::megatron_schedules, {"coordinates", "effective", "collectives"}},
      {Format::torchtitan_steps, {"options", "config", "states_after_init", "measured"}},
      {Format::torchtitan_schedules, {"options", "config", "ops", "patterns", "sequence"}},
      {Format::schedule_rows, {"options", "config", "collectives"}},
      {Format::step_rows, {"options", "config", "measured"}},
      {Format::host_rows, {"options", "config", "moments"}},
      {Format::activation_rows, {"shape", "attn", "saved_after_forward_bytes"}},
  };
  return shapes;
}

bool has_all(const Json& row, const std::vector<std::string_view>& keys) {
  return std::all_of(keys.begin(), keys.end(), [&](std::string_view key) { return row.contains(key); });
}

std::optional<Format> by_schema(const Json& row) {
  const auto schema = row.find("schema");
  if (schema == row.end() || !schema->is_string()) return std::nullopt;
  if (*schema == "zplan.measurement/1") return Format::published_memory;
  if (*schema == "zplan.speed/1") return Format::published_speed;
  if (*schema == "zplan.collectives/1") return Format::published_collectives;
  if (*schema == "zplan.runs/1") return Format::measured_runs;
  if (*schema == "zplan.bench/1") return Format::bench_result;
  return std::nullopt;
}

std::optional<Format> by_shape(const Json& row) {
  for (const Shape& shape : row_shapes())
    if (has_all(row, shape.keys)) return shape.format;
  return std::nullopt;
}

bool begins_as_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

/// Returns the objects of a text that has one on each line (JSON Lines); null where another line is none.
Json parse_lines(std::string_view text, const std::string& source) {
  Json rows = Json::array();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!line.starts_with('{')) return {};
    try {
      rows.push_back(parse_json(std::string(line), source));
    } catch (const InputError&) {
      return {};
    }
  }
  return rows;
}

}  // namespace

std::optional<Format> recognise(const Json& document) {
  if (document.is_object()) {
    if (const auto format = by_schema(document);
        format == Format::bench_result || format == Format::measured_runs)
      return format;
    if (has_all(document, {"config", "results", "nccl_version"})) return Format::nccl_json;
    if (document.contains("segments") && document.contains("device_traces")) return Format::memory_snapshot;
    return has_all(document, row_shapes().front().keys) ? std::optional(Format::recorded_runs) : std::nullopt;
  }
  if (!document.is_array() || document.empty() || !document.front().is_object()) return std::nullopt;
  const Json& row = document.front();
  return row.contains("schema") ? by_schema(row) : by_shape(row);
}

std::optional<Format> recognise(std::string_view text) {
  const auto has = [&](std::string_view words) { return text.find(words) != std::string_view::npos; };
  if (has("out-of-place") && has("busbw") && has("(elements)")) return Format::nccl_text;
  if ((has("Max_MA") && has("Max_CA")) || (has("Comm. Op") && has("Message Size")))
    return Format::deepspeed_log;
  return std::nullopt;
}

bool needs_plan(Format format) {
  return format == Format::deepspeed_log || format == Format::memory_snapshot;
}

bool leaves_machines_open(Format format) {
  return needs_plan(format) || format == Format::nccl_text || format == Format::nccl_json ||
         format == Format::bench_result;
}

Document recognised(std::string text, std::string source) {
  Document document{.source = std::move(source), .text = std::move(text), .json = {}, .format = {}};
  const std::optional<Format> log = recognise(std::string_view(document.text));
  try {
    if (begins_as_pickle(document.text))
      document.json = read_pickle(document.text, document.source);
    else if (begins_as_json(document.text))
      document.json = parse_json(document.text, document.source);
  } catch (const InputError&) {
    document.json = parse_lines(document.text, document.source);
    if (document.json.is_null() && !log) throw;  // else a log: its lines begin with a bracket too
  }
  document.format = document.json.is_null() ? log : recognise(document.json);
  return document;
}

std::vector<Case> read_cases(const Document& document, const Given& given) {
  const JsonReader json(document.json, document.source);
  std::vector<Case> cases;
  switch (*document.format) {
    case Format::published_memory: cases = read_published_memory(json); break;
    case Format::published_speed: cases = read_published_speed(json); break;
    case Format::published_collectives: cases = read_published_collectives(json); break;
    case Format::measured_runs: cases = read_measured_runs(json, given); break;
    case Format::recorded_runs: cases = read_recorded_runs(json); break;
    case Format::schedule_rows: cases = read_schedule_rows(json); break;
    case Format::step_rows: cases = read_step_rows(json); break;
    case Format::host_rows: cases = read_host_rows(json); break;
    case Format::capacity_rows: cases = read_capacity_rows(json); break;
    case Format::megatron_steps: cases = read_megatron_steps(json); break;
    case Format::megatron_schedules: cases = read_megatron_schedules(json); break;
    case Format::torchtitan_steps: cases = read_torchtitan_steps(json); break;
    case Format::torchtitan_schedules: cases = read_torchtitan_schedules(json); break;
    case Format::activation_rows: cases = read_activation_rows(json); break;
    case Format::nccl_json: cases = read_nccl_json(json, given); break;
    case Format::bench_result: cases = read_bench(json, given); break;
    case Format::memory_snapshot: cases = read_memory_snapshot(json, given); break;
    case Format::nccl_text: cases = read_nccl_text(document.text, document.source, given); break;
    case Format::deepspeed_log: cases = read_deepspeed_log(document.text, document.source, given); break;
  }
  for (Case& each : cases) each.file = document.source;
  return cases;
}

}  // namespace zplan::check
