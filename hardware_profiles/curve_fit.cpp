#include "hardware_profiles/curve_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "hardware_profiles/wire.h"

namespace zplan {

namespace {

/// α in seconds, β in seconds per byte.
struct Line {
  double alpha{}, beta{};
};

/// One coefficient alone: the least squares of x·c = 1.
double alone(const Eigen::VectorXd& x) { return x.sum() / x.squaredNorm(); }

/// Rows are divided by their time: the residual is a share of it.
Line fit_line(const Eigen::VectorXd& bytes, const Eigen::VectorXd& seconds) {
  const double largest = bytes.maxCoeff();  // columns of one magnitude
  Eigen::MatrixX2d rows(bytes.size(), 2);
  rows.col(0) = seconds.cwiseInverse() * seconds.maxCoeff();
  rows.col(1) = (bytes / largest).cwiseQuotient(seconds) * seconds.maxCoeff();
  const Eigen::Vector2d best = rows.colPivHouseholderQr().solve(Eigen::VectorXd::Ones(bytes.size()));
  Eigen::Vector2d kept = best;
  if (best[0] < 0) kept = {0, alone(rows.col(1))};
  if (best[1] < 0) kept = {alone(rows.col(0)), 0};
  kept *= seconds.maxCoeff();
  return {kept[0], kept[1] / largest};
}

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Wire bytes per byte, of a message too long for rounding to count.
double wire_share(const CollectiveCurve& curve) {
  constexpr Bytes kLong = kGiB * 1024;
  return ratio(ring_wire_bytes(curve.operation, kLong, curve.gpus), kLong);
}

}  // namespace

std::optional<CurveFit> fit_curve(const CollectiveCurve& curve) {
  const auto size = static_cast<Eigen::Index>(curve.points.size());
  if (size < 2 || curve.points.front().bytes == curve.points.back().bytes) return std::nullopt;
  Eigen::VectorXd bytes(size), seconds(size);
  for (Eigen::Index i = 0; i < size; ++i) {
    const CollectivePoint& point = curve.points[static_cast<std::size_t>(i)];
    bytes[i] = static_cast<double>(point.bytes.value), seconds[i] = point.seconds.value;
  }
  const Line line = fit_line(bytes, seconds);
  if (!(line.beta > 0)) return std::nullopt;
  std::vector<double> residuals;
  for (Eigen::Index i = 0; i < size; ++i)
    residuals.push_back(std::abs((line.alpha + line.beta * bytes[i]) / seconds[i] - 1));
  return CurveFit{.latency = Seconds(line.alpha),
                  .bus_bandwidth = BytesPerSecond(wire_share(curve) / line.beta),
                  .median_residual = middle_of(residuals),
                  .worst_residual = *std::max_element(residuals.begin(), residuals.end())};
}

}  // namespace zplan
