#include "harness/nccl/nccl_rank.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <utility>

#include "harness/error.h"
#include "harness/nccl/wait.h"

namespace zplan::bench {

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

// Each call of a communicator that does not block starts a thread (NCCL's ncclGroupEndInternal), which the
// time of a small message would include. So the world, whose forming hangs most often, does not block; what
// is split from it does, and the run's Watchdog (harness/watchdog.h) ends a call that hangs by abort().
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

}  // namespace zplan::bench
