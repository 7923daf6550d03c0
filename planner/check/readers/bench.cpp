#include <fmt/format.h>

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "planner/check/judge.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/nccl_log.h"
#include "planner/check/readers/read.h"

namespace zplan::check {

namespace {

/// Machines by the command line, or else by the result. Without a GPU nothing can be predicted.
struct Machines {
  ClusterRequest request;
  Skip skip;
};

Machines machines_of(const BenchResult& result, const std::string& place, const Given& given) {
  Machines machines{given.machines, {}};
  if (!machines.request.gpu.empty()) return machines;
  // MPI moves the hosts' memory: their GPUs say nothing of it.
  const std::string card = result.backend == BenchBackend::mpi ? "" : card_of(result, place);
  const auto profile = card.empty() ? std::nullopt : profile_of_card(given.hardware, card);
  if (!profile) {
    machines.skip = {{"no profile of this machine: zplan hardware import"}, card};
    return machines;
  }
  machines.request.gpu = *profile;
  if (machines.request.node.empty())
    machines.request.node = node_seen(result, find_gpu(given.hardware, *profile), given.hardware);
  return machines;
}

/// A GPU each, over sockets.
Cluster hosts_of_one(std::int64_t ranks, ClusterRequest machines, const HardwareProfiles& hardware) {
  machines.gpus = ranks, machines.nodes = ranks;
  machines.node.clear();
  if (machines.network.empty()) machines.network = "tcp";
  return assemble_cluster(machines, hardware);
}

/// Groups are judged as a cluster of their own: one that has the machines to itself is one.
Cluster cluster_of(const BenchCollective& each, ClusterRequest machines, const HardwareProfiles& hardware) {
  machines.gpus = each.ranks, machines.nodes = each.nodes;
  if (each.nodes == 1) machines.network.clear();
  if (each.ranks == each.nodes) machines.node.clear();  // a GPU each: nothing is sent inside
  return assemble_cluster(machines, hardware);
}

std::string id_of(const BenchCollective& each) {
  return fmt::format("{} of {}{}{} {}{}", each.group, each.ranks,
                     each.stride > 1 ? fmt::format(" stride {}", each.stride) : "",
                     each.nodes > 1 ? fmt::format(" on {} nodes", each.nodes) : "", each.dtype,
                     each.in_place ? " in place" : "");
}

Skip skip_of(const BenchCollective& each, const Machines& machines, bool share_gpu) {
  if (each.at_once > 1)
    return {{"groups that ran at the same time"}, fmt::format("{} of them", each.at_once)};
  if (each.ranks < 2) return {{"groups of one"}, ""};
  if (each.ranks % each.nodes != 0) return {{"groups with more ranks on one node than on another"}, ""};
  if (share_gpu) return {{"ranks that share a GPU"}, ""};
  return machines.skip;
}

Case collective_case(const BenchCollective& each, const Machines& machines, bool share_gpu,
                     const Given& given) {
  Case made{.id = id_of(each), .kind = Kind::collectives, .skip = skip_of(each, machines, share_gpu)};
  MeasuredCalls calls{.calls = {{each.operation, each.bytes, each.seconds.median}}, .by_model = false};
  if (made.skip.any())
    made.id += fmt::format(" {} {} B", to_name(each.operation), each.bytes.value);
  else
    calls.cluster = cluster_of(each, machines.request, given.hardware);
  made.measured = std::move(calls);
  return made;
}

/// Returns the bytes that hosts sent to each other, if NCCL sent them for a group that had the hosts to
/// itself.
std::optional<Case> sent_case(const BenchResult& result, const BenchCollective& each,
                              const Machines& machines, const Given& given) {
  const std::int64_t hosts = result.share_gpu ? each.ranks : each.nodes;
  const bool judges = each.sent && result.backend == BenchBackend::nccl && each.bytes >= kLeastSent &&
                      each.at_once == 1 && hosts > 1 && each.ranks % hosts == 0;
  if (!judges) return std::nullopt;
  MeasuredSent sent{
      .operation = each.operation, .size = each.bytes, .calls = each.sent->calls, .sent = each.sent->bytes()};
  if (!machines.skip.any())
    sent.cluster = result.share_gpu ? hosts_of_one(each.ranks, machines.request, given.hardware)
                                    : cluster_of(each, machines.request, given.hardware);
  return Case{.id = fmt::format("{} {} {} B", id_of(each), to_name(each.operation), each.bytes.value),
              .kind = Kind::collectives,
              .measured = std::move(sent),
              .skip = machines.skip};
}

std::string name_of(const ReplayKind& kind) {
  return fmt::format("{}, {}, {} ranks{}, {}, {}, {}", kind.operation, kind.group, kind.group_size,
                     kind.stride > 1 ? fmt::format(" stride {}", kind.stride) : "", kind.phase, kind.dtype,
                     kind.purpose);
}

Case replay_case(const BenchReplay& replay) {
  MeasuredReplay measured{.measured = replay.seconds.median};
  if (replay.predicted_seconds) measured.planned = Seconds(*replay.predicted_seconds);
  for (const ReplayKind& each : replay.planned) measured.kinds.push_back({name_of(each), each, {}});
  for (const ReplayKind& each : replay.counted) {
    const auto planned =
        std::find_if(measured.kinds.begin(), measured.kinds.end(),
                     [&](const ReplayedKind& kind) { return kind.planned && kind.planned->same_kind(each); });
    if (planned == measured.kinds.end())
      measured.kinds.push_back({name_of(each), {}, each});
    else
      planned->counted = each;
  }
  return {.id = "replay", .kind = Kind::schedule, .measured = std::move(measured)};
}

/// Returns flaws and notes of the whole result.
Case result_case(const BenchResult& result) {
  Case whole{.id = "result", .kind = Kind::collectives, .measured = MeasuredCalls{}};
  whole.flaws = result.flaws;
  if (!result.complete)
    whole.notes.push_back(
        fmt::format("not complete: {}", result.stopped.empty() ? "stopped" : result.stopped));
  return whole;
}

}  // namespace

std::vector<Case> read_bench(const JsonReader& file, const Given& given) {
  const BenchResult result = read_bench_result(file);
  const Machines machines = machines_of(result, file.place(), given);
  std::vector<Case> cases{result_case(result)};
  for (const BenchCollective& each : result.collectives) {
    cases.push_back(collective_case(each, machines, result.share_gpu, given));
    if (auto sent = sent_case(result, each, machines, given)) cases.push_back(std::move(*sent));
  }
  if (result.replay) cases.push_back(replay_case(*result.replay));
  return cases;
}

}  // namespace zplan::check
