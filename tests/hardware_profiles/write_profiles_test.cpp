// Profiles that are written and read back are equal.

#include <gtest/gtest.h>

#include "hardware_profiles/profiles.h"

namespace zplan {
namespace {

Gpu read_back(const Gpu& gpu) {
  const std::string text = write_gpu(gpu).dump(2);
  const Json json = parse_json(text, gpu.name);
  return read_profiles(JsonReader(json, gpu.name)).gpus.at(0);
}

TEST(WriteGpu, IsReadAsTheSameCard) {
  for (const Gpu& gpu : built_in_profiles().gpus) EXPECT_EQ(read_back(gpu), gpu) << gpu.name;
  EXPECT_GT(built_in_profiles().gpus.size(), 30U);
}

TEST(WriteGpu, KeepsEveryDigit) {
  Gpu gpu = find_gpu(built_in_profiles(), "A100-SXM-80GB");
  gpu.pcie_effective = BytesPerSecond(23'456'789'012.345);
  CollectiveCurve curve{.operation = Operation::broadcast,
                        .fabric = Fabric::nvswitch,
                        .gpus = 3,
                        .source = "somebody",
                        .points = {{Bytes(7), Seconds(1.0 / 3)}, {Bytes(8), Seconds(2e-6)}}};
  curve.fit = CurveFit{Seconds(1.0 / 7), BytesPerSecond(1e11 / 3), 1.0 / 9, 2.0 / 3};
  gpu.collectives.push_back(curve);
  const Gpu read = read_back(gpu);
  EXPECT_DOUBLE_EQ(read.pcie_effective.value, gpu.pcie_effective.value);
  EXPECT_EQ(read.collectives.back().points, curve.points);
  const CurveFit fit = read.collectives.back().fit.value();
  EXPECT_DOUBLE_EQ(fit.latency.value, curve.fit->latency.value);
  EXPECT_DOUBLE_EQ(fit.bus_bandwidth.value, curve.fit->bus_bandwidth.value);
  EXPECT_EQ(fit.median_residual, curve.fit->median_residual);
  EXPECT_EQ(fit.worst_residual, curve.fit->worst_residual);
}

TEST(ReadProfiles, AFitHasItsFourFigures) {
  Gpu gpu = find_gpu(built_in_profiles(), "A100-SXM-80GB");
  gpu.collectives = {
      {.gpus = 2, .source = "somebody", .points = {{Bytes(8), Seconds(1)}}, .fit = CurveFit{}}};
  gpu.collectives.front().fit->bus_bandwidth = BytesPerSecond(1e9);
  for (const char* key : {"latency_us", "bus_gb_per_s", "median_residual", "worst_residual"}) {
    Json json = write_gpu(gpu);
    EXPECT_NO_THROW((void)read_profiles(JsonReader(json, "a profile")));
    json["collectives"][0]["fit"].erase(key);
    EXPECT_THROW((void)read_profiles(JsonReader(json, "a profile")), InputError) << key;
    json["collectives"][0]["fit"][key] = -1;
    EXPECT_THROW((void)read_profiles(JsonReader(json, "a profile")), InputError) << key;
  }
}

}  // namespace
}  // namespace zplan
