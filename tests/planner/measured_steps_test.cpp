// Whole training steps measured on PyTorch's own allocator, against the planner's peak.
// Rows whose optimizer is not DeepSpeed's default on the device (torch's foreach and one-at-a-time variants,
// torch's fused AdamW at stage 0) are left out: this version plans DeepSpeed's FusedAdam.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/planner/measured_step.h"

namespace zplan::testing {
namespace {

struct Row {
  std::string id;
  double error;  ///< signed, of the peak
};

Row predict(const Json& row) {
  const MeasuredStep step(row);
  const auto measured = row["peak_requested"].get<double>();
  const Timeline timeline = step_timeline(step.inputs(), "8.0");
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
      // fp16 with fp32 accumulation at stage 1 keeps more than its fp32 accumulators and bucket
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
