#pragma once
// The collective operations that training issues and profiles time, under the names of nccl-tests.

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

enum class Operation { all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv };
template <>
struct EnumNames<Operation> {
  static constexpr std::array<std::pair<Operation, std::string_view>, 7> table{{
      {Operation::all_reduce, "all_reduce"},
      {Operation::all_gather, "all_gather"},
      {Operation::reduce_scatter, "reduce_scatter"},
      {Operation::broadcast, "broadcast"},
      {Operation::reduce, "reduce"},
      {Operation::all_to_all, "all_to_all"},
      {Operation::send_recv, "send_recv"},
  }};
};

}  // namespace zplan
