#pragma once
// A process's place among the ranks of a run, from the environment variables that launchers set.

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan::bench {

/// Programs that start ranks. local: run_local() (harness/net/local_launcher.h).
enum class Launcher { none, local, torchrun, mpirun, slurm };

/// The place of one process among the ranks of its run.
struct Place {
  int rank{};
  int size{1};
  Launcher launcher{Launcher::none};
  bool one_host{};    ///< true if the launcher says that all ranks run on this host
  std::string run{};  ///< tells runs apart that meet in one folder: "123456.0" of a Slurm step; a file's name
  int memory{-1};     ///< descriptor of the memory that ranks of the local launcher share; -1: none
  bool operator==(const Place&) const = default;
};

/// Returns a variable's value, or nothing if it is not set.
using Variables = std::function<std::optional<std::string>(std::string_view name)>;
/// Returns the variables of this process.
[[nodiscard]] Variables process_variables();

/// Reads the place from the variables of the innermost launcher, since one may start another: zplan's own,
/// torchrun (deepspeed and accelerate set the same variables), mpirun, Slurm. An incomplete set of variables
/// belongs to no launcher, unless one of them makes the launcher certain. Throws InputError, which names
/// variable, value and what is accepted, if values are broken, contradict each other, or one is missing.
/// Sources: PyTorch torch/distributed/run.py (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
/// TORCHELASTIC_RUN_ID); Open MPI mpirun(1) (OMPI_COMM_WORLD_*, PMIX_NAMESPACE); MPICH's Hydra (PMI_RANK,
/// PMI_SIZE, MPI_LOCALNRANKS); Slurm srun(1) (SLURM_PROCID, SLURM_JOB_ID, SLURM_STEP_*).
[[nodiscard]] Place read_place(const Variables& variables);

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::Launcher> {
  static constexpr std::array<std::pair<bench::Launcher, std::string_view>, 5> table{
      {{bench::Launcher::none, "none"},
       {bench::Launcher::local, "local"},
       {bench::Launcher::torchrun, "torchrun"},
       {bench::Launcher::mpirun, "mpirun"},
       {bench::Launcher::slurm, "slurm"}}};
};

}  // namespace zplan
