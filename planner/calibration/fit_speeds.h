#pragma once
// The kernel model of all GPUs (hardware_profiles/gpu.h) from training speeds that were measured:
// its figures without a source of their own, by least squares of the logarithms of step times. One set,
// whatever the GPU, the model, the method and who measured.

#include <string>
#include <vector>

#include "planner/check/case.h"
#include "planner/check/record.h"

namespace zplan::check {

/// Errors of the runs of one GPU.
struct EfficiencyFit {
  std::string gpu;
  Efficiency efficiency;  ///< the shares of its peaks, by the fit to all runs
  std::size_t runs{};
  ErrorFigures seen;            ///< by the fit to all runs
  ErrorFigures held_out;        ///< by a fit that saw no run of this GPU
  double held_out_signed{};     ///< the middle one of those, with its sign
  std::size_t usual_runs{};     ///< of the runs the ones with the attention kernels that plans assume
  ErrorFigures held_out_usual;  ///< of these alone
};

/// A run's errors of tokens per second, signed, by fits that saw nothing of its GPU, and of its source.
struct HeldOutError {
  std::string id, source, gpu;
  Framework framework{};
  Method method{};
  MatrixUnits units{};
  bool offloads{};
  double without_gpu{}, without_source{};
};

struct SpeedFit {
  KernelModel model;
  std::vector<EfficiencyFit> gpus;  ///< every GPU with judged speeds, in alphabetical order
  std::vector<HeldOutError> held_out;
};
[[nodiscard]] SpeedFit fit_speeds(const std::vector<Case>& cases);

}  // namespace zplan::check
