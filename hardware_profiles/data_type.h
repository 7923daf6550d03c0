#pragma once
// Types of elements that collectives move, under the names of torch.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

enum class DataType { float32, float64, float16, bfloat16, int8, uint8, int32, int64 };

/// Bytes of one element.
[[nodiscard]] constexpr std::int64_t size_of(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64: return 8;
    case DataType::float32:
    case DataType::int32: return 4;
    case DataType::float16:
    case DataType::bfloat16: return 2;
    case DataType::int8:
    case DataType::uint8: return 1;
  }
  return 0;
}

template <>
struct EnumNames<DataType> {
  static constexpr std::array<std::pair<DataType, std::string_view>, 8> table{
      {{DataType::float32, "float32"},
       {DataType::float64, "float64"},
       {DataType::float16, "float16"},
       {DataType::bfloat16, "bfloat16"},
       {DataType::int8, "int8"},
       {DataType::uint8, "uint8"},
       {DataType::int32, "int32"},
       {DataType::int64, "int64"}}};
};

}  // namespace zplan
