#pragma once
// Stands in for libnccl: ranks are threads of one process, and the collectives are done in its memory, by the
// semantics that nccl.h documents. What a caller gets wrong (bounds, overlaps, arguments that differ between
// ranks, a communicator used before it is ready) is a complaint that tests ask for.
//
// Faults, by environment variables:
//   FAKE_NCCL_HANG=all_reduce         that operation never ends, until its communicator is aborted
//   FAKE_NCCL_ASYNC_ERROR=all_reduce  nor does it, and the communicator reports an error
//   FAKE_NCCL_CONNECT                 the first call of a communicator that blocks waits for the other ranks'

#include <nccl.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_collectives.h"

namespace fake {

/// Guards all that follows.
extern std::mutex g_mutex;
extern std::condition_variable g_changed;

/// One collective, as its ranks arrive.
struct Meeting {
  Calls calls;
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

[[nodiscard]] bool faulty(const char* variable, const std::string& operation);

/// With g_mutex held, these three. What a call on the communicator would return before it does anything.
[[nodiscard]] ncclResult_t usable(const State& state, const std::string& name);
/// Puts `job` on its stream: at once, or, without blocking, a while later as another thread of NCCL would.
[[nodiscard]] ncclResult_t launch(const std::shared_ptr<State>& me, std::function<void()> job);
/// A communicator that blocks connects its ranks in the first call.
[[nodiscard]] ncclResult_t connect(std::unique_lock<std::mutex>& lock, const std::shared_ptr<State>& me);

}  // namespace fake

struct ncclComm {
  std::shared_ptr<fake::State> state;
};
