#include "planner/calibration/fit_speeds.h"

#include <Eigen/QR>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "hardware_profiles/cluster.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_context.h"
#include "planner/question/work.h"

namespace zplan::check {

namespace {

/// The figures of KernelModel that training speeds determine: logarithms, so that none becomes negative.
enum Figure : Eigen::Index { kAmpere, kHopper, kTail, kSoftmax, kInFlight, kGap, kFigures };
using Parameters = Eigen::Matrix<double, kFigures, 1>;

double& figure_of(KernelModel& model, Eigen::Index figure) {
  switch (figure) {
    case kAmpere: return model.sustained[static_cast<std::size_t>(MatrixUnits::ampere_large)].flops;
    case kHopper: return model.sustained[static_cast<std::size_t>(MatrixUnits::hopper)].flops;
    case kTail: return model.tail;
    case kSoftmax: return model.softmax_cycles;
    case kInFlight: return model.bytes_per_multiprocessor;
    default: return model.gap.value;
  }
}

/// Returns the model at which every fit starts, and which holds where runs determine nothing: 230 TFLOP/s of
/// an A100 in large products (mli/transformers-benchmarks README @04df81d), 641 of an H100 by CUTLASS
/// (waynehacking8/blackwell-tensorcore-kernels results/reference/summary.md @fcfa413); half a wave left
/// idle; 16 exponentials a cycle (CUDA C++ Programming Guide, throughput of native arithmetic instructions)
/// for each 128 features, and as long again for sums and rescaling; eight kilobytes in flight over 600 ns; a
/// gap of a microsecond.
KernelModel prior_model() {
  KernelModel model;
  figure_of(model, kAmpere) = 230e12 / 108;
  figure_of(model, kHopper) = 641e12 / 132;
  figure_of(model, kTail) = 0.5;
  figure_of(model, kSoftmax) = 2.0 / 16;
  figure_of(model, kInFlight) = 8192 / 600e-9;
  figure_of(model, kGap) = 1e-6;
  return model;
}
/// Distance from the prior, in logarithms, that weighs as much as one run with a residual of kScale.
constexpr std::array<double, kFigures> kLoose{0.15, 0.3, 0.5, 0.5, 0.3, 0.3};

KernelModel model_of(const Parameters& logarithms) {
  KernelModel model = prior_model();
  for (Eigen::Index i = 0; i < kFigures; ++i) figure_of(model, i) = std::exp(logarithms[i]);
  return model;
}

Parameters logarithms_of(KernelModel model) {
  Parameters logarithms;
  for (Eigen::Index i = 0; i < kFigures; ++i) logarithms[i] = std::log(figure_of(model, i));
  return logarithms;
}

/// A run whose speed was measured. It is simulated once and timed with any kernel model.
class SpeedRun {
 public:
  SpeedRun(const Case& measured, double speed)
      : setup_(*measured.setup),
        cluster_(setup_.cluster),
        speed_(speed),
        source_(measured.source.empty() ? measured.file : measured.source),
        run_(PlanContext(setup_.model, cluster_, setup_.training, Headroom{}).run(setup_.strategy)),
        played_(run_.live()),
        schedule_(run_.schedule(played_)) {}
  SpeedRun(const SpeedRun&) = delete;
  SpeedRun& operator=(const SpeedRun&) = delete;

  [[nodiscard]] const std::string& gpu() const { return cluster_.gpu.name; }
  [[nodiscard]] const Gpu& card() const { return cluster_.gpu; }
  [[nodiscard]] const std::string& source() const { return source_; }
  /// True if attention ran in the kernels that plans assume.
  [[nodiscard]] bool usual() const { return setup_.training.modules.attention_time == 1; }
  /// True if fits use the run: its time depends on kernels alone, and not on offload.
  [[nodiscard]] bool is_fitted() const { return !offloads(); }
  [[nodiscard]] bool offloads() const { return zplan::offloads(setup_.strategy); }
  /// ln(predicted / measured) speed.
  [[nodiscard]] double residual(const KernelModel& model) {
    cluster_.kernels = model;
    CostModel cost_model = run_.cost_model(cluster_);
    return std::log(run_.time(played_, schedule_, cost_model).tokens_per_second_per_gpu / speed_);
  }

