#pragma once
// Collectives between processes over MPI, on the memory of the host: what a laptop and CI have.

#include <memory>

#include "harness/backend.h"

namespace zplan::bench {

/// Starts MPI; it ends with the backend. There is one per process. Throws BenchError.
[[nodiscard]] std::unique_ptr<Backend> make_mpi_backend();

/// The same MPI to talk to the other ranks beside another backend's collectives.
[[nodiscard]] std::unique_ptr<Control> make_mpi_control();

}  // namespace zplan::bench
