#pragma once
// What nccl-tests' text and JSON have in common.

#include <set>
#include <string>
#include <vector>

#include "planner/check/readers/readers.h"

namespace zplan::check {

/// One run of nccl-tests.
struct NcclLog {
  Operation operation{Operation::all_reduce};
  std::string card;  ///< as CUDA names it: "NVIDIA A100-SXM4-80GB"
  std::set<std::string> hosts;
  std::int64_t ranks{};
  std::vector<TimedCall> calls;  ///< out of place
};

/// The case of a log; machines that the command line does not name are the log's. Throws InputError naming
/// `place` where the log says too little.
[[nodiscard]] Case nccl_case(const NcclLog& log, const std::string& place, const Given& given);

/// The operation that "…/all_reduce_perf" runs; nothing where no program of nccl-tests is named.
[[nodiscard]] std::optional<Operation> operation_of_program(std::string_view text);

}  // namespace zplan::check
