#include "harness/nccl/nccl_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "harness/control.h"
#include "harness/timing.h"

namespace zplan::bench {

void LiveCommunicators::add(ncclComm_t communicator) {
  const std::scoped_lock lock(mutex_);
  if (aborted_)
    nccl_.abort(communicator);
  else
    alive_.push_back(communicator);
}

bool LiveCommunicators::remove(ncclComm_t communicator) {
  const std::scoped_lock lock(mutex_);
  return std::erase(alive_, communicator) > 0;
}

void LiveCommunicators::abort() noexcept {
  std::vector<ncclComm_t> all;
  {
    const std::scoped_lock lock(mutex_);
    aborted_ = true;
    all = std::exchange(alive_, {});
  }
  // The newest first: a communicator may use resources of the one it was split from.
  for (auto each = all.rbegin(); each != all.rend(); ++each) nccl_.abort(*each);
}

bool LiveCommunicators::aborted() const {
  const std::scoped_lock lock(mutex_);
  return aborted_;
}

ncclResult_t LiveCommunicators::ask(ncclComm_t communicator) const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_.async_error(communicator, &state);
  return asked == ncclSuccess ? state : asked;
}

ncclResult_t LiveCommunicators::state(ncclComm_t communicator) const {
  const std::scoped_lock lock(mutex_);
  const bool is_alive = std::find(alive_.begin(), alive_.end(), communicator) != alive_.end();
  return is_alive ? ask(communicator) : ncclInvalidUsage;
}

ncclResult_t LiveCommunicators::error() const {
  const std::scoped_lock lock(mutex_);
  for (const ncclComm_t each : alive_)
    if (const ncclResult_t state = ask(each); state != ncclSuccess && state != ncclInProgress) return state;
  return ncclSuccess;
}

namespace {

ncclConfig_t config_with(bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  return config;
}

}  // namespace

std::string to_text(const IssuedCall& call) {
  if (call.size == 0) return "what was issued";
  return fmt::format("{} of {} bytes (rank {} of a group of {})", to_name(call.work.operation),
                     call.work.bytes().value, call.rank, call.size);
}

NcclRank::NcclRank(Device device_of_rank, Nccl functions, Seconds limit)
    : device(std::move(device_of_rank)), nccl(std::move(functions)), timeout(limit), calls(device.stream()) {}

NcclRank::~NcclRank() {
  if (world_ != nullptr) leave(world_);
}

void NcclRank::join_world(int rank, int size, const ncclUniqueId& id) {
  ncclConfig_t config = config_with(false);
  ncclComm_t communicator = nullptr;
  const std::string what = fmt::format("ncclCommInitRankConfig of {} ranks", size);
  const ncclResult_t result = nccl.init(&communicator, size, id, rank, &config);
  if (communicator == nullptr) give_up(what, describe(result, nullptr));
  live.add(communicator);
  check(communicator, result, what);
  world_ = communicator;
}

// The world's communicator does not block, since its creation hangs most often. Those that are split from it
// block, because each call of a non-blocking one starts a thread (NCCL's ncclGroupEndInternal), which the
// time of a small message would include. The run's Watchdog (harness/watchdog.h) ends a call that hangs by
// abort().
ncclComm_t NcclRank::split(int color, int key) {
  check_alive();
  ncclConfig_t config = config_with(true);
  ncclComm_t child = nullptr;
  check(world_, nccl.split(world_, color, key, &child, &config), "ncclCommSplit");
  const auto arrived = [&] { return std::atomic_ref(child).load(std::memory_order_acquire) != nullptr; };
  if (!wait_until(timeout, arrived)) give_up_late("ncclCommSplit");
  live.add(child);
  return child;
}

bool NcclRank::finalize(ncclComm_t communicator) {
  const auto settled = [&] { return live.state(communicator) != ncclInProgress; };
  const ncclResult_t result = live.aborted() ? ncclInvalidUsage : nccl.finalize(communicator);
  return result == ncclSuccess || (result == ncclInProgress && wait_until(timeout, settled));
}

void NcclRank::leave(ncclComm_t communicator) noexcept {
  if (std::uncaught_exceptions() > 0) return live.abort();  // the others may never come
  const bool through = finalize(communicator);
  if (live.remove(communicator)) through ? nccl.destroy(communicator) : nccl.abort(communicator);
}

std::string NcclRank::describe(ncclResult_t result, ncclComm_t communicator) const {
  const char* last_error = nccl.last_error(communicator);
  std::string text = last_error == nullptr ? "" : last_error;
  for (char& each : text)
    if (each == '\n') each = ' ';
  return fmt::format("fails: {} ({}){}{}; NCCL_DEBUG=INFO says more", nccl.error_string(result),
                     static_cast<int>(result), text.empty() ? "" : ": ", text);
}

void NcclRank::wait_ready(ncclComm_t communicator, const std::string& what) {
  ncclResult_t state = ncclInProgress;
  const auto settled = [&] { return (state = live.state(communicator)) != ncclInProgress; };
  if (!wait_until(timeout, settled)) give_up_late(what);
  if (live.aborted()) give_up(what, "was aborted");
  if (state != ncclSuccess) give_up(what, describe(state, communicator));
}

void NcclRank::check(ncclComm_t communicator, ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return;
  if (live.aborted()) give_up(what, "was aborted");
  if (result != ncclInProgress) give_up(what, describe(result, communicator));
  wait_ready(communicator, what);
}

void NcclRank::check_alive() {
  if (live.aborted()) give_up(to_text(last), "was aborted");
  if (const ncclResult_t error = live.error(); error != ncclSuccess)
    give_up(to_text(last), describe(error, nullptr));
}

void NcclRank::give_up(const std::string& what, const std::string& trouble) {
  live.abort();
  throw BenchError(fmt::format("{}: {} {}", device.who(), what, trouble));
}

void NcclRank::give_up_late(const std::string& what) {
  give_up(what, fmt::format("did not end within {} s: another rank is gone or hangs; NCCL_DEBUG=INFO on all "
                            "ranks says more",
                            timeout.value));
}

void NcclRank::finish(const Stream& stream) {
  const auto done = [&] {
    check_alive();
    return device.idle(stream);
  };
  if (!wait_until(timeout, done)) give_up_late(to_text(last));
  check_alive();  // a stream is idle after an abort, too
}

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

/// Issues calls as one group, which it ends even if a call fails.
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
