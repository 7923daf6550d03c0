#pragma once
// A matrix product to time.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan::bench {

/// How numbers are multiplied; tf32 is kept as float32.
enum class ProductType { bfloat16, float16, tf32, float32 };

/// c (m × n) = a (m × k) · b (k × n).
struct Product {
  ProductType type{ProductType::bfloat16};
  std::int64_t m{}, n{}, k{};
  bool operator==(const Product&) const = default;

  [[nodiscard]] Flops flops() const {
    return Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  }
};

/// Bytes of one number in memory.
[[nodiscard]] constexpr std::int64_t size_of(ProductType type) {
  return type == ProductType::bfloat16 || type == ProductType::float16 ? 2 : 4;
}

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::ProductType> {
  static constexpr std::array<std::pair<bench::ProductType, std::string_view>, 4> table{
      {{bench::ProductType::bfloat16, "bfloat16"},
       {bench::ProductType::float16, "float16"},
       {bench::ProductType::tf32, "tf32"},
       {bench::ProductType::float32, "float32"}}};
};

}  // namespace zplan
