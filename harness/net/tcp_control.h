#pragma once
// Control where there is no MPI: rank 0 listens, every other rank connects to it and talks to it alone.

#include <chrono>
#include <string>
#include <vector>

#include "harness/control.h"
#include "harness/net/environment.h"
#include "harness/net/socket.h"

namespace zplan::bench {

/// Where a rank ends or does not answer, rank 0 tells all others why: the rank that noticed throws
/// BenchError, all others ToldByAnother with the same text, in the call they are in or in their next one.
class TcpControl final : public Control {
 public:
  /// Connects the ranks. Throws InputError where nothing says where rank 0 is, its address does not resolve,
  /// the port is not free, or what answers there is not zplan-bench; BenchError or ToldByAnother where ranks
  /// do not come within `timeout` or were started as different runs.
  TcpControl(const Place& place, std::chrono::milliseconds timeout);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override;
  [[nodiscard]] std::string broadcast(const std::string& of_rank_0) override;
  void barrier() override { (void)all_gather({}); }

 private:
  /// Of rank 0 every other rank, by rank; of the others rank 0 alone.
  struct Peer {
    std::string name{};  ///< "rank 2 on host b (pid 4711)"
    Socket socket{};
  };

  void await_ranks(const Place& place);
  void introduce(Socket caller);
  void join_rank_0(const Place& place);
  [[nodiscard]] bool greet(Socket socket, const Place& place);
  void say(Peer& peer, const std::string& bytes, Deadline deadline);
  [[nodiscard]] std::string hear(Peer& peer, std::chrono::milliseconds patience);
  [[nodiscard]] std::vector<std::string> hear_all();
  [[noreturn]] void end(const std::string& reason);

  int rank_, size_;
  std::chrono::milliseconds timeout_;
  std::vector<Peer> peers_;
};

}  // namespace zplan::bench
