#pragma once
// The operations of the harness as calls of NCCL.

#include <memory>

#include "harness/nccl/nccl_rank.h"

namespace zplan::bench {

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
