#pragma once
// A rank of NCCL: its GPU, its communicators, and the calls that it issues.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/nccl/device.h"
#include "harness/nccl/library.h"

namespace zplan::bench {

/// Holds a rank's NCCL communicators, so that another thread can end a call that hangs in one of them.
class LiveCommunicators {
 public:
  explicit LiveCommunicators(const Nccl& nccl) : nccl_(nccl) {}

  /// Adds a communicator; aborts it if abort() was called before.
  void add(ncclComm_t communicator);
  /// Removes a communicator. Returns false if it was aborted, which freed it.
  [[nodiscard]] bool remove(ncclComm_t communicator);
  /// Ends all calls and frees the communicators. May be called by any thread, more than once.
  void abort() noexcept;
  [[nodiscard]] bool aborted() const;
  /// Returns NCCL's state of `communicator`, ncclInvalidUsage if it was aborted.
  [[nodiscard]] ncclResult_t state(ncclComm_t communicator) const;
  /// Returns the first error that a communicator reports, ncclSuccess if there is none or calls are in
  /// progress.
  [[nodiscard]] ncclResult_t error() const;

 private:
  [[nodiscard]] ncclResult_t ask(ncclComm_t communicator) const;

  const Nccl& nccl_;
  mutable std::mutex mutex_;
  std::vector<ncclComm_t> alive_;
  bool aborted_{};
};

/// The last issued call, for messages.
struct IssuedCall {
  Work work;
  int rank{}, size{};  ///< of the group; size 0: there was none yet
};
[[nodiscard]] std::string to_text(const IssuedCall& call);

/// Holds what all communicators of a rank share: its GPU, its stream, and the limit on the time of a call.
class NcclRank {
 public:
  NcclRank(Device device_of_rank, Nccl functions, Seconds limit);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  NcclRank(NcclRank&&) = delete;
  NcclRank& operator=(NcclRank&&) = delete;
  ~NcclRank();

  /// Creates the communicator of all ranks. Throws BenchError if the others do not come in time.
  void join_world(int rank, int size, const ncclUniqueId& id);
  /// Splits a communicator off the world's.
  [[nodiscard]] ncclComm_t split(int color, int key);
  /// Frees a communicator, together with the other ranks; at once if an exception ends this one.
  void leave(ncclComm_t communicator) noexcept;

  /// Throws BenchError unless `result` is success. Waits while it is in progress.
  void check(ncclComm_t communicator, ncclResult_t result, const std::string& what);
  /// Throws BenchError if a communicator reports an error or was aborted.
  void check_alive();
  /// Ends all communicators and throws BenchError: "rank 2: <what> <trouble>".
  [[noreturn]] void give_up(const std::string& what, const std::string& trouble);
  [[noreturn]] void give_up_late(const std::string& what);
  /// Waits for `stream`; throws as check_alive() and give_up_late().
  void finish(const Stream& stream);

  Device device;
  const Nccl nccl;
  const Seconds timeout;
  LiveCommunicators live{nccl};
  Stream calls;  ///< all collectives, in order
  IssuedCall last;

 private:
  [[nodiscard]] bool finalize(ncclComm_t communicator);
  void wait_ready(ncclComm_t communicator, const std::string& what);
  [[nodiscard]] std::string describe(ncclResult_t result, ncclComm_t communicator) const;

  ncclComm_t world_{};
};

/// Issues the harness's operations as calls of NCCL.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclRank> rank, ncclComm_t communicator);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  NcclCommunicator(NcclCommunicator&&) = delete;
  NcclCommunicator& operator=(NcclCommunicator&&) = delete;
  ~NcclCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void issue(const Work& work, const std::byte* send, std::byte* receive) override;

 private:
  [[nodiscard]] ncclResult_t call(const Work& work, const std::byte* send, std::byte* receive) const;
  [[nodiscard]] ncclResult_t all_to_all(const Work& work, const std::byte* send, std::byte* receive) const;
  struct Outgoing {
    int to;
    const std::byte* data;
    std::int64_t elements;
  };
  struct Incoming {
    int from;
    std::byte* data;
    std::int64_t elements;
  };
  [[nodiscard]] ncclResult_t exchange(DataType dtype, const Outgoing& out, const Incoming& in) const;
  template <class Calls>
  [[nodiscard]] ncclResult_t grouped(const Calls& calls) const;

  std::shared_ptr<NcclRank> shared_;
  ncclComm_t communicator_{};
  int rank_{}, size_{};
};

}  // namespace zplan::bench
