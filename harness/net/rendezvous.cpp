#include "harness/net/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <thread>

#include "harness/net/error.h"
#include "harness/net/hello.h"
#include "models/base/error.h"

namespace zplan::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto kHelloTime = 10s;            // for a caller to say who it is
constexpr auto kTellTime = 2s;              // for bad news to arrive
constexpr auto kPause = 50ms;               // between attempts to connect
constexpr std::size_t kMostStrangers = 64;  // callers at one time that have not said who they are

/// Somebody who has not said who it is.
struct Caller {
  Socket socket;
  FrameReader reader{kHelloLimit};
  Deadline deadline;
};

/// Rank 0 until all have come.
class Reception {
 public:
  Reception(const TcpOptions& options, std::vector<Socket> listeners)
      : options_(options),
        self_(own_hello(options)),
        listeners_(std::move(listeners)),
        peers_(static_cast<std::size_t>(options.size - 1)),
        deadline_(Clock::now() + options.start_timeout) {}

  std::vector<Peer> run() {
    while (!missing().empty()) {
      if (Clock::now() >= deadline_) give_up();
      look();
    }
    std::vector<Peer> all = everyone();
    const std::string welcome = encode({FrameKind::welcome, 0, to_frame(self_).text});
    for (Peer& peer : all)
      if (const std::string why = send_all(peer.socket.fd(), welcome, deadline_ + kTellTime); !why.empty())
        end(all, fmt::format("{} ended before all ranks had come ({})", name_of(peer), why));
    return all;
  }

 private:
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < peers_.size(); ++i)
      if (!peers_[i]) ranks.push_back(static_cast<int>(i) + 1);
    return ranks;
  }

  [[nodiscard]] std::vector<Peer> everyone() {
    std::vector<Peer> all;
    for (auto& peer : peers_)
      if (peer) all.push_back(std::move(*peer));
    return all;
  }

  [[noreturn]] static void end(std::vector<Peer>& peers, const std::string& reason) {
    tell_failure(peers, reason);
    throw BenchError(reason);
  }
  [[noreturn]] void end(const std::string& reason) {
    std::vector<Peer> all = everyone();
    end(all, reason);
  }

  [[noreturn]] void give_up() {
    std::vector<int> ranks = missing();
    const std::size_t count = ranks.size();
    ranks.resize(std::min<std::size_t>(count, 16));
    end(fmt::format(
        "rank{} {}{} of {} did not come to rank 0 on host {} at port {} within {}: start every rank, and let "
        "the port through firewalls",
        count == 1 ? "" : "s", fmt::join(ranks, ", "),
        count > ranks.size() ? fmt::format(" and {} more", count - ranks.size()) : "", options_.size,
        self_.host, listening_port(listeners_.front().fd()), seconds_text(options_.start_timeout)));
  }

  /// Waits until something happens, and takes it up.
  void look() {
    std::vector<pollfd> fds;
    const auto watch = [&fds](const Socket& socket) {
      fds.push_back({.fd = socket.fd(), .events = POLLIN, .revents = 0});
    };
    Deadline until = deadline_;
    for (const Caller& caller : callers_) watch(caller.socket), until = std::min(until, caller.deadline);
    for (const auto& peer : peers_)
      if (peer) watch(peer->socket);
    if (callers_.size() < kMostStrangers)
      for (const Socket& listener : listeners_) watch(listener);
    if (poll(fds.data(), fds.size(), milliseconds_until(until)) < 0) return;
    hear_peers();
    hear_callers();
    accept_callers();
  }

  /// Nobody has anything to say yet: what comes is bad news.
  void hear_peers() {
    for (auto& peer : peers_) {
      if (!peer) continue;
      const Received seen = peer->reader.read(peer->socket.fd());
      if (seen == Received::part) continue;
      if (seen != Received::whole) lost(*peer, "ended before all ranks had come");
      const Frame frame = peer->reader.take();
      if (frame.kind != FrameKind::failure) lost(*peer, "spoke before all ranks had come");
      std::vector<Peer> all = everyone();
      tell_failure(all, frame.text);
      throw ToldByAnother(frame.text);
    }
  }
  [[noreturn]] void lost(const Peer& peer, std::string_view how) {
    end(fmt::format("{} {}", full_name_of(peer), how));
  }

  void hear_callers() {
    for (Caller& caller : callers_) {
      const Received seen = caller.reader.read(caller.socket.fd());
      if (seen == Received::part && Clock::now() < caller.deadline) continue;
      if (seen == Received::whole)
        if (const auto hello = read_hello(caller.reader.take())) introduce(*hello, caller);
      caller.socket = Socket();
    }
    std::erase_if(callers_, [](const Caller& caller) { return !caller.socket.open(); });
  }

  void introduce(const Hello& hello, Caller& caller) {
    std::string refused = why_refused(self_, hello);
    if (refused.empty() && peer_of(hello.rank))
      refused = fmt::format(
          "rank {} is there twice: on host {} (pid {}) and on host {} (pid {}); give each process a rank of "
          "its own",
          hello.rank, peer_of(hello.rank)->host, peer_of(hello.rank)->pid, hello.host, hello.pid);
    if (!refused.empty()) {
      const Deadline soon = Clock::now() + kTellTime;
      (void)send_all(caller.socket.fd(), encode({FrameKind::refusal, kProtocol, refused}), soon);
      finish_sending(caller.socket.fd(), soon);
      end(refused);
    }
    peer_of(hello.rank) =
        Peer{.rank = hello.rank,
             .host = hello.host,
             .pid = hello.pid,
             .socket = std::move(caller.socket),
             .reader = FrameReader(static_cast<std::uint64_t>(options_.message_limit.value))};
  }
  std::optional<Peer>& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank - 1)]; }

  void accept_callers() {
    for (const Socket& listener : listeners_) {
      while (callers_.size() < kMostStrangers) {
        Socket caller = accept_one(listener.fd());
        if (!caller.open() && (errno == EMFILE || errno == ENFILE))
          end(fmt::format(
              "rank 0 on host {} cannot take up another connection: too many open files; raise `ulimit -n`",
              self_.host));
        if (!caller.open()) break;
        callers_.push_back({.socket = std::move(caller), .deadline = Clock::now() + kHelloTime});
      }
    }
  }

  const TcpOptions& options_;
  Hello self_;
  std::vector<Socket> listeners_;
  std::vector<Caller> callers_;
  std::vector<std::optional<Peer>> peers_;
  Deadline deadline_;
};

