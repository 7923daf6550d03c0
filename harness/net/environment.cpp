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
    int value = 0;
    const char* const end = given->data() + given->size();
    const auto [stop, error] = std::from_chars(given->data(), end, value);
    if (error != std::errc() || stop != end || value < low || value > high)
      throw InputError(std::string(name), in_quotes(*given), accepted(low, high));
    return value;
  }

  [[nodiscard]] int needed(std::string_view name, int low, int high, std::string_view because) const {
    if (const auto value = number(name, low, high)) return *value;
    throw InputError(std::string(name), fmt::format("not set, but {}", because), accepted(low, high));
  }

 private:
  [[nodiscard]] static std::string accepted(int low, int high) {
    return fmt::format("accepted: a whole number from {} to {}", low, high);
  }
  const Variables& variables_;
};

/// Rank and size by the names that the launcher gives them; `certain` says why they have to be there.
Place place_of(const Reader& read, std::string_view rank, std::string_view size, Launcher launcher,
               std::string_view certain) {
  Place place{.rank = read.needed(rank, 0, kMostRanks, certain),
              .size = read.needed(size, 1, kMostRanks, certain),
              .launcher = launcher};
  if (place.rank >= place.size)
    throw InputError(std::string(rank), fmt::format("{} with {}={}", place.rank, size, place.size),
                     fmt::format("accepted: 0 to {}", place.size - 1));
  return place;
}

std::optional<int> port(const Reader& read) { return read.number("MASTER_PORT", 1, 65535); }

/// A port beside one that is taken, the same for all ranks: below those that systems give out by themselves
/// (Linux: from 32768 on), and another for every job with a port of its own.
int port_beside(int taken) { return (taken / 10000 == 1 ? 20000 : 10000) + taken % 10000; }

std::optional<Place> torchrun(const Reader& read) {
  const bool local = read.text("ZPLAN_LAUNCHED") == "local", elastic = read.has("TORCHELASTIC_RUN_ID");
  if (!local && !elastic && !(read.has("RANK") && read.has("WORLD_SIZE"))) return std::nullopt;
  Place place = place_of(read, "RANK", "WORLD_SIZE", local ? Launcher::local : Launcher::torchrun,
                         local ? "ZPLAN_LAUNCHED=local is" : "TORCHELASTIC_RUN_ID is");
  const auto address = read.text("MASTER_ADDR");
  const std::string because = fmt::format("WORLD_SIZE={} is", place.size);
  if (!address && place.size > 1)
    throw InputError("MASTER_ADDR", "not set, but " + because,
                     "accepted: name or address of the host of rank 0");
  place.master_address = address.value_or("");
  place.master_port = place.size > 1 ? read.needed("MASTER_PORT", 1, 65535, because) : port(read).value_or(0);
  // torchrun's agent may keep a store of its own at MASTER_PORT, for workers to be clients of.
  if (!local && place.master_port > 0 && read.text("TORCHELASTIC_USE_AGENT_STORE") == "True")
    place.master_port = port_beside(place.master_port);
  if (local && place.rank == 0) place.listen_fd = read.number("ZPLAN_LISTEN_FD", 3, kMostRanks).value_or(-1);
  return place;
}

/// mpirun gives no address: the user may set it, and on one host it is known.
Place mpirun(const Reader& read, std::string_view rank, std::string_view size, std::string_view local_size) {
  Place place =
      place_of(read, rank, size, Launcher::mpirun, fmt::format("{} is", read.has(rank) ? rank : size));
  const auto address = read.text("MASTER_ADDR");
  const bool one_host = place.size > 1 && read.number(local_size, 1, kMostRanks) == place.size;
  place.master_address = address.value_or(one_host ? "127.0.0.1" : "");
  if (!place.master_address.empty()) place.master_port = port(read).value_or(kUsualPort);
  return place;
}

/// Of a job without a port of its own: from its number, below the ports that systems give out by themselves
/// (Linux: from 32768 on), so that jobs beside each other on a node differ.
int slurm_port(const Reader& read) {
  if (const auto given = port(read)) return *given;
  return 10000 + std::atoi(read.text("SLURM_JOB_ID").value_or("0").c_str()) % 20000;
}

/// In a batch script SLURM_PROCID and SLURM_NTASKS are set too, though no srun started it: only a step has a
/// number.
std::optional<Place> slurm(const Reader& read) {
  const bool step = read.has("SLURM_STEP_ID") || read.has("SLURM_STEPID");
  if (!step || !read.has("SLURM_PROCID")) return std::nullopt;
  Place place = place_of(read, "SLURM_PROCID",
                         read.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                         Launcher::slurm, "SLURM_PROCID is");
  if (place.size == 1) return place;
  auto hosts = read.text("SLURM_STEP_NODELIST");
  if (!hosts) hosts = read.text("SLURM_JOB_NODELIST");
  place.master_address = read.text("MASTER_ADDR").value_or(hosts ? first_host(*hosts) : "");
  if (place.master_address.empty())
    throw InputError("SLURM_STEP_NODELIST", "not set, but SLURM_PROCID is",
                     "accepted: the step's hosts, or MASTER_ADDR");
  place.master_port = slurm_port(read);
  return place;
}

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
  if (read.has("OMPI_COMM_WORLD_RANK") || read.has("OMPI_COMM_WORLD_SIZE"))
    return mpirun(read, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE");
  const auto step = slurm(read);
  if (!read.has("PMI_RANK") || !read.has("PMI_SIZE")) return step.value_or(Place{});
  // srun can serve PMI as well: where both say the same, Slurm knows the address.
  const Place place = mpirun(read, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS");
  return step && step->rank == place.rank && step->size == place.size ? *step : place;
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

}  // namespace zplan::bench
