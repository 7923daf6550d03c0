#pragma once
// A result of the benchmark, zplan.bench/1 (cli/schema/bench.schema.json), as values.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hardware_profiles/link.h"
#include "hardware_profiles/operation.h"
#include "models/base/json_reader.h"
#include "models/base/quantity.h"

namespace zplan {

/// Statistics of samples. The quantile q of n samples in ascending order is at index (n−1)·q, interpolated
/// linearly.
struct TimeStatistics {
  Seconds median{}, p10{}, p90{}, lowest{}, highest{}, mean{};
  friend bool operator==(const TimeStatistics&, const TimeStatistics&) = default;
};
/// Computes the statistics of at least one sample, in any order.
[[nodiscard]] TimeStatistics statistics_of(std::vector<double> samples);

/// Connections of two GPUs of a host: NVLink, PCIe, or the host's memory.
enum class LinkKind { nvlink, pcie, host };
template <>
struct EnumNames<LinkKind> {
  static constexpr std::array<std::pair<LinkKind, std::string_view>, 3> table{
      {{LinkKind::nvlink, "nvlink"}, {LinkKind::pcie, "pcie"}, {LinkKind::host, "host"}}};
};

/// The library that moved the data.
enum class BenchBackend { mpi, nccl };
template <>
struct EnumNames<BenchBackend> {
  static constexpr std::array<std::pair<BenchBackend, std::string_view>, 2> table{
      {{BenchBackend::mpi, "mpi"}, {BenchBackend::nccl, "nccl"}}};
};

/// One machine that took part.
struct BenchHost {
  std::string name;
  std::vector<std::string> gpus;  ///< as CUDA names them
  std::vector<LinkKind> links;    ///< of every pair of them that is listed
};

/// Bytes that all hosts sent during the timed calls of an entry.
struct BenchSent {
  Bytes interfaces{}, ports{};  ///< of the network, and of InfiniBand
  std::int64_t calls{};
  /// Returns the larger sum: TCP over an InfiniBand port is in both counters, RDMA in the port's alone.
  [[nodiscard]] Bytes bytes() const { return std::max(interfaces, ports); }
};

/// One message size of one operation on one group.
struct BenchCollective {
  std::string place;  ///< "collectives[3]"
  Operation operation{Operation::all_reduce};
  std::string dtype;
  bool in_place{};
  std::string group;     ///< "world", "tensor" or "data"
  std::int64_t ranks{};  ///< of the group
  std::int64_t stride{1};
  std::int64_t at_once{1};  ///< groups that ran at the same time
  std::int64_t nodes{1};    ///< that one group spans
  Bytes bytes{};            ///< as nccl-tests counts
  std::int64_t elements{};
  TimeStatistics seconds;
  std::vector<double> samples;
  std::optional<BenchSent> sent{};  ///< absent: not counted
};

/// A copy between host and device, of one rank.
struct BenchCopy {
  bool to_device{};
  bool pinned{};
  Bytes bytes{};
  BytesPerSecond speed{};
};

/// One pass over a file, written or read.
struct BenchStorage {
  std::string path;
  bool reads{};
  bool direct{};
  BytesPerSecond speed{};
};

/// A matrix product, or kernels that only read and write.
struct BenchCompute {
  bool product{};
  std::string dtype{};         ///< of a product
  std::int64_t m{}, n{}, k{};  ///< of a product
  double rate{};               ///< floating-point operations, or bytes, a second
};

/// Calls of a replayed step that agree in all the plan's names.
struct ReplayKind {
  std::string operation, group;
  std::int64_t group_size{}, stride{1};
  std::string phase, dtype, purpose;
  [[nodiscard]] bool same_kind(const ReplayKind& other) const;
  std::int64_t count{}, elements{}, bytes{};  ///< sums over the calls of a step
  std::optional<double> seconds{};            ///< of all of them; absent: not timed by themselves
};

/// A replayed step: planned and counted calls.
struct BenchReplay {
  std::vector<ReplayKind> planned;  ///< added up, in order of first issue; with predicted seconds
  std::vector<ReplayKind> counted;
  std::optional<double>
      predicted_seconds;   ///< of the step, as it was replayed; absent: the plan has no such time
  TimeStatistics seconds;  ///< of whole steps
  bool compute_stand_in{};
};

/// A result of the benchmark.
struct BenchResult {
  std::string zplan_version, started, library, driver, cuda;
  std::vector<std::string> command;
  BenchBackend backend{BenchBackend::mpi};
  bool complete{};
  std::string stopped;  ///< why it is not complete
  std::int64_t ranks{}, nodes{};
  bool share_gpu{};  ///< true if each rank was a host of its own to NCCL
  std::vector<BenchHost> hosts;
  std::vector<BenchCollective> collectives;
  std::vector<BenchCopy> copies;
  std::vector<BenchStorage> storage;
  std::vector<BenchCompute> compute;
  std::optional<BenchReplay> replay;
  /// Figures that contradict each other, and wrong elements:
  /// "collectives[3].seconds.median: 0.0012, its samples give 0.0013". Such a result must not be used.
  std::vector<std::string> flaws;
};

/// Reads a result. Throws InputError, which names file and place, for missing keys, wrong types and ranges.
[[nodiscard]] BenchResult read_bench_result(const JsonReader& file);

/// Returns the name of the GPUs, empty if the hosts list none. Throws InputError, which names `place`, if
/// they differ.
[[nodiscard]] std::string card_of(const BenchResult& result, const std::string& place);

/// Fits t = α + β·bytes by least squares of relative residuals, so that small messages count as much as large
/// ones; α, β ≥ 0. The bus bandwidth is a ring's wire bytes per byte (ring_wire_bytes) over β. Returns
/// nothing for fewer than two sizes, or if time does not grow with size.
[[nodiscard]] std::optional<CurveFit> fit_curve(const CollectiveCurve& curve);

}  // namespace zplan
