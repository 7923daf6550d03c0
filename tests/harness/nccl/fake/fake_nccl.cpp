// Stands in for libnccl: ranks are threads of one process, and the collectives are done in its memory, by the
// semantics that nccl.h documents. What a caller gets wrong (bounds, overlaps, arguments that differ between
// ranks, a communicator used before it is ready) is a complaint that tests ask for.
//
// Faults, by environment variables:
//   FAKE_NCCL_HANG=all_reduce         that operation never ends, until its communicator is aborted
//   FAKE_NCCL_ASYNC_ERROR=all_reduce  nor does it, and the communicator reports an error
//   FAKE_NCCL_CONNECT                 the first call of a communicator that blocks waits for the other ranks'
// Variants: FAKE_NCCL_WITHOUT_SPLIT and FAKE_NCCL_WITHOUT_REDUCE_SCATTER leave a function out.

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fake_cuda.h"

namespace {

std::mutex g_mutex;  // of all that follows
std::condition_variable g_changed;

struct Call {
  std::string name;
  const char* send{};
  char* receive{};
  std::size_t count{};  // as the caller counts
  ncclDataType_t type{};
  int op{-1}, root{-1};
};

/// One collective, as its ranks arrive.
struct Meeting {
  std::map<int, Call> calls;
  double latest{}, end{};
  bool done{};
};

struct Message {
  std::vector<char> data;
  ncclDataType_t type{};
  double time{};
  bool taken{};
};

struct State;

struct Clique {
  int size{}, joined{}, connected{}, finalized{};
  std::map<unsigned long, Meeting> meetings;
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Message>>> mail;
  struct Splitter {
    int color{}, key{};
    ncclComm_t* out{};
    std::shared_ptr<State> state, child;
  };
  std::map<unsigned long, std::map<int, Splitter>> splits;
};

struct State {
  std::shared_ptr<Clique> clique;
  int rank{};
  bool blocking{}, aborted{}, finalizing{}, splitting{}, first{true};
  ncclResult_t error{ncclSuccess};
  unsigned long next{}, next_split{};
  std::vector<std::function<void()>> deferred;  // by calls that did not block
  int asked{};
};

struct Transfer {
  bool is_send{};
  std::shared_ptr<State> state;
  const char* from{};
  char* to{};
  std::size_t bytes{};
  ncclDataType_t type{};
  int peer{};
  cudaStream_t stream{};
};

thread_local int t_depth = 0;
thread_local std::vector<Transfer> t_group;
std::map<std::string, std::shared_ptr<Clique>> g_cliques;
std::atomic<unsigned> g_ids{0};

bool faulty(const char* variable, const std::string& operation) {
  const char* text = std::getenv(variable);
  return text != nullptr && operation == text;
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T, class Sum>
void add(char* to, const char* from, const Sum& sum) {
  const T value = sum(load<T>(to), load<T>(from));
  std::memcpy(to, &value, sizeof value);
}

template <class T>
void add_plain(char* to, const char* from) {
  add<T>(to, from, [](T one, T other) { return static_cast<T>(one + other); });
}

void add_element(char* to, const char* from, ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return add_plain<std::int8_t>(to, from);
    case ncclUint8: return add_plain<std::uint8_t>(to, from);
    case ncclInt32: return add_plain<std::int32_t>(to, from);
    case ncclInt64: return add_plain<std::int64_t>(to, from);
    case ncclFloat32: return add_plain<float>(to, from);
    case ncclFloat64: return add_plain<double>(to, from);
    case ncclFloat16:
      return add<__half>(to, from, [](__half one, __half other) {
        return __float2half(__half2float(one) + __half2float(other));
      });
    case ncclBfloat16:
      return add<__nv_bfloat16>(to, from, [](__nv_bfloat16 one, __nv_bfloat16 other) {
        return __float2bfloat16(__bfloat162float(one) + __bfloat162float(other));
      });
    default: return fake::complain("a type that the stand-in does not add");
  }
}

/// The sum of `count` elements from `offset` on, over all ranks.
std::vector<char> sum(const Meeting& meeting, std::size_t offset, std::size_t count) {
  const Call& first = meeting.calls.begin()->second;
  const std::size_t each = size_of(first.type), bytes = count * each;
  std::vector<char> total(first.send + offset * each, first.send + offset * each + bytes);
  for (const auto& [rank, call] : meeting.calls)
    for (std::size_t at = 0; rank != meeting.calls.begin()->first && at < bytes; at += each)
      add_element(total.data() + at, call.send + offset * each + at, call.type);
  return total;
}

void put(const std::vector<char>& data, char* to) { std::memmove(to, data.data(), data.size()); }

void do_all_gather(const Meeting& meeting) {
  std::vector<char> all;
  for (const auto& [rank, call] : meeting.calls)
    all.insert(all.end(), call.send, call.send + call.count * size_of(call.type));
  for (const auto& [rank, call] : meeting.calls) put(all, call.receive);
}

void do_reduce_scatter(const Meeting& meeting) {
  std::vector<std::vector<char>> parts;
  for (const auto& [rank, call] : meeting.calls)
    parts.push_back(sum(meeting, static_cast<std::size_t>(rank) * call.count, call.count));
  for (const auto& [rank, call] : meeting.calls) put(parts[static_cast<std::size_t>(rank)], call.receive);
}

void do_broadcast(const Meeting& meeting) {
  const Call& root = meeting.calls.at(meeting.calls.begin()->second.root);
  const std::vector<char> data(root.send, root.send + root.count * size_of(root.type));
  for (const auto& [rank, call] : meeting.calls) put(data, call.receive);
}

void do_call(const Meeting& meeting) {
  const Call& call = meeting.calls.begin()->second;
  if (call.name == "all_gather") return do_all_gather(meeting);
  if (call.name == "reduce_scatter") return do_reduce_scatter(meeting);
  if (call.name == "broadcast") return do_broadcast(meeting);
  const std::vector<char> total = sum(meeting, 0, call.count);
  for (const auto& [rank, each] : meeting.calls)
    if (call.name == "all_reduce" || rank == call.root) put(total, each.receive);
}

/// Elements that a rank's buffers hold.
std::pair<std::size_t, std::size_t> buffers(const Call& call, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  if (call.name == "all_gather") return {call.count, call.count * ranks};
  if (call.name == "reduce_scatter") return {call.count * ranks, call.count};
  return {call.count, call.count};
}

double seconds_of(const Call& call, int size) {
  const auto [sent, received] = buffers(call, size);
  return static_cast<double>(std::max(sent, received) * size_of(call.type)) / fake::kCollectiveRate;
}

void complete(Meeting& meeting, Clique& clique, const Call& call) {
  for (const auto& [rank, other] : meeting.calls)
    if (std::tie(other.name, other.count, other.type, other.op, other.root) !=
        std::tie(call.name, call.count, call.type, call.op, call.root))
      return fake::complain("ranks do not agree: " + call.name + ", " + other.name);
  do_call(meeting);
  meeting.end = meeting.latest + seconds_of(call, clique.size);
  meeting.done = true;
}

/// On the stream's thread: waits for the other ranks; the last one does the work.
void meet(const std::shared_ptr<State>& me, unsigned long which, const Call& call, cudaStream_t stream) {
  std::unique_lock lock(g_mutex);
  if (me->aborted) return;
  Meeting& meeting = me->clique->meetings[which];
  meeting.calls[me->rank] = call;
  meeting.latest = std::max(meeting.latest, stream->clock);
  if (faulty("FAKE_NCCL_ASYNC_ERROR", call.name))
    me->error = ncclRemoteError;
  else if (static_cast<int>(meeting.calls.size()) == me->clique->size && !faulty("FAKE_NCCL_HANG", call.name))
    complete(meeting, *me->clique, call);
  g_changed.notify_all();
  g_changed.wait(lock, [&] { return meeting.done || me->aborted; });
  if (meeting.done) stream->clock = meeting.end;
  if (!meeting.done) meeting.calls.erase(me->rank);  // its buffers may go
}

bool is_in_progress(const State& state) {
  return state.clique->joined < state.clique->size || state.splitting || !state.deferred.empty() ||
         (state.finalizing && state.clique->finalized < state.clique->size);
}

/// With g_mutex held.
ncclResult_t usable(const State& state, const std::string& name) {
  if (is_in_progress(state)) {
    fake::complain(name + " on a communicator whose last call is still in progress");
    return ncclInvalidArgument;
  }
  return fake::pending_error() != cudaSuccess ? ncclUnhandledCudaError : ncclSuccess;
}

bool lies_apart_or_in_place(const Call& call, int rank, int size) {
  const auto [sent, received] = buffers(call, size);
  const std::size_t each = size_of(call.type);
  if (call.send + sent * each <= call.receive || call.receive + received * each <= call.send) return true;
  const std::size_t own = static_cast<std::size_t>(rank) * call.count * each;
  if (call.name == "all_gather") return call.send == call.receive + own;
  if (call.name == "reduce_scatter") return call.receive == call.send + own;
  return call.send == call.receive;
}

ncclResult_t check_buffers(const Call& call, const State& state) {
  const auto [sent, received] = buffers(call, state.clique->size);
  const std::size_t each = size_of(call.type);
  if (!fake::is_device_memory(call.send, sent * each) ||
      !fake::is_device_memory(call.receive, received * each)) {
    fake::complain(call.name + ": a buffer does not lie in device memory");
    return ncclInvalidArgument;
  }
  if (!lies_apart_or_in_place(call, state.rank, state.clique->size))
    fake::complain(call.name + ": buffers overlap, but not as in place");
  return ncclSuccess;
}

/// A communicator that blocks connects its ranks in the first call.
ncclResult_t connect(std::unique_lock<std::mutex>& lock, const std::shared_ptr<State>& me) {
  if (!std::exchange(me->first, false) || !me->blocking || std::getenv("FAKE_NCCL_CONNECT") == nullptr)
    return ncclSuccess;
  ++me->clique->connected;
  g_changed.notify_all();
  g_changed.wait(lock, [&] { return me->clique->connected >= me->clique->size || me->aborted; });
  return me->aborted ? ncclInternalError : ncclSuccess;
}

/// Puts `job` on its stream: at once, or, without blocking, a while later as another thread of NCCL would.
ncclResult_t launch(const std::shared_ptr<State>& me, std::function<void()> job) {
  if (me->blocking) {
    job();
    return ncclSuccess;
  }
  me->deferred.push_back(std::move(job));
  me->asked = 0;
  return ncclInProgress;
}

std::string text_of(const Call& call, const State& state) {
  return call.name + " rank " + std::to_string(state.rank) + "/" + std::to_string(state.clique->size) +
         " count " + std::to_string(call.count) + " type " + std::to_string(call.type) + " op " +
         std::to_string(call.op) + " root " + std::to_string(call.root) +
         (call.send == call.receive ? " same buffer" : "");
}

}  // namespace

