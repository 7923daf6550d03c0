#pragma once
// An HTTP server on this machine for tests of the hub: what it answers is a function of the path.

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace zplan::test {

/// What the server does with one request.
struct Served {
  std::string status{"200 OK"};
  std::vector<std::string> headers{};
  std::string body{};
  double wait_seconds{};  ///< before it answers
  std::size_t
      promised{};  ///< Content-Length, where that is not the body's; the connection ends after the body
  std::size_t filler_bytes{};  ///< sent behind the body
};

class LoopbackServer {
 public:
  using Answer = std::function<Served(const std::string& path)>;
  explicit LoopbackServer(Answer answer);
  ~LoopbackServer();
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  [[nodiscard]] std::string url() const;  ///< "http://127.0.0.1:PORT"
  /// The requests so far, each as it came: the first line and the headers.
  [[nodiscard]] std::vector<std::string> requests() const;

 private:
  void serve();
  void answer_one(int connection);

  Answer answer_;
  int socket_{-1};
  int port_{};
  std::atomic<bool> stopping_{};
  mutable std::mutex guard_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace zplan::test
