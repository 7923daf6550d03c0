// Command lines that Megatron-Core's own checks were given: what it refuses zplan refuses, and what it
// accepts zplan plans.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "planner/check/readers/megatron.h"
#include "planner/plan/legality.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

/// Cases whose arguments zplan does not have, by what they are about.
const std::map<std::string, std::set<std::string>>& without_arguments() {
  static const std::map<std::string, std::set<std::string>> kCases{
      {"capacities and dispatchers of experts, overlapped exchanges",
       {
           "moe_pad_without_capacity_factor",
           "moe_capacity_with_allgather",
           "overlap_moe_ep_comm_with_recompute",
           "overlap_moe_ep_comm_pp2_without_vpp",
       }},
      {"sums of gradients in fp32, which are the default", {"main_grads_bf16_with_reduce_fp32"}},
      {"userbuffers", {"tp_comm_overlap_without_sp"}},
      {"fp16", {"fp16_and_bf16"}},
      {"layers without Transformer Engine",
       {"local_spec_rope_fusion", "local_spec_context_parallel", "local_spec_sp_rmsnorm"}},
      {"the embedding's gradient behind the pipeline",
       {"defer_embedding_wgrad_pp1", "defer_embedding_wgrad_tied"}},
      {"FSDP",
       {"torch_fsdp2_with_distributed_optimizer", "megatron_fsdp_max_connections_1", "torch_fsdp2_tied"}},
  };
  return kCases;
}

/// Cases that are about more than the arguments that zplan reads.
const std::map<std::string, std::string>& beside_arguments() {
  static const std::map<std::string, std::string> kCases{
      {"device_max_connections_with_tp", "an environment variable"},
      {"attention_flash_not_installed", "an installed package"},
      {"batch_not_divisible", "batch sizes, from which a question derives micro-batches"},
      {"recompute_full_without_method", "zplan writes --recompute-method itself"},
      {"recompute_full_without_num_layers", "zplan writes --recompute-num-layers itself"},
      {"mtp_with_cp", "zplan plans further predictions without context parallelism alone"},
  };
  return kCases;
}

bool lacks_arguments(const std::string& name) {
  for (const auto& [about, cases] : without_arguments())
    if (cases.contains(name)) return true;
  return false;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "; ";
  return all;
}

