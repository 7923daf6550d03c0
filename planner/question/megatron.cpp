#include "planner/question/megatron.h"

#include <array>

namespace zplan {

namespace {

using M = MegatronOptions;
constexpr std::array kSwitches{
    MegatronSwitch{"sequence-parallel", &M::sequence_parallel, true},
    MegatronSwitch{"overlap-grad-reduce", &M::overlap_grad_reduce, true},
    MegatronSwitch{"overlap-param-gather", &M::overlap_param_gather, true},
    MegatronSwitch{"grad-reduce-in-bf16", &M::gradients_in_bf16, true},
    MegatronSwitch{"cross-entropy-loss-fusion", &M::fused_cross_entropy, true},
    MegatronSwitch{"no-gradient-accumulation-fusion", &M::adds_in_product, false},
    MegatronSwitch{"no-create-attention-mask-in-dataloader", &M::makes_mask, false},
    MegatronSwitch{"account-for-embedding-in-pipeline-split", &M::counts_embedding, true},
    MegatronSwitch{"account-for-loss-in-pipeline-split", &M::counts_loss, true},
};

}  // namespace

std::span<const MegatronSwitch> megatron_switches() { return kSwitches; }

std::vector<std::string> switches_of(const MegatronOptions& options) {
  std::vector<std::string> names;
  for (const MegatronSwitch& each : kSwitches)
    if (options.*each.member == each.value && M{}.*each.member != each.value) names.emplace_back(each.name);
  return names;
}

MegatronOptions recommended_megatron_options() {
  MegatronOptions options;
  options.sequence_parallel = options.overlap_grad_reduce = options.overlap_param_gather = true;
  options.makes_mask = false;
  return options;
}

}  // namespace zplan
