#pragma once
// The memory of one rank's GPU while a run is played: who holds what, the worst moment of each phase, and,
// where asked, PyTorch's caching allocator underneath.

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/model_trace/condensed.h"
#include "planner/simulation/allocator_replay.h"
#include "planner/simulation/allocator_trace.h"
#include "planner/simulation/block_request.h"
#include "planner/simulation/caching_allocator.h"
#include "planner/simulation/live_program.h"
#include "planner/simulation/timeline.h"

namespace zplan {

class Device {
 public:
  using Block = std::int32_t;
  static constexpr Block kNone = -1;

  /// Without options only what is asked for is counted, which is ten times faster.
  explicit Device(std::optional<AllocatorOptions> allocator);

  /// From here on the program of a step is written down; only where no allocator runs. What memory is taken
  /// for is then not told apart: live() and peak() stay empty.
  void keep_log() { log_.emplace(); }
  /// Of the step since begin_step.
  /// What a kept log counts model inputs in.
  void set_input_unit(Bytes unit) { input_unit_ = unit; }
  [[nodiscard]] LiveProgram take_log() { return log_ ? log_->take() : LiveProgram{}; }
  /// From here on every block that is asked for is written down; the last one was refused where memory ran
  /// out.
  void record_requests(std::vector<BlockRequest>* requests) { requests_ = requests; }
  /// From the start on what the allocator is asked is written down; only where it has no limit.
  /// `watched`: of the GPU, where what the allocator held before it first took more is asked for.
  void keep_trace(std::optional<Bytes> watched) { trace_.emplace(), watched_ = watched; }
  [[nodiscard]] AllocatorTrace take_trace() { return trace_ ? std::move(*trace_) : AllocatorTrace{}; }
  [[nodiscard]] std::optional<AllocatorReplay> take_watched() { return std::move(before_more_); }
  /// kNone for nothing, and once memory has run out.
  Block allocate(Term term, Bytes size, int stream = 0);
  void release(Block& block);
  void release(std::vector<Block>& blocks);
  /// The block is held for something else from here on.
  void rename(Block block, Term term);
  /// A block that is gone before the next one is made.
  void spike(Term term, Bytes size, int stream = 0) {
    Block block = allocate(term, size, stream);
    release(block);
  }
  /// A stretch of the tape at once, by its number there; only where no allocator runs.
  void delta(const MemoryDelta& delta, std::int32_t number);
  /// `size` of what memory deltas left for `term` is a block of its own from here on.
  Block adopt(Term term, Bytes size);
  /// torch.cuda.empty_cache().
  void empty_cache();

  /// From here on things happen in `phase`, in the step named `at`.
  void enter(Phase phase, std::string_view at, int layer = -1);
  /// A new step: peaks per phase, and what the last steps were, are forgotten.
  void begin_step();
  /// What each block is for and where it lies, by number; only where an allocator runs.
  struct Layout {
    struct Held {
      Term term{};
      CachingAllocator::Place place;
      bool operator==(const Held&) const = default;
    };
    std::int64_t device_calls{};
    std::vector<Held> blocks;
    bool operator==(const Layout&) const = default;
  };
  [[nodiscard]] Layout layout() const;
  /// Another step would do what the last one did.
  void repeat_last_step() {
    if (trace_) trace_->repeat_last_step();
  }

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }
  [[nodiscard]] const Composition& live() const { return live_; }
  [[nodiscard]] Bytes requested() const { return total_; }
  /// Highest of what the allocator handed out since the run began, and of what it took from the GPU.
  [[nodiscard]] Bytes peak_allocated() const { return std::max(peak_allocated_, lately_.allocated); }
  [[nodiscard]] Bytes peak_reserved() const {
    return allocator_ ? allocator_->peak().reserved : peak_allocated();
  }
  /// As of now taken from the GPU, and how much of it the allocator may take; absent: no limit.
  [[nodiscard]] Bytes reserved() const { return allocator_ ? allocator_->current().reserved : total_; }
  [[nodiscard]] std::optional<Bytes> capacity() const { return capacity_; }
  [[nodiscard]] bool has_allocator() const { return allocator_.has_value(); }
  [[nodiscard]] Bytes allocated() const { return allocator_ ? allocator_->current().allocated : total_; }
  /// Of the step since begin_step.
  [[nodiscard]] const Peak& peak() const { return peak_; }
  [[nodiscard]] PhasePeak peak(Phase phase) const;
  [[nodiscard]] std::vector<Moment> moments() const;

 private:
  struct Held {
    Term term{};
    Bytes size;
    CachingAllocator::Handle handle{CachingAllocator::kNoMemory};
  };
  [[nodiscard]] std::optional<CachingAllocator::Handle> handed_out(Bytes size, int stream);
  void keep_before_more();
  void note();
  void note_lately();
  /// `size` more, or less, is held for `term`.
  void count(Term term, Bytes size) {
    total_ += size;
    if (!log_) live_[term] += size;
  }

  void log(Term term, Bytes size, bool made);

  std::optional<CachingAllocator> allocator_;
  std::optional<Bytes> capacity_;
  std::optional<LiveLog> log_;
  Bytes input_unit_{1};
  std::vector<BlockRequest>* requests_{};
  std::optional<AllocatorTrace> trace_;
  std::optional<Bytes> watched_;
  std::optional<AllocatorReplay> before_more_;  ///< than what is watched is taken of the GPU
  std::vector<Held> blocks_;
  std::vector<Block> unused_;
  Composition live_;
  Bytes total_{}, peak_allocated_{}, peak_total_{};
  bool out_of_memory_{};
  Phase phase_{Phase::initialisation};
  std::string_view at_{"initialisation"};
  int layer_{-1};
  Peak peak_;
  PhasePeak lately_;  ///< since the last moment began: belongs to it and to its phase
  std::array<PhasePeak, kPhases> phases_{};
  std::vector<Moment> moments_;
};

}  // namespace zplan
