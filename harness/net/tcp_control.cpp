#include "harness/net/tcp_control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "harness/error.h"
#include "harness/host_name.h"
#include "models/base/error.h"

namespace zplan::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto kHelloTime = 2s;    // for a caller to say who it is
constexpr auto kFailureTime = 2s;  // for the reason of a failure to arrive
constexpr auto kPause = 50ms;      // between attempts to connect
constexpr std::size_t kLongestHello = 4096;

// A message: "zplan", its kind, the length of its text in 12 digits, the text.
constexpr std::string_view kMagic = "zplan";
constexpr std::size_t kDigits = 12;
constexpr char kHello = 'h', kCall = 'c', kFailure = 'f';

struct Message {
  char kind{};
  std::string text;
};

std::string encode(char kind, std::string_view text) {
  return fmt::format("{}{}{:0{}}{}", kMagic, kind, text.size(), kDigits, text);
}

enum class Arrived { whole, closed, late, foreign };

Arrived arrived(Received received) {
  return received == Received::closed ? Arrived::closed
         : received == Received::late ? Arrived::late
                                      : Arrived::whole;
}

/// `foreign` is known from the first bytes on: other programs wait for an answer after a few.
Arrived receive(int fd, Message& message, Deadline deadline, std::size_t longest) {
  std::string magic, header;
  if (const auto seen = receive_all(fd, magic, kMagic.size(), deadline); seen != Received::whole)
    return arrived(seen);
  if (magic != kMagic) return Arrived::foreign;
  if (const auto seen = receive_all(fd, header, 1 + kDigits, deadline); seen != Received::whole)
    return arrived(seen);
  message.kind = header[0];
  std::size_t size = 0;
  const char* const end = header.data() + header.size();
  if (std::from_chars(header.data() + 1, end, size).ptr != end || size > longest) return Arrived::foreign;
  return arrived(receive_all(fd, message.text, size, deadline));
}

/// What a rank says of itself.
struct Hello {
  int rank{}, size{};
  long pid{};
  std::string host;
};

std::string own_hello(int rank, int size) {
  return encode(kHello, fmt::format("{} {} {} {}", rank, size, getpid(), host_name()));
}

std::optional<Hello> hello_in(const Message& message) {
  Hello hello;
  std::istringstream words(message.text);
  const bool read = static_cast<bool>(words >> hello.rank >> hello.size >> hello.pid >> hello.host);
  return read && message.kind == kHello ? std::optional(hello) : std::nullopt;
}

std::string name_of(const Hello& hello) {
  return fmt::format("rank {} on host {} (pid {})", hello.rank, hello.host, hello.pid);
}

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000.0);
}

/// The first few of what may be thousands.
template <class T>
std::string list_of(std::vector<T> all) {
  constexpr std::size_t kMost = 8;
  const std::size_t count = all.size();
  all.resize(std::min(count, kMost));
  return fmt::format("{}{}", fmt::join(all, ", "),
                     count > kMost ? fmt::format(" and {} more", count - kMost) : "");
}

}  // namespace

TcpControl::TcpControl(const Place& place, std::chrono::milliseconds timeout)
    : rank_(place.rank), size_(place.size), timeout_(timeout) {
  if (size_ == 1) return;
  if (place.master_address.empty() || place.master_port == 0)
    throw InputError("MASTER_ADDR",
                     fmt::format("not set, and {} does not tell where rank 0 of {} is",
                                 to_name(place.launcher), place.size),
                     "accepted: name or address of the host of rank 0");
  if (rank_ == 0)
    await_ranks(place);
  else
    join_rank_0(place);
}

