#pragma once
// The memory of one rank's GPU while a run is played: who holds what, the worst moment of each phase, and,
// where asked, PyTorch's caching allocator underneath.

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/model_trace/condensed.h"
#include "planner/simulation/allocator_trace.h"
#include "planner/simulation/caching_allocator.h"
#include "planner/simulation/live_program.h"
#include "planner/simulation/timeline.h"

namespace zplan {

class Device {
 public:
  using Block = std::int32_t;
  static constexpr Block kNone = -1;

  /// Without options it counts requests alone, without an allocator, which is ten times faster.
  explicit Device(std::optional<AllocatorOptions> allocator);

  /// Writes the live memory of a step as a program from here on; only where no allocator runs. Terms are then
  /// not told apart: live() and peak() stay empty.
  void keep_log() { log_.emplace(); }
  /// Sets the size of one micro-batch's inputs, which a kept log counts.
  void set_input_unit(Bytes unit) { input_unit_ = unit; }
  /// Returns the program of the step since begin_step.
  [[nodiscard]] LiveProgram take_log() { return log_ ? log_->take() : LiveProgram{}; }
  /// Writes every requested block to `requests` from here on; the last one was refused where memory ran out.
  void record_requests(std::vector<BlockRequest>* requests) { requests_ = requests; }
  /// Sets the module that recorded requests come from.
  void set_module(ModulePlace module) { module_ = module; }
  /// Writes the allocator's requests from the start on; only where it has no limit. `watched`: also keeps the
  /// allocator's state before it first takes more of the GPU than that.
  void keep_trace(std::optional<Bytes> watched) { trace_.emplace(), watched_ = watched; }
  [[nodiscard]] AllocatorTrace take_trace() { return trace_ ? std::move(*trace_) : AllocatorTrace{}; }
  [[nodiscard]] std::optional<AllocatorReplay> take_watched() { return std::move(before_more_); }
  /// Returns the new block; kNone for zero bytes, and once memory has run out.
  Block allocate(Term term, Bytes size, int stream = 0);
  void release(Block& block);
  void release(std::vector<Block>& blocks);
  /// Counts the block under another term from here on.
  void rename(Block block, Term term);
  /// Takes a block and gives it back.
  void spike(Term term, Bytes size, int stream = 0) {
    Block block = allocate(term, size, stream);
    release(block);
  }
  /// Applies a stretch of the tape at once, by its number there; only where no allocator runs.
  void delta(const MemoryDelta& delta, std::int32_t number);
  /// Makes a block of `size` bytes that memory deltas left for `term`.
  Block adopt(Term term, Bytes size);
  /// torch.cuda.empty_cache().
  void empty_cache();

  /// Begins the moment named `at` in `phase`.
  void enter(Phase phase, std::string_view at, int layer = -1);
  /// Begins a step: forgets peaks and moments of the last one.
  void begin_step();
  /// Term and place of each block, by number; only where an allocator runs.
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
  /// Notes that another step does what the last one did.
  void repeat_last_step() {
    if (trace_) trace_->repeat_last_step();
  }

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }
  [[nodiscard]] const Composition& live() const { return live_; }
  [[nodiscard]] Bytes requested() const { return total_; }
  /// Return the highest since the run began of bytes handed out, and of bytes taken from the GPU.
  [[nodiscard]] Bytes peak_allocated() const { return std::max(peak_allocated_, lately_.allocated); }
  [[nodiscard]] Bytes peak_reserved() const {
    return allocator_ ? allocator_->peak().reserved : peak_allocated();
  }
  /// Return the bytes taken from the GPU now, and how many the allocator may take; absent: no limit.
  [[nodiscard]] Bytes reserved() const { return allocator_ ? allocator_->current().reserved : total_; }
  [[nodiscard]] std::optional<Bytes> capacity() const { return capacity_; }
  [[nodiscard]] bool has_allocator() const { return allocator_.has_value(); }
  [[nodiscard]] Bytes allocated() const { return allocator_ ? allocator_->current().allocated : total_; }
  /// Returns the worst moment since begin_step.
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
  /// Adds `size`, which may be negative, to the bytes held for `term`.
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
  ModulePlace module_;
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
