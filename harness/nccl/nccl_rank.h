#pragma once
// What all communicators of one rank share: its GPU, its queue, and the limit on how long its calls may take.

#include <string>

#include "harness/nccl/device.h"
#include "harness/nccl/live_communicators.h"

namespace zplan::bench {

/// The call that was issued last, for messages.
struct IssuedCall {
  Work work;
  int rank{}, size{};  ///< of the group; size 0: there was none yet
};
[[nodiscard]] std::string to_text(const IssuedCall& call);

class NcclRank {
 public:
  NcclRank(Device device_of_rank, Nccl functions, Seconds limit);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  NcclRank(NcclRank&&) = delete;
  NcclRank& operator=(NcclRank&&) = delete;
  ~NcclRank();

  /// The communicator of all ranks. Throws BenchError where the others do not come in time.
  void join_world(int rank, int size, const ncclUniqueId& id);
  /// A part of the world.
  [[nodiscard]] ncclComm_t split(int color, int key);
  /// Frees it, together with the other ranks; at once where an exception ends this one.
  void leave(ncclComm_t communicator) noexcept;

  /// Throws BenchError for what is no success. `result` in progress: waits until it is not.
  void check(ncclComm_t communicator, ncclResult_t result, const std::string& what);
  /// Throws BenchError where a communicator reports an error, or everything was aborted.
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

}  // namespace zplan::bench
