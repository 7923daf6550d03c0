// Operations of the stand-in for libnccl, as fake_communicator.h describes it.

#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "fake_communicator.h"
#include "fake_cuda.h"

namespace {

using fake::buffers;
using fake::Call;
using fake::g_changed;
using fake::g_mutex;
using fake::Meeting;
using fake::Message;
using fake::size_of;
using fake::State;

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

double seconds_of(const Call& call, int size) {
  const auto [sent, received] = buffers(call, size);
  return static_cast<double>(std::max(sent, received) * size_of(call.type)) / fake::kCollectiveRate;
}

void complete(Meeting& meeting, fake::Clique& clique, const Call& call) {
  for (const auto& [rank, other] : meeting.calls)
    if (std::tie(other.name, other.count, other.type, other.op, other.root) !=
        std::tie(call.name, call.count, call.type, call.op, call.root))
      return fake::complain("ranks do not agree: " + call.name + ", " + other.name);
  fake::do_collective(meeting.calls);
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
  if (fake::faulty("FAKE_NCCL_ASYNC_ERROR", call.name))
    me->error = ncclRemoteError;
  else if (static_cast<int>(meeting.calls.size()) == me->clique->size &&
           !fake::faulty("FAKE_NCCL_HANG", call.name))
    complete(meeting, *me->clique, call);
  g_changed.notify_all();
  g_changed.wait(lock, [&] { return meeting.done || me->aborted; });
  if (meeting.done) stream->clock = meeting.end;
  if (!meeting.done) meeting.calls.erase(me->rank);  // its buffers may go
}

ncclResult_t check_buffers(const Call& call, const State& state) {
  const auto [sent, received] = buffers(call, state.clique->size);
  const std::size_t each = size_of(call.type);
  if (!fake::is_device_memory(call.send, sent * each) ||
      !fake::is_device_memory(call.receive, received * each)) {
    fake::complain(call.name + ": a buffer does not lie in device memory");
    return ncclInvalidArgument;
  }
  if (!fake::lies_apart_or_in_place(call, state.rank, state.clique->size))
    fake::complain(call.name + ": buffers overlap, but not as in place");
  return ncclSuccess;
}

std::string text_of(const Call& call, const State& state) {
  return call.name + " rank " + std::to_string(state.rank) + "/" + std::to_string(state.clique->size) +
         " count " + std::to_string(call.count) + " type " + std::to_string(call.type) + " op " +
         std::to_string(call.op) + " root " + std::to_string(call.root) +
         (call.send == call.receive ? " same buffer" : "");
}

}  // namespace

Call call_of(const char* name, const void* send, void* receive, std::size_t count, ncclDataType_t type,
             int op, int root) {
  return {.name = name,
          .send = static_cast<const char*>(send),
          .receive = static_cast<char*>(receive),
          .count = count,
          .type = type,
          .op = op,
          .root = root};
}

ncclResult_t issue(ncclComm_t comm, cudaStream_t stream, const Call& call) {
  std::unique_lock lock(g_mutex);
  const std::shared_ptr<State> me = comm->state;
  fake::record(text_of(call, *me));
  for (const ncclResult_t result : {fake::usable(*me, call.name), check_buffers(call, *me)})
    if (result != ncclSuccess) return result;
  if (const ncclResult_t result = fake::connect(lock, me); result != ncclSuccess) return result;
  const unsigned long which = me->next++;
  return fake::launch(me, [=] { stream->enqueue([=] { meet(me, which, call, stream); }); });
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
      fake::put(message->data, each.to);
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
  return fake::launch(me, [=] { transfers.front().stream->enqueue([=] { exchange(transfers); }); });
}

ncclResult_t transfer(ncclComm_t comm, Transfer one) {
  {
    const std::scoped_lock lock(g_mutex);
    one.state = comm->state;
    const int size = one.state->clique->size;
    fake::record(std::string(one.is_send ? "send" : "receive") + " rank " + std::to_string(one.state->rank) +
                 "/" + std::to_string(size) + " peer " + std::to_string(one.peer) + " bytes " +
                 std::to_string(one.bytes) + (t_depth > 0 ? " grouped" : ""));
    const ncclResult_t result = fake::usable(*one.state, one.is_send ? "send" : "receive");
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

extern "C" {
#pragma GCC visibility push(default)

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
  return issue(comm, stream, call_of("all_reduce", send, receive, count, type, op, -1));
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream, call_of("all_gather", send, receive, count, type, -1, -1));
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream, call_of("reduce_scatter", send, receive, count, type, op, -1));
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream, call_of("broadcast", send, receive, count, type, -1, root));
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream, call_of("reduce", send, receive, count, type, op, root));
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
