#include "planner/check/memory_snapshot.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

using Action = MemorySnapshot::Event::Action;

constexpr std::int64_t kMostNumber = std::int64_t{1} << 62;

std::int64_t address_of(const JsonReader& of, std::string_view key) {
  return of.at(key).integer(0, kMostNumber);
}

Action action_of(const std::string& name) {
  if (name == "alloc") return Action::alloc;
  // A free counts when it is requested, as max_memory_allocated does, not when a stream lets the block go.
  if (name == "free_requested" || name == "free") return Action::free;
  if (name == "segment_alloc" || name == "segment_map") return Action::segment_alloc;
  if (name == "segment_free" || name == "segment_unmap") return Action::segment_free;
  return Action::other;
}

/// Reads one device's part of a snapshot.
class SnapshotReader {
 public:
  explicit SnapshotReader(const JsonReader& snapshot) : snapshot_(snapshot) {
    if (!snapshot.has("stacks")) return;
    for (const JsonReader& each : snapshot.at("stacks").items()) add_stack(each);
  }

  MemorySnapshot read() {
    // One trace per device: the process used the one that has most to tell.
    const std::vector<JsonReader> traces = snapshot_.at("device_traces").items();
    const auto longest = std::max_element(traces.begin(), traces.end(), [](const auto& a, const auto& b) {
      return a.raw().size() < b.raw().size();
    });
    if (longest == traces.end() || longest->raw().empty())
      snapshot_.at("device_traces")
          .fail("empty", "accepted: a snapshot of recorded history: the peak is in it");
    for (const JsonReader& each : longest->items()) read_event(each);
    for (const JsonReader& each : snapshot_.at("segments").items())
      if (each.integer_or("device", 0, 0, kMostBatch) == longest - traces.begin()) read_segment(each);
    return std::move(read_);
  }

 private:
  /// Sizes in a trace are those that were requested.
  void read_event(const JsonReader& event) {
    MemorySnapshot::Event made{.action = action_of(event.at("action").text())};
    if (made.action != Action::other) made.size = bytes_at(event.at("size"));
    if (event.has("addr")) made.address = address_of(event, "addr");
    made.stack = stack_of(event);
    read_.events.push_back(made);
  }
  /// Blocks of old snapshots have no requested_size: their whole size stands for it.
  void read_segment(const JsonReader& segment) {
    read_.reserved += bytes_at(segment.at("total_size"));
    std::int64_t address = segment.has("address") ? address_of(segment, "address") : 0;
    for (const JsonReader& block : segment.at("blocks").items()) {
      const Bytes size = bytes_at(block.at(block.has("requested_size") ? "requested_size" : "size"));
      if (block.has("address")) address = address_of(block, "address");
      if (block.at("state").text() == "active_allocated")
        read_.held.push_back({address, size, stack_of(block)});
      if (block.has("size")) address += bytes_at(block.at("size")).value;
    }
  }
  [[nodiscard]] std::int32_t stack_of(const JsonReader& entry) {
    if (!entry.has("frames")) return -1;
    const JsonReader frames = entry.at("frames");
    if (frames.raw().is_array()) return add_stack(frames);
    return static_cast<std::int32_t>(frames.integer(0, std::ssize(read_.stacks) - 1));
  }
  std::int32_t add_stack(const JsonReader& frames) {
    std::vector<StackFrame> stack;
    for (const JsonReader& each : frames.items())
      stack.push_back({each.text_or("filename", ""), each.integer_or("line", 0, 0, kMostNumber),
                       each.text_or("name", "")});
    read_.stacks.push_back(std::move(stack));
    return static_cast<std::int32_t>(read_.stacks.size() - 1);
  }

  const JsonReader& snapshot_;
  MemorySnapshot read_;
};

/// Bytes asked for and bytes taken from the device.
struct Totals {
  Bytes requested, reserved;
};

Totals change(const MemorySnapshot::Event& event) {
  switch (event.action) {
    case Action::alloc: return {event.size, {}};
    case Action::free: return {Bytes{} - event.size, {}};
    case Action::segment_alloc: return {{}, event.size};
    case Action::segment_free: return {{}, Bytes{} - event.size};
    case Action::other: return {};
  }
  return {};
}

/// The trace's end is known and its beginning is cut off, so it is walked backwards.
Totals peaks(const MemorySnapshot& snapshot) {
  Totals now{{}, snapshot.reserved};
  for (const MemorySnapshot::Block& each : snapshot.held) now.requested += each.requested;
  Totals peak = now;
  for (auto event = snapshot.events.rbegin(); event != snapshot.events.rend(); ++event) {
    const Totals step = change(*event);
    now.requested -= step.requested, now.reserved -= step.reserved;
    peak.requested = std::max(peak.requested, now.requested);
    peak.reserved = std::max(peak.reserved, now.reserved);
  }
  return peak;
}

Range exactly(Bytes bytes) { return {static_cast<double>(bytes.value), static_cast<double>(bytes.value)}; }

}  // namespace

MemorySnapshot memory_snapshot(const JsonReader& snapshot) { return SnapshotReader(snapshot).read(); }

std::vector<Case> read_memory_snapshot(const JsonReader& snapshot, const Given& given) {
  if (given.plan == nullptr)
    throw InputError(snapshot.place(), "a snapshot without its plan", "needed: --model, --gpus, --zero, …");
  const Totals peak = peaks(memory_snapshot(snapshot));
  return {{.id = "snapshot",
           .kind = Kind::log,
           .measured = MeasuredMemory{{{Statistic::requested, exactly(peak.requested)},
                                       {Statistic::reserved, exactly(peak.reserved)}},
                                      {}},
           .setup = *given.plan}};
}

}  // namespace zplan::check
