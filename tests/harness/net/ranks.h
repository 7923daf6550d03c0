#pragma once
// Ranks as threads on loopback, and what became of each.

#include <functional>
#include <string>
#include <vector>

#include "harness/net/tcp_control.h"

namespace zplan::bench {

/// "" : through; else "BenchError: …", "ToldByAnother: …", "InputError: …".
std::string outcome_of(const std::function<void()>& what);

/// A port of the system's choice, listened at for rank 0.
struct TestPort {
  TestPort();
  Socket listener;
  int port{};
};

/// Options of a rank that come to `port`; generous times, since the machine may be busy.
TcpOptions options_at(TestPort& port, int rank, int size);

/// Runs all in threads and waits for them.
std::vector<std::string> outcomes_of(const std::vector<std::function<void()>>& ranks);

/// `size` ranks that meet and then do `what`.
std::vector<std::string> outcomes_of(
    int size, const std::function<void(TcpControl&)>& what,
    const std::function<void(TcpOptions&)>& adjust = [](TcpOptions&) {});

}  // namespace zplan::bench
