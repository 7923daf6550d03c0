#pragma once
// TCP with deadlines: nothing here waits for ever, raises SIGPIPE or minds an interrupted call.

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_{-1};
};

/// Where rank 0 is met, and how messages call the two values.
struct Meeting {
  std::string address{"127.0.0.1"};
  int port{};
  std::string address_place{"MASTER_ADDR"};
  std::string port_place{"--port"};
};

/// Milliseconds until then as poll(2) takes them, rounded up; 0 where it is past.
[[nodiscard]] int milliseconds_until(Deadline deadline);

/// Whether one of `events` (or an error, or the other end's close) came before the deadline.
[[nodiscard]] bool wait_for(int fd, short events, Deadline deadline);

/// Sockets that listen at the port: on loopback where the address is written as one, else on all interfaces,
/// since a host may know its own name by another address than its peers do. Port 0: a free one. Throws
/// InputError where the address does not resolve, the port is in use, not allowed or cannot be bound.
[[nodiscard]] std::vector<Socket> listen_at(const Meeting& meeting);

/// The port that a listening socket has; 0 where it is not listening TCP.
[[nodiscard]] int listening_port(int fd);

/// Makes a descriptor that another process opened one like those here: non-blocking, closed on exec.
void take_over(int fd);

/// The next caller, or a closed socket where there is none now.
[[nodiscard]] Socket accept_one(int listener);

/// One attempt at each of the address's endpoints. Returns a closed socket and why in `reason` where none
/// answers. Throws InputError where the address does not resolve and will not by waiting.
[[nodiscard]] Socket connect_once(const Meeting& meeting, Deadline deadline, std::string& reason);

/// Sends everything: nothing, or why not ("Broken pipe", "timed out").
[[nodiscard]] std::string send_all(int fd, std::string_view bytes, Deadline deadline);

/// Says that nothing more will be sent, and waits until the other end says so too: a close with unread bytes
/// would have the system throw away what is still on its way.
void finish_sending(int fd, Deadline deadline);

/// "node1:4711", "[fe80::1]:4711": the other end, for messages.
[[nodiscard]] std::string peer_name(int fd);

}  // namespace zplan::bench
