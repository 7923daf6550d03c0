#pragma once
// Backend and Communicator, the interfaces behind which NCCL (between GPUs) or MPI (between the memory of
// processes) moves the data.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/control.h"
#include "harness/work.h"

namespace zplan::bench {

/// Owns a buffer in the backend's memory.
class Memory {
 public:
  Memory() = default;
  Memory(void* data, Bytes size, std::function<void(void*)> release)
      : data_(data), size_(size), release_(std::move(release)) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (data_ != nullptr) release_(data_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] Bytes size() const { return size_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_), std::swap(size_, other.size_), std::swap(release_, other.release_);
  }
  void* data_{};
  Bytes size_{};
  std::function<void(void*)> release_;
};

/// Issues the collectives of one group of ranks.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Makes the call, or puts it on the backend's queue, for which Backend::finish() waits. `send` and
  /// `receive` hold the elements of layout(); in place they are in one buffer.
  virtual void issue(const Work& work, const std::byte* send, std::byte* receive) = 0;
};

/// Names and versions of the backend's libraries, for the result.
struct Identity {
  std::string backend;  ///< "mpi", "nccl"
  std::string library;  ///< "Open MPI 4.1.4", "NCCL 2.28.9"
  std::string driver;   ///< of the GPU; empty: none is used
  std::string cuda;     ///< version of the runtime, "13.0"; empty: none is used
};

/// Moves and times data, for one rank. Throws BenchError.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual Identity identity() const = 0;
  [[nodiscard]] virtual Control& control() = 0;
  /// True if the backend has the operation in this form: MPI's broadcast is always in place, NCCL's
  /// all_to_all never.
  [[nodiscard]] virtual bool has_form(Operation operation, bool in_place) const {
    return !in_place || has_in_place_form(operation);
  }
  /// Makes a group of the ranks with the same colour, in the order of `key`, the rank in the world. Every
  /// rank calls it.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Allocates memory in which collectives can run. Throws OutOfMemory.
  [[nodiscard]] virtual Memory allocate(Bytes size) = 0;
  virtual void upload(std::byte* to, const std::byte* from, Bytes size) = 0;
  virtual void download(std::byte* to, const std::byte* from, Bytes size) = 0;
  /// Waits until all issued calls have ended.
  virtual void finish() = 0;

  /// Calls `issue` `times` times and returns the seconds of each call. The queue is empty before. Every rank
  /// calls it.
  [[nodiscard]] virtual std::vector<double> time(std::int64_t times, const std::function<void()>& issue) = 0;
  /// Keeps the compute units busy for about `time`, as training would: a GPU on a queue beside that of the
  /// collectives, a CPU until it returns.
  virtual void compute(Seconds time) = 0;
  /// Makes later calls wait for the work that compute() was given so far.
  virtual void let_calls_wait() = 0;
  /// Makes later work of compute() wait for the calls that were issued so far.
  virtual void let_compute_wait() = 0;

  /// Marks the begin or end of a plan's step, so that profilers can tell its calls from those that prepare
  /// it.
  virtual void mark_step(bool /*begins*/) {}

  /// Ends calls that hang, so that the process can end. Called by another thread.
  virtual void abort() noexcept = 0;
};

}  // namespace zplan::bench