/// Of rank 0.
void TcpControl::await_ranks(const Place& place) {
  const Socket listener =
      place.listen_fd < 0 ? listen_at(place.master_address, place.master_port) : Socket(place.listen_fd);
  const Deadline deadline = Clock::now() + timeout_;
  peers_.resize(static_cast<std::size_t>(size_ - 1));
  for (;;) {
    std::vector<int> missing;
    for (int rank = 1; rank < size_; ++rank)
      if (!peers_[static_cast<std::size_t>(rank - 1)].socket.open()) missing.push_back(rank);
    if (missing.empty()) return;
    if (!wait_for(listener.fd(), POLLIN, deadline))
      end(
          fmt::format("rank{} {} of {} did not connect to rank 0 on host {} at port {} within {}: start every "
                      "rank, and let the port through firewalls",
                      missing.size() == 1 ? "" : "s", list_of(missing), size_, host_name(),
                      listening_port(listener.fd()), seconds_text(timeout_)));
    Socket caller = accept_one(listener.fd());
    if (caller.open())
      introduce(std::move(caller));
    else if (errno == EMFILE || errno == ENFILE)
      end(fmt::format(
          "rank 0 on host {} cannot accept another connection: too many open files; raise `ulimit -n`",
          host_name()));
  }
}

/// Other programs that connect, as port scanners do, are sent away.
void TcpControl::introduce(Socket caller) {
  Message message;
  if (receive(caller.fd(), message, Clock::now() + kHelloTime, kLongestHello) != Arrived::whole) return;
  const std::optional<Hello> hello = hello_in(message);
  if (!hello) return;
  std::string refused;
  const bool is_awaited = hello->rank >= 1 && hello->rank < size_;
  Peer* const peer = is_awaited ? &peers_[static_cast<std::size_t>(hello->rank - 1)] : nullptr;
  if (hello->size != size_)
    refused = fmt::format(
        "{} was started as one of {} ranks, rank 0 on host {} as one of {}: start all with one number of "
        "ranks",
        name_of(*hello), hello->size, host_name(), size_);
  else if (peer == nullptr)
    refused = fmt::format(
        "{} connected to rank 0 on host {} (pid {}), where ranks 1 to {} are expected: give each process a rank "
        "of "
        "its own",
        name_of(*hello), host_name(), getpid(), size_ - 1);
  else if (peer->socket.open())
    refused = fmt::format("two processes have one rank: {} and {}; give each process a rank of its own",
                          peer->name, name_of(*hello));
  if (refused.empty()) {
    *peer = {.name = name_of(*hello), .socket = std::move(caller)};
    return say(*peer, own_hello(0, size_), Clock::now() + timeout_);
  }
  peers_.push_back({.name = name_of(*hello), .socket = std::move(caller)});
  end(refused);
}

/// Of the other ranks, which may start before rank 0.
void TcpControl::join_rank_0(const Place& place) {
  const Deadline deadline = Clock::now() + timeout_;
  std::string reason;
  do {
    Socket socket = connect_once(place.master_address, place.master_port, deadline, reason);
    if (socket.open()) {
      reason = "it closed the connection";
      if (greet(std::move(socket), place)) return;
    }
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < deadline);
  throw BenchError(fmt::format(
      "rank {} on host {} did not reach rank 0 at {}:{} within {} ({}): start rank 0, and let the "
      "port through firewalls",
      rank_, host_name(), place.master_address, place.master_port, seconds_text(timeout_), reason));
}

/// False where it hung up: it may be rank 0 of a run before.
bool TcpControl::greet(Socket socket, const Place& place) {
  if (!send_all(socket.fd(), own_hello(rank_, size_), Clock::now() + timeout_).empty()) return false;
  Message message;
  const Arrived seen = receive(socket.fd(), message, Clock::now() + timeout_ + kFailureTime, kLongestHello);
  const std::string meeting = fmt::format("{}:{}", place.master_address, place.master_port);
  if (seen == Arrived::closed) return false;
  if (seen == Arrived::late)
    throw BenchError(
        fmt::format("rank {} on host {}: what listens at {} said nothing for {}; is it rank 0 of "
                    "this run?",
                    rank_, host_name(), meeting, seconds_text(timeout_)));
  if (seen == Arrived::whole && message.kind == kFailure) throw ToldByAnother(message.text);
  const std::optional<Hello> hello = seen == Arrived::whole ? hello_in(message) : std::nullopt;
  if (!hello)
    throw InputError(fmt::format("--port {}", place.master_port),
                     fmt::format("what answers at {} is not zplan", meeting),
                     "accepted: a port that is free on rank 0's host");
  peers_.push_back({.name = name_of(*hello), .socket = std::move(socket)});
  return true;
}

