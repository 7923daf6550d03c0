#include "planner/model_trace/autocast.h"

#include <utility>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

Autocast::Context::Context(Autocast& autocast, bool enabled)
    : autocast_(autocast), outside_(std::exchange(autocast.enabled_, enabled)) {
  ++autocast_.depth_;
}

Autocast::Context::~Context() {
  if (--autocast_.depth_ == 0) autocast_.weights_.clear();
  autocast_.enabled_ = outside_;
}

Tensor Autocast::narrow(Autograd& torch, const Tensor& x) {
  if (!enabled_ || x.type != DType::fp32) return x;
  const bool is_weight = x.requires_gradient && is_leaf(x);
  if (!is_weight) return to(torch, x, DType::bf16);
  const auto [place, is_new] = weights_.try_emplace(x.gradient.node.get());
  if (is_new) place->second = to(torch, x, DType::bf16);
  return place->second;
}

Tensor Autocast::wide(Autograd& torch, const Tensor& x) const {
  return enabled_ && x.defined() && is_floating(x.type) ? to(torch, x, DType::fp32) : x;
}

}  // namespace zplan::symbolic
