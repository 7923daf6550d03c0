#pragma once
// Vectors whose places are kept as 32-bit numbers.

#include <cstddef>
#include <cstdint>

namespace zplan {

template <class Vector>
[[nodiscard]] auto& at(Vector& vector, std::int32_t index) {
  return vector[static_cast<std::size_t>(index)];
}

template <class Vector>
[[nodiscard]] std::int32_t size_of(const Vector& vector) {
  return static_cast<std::int32_t>(vector.size());
}

}  // namespace zplan