struct ncclComm {
  std::shared_ptr<State> state;
};

namespace {

ncclResult_t issue(ncclComm_t comm, cudaStream_t stream, const Call& call) {
  std::unique_lock lock(g_mutex);
  const std::shared_ptr<State> me = comm->state;
  fake::record(text_of(call, *me));
  for (const ncclResult_t result : {usable(*me, call.name), check_buffers(call, *me)})
    if (result != ncclSuccess) return result;
  if (const ncclResult_t result = connect(lock, me); result != ncclSuccess) return result;
  const unsigned long which = me->next++;
  return launch(me, [=] { stream->enqueue([=] { meet(me, which, call, stream); }); });
}

/// On the stream's thread: everything out, everything in, and then until what went out was taken.
void exchange(const std::vector<Transfer>& transfers) {
  std::unique_lock lock(g_mutex);
  const std::shared_ptr<State>& me = transfers.front().state;
  if (me->aborted) return;
  cudaStream_t stream = transfers.front().stream;
  std::vector<std::shared_ptr<Message>> out;
  double end = stream->clock;
  std::size_t bytes = 0;
  for (const Transfer& each : transfers)
    if (each.is_send) {
      out.push_back(std::make_shared<Message>(Message{.data = {each.from, each.from + each.bytes},
                                                      .type = each.type,
                                                      .time = stream->clock,
                                                      .taken = false}));
      me->clique->mail[{me->rank, each.peer}].push_back(out.back());
      bytes += each.bytes;
    }
  g_changed.notify_all();
  for (const Transfer& each : transfers) {
    if (each.is_send) continue;
    auto& box = me->clique->mail[{each.peer, me->rank}];
    g_changed.wait(lock, [&] { return !box.empty() || me->aborted; });
    if (me->aborted) return;
    const std::shared_ptr<Message> message = box.front();
    box.erase(box.begin());
    if (message->data.size() != each.bytes || message->type != each.type)
      fake::complain("ncclRecv of other size or type than the ncclSend");
    else
      put(message->data, each.to);
    end = std::max(end, message->time);
    message->taken = true;
  }
  g_changed.notify_all();
  const auto all_taken = [&] {
    return std::all_of(out.begin(), out.end(), [](const auto& each) { return each->taken; });
  };
  g_changed.wait(lock, [&] { return all_taken() || me->aborted; });
  stream->clock = end + static_cast<double>(bytes) / fake::kCollectiveRate;
}

ncclResult_t end_group() {
  const std::vector<Transfer> transfers = std::exchange(t_group, {});
  if (transfers.empty()) return ncclSuccess;
  const std::scoped_lock lock(g_mutex);
  for (const Transfer& each : transfers)
    if (each.state != transfers.front().state || each.stream != transfers.front().stream)
      fake::complain("a group over several communicators or streams");
  const std::shared_ptr<State>& me = transfers.front().state;
  return launch(me, [=] { transfers.front().stream->enqueue([=] { exchange(transfers); }); });
}

ncclResult_t transfer(ncclComm_t comm, Transfer one) {
  {
    const std::scoped_lock lock(g_mutex);
    one.state = comm->state;
    const int size = one.state->clique->size;
    fake::record(std::string(one.is_send ? "send" : "receive") + " rank " + std::to_string(one.state->rank) +
                 "/" + std::to_string(size) + " peer " + std::to_string(one.peer) + " bytes " +
                 std::to_string(one.bytes) + (t_depth > 0 ? " grouped" : ""));
    const ncclResult_t result = usable(*one.state, one.is_send ? "send" : "receive");
    if (result != ncclSuccess) return result;
    if (one.peer < 0 || one.peer >= size ||
        !fake::is_device_memory(one.is_send ? one.from : one.to, one.bytes)) {
      fake::complain("a transfer's peer or buffer is wrong");
      return ncclInvalidArgument;
    }
  }
  t_group.push_back(std::move(one));
  return t_depth == 0 ? end_group() : ncclSuccess;
}

std::shared_ptr<State> join(const std::shared_ptr<Clique>& clique, int rank, bool blocking) {
  auto state = std::make_shared<State>();
  state->clique = clique;
  state->rank = rank;
  state->blocking = blocking;
  ++clique->joined;
  g_changed.notify_all();
  return state;
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

#ifndef FAKE_NCCL_WITHOUT_SPLIT
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  if (!is_config(config)) return ncclInvalidArgument;
  std::unique_lock lock(g_mutex);
  const std::shared_ptr<State> me = comm->state;
  if (const ncclResult_t result = usable(*me, "split"); result != ncclSuccess) return result;
  fake::record("split rank " + std::to_string(me->rank) + " color " + std::to_string(color) + " key " +
               std::to_string(key) + " blocking " + std::to_string(config->blocking));
  auto& round = me->clique->splits[me->next_split++];
  auto child = std::make_shared<State>();
  child->blocking = config->blocking != 0;
  *out = nullptr;
  me->splitting = true;
  round[me->rank] = {.color = color, .key = key, .out = out, .state = me, .child = child};
  if (static_cast<int>(round.size()) == me->clique->size) {
    std::map<int, std::map<std::pair<int, int>, int>> parts;  // colour; key and rank, in order; rank
    for (const auto& [rank, each] : round) parts[each.color][{each.key, rank}] = rank;
    for (const auto& [each_color, members] : parts) {
      auto clique = std::make_shared<Clique>();
      clique->size = clique->joined = static_cast<int>(members.size());
      int next = 0;
      for (const auto& [order, rank] : members) {
        Clique::Splitter& each = round[rank];
        each.child->clique = clique;
        each.child->rank = next++;
        each.state->splitting = false;
        if (!each.state->aborted) __atomic_store_n(each.out, new ncclComm{each.child}, __ATOMIC_RELEASE);
      }
    }
    g_changed.notify_all();
  }
  if (!me->blocking) return ncclInProgress;
  g_changed.wait(lock, [&] { return !me->splitting || me->aborted; });
  return me->aborted ? ncclInternalError : ncclSuccess;
}
#endif

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

ncclResult_t ncclGroupStart() {
  ++t_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (t_depth == 0) return ncclInvalidUsage;
  return --t_depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream,
               {.name = "all_reduce",
                .send = static_cast<const char*>(send),
                .receive = static_cast<char*>(receive),
                .count = count,
                .type = type,
                .op = op,
                .root = -1});
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream,
               {.name = "all_gather",
                .send = static_cast<const char*>(send),
                .receive = static_cast<char*>(receive),
                .count = count,
                .type = type,
                .op = -1,
                .root = -1});
}

#ifndef FAKE_NCCL_WITHOUT_REDUCE_SCATTER
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream,
               {.name = "reduce_scatter",
                .send = static_cast<const char*>(send),
                .receive = static_cast<char*>(receive),
                .count = count,
                .type = type,
                .op = op,
                .root = -1});
}
#endif

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream,
               {.name = "broadcast",
                .send = static_cast<const char*>(send),
                .receive = static_cast<char*>(receive),
                .count = count,
                .type = type,
                .op = -1,
                .root = root});
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream,
               {.name = "reduce",
                .send = static_cast<const char*>(send),
                .receive = static_cast<char*>(receive),
                .count = count,
                .type = type,
                .op = op,
                .root = root});
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer(comm, {.is_send = true,
                         .state = nullptr,
                         .from = static_cast<const char*>(send),
                         .to = nullptr,
                         .bytes = count * size_of(type),
                         .type = type,
                         .peer = peer,
                         .stream = stream});
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer(comm, {.is_send = false,
                         .state = nullptr,
                         .from = nullptr,
                         .to = static_cast<char*>(receive),
                         .bytes = count * size_of(type),
                         .type = type,
                         .peer = peer,
                         .stream = stream});
}

#pragma GCC visibility pop
}
