#pragma once
// The place of a process among its peers, as launchers give it: in environment variables.

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan::bench {

/// Who started this process. local: run_local() (harness/net/local_launcher.h).
enum class Launcher { none, local, torchrun, mpirun, slurm };

/// The place of one process among its peers.
struct Place {
  int rank{};
  int size{1};
  Launcher launcher{Launcher::none};
  std::string master_address{};  ///< of rank 0's host; empty: one process, or the launcher does not say
  int master_port{};             ///< that rank 0 listens at; 0: likewise
  int listen_fd{-1};             ///< a socket that listens there already, handed to rank 0; -1: none
  bool operator==(const Place&) const = default;
};

/// A variable's value; nothing where it is not set.
using Variables = std::function<std::optional<std::string>(std::string_view name)>;
/// The variables of this process.
[[nodiscard]] Variables process_variables();

/// The innermost launcher wins, since one may start another: zplan's own, torchrun (deepspeed and accelerate
/// set the same variables), mpirun, Slurm. A set of variables that is incomplete belongs to no launcher,
/// unless one of them makes the launcher certain. Throws InputError naming variable, value and what is
/// accepted where values are broken, contradict each other, or one is missing. Where torchrun's agent listens
/// at MASTER_PORT itself (TORCHELASTIC_USE_AGENT_STORE=True, its default), ranks meet at a port derived from
/// it. Sources: PyTorch torch/distributed/run.py (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
/// TORCHELASTIC_*); Open MPI mpirun(1) (OMPI_COMM_WORLD_*); MPICH's Hydra (PMI_RANK, PMI_SIZE,
/// MPI_LOCALNRANKS); Slurm srun(1) (SLURM_PROCID, SLURM_STEP_*).
[[nodiscard]] Place read_place(const Variables& variables);

/// First host of a Slurm node list: "gpu01" of "gpu[01-04,07],login1".
[[nodiscard]] std::string first_host(std::string_view node_list);

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
