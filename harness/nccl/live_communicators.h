#pragma once
// A rank's NCCL communicators, so that another thread can end a call that hangs in one of them.

#include <mutex>
#include <vector>

#include "harness/nccl/library.h"

namespace zplan::bench {

class LiveCommunicators {
 public:
  explicit LiveCommunicators(const Nccl& nccl) : nccl_(nccl) {}

  /// Where everything was aborted before, so is `communicator`.
  void add(ncclComm_t communicator);
  /// False: it was aborted, which freed it.
  [[nodiscard]] bool remove(ncclComm_t communicator);
  /// Ends what runs in them and frees them. From any thread, more than once.
  void abort() noexcept;
  [[nodiscard]] bool aborted() const;
  /// What NCCL says of `communicator`; ncclInvalidUsage where it was aborted.
  [[nodiscard]] ncclResult_t state(ncclComm_t communicator) const;
  /// The first error, other than to be in progress, that one of them reports; ncclSuccess: none.
  [[nodiscard]] ncclResult_t error() const;

 private:
  [[nodiscard]] ncclResult_t ask(ncclComm_t communicator) const;

  const Nccl& nccl_;
  mutable std::mutex mutex_;
  std::vector<ncclComm_t> alive_;
  bool aborted_{};
};

}  // namespace zplan::bench
