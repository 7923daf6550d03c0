#include "harness/net/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "models/base/error.h"

namespace zplan::bench {

namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kUsualPort = 29500;  // torchrun's

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Variables as numbers, with errors that name them.
class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  [[nodiscard]] std::optional<std::string> text(std::string_view name) const {
    auto value = variables_(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  [[nodiscard]] bool has(std::string_view name) const { return text(name).has_value(); }

  [[nodiscard]] std::optional<int> number(std::string_view name, int low, int high) const {
    const auto given = text(name);
    if (!given) return std::nullopt;
    const auto value = whole_number(*given);
    if (!value || *value < low || *value > high)
      throw InputError(std::string(name), in_quotes(*given),
                       fmt::format("accepted: a whole number from {} to {}", low, high));
    return value;
  }

  [[nodiscard]] int needed(std::string_view name, int low, int high, std::string_view because) const {
    if (const auto value = number(name, low, high)) return *value;
    throw InputError(std::string(name), fmt::format("not set, but {}", because),
                     fmt::format("accepted: a whole number from {} to {}", low, high));
  }

 private:
  const Variables& variables_;
};

void check_below(int value, std::string_view name, int limit, std::string_view limit_name) {
  if (value >= limit)
    throw InputError(std::string(name), fmt::format("{} with {}={}", value, limit_name, limit),
                     fmt::format("accepted: 0 to {}", limit - 1));
}

/// Names of the four numbers, which every launcher has.
struct Names {
  std::string_view rank, size, local_rank, local_size;
};

/// The numbers by those names; `certain` says why they have to be there.
Place numbers(const Reader& read, const Names& names, Launcher launcher, std::string_view certain) {
  Place place{.launcher = launcher};
  place.rank = read.needed(names.rank, 0, kMostRanks, certain);
  place.size = read.needed(names.size, 1, kMostRanks, certain);
  check_below(place.rank, names.rank, place.size, names.size);
  place.local_rank = read.number(names.local_rank, 0, kMostRanks).value_or(place.size == 1 ? 0 : -1);
  place.local_size = read.number(names.local_size, 1, kMostRanks).value_or(place.size == 1 ? 1 : 0);
  if (place.local_size > 0)
    check_below(place.local_rank, names.local_rank, place.local_size, names.local_size);
  if (place.local_size > place.size)
    throw InputError(std::string(names.local_size),
                     fmt::format("{} with {}={}", place.local_size, names.size, place.size),
                     fmt::format("accepted: 1 to {}", place.size));
  return place;
}

std::optional<int> port(const Reader& read) { return read.number("MASTER_PORT", 1, 65535); }

Place with_needed_master(Place place, const Reader& read) {
  const auto address = read.text("MASTER_ADDR");
  if (!address && place.size > 1)
    throw InputError("MASTER_ADDR", fmt::format("not set, but WORLD_SIZE={} is", place.size),
                     "accepted: name or address of the host of rank 0");
  if (place.size > 1) (void)read.needed("MASTER_PORT", 1, 65535, fmt::format("WORLD_SIZE={} is", place.size));
  place.master_address = address.value_or("");
  place.master_port = port(read).value_or(0);
  return place;
}

/// A port beside one that is taken, the same for all ranks: below those that systems give out by themselves
/// (Linux: from 32768 on), and another for every job with a port of its own.
int port_beside(int taken) { return (taken / 10000 == 1 ? 20000 : 10000) + taken % 10000; }

/// torchrun's agent may keep a store of its own at MASTER_PORT, for workers to be clients of.
bool agent_has_the_port(const Reader& read) { return read.text("TORCHELASTIC_USE_AGENT_STORE") == "True"; }

std::optional<Place> torchrun(const Reader& read) {
  const bool local = read.text("ZPLAN_LAUNCHED") == "local", elastic = read.has("TORCHELASTIC_RUN_ID");
  if (!local && !elastic && !(read.has("RANK") && read.has("WORLD_SIZE"))) return std::nullopt;
  const std::string_view certain = local     ? "ZPLAN_LAUNCHED=local is"
                                   : elastic ? "TORCHELASTIC_RUN_ID is"
                                             : "the others of RANK and WORLD_SIZE are";
  Place place = with_needed_master(numbers(read, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                                           local ? Launcher::local : Launcher::torchrun, certain),
                                   read);
  if (!local && place.master_port > 0 && agent_has_the_port(read))
    place.master_port = port_beside(place.master_port);
  if (local && place.rank == 0) place.listen_fd = read.number("ZPLAN_LISTEN_FD", 3, kMostRanks).value_or(-1);
  return place;
}

/// mpirun tells no address: it may be given, and on one host it is known.
Place with_master_if_any(Place place, const Reader& read) {
  const auto address = read.text("MASTER_ADDR");
  if (place.size == 1 && !address) return place;
  const bool one_host = place.local_size == place.size;
  place.master_address = address.value_or(one_host ? "127.0.0.1" : "");
  if (!place.master_address.empty()) place.master_port = port(read).value_or(kUsualPort);
  return place;
}

std::optional<Place> open_mpi(const Reader& read) {
  const bool rank = read.has("OMPI_COMM_WORLD_RANK"), size = read.has("OMPI_COMM_WORLD_SIZE");
  if (!rank && !size) return std::nullopt;
  return with_master_if_any(
      numbers(read,
              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
               "OMPI_COMM_WORLD_LOCAL_SIZE"},
              Launcher::mpirun, rank ? "OMPI_COMM_WORLD_RANK is" : "OMPI_COMM_WORLD_SIZE is"),
      read);
}

std::optional<Place> hydra(const Reader& read) {
  if (!read.has("PMI_RANK") || !read.has("PMI_SIZE")) return std::nullopt;
  return with_master_if_any(numbers(read, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                    Launcher::mpirun, "PMI_RANK is"),
                            read);
}

/// Of a job without a port of its own: from its number, below the ports that systems give out by themselves
/// (Linux: from 32768 on), so that jobs beside each other on a node differ.
int slurm_port(const Reader& read) {
  if (const auto given = port(read)) return *given;
  const auto job = read.text("SLURM_JOB_ID");
  return 10000 + (job ? whole_number(*job).value_or(0) : 0) % 20000;
}

/// In a batch script SLURM_PROCID and SLURM_NTASKS are set too, though no srun started it: a step has more.
std::optional<Place> slurm(const Reader& read) {
  const bool step = read.has("SLURM_STEP_ID") || read.has("SLURM_STEPID") ||
                    read.has("SLURM_STEP_NODELIST") || read.has("SLURM_STEP_NUM_TASKS") ||
                    read.has("SLURM_STEP_TASKS_PER_NODE");
  if (!step || !(read.has("SLURM_PROCID"))) return std::nullopt;
  const std::string_view size = read.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Place place =
      numbers(read, {"SLURM_PROCID", size, "SLURM_LOCALID", ""}, Launcher::slurm, "SLURM_PROCID is");
  if (place.size == 1) return place;
  auto hosts = read.text("SLURM_STEP_NODELIST");
  if (!hosts) hosts = read.text("SLURM_JOB_NODELIST");
  place.master_address = read.text("MASTER_ADDR").value_or(hosts ? first_host(*hosts) : "");
  if (place.master_address.empty())
    throw InputError("SLURM_STEP_NODELIST", "not set, but SLURM_PROCID is",
                     "accepted: the step's hosts, or MASTER_ADDR");
  place.master_port = slurm_port(read);
  const auto tasks = read.text("SLURM_STEP_TASKS_PER_NODE");
  const auto node = read.number("SLURM_NODEID", 0, kMostRanks);
  if (tasks && node) place.local_size = tasks_on_node(*tasks, *node).value_or(0);
  if (place.local_size > 0)
    check_below(place.local_rank, "SLURM_LOCALID", place.local_size,
                "tasks of this node in SLURM_STEP_TASKS_PER_NODE");
  return place;
}

/// srun can serve PMI as well; where both say the same, Slurm knows the address.
bool same_place(const Place& a, const Place& b) { return a.rank == b.rank && a.size == b.size; }

}  // namespace

