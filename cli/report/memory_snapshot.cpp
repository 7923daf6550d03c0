#include "cli/report/memory_snapshot.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "cli/document/pickle.h"
#include "planner/question/terms.h"

namespace zplan {

namespace {

using Action = MemoryEvent::Action;

/// Is the address at which device memory begins: no block may have the address 0.
constexpr std::int64_t kFirstAddress = std::int64_t{0x7f} << 40;

class SnapshotWriter {
 public:
  SnapshotWriter(const RankHistory& history, const Plan& plan)
      : history_(history), plan_(plan), frames_(history.memory.causes.size()) {}

  std::string write() {
    pickle_.begin_dict();
    pickle_.text("segments");
    write_segments();
    pickle_.text("device_traces");
    pickle_.begin_list();
    write_trace();
    pickle_.end_list();
    pickle_.text("allocator_settings");
    pickle_.begin_dict();
    pickle_.put("expandable_segments", history_.memory.expandable);
    pickle_.end_dict();
    pickle_.text("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    write_plan();
    pickle_.end_dict();
    return pickle_.finish();
  }

 private:
  void write_segments() {
    pickle_.begin_list();
    for (const HeldSegment& each : history_.memory.segments) write(each);
    pickle_.end_list();
  }

  void write(const HeldSegment& segment) {
    Bytes handed_out, requested;
    for (const HeldSegment::Block& each : segment.blocks)
      if (each.cause >= 0) handed_out += each.size, requested += each.requested;
    pickle_.begin_dict();
    pickle_.put("device", std::int64_t{0});
    pickle_.put("address", kFirstAddress + segment.address);
    pickle_.put("total_size", segment.size.value);
    pickle_.put("allocated_size", handed_out.value);
    pickle_.put("active_size", handed_out.value);
    pickle_.put("requested_size", requested.value);
    pickle_.put("stream", std::int64_t{segment.stream});
    pickle_.put("segment_type", segment.small ? "small" : "large");
    pickle_.text("segment_pool_id");
    pickle_.pair(0, 0);
    pickle_.put("is_expandable", history_.memory.expandable);
    pickle_.text("frames");
    write_frames(-1);
    pickle_.text("blocks");
    pickle_.begin_list();
    for (const HeldSegment::Block& each : segment.blocks) {
      pickle_.begin_dict();
      pickle_.put("address", kFirstAddress + each.address);
      pickle_.put("size", each.size.value);
      pickle_.put("requested_size", each.requested.value);
      pickle_.put("state", each.cause >= 0 ? "active_allocated" : "inactive");
      pickle_.text("frames");
      write_frames(each.cause);
      pickle_.end_dict();
    }
    pickle_.end_list();
    pickle_.end_dict();
  }

  void write_trace() {
    pickle_.begin_list();
    for (const MemoryEvent& each : history_.memory.events) {
      switch (each.action) {
        case Action::alloc: write(each, "alloc"); break;
        case Action::free: write(each, "free_requested"), write(each, "free_completed"); break;
        case Action::segment_alloc: write(each, "segment_alloc"); break;
        case Action::segment_free: write(each, "segment_free"); break;
        case Action::segment_map: write(each, "segment_map"); break;
        case Action::segment_unmap: write(each, "segment_unmap"); break;
      }
    }
    pickle_.end_list();
  }
  void write(const MemoryEvent& event, std::string_view action) {
    pickle_.begin_dict();
    pickle_.put("action", action);
    pickle_.put("addr", kFirstAddress + event.address);
    pickle_.put("size", event.size.value);
    pickle_.put("stream", std::int64_t{event.stream});
    pickle_.put("time_us", entries_++);
    pickle_.text("frames");
    write_frames(event.cause);
    pickle_.end_dict();
  }

  /// A cause's frames, innermost first; each list is written once.
  void write_frames(std::int32_t cause) {
    std::optional<std::int32_t>& known = cause < 0 ? no_frames_ : frames_[static_cast<std::size_t>(cause)];
    if (known) return pickle_.recall(*known);
    pickle_.begin_list();
    if (cause >= 0) write_cause(static_cast<std::size_t>(cause));
    pickle_.end_list();
    known = pickle_.remember();
  }
  void write_cause(std::size_t cause) {
    const BlockCause& of = history_.memory.causes[cause];
    const std::string& module = history_.modules[cause];
    const std::string_view framework = to_name(plan_.framework);
    frame(module.empty() ? framework : module, info(of.term, plan_.framework).name);
    const std::string at(of.at.empty() ? to_name(of.phase) : of.at);
    frame(to_name(of.phase), of.layer >= 0 ? fmt::format("{} {}", at, of.layer) : at);
    frame("zplan", of.step == 0
                       ? "initialisation"
                       : fmt::format("optimizer step {} of {}", of.step, history_.memory.steps.size()));
  }
  void frame(std::string_view file, std::string_view name) {
    pickle_.begin_dict();
    pickle_.put("filename", file);
    pickle_.put("line", std::int64_t{0});
    pickle_.put("name", name);
    pickle_.end_dict();
  }

  /// Writes the plan's figures of the same memory; tools ignore the key.
  void write_plan() {
    const MemoryPlan& memory = plan_.memory();
    pickle_.text("zplan");
    pickle_.begin_dict();
    pickle_.put("plan", plan_.id());
    pickle_.put("peak_allocated", memory.peak_allocated.value);
    pickle_.put("peak_reserved", memory.peak_reserved.value);
    pickle_.put("peak_requested", history_.memory.highest_requested(last_step()).value);
    pickle_.put("steps", static_cast<std::int64_t>(history_.memory.steps.size()));
    pickle_.end_dict();
  }
  [[nodiscard]] std::size_t last_step() const {
    return history_.memory.steps.empty() ? 0 : history_.memory.steps.back();
  }

  const RankHistory& history_;
  const Plan& plan_;
  PickleWriter pickle_;
  std::vector<std::optional<std::int32_t>> frames_;  ///< names of the lists, by cause
  std::optional<std::int32_t> no_frames_;
  std::int64_t entries_{};
};

}  // namespace

std::string memory_snapshot(const RankHistory& history, const Plan& plan) {
  return SnapshotWriter(history, plan).write();
}

}  // namespace zplan
