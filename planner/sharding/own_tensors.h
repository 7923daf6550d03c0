#pragma once
// What models as other libraries hold them are put together from.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/inventory.h"

namespace zplan {

/// True if one of the tensors has this role and a name with this ending.
[[nodiscard]] inline bool has_tensor(const std::vector<Tensor>& tensors, TensorRole role,
                                     std::string_view ending) {
  return std::ranges::any_of(
      tensors, [&](const Tensor& each) { return each.role == role && each.name.ends_with(ending); });
}

[[nodiscard]] inline Tensor tensor_of(std::string name, std::vector<std::int64_t> shape, TensorRole role) {
  Tensor tensor;
  tensor.name = std::move(name), tensor.shape = std::move(shape), tensor.role = role;
  return tensor;
}

/// Returns a table of `rows` entries, which tensor-parallel ranks divide unless they are positions.
[[nodiscard]] inline Tensor table_of(std::string name, std::int64_t rows, std::int64_t width,
                                     TensorRole role) {
  Tensor tensor = tensor_of(std::move(name), {rows, width}, role);
  if (role != TensorRole::position_embedding)
    tensor.split = TensorParallelSplit::vocabulary, tensor.split_units = rows;
  const std::string path = tensor.name.substr(0, tensor.name.rfind('.'));
  tensor.module = path.substr(path.rfind('.') + 1);
  if (role == TensorRole::head) tensor.linear = Linear{.in_features = width, .out_features = rows};
  return tensor;
}

}  // namespace zplan
