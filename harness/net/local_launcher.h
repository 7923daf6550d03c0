#pragma once
// Starts processes on this host, waits for them, and leaves none behind. The calling process does nothing
// else: its signals stay blocked, and its environment is that of the last process it started.

#include <chrono>
#include <string>
#include <vector>

namespace zplan::bench {

/// How long processes have to end by themselves once one has failed or they were told to.
inline constexpr std::chrono::milliseconds kEndWithin{5'000};

/// Copies of one program as ranks of one run: each with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
/// MASTER_ADDR=127.0.0.1, MASTER_PORT and ZPLAN_LAUNCHED=local, rank 0 also with the socket that listens at
/// that port (ZPLAN_LISTEN_FD), so that no other process takes the port in between. SIGINT, SIGTERM and
/// SIGHUP reach them as one SIGINT; the next one kills them. They die with this process, however it ends. One
/// that is killed is named on stderr. Returns 0, or the exit status of the rank that failed first (128 +
/// signal). Throws InputError or BenchError where they cannot be started.
[[nodiscard]] int run_local(int ranks, const std::vector<std::string>& command,
                            std::chrono::milliseconds end_within = kEndWithin);

/// mpirun, which starts and ends ranks itself: the first signal reaches it as SIGUSR1, which it passes on to
/// its ranks, the next one as SIGTERM, which ends them. The latter it also gets where this process dies.
[[nodiscard]] int run_mpirun(const std::vector<std::string>& command,
                             std::chrono::milliseconds end_within = kEndWithin);

}  // namespace zplan::bench
