// zplan-bench: reads the options, chooses the backend, starts or connects the ranks, and catches all errors.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "hardware_profiles/profiles.h"
#include "harness/backend.h"
#include "harness/control.h"
#include "harness/machine/host.h"
#include "harness/machine/storage.h"
#include "harness/machine/system_files.h"
#include "harness/net/controls.h"
#include "harness/net/environment.h"
#include "harness/net/local_launcher.h"
#include "harness/options.h"
#include "harness/recorder.h"
#include "harness/run.h"
#include "harness/watchdog.h"
#include "models/base/error.h"
#include "models/base/files.h"
#include "models/base/format.h"
#include "models/base/version.h"

#ifdef ZPLAN_HAS_MPI
#include "harness/mpi/mpi_backend.h"
#endif
#ifdef ZPLAN_HAS_NCCL
#include "harness/nccl/device_measurements.h"
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

/// Returns the number of cores, at least 2: one rank alone sends nothing.
int ranks_by_default() { return std::max(2, static_cast<int>(std::thread::hardware_concurrency())); }

bool is_on_path(const std::string& program) {
  const char* value = std::getenv("PATH");
  for (const std::string_view folder : split(value == nullptr ? "" : value, ':'))
    if (access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
  return false;
}

/// Allows more ranks than cores, and root, who is the only user of many containers. mpirun prints a report if
/// a rank's status is not 0, so rank 0 leaves its status in a file.
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
  // Ranks of one machine need no network: without this each listens on every interface. mpirun itself
  // does so under every setting (Open MPI 4.1).
  (void)setenv("OMPI_MCA_btl", "^tcp", 0);
  int status = run_mpirun(command);
  if (status == kDone) std::ifstream(left_by_rank_0.path()) >> status;
  return status;
}

int start_nccl(const Options& options, const std::vector<std::string>& program) {
  check_nccl();
  return run_local(options.local.value_or(usable_gpus()), program);
}

/// Connects the ranks through memory if this program started them, through MPI if mpirun did, else through
/// files.
std::unique_ptr<Control> make_control(const Options& options, const Place& place) {
  if (place.memory >= 0)
    return std::make_unique<MemoryControl>(std::make_shared<SharedMemory>(place.memory, place.size),
                                           place.rank, options.timeout);
  if (place.launcher == Launcher::mpirun && kHasMpi) return make_mpi_control();
  return std::make_unique<FileControl>(place, meeting_folder(place, options.meet), options.timeout);
}

/// Only mpirun and srun start ranks that MPI can connect.
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

/// Resolves --backend: auto is NCCL if this build supports it and there is a usable GPU, else MPI. Throws
/// InputError if this build lacks the requested one.
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

/// Starts ranks on this machine, MPI's through mpirun, NCCL's directly, and waits for them. Returns the exit
/// status. Throws InputError, which names what is missing.
int start_ranks(const Options& options, BackendChoice choice, const std::vector<std::string>& arguments) {
  std::vector<std::string> program{this_program()};
  program.insert(program.end(), arguments.begin(), arguments.end());
  if (choice == BackendChoice::nccl) return start_nccl(options, program);
  return start_mpi(options.local.value_or(ranks_by_default()), program);
}

/// Makes this rank's backend. Throws InputError if its launcher cannot start ranks of the backend.
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

/// Returns the exit status of a rank that ended with `status`. If ZPLAN_BENCH_STATUS names a file, writes the
/// status there and returns 0 instead.
int leave_status(int status) {
  const char* path = std::getenv(kStatusFile);
  if (path == nullptr || status == kDone) return status;
  std::ofstream(path) << status << std::flush;
  return kDone;
}

void record_storage(const Options& options, Recorder& recorder) {
  for (const StorageResult& each : measure_storage(options.storage)) {
    recorder.add("storage", storage_json(each));
    if (!each.note.empty()) recorder.add("notes", each.note);
  }
}

#ifdef ZPLAN_HAS_NCCL
Json copy_json(const CopyTimes& copy) {
  const TimeStatistics seconds = statistics_of(copy.samples);
  return {{"direction", std::string(to_name(copy.direction))},
          {"memory", std::string(to_name(copy.memory))},
          {"rank", 0},
          {"bytes", copy.bytes.value},
          {"seconds", statistics_json(seconds)},
          {"bytes_per_second", static_cast<double>(copy.bytes.value) / seconds.median.value}};
}

Json product_json(const ProductTimes& times) {
  const Product& p = times.product;
  const TimeStatistics seconds = statistics_of(times.samples);
  const double operations =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return {{"kind", "matrix_product"},
          {"dtype", std::string(to_name(p.type))},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"seconds", statistics_json(seconds)},
          {"flops_per_second", operations / seconds.median.value}};
}

