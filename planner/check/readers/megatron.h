#pragma once
// Megatron-Core's command lines as questions.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/check/case.h"

namespace zplan::check {

/// MegatronCommand is the question that a command line of pretrain_gpt.py asks, without batch sizes.
struct MegatronCommand {
  Setup setup{};
  std::vector<std::string> unread{};   ///< arguments that are not planned
  std::vector<std::string> refused{};  ///< arguments with a value that Megatron does not accept
};

/// Reads the command line of `world` ranks that train on `vocabulary` tokens. `place` names it in messages.
[[nodiscard]] MegatronCommand read_megatron_command(const std::string& line, std::int64_t vocabulary,
                                                    std::int64_t world, const std::string& place);

}  // namespace zplan::check
