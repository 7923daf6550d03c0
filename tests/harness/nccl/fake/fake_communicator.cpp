// Creates and destroys communicators.

#include "fake_communicator.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "fake_cuda.h"

namespace fake {

std::mutex g_mutex;
std::condition_variable g_changed;

bool faulty(const char* variable, const std::string& operation) {
  const char* text = std::getenv(variable);
  return text != nullptr && operation == text;
}

namespace {

bool is_in_progress(const State& state) {
  return state.clique->joined < state.clique->size || state.splitting || !state.deferred.empty() ||
         (state.finalizing && state.clique->finalized < state.clique->size);
}

}  // namespace

ncclResult_t usable(const State& state, const std::string& name) {
  if (is_in_progress(state)) {
    fake::complain(name + " on a communicator whose last call is still in progress");
    return ncclInvalidArgument;
  }
  return fake::pending_error() != cudaSuccess ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t launch(const std::shared_ptr<State>& me, std::function<void()> job) {
  if (me->blocking) {
    job();
    return ncclSuccess;
  }
  me->deferred.push_back(std::move(job));
  me->asked = 0;
  return ncclInProgress;
}

ncclResult_t connect(std::unique_lock<std::mutex>& lock, const std::shared_ptr<State>& me) {
  if (!std::exchange(me->first, false) || !me->blocking || std::getenv("FAKE_NCCL_CONNECT") == nullptr)
    return ncclSuccess;
  ++me->clique->connected;
  g_changed.notify_all();
  g_changed.wait(lock, [&] { return me->clique->connected >= me->clique->size || me->aborted; });
  return me->aborted ? ncclInternalError : ncclSuccess;
}

}  // namespace fake

namespace {

using fake::Clique;
using fake::g_changed;
using fake::g_mutex;
using fake::is_in_progress;
using fake::State;

std::map<std::string, std::shared_ptr<Clique>> g_cliques;
std::atomic<unsigned> g_ids{0};

std::shared_ptr<State> join(const std::shared_ptr<Clique>& clique, int rank, bool blocking) {
  auto state = std::make_shared<State>();
  state->clique = clique;
  state->rank = rank;
  state->blocking = blocking;
  ++clique->joined;
  g_changed.notify_all();
  return state;
}

using Round = std::map<int, Clique::Splitter>;

/// Ranks of one colour, in order.
void make_part(Round& round, const std::vector<int>& members) {
  auto clique = std::make_shared<Clique>();
  clique->size = clique->joined = static_cast<int>(members.size());
  int next = 0;
  for (const int rank : members) {
    Clique::Splitter& each = round[rank];
    each.child->clique = clique;
    each.child->rank = next++;
    each.state->splitting = false;
    if (!each.state->aborted) __atomic_store_n(each.out, new ncclComm{each.child}, __ATOMIC_RELEASE);
  }
}

void part(Round& round) {
  std::map<std::tuple<int, int, int>, int> order;  // colour, key, rank
  for (const auto& [rank, each] : round) order[{each.color, each.key, rank}] = rank;
  std::map<int, std::vector<int>> parts;
  for (const auto& [place, rank] : order) parts[std::get<0>(place)].push_back(rank);
  for (const auto& [color, members] : parts) make_part(round, members);
  round.clear();  // its ranks hold the communicator that holds the round
  g_changed.notify_all();
}

bool is_config(const ncclConfig_t* config) {
  if (config != nullptr && config->magic == 0xcafebeef && config->size == sizeof(ncclConfig_t)) return true;
  fake::complain("a configuration that NCCL_CONFIG_INITIALIZER did not make");
  return false;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, static_cast<int>(0xA0U + g_ids % 64), sizeof id->internal);  // not text
  const unsigned number = ++g_ids;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (!is_config(config) || rank < 0 || rank >= size) return ncclInvalidArgument;
  if (fake::pending_error() != cudaSuccess) return ncclUnhandledCudaError;
  std::unique_lock lock(g_mutex);
  std::shared_ptr<Clique>& clique = g_cliques[std::string(id.internal, sizeof id.internal)];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->size = size;
  *out = new ncclComm{join(clique, rank, config->blocking != 0)};
  fake::record("init rank " + std::to_string(rank) + "/" + std::to_string(size) + " blocking " +
               std::to_string(config->blocking));
  if (config->blocking == 0) return ncclInProgress;
  g_changed.wait(lock, [clique] { return clique->joined == clique->size; });
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  if (!is_config(config)) return ncclInvalidArgument;
  std::unique_lock lock(g_mutex);
  const std::shared_ptr<State> me = comm->state;
  if (const ncclResult_t result = fake::usable(*me, "split"); result != ncclSuccess) return result;
  fake::record("split rank " + std::to_string(me->rank) + " color " + std::to_string(color) + " key " +
               std::to_string(key) + " blocking " + std::to_string(config->blocking));
  auto& round = me->clique->splits[me->next_split++];
  auto child = std::make_shared<State>();
  child->blocking = config->blocking != 0;
  *out = nullptr;
  me->splitting = true;
  round[me->rank] = {.color = color, .key = key, .out = out, .state = me, .child = child};
  if (static_cast<int>(round.size()) == me->clique->size) part(round);
  if (!me->blocking) return ncclInProgress;
  g_changed.wait(lock, [&] { return !me->splitting || me->aborted; });
  return me->aborted ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  const std::scoped_lock lock(g_mutex);
  *rank = comm->state->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  const std::scoped_lock lock(g_mutex);
  *count = comm->state->clique->size;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  std::unique_lock lock(g_mutex);
  const std::shared_ptr<State> me = comm->state;
  if (std::exchange(me->finalizing, true)) fake::complain("ncclCommFinalize twice");
  ++me->clique->finalized;
  g_changed.notify_all();
  if (!me->blocking) return ncclInProgress;
  g_changed.wait(lock, [&] { return me->clique->finalized >= me->clique->size || me->aborted; });
  return me->aborted ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::scoped_lock lock(g_mutex);
  if (!comm->state->finalizing || is_in_progress(*comm->state))
    fake::complain("ncclCommDestroy before ncclCommFinalize was through");
  fake::record("destroy");
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::scoped_lock lock(g_mutex);
  comm->state->aborted = true;
  for (auto& [which, round] : comm->state->clique->splits) round.erase(comm->state->rank);
  fake::record("abort");
  g_changed.notify_all();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::scoped_lock lock(g_mutex);
  State& state = *comm->state;
  if (!state.deferred.empty() && ++state.asked > 2)
    for (const auto& job : std::exchange(state.deferred, {})) job();
  *error = state.error != ncclSuccess ? state.error : is_in_progress(state) ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclInternalError: return "internal error";
    default: return "an error of the stand-in";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "the stand-in's\nlast words"; }

#pragma GCC visibility pop
}
