#pragma once
// Ranks as threads of one process: what the parts above a backend do is tested without MPI or a GPU.

#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "harness/backend.h"
#include "harness/control.h"
#include "harness/pattern.h"
#include "harness/session.h"
#include "tests/harness/thread_control.h"

namespace zplan::bench {

/// Faults that a test sets, and calls that it inspects.
struct Loopback {
  explicit Loopback(int ranks) : meeting(std::make_shared<MeetingPlace>(ranks)) {}
  std::shared_ptr<MeetingPlace> meeting;
  Bytes memory = kGiB;  ///< of each allocation, at most
  int corrupts{-1};     ///< rank of the world whose results are spoilt in their element 2
  std::mutex mutex;
  std::vector<Work> issued;      ///< by rank 0
  std::vector<double> computed;  ///< by rank 0
};

/// Fills outputs with what the pattern says is right: it moves nothing, which the tests above it need not
/// see.
class LoopbackCommunicator : public Communicator {
 public:
  LoopbackCommunicator(int world_rank, int rank, int size, Loopback& shared)
      : world_rank_(world_rank), rank_(rank), size_(size), shared_(shared) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void issue(const Work& work, const std::byte*, std::byte* receive) override {
    if (world_rank_ == 0) {
      const std::lock_guard lock(shared_.mutex);
      shared_.issued.push_back(work);
    }
    const std::vector<std::byte> right = Pattern(work, size_, rank_).right_output();
    std::memcpy(receive, right.data(), right.size());
    if (shared_.corrupts == world_rank_) receive[2 * size_of(work.dtype)] ^= std::byte{1};
  }

 private:
  int world_rank_, rank_, size_;
  Loopback& shared_;
};

class LoopbackBackend : public Backend {
 public:
  LoopbackBackend(int rank, int size, Loopback& shared)
      : control_(rank, size, shared.meeting), shared_(shared) {}
  [[nodiscard]] Identity identity() const override { return {"loopback", "none", "", ""}; }
  [[nodiscard]] Control& control() override { return control_; }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int) override {
    const std::vector<std::string> colors = control_.all_gather(std::to_string(color));
    int rank = 0, size = 0;
    for (int i = 0; i < control_.size(); ++i) {
      if (colors[static_cast<std::size_t>(i)] != std::to_string(color)) continue;
      if (i < control_.rank()) ++rank;
      ++size;
    }
    return std::make_unique<LoopbackCommunicator>(control_.rank(), rank, size, shared_);
  }
  [[nodiscard]] Memory allocate(Bytes size) override {
    if (size > shared_.memory) throw OutOfMemory("no memory for such a buffer");
    return {new std::byte[static_cast<std::size_t>(size.value)], size,
            [](void* data) { delete[] static_cast<std::byte*>(data); }};
  }
  void upload(std::byte* to, const std::byte* from, Bytes size) override {
    std::memcpy(to, from, static_cast<std::size_t>(size.value));
  }
  void download(std::byte* to, const std::byte* from, Bytes size) override {
    std::memcpy(to, from, static_cast<std::size_t>(size.value));
  }
  void finish() override {}
  /// The i-th call takes (i + 1) · (rank + 1) microseconds.
  [[nodiscard]] std::vector<double> time(std::int64_t times, const std::function<void()>& issue) override {
    std::vector<double> samples;
    for (std::int64_t i = 0; i < times; ++i) {
      issue();
      samples.push_back(1e-6 * static_cast<double>((i + 1) * (control_.rank() + 1)));
    }
    return samples;
  }
  void compute(Seconds time) override {
    if (control_.rank() == 0) shared_.computed.push_back(time.value);
  }
  void let_calls_wait() override {}
  void let_compute_wait() override {}
  void abort() noexcept override {}

 private:
  ThreadControl control_;
  Loopback& shared_;
};

/// `rank_main` once per rank, each in a thread of its own.
template <class RankMain>
void run_ranks(int ranks, Loopback& shared, RankMain rank_main) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&shared, &rank_main, rank, ranks] {
      LoopbackBackend backend(rank, ranks, shared);
      rank_main(backend);
    });
  for (std::thread& each : threads) each.join();
}

/// A session around a backend, with nothing printed. `use` gets it, and rank 0's document comes back.
template <class Use>
Json with_session(const Options& options, Backend& backend, Use use) {
  Watchdog watchdog(Seconds(600), Seconds(0), [](const std::string&) {});
  Recorder recorder(Json::object(), "");
  Session session(options, backend, watchdog, recorder,
                  std::vector<std::string>(static_cast<std::size_t>(backend.control().size()), "here"));
  use(session);
  return recorder.document(session.stopped());
}

}  // namespace zplan::bench
