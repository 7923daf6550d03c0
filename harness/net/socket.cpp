#include "harness/net/socket.h"

#include <arpa/inet.h>
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

/// What the address stands for (empty: this host's interfaces), or getaddrinfo's error.
Addresses resolve(const std::string& address, int port, int family, int& error) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (address.empty() ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  error =
      getaddrinfo(address.empty() ? nullptr : address.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {error == 0 ? found : nullptr, &freeaddrinfo};
}

[[noreturn]] void fail_to_resolve(const std::string& address, int error) {
  throw InputError("MASTER_ADDR",
                   fmt::format("{} does not resolve ({})", in_quotes(address, 255), gai_strerror(error)),
                   "accepted: a host name or address of rank 0 that every host knows");
}

[[noreturn]] void fail_to_listen(int port, int error) {
  const std::string place = fmt::format("--port {}", port);
  if (error == EADDRINUSE)
    throw InputError(place, "address in use by another process", "accepted: a free port");
  if (error == EACCES)
    throw InputError(place, "not allowed to this user (Permission denied)",
                     "accepted: a free port, usually from 1024 on");
  throw InputError(place, fmt::format("cannot be listened at ({})", text_of(error)), "accepted: a free port");
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1";
}

void set_option(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof value);
}

Socket new_socket(int family) {
  return Socket(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Small messages are sent at once; a host that is gone is noticed.
void prepare(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/// A closed socket and the error where it cannot be.
Socket listener_at(const addrinfo& address, int& error) {
  Socket listener = new_socket(address.ai_family);
  if (!listener.open()) return error = errno, Socket();
  set_option(listener.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(listener.fd(), address.ai_addr, address.ai_addrlen) != 0 || listen(listener.fd(), SOMAXCONN) != 0)
    return error = errno, Socket();
  return listener;
}

/// On Linux a connection to a port without a listener can reach itself, where the system picks that very
/// port for this end.
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

Socket listen_at(const std::string& address, int port) {
  int error = 0;
  if (const Addresses named = resolve(address, port, AF_UNSPEC, error); !named)
    fail_to_resolve(address, error);
  int why = EADDRNOTAVAIL;
  // IPv6 first: its socket for all interfaces takes IPv4 callers, too. A host may have only one of the two.
  for (const int family : {AF_INET6, AF_INET}) {
    const Addresses here = resolve(is_loopback(address) ? address : "", port, family, error);
    for (const addrinfo* each = here.get(); each != nullptr; each = each->ai_next) {
      if (Socket listener = listener_at(*each, why); listener.open()) return listener;
      if (why == EADDRINUSE || why == EACCES) fail_to_listen(port, why);
    }
  }
  fail_to_listen(port, why);
}

int listening_port(int fd) {
  sockaddr_storage here{};
  socklen_t size = sizeof here;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) != 0) return 0;
  return ntohs(here.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&here)->sin6_port
                                          : reinterpret_cast<const sockaddr_in*>(&here)->sin_port);
}

Socket accept_one(int listener) {
  Socket caller(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (caller.open()) prepare(caller.fd());
  return caller;
}

Socket connect_once(const std::string& address, int port, Deadline deadline, std::string& reason) {
  int error = 0;
  const Addresses addresses = resolve(address, port, AF_UNSPEC, error);
  if (!addresses) {
    if (error != EAI_AGAIN) fail_to_resolve(address, error);
    reason = gai_strerror(error);  // a name may be known only a moment later
  }
  // One address that never answers must not keep the next from being tried.
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

Received receive_all(int fd, std::string& bytes, std::size_t size, Deadline deadline) {
  bytes.resize(size);
  for (std::size_t had = 0; had < size;) {
    const ssize_t got = recv(fd, bytes.data() + had, size - had, 0);
    if (got > 0) {
      had += static_cast<std::size_t>(got);
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait_for(fd, POLLIN, deadline)) return Received::late;
    } else if (got == 0 || errno != EINTR) {
      return Received::closed;
    }
  }
  return Received::whole;
}

void finish_sending(int fd, Deadline deadline) {
  if (shutdown(fd, SHUT_WR) != 0) return;
  std::array<char, 4096> discarded{};
  while (wait_for(fd, POLLIN, deadline)) {
    const ssize_t got = recv(fd, discarded.data(), discarded.size(), 0);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return;
  }
}

}  // namespace zplan::bench
