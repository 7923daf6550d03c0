#include "planner/check/readers/nccl_log.h"

#include <fmt/format.h>

#include <array>

#include "hardware_profiles/cluster.h"

namespace zplan::check {

namespace {

struct Program {
  std::string_view name;
  Operation operation;
};
/// Programs of nccl-tests; alltoall and sendrecv are written as one word there.
constexpr std::array kPrograms{
    Program{"all_reduce_perf", Operation::all_reduce},
    Program{"all_gather_perf", Operation::all_gather},
    Program{"reduce_scatter_perf", Operation::reduce_scatter},
    Program{"broadcast_perf", Operation::broadcast},
    Program{"alltoall_perf", Operation::all_to_all},
    Program{"sendrecv_perf", Operation::send_recv},
    Program{"reduce_perf", Operation::reduce},
};

ClusterRequest machines_of(const NcclLog& log, const std::string& place, const Given& given) {
  ClusterRequest machines = given.machines;
  const auto hosts = std::max<std::int64_t>(1, static_cast<std::int64_t>(log.hosts.size()));
  machines.gpus = log.ranks, machines.nodes = hosts;
  if (machines.gpu.empty()) {
    const auto profile = profile_of_card(given.hardware, log.card);
    if (!profile)
      throw InputError(place, in_quotes(log.card) + " is a GPU without a profile",
                       "accepted: with --gpu, the profile to take for it");
    machines.gpu = *profile;
  }
  if (log.ranks % hosts != 0)
    throw InputError(place, fmt::format("{} ranks on {} hosts", log.ranks, hosts),
                     "accepted: as many on each");
  if (hosts == 1) machines.network.clear();
  return machines;
}

}  // namespace

std::optional<std::string> profile_of_card(const HardwareProfiles& hardware, const std::string& card) {
  for (std::string words = card; !words.empty();) {
    try {
      return find_gpu(hardware, words).name;
    } catch (const InputError&) {  // no GPU of this name: try it with a word less
    }
    const std::size_t blank = words.find_last_of(' ');
    words = blank == std::string::npos ? "" : words.substr(0, blank);
  }
  return std::nullopt;
}

std::string nccl_version(std::int64_t code) {
  if (code <= 0) return "";
  // Since 2.9 two digits are the minor version's.
  const std::int64_t major = code >= 10'000 ? code / 10'000 : code / 1000;
  const std::int64_t minor = code >= 10'000 ? code / 100 % 100 : code / 100 % 10;
  return fmt::format("NCCL {}.{}.{}", major, minor, code % 100);
}

std::optional<Operation> operation_of_program(std::string_view text) {
  for (const Program& program : kPrograms)
    if (text.find(program.name) != std::string_view::npos) return program.operation;
  return std::nullopt;
}

Case nccl_case(const NcclLog& log, const std::string& place, const Given& given) {
  if (log.ranks < 2) throw InputError(place, fmt::format("{} ranks", log.ranks), "accepted: two or more");
  if (log.calls.empty()) throw InputError(place, "no measured sizes", "accepted: a whole log of nccl-tests");
  return {.id = std::string(to_name(log.operation)),
          .file = {},
          .kind = Kind::collectives,
          .measured =
              MeasuredCalls{assemble_cluster(machines_of(log, place, given), given.hardware), log.calls, {}},
          .setup = std::nullopt,
          .skip = {}};
}

}  // namespace zplan::check
