#pragma once
// torch.autocast over tensors without values: operators that run in 16 bits cast what they are given, and the
// casts of weights are kept until the outermost context is left.
// Source: torch 2.11 aten/src/ATen/autocast_mode.cpp, torch/amp/autocast_mode.py.

#include <map>
#include <memory>
#include <vector>

#include "planner/model_trace/tensor.h"

namespace zplan::symbolic {

class Autograd;

class Autocast {
 public:
  /// `with torch.autocast(enabled=…)`.
  class Context {
   public:
    Context(Autocast& autocast, bool enabled);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

   private:
    Autocast& autocast_;
    bool outside_;
  };

  [[nodiscard]] bool enabled() const { return enabled_; }

  /// What an operator that runs in 16 bits gets for `x`.
  [[nodiscard]] Tensor narrow(Autograd& torch, const Tensor& x);
  /// What an operator that runs in fp32 gets for `x`.
  [[nodiscard]] Tensor wide(Autograd& torch, const Tensor& x) const;

 private:
  bool enabled_{};
  int depth_{};
  std::map<const Node*, Tensor> weights_;  ///< by the node that takes the weight's gradient
};

}  // namespace zplan::symbolic
