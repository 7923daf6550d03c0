#pragma once
// TCP with deadlines: no call here waits forever, raises SIGPIPE or fails because a signal interrupted it.

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace zplan::bench {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// A descriptor that closes itself. All are non-blocking and closed on exec.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }

 private:
  int fd_{-1};
};

/// Milliseconds until then as poll(2) takes them, rounded up; 0 where it is past.
[[nodiscard]] int milliseconds_until(Deadline deadline);

/// Whether one of `events` (or an error, or the other end's close) came before the deadline.
[[nodiscard]] bool wait_for(int fd, short events, Deadline deadline);

/// Listens at the port: on loopback where the address is written as one, else on all interfaces, since a host
/// may know its own name by another address than its peers do. Port 0: a free one. Throws InputError where
/// the address does not resolve, or the port is in use, not allowed or cannot be bound.
[[nodiscard]] Socket listen_at(const std::string& address, int port);

/// The port that a listening socket has.
[[nodiscard]] int listening_port(int fd);

/// The next caller, or a closed socket where there is none now (errno says why).
[[nodiscard]] Socket accept_one(int listener);

/// One attempt at each of the address's endpoints. Returns a closed socket and why in `reason` where none
/// answers. Throws InputError where the address does not resolve and will not by waiting.
[[nodiscard]] Socket connect_once(const std::string& address, int port, Deadline deadline,
                                  std::string& reason);

/// Sends everything: nothing, or why not ("Broken pipe", "timed out").
[[nodiscard]] std::string send_all(int fd, std::string_view bytes, Deadline deadline);

enum class Received { whole, closed, late };
/// Exactly `size` bytes into `bytes`.
[[nodiscard]] Received receive_all(int fd, std::string& bytes, std::size_t size, Deadline deadline);

/// Says that nothing more will be sent, and waits until the other end says so too: a close with unread bytes
/// would have the system discard what is still on its way.
void finish_sending(int fd, Deadline deadline);

}  // namespace zplan::bench
