#pragma once
// From one process to ranks with a backend: which backend, what starts the ranks, how they connect.

#include <memory>
#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/net/environment.h"
#include "harness/options.h"

namespace zplan::bench {

/// What --backend means here: auto is NCCL where this build has it and a GPU can be used, else MPI. Throws
/// InputError where the one asked for is not in this build.
[[nodiscard]] BackendChoice choose_backend(const Options& options);

/// Starts the ranks on this machine where no launcher did: MPI's by mpirun, NCCL's by itself. Waits for them;
/// the exit status. Throws InputError naming what is missing.
[[nodiscard]] int start_ranks(const Options& options, BackendChoice choice,
                              const std::vector<std::string>& arguments);

/// This rank's. Throws InputError where its launcher and the backend do not go together.
[[nodiscard]] std::unique_ptr<Backend> make_backend(const Options& options, BackendChoice choice,
                                                    const Place& place);

/// The exit status of a rank that ended with `status`; where a file is named for it (ZPLAN_BENCH_STATUS), it
/// is written there instead.
[[nodiscard]] int leave_status(int status);

}  // namespace zplan::bench
