#pragma once
// What an inverse question asks for.

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

/// What is asked for; values are whole samples, tokens, GPUs, parameters, GiB of a GPU, GiB of a node.
enum class Solve { micro_batch, sequence, gpus, model, memory, host_memory };
template <>
struct EnumNames<Solve> {
  static constexpr std::array<std::pair<Solve, std::string_view>, 6> table{
      {{Solve::micro_batch, "micro-batch"},
       {Solve::sequence, "sequence"},
       {Solve::gpus, "gpus"},
       {Solve::model, "model"},
       {Solve::memory, "memory"},
       {Solve::host_memory, "host-memory"}}};
};

/// Whether the largest value is asked for, not the smallest.
[[nodiscard]] constexpr bool asks_for_most(Solve solve) {
  return solve == Solve::micro_batch || solve == Solve::sequence || solve == Solve::model;
}

}  // namespace zplan
