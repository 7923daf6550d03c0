// The table of rules: how many docs/lint.md says there are, and what there is an example of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "lint_support.h"

namespace zplan::testing {
namespace {

TEST(LintRules, HaveNamesOfTheirOwn) {
  std::set<std::string_view> seen;
  for (const LintRule& rule : lint_rules()) {
    EXPECT_TRUE(std::regex_match(std::string(rule.id), std::regex("[a-z0-9]+(-[a-z0-9]+)*"))) << rule.id;
    EXPECT_TRUE(seen.insert(rule.id).second) << rule.id;
    EXPECT_FALSE(rule.what.empty() || rule.source.empty()) << rule.id;
  }
}

/// The page gives their number; SARIF output lists them, and docs/build.py makes the site's table of that.
TEST(LintRules, AreAsManyAsThePageSays) {
  const std::string page = read_file(std::string(ZPLAN_TEST_DATA) + "/../docs/lint.md");
  EXPECT_THAT(page, ::testing::HasSubstr("There are " + std::to_string(lint_rules().size()) + " rules."));
}

/// Every rule but does-not-fit and sequence-parallel-refused, which are the planner's, and megatron-refused,
/// which is of scripts, is found in one of these.
TEST(LintRules, EachHasAnExample) {
  const std::string top = R"({"train_batch_size": 8, )";
  const auto zero = [&](const std::string& inside) {
    return top + "\"zero_optimization\": {" + inside + "}}";
  };
  const LintOptions trainer{.style = ConfigStyle::hf_auto}, alone{.style = ConfigStyle::plain},
      old_card{.gpus = 4, .tensor_parallel = 2, .compute_capability = "6.1"};
  const std::vector<std::pair<std::string, LintOptions>> examples{
      {"\xEF\xBB\xBF" + top + R"("amp": 1, "amp": 2, "gradient_clipping": NaN, /**/ "x": 1, "_comment": "y",
"gradient_clipp1ng": 1, "max_grad_norm": 1,})",
       {}},
      {"3", {}},
      {zero(R"("foo": 1, "cpu_offload": true, "offload_optimizer": {}, "offload_param": {"device": "cpu"})"),
       {}},
      {zero(
           R"("stage": 3, "prefetch_bucket_size": 1, "stage3_prefetch_bucket_size": 2, "cpu_offload_param": true)"),
       {}},
      {zero(
           R"("stage": 1, "allgather_bucket_size": 3, "overlap_comm": "on", "legacy_stage1": true, "contiguous_gradients": 7, "reduce_bucket_size": 0)"),
       {}},
      {zero(
           R"("stage": 2, "sub_group_size": 5, "zero_hpz_partition_size": 2, "offload_optimizer": {"device": "nvme"})"),
       {}},
      {zero(R"("stage": 3, "zero_quantized_gradients": true, "sub_group_size": "auto")"), {}},
      {zero(R"("stage": 5)"), {}},
      {top +
           R"("bf16": {"enabled": true, "bf16_optimizer_states": true}, "bfloat16": {}, "fp16": {"enabled": true}, "torch_autocast": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32", "param_dtype": "fp16"}})",
       old_card},
      {R"({"train_batch_size": 7, "tensor_parallel": {"autotp_size": 3}, "aio": {"x": 1, "block_sizes": 1}, "activation_checkpointing": {}})",
       old_card},
      {R"({"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 3}})",
       {}},
      {R"({"optimizer": {"params": {}}, "gradient_clipping": 0, "steps_per_print": "x", "fp16": 3})", {}},
      {top +
           R"("optimizer": {"type": "AdamX", "params": {"max_grad_norm": 1}}, "scheduler": {"type": "WarmupX"}})",
       {}},
      {top +
           R"("zero_optimization": {"stage": 2}, "optimizer": {"type": "SGD", "params": {"lr": -1, "foo": 1}}, "scheduler": {"type": "WarmupDecayLR", "params": {"foo": 1, "warmup_num_steps": 0}}})",
       {}},
      {top + R"("zero_optimization": {"stage": 2}, "scheduler": {"type": "StepLR", "params": {}}})", {}},
      {top +
           R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1, "warmup_num_steps": 5}}})",
       {}},
      {R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "sequence_parallel_size": 4, "seq_parallel_communication_data_type": "bf16", "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}})",
       {.gpus = 8, .sequence_parallel = 4}},
      {R"({"train_batch_size": 8, "sequence_parallel_size": 4})", {.gpus = 8, .sequence_parallel = 3}},
      {R"({"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 3, "autoep": 1}})",
       {.gpus = 8}},
      {R"({"train_batch_size": 8, "zero_optimization": {"stage": 2}, "expert_parallel": {"enabled": true}})",
       {}},
      {R"({"train_batch_size": 8, "expert_parallel": {"enabled": true}})", {.architecture = "llama"}},
      {R"({"train_batch_size": "auto"})", trainer},
      {R"({"train_batch_size": "auto"})", alone}};
  std::set<std::string> found, all;
  for (const auto& each : examples)
    for (const Finding& finding : lint(each.first, "ds.json", each.second)) found.insert(finding.rule);
  for (const LintRule& rule : lint_rules()) all.emplace(rule.id);
  all.erase("does-not-fit"), all.erase("sequence-parallel-refused"), all.erase("megatron-refused");
  EXPECT_EQ(found, all);
}

}  // namespace
}  // namespace zplan::testing
