// Whole training steps measured on PyTorch's own allocator, against the planner's peak.
// Rows whose optimizer is not DeepSpeed's default on the device (torch's foreach and one-at-a-time variants,
// torch's fused AdamW at stage 0) are left out: this version plans DeepSpeed's FusedAdam.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planner/memory/step_timeline.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

Training measured_training(const Json& options) {
  Training training;
  training.precision = *from_name<Precision>(options["precision"].get<std::string>());
  training.sequence_length = options["seq"].get<std::int64_t>();
  if (options["method"] == "lora") {
    training.method = Method::lora;
    training.lora_rank = options["lora_rank"].get<std::int64_t>();
    const Json& targets = options["lora_targets"];
    training.lora_targets.modules = targets.is_string() ? std::vector<std::string>{targets.get<std::string>()}
                                                        : targets.get<std::vector<std::string>>();
  }
  return training;
}

void set_elements(const Json& zero, const char* key, Elements& field) {
  if (zero.contains(key)) field = Elements(static_cast<std::int64_t>(zero[key].get<double>()));
}

Strategy measured_strategy(const Json& row) {
  const Json& options = row["options"];
  const Json& zero = row["zero"];
  const std::string offload = options.value("offload", std::string());
  Strategy s;
  s.zero_stage = options["zero"].get<int>();
  s.tensor_parallel = options["tensor_parallel"].get<std::int64_t>();
  s.data_parallel = options["gpus"].get<std::int64_t>() / s.tensor_parallel;
  s.micro_batch_size = options["micro_batch"].get<std::int64_t>();
  s.gradient_accumulation_steps = options["grad_accum"].get<std::int64_t>();
  s.checkpointing = options["checkpointing"] == "full" ? Checkpointing::full : Checkpointing::none;
  if (offload.find("optimizer") != std::string::npos) s.offload_optimizer = OffloadDevice::cpu;
  if (offload.find("param") != std::string::npos) s.offload_parameters = OffloadDevice::cpu;
  set_elements(zero, "reduce_bucket_size", s.zero.reduce_bucket_size);
  set_elements(zero, "stage3_prefetch_bucket_size", s.zero.prefetch_bucket_size);
  set_elements(zero, "stage3_param_persistence_threshold", s.zero.persistence_threshold);
  set_elements(zero, "stage3_max_live_parameters", s.zero.max_live_parameters);
  set_elements(zero, "stage3_max_reuse_distance", s.zero.max_reuse_distance);
  set_elements(zero, "sub_group_size", s.zero.sub_group_size);
  if (zero.contains("overlap_comm")) s.zero.overlap_comm = zero["overlap_comm"].get<bool>();
  s.zero.fp32_gradient_accumulation = options.value("grad_accum_dtype", std::string()) == "fp32";
  return s;
}

struct Row {
  std::string id;
  double error;  ///< signed, of the peak
};

Row predict(const Json& row) {
  const Model model = read_config(JsonReader(row["config"], "measured model"));
  const Training training = measured_training(row["options"]);
  const Strategy strategy = measured_strategy(row);
  const RankModel rank = rank_model(model, training, strategy.tensor_parallel);
  const Shard shard = make_shard(rank, training, strategy);
  const bool sliced = strategy.zero_stage == 1 || strategy.zero_stage == 2;
  const Slice slice = sliced ? worst_slice(rank, training, strategy) : Slice{};
  const Activations saved = activations(model, training, strategy);
  const Timeline timeline = step_timeline({model, training, strategy, rank, shard, slice, saved}, "8.0");
  const auto measured = row["peak_requested"].get<double>();
  return {row["id"].get<std::string>(),
          (static_cast<double>(timeline.peak().bytes().value) - measured) / measured};
}

bool is_planned(const Json& row) {
  const Json& options = row["options"];
  const std::string optimizer = options["optimizer"].get<std::string>();
  if (optimizer == "torch_single" || optimizer == "torch_foreach") return false;
  return options["zero"] != 0 || optimizer == "ds_fused";
}

std::vector<Row> planned_rows() {
  std::vector<Row> rows;
  for (const Json& row : test_json("reference/steps/steps.json"))
    if (is_planned(row)) rows.push_back(predict(row));
  return rows;
}

TEST(MeasuredSteps, MedianPeakIsWithinHalfAPercent) {
  std::vector<Row> rows = planned_rows();
  ASSERT_GE(rows.size(), 180U);
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return std::abs(a.error) < std::abs(b.error); });
  EXPECT_LE(std::abs(rows[rows.size() / 2].error), 0.005);
  EXPECT_LE(std::abs(rows[rows.size() * 9 / 10].error), 0.06);
}

// Too low is worse than too high. The rows that are, and why (docs/accuracy.md):
TEST(MeasuredSteps, OnlyKnownRowsAreTooLowByMoreThanFivePercent) {
  const std::vector<std::string> known{
      // fp16 with fp32 accumulation at stage 1 accumulates in an unsharded fp32 copy that is not planned yet
      "Qwen2.5-0.5B|z1|n4|b1s1024|ckpt|accum_dtype=fp32|precision=fp16",
      // one GPU with the optimizer on the host: gradients wait in a bucket of their own
      "Qwen2.5-0.5B|z3|n1|b1s1024|ckpt|offload=optimizer|optimizer=ds_cpu",
      // fp32 adapters under zero.Init are gathered in fp32
      "Qwen2.5-0.5B|z3|n4|b1s1024|lora=True|adapter_dtype=fp32",
  };
  for (const Row& row : planned_rows()) {
    if (std::find(known.begin(), known.end(), row.id) != known.end()) continue;
    EXPECT_GE(row.error, -0.05) << row.id;
  }
}

}  // namespace
}  // namespace zplan::testing
