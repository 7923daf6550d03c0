#pragma once
// A memory snapshot of PyTorch, and how it differs from the predicted one.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/check/case.h"
#include "planner/question/terms.h"

namespace zplan::check {

/// A line of a Python stack.
struct StackFrame {
  std::string file;
  std::int64_t line{};
  std::string function;
};

/// Holds the history of one device's allocator, as torch.cuda.memory._record_memory_history() keeps it.
struct MemorySnapshot {
  struct Event {
    enum class Action : std::uint8_t { alloc, free, segment_alloc, segment_free, other };
    Action action{Action::other};
    std::int64_t address{};
    Bytes size{};            ///< as requested
    std::int32_t stack{-1};  ///< of `stacks`; −1: none was recorded
  };
  struct Block {
    std::int64_t address{};
    Bytes requested;
    std::int32_t stack{-1};
  };
  std::vector<Event> events;
  std::vector<Block> held;                      ///< blocks in use at the end
  Bytes reserved;                               ///< segments at the end
  std::vector<std::vector<StackFrame>> stacks;  ///< innermost frame first
};

/// The most that was requested, and what was live when the last step began.
struct SnapshotPhase {
  std::string name;  ///< "held between steps", "forward and loss", "backward", "optimizer step"
  Bytes measured, predicted;
  [[nodiscard]] Bytes difference() const { return predicted - measured; }
};

/// Blocks of one size and origin that are live at the peak of a phase in one of the two alone.
struct LoneBlocks {
  bool is_measured{};  ///< else predicted
  std::string phase;   ///< of SnapshotPhase
  Bytes size;          ///< of one
  std::int64_t count{};
  std::string origin;  ///< module and term, or lines of Python
  [[nodiscard]] Bytes total() const { return size * count; }
};

struct SnapshotDifference {
  std::string file;
  std::string plan;                   ///< the strategy's id
  std::vector<SnapshotPhase> phases;  ///< of the last whole step; empty: the history has none
  std::vector<LoneBlocks> blocks;     ///< largest first
  std::string note;                   ///< why phases could not be told apart; empty where they could

  /// Returns the phase that differs most; null without phases.
  [[nodiscard]] const SnapshotPhase* largest() const;
};

/// Compares the last whole optimizer step of a recorded history with the steady step that is predicted.
[[nodiscard]] SnapshotDifference compare_snapshot(const MemorySnapshot& measured, const Setup& setup);

}  // namespace zplan::check
