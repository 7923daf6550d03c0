#include "planner/sharding/buckets.h"

namespace zplan {

std::vector<Bucket> gradient_buckets(const std::vector<Elements>& tensors, Elements bucket_size) {
  std::vector<Bucket> buckets;
  Bucket open{};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (open.count > 0 && open.elements + tensors[i] > bucket_size) {
      buckets.push_back(open);
      open = Bucket{i, 0, {}};
    }
    ++open.count;
    open.elements += tensors[i];
  }
  if (open.count > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace zplan
