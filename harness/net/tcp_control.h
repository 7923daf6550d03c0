#pragma once
// Control where no MPI is: every rank talks to rank 0.

#include <string>
#include <string_view>
#include <vector>

#include "harness/control.h"
#include "harness/net/environment.h"
#include "harness/net/error.h"
#include "harness/net/rendezvous.h"

namespace zplan::bench {

/// A star around rank 0. Where one rank fails, rank 0 passes the reason on: the rank that saw it throws
/// BenchError, all others ToldByAnother with the same text, in the call they are in or in their next one.
/// Afterwards every call throws ToldByAnother.
class TcpControl final : public Control {
 public:
  /// Meets the others: see wait_for_peers() and join_rank_0() for what is thrown.
  explicit TcpControl(TcpOptions options);

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int size() const override { return options_.size; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override;
  [[nodiscard]] std::string broadcast(const std::string& of_rank_0) override;
  void barrier() override;

  /// Ends the run for everyone, for a reason that this rank saw outside of a call here and reports itself.
  /// Takes two seconds at most. From another thread only while no call is under way.
  void fail(const std::string& reason) noexcept;

  /// Why the run ends, where a rank that this one talks to (rank 0: any, the others: rank 0) has said so or
  /// is gone; empty: nothing of the kind. Does not wait, and takes nothing away: the next call throws for it.
  /// For a watch beside a rank that hangs in a collective: from another thread while no call is under way.
  [[nodiscard]] std::string failure_seen() const;

 private:
  enum class Origin { here, told };
  [[nodiscard]] Frame exchange(FrameKind kind, std::string text);
  [[nodiscard]] std::vector<std::string> collect(FrameKind kind);
  void send_to_all(const Frame& frame);
  [[nodiscard]] Frame await(FrameKind kind);
  void begin_call();
  void check_length(const std::string& text, FrameKind kind);
  [[nodiscard]] std::string check(const Frame& frame, const Peer& peer, FrameKind kind) const;
  [[nodiscard]] std::string name_of_silent(const std::vector<bool>& heard) const;
  [[noreturn]] void send_failed(Peer& peer, const std::string& why);
  [[noreturn]] void end(const std::string& reason, Origin origin, const Peer* except = nullptr);

  TcpOptions options_;
  std::vector<Peer> peers_;  ///< of rank 0 all others, by rank; of the others rank 0 alone
  std::uint64_t calls_{};
  std::string ended_;  ///< why the run ended; empty: it goes on
};

/// What a rank at that place needs to meet the others. Throws InputError where there are others and nothing
/// says where rank 0 is.
[[nodiscard]] TcpOptions tcp_options(const Place& place);

/// The place among the processes of its host by their hosts' names, for places whose launcher does not say
/// it. All ranks call it. Returns {rank, size} of the host.
struct LocalPlace {
  int rank{};
  int size{1};
  bool operator==(const LocalPlace&) const = default;
};
[[nodiscard]] LocalPlace place_on_host(Control& control, const std::string& host);

}  // namespace zplan::bench
