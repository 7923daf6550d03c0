#pragma once
// Types of elements that collectives move, under the names of torch.

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan::bench {

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

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::DataType> {
  static constexpr std::array<std::pair<bench::DataType, std::string_view>, 8> table{
      {{bench::DataType::float32, "float32"},
       {bench::DataType::float64, "float64"},
       {bench::DataType::float16, "float16"},
       {bench::DataType::bfloat16, "bfloat16"},
       {bench::DataType::int8, "int8"},
       {bench::DataType::uint8, "uint8"},
       {bench::DataType::int32, "int32"},
       {bench::DataType::int64, "int64"}}};
};

}  // namespace zplan