/// Each text is a message of its own, on the way to rank 0 and back.
std::vector<std::string> TcpControl::all_gather(const std::string& mine) {
  if (size_ == 1) return {mine};
  std::vector<std::string> all;
  if (rank_ == 0) {
    all = hear_all();
    all.insert(all.begin(), mine);
    std::string bytes;
    for (const std::string& each : all) bytes += encode(kCall, each);
    const Deadline deadline = Clock::now() + timeout_;
    for (Peer& peer : peers_) say(peer, bytes, deadline);
    return all;
  }
  Peer& rank_0 = peers_.front();
  say(rank_0, encode(kCall, mine), Clock::now() + timeout_);
  // Rank 0 may itself come that late, and then waits as long for the others: it names the one that is late,
  // not those who wait.
  while (all.size() < static_cast<std::size_t>(size_)) all.push_back(hear(rank_0, 2 * timeout_ + 5s));
  return all;
}

std::string TcpControl::broadcast(const std::string& of_rank_0) {
  return all_gather(rank_ == 0 ? of_rank_0 : "").front();
}

void TcpControl::say(Peer& peer, const std::string& bytes, Deadline deadline) {
  const std::string why = send_all(peer.socket.fd(), bytes, deadline);
  if (why.empty()) return;
  if (rank_ != 0) (void)hear(peer, 0ms);  // rank 0 may have said why before it ended
  peer.socket = Socket();                 // half of a message went: another behind it would not be understood
  end(fmt::format(
      "{} {}", peer.name,
      why == "timed out" ? "received nothing for " + seconds_text(timeout_) : "ended (" + why + ")"));
}

std::string TcpControl::hear(Peer& peer, std::chrono::milliseconds patience) {
  Message message;
  switch (receive(peer.socket.fd(), message, Clock::now() + patience, std::string::npos)) {
    case Arrived::closed: end(peer.name + " ended");
    case Arrived::late: end(fmt::format("{} did not answer for {}", peer.name, seconds_text(patience)));
    case Arrived::foreign: end(peer.name + " sent what is no message of zplan-bench");
    case Arrived::whole: break;
  }
  if (message.kind == kFailure) throw ToldByAnother(message.text);
  return std::move(message.text);
}

/// Of rank 0: listens to all at once, so that one that ends is noticed while others are slow.
std::vector<std::string> TcpControl::hear_all() {
  const Deadline deadline = Clock::now() + timeout_;
  std::vector<std::string> texts(peers_.size());
  std::vector<std::size_t> silent(peers_.size());
  for (std::size_t i = 0; i < silent.size(); ++i) silent[i] = i;
  while (!silent.empty()) {
    std::vector<pollfd> fds;
    for (const std::size_t i : silent)
      fds.push_back({.fd = peers_[i].socket.fd(), .events = POLLIN, .revents = 0});
    if (poll(fds.data(), fds.size(), milliseconds_until(deadline)) <= 0 && Clock::now() >= deadline) {
      std::vector<std::string> names;
      for (const std::size_t i : silent) names.push_back(peers_[i].name);
      end(fmt::format("{} did not answer for {}", list_of(names), seconds_text(timeout_)));
    }
    std::size_t at = 0;
    std::erase_if(silent, [&](std::size_t i) {
      if (fds[at++].revents == 0) return false;
      texts[i] = hear(peers_[i], timeout_);
      return true;
    });
  }
  return texts;
}

void TcpControl::end(const std::string& reason) {
  const Deadline soon = Clock::now() + kFailureTime;
  if (rank_ == 0) {
    for (const Peer& peer : peers_)
      if (peer.socket.open()) (void)send_all(peer.socket.fd(), encode(kFailure, reason), soon);
    for (const Peer& peer : peers_)
      if (peer.socket.open()) finish_sending(peer.socket.fd(), soon);
  }
  throw BenchError(reason);
}

}  // namespace zplan::bench
