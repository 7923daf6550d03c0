#include "hardware_profiles/cluster.h"
#include "planner/check/readers/published_options.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

constexpr std::string_view kSpeedSchema = "zplan.speed/1";

/// The bus bandwidth, 1e9 bytes per second, that the source itself measured over such nodes, instead of what
/// their network is known for.
void take_measured_network(const JsonReader& options, Cluster& cluster) {
  constexpr double kLeast = 0.01, kMost = 1e4;
  const auto reached = options.find("network_gb_per_s");
  if (!reached || !cluster.between) return;
  const BytesPerSecond bus(reached->number(kLeast, kMost) * 1e9);
  cluster.between->all_reduce = cluster.between->all_gather = bus;
  Network& network = *cluster.network;
  network.per_node = bus;
  network.per_nic = BytesPerSecond(bus.value / static_cast<double>(network.nics));
  network.name += ", measured by the source";  // no curve of other machines
  network.collectives.clear();
}

Case speed_case(const JsonReader& record) {
  if (record.at("schema").text() != kSpeedSchema) record.at("schema").fail_type(std::string(kSpeedSchema));
  PublishedRun run = read_published_run(record);
  const JsonReader options = record.at("options");
  const std::optional<std::string> card =
      profile_named(options.at("gpu_profile").text(), std::nullopt, run.skip);
  Cluster cluster =
      card ? linked_cluster(*card, options, run.gpus) : usual_cluster(kGenericCard, run.gpus, std::nullopt);
  take_measured_network(options, cluster);
  if (const auto doubt = record.find("doubtful")) run.skip = {{"a figure in doubt"}, doubt->text()};
  if (run.setup) run.setup->cluster = cluster;
  constexpr double kFastest = 1e9;
  const bool slower = run.setup && run.setup->training.modules.attention_time > 1;
  const double speed = record.at("measured").at("tokens_per_second_per_gpu").number(1e-3, kFastest);
  return {.id = record.at("id").text(),
          .file = {},
          .kind = Kind::speed,
          .measured = MeasuredSpeed{speed},
          .setup = std::move(run.setup),
          .skip = run.skip,
          .subset = slower ? "a slower attention kernel" : "attention as PyTorch runs it",
          .card = card.value_or(""),
          .grade = record.text_or("grade", ""),
          .source = record.text_or("source", "")};
}

}  // namespace

std::vector<Case> read_published_speed(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& record : rows.items()) cases.push_back(speed_case(record));
  return cases;
}

}  // namespace zplan::check
