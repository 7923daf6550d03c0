#include <algorithm>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/published_options.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

constexpr std::string_view kMemorySchema = "zplan.measurement/1";

/// The GPU of a row. Without a name it may still have its memory.
struct Card {
  std::optional<std::string> profile{};
  std::optional<Bytes> memory{};
};

Card card_of(const JsonReader& record, Skip& skip) {
  const auto gpu = record.find("gpu");
  if (!gpu) return {};
  Card card;
  if (const auto memory = gpu->find("memory_bytes")) card.memory = bytes_at(*memory);
  if (const auto name = gpu->find("name")) card.profile = profile_named(name->text(), card.memory, skip);
  return card;
}

/// A run that ended out of memory needed more than the GPU had, or than it held when it stopped.
MeasuredFigure needed_more(const JsonReader& measured, const Cluster& cluster) {
  const Bytes capacity = usable_memory(cluster.gpu, bytes_at(measured.at("capacity_bytes")));
  const auto low = measured.find("bytes_low");
  const Bytes proven = low ? std::max(capacity, bytes_at(*low)) : capacity;
  return {Statistic::required, {static_cast<double>(proven.value), std::nullopt}};
}

MeasuredFigure peak(const JsonReader& measured) {
  const auto statistic = named<Statistic>(measured.at("statistic"));
  const Bytes low = bytes_at(measured.at("bytes_low")), high = bytes_at(measured.at("bytes_high"));
  if (high < low) measured.at("bytes_high").fail_type("at least bytes_low");
  return {statistic, {static_cast<double>(low.value), static_cast<double>(high.value)}};
}

/// By grade and by whether the base is packed: other tolerances are asked of each.
std::string subset_of(const JsonReader& record) {
  const bool packed = record.at("options").at("method").text() == "qlora";
  return "grade " + record.text_or("grade", "?") + (packed ? ", QLoRA" : ", full and LoRA");
}

/// Whatever else is stated must be equal.
std::vector<SweepPlace> sweeps_of(const JsonReader& record) {
  std::vector<SweepPlace> places;
  for (const char* variable : {"seq", "micro_batch", "lora_rank"}) {
    Json rest = record.at("options").raw();
    if (!rest.contains(variable) || !rest.at(variable).is_number()) continue;
    const double at = rest.at(variable).get<double>();
    rest.erase(variable);
    rest.erase("lora_parameters");
    // Where the batch of a step is kept, micro-steps make up for it.
    if (std::string_view(variable) == "micro_batch") rest.erase("grad_accum");
    const std::string runs = record.text_or("source", "") + record.at("config").raw().dump() +
                             record.at("measured").at("statistic").text() + rest.dump();
    places.push_back({variable, runs, at});
  }
  return places;
}

Case memory_case(const JsonReader& record) {
  if (record.at("schema").text() != kMemorySchema) record.at("schema").fail_type(std::string(kMemorySchema));
  PublishedRun run = read_published_run(record);
  const Card card = card_of(record, run.skip);
  const Cluster cluster = usual_cluster(card.profile.value_or(kGenericCard), run.gpus, card.memory);
  const JsonReader measured = record.at("measured");
  const MeasuredFigure figure =
      record.boolean_or("oom", false) ? needed_more(measured, cluster) : peak(measured);
  if (const auto doubt = record.find("doubtful")) run.skip = {{"a figure in doubt"}, doubt->text()};
  if (run.setup) run.setup->cluster = cluster, run.setup->card_is_known = card.memory.has_value();
  return {.id = record.at("id").text(),
          .file = {},
          .kind = Kind::measurement,
          .measured = MeasuredMemory{{figure}, {}},
          .setup = std::move(run.setup),
          .skip = run.skip,
          .subset = subset_of(record),
          .card = card.profile.value_or(""),
          .grade = record.text_or("grade", ""),
          .sweeps = sweeps_of(record)};
}

}  // namespace

std::vector<Case> read_published_memory(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& record : rows.items()) cases.push_back(memory_case(record));
  return cases;
}

}  // namespace zplan::check
