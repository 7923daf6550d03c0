#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/nccl_log.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

Operation operation_of(const JsonReader& report) {
  const JsonReader arguments = report.at("args");
  for (const JsonReader& argument : arguments.items())
    if (const auto operation = operation_of_program(argument.text())) return *operation;
  arguments.fail("no program of nccl-tests", "accepted: all_reduce_perf, all_gather_perf, …");
}

/// One entry per process, which may drive several threads and GPUs.
void read_devices(const JsonReader& config, NcclLog& log) {
  for (const JsonReader& device : config.at("devices").items()) {
    ++log.ranks;
    log.hosts.insert(device.at("hostname").text());
    log.card = device.at("device_info").text();
  }
  log.ranks *= config.integer_or("nthreads", 1, 1, kMostBatch) * config.integer_or("ngpus", 1, 1, kMostBatch);
}

/// Times are in microseconds; a replay of a trace has none out of place.
void read_result(const JsonReader& result, NcclLog& log) {
  const auto timing = result.has("out_of_place") ? result.find("out_of_place") : result.find("in_place");
  if (!timing) return;
  constexpr double kMicroseconds = 1e-6;
  const JsonReader time = timing->at(timing->has("time") ? "time" : "cpu_time");
  const Seconds seconds(kMicroseconds * time.number(0, kMostSeconds / kMicroseconds));
  const Bytes size = bytes_at(result.at("size"));
  if (size.value > 0 && seconds.value > 0) log.calls.push_back({log.operation, size, seconds});
}

}  // namespace

NcclLog nccl_log(const JsonReader& report) {
  NcclLog log;
  log.operation = operation_of(report);
  read_devices(report.at("config"), log);
  for (const JsonReader& result : report.at("results").items()) read_result(result, log);
  constexpr std::int64_t kMostVersion = 10'000'000;
  if (const auto code = report.find("nccl_version"); code && code->raw().is_number_integer())
    log.library = nccl_version(code->integer(0, kMostVersion));
  return log;
}

std::vector<Case> read_nccl_json(const JsonReader& report, const Given& given) {
  return {nccl_case(nccl_log(report), report.place(), given)};
}

}  // namespace zplan::check
