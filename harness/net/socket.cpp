#include "harness/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "models/base/error.h"

namespace zplan::bench {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string text_of(int error) { return std::strerror(error); }

/// What the address stands for, or getaddrinfo's error. A name may be known only a moment later.
Addresses resolve(const Meeting& meeting, int flags, int& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(meeting.port);
  error =
      getaddrinfo(meeting.address.empty() ? nullptr : meeting.address.c_str(), port.c_str(), &hints, &found);
  return {error == 0 ? found : nullptr, &freeaddrinfo};
}

[[noreturn]] void fail_to_resolve(const Meeting& meeting, int error) {
  throw InputError(
      meeting.address_place,
      fmt::format("{} does not resolve ({})", in_quotes(meeting.address, 255), gai_strerror(error)),
      "accepted: a host name or address of rank 0 that every host knows");
}

[[noreturn]] void fail_to_listen(const Meeting& meeting, int error) {
  const std::string place = fmt::format("{} {}", meeting.port_place, meeting.port);
  if (error == EADDRINUSE)
    throw InputError(place, "address in use by another process", "accepted: a free port");
  if (error == EACCES)
    throw InputError(place, "not allowed to this user (Permission denied)",
                     "accepted: a free port, usually from 1024 on");
  throw InputError(place, fmt::format("cannot be listened at ({})", text_of(error)), "accepted: a free port");
}

bool is_loopback(const Meeting& meeting) {
  return meeting.address == "localhost" || meeting.address.starts_with("127.") || meeting.address == "::1";
}

void set_option(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof value);
}

Socket new_socket(int family) {
  return Socket(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Small messages go at once; a host that is gone is noticed.
void prepare(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/// 0, or the error. IPv4 and IPv6 get a socket each.
int listen_on(const addrinfo& address, std::vector<Socket>& listeners) {
  Socket listener = new_socket(address.ai_family);
  if (!listener.open()) return errno;
  set_option(listener.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (bind(listener.fd(), address.ai_addr, address.ai_addrlen) != 0) return errno;
  if (listen(listener.fd(), SOMAXCONN) != 0) return errno;
  listeners.push_back(std::move(listener));
  return 0;
}

/// On Linux a connection to a port that nobody listens at can come out at itself, where the system picks that
/// very port for this end.
bool is_itself(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) return false;
  return here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

int pending_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Socket connect_to(const addrinfo& address, Deadline deadline, std::string& reason) {
  Socket caller = new_socket(address.ai_family);
  if (!caller.open()) return reason = text_of(errno), Socket();
  if (connect(caller.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return reason = text_of(errno), Socket();
    if (!wait_for(caller.fd(), POLLOUT, deadline)) return reason = "no answer", Socket();
    if (const int error = pending_error(caller.fd()); error != 0) return reason = text_of(error), Socket();
  }
  if (is_itself(caller.fd())) return reason = text_of(ECONNREFUSED), Socket();
  prepare(caller.fd());
  return caller;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  constexpr std::int64_t kLongest = 3'600'000;
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest));
}

bool wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd one{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&one, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (Clock::now() >= deadline) return false;
  }
}

std::vector<Socket> listen_at(const Meeting& meeting) {
  int error = 0;
  if (const Addresses named = resolve(meeting, 0, error); !named) fail_to_resolve(meeting, error);
  const Meeting here{.address = is_loopback(meeting) ? meeting.address : "",
                     .port = meeting.port,
                     .address_place = meeting.address_place,
                     .port_place = meeting.port_place};
  const Addresses addresses = resolve(here, AI_PASSIVE, error);
  if (!addresses) fail_to_resolve(meeting, error);
  std::vector<Socket> listeners;
  int why = 0;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    const int failed = listen_on(*each, listeners);
    if (failed == EADDRINUSE || failed == EACCES) fail_to_listen(meeting, failed);
    if (failed != 0) why = failed;  // a family that this host does not have
    if (meeting.port == 0 && !listeners.empty()) break;
  }
  if (listeners.empty()) fail_to_listen(meeting, why);
  return listeners;
}

int listening_port(int fd) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return 0;
  sockaddr_storage here{};
  socklen_t here_size = sizeof here;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0) return 0;
  if (here.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&here)->sin_port);
  return here.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6*>(&here)->sin6_port) : 0;
}

void take_over(int fd) {
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

Socket accept_one(int listener) {
  Socket caller(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (caller.open()) prepare(caller.fd());
  return caller;
}

Socket connect_once(const Meeting& meeting, Deadline deadline, std::string& reason) {
  int error = 0;
  const Addresses addresses = resolve(meeting, 0, error);
  if (!addresses) {
    if (error != EAI_AGAIN) fail_to_resolve(meeting, error);
    reason = gai_strerror(error);
  }
  // One address that swallows everything must not keep the next from being tried.
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next)
    if (Socket caller = connect_to(*each, std::min(deadline, Clock::now() + std::chrono::seconds(5)), reason);
        caller.open())
      return caller;
  return {};
}

std::string send_all(int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd, POLLOUT, deadline)) return "timed out";
    } else if (errno != EINTR) {
      return text_of(errno);
    }
  }
  return {};
}

void finish_sending(int fd, Deadline deadline) {
  if (shutdown(fd, SHUT_WR) != 0) return;
  std::array<char, 4096> thrown_away{};
  while (wait_for(fd, POLLIN, deadline)) {
    const ssize_t got = recv(fd, thrown_away.data(), thrown_away.size(), 0);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return;
  }
}

std::string peer_name(int fd) {
  sockaddr_storage there{};
  socklen_t size = sizeof there;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&there), size, host.data(), host.size(), service.data(),
                  service.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  const bool six = there.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", six ? "[" : "", host.data(), six ? "]" : "", service.data());
}

}  // namespace zplan::bench
