#pragma once
// How processes that no MPI started find each other: rank 0 listens, the others come and say who they are.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/host_name.h"
#include "harness/net/frame.h"
#include "harness/net/socket.h"
#include "models/base/quantity.h"
#include "models/base/version.h"

namespace zplan::bench {

/// The place of this process among its peers, and how long it waits for them.
struct TcpOptions {
  int rank{};
  int size{1};
  Meeting meeting{};  ///< where rank 0 listens
  int listen_fd{-1};  ///< of rank 0: a socket that listens there already, taken over; -1: none
  std::chrono::milliseconds start_timeout{60'000};  ///< until all have come
  std::chrono::milliseconds timeout{60'000};        ///< in one call
  Bytes message_limit{kMiB * 64};                   ///< one rank's text in one call
  std::string host{};                               ///< of this process, in messages; empty: gethostname()
  std::string version{zplan::version()};            ///< what it runs, which has to be the same on all ranks
};

/// The other end of a connection.
struct Peer {
  int rank{};
  std::string host;
  std::int64_t pid{};
  Socket socket;
  FrameReader reader{0};
};
/// "rank 2 on host b".
[[nodiscard]] std::string name_of(const Peer& peer);
/// "rank 2 on host b (pid 4711)".
[[nodiscard]] std::string full_name_of(const Peer& peer);

/// "60 s", "0.5 s".
[[nodiscard]] std::string seconds_text(std::chrono::milliseconds time);

/// Rank 0: every other rank, in order, once all have come. Strangers are sent away without a word. Throws
/// InputError as listen_at() does, BenchError where ranks do not come in time (naming them), or one of
/// another number of ranks, another version or a rank that is there already comes: it is told so, and so are
/// the rest.
[[nodiscard]] std::vector<Peer> wait_for_peers(const TcpOptions& options);

/// The other ranks: rank 0, once all have come. Tries until the time is up. Throws InputError where the
/// address does not resolve or what answers is not zplan, BenchError where nobody answers or rank 0 refuses,
/// and ToldByAnother where the run ended before it began.
[[nodiscard]] Peer join_rank_0(const TcpOptions& options);

/// Says why the run ends to everyone who still listens, and waits a moment for it to arrive.
void tell_failure(std::vector<Peer>& peers, const std::string& reason, const Peer* except = nullptr);

}  // namespace zplan::bench
