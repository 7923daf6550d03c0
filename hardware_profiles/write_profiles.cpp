#include "hardware_profiles/profiles.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/names.h"

namespace zplan {

namespace {

/// A figure in the unit of its key that the reader turns into `value` again, where there is one: with as few
/// digits as that takes.
double in_unit(double value, double unit) {
  const double exact = value / unit;
  for (double digits = 1; digits <= 1e12; digits *= 10) {
    const double rounded = std::round(exact * digits) / digits;
    if (rounded * unit == value) return rounded;
  }
  for (const double near : {exact, std::nextafter(exact, 0.0), std::nextafter(exact, 2 * exact)})
    if (near * unit == value) return near;
  return exact;
}

/// Seconds are read as microseconds · 1e-6.
double microseconds(Seconds time) { return in_unit(time.value, 1e-6); }
double gigabytes(BytesPerSecond rate) { return in_unit(rate.value, 1e9); }

void put(Json& out, const char* key, BytesPerSecond rate) {
  if (rate.value > 0) out[key] = gigabytes(rate);
}
void put(Json& out, const char* key, const std::optional<FlopsPerSecond>& rate) {
  if (rate) out[key] = in_unit(rate->value, 1e12);
}

Json link_json(const MeasuredLink& link) {
  return {{"fabric", to_name(link.fabric)},
          {"gpus", link.gpus},
          {"all_reduce_bus_gb_per_s", gigabytes(link.speed.all_reduce)},
          {"all_gather_bus_gb_per_s", gigabytes(link.speed.all_gather)},
          {"latency_us", microseconds(link.speed.latency)},
          {"source", link.source}};
}

Json fit_json(const CurveFit& fit) {
  return {{"latency_us", microseconds(fit.latency)},
          {"bus_gb_per_s", gigabytes(fit.bus_bandwidth)},
          {"median_residual", fit.median_residual},
          {"worst_residual", fit.worst_residual}};
}

Json curve_json(const CollectiveCurve& curve) {
  Json out{{"operation", to_name(curve.operation)},
           {"fabric", to_name(curve.fabric)},
           {"gpus", curve.gpus},
           {"nodes", curve.nodes}};
  if (!curve.network.empty()) out["network"] = curve.network;
  if (!curve.record.empty()) out["record"] = curve.record;
  if (!curve.source.empty()) out["source"] = curve.source;
  out["points"] = Json::array();
  for (const CollectivePoint& point : curve.points)
    out["points"].push_back(Json::array({point.bytes.value, point.seconds.value}));
  if (curve.fit) out["fit"] = fit_json(*curve.fit);
  return out;
}

template <class Number>
void put(Json& out, const char* key, const std::optional<Number>& figure) {
  if (figure) out[key] = *figure;
}

void put_speeds(Json& out, const Gpu& gpu) {
  put(out, "multiprocessors", gpu.multiprocessors);
  put(out, "boost_mhz", gpu.boost_mhz);
  put(out, "memory_bus_bits", gpu.memory_bus_bits);
  put(out, "memory_gbit_per_s_per_pin", gpu.memory_gbit_per_pin);
  put(out, "memory_bandwidth_gb_per_s", gpu.memory_bandwidth);
  put(out, "board_power_w", gpu.board_power);
  put(out, "bf16_dense_tflops", gpu.bf16);
  put(out, "fp16_dense_tflops", gpu.fp16);
  put(out, "tf32_dense_tflops", gpu.tf32);
  put(out, "fp32_tflops", gpu.fp32);
  put(out, "fp8_dense_tflops", gpu.fp8);
  out["compute_capability"] = gpu.compute_capability;
  put(out, "nvlink_gb_per_s_per_direction", gpu.nvlink);
  put(out, "nvlink_effective_gb_per_s_per_direction", gpu.nvlink_effective);
  put(out, "pcie_gb_per_s_per_direction", gpu.pcie);
  put(out, "pcie_effective_gb_per_s_per_direction", gpu.pcie_effective);
  out["peer_to_peer"] = gpu.peer_to_peer;
  if (gpu.unified_memory) out["unified_memory"] = true;
  if (!gpu.efficiency) return;
  out["matrix_efficiency"] = gpu.efficiency->products;
  out["attention_efficiency"] = gpu.efficiency->attention;
  out["memory_efficiency"] = gpu.efficiency->memory;
}

}  // namespace

Json write_gpu(const Gpu& gpu) {
  Json out{{"schema", "zplan.gpu/1"},
           {"name", gpu.name},
           {"aliases", gpu.aliases},
           {"memory_mib", gpu.memory.value / kMiB.value},
           {"driver_reserved_mib", gpu.driver_reserved.value / kMiB.value}};
  put_speeds(out, gpu);
  out["usual_node"] = gpu.usual_node;
  out["usual_network"] = gpu.usual_network;
  if (!gpu.links.empty()) out["links"] = Json::array();
  for (const MeasuredLink& link : gpu.links) out["links"].push_back(link_json(link));
  if (!gpu.collectives.empty()) out["collectives"] = Json::array();
  for (const CollectiveCurve& curve : gpu.collectives) out["collectives"].push_back(curve_json(curve));
  if (!gpu.collectives_as.empty()) out["collectives_as"] = gpu.collectives_as;
  out["sources"] = Json::object();
  for (const auto& [figure, source] : gpu.sources) out["sources"][figure] = source;
  return out;
}

}  // namespace zplan
