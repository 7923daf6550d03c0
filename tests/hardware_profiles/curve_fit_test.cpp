// Latency and bandwidth of curves: lines that are known, and logs that others published.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "hardware_profiles/bench_result.h"
#include "hardware_profiles/link_speed.h"
#include "models/base/json_reader.h"

namespace zplan {
namespace {

CollectiveCurve line(Operation operation, std::int64_t gpus, double alpha, double beta) {
  CollectiveCurve curve{.operation = operation, .gpus = gpus};
  for (Bytes size(8); size <= kGiB; size = size * 8)
    curve.points.push_back({size, Seconds(alpha + beta * static_cast<double>(size.value))});
  return curve;
}

TEST(FitCurve, FindsAnExactLine) {
  const auto fit = fit_curve(line(Operation::all_gather, 4, 20e-6, 1e-10));
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->latency.value, 20e-6, 1e-15);
  EXPECT_NEAR(fit->bus_bandwidth.value, 0.75 / 1e-10, 1);
  EXPECT_LT(fit->worst_residual, 1e-9);
}

TEST(FitCurve, TakesTheBandwidthOfTheBus) {
  EXPECT_NEAR(fit_curve(line(Operation::all_reduce, 8, 1e-5, 1e-9))->bus_bandwidth.value, 1.75e9, 1);
  EXPECT_NEAR(fit_curve(line(Operation::broadcast, 8, 1e-5, 1e-9))->bus_bandwidth.value, 1e9, 1);
}

TEST(FitCurve, IsNearALineWithNoiseOnIt) {
  std::mt19937 random(7);
  CollectiveCurve curve = line(Operation::all_reduce, 2, 30e-6, 2e-10);
  for (CollectivePoint& point : curve.points)
    point.seconds = point.seconds * (0.95 + 0.1 * static_cast<double>(random() % 1000) / 1000);
  const auto fit = fit_curve(curve);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->latency.value, 30e-6, 0.05 * 30e-6);
  EXPECT_NEAR(fit->bus_bandwidth.value, 5e9, 0.05 * 5e9);
  EXPECT_LT(fit->worst_residual, 0.11);
  EXPECT_LE(fit->median_residual, fit->worst_residual);
  EXPECT_GT(fit->median_residual, 0);
}

TEST(FitCurve, HasNoNegativeLatency) {
  CollectiveCurve curve{.operation = Operation::broadcast, .gpus = 2};
  curve.points = {{Bytes(100), Seconds(1e-6)}, {Bytes(1000), Seconds(2e-5)}, {Bytes(10'000), Seconds(4e-4)}};
  const auto fit = fit_curve(curve);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->latency, Seconds(0));
  EXPECT_GT(fit->bus_bandwidth.value, 0);
}

TEST(FitCurve, SaysNothingWhereTimeDoesNotGrow) {
  CollectiveCurve curve{.operation = Operation::broadcast, .gpus = 2};
  EXPECT_FALSE(fit_curve(curve));
  curve.points = {{Bytes(100), Seconds(1e-6)}};
  EXPECT_FALSE(fit_curve(curve));
  curve.points.push_back({Bytes(1000), Seconds(0.5e-6)});
  EXPECT_FALSE(fit_curve(curve));
}

std::vector<CollectiveCurve> published_curves() {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/published/collectives.json";
  std::vector<CollectiveCurve> curves;
  for (const Json& log : parse_json(read_file(path), path)) {
    CollectiveCurve curve{
        .operation = parse_name<Operation>("operation", log["operation"].get<std::string>()),
        .gpus = log["gpus"].get<std::int64_t>(),
        .record = log["id"].get<std::string>()};
    for (const Json& row : log["rows"])
      curve.points.push_back(
          {Bytes(row["bytes"].get<std::int64_t>()), Seconds(row["seconds"].get<double>())});
    const auto smaller = [](const CollectivePoint& a, const CollectivePoint& b) { return a.bytes < b.bytes; };
    std::stable_sort(curve.points.begin(), curve.points.end(), smaller);
    if (curve.points.size() >= 4) curves.push_back(std::move(curve));
  }
  return curves;
}

/// Sum of squares of relative residuals, which no other line makes smaller.
double squares(const CollectiveCurve& curve, double alpha, double beta) {
  double sum = 0;
  for (const CollectivePoint& point : curve.points)
    sum += std::pow((alpha + beta * static_cast<double>(point.bytes.value)) / point.seconds.value - 1, 2);
  return sum;
}

/// No limit is set for how far a line is off: logs have steps where protocols change (docs/collective-cost.md
/// has the figures).
TEST(FitCurve, IsTheBestLineOfEveryPublishedLog) {
  const std::vector<CollectiveCurve> curves = published_curves();
  std::size_t fitted = 0;
  std::vector<double> medians, worst;
  for (const CollectiveCurve& curve : curves) {
    const auto fit = fit_curve(curve);
    if (!fit) continue;
    ++fitted;
    const double wire = ratio(ring_wire_bytes(curve.operation, kGiB * 1024, curve.gpus), kGiB * 1024);
    const double alpha = fit->latency.value, beta = wire / fit->bus_bandwidth.value;
    const double best = squares(curve, alpha, beta);
    for (const double factor : {0.99, 1.01}) {
      EXPECT_GE(squares(curve, alpha * factor, beta), best * (1 - 1e-9)) << curve.record;
      EXPECT_GE(squares(curve, alpha, beta * factor), best * (1 - 1e-9)) << curve.record;
    }
    EXPECT_LE(fit->median_residual, fit->worst_residual) << curve.record;
    medians.push_back(fit->median_residual), worst.push_back(fit->worst_residual);
  }
  EXPECT_GE(fitted, 20U);
  std::sort(medians.begin(), medians.end()), std::sort(worst.begin(), worst.end());
  RecordProperty("logs", static_cast<int>(fitted));
  RecordProperty("median_of_median_residuals", std::to_string(medians[medians.size() / 2]));
  RecordProperty("median_of_worst_residuals", std::to_string(worst[worst.size() / 2]));
  RecordProperty("worst_residual", std::to_string(worst.back()));
}

}  // namespace
}  // namespace zplan
