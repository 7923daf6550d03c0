#pragma once

#include <string>

namespace zplan {

struct Plan;
struct Question;

/// `swift sft` of ms-swift 4 for a plan. `config` is the path of the ds_config; in its place stands the name
/// of the config that ms-swift ships (zero0 to zero3, zero2_offload, zero3_offload, fsdp2) where that one is
/// the plan. Source: ms-swift 4.6 swift/arguments/, swift/config/.
[[nodiscard]] std::string swift_line(const Plan& plan, const Question& question, const std::string& config);

/// The ds_config that ms-swift ships and that is this plan to the last key; empty where none is.
[[nodiscard]] std::string_view shipped_ds_config(const Plan& plan, const Question& question);

}  // namespace zplan
