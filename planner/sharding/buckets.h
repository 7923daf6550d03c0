#pragma once

#include <cstdint>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// One reduction of gradients: neighbouring tensors, by index into the list that was bucketed.
struct Bucket {
  std::size_t first{};
  std::size_t count{};
  Elements elements;
  bool operator==(const Bucket&) const = default;
};

/// DeepSpeed's gradient buckets over tensors in the order in which they are added: a bucket is reduced before
/// the tensor that would overfill it is added; a tensor larger than the bucket goes alone, without being
/// copied in. Source: DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py
/// reduce_independent_p_g_buckets_and_remove_grads.
[[nodiscard]] std::vector<Bucket> gradient_buckets(const std::vector<Elements>& tensors,
                                                   Elements bucket_size);

}  // namespace zplan
