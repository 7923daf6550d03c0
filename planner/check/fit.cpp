#include "planner/check/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "planner/plan.h"

namespace zplan::check {

namespace {

using Parameters = Eigen::Vector3d;  ///< logarithms of products, attention, memory

Efficiency efficiency_of(const Parameters& logarithms) {
  const Eigen::Vector3d shares = logarithms.array().exp();
  return {.products = shares[0], .attention = shares[1], .memory = shares[2]};
}

Parameters logarithms_of(const Efficiency& efficiency) {
  return Eigen::Vector3d(efficiency.products, efficiency.attention, efficiency.memory).array().log();
}

/// A measured run whose tape is recorded once.
class Run {
 public:
  Run(const Setup& setup, double measured)
      : setup_(setup),
        cluster_(setup.cluster),
        measured_(measured),
        context_(setup.model, cluster_, setup.training, Headroom{}) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Its size stands for a model: those of one size are left out together.
  [[nodiscard]] Elements model() const { return parameters(setup_.model); }
  /// Whether attention ran in the kernels that a plan of today assumes.
  [[nodiscard]] bool usual() const { return spec(setup_.training.modules).attention_cost == 1; }
  /// ln(predicted / measured) speed.
  [[nodiscard]] double residual(const Parameters& parameters) {
    cluster_.gpu.efficiency = efficiency_of(parameters);
    return std::log(context_.time(setup_.strategy).tokens_per_second_per_gpu / measured_);
  }

 private:
  const Setup& setup_;
  Cluster cluster_;
  double measured_;
  PlanContext context_;
};

using Runs = std::vector<Run*>;

/// Beyond this a residual counts by its size, not by its square: a run of which something else is not known
/// decides nothing. Huber 1964.
constexpr double kHuber = 0.08;

Parameters step_from(const Runs& runs, const Parameters& at) {
  constexpr double kNudge = 1e-3;
  const auto n = static_cast<Eigen::Index>(runs.size());
  Eigen::VectorXd residuals(n);
  Eigen::MatrixX3d slopes(n, 3);
  for (Eigen::Index i = 0; i < n; ++i) {
    Run& run = *runs[static_cast<std::size_t>(i)];
    residuals[i] = run.residual(at);
    for (Eigen::Index k = 0; k < 3; ++k)
      slopes(i, k) = (run.residual(at + kNudge * Parameters::Unit(k)) - residuals[i]) / kNudge;
  }
  const Eigen::VectorXd weights =
      residuals.unaryExpr([](double r) { return std::sqrt(std::min(1.0, kHuber / std::abs(r))); });
  // What the runs do not tell stays where it is.
  constexpr double kDamping = 1e-3;
  Eigen::MatrixX3d rows(n + 3, 3);
  Eigen::VectorXd target(n + 3);
  rows << weights.asDiagonal() * slopes, kDamping * Eigen::Matrix3d::Identity();
  target << -weights.cwiseProduct(residuals), Eigen::Vector3d::Zero();
  constexpr double kLongest = 0.5;
  const Parameters step = rows.colPivHouseholderQr().solve(target);
  return step.cwiseMax(-kLongest).cwiseMin(kLongest);
}

/// No share of a peak exceeds all of it.
Parameters fitted(const Runs& runs, Parameters parameters, int most) {
  constexpr double kStill = 1e-4;
  for (int i = 0; i < most; ++i) {
    const Parameters before = parameters;
    parameters = (parameters + step_from(runs, parameters)).cwiseMin(0.0);
    if ((parameters - before).cwiseAbs().maxCoeff() < kStill) break;
  }
  return parameters;
}

/// Of tokens per second, from logarithms of their ratios.
ErrorFigures errors_of(std::vector<double> residuals) {
  for (double& each : residuals) each = std::expm1(each);
  return error_figures(residuals);
}

std::vector<double> residuals_of(const Runs& runs, const Parameters& parameters) {
  std::vector<double> residuals;
  for (Run* each : runs) residuals.push_back(each->residual(parameters));
  return residuals;
}

/// The logarithmic errors of runs that no fit had seen.
struct HeldOut {
  std::vector<double> all, usual;
};

constexpr int kIterations = 40;

/// Of each model's runs, by a fit that has seen none of them: it starts where every fit starts.
HeldOut held_out(const Runs& runs) {
  std::set<Elements> models;
  for (const Run* each : runs) models.insert(each->model());
  HeldOut residuals;
  for (const Elements model : models) {
    Runs others, left_out;
    for (Run* each : runs) (each->model() == model ? left_out : others).push_back(each);
    const Parameters parameters = fitted(others, logarithms_of({}), kIterations);
    for (Run* each : left_out) {
      residuals.all.push_back(each->residual(parameters));
      if (each->usual()) residuals.usual.push_back(residuals.all.back());
    }
  }
  return residuals;
}

EfficiencyFit fit(const std::string& gpu, const Runs& runs) {
  const HeldOut unseen = held_out(runs);
  const Parameters parameters = fitted(runs, logarithms_of({}), kIterations);
  return {.gpu = gpu,
          .efficiency = efficiency_of(parameters),
          .runs = runs.size(),
          .seen = errors_of(residuals_of(runs, parameters)),
          .held_out = errors_of(unseen.all),
          .usual_runs = unseen.usual.size(),
          .held_out_usual = errors_of(unseen.usual)};
}

}  // namespace

std::vector<EfficiencyFit> fit_efficiencies(const std::vector<Case>& cases) {
  std::vector<std::unique_ptr<Run>> all;
  std::map<std::string, Runs> by_card;
  for (const Case& each : cases) {
    const auto* speed = std::get_if<MeasuredSpeed>(&each.measured);
    if (speed == nullptr || !each.setup || each.skip.any()) continue;
    all.push_back(std::make_unique<Run>(*each.setup, speed->tokens_per_second_per_gpu));
    by_card[each.setup->cluster.gpu.name].push_back(all.back().get());
  }
  std::vector<EfficiencyFit> fits;
  for (const auto& [gpu, runs] : by_card) {
    const bool several = std::any_of(runs.begin(), runs.end(), [&runs = runs](const Run* each) {
      return each->model() != runs.front()->model();
    });
    if (runs.size() >= kFewestRuns && several) fits.push_back(fit(gpu, runs));
  }
  return fits;
}

}  // namespace zplan::check
