#pragma once
// Collectives between processes through MPI, on host memory.

#include <memory>

#include "harness/backend.h"
#include "harness/control.h"

namespace zplan::bench {

/// Starts MPI, which ends with the backend. A process has at most one. Throws BenchError.
[[nodiscard]] std::unique_ptr<Backend> make_mpi_backend();

/// Starts MPI as the control of another backend's ranks.
[[nodiscard]] std::unique_ptr<Control> make_mpi_control();

}  // namespace zplan::bench
