#pragma once
// What a GPU reaches of its peaks, from training speeds that were measured on it: the three figures of
// Efficiency, by least squares of the logarithms of step times. One set per GPU, whatever the model, the
// method and who measured.

#include <string>
#include <vector>

#include "planner/check/case.h"
#include "planner/check/summary.h"

namespace zplan::check {

struct EfficiencyFit {
  std::string gpu;
  Efficiency efficiency;
  std::size_t runs{};
  ErrorFigures seen;         ///< of the runs that it was fitted to
  ErrorFigures held_out;     ///< of each model's runs, by a fit from the same prior that never saw that model
  std::size_t usual_runs{};  ///< of those the ones with the attention kernels that plans assume
  ErrorFigures held_out_usual;  ///< of these alone
};

/// Of every GPU that at least `kFewestRuns` judged speeds of at least two models are from, in alphabetical
/// order.
inline constexpr std::size_t kFewestRuns = 12;
[[nodiscard]] std::vector<EfficiencyFit> fit_efficiencies(const std::vector<Case>& cases);

}  // namespace zplan::check
