#include "planner/calibration/import_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "hardware_profiles/bench_result.h"
#include "hardware_profiles/cluster.h"
#include "models/base/format.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/nccl_log.h"

namespace zplan::check {

namespace {

/// Machines and curves of one file. Fabric and network of the curves are set later.
struct Measurement {
  std::string source;  ///< where its figures are from, in words
  std::string card;    ///< as CUDA names it; empty: no GPU, or not said
  std::vector<CollectiveCurve> curves{};
  std::optional<BytesPerSecond> copies{};  ///< of pinned memory, the slower direction
  std::optional<BenchResult> bench{};
};

struct Findings {
  std::vector<Measurement> measured;
  std::vector<std::string> notes;
};

std::string name_of_file(const Document& document) {
  return std::filesystem::path(document.source).filename().string();
}

/// Fit for one line of a profile: no control characters, cut where it is of no more use.
std::string one_line(std::string_view text) {
  constexpr std::size_t kMost = 400;
  const std::string quoted = in_quotes(text, kMost);
  return quoted.substr(1, quoted.size() - 2);
}

std::string curve_name(const CollectiveCurve& curve) {
  return fmt::format("{} of {} GPUs{}", to_name(curve.operation), curve.gpus,
                     curve.nodes > 1 ? fmt::format(" on {} nodes", curve.nodes) : "");
}

/// By ascending size; of one size that was measured twice the first, as readers of profiles take it.
void put_in_order(CollectiveCurve& curve) {
  std::stable_sort(curve.points.begin(), curve.points.end(),
                   [](const CollectivePoint& a, const CollectivePoint& b) { return a.bytes < b.bytes; });
  const auto same = [](const CollectivePoint& a, const CollectivePoint& b) { return a.bytes == b.bytes; };
  curve.points.erase(std::unique(curve.points.begin(), curve.points.end(), same), curve.points.end());
}

bool same_group(const CollectiveCurve& a, const CollectiveCurve& b) {
  return a.operation == b.operation && a.gpus == b.gpus && a.nodes == b.nodes;
}

bool has_group(const std::vector<CollectiveCurve>& curves, const CollectiveCurve& group) {
  return std::any_of(curves.begin(), curves.end(),
                     [&](const CollectiveCurve& each) { return same_group(each, group); });
}

void add_point(std::vector<CollectiveCurve>& curves, const CollectiveCurve& group,
               const CollectivePoint& point) {
  const auto known = std::find_if(curves.begin(), curves.end(),
                                  [&](const CollectiveCurve& each) { return same_group(each, group); });
  CollectiveCurve& curve = known == curves.end() ? curves.emplace_back(group) : *known;
  curve.points.push_back(point);
}

Measurement of_nccl_log(const NcclLog& log, const Document& document) {
  if (log.ranks < 2)
    throw InputError(document.source, fmt::format("{} ranks", log.ranks), "accepted: two or more");
  const auto nodes = std::max<std::int64_t>(1, static_cast<std::int64_t>(log.hosts.size()));
  if (log.ranks % nodes != 0)
    throw InputError(document.source, fmt::format("{} ranks on {} hosts", log.ranks, nodes),
                     "accepted: as many on each");
  Measurement measured{
      .source = one_line(fmt::format("nccl-tests log {}{}{}, {} x {} on {}", name_of_file(document),
                                     log.library.empty() ? "" : ", ", log.library, log.ranks, log.card,
                                     fmt::join(log.hosts, " "))),
      .card = log.card};
  for (const TimedCall& call : log.calls)
    add_point(measured.curves, {.operation = call.operation, .gpus = log.ranks, .nodes = nodes},
              {call.size, call.time});
  return measured;
}

std::string source_of(const BenchResult& result) {
  std::vector<std::string> hosts;
  for (const BenchHost& host : result.hosts) hosts.push_back(host.name);
  const auto with = [](const char* name, const std::string& version) {
    return version.empty() ? std::string() : fmt::format(", {} {}", name, version);
  };
  return one_line(fmt::format("zplan-bench {} at {}, {}{}{}, host {}: {}", result.zplan_version,
                              result.started, result.library, with("driver", result.driver),
                              with("CUDA", result.cuda), fmt::join(hosts, " "),
                              fmt::join(result.command, " ")));
}

/// True if a curve can be made of the entry's group; else the reason is noted once.
bool is_curve(const BenchCollective& each, bool share_gpu, std::set<std::string>& reasons) {
  const std::string group =
      fmt::format("{} of {} ranks ({})", to_name(each.operation), each.ranks, each.group);
  if (each.ranks < 2) return false;
  if (share_gpu)
    reasons.insert(fmt::format("{} is left out: ranks shared GPUs", group));
  else if (each.at_once > 1)
    reasons.insert(fmt::format("{} is left out: {} such groups ran at the same time", group, each.at_once));
  else if (each.ranks % each.nodes != 0)
    reasons.insert(fmt::format("{} is left out: {} nodes do not hold as many each", group, each.nodes));
  else
    return true;
  return false;
}

/// Returns the speed of the largest copies of pinned memory: the slowest one in the slower direction.
std::optional<BytesPerSecond> pinned_speed(const BenchResult& result) {
  std::optional<BytesPerSecond> slowest;
  for (const bool to_device : {true, false}) {
    Bytes largest{};
    for (const BenchCopy& copy : result.copies)
      if (copy.pinned && copy.to_device == to_device) largest = std::max(largest, copy.bytes);
    for (const BenchCopy& copy : result.copies)
      if (copy.pinned && copy.to_device == to_device && copy.bytes == largest)
        slowest = std::min(slowest.value_or(copy.speed), copy.speed);
  }
  return slowest;
}

Measurement of_bench(BenchResult result, const Document& document, std::vector<std::string>& notes) {
  if (!result.flaws.empty())
    throw InputError(document.source, result.flaws.front(),
                     "accepted: a result whose figures follow from each other");
  Measurement measured{
      .source = source_of(result), .card = card_of(result, document.source), .copies = pinned_speed(result)};
  std::set<std::string> reasons;
  std::vector<CollectiveCurve> in_place;
  for (const BenchCollective& each : result.collectives)
    if (is_curve(each, result.share_gpu, reasons))
      add_point(each.in_place ? in_place : measured.curves,
                {.operation = each.operation, .gpus = each.ranks, .nodes = each.nodes},
                {each.bytes, each.seconds.median});
  // MPI's broadcast, for one, has no other form.
  for (CollectiveCurve& curve : in_place)
    if (!has_group(measured.curves, curve)) measured.curves.push_back(std::move(curve));
  notes.insert(notes.end(), reasons.begin(), reasons.end());
  if (result.backend == BenchBackend::mpi && !result.collectives.empty())
    notes.push_back(
        fmt::format("{} timed MPI between the hosts' memory, not between GPUs", name_of_file(document)));
  if (!result.complete)
    notes.push_back(fmt::format("{} is not complete: {}", name_of_file(document), result.stopped));
  measured.bench = std::move(result);
  return measured;
}

Measurement measurement_of(const Document& document, std::vector<std::string>& notes) {
  const JsonReader json(document.json, document.source);
  switch (document.format.value_or(Format::published_memory)) {
    case Format::nccl_text: return of_nccl_log(nccl_log(document.text, document.source), document);
    case Format::nccl_json: return of_nccl_log(nccl_log(json), document);
    case Format::bench_result: return of_bench(read_bench_result(json), document, notes);
    default: break;
  }
  throw InputError(document.source, "no measurement of collectives",
                   "accepted: nccl-tests' text or JSON (-J), zplan-bench's result");
}

Findings findings_of(const std::vector<Document>& documents) {
  Findings found;
  for (const Document& document : documents) {
    Measurement measured = measurement_of(document, found.notes);
    if (!found.measured.empty() && found.measured.front().card != measured.card)
      throw InputError(document.source,
                       fmt::format("of {}, and {} before it", in_quotes(measured.card),
                                   in_quotes(found.measured.front().card)),
                       "accepted: measurements of one kind of GPU");
    found.measured.push_back(std::move(measured));
  }
  return found;
}

Gpu base_of(const ImportRequest& request, Findings& found) {
  const auto named = [&](const std::string& name) {
    ClusterRequest one;
    one.gpu = name;
    return assemble_cluster(one, request.hardware).gpu;  // with the curves of the GPU that it names as alike
  };
  if (!request.gpu.empty()) return named(request.gpu);
  const std::string card = found.measured.empty() ? "" : found.measured.front().card;
  if (const auto profile = profile_of_card(request.hardware, card)) return named(*profile);
  found.notes.push_back(card.empty()
                            ? "no GPU is named: memory and rates are the generic GPU's (--gpu)"
                            : fmt::format("{} has no profile: memory and rates are the generic GPU's (--gpu)",
                                          in_quotes(card)));
  return named("generic");
}

/// Returns the node type: the given one, the one that the links show, or the GPU's usual one.
const Node& node_of(const ImportRequest& request, const Gpu& base, const Findings& found) {
  if (!request.node.empty()) {
    const Node& node = find_node(request.hardware, request.node);
    if (has_nvlink(node.fabric) && base.nvlink == BytesPerSecond{})
      throw InputError("--node", fmt::format("{}, but {} has no NVLink", in_quotes(node.name), base.name),
                       "accepted: pcie, pcie-no-p2p");
    return node;
  }
  for (const Measurement& each : found.measured)
    if (each.bench) return find_node(request.hardware, node_seen(*each.bench, base, request.hardware));
  return find_node(request.hardware, base.usual_node);
}

bool gathers(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter;
}

/// True if a measured curve replaces another: same operation, and both within one node or both across nodes.
bool replaces(const CollectiveCurve& measured, const CollectiveCurve& old) {
  const bool alike =
      measured.operation == old.operation || (gathers(measured.operation) && gathers(old.operation));
  return alike && (measured.nodes == 1) == (old.nodes == 1);
}

/// Curves of this machine in front; of the GPU's those that nothing here replaces.
void put_curves(Gpu& gpu, std::vector<CollectiveCurve> measured) {
  std::vector<CollectiveCurve> kept;
  for (const CollectiveCurve& old : gpu.collectives)
    if (std::none_of(measured.begin(), measured.end(),
                     [&](const CollectiveCurve& each) { return replaces(each, old); }))
      kept.push_back(old);
  measured.insert(measured.end(), kept.begin(), kept.end());
  gpu.collectives = std::move(measured);
  gpu.collectives_as.clear();  // its curves are among those
}

std::vector<CollectiveCurve> curves_of(const Findings& found, const Node& node, const std::string& network,
                                       std::vector<std::string>& notes) {
  std::vector<CollectiveCurve> curves{};
  for (const Measurement& each : found.measured)
    for (CollectiveCurve curve : each.curves) {
      if (has_group(curves, curve))
        notes.push_back(fmt::format("{} is there twice: the first counts, the second beyond its sizes",
                                    curve_name(curve)));
      curve.fabric = node.fabric;
      if (curve.nodes > 1) curve.network = network;
      curve.source = each.source;
      put_in_order(curve);
      curve.fit = fit_curve(curve);
      for (const std::string& odd : odd_points(curve)) notes.push_back(odd);
      curves.push_back(std::move(curve));
    }
  return curves;
}

/// NCCL and large copies reach no more than the slot is rated at.
void put_copies(Gpu& gpu, const Findings& found, std::vector<std::string>& notes) {
  for (const Measurement& each : found.measured) {
    if (!each.copies) continue;
    gpu.pcie_effective = std::min(*each.copies, gpu.pcie);
    gpu.sources["pcie_effective_gb_per_s_per_direction"] =
        "copies of pinned memory, the slower direction: " + each.source;
    if (*each.copies > gpu.pcie)
      notes.push_back(
          fmt::format("copies reach {}, more than the {} that {} is rated at: the rated speed is taken",
                      format_rate(*each.copies), format_rate(gpu.pcie), gpu.name));
    return;
  }
}

void put_machines(Gpu& gpu, const Node& node, const ImportRequest& request, const Findings& found) {
  const std::string& source = found.measured.front().source;
  if (node.name != gpu.usual_node)
    gpu.usual_node = node.name, gpu.sources["usual_node"] = "the machine that was measured: " + source;
  if (!request.network.empty())
    gpu.usual_network = find_network(request.hardware, request.network).name,
    gpu.sources["usual_network"] = "the machines that were measured: " + source;
}

std::string share_of(double rate, double rated) {
  return fmt::format("{:.0f} % of the rated", 100 * rate / rated);
}

/// Notes measurements that a profile does not hold, or not in that form.
void note_the_rest(const BenchResult& result, const Gpu& base, std::vector<std::string>& notes) {
  for (const BenchCompute& each : result.compute) {
    if (!each.product)
      notes.push_back(
          fmt::format("memory was read and written at {}, {} {}: memory_efficiency stays, which is "
                      "of training",
                      format_rate(BytesPerSecond(each.rate)),
                      share_of(each.rate, base.memory_bandwidth.value), format_rate(base.memory_bandwidth)));
    else
      notes.push_back(
          fmt::format("a {} product of {} x {} x {} reached {:.4g} TFLOP/s: matrix_efficiency stays, "
                      "which is of training",
                      each.dtype, each.m, each.n, each.k, each.rate / 1e12));
  }
  for (const BenchStorage& each : result.storage)
    notes.push_back(fmt::format("{} {} at {}{}: a profile holds no storage", in_quotes(each.path),
                                each.reads ? "was read" : "was written", format_rate(each.speed),
                                each.direct ? "" : ", by way of the page cache"));
}

void check_name(const std::string& name) {
  if (!is_profile_name(name))
    throw InputError(
        "--name", in_quotes(name),
        "accepted: letters, digits, dots, dashes, underscores and blanks, a letter or digit in front");
}

}  // namespace

std::vector<std::string> odd_points(const CollectiveCurve& curve) {
  constexpr double kFalls = 10;
  std::vector<std::string> odd;
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    const CollectivePoint &small = curve.points[i - 1], &large = curve.points[i];
    if (small.seconds.value >= kFalls * large.seconds.value)
      odd.push_back(fmt::format("{}: {} B took {} and {} B {}", curve_name(curve), small.bytes.value,
                                format_seconds(small.seconds), large.bytes.value,
                                format_seconds(large.seconds)));
  }
  return odd;
}

ImportedProfile import_profile(const std::vector<Document>& documents, const ImportRequest& request) {
  Findings found = findings_of(documents);
  const std::string network =
      request.network.empty() ? "" : find_network(request.hardware, request.network).name;
  Gpu gpu = base_of(request, found);
  const Node& node = node_of(request, gpu, found);
  std::vector<CollectiveCurve> curves = curves_of(found, node, network, found.notes);
  const bool copies = std::any_of(found.measured.begin(), found.measured.end(),
                                  [](const Measurement& each) { return each.copies.has_value(); });
  if (curves.empty() && !copies)
    throw InputError(
        documents.front().source, "nothing that a profile holds",
        "accepted: collectives of a group that had the machines to itself, copies of pinned memory");
  put_copies(gpu, found, found.notes);
  for (const Measurement& each : found.measured)
    if (each.bench) note_the_rest(*each.bench, gpu, found.notes);
  put_curves(gpu, std::move(curves));
  put_machines(gpu, node, request, found);
  gpu.name = request.name.empty() ? gpu.name + "-measured" : request.name;
  gpu.aliases.clear();
  check_name(gpu.name);
  return {std::move(gpu), std::move(found.notes)};
}

}  // namespace zplan::check