/// Megatron's word that its refusal and zplan's have in common.
const std::map<std::string, std::string>& words() {
  static const std::map<std::string, std::string> kWords{
      {"layers_not_divisible_by_pp", "pipeline stages"},
      {"seq_not_multiple_of_2cp", "context parallel"},
      {"sp_seq_not_multiple_of_tp", "key-value heads"},
      {"cp_without_sp_seq_ok", "key-value heads"},
      {"cp_a2a_heads_not_divisible", "cp-comm-type"},
      {"cp_a2a_kv_heads_not_divisible", "cp-comm-type"},
      {"cp_a2a+p2p_without_hierarchy", "hierarchical-context-parallel-sizes"},
      {"overlap_param_gather_without_distributed_optimizer", "use-distributed-optimizer"},
      {"overlap_param_gather_without_overlap_grad_reduce", "overlap-grad-reduce"},
      {"recompute_selective_with_method", "recompute-method"},
      {"recompute_unknown_module", "recompute-modules"},
      {"recompute_mla_up_proj_without_mla", "recompute-modules"},
      {"distribute_saved_activations_with_sp", "sequence-parallel"},
      {"heads_not_divisible_by_tp", "attention heads"},
      {"ffn_not_divisible_by_tp", "feed-forward"},
      {"kv_groups_fewer_than_tp", "key-value heads"},
      {"kv_groups_not_divisible_by_tp", "key-value heads"},
      {"world_not_divisible_by_tp", "3"},
      {"precision_aware_without_distributed_optimizer", "use-distributed-optimizer"},
      {"bf16_moments_without_precision_aware", "use-precision-aware-optimizer"},
      {"main_grads_bf16_without_precision_aware", "use-precision-aware-optimizer"},
      {"cpu_offload_without_precision_aware", "use-precision-aware-optimizer"},
      {"cpu_offload_without_distributed_optimizer", "use-distributed-optimizer"},
      {"instances_not_dividing_dp", "num-distributed-optimizer-instances"},
      {"average_in_collective_per_token", "calculate-per-token-loss"},
      {"account_for_embedding_not_divisible", "pipeline stages"},
      {"first_stage_only_rest_not_divisible", "pipeline stages"},
      {"recompute_moe_act_without_grouped_gemm", "moe-grouped-gemm"},
      {"experts_not_divisible_by_ep", "does not divide 8 experts"},
      {"ep_without_experts", "experts"},
      {"ep_larger_than_dp", "expert parallel 4"},
      {"moe_tp_without_sp", "sequence parallelism"},
      {"moe_tp_without_sp_ep1", "sequence parallelism"},
      {"moe_shared_overlap_with_allgather", "shared experts overlap alltoall alone"},
      {"etp_not_dividing_world", "expert tensor parallel 3"},
      {"mtp_learned_positions", "mtp-num-layers"},
      {"vpp2_pp2_without_p2p_overlap", "no-overlap-p2p-communication"},
      {"vpp_layers_not_divisible", "virtual stages each"},
      {"vpp_microbatches_not_multiple_of_pp", "micro-batches"},
      {"vpp_fewer_microbatches_than_pp", "micro-batches"},
      {"group_size_per_vp_stage_smaller_than_pp", "groups of 2"},
      {"first_last_layers_with_layers_per_vpp", "num-layers-per-virtual-pipeline-stage"},
      {"layout_layers_mismatch", "layers"},
      {"cross_entropy_fusion_te", "cross-entropy-fusion-impl native"},
      {"moe_flex_without_deepep", "flex"},
      {"layout_with_account_for_embedding", "pipeline-model-parallel-layout"},
  };
  return kWords;
}

void judge_case(const Json& row, const MegatronCommand& command) {
  const std::string name = row.at("case");
  const std::int64_t world = row.at("world"), batch = row.at("gbs"), micro_batch = row.at("mbs");
  Strategy strategy = command.setup.strategy;
  strategy.micro_batch_size = micro_batch;
  strategy.gradient_accumulation_steps =
      std::max<std::int64_t>(batch / (micro_batch * strategy.layout.data_ranks()), 1);
  std::vector<std::string> reasons =
      why_illegal(command.setup.model, command.setup.training, strategy, World{world, world});
  reasons.insert(reasons.end(), command.refused.begin(), command.refused.end());
  if (!row.at("refused").get<bool>()) {
    EXPECT_EQ(joined(reasons), "") << name;
    return;
  }
  EXPECT_FALSE(reasons.empty()) << name << ": " << row.at("message");
  const auto word = words().find(name);
  ASSERT_NE(word, words().end()) << name << ": " << joined(reasons);
  EXPECT_NE(joined(reasons).find(word->second), std::string::npos) << name << ": " << joined(reasons);
}

TEST(MegatronChecks, AreZplansToo) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/megatron/refused.json";
  const Json rows = Json::parse(read_file(path));
  ASSERT_EQ(rows.size(), 77U);
  std::size_t judged = 0;
  for (const Json& row : rows) {
    const std::string name = row.at("case");
    const MegatronCommand command =
        read_megatron_command(row.at("args").get<std::string>(), 32'000, row.at("world"), name);
    if (lacks_arguments(name)) {
      EXPECT_FALSE(command.unread.empty() && command.refused.empty()) << name << " can be judged";
      continue;
    }
    EXPECT_EQ(joined(command.unread), "") << name;
    if (beside_arguments().contains(name)) continue;
    judge_case(row, command);
    ++judged;
  }
  EXPECT_EQ(judged, 56U);
}

}  // namespace
}  // namespace zplan::check::testing
