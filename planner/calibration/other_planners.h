#pragma once
// Predictions of other planners for the same runs, by their published formulas. The accuracy page shows them.

#include <optional>
#include <string_view>
#include <vector>

#include "planner/check/case.h"
#include "planner/check/record.h"

namespace zplan::check {

/// Returns the bytes per GPU that a planner predicts for a run; nothing if it does not support the run.
using PlannerFormula = std::optional<double> (*)(const Setup&);

struct OtherPlanner {
  std::string_view name;
  std::string_view source;
  PlannerFormula peak{};
};
[[nodiscard]] const std::vector<OtherPlanner>& other_planners();

/// estimate_zero2_model_states_mem_needs and estimate_zero3_model_states_mem_needs: 2Ψ + 18Ψ/N at stage 2,
/// 4·(largest module) + 18Ψ/N at stage 3, less with offload. Full training at stages 2 and 3 only.
/// Source: DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py, stage3.py.
[[nodiscard]] std::optional<double> deepspeed_estimator(const Setup& setup);

/// calc_transformer_mem.py with its defaults (two MLP matrices, 4-byte gradients, 5e8-element buckets, 1e9
/// live parameters at stage 3). Source: EleutherAI/cookbook @069ae2e.
[[nodiscard]] std::optional<double> eleutherai_calculator(const Setup& setup);

/// estimated_peak_memory_per_gpu of LLMAnalysis.training with its defaults (shared embeddings, prefetch of
/// two layers, fp32 norms). Source: cli99/llm-analysis @d841e40 analysis.py.
[[nodiscard]] std::optional<double> llm_analysis(const Setup& setup);

/// Model states as the ZeRO paper tabulates them: 16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N, 16Ψ/N.
/// Source: Rajbhandari et al. 2020, figure 1.
[[nodiscard]] std::optional<double> zero_paper_states(const Setup& setup);

/// One planner over the runs whose allocated peak was measured.
struct PlannerComparison {
  OtherPlanner planner;
  Kind kind{Kind::step};
  std::size_t rows{};
  ErrorFigures errors;
  std::size_t zplan_rows{};  ///< of these, those that zplan judges
  ErrorFigures zplan_errors;
};

/// Compares each planner with zplan. `records` are the result of judge(cases).
[[nodiscard]] std::vector<PlannerComparison> compare_planners(const std::vector<Case>& cases,
                                                              const std::vector<Record>& records);

}  // namespace zplan::check
