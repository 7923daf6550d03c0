#pragma once
// Starts processes on this host, waits for them, and leaves none behind.

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "harness/net/child.h"

namespace zplan::bench {

/// How a process ended.
struct Ending {
  int rank{};
  pid_t pid{};
  int status{};  ///< of waitpid(2)
};
/// "rank 1 (pid 123) was killed by signal 9 (Killed)".
[[nodiscard]] std::string describe(const Ending& ending);

/// Copies of one program as ranks of one run.
struct LocalRun {
  int ranks{1};
  std::vector<std::string> command;
  Settings environment{};                  ///< on top of what every rank gets
  std::chrono::milliseconds grace{5'000};  ///< for the others to end when one has failed
  /// Told once, at once: the rank that failed first.
  std::function<void(const Ending&)> on_failure{};
};

/// Starts them with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR=127.0.0.1, MASTER_PORT,
/// ZPLAN_LAUNCHED=local, and for rank 0 the socket that listens at that port (ZPLAN_LISTEN_FD), so that
/// nobody takes the port in between; in a process group of their own. SIGINT, SIGTERM and SIGHUP go to them
/// as one SIGINT; the next one kills them. They die with this process, however it ends. Returns 0, or the
/// exit status of the rank that failed first (128 + signal). Throws InputError or BenchError where they
/// cannot be started.
///
/// To be called where no other thread takes signals: they are blocked in the calling thread meanwhile.
[[nodiscard]] int run_local(const LocalRun& run);

/// One program, such as mpirun, that starts and ends others itself.
struct CommandRun {
  std::vector<std::string> command;
  Settings environment{};
  int interrupt_signal{SIGINT};            ///< what it gets for the first SIGINT, SIGTERM or SIGHUP
  int end_signal{SIGTERM};                 ///< for the next one, and when this process dies
  std::chrono::milliseconds grace{5'000};  ///< from then on until SIGKILL
};
/// Runs it with the same care. Returns its exit status (128 + signal).
[[nodiscard]] int run_command(const CommandRun& run);

}  // namespace zplan::bench
