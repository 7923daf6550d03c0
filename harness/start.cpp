#include "harness/start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "harness/error.h"
#include "harness/net/local_launcher.h"
#include "models/base/error.h"

#ifdef ZPLAN_HAS_MPI
#include "harness/mpi/mpi_backend.h"
#endif

namespace zplan::bench {

namespace {

#ifdef ZPLAN_HAS_MPI
constexpr bool kHasMpi = true;
#else
constexpr bool kHasMpi = false;
std::unique_ptr<Backend> make_mpi_backend() { return nullptr; }
#endif

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// A rank per core, and two at least: one alone sends nothing.
int ranks_by_default() { return std::max(2, static_cast<int>(std::thread::hardware_concurrency())); }

bool is_on_path(const std::string& program) {
  const char* value = std::getenv("PATH");
  std::string path = value == nullptr ? "" : value;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (access((path.substr(at, end - at) + "/" + program).c_str(), X_OK) == 0) return true;
    at = end + 1;
  }
  return false;
}

/// More ranks than cores are allowed, and root in a container, where there is nobody else. SIGUSR1 reaches
/// the ranks through mpirun, which would end them for SIGINT.
int start_mpi(int ranks, std::vector<std::string> program) {
  if (!is_on_path("mpirun"))
    throw InputError("--local", "mpirun is not on the PATH",
                     "needed: Open MPI (Debian: openmpi-bin), or start the ranks yourself: srun --mpi=pmix");
  std::vector<std::string> command{"mpirun", "--quiet", "--oversubscribe", "-n", std::to_string(ranks)};
  command.insert(command.end(), program.begin(), program.end());
  CommandRun run{.command = std::move(command)};
  if (geteuid() == 0)
    run.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  run.interrupt_signal = SIGUSR1;
  return run_command(run);
}

}  // namespace

BackendChoice choose_backend(const Options& options) {
  if (options.backend == BackendChoice::nccl)
    throw InputError("--backend", "nccl: this zplan-bench was built without NCCL's and CUDA's headers",
                     "accepted: mpi, or another build (docs/building.md)");
  if (!kHasMpi)
    throw InputError("--backend", "mpi: this zplan-bench was built without MPI",
                     "accepted: nccl, or another build (docs/building.md)");
  return BackendChoice::mpi;
}

int start_ranks(const Options& options, BackendChoice, const std::vector<std::string>& arguments) {
  std::vector<std::string> program{this_program()};
  program.insert(program.end(), arguments.begin(), arguments.end());
  return start_mpi(options.local.value_or(ranks_by_default()), std::move(program));
}

std::unique_ptr<Backend> make_backend(const Options&, BackendChoice, const Place&) {
  return make_mpi_backend();
}

}  // namespace zplan::bench