Json memory_json(const MemoryTimes& memory) {
  const TimeStatistics seconds = statistics_of(memory.samples);
  return {{"kind", "memory"},
          {"bytes", memory.bytes.value},
          {"seconds", statistics_json(seconds)},
          {"bytes_per_second", static_cast<double>(memory.bytes.value) / seconds.median.value}};
}

/// Runs on rank 0 alone, which is the first of its host and has the first GPU.
void record_device(const Options& options, Recorder& recorder) {
  const DeviceTimes found = measure_device({.timeout = options.timeout});
  for (const CopyTimes& each : found.copies) recorder.add("copies", copy_json(each));
  for (const ProductTimes& each : found.products) recorder.add("compute", product_json(each));
  for (const MemoryTimes& each : found.memory) recorder.add("compute", memory_json(each));
  for (const std::string& each : found.notes) recorder.add("notes", each);
}
#endif

std::string gpu_line(const GpuDevice& gpu) {
  return fmt::format("  GPU {}  {}, {}, compute capability {}, PCIe {} x{} at {}\n", gpu.index, gpu.name,
                     format_bytes(gpu.memory), gpu.compute_capability, gpu.pcie_generation, gpu.pcie_lanes,
                     gpu.pci);
}

std::string link_line(const GpuLink& link) {
  std::string how(to_name(link.kind));
  if (link.lanes > 0) how += fmt::format(" x{}", link.lanes);
  if (link.switched) how += " through a switch";
  if (link.peer_to_peer) how += *link.peer_to_peer ? ", peer to peer" : ", no peer to peer";
  return fmt::format("  GPU {} to {}  {}\n", link.from, link.to, how);
}

std::string nic_line(const Nic& nic) {
  return fmt::format("  NIC {}  {}\n", nic.name,
                     nic.rate ? format_rate(*nic.rate) : std::string("rate unknown"));
}

/// Returns what this build can measure of the machine besides collectives.
Machine machine_of(const Options& options, BackendChoice choice) {
  Machine machine;
  machine.host = [] { return host_json(read_host()); };
  machine.sent = [] { return sent_bytes("/"); };
  machine.storage = [&options](Recorder& recorder) { record_storage(options, recorder); };
#ifdef ZPLAN_HAS_NCCL
  if (choice == BackendChoice::nccl)
    machine.device = [&options](Recorder& recorder) { record_device(options, recorder); };
#else
  (void)choice;
#endif
  return machine;
}

/// Describes this host, its links and the options of zplan for it, as text or as JSON.
std::string topology_text(bool json) {
  const Host host = read_host();
  const ClusterOptions options = cluster_options(host, built_in_profiles());
  if (json) {
    const Json document = {
        {"schema", "zplan.topology/1"}, {"hosts", {host_json(host)}}, {"options", options.words}};
    return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string out =
      fmt::format("{}: {}, {} cores, {}\n", host.name, host.processor, host.cores, format_bytes(host.memory));
  for (const GpuDevice& each : host.gpus) out += gpu_line(each);
  for (const GpuLink& each : host.links) out += link_line(each);
  for (const Nic& each : host.nics) out += nic_line(each);
  if (!options.words.empty()) out += "\nfor zplan: " + command_line(options) + "\n";
  for (const std::string& each : host.notes) out += "  - " + each + "\n";
  for (const std::string& each : options.notes) out += "  - " + each + "\n";
  return out;
}

int fail(const std::string& what, int status) {
  std::fprintf(stderr, "zplan: %s\n", what.c_str());
  std::fflush(stderr);
  return status;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? kDone : fail("stdout cannot be written", kBadInput);
}

int measure(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  if (options.help) return print(help_text());
  if (options.version) return print("zplan-bench " + std::string(version()) + "\n");
  if (options.topology) return print(topology_text(options.json));
  const Place place = read_place(process_variables());
  const BackendChoice choice = choose_backend(options);
  if (place.launcher == Launcher::none) return start_ranks(options, choice, arguments);
  const StopSignals signals;
  const std::unique_ptr<Backend> backend = make_backend(options, choice, place);
  return leave_status(run(options, arguments, *backend, machine_of(options, choice)));
}

/// Keeps hwloc, which MPI uses, too, from warning on stderr in every process on hosts that it cannot read,
/// such as those without /sys. The host's notes list what is missing. Child processes inherit the variable.
void silence_hwloc() { setenv("HWLOC_HIDE_ERRORS", "2", 0); }

}  // namespace

}  // namespace zplan::bench

int main(int count, char** values) {
  using namespace zplan;
  using namespace zplan::bench;
  silence_hwloc();
  try {
    return measure({values + (count > 0 ? 1 : 0), values + count});
  } catch (const InputError& error) {
    return fail(error.what(), kBadInput);
  } catch (const ReportedByAnother&) {
    return kFailed;
  } catch (const BenchError& error) {
    return fail("bench: " + printable(error.what()), kFailed);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", kFailed);
  } catch (const std::exception& error) {
    return fail(std::string("internal error: ") + error.what(), kBadInput);
  }
}
