#include "harness/nccl/live_communicators.h"

#include <algorithm>
#include <utility>

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
  // The youngest first: a communicator may use what belongs to the one it was split from.
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

}  // namespace zplan::bench
