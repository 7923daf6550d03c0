#pragma once
// Starts processes on this host, waits for them, and leaves none behind. The calling process does nothing
// else: its signals stay blocked, and its environment is that of the last process it started.

#include <chrono>
#include <string>
#include <vector>

namespace zplan::bench {

/// Time in which processes may end by themselves after one has failed or a signal was passed on.
inline constexpr std::chrono::milliseconds kEndWithin{5'000};

/// Starts one program `ranks` times and waits for the ranks. Each gets RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE, and in ZPLAN_SHARED_MEMORY the descriptor of memory that all share (MemoryControl).
/// SIGINT, SIGTERM and SIGHUP are passed on as one SIGINT; the next one kills the ranks. They die with this
/// process, however it ends. One that is killed is named on stderr. Returns 0, or the exit status of the rank
/// that failed first (128 + signal). Throws InputError or BenchError if they cannot be started.
[[nodiscard]] int run_local(int ranks, const std::vector<std::string>& command,
                            std::chrono::milliseconds end_within = kEndWithin);

/// Starts mpirun, which starts and ends ranks itself, and waits for it. The first signal is passed on as
/// SIGUSR1, which mpirun passes on to its ranks, the next one as SIGTERM, which ends them. mpirun gets the
/// latter also if this process dies.
[[nodiscard]] int run_mpirun(const std::vector<std::string>& command,
                             std::chrono::milliseconds end_within = kEndWithin);

}  // namespace zplan::bench
