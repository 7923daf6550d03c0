#include "harness/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "hardware_profiles/bench_result.h"
#include "harness/work.h"
#include "models/base/format.h"

namespace zplan::bench {

namespace {

std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return fmt::format("{:.{}f}", us, us < 9.995 ? 2 : us < 99.95 ? 1 : 0);
}

std::string gigabytes(BytesPerSecond rate) {
  const double gb = rate.value / 1e9;
  return fmt::format("{:.{}f}", gb, gb < 9.995 ? 2 : gb < 99.95 ? 1 : 0);
}

std::string group_text(const Groups& groups) {
  return fmt::format("{}{}", to_name(groups.kind),
                     groups.kind == GroupKind::world ? "" : fmt::format(" {}", groups.size));
}

}  // namespace

std::string table_head() {
  return fmt::format(
      "{:<14} {:<8} {:<9} {:<3} {:>12} {:>9} {:>9} {:>9} {:>7} {:>7} {:>6}\n{:49} {:>9} {:>9} {:>9} {:>7} "
      "{:>7}\n",
      "operation", "dtype", "group", "", "bytes", "median", "p10", "p90", "algbw", "busbw", "wrong", "", "us",
      "us", "us", "GB/s", "GB/s");
}

std::string table_line(const Measurement& m) {
  const TimeStatistics s = statistics_of(m.samples);
  return fmt::format(
      "{:<14} {:<8} {:<9} {:<3} {:>12} {:>9} {:>9} {:>9} {:>7} {:>7} {:>6}\n", to_name(m.work.operation),
      to_name(m.work.dtype), group_text(m.groups), m.work.in_place ? "in" : "out", m.work.bytes().value,
      microseconds(s.median.value), microseconds(s.p10.value), microseconds(s.p90.value),
      gigabytes(algorithm_bandwidth(m.work.bytes(), s.median)),
      gigabytes(bus_bandwidth(m.work.operation, m.work.bytes(), s.median, m.groups.size)), m.wrong);
}

std::string opening_text(const Json& head) {
  std::vector<std::string> hosts;
  for (const Json& each : head.at("hosts")) hosts.push_back(each.at("name").get<std::string>());
  std::string out = fmt::format("{}, {} ranks on {}", head.at("library").get<std::string>(),
                                head.at("ranks").get<std::int64_t>(), fmt::join(hosts, ", "));
  if (!head.at("driver").is_null())
    out += fmt::format(", driver {}, CUDA {}", head.at("driver").get<std::string>(),
                       head.at("cuda").get<std::string>());
  return out + "\n";
}

std::string machine_text(const Json& document) {
  std::string out;
  const auto text = [](const Json& each, const char* key) { return each.at(key).get<std::string>(); };
  const auto bytes = [](const Json& each, const char* key) {
    return format_bytes(Bytes(each.at(key).get<std::int64_t>()));
  };
  const auto rate = [](const Json& each) {
    return format_rate(BytesPerSecond(each.at("bytes_per_second").get<double>()));
  };
  for (const Json& each : document.at("copies"))
    out += fmt::format("{:<15} {:<9} {:>12} {:>14}\n", text(each, "direction"), text(each, "memory"),
                       bytes(each, "bytes"), rate(each));
  for (const Json& each : document.at("compute")) {
    if (text(each, "kind") == "memory")
      out += fmt::format("{:<25} {:>12} {:>14}\n", "memory", bytes(each, "bytes"), rate(each));
    else
      out +=
          fmt::format("{:<15} {:<9} {:>6} x {:>6} x {:>6} {:>9.1f} TFLOP/s\n", "matrix product",
                      text(each, "dtype"), each.at("m").get<std::int64_t>(), each.at("n").get<std::int64_t>(),
                      each.at("k").get<std::int64_t>(), each.at("flops_per_second").get<double>() / 1e12);
  }
  for (const Json& each : document.at("storage"))
    out += fmt::format("{:<5} {}{}, {} requests of {} at a time: {}\n", text(each, "direction"),
                       text(each, "path"), each.at("direct").get<bool>() ? "" : " (through the page cache)",
                       each.at("threads").get<std::int64_t>(), bytes(each, "block_bytes"), rate(each));
  return out.empty() ? out : "\n" + out;
}

std::string replay_text(const Json& replay) {
  std::string out = fmt::format("{:<14} {:<7} {:>4} {:<9} {:<26} {:>7} {:>15} {:>11}\n", "operation", "group",
                                "size", "dtype", "purpose", "calls", "bytes", "all calls");
  for (const Json& each : replay.at("calls")) {
    const Json& seconds = each.at("seconds");
    out += fmt::format(
        "{:<14} {:<7} {:>4} {:<9} {:<26} {:>7} {:>15} {:>11}\n", each.at("operation").get<std::string>(),
        each.at("group").get<std::string>(), each.at("group_size").get<std::int64_t>(),
        each.at("dtype").get<std::string>(),
        fmt::format("{}, {}", each.at("purpose").get<std::string>(), each.at("phase").get<std::string>()),
        each.at("count").get<std::int64_t>(), each.at("bytes").get<std::int64_t>(),
        seconds.is_null() ? "-" : format_seconds(Seconds(seconds.get<double>())));
  }
  const Json& s = replay.at("seconds");
  const auto time = [&s](const char* key) { return format_seconds(Seconds(s.at(key).get<double>())); };
  out += fmt::format("\nstep of {}: median {}, p10 {}, p90 {}; {} steps, {}\n",
                     replay.at("plan").at("plan").get<std::string>(), time("median"), time("p10"),
                     time("p90"), replay.at("steps").size(),
                     replay.at("compute_stand_in").get<bool>() ? "with the planned compute between the calls"
                                                               : "calls back to back");
  if (!replay.at("every_rank_alike").get<bool>()) out += "ranks issued different calls\n";
  if (const Json& memory = replay.at("device_memory"); !memory.is_null())
    out += fmt::format("the plan's memory, {}: {}\n",
                       format_bytes(Bytes(memory.at("planned_bytes").get<std::int64_t>())),
                       memory.at("holds").get<bool>() ? "allocated" : "not available");
  return out;
}

}  // namespace zplan::bench
