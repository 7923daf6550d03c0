#pragma once
// What nccl-tests' text and JSON have in common.

#include <optional>
#include <set>
#include <string>
#include <string_view>
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
  std::string library;           ///< "NCCL 2.27.3"; empty where the log does not say
};

/// What a text or a JSON report of nccl-tests holds. Throws InputError for one that is cut or broken.
[[nodiscard]] NcclLog nccl_log(std::string_view text, const std::string& source);
[[nodiscard]] NcclLog nccl_log(const JsonReader& report);

/// The profile of a GPU as CUDA names it: words are dropped from its end until one is found; nothing where
/// none is.
[[nodiscard]] std::optional<std::string> profile_of_card(const HardwareProfiles& hardware,
                                                         const std::string& card);

/// "NCCL 2.27.3" of NCCL_VERSION_CODE 22703; empty for 0. Source: NCCL nccl.h.in, NCCL_VERSION.
[[nodiscard]] std::string nccl_version(std::int64_t code);

/// The case of a log; machines that the command line does not name are the log's. Throws InputError naming
/// `place` where the log says too little.
[[nodiscard]] Case nccl_case(const NcclLog& log, const std::string& place, const Given& given);

/// The operation that "…/all_reduce_perf" runs; nothing where no program of nccl-tests is named.
[[nodiscard]] std::optional<Operation> operation_of_program(std::string_view text);

}  // namespace zplan::check
