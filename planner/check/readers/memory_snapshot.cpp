#include <algorithm>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

/// Bytes asked for and bytes taken from the device when the snapshot was taken.
struct Totals {
  std::int64_t requested{}, reserved{};
};

bool is_on(const JsonReader& segment, std::int64_t device) {
  return segment.integer_or("device", 0, 0, kMostBatch) == device;
}

/// Blocks of old snapshots have no requested_size: their whole size stands for it.
Totals totals_at_end(const JsonReader& segments, std::int64_t device) {
  Totals totals;
  for (const JsonReader& segment : segments.items()) {
    if (!is_on(segment, device)) continue;
    totals.reserved += bytes_at(segment.at("total_size")).value;
    for (const JsonReader& block : segment.at("blocks").items())
      if (block.at("state").text() == "active_allocated")
        totals.requested += bytes_at(block.at(block.has("requested_size") ? "requested_size" : "size")).value;
  }
  return totals;
}

/// Sizes in a trace are those that were requested. A free counts when it is requested, as
/// max_memory_allocated does, not when a stream lets the block go.
Totals change(const JsonReader& event) {
  const std::string action = event.at("action").text();
  const auto size = [&] { return bytes_at(event.at("size")).value; };
  if (action == "alloc") return {size(), 0};
  if (action == "free_requested" || action == "free") return {-size(), 0};
  if (action == "segment_alloc" || action == "segment_map") return {0, size()};
  if (action == "segment_free" || action == "segment_unmap") return {0, -size()};
  return {};
}

/// The trace's end is known and its beginning is cut off, so it is walked backwards.
Totals peaks(const std::vector<JsonReader>& trace, Totals now) {
  Totals peak = now;
  for (auto event = trace.rbegin(); event != trace.rend(); ++event) {
    const Totals step = change(*event);
    now.requested -= step.requested, now.reserved -= step.reserved;
    peak.requested = std::max(peak.requested, now.requested);
    peak.reserved = std::max(peak.reserved, now.reserved);
  }
  return peak;
}

Range exactly(std::int64_t bytes) { return {static_cast<double>(bytes), static_cast<double>(bytes)}; }

}  // namespace

std::vector<Case> read_memory_snapshot(const JsonReader& snapshot, const Given& given) {
  if (given.plan == nullptr)
    throw InputError(snapshot.place(), "a snapshot without its plan", "needed: --model, --gpus, --zero, …");
  // One trace per device: the process used the one that has most to tell.
  const std::vector<JsonReader> traces = snapshot.at("device_traces").items();
  const auto longest = std::max_element(traces.begin(), traces.end(), [](const auto& a, const auto& b) {
    return a.raw().size() < b.raw().size();
  });
  if (longest == traces.end() || longest->raw().empty())
    snapshot.at("device_traces").fail("empty", "accepted: a snapshot of recorded history: the peak is in it");
  const Totals end = totals_at_end(snapshot.at("segments"), longest - traces.begin());
  const Totals peak = peaks(longest->items(), end);
  return {{.id = "snapshot",
           .kind = Kind::log,
           .measured = MeasuredMemory{{{Statistic::requested, exactly(peak.requested)},
                                       {Statistic::reserved, exactly(peak.reserved)}},
                                      {}},
           .setup = *given.plan}};
}

}  // namespace zplan::check