std::vector<Socket> listeners_of(const TcpOptions& options) {
  if (options.listen_fd < 0) return listen_at(options.meeting);
  if (listening_port(options.listen_fd) == 0)
    throw InputError("ZPLAN_LISTEN_FD", fmt::format("{} is not a listening socket", options.listen_fd),
                     "accepted: what zplan's own launcher sets");
  std::vector<Socket> listeners;
  listeners.emplace_back(options.listen_fd);
  take_over(options.listen_fd);
  return listeners;
}

Peer rank_0_of(const Hello& hello, Socket socket, const TcpOptions& options) {
  const auto limit = static_cast<std::uint64_t>((options.message_limit.value + 8) * options.size);
  return {.rank = 0,
          .host = hello.host,
          .pid = hello.pid,
          .socket = std::move(socket),
          .reader = FrameReader(limit)};
}

std::string own_name(const TcpOptions& options) {
  return fmt::format("rank {} on host {}", options.rank, options.host.empty() ? host_name() : options.host);
}

std::string meeting_name(const Meeting& meeting) {
  return fmt::format("{}:{}", meeting.address, meeting.port);
}

[[noreturn]] void not_zplan(const TcpOptions& options) {
  throw InputError(fmt::format("{} {}", options.meeting.port_place, options.meeting.port),
                   fmt::format("what answers at {} is not zplan", meeting_name(options.meeting)),
                   "accepted: a port that is free on rank 0's host");
}

/// What rank 0 answers to a hello: rank 0 itself, or nothing where it hung up, which may be one of a run
/// before.
std::optional<Peer> await_welcome(Socket socket, const TcpOptions& options) {
  const Deadline deadline = Clock::now() + options.start_timeout + 2 * kTellTime;
  FrameReader reader(std::uint64_t{1} << 20);
  Received seen = Received::part;
  while ((seen = reader.read(socket.fd())) == Received::part)
    if (!wait_for(socket.fd(), POLLIN, deadline))
      throw BenchError(fmt::format("{}: what listens at {} said nothing for {}; is it rank 0 of this run?",
                                   own_name(options), meeting_name(options.meeting),
                                   seconds_text(options.start_timeout)));
  if (seen == Received::closed) return std::nullopt;
  if (seen != Received::whole) not_zplan(options);
  Frame frame = reader.take();
  if (frame.kind == FrameKind::failure) throw ToldByAnother(frame.text);
  if (frame.kind == FrameKind::refusal) throw BenchError(frame.text);
  const auto hello = read_hello({FrameKind::hello, frame.number, std::move(frame.text)});
  if (frame.kind != FrameKind::welcome || !hello) not_zplan(options);
  return rank_0_of(*hello, std::move(socket), options);
}

std::optional<Peer> try_to_join(const TcpOptions& options, Deadline deadline, std::string& reason) {
  Socket socket = connect_once(options.meeting, deadline, reason);
  if (!socket.open()) return std::nullopt;
  reason = "it closed the connection";
  if (!send_all(socket.fd(), encode(to_frame(own_hello(options))), deadline).empty()) return std::nullopt;
  return await_welcome(std::move(socket), options);
}

}  // namespace

std::string name_of(const Peer& peer) { return fmt::format("rank {} on host {}", peer.rank, peer.host); }

std::string full_name_of(const Peer& peer) { return fmt::format("{} (pid {})", name_of(peer), peer.pid); }

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000.0);
}

std::vector<Peer> wait_for_peers(const TcpOptions& options) {
  return Reception(options, listeners_of(options)).run();
}

Peer join_rank_0(const TcpOptions& options) {
  const Deadline deadline = Clock::now() + options.start_timeout;
  std::string reason = "no attempt was made";
  do {
    if (auto rank_0 = try_to_join(options, deadline, reason)) return std::move(*rank_0);
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < deadline);
  throw BenchError(fmt::format(
      "{} did not reach rank 0 at {} within {} ({}): start rank 0, and let the port through firewalls",
      own_name(options), meeting_name(options.meeting), seconds_text(options.start_timeout), reason));
}

void tell_failure(std::vector<Peer>& peers, const std::string& reason, const Peer* except) {
  const Deadline soon = Clock::now() + kTellTime;
  const std::string frame = encode({FrameKind::failure, 0, reason});
  for (Peer& peer : peers) {
    if (&peer == except || !peer.socket.open()) continue;
    (void)send_all(peer.socket.fd(), frame, soon);
  }
  for (Peer& peer : peers)
    if (peer.socket.open()) finish_sending(peer.socket.fd(), soon);
}

}  // namespace zplan::bench
