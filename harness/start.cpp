#include "harness/start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/error.h"
#include "harness/net/local_launcher.h"
#include "harness/net/tcp_control.h"
#include "harness/run.h"
#include "models/base/error.h"
#include "models/base/files.h"

#ifdef ZPLAN_HAS_MPI
#include "harness/mpi/mpi_backend.h"
#endif
#ifdef ZPLAN_HAS_NCCL
#include "harness/nccl/nccl_backend.h"
#endif

namespace zplan::bench {

namespace {

#ifdef ZPLAN_HAS_MPI
constexpr bool kHasMpi = true;
#else
constexpr bool kHasMpi = false;
std::unique_ptr<Backend> make_mpi_backend() { return nullptr; }
std::unique_ptr<Control> make_mpi_control() { return nullptr; }
#endif
#ifdef ZPLAN_HAS_NCCL
constexpr bool kHasNccl = true;
#else
constexpr bool kHasNccl = false;
struct NcclOptions {
  std::optional<int> device{};
  bool share_gpu{};
  Seconds timeout{};
};
std::unique_ptr<Backend> make_nccl_backend(std::unique_ptr<Control>, const NcclOptions&) { return nullptr; }
int usable_gpus() { return 0; }
void check_nccl() {}
#endif

constexpr const char* kStatusFile = "ZPLAN_BENCH_STATUS";

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

/// More ranks than cores are allowed, and root in a container, where there is no other user. Where ranks end
/// well, mpirun prints nothing; so rank 0 leaves its status in a file instead of ending badly.
int start_mpi(int ranks, const std::vector<std::string>& program) {
  if (!is_on_path("mpirun"))
    throw InputError("--local", "mpirun is not on the PATH",
                     "needed: Open MPI (Debian: openmpi-bin), or start the ranks yourself: srun --mpi=pmix");
  const TemporaryFile left_by_rank_0;
  std::vector<std::string> command{"mpirun", "--oversubscribe", "-n", std::to_string(ranks)};
  command.insert(command.end(), program.begin(), program.end());
  (void)setenv(kStatusFile, left_by_rank_0.path().c_str(), 1);
  if (geteuid() == 0)
    for (const char* each : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      (void)setenv(each, "1", 1);
  int status = run_mpirun(command);
  if (status == kDone) std::ifstream(left_by_rank_0.path()) >> status;
  return status;
}

/// Each rank gets what torchrun would give it.
int start_nccl(const Options& options, const std::vector<std::string>& program) {
  check_nccl();
  return run_local(options.local.value_or(usable_gpus()), program);
}

/// Through MPI where mpirun started this and no address is set, else over TCP.
std::unique_ptr<Control> make_control(const Options& options, Place place) {
  if (place.launcher == Launcher::mpirun && place.master_address.empty() && kHasMpi)
    return make_mpi_control();
  if (options.port != 0) place.master_port = options.port;
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout.value * 1e3));
  return std::make_unique<TcpControl>(place, timeout);
}

/// MPI's ranks are connected by what started them, and only mpirun and srun can do that.
void check_mpi_launcher(const Place& place) {
  if (place.launcher == Launcher::torchrun || place.launcher == Launcher::local)
    throw InputError("--backend", fmt::format("mpi under {}, which starts no MPI", to_name(place.launcher)),
                     "accepted: mpirun -n N zplan-bench …, srun --mpi=pmix, or --local N");
}

void check_mpi_size(Backend& backend, const Place& place) {
  if (backend.control().size() != place.size)
    throw InputError("--backend",
                     fmt::format("{} started {} ranks, and MPI knows of {}", to_name(place.launcher),
                                 place.size, backend.control().size()),
                     "needed: srun --mpi=pmix, or the mpirun of the MPI that this was built with");
}

}  // namespace

BackendChoice choose_backend(const Options& options) {
  const BackendChoice asked = options.backend;
  if (asked == BackendChoice::nccl && !kHasNccl)
    throw InputError("--backend", "nccl: this zplan-bench was built without the headers of NCCL and CUDA",
                     "accepted: mpi, or another build (docs/building.md)");
  if (asked != BackendChoice::mpi && kHasNccl &&
      (asked == BackendChoice::nccl || !kHasMpi || usable_gpus() > 0))
    return BackendChoice::nccl;
  if (!kHasMpi)
    throw InputError("--backend", "mpi: this zplan-bench was built without MPI",
                     "accepted: nccl, or another build (docs/building.md)");
  return BackendChoice::mpi;
}

int start_ranks(const Options& options, BackendChoice choice, const std::vector<std::string>& arguments) {
  std::vector<std::string> program{this_program()};
  program.insert(program.end(), arguments.begin(), arguments.end());
  if (choice == BackendChoice::nccl) return start_nccl(options, program);
  return start_mpi(options.local.value_or(ranks_by_default()), program);
}

std::unique_ptr<Backend> make_backend(const Options& options, BackendChoice choice, const Place& place) {
  if (choice == BackendChoice::nccl) {
    NcclOptions nccl;
    nccl.share_gpu = options.share_gpu, nccl.timeout = options.timeout;
    return make_nccl_backend(make_control(options, place), nccl);
  }
  check_mpi_launcher(place);
  std::unique_ptr<Backend> backend = make_mpi_backend();
  check_mpi_size(*backend, place);
  return backend;
}

int leave_status(int status) {
  const char* path = std::getenv(kStatusFile);
  if (path == nullptr || status == kDone) return status;
  std::ofstream(path) << status << std::flush;
  return kDone;
}

}  // namespace zplan::bench