Variables process_variables() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Place read_place(const Variables& variables) {
  const Reader read(variables);
  if (const auto place = torchrun(read)) return *place;
  if (const auto place = open_mpi(read)) return *place;
  if (const auto place = hydra(read)) {
    const auto step = slurm(read);
    return step && same_place(*step, *place) ? *step : *place;
  }
  return slurm(read).value_or(Place{});
}

std::string first_host(std::string_view node_list) {
  std::string host;
  for (std::size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      host += node_list[i];
      continue;
    }
    const std::size_t close = std::min(node_list.find(']', i), node_list.size());
    const std::string_view ranges = node_list.substr(i + 1, close - i - 1);
    host += ranges.substr(0, ranges.find_first_of(",-"));
    i = close;
  }
  return host;
}

std::optional<int> tasks_on_node(std::string_view tasks_per_node, int node) {
  while (!tasks_per_node.empty()) {
    const std::size_t comma = std::min(tasks_per_node.find(','), tasks_per_node.size());
    const std::string_view entry = tasks_per_node.substr(0, comma);
    const std::size_t times_at = std::min(entry.find("(x"), entry.size());
    const auto tasks = whole_number(entry.substr(0, times_at));
    const bool repeated = times_at < entry.size() && entry.ends_with(')');
    const auto times = repeated ? whole_number(entry.substr(times_at + 2, entry.size() - times_at - 3))
                                : std::optional<int>(times_at == entry.size() ? 1 : 0);
    if (!tasks || !times || *tasks < 1 || *times < 1) return std::nullopt;
    if (node < *times) return tasks;
    node -= *times;
    tasks_per_node.remove_prefix(std::min(comma + 1, tasks_per_node.size()));
  }
  return std::nullopt;
}

}  // namespace zplan::bench
