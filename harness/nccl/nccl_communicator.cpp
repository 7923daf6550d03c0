#include "harness/nccl/nccl_communicator.h"

#include <utility>

namespace zplan::bench {

namespace {

ncclDataType_t in_nccl(DataType type) {
  switch (type) {
    case DataType::float32: return ncclFloat32;
    case DataType::float64: return ncclFloat64;
    case DataType::float16: return ncclFloat16;
    case DataType::bfloat16: return ncclBfloat16;
    case DataType::int8: return ncclInt8;
    case DataType::uint8: return ncclUint8;
    case DataType::int32: return ncclInt32;
    case DataType::int64: return ncclInt64;
  }
  return ncclNumTypes;
}

std::size_t in_size(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclRank> rank, ncclComm_t communicator)
    : shared_(std::move(rank)), communicator_(communicator) {
  shared_->check(communicator_, shared_->nccl.user_rank(communicator_, &rank_), "ncclCommUserRank");
  shared_->check(communicator_, shared_->nccl.count(communicator_, &size_), "ncclCommCount");
}

NcclCommunicator::~NcclCommunicator() { shared_->leave(communicator_); }

void NcclCommunicator::issue(const Work& work, const std::byte* send, std::byte* receive) {
  shared_->last = {.work = work, .rank = rank_, .size = size_};
  if (shared_->live.aborted()) shared_->check_alive();
  if (const ncclResult_t result = call(work, send, receive); result != ncclSuccess)
    shared_->check(communicator_, result, to_text(shared_->last));
}

ncclResult_t NcclCommunicator::call(const Work& work, const std::byte* send, std::byte* receive) const {
  const Nccl& nccl = shared_->nccl;
  const ncclDataType_t type = in_nccl(work.dtype);
  const std::size_t count = in_size(work.elements), share = in_size(work.elements / size_);
  cudaStream_t stream = shared_->calls.get();
  switch (work.operation) {
    case Operation::all_reduce:
      return nccl.all_reduce(send, receive, count, type, ncclSum, communicator_, stream);
    case Operation::all_gather: return nccl.all_gather(send, receive, share, type, communicator_, stream);
    case Operation::reduce_scatter:
      return nccl.reduce_scatter(send, receive, share, type, ncclSum, communicator_, stream);
    case Operation::broadcast:
      return nccl.broadcast(send, receive, count, type, work.root, communicator_, stream);
    case Operation::reduce:
      return nccl.reduce(send, receive, count, type, ncclSum, work.root, communicator_, stream);
    case Operation::all_to_all: return all_to_all(work, send, receive);
    case Operation::send_recv:
      return grouped([&] {
        return exchange(work.dtype, {(rank_ + 1) % size_, send, work.elements},
                        {(rank_ + size_ - 1) % size_, receive, work.elements});
      });
  }
  return ncclInvalidArgument;
}

/// A group must be ended even where a call in it fails.
template <class Calls>
ncclResult_t NcclCommunicator::grouped(const Calls& calls) const {
  if (const ncclResult_t started = shared_->nccl.group_start(); started != ncclSuccess) return started;
  const ncclResult_t result = calls();
  const ncclResult_t ended = shared_->nccl.group_end();
  return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

ncclResult_t NcclCommunicator::exchange(DataType dtype, const Outgoing& out, const Incoming& in) const {
  const ncclDataType_t type = in_nccl(dtype);
  cudaStream_t stream = shared_->calls.get();
  const ncclResult_t sent =
      shared_->nccl.send(out.data, in_size(out.elements), type, out.to, communicator_, stream);
  if (sent != ncclSuccess && sent != ncclInProgress) return sent;
  return shared_->nccl.receive(in.data, in_size(in.elements), type, in.from, communicator_, stream);
}

ncclResult_t NcclCommunicator::all_to_all(const Work& work, const std::byte* send, std::byte* receive) const {
  const std::int64_t width = size_of(work.dtype);
  return grouped([&] {
    for (int peer = 0; peer < size_; ++peer) {
      const Share out = sent_to(work, size_, rank_, peer), in = received_from(work, size_, rank_, peer);
      const ncclResult_t result = exchange(work.dtype, {peer, send + out.offset * width, out.elements},
                                           {peer, receive + in.offset * width, in.elements});
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
    return ncclSuccess;
  });
}

}  // namespace zplan::bench
