#pragma once
// Logs of nccl-tests.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "planner/check/readers/read.h"

namespace zplan::check {

/// One run of nccl-tests.
struct NcclLog {
  Operation operation{Operation::all_reduce};
  std::string card;  ///< as CUDA names it: "NVIDIA A100-SXM4-80GB"
  std::set<std::string> hosts;
  std::int64_t ranks{};
  std::vector<TimedCall> calls;  ///< out of place
  std::string library;           ///< "NCCL 2.27.3"; empty where the log does not say
};

/// Reads the text, or the JSON report (-J), of nccl-tests. Throws InputError for one that is cut or broken.
[[nodiscard]] NcclLog nccl_log(std::string_view text, const std::string& source);
[[nodiscard]] NcclLog nccl_log(const JsonReader& report);

}  // namespace zplan::check
