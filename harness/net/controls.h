#pragma once
// Control without MPI: through memory that ranks of one host inherit, or through files that all ranks see.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "harness/control.h"
#include "harness/net/environment.h"
#include "harness/timing.h"
#include "models/base/quantity.h"

namespace zplan::bench {

/// Memory that a launcher and the ranks it starts share: a file without a name, which a rank opens by the
/// descriptor that it inherits.
class SharedMemory {
 public:
  /// Creates the memory for `ranks` ranks. Throws BenchError.
  explicit SharedMemory(int ranks);
  /// Maps memory that another process created. Throws BenchError.
  SharedMemory(int descriptor, int ranks);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// The file, which processes started from here on inherit.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  /// Records that a rank's process has started, or that it has ended and whether that was reported.
  void start(int rank, long pid);
  void end(long pid, bool reported);

 private:
  friend class MemoryControl;
  struct Header;
  struct Slot;
  [[nodiscard]] std::size_t bytes() const;
  void map();
  [[nodiscard]] Header& header() const;
  [[nodiscard]] Slot& slot(int rank) const;

  int descriptor_{-1}, ranks_{};
  std::byte* data_{};
};

/// Control of ranks on one host, through memory that the launcher shares with them. A rank whose process
/// ended is named by the first rank that notices it, unless the launcher or the rank itself reported why.
class MemoryControl final : public Control {
 public:
  MemoryControl(std::shared_ptr<SharedMemory> memory, int rank, Seconds timeout);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return memory_->ranks(); }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override;

 private:
  void wait_for_all();
  void check_alive(int rank);
  [[noreturn]] void fail(const std::string& reason);
  [[nodiscard]] std::string name_of(int rank) const;

  std::shared_ptr<SharedMemory> memory_;
  int rank_;
  Seconds timeout_;
  std::uint64_t round_{};
};

/// Control of ranks on any hosts, through files in a folder that all of them see. Files appear whole, by
/// rename. A rank's first file holds a random number, and only files with the number that rank 0 drew for
/// this run are read, so files of earlier runs do no harm.
///
/// Rank 0 notices a rank that ends or is silent, prints its name and leaves the reason in a file, with which
/// the others throw ReportedByAnother. If rank 0 is gone, each rank says so itself.
class FileControl final : public Control {
 public:
  /// Meets the other ranks in `folder`, which the first creates for its user alone and rank 0 removes. Throws
  /// InputError if the folder cannot be written, or if another user made it or may write to it; BenchError, which names file and missing ranks, if ranks do not come within
  /// `timeout`.
  FileControl(const Place& place, std::string folder, Seconds timeout);
  ~FileControl() override;

  [[nodiscard]] int rank() const override { return place_.rank; }
  [[nodiscard]] int size() const override { return place_.size; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override;

 private:
  /// Another rank: its name, and its signs of life.
  struct Peer {
    std::string name{};   ///< "rank 2 on host b (pid 4711)"
    std::string pulse{};  ///< the last text of its file "alive"
    int unchanged{};      ///< how often that was read again since, once a second
  };
  /// A thread that calls a function once a second until it is stopped.
  class Heart {
   public:
    Heart() = default;
    Heart(const Heart&) = delete;
    Heart& operator=(const Heart&) = delete;
    ~Heart() { stop(); }
    void start(std::function<void(std::int64_t)> beat);
    void stop();

   private:
    std::mutex mutex_;
    std::condition_variable stopped_;
    bool stops_{};
    std::thread thread_;
  };
  using Names = std::set<std::string>;

  void enter(const std::string& run);
  void invite();
  void update_welcome(const Names& names);
  void check_refusals(const Names& names);
  void join();
  [[nodiscard]] bool read_welcome();
  [[nodiscard]] std::string own_hello() const;
  void introduce(const std::vector<std::string>& hellos);

  [[nodiscard]] std::vector<std::string> gather(const std::string& mine);
  [[nodiscard]] std::vector<std::string> receive(const std::string& mine);
  [[nodiscard]] std::string await(const std::string& name);
  void check_peer(int other, const Names& there, bool look_at_pulse);
  [[nodiscard]] bool is_time_to_look();
  [[noreturn]] void fail(const std::string& reason);
  [[noreturn]] void fail_to_meet(const std::string& file, const std::vector<int>& missing);

  [[nodiscard]] Names names() const;
  [[nodiscard]] std::string path(const std::string& name) const;
  [[nodiscard]] std::string of_run(const std::string& what, const std::string& whose) const;
  [[nodiscard]] std::string of_call(const std::string& whose) const;
  void put(const std::string& name, const std::string& text) const;
  [[nodiscard]] std::optional<std::string> get(const std::string& name) const;
  void erase(const std::string& name) const;

  Place place_;
  std::string folder_;
  Seconds timeout_;
  std::string mine_;      ///< this process's random number
  std::string run_;       ///< rank 0's, which names the run
  std::string welcome_;   ///< of rank 0: what it last wrote
  std::string previous_;  ///< of rank 0: the joined file of the call before
  std::vector<Peer> peers_;
  std::int64_t call_{};
  Clock::time_point next_look_{};

  Heart heart_;  ///< writes the file "alive" once a second; last, so that it ends first
};

/// Returns the folder in which the ranks of a place meet: in `folder` if it is not empty, else in the
/// system's temporary folder (all ranks on one host) or the working folder (several hosts).
[[nodiscard]] std::string meeting_folder(const Place& place, const std::string& folder);

/// Returns the first eight of `all` as a list: "rank 1, rank 2 and 5 more".
[[nodiscard]] std::string list_of(const std::vector<std::string>& all);

}  // namespace zplan::bench
