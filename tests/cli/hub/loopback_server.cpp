#include "tests/cli/hub/loopback_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace zplan::test {

namespace {

/// Sends all of it, unless the client has gone.
void send_all(int connection, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t more = send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) return;
    sent += static_cast<std::size_t>(more);
  }
}

std::string request_of(int connection) {
  std::string request;
  char part[2048];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = recv(connection, part, sizeof part, 0);
    if (got <= 0) break;
    request.append(part, static_cast<std::size_t>(got));
  }
  return request;
}

}  // namespace

LoopbackServer::LoopbackServer(Answer answer)
    : answer_(std::move(answer)), socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket_, any, length) != 0 || listen(socket_, 8) != 0 || getsockname(socket_, any, &length) != 0)
    throw std::runtime_error("no port on the loopback");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

LoopbackServer::~LoopbackServer() {
  stopping_ = true;
  thread_.join();
  close(socket_);
}

std::string LoopbackServer::url() const { return "http://127.0.0.1:" + std::to_string(port_); }

std::vector<std::string> LoopbackServer::requests() const {
  const std::lock_guard lock(guard_);
  return requests_;
}

void LoopbackServer::serve() {
  constexpr int kMilliseconds = 20;
  while (!stopping_) {
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, kMilliseconds) <= 0) continue;
    const int connection = accept(socket_, nullptr, nullptr);
    if (connection < 0) continue;
    answer_one(connection);
    close(connection);
  }
}

void LoopbackServer::answer_one(int connection) {
  const std::string request = request_of(connection);
  const std::size_t begin = request.find(' ') + 1;
  const std::string path = request.substr(begin, request.find(' ', begin) - begin);
  {
    const std::lock_guard lock(guard_);
    requests_.push_back(request);
  }
  const Served served = answer_(path);
  for (double waited = 0; waited < served.wait_seconds && !stopping_; waited += 0.02)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::size_t promised =
      served.promised > 0 ? served.promised : served.body.size() + served.filler_bytes;
  std::string head = "HTTP/1.1 " + served.status +
                     "\r\nConnection: close\r\nContent-Length: " + std::to_string(promised) + "\r\n";
  for (const std::string& each : served.headers) head += each + "\r\n";
  send_all(connection, head + "\r\n" + served.body);
  const std::string filler(1 << 16, 'x');
  for (std::size_t sent = 0; sent < served.filler_bytes; sent += filler.size())
    send_all(connection, filler.substr(0, std::min(filler.size(), served.filler_bytes - sent)));
}

}  // namespace zplan::test