 private:
  const Setup& setup_;
  Cluster cluster_;
  double speed_;
  std::string source_;
  RankRun run_;
  RunResult played_;
  Schedule schedule_;
};

using Runs = std::vector<SpeedRun*>;

/// A residual of this size counts half by its square, one much larger hardly at all: a run of which something
/// else is not known decides nothing. Cauchy's loss (Black and Anandan 1996, section 3).
constexpr double kScale = 0.05;

Parameters step_from(const Runs& runs, const Parameters& at) {
  constexpr double kNudge = 1e-3;
  const auto n = static_cast<Eigen::Index>(runs.size());
  Eigen::MatrixXd rows(n + kFigures, static_cast<Eigen::Index>(kFigures));
  Eigen::VectorXd target(n + kFigures);
  for (Eigen::Index i = 0; i < n; ++i) {
    SpeedRun& run = *runs[static_cast<std::size_t>(i)];
    const double residual = run.residual(model_of(at));
    const double weight = 1 / std::hypot(1.0, residual / kScale);
    for (Eigen::Index k = 0; k < kFigures; ++k)
      rows(i, k) = weight * (run.residual(model_of(at + kNudge * Parameters::Unit(k))) - residual) / kNudge;
    target[i] = -weight * residual;
  }
  const Parameters prior = logarithms_of(prior_model());
  rows.bottomRows(kFigures).setZero();
  for (Eigen::Index k = 0; k < kFigures; ++k) {
    const double hold = kScale / kLoose[static_cast<std::size_t>(k)];
    rows(n + k, k) = hold, target[n + k] = hold * (prior[k] - at[k]);
  }
  constexpr double kLongest = 0.5;
  const Parameters step = rows.colPivHouseholderQr().solve(target);
  return step.cwiseMax(-kLongest).cwiseMin(kLongest);
}

KernelModel fitted(const Runs& all) {
  constexpr int kIterations = 12;
  constexpr double kStill = 1e-3;
  Runs runs;
  for (SpeedRun* each : all)
    if (each->is_fitted()) runs.push_back(each);
  Parameters parameters = logarithms_of(prior_model());
  for (int i = 0; i < kIterations; ++i) {
    const Parameters step = step_from(runs, parameters);
    parameters += step;
    if (step.cwiseAbs().maxCoeff() < kStill) break;
  }
  return model_of(parameters);
}

/// Returns errors of tokens per second, from logarithms of their ratios.
ErrorFigures errors_of(std::vector<double> residuals) {
  for (double& each : residuals) each = std::expm1(each);
  return error_figures(residuals);
}

std::vector<double> residuals_of(const Runs& runs, const KernelModel& model, bool usual_only = false) {
  std::vector<double> residuals;
  for (SpeedRun* each : runs)
    if (!usual_only || each->usual()) residuals.push_back(each->residual(model));
  return residuals;
}

template <class Leave>
KernelModel fitted_without(const Runs& runs, const Leave& leave) {
  Runs others;
  for (SpeedRun* each : runs)
    if (!leave(*each)) others.push_back(each);
  return fitted(others);
}

double median_signed(std::vector<double> residuals) {
  std::sort(residuals.begin(), residuals.end());
  return std::expm1(median_of(residuals));
}

}  // namespace

SpeedFit fit_speeds(const std::vector<Case>& cases) {
  std::vector<std::unique_ptr<SpeedRun>> kept;
  Runs all;
  SpeedFit fit;
  for (const Case& each : cases) {
    const auto* speed = std::get_if<MeasuredSpeed>(&each.measured);
    if (speed == nullptr || !each.setup || each.skip.any()) continue;
    kept.push_back(std::make_unique<SpeedRun>(each, speed->tokens_per_second_per_gpu));
    all.push_back(kept.back().get());
    const Training& training = each.setup->training;
    fit.held_out.push_back({.id = each.id,
                            .source = kept.back()->source(),
                            .gpu = kept.back()->gpu(),
                            .framework = training.framework,
                            .method = training.method,
                            .units = matrix_units(kept.back()->card()),
                            .offloads = kept.back()->offloads()});
  }
  if (all.empty()) return fit;
  fit.model = fitted(all);
  std::map<std::string, Runs> by_gpu, by_source;
  for (SpeedRun* each : all) by_gpu[each->gpu()].push_back(each), by_source[each->source()].push_back(each);
  std::map<std::string, KernelModel> without_gpu, without_source;
  for (const auto& each : by_gpu) {
    take_step();
    without_gpu[each.first] =
        fitted_without(all, [&](const SpeedRun& run) { return run.gpu() == each.first; });
  }
  for (const auto& each : by_source) {
    take_step();
    without_source[each.first] =
        fitted_without(all, [&](const SpeedRun& run) { return run.source() == each.first; });
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    fit.held_out[i].without_gpu = std::expm1(all[i]->residual(without_gpu.at(all[i]->gpu())));
    fit.held_out[i].without_source = std::expm1(all[i]->residual(without_source.at(all[i]->source())));
  }
  for (const auto& [gpu, runs] : by_gpu) {
    const KernelModel& unseen = without_gpu.at(gpu);
    const std::vector<double> usual = residuals_of(runs, unseen, true);
    fit.gpus.push_back({.gpu = gpu,
                        .efficiency = efficiency_of(runs.front()->card(), fit.model),
                        .runs = runs.size(),
                        .seen = errors_of(residuals_of(runs, fit.model)),
                        .held_out = errors_of(residuals_of(runs, unseen)),
                        .held_out_signed = median_signed(residuals_of(runs, unseen)),
                        .usual_runs = usual.size(),
                        .held_out_usual = usual.empty() ? ErrorFigures{} : errors_of(usual)});
  }
  return fit;
}

}  // namespace zplan::check
