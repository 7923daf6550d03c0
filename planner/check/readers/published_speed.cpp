#include "planner/check/readers/links.h"
#include "planner/check/readers/published_options.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

constexpr std::string_view kSchema = "zplan.speed/1";

Cluster cluster_of(const JsonReader& options, std::int64_t gpus) {
  const NamedLinks links = links_named(options.text_or("interconnect", ""));
  const std::int64_t nodes = options.at("nodes").integer(1, kMostRanks);
  if (gpus % nodes != 0) options.at("nodes").fail(std::to_string(nodes), "accepted: a divisor of gpus");
  return assemble_cluster({.gpu = profile_named(options.at("gpu_profile").text()),
                           .memory = std::nullopt,
                           .gpus = gpus,
                           .nodes = nodes,
                           .node = links.node,
                           .network = nodes > 1 ? links.network : "",
                           .host_memory = std::nullopt},
                          built_in_profiles());
}

Case speed_case(const JsonReader& record) {
  if (record.at("schema").text() != kSchema) record.at("schema").fail_type(std::string(kSchema));
  PublishedRun run = read_published_run(record);
  const Cluster cluster = cluster_of(record.at("options"), run.gpus);
  if (run.setup) run.setup->cluster = cluster;
  constexpr double kFastest = 1e9;
  const double speed = record.at("measured").at("tokens_per_second_per_gpu").number(1e-3, kFastest);
  return {.id = record.at("id").text(),
          .file = {},
          .kind = Kind::speed,
          .measured = MeasuredSpeed{speed},
          .setup = std::move(run.setup),
          .skip = run.skip};
}

}  // namespace

std::vector<Case> read_published_speed(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& record : rows.items()) cases.push_back(speed_case(record));
  return cases;
}

}  // namespace zplan::check
