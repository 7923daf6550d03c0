#pragma once
// The options of zplan-bench. Those that nccl-tests has, too, have its names.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/work.h"
#include "models/base/json_reader.h"

namespace zplan::bench {

enum class BackendChoice { automatic, nccl, mpi };
enum class Placement { out, in, both };

struct Options {
  BackendChoice backend{BackendChoice::automatic};
  std::vector<Operation> operations;  ///< empty: all, or none where a plan or a calibration is asked for
  std::vector<DataType> dtypes{DataType::float32};
  std::vector<GroupKind> groups{GroupKind::world};
  std::int64_t tensor_parallel{1};
  Placement placement{Placement::both};
  Bytes lowest{8}, highest{kMiB * 64};
  double factor{2};
  std::optional<Bytes> step;  ///< added instead of the factor
  std::int64_t iterations{20}, warmup{5};

  std::string plan;  ///< file to replay; empty: none
  std::int64_t steps{10};
  bool allocate{}, compute{};

  bool calibrate{};
  std::string storage;  ///< folder whose drive is measured; empty: none
  bool topology{};

  std::optional<Seconds> budget;
  Seconds timeout{60};
  std::optional<int> local;  ///< ranks that this process starts
  std::string meet;  ///< folder in which ranks meet that no mpirun connects; empty: see meeting_folder()
  bool share_gpu{};

  std::string output;
  bool json{}, quiet{}, help{}, version{};

  /// Operations that are measured.
  [[nodiscard]] std::vector<Operation> measured_operations() const;
};

/// The sizes from `lowest` to `highest`, ascending.
[[nodiscard]] std::vector<Bytes> sizes(const Options& options);

/// Throws InputError naming the option, its value and what is accepted.
[[nodiscard]] Options parse_options(const std::vector<std::string>& arguments);
[[nodiscard]] std::string help_text();

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::BackendChoice> {
  static constexpr std::array<std::pair<bench::BackendChoice, std::string_view>, 3> table{
      {{bench::BackendChoice::automatic, "auto"},
       {bench::BackendChoice::nccl, "nccl"},
       {bench::BackendChoice::mpi, "mpi"}}};
};
template <>
struct EnumNames<bench::Placement> {
  static constexpr std::array<std::pair<bench::Placement, std::string_view>, 3> table{
      {{bench::Placement::out, "out"}, {bench::Placement::in, "in"}, {bench::Placement::both, "both"}}};
};

}  // namespace zplan
