#include "harness/net/environment.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "models/base/error.h"

namespace zplan::bench {

namespace {

constexpr int kMostRanks = 1 << 20;

/// Reads variables as text or numbers, with errors that name them.
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

/// Reads rank and size under the launcher's names for them. `certain` says why they have to be set.
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

/// Returns the values of `names` that are set as one file name, "none" if there is none.
std::string run_name(const Reader& read, std::initializer_list<std::string_view> names) {
  constexpr std::size_t kLongest = 100;
  std::string run;
  for (const std::string_view name : names)
    if (const auto value = read.text(name)) run += (run.empty() ? "" : ".") + *value;
  for (char& each : run)
    if (std::isalnum(static_cast<unsigned char>(each)) == 0 && each != '.' && each != '-') each = '_';
  return run.empty() ? "none" : run.substr(0, kLongest);
}

bool all_local(const Reader& read, std::string_view local_size, const Place& place) {
  return read.number(local_size, 1, kMostRanks) == place.size;
}

std::optional<Place> torchrun(const Reader& read) {
  const auto memory = read.number("ZPLAN_SHARED_MEMORY", 3, kMostRanks);
  const bool elastic = read.has("TORCHELASTIC_RUN_ID");
  if (!memory && !elastic && !(read.has("RANK") && read.has("WORLD_SIZE"))) return std::nullopt;
  Place place = place_of(read, "RANK", "WORLD_SIZE", memory ? Launcher::local : Launcher::torchrun,
                         memory ? "ZPLAN_SHARED_MEMORY is" : "TORCHELASTIC_RUN_ID is");
  place.one_host = all_local(read, "LOCAL_WORLD_SIZE", place);
  place.run = run_name(read, {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"});
  place.memory = memory.value_or(-1);
  return place;
}

Place mpirun(const Reader& read, std::string_view rank, std::string_view size, std::string_view local_size) {
  Place place =
      place_of(read, rank, size, Launcher::mpirun, fmt::format("{} is", read.has(rank) ? rank : size));
  place.one_host = all_local(read, local_size, place);
  place.run = run_name(read, {"PMIX_NAMESPACE", "MASTER_ADDR", "MASTER_PORT"});
  return place;
}

/// Only a step that srun started has a number: in a batch script SLURM_PROCID and SLURM_NTASKS are set, too.
std::optional<Place> slurm(const Reader& read) {
  const std::string_view step = read.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  if (!read.has(step) || !read.has("SLURM_PROCID")) return std::nullopt;
  Place place = place_of(read, "SLURM_PROCID",
                         read.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                         Launcher::slurm, "SLURM_PROCID is");
  place.one_host = read.number("SLURM_STEP_NUM_NODES", 1, kMostRanks) == 1;
  place.run = run_name(read, {"SLURM_JOB_ID", step});
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
  // srun can serve PMI as well: if both say the same, Slurm names the run.
  const Place place = mpirun(read, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS");
  return step && step->rank == place.rank && step->size == place.size ? *step : place;
}

}  // namespace zplan::bench
