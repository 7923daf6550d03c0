// Published measurements: zplan.measurement/1, zplan.speed/1 and zplan.collectives/1.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/fields.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/values.h"
#include "planner/plan/legality.h"

namespace zplan::check {

namespace {

void check_schema(const JsonReader& record, const char* schema) {
  if (record.at("schema").text() != schema) record.at("schema").fail_type(schema);
}

/// Returns the case of a record: a figure that its source doubts is skipped for that alone.
Case published_case(const JsonReader& record, Run& run, Kind kind, Measured measured) {
  if (const auto doubt = record.find("doubtful")) run.skip = {{"a figure in doubt"}, doubt->text()};
  Case made = case_of(run, kind, std::move(measured));
  made.grade = record.text_or("grade", "");
  return made;
}

/// True if a framework with stages or tensor parallelism of its own runs.
bool divides_model(const Run& run) { return run.setup.strategy.megatron || run.setup.strategy.torchtitan; }

// ---- peaks of memory

/// The GPU of a row. Without a name it may still have its memory.
struct NamedCard {
  std::optional<std::string> profile{};
  std::optional<Bytes> memory{};
};

NamedCard card_of(const JsonReader& record, Skip& skip) {
  const auto gpu = record.find("gpu");
  if (!gpu) return {};
  NamedCard card;
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

/// Returns the subset: grade, and whether the base is packed. Each has a tolerance of its own.
std::string subset_of(const JsonReader& record) {
  const bool packed = record.at("options").at("method").text() == "qlora";
  return "grade " + record.text_or("grade", "?") + (packed ? ", QLoRA" : ", full and LoRA");
}

/// Returns the sweeps that a run is a point of: all else that its record states is equal between their runs.
std::vector<SweepPlace> sweeps_of(const JsonReader& record) {
  std::vector<SweepPlace> places;
  for (const char* variable : {"seq", "micro_batch", "lora_rank"}) {
    Json rest = record.at("options").raw();
    if (!rest.contains(variable) || !rest.at(variable).is_number()) continue;
    const double at = rest.at(variable).get<double>();
    rest.erase(variable);
    rest.erase("lora_parameters");
    // Micro-steps may differ, so that the batch of a step stays the same.
    if (std::string_view(variable) == "micro_batch") rest.erase("grad_accum");
    const std::string runs = record.text_or("source", "") + record.raw().value("config", Json{}).dump() +
                             record.at("measured").at("statistic").text() + rest.dump();
    places.push_back({variable, runs, at});
  }
  return places;
}

/// Skips memory of plans that zplan refuses: it predicts none. Layers that are computed again whole keep
/// their inputs alone, compiled or not.
void skip_illegal(Run& run) {
  Setup& setup = run.setup;
  if (setup.strategy.checkpointing == Checkpointing::full) setup.training.compile = Compile::none;
  Strategy asked = setup.strategy;
  if (asked.megatron) asked.megatron->loss_fusion = LossFusion::native;  // older releases had both
  for (std::string& reason :
       why_illegal(setup.model, setup.training, asked, {setup.cluster.gpus, setup.cluster.gpus_per_node}))
    run.skip.add(std::move(reason));
}

/// Returns the rank whose memory is stated, or the fullest one where none is; ranks "0-3" are alike.
std::int64_t rank_at(const JsonReader& measured, const Run& run) {
  const auto rank = measured.find("rank");
  if (!rank || (rank->raw().is_string() && rank->text() == "max")) return Setup::kFullestRank;
  if (!rank->raw().is_string()) return rank->integer(0, run.gpus - 1);
  const std::string words = rank->text();
  if (words.find_first_not_of("0123456789-") != std::string::npos || words.front() == '-' || words.size() > 9)
    rank->fail_type("a rank, ranks such as 0-3, or max");
  return std::min<std::int64_t>(std::stoll(words), run.gpus - 1);
}

Case memory_case(const JsonReader& record) {
  check_schema(record, "zplan.measurement/1");
  Run run = read_run(record, kPublished);
  const NamedCard card = card_of(record, run.skip);
  run.setup.cluster = usual_cluster(card.profile.value_or(kGenericCard), run.gpus, card.memory);
  run.setup.card_is_known = card.memory.has_value();
  const JsonReader measured = record.at("measured");
  run.setup.rank = rank_at(measured, run);
  if (run.setup.strategy.megatron && run.setup.training.float8 != Float8::none)
    run.skip.add("memory of Transformer Engine's 8-bit products, which was not recorded");
  if (divides_model(run) && run.has_model && !run.skip.any()) skip_illegal(run);
  const bool failed = record.boolean_or("oom", false);
  const bool is_peak = measured.find("bytes_low") || !measured.has("boundary");
  if (!failed && !is_peak) run.skip.add("the longest sample that fits, without a peak");
  const bool is_open = failed && !card.memory && !measured.has("capacity_bytes");
  if (is_open) run.skip.add("an end out of memory on a GPU whose memory is not stated");
  const MeasuredFigure figure = failed && !is_open ? needed_more(measured, run.setup.cluster)
                                : is_peak && !failed
                                    ? peak(measured)
                                    : MeasuredFigure{Statistic::required, {0.0, std::nullopt}};
  Case made = published_case(record, run, Kind::measurement, MeasuredMemory{{figure}, {}});
  made.subset = divides_model(run) ? "a model divided over ranks, " + made.grade : subset_of(record);
  made.card = card.profile.value_or("");
  made.source = record.text_or("source", "");
  made.sweeps = sweeps_of(record);
  return made;
}

// ---- speed

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

/// Tokens per second of a GPU, by the time of a step where they are not printed. What a source states as
/// operations alone is not judged: sources count them differently.
double speed_at(const JsonReader& measured, Run& run) {
  constexpr double kFastest = 1e9;
  if (!measured.has("tokens_per_second_per_gpu") && !measured.has("step_seconds") &&
      (measured.has("tflops_per_gpu") || measured.has("mfu") || measured.has("train_seconds"))) {
    run.skip.add("a speed that is no tokens per second or time of a step");
    return 1;
  }
  if (measured.has("tokens_per_second_per_gpu") || !measured.has("step_seconds"))
    return measured.at("tokens_per_second_per_gpu").number(1e-3, kFastest);
  const double seconds = measured.at("step_seconds").number(1e-6, kMostSeconds);
  const Strategy& s = run.setup.strategy;
  return static_cast<double>(s.global_batch_size() * run.setup.training.sequence_length) / seconds /
         static_cast<double>(run.gpus);
}

Case speed_case(const JsonReader& record) {
  check_schema(record, "zplan.speed/1");
  Run run = read_run(record, kPublished);
  const std::optional<std::string> card =
      profile_named(run.options.at("gpu_profile").text(), std::nullopt, run.skip);
  run.setup.cluster = card ? linked_cluster(*card, run.options, run.gpus)
                           : usual_cluster(kGenericCard, run.gpus, std::nullopt);
  take_measured_network(run.options, run.setup.cluster);
  const double speed = speed_at(record.at("measured"), run);
  const bool slower = run.has_model && run.setup.training.modules.attention_time > 1;
  Case made = published_case(record, run, Kind::speed, MeasuredSpeed{speed});
  made.subset = slower ? "a slower attention kernel" : "attention as PyTorch runs it";
  if (divides_model(run)) made.subset = "a model divided over ranks, " + made.grade;
  made.card = card.value_or("");
  made.source = record.text_or("source", "");
  return made;
}

// ---- collectives

Case collectives_case(const JsonReader& record) {
  check_schema(record, "zplan.collectives/1");
  const auto operation = named<Operation>(record.at("operation"));
  Skip skip;
  std::optional<std::string> card;
  if (const auto gpu = record.find("gpu"))
    card = profile_named(gpu->text(), std::nullopt, skip);
  else
    skip.add("a GPU that is not named");
  const std::int64_t gpus = record.at("gpus").integer(2, kMostRanks);
  // The links of a GPU that is not known may be none that the generic GPU has.
  MeasuredCalls calls{
      card ? linked_cluster(*card, record, gpus) : usual_cluster(kGenericCard, gpus, std::nullopt),
      {},
      record.at("id").text()};
  for (const JsonReader& row : record.at("rows").items())
    calls.calls.push_back(
        {operation, bytes_at(row.at("bytes")), Seconds(row.at("seconds").number(1e-9, kMostSeconds))});
  return {.id = record.at("id").text(),
          .kind = Kind::collectives,
          .measured = std::move(calls),
          .skip = std::move(skip),
          .card = card.value_or("")};
}

/// Below this size launching decides a collective's time where one process drives all GPUs, as it launches on
/// one after the other: the time is twice that of one process per GPU on the same machine.
constexpr Bytes kLaunched = kMiB * 8;

/// Moves the small messages of `whole` into a case of their own, which is skipped, and returns it.
Case take_launched(Case& whole) {
  Case launched = whole;
  launched.id += ", small";
  launched.skip.add("small messages where one process drives all GPUs");
  const auto is_small = [](const TimedCall& call) { return call.size < kLaunched; };
  std::erase_if(std::get<MeasuredCalls>(whole.measured).calls, is_small);
  std::erase_if(std::get<MeasuredCalls>(launched.measured).calls,
                [&](const TimedCall& call) { return !is_small(call); });
  return launched;
}

}  // namespace

namespace {

/// A file may hold peaks and speeds.
Case published_row(const JsonReader& record) {
  return record.at("schema").text() == "zplan.speed/1" ? speed_case(record) : memory_case(record);
}

}  // namespace

std::vector<Case> read_published_memory(const JsonReader& rows) { return cases_of(rows, published_row); }
std::vector<Case> read_published_speed(const JsonReader& rows) {
  return cases_of(rows, [](const JsonReader& record) {
    return record.at("schema").text() == "zplan.measurement/1" ? memory_case(record) : speed_case(record);
  });
}

std::vector<Case> read_published_collectives(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& record : rows.items()) {
    cases.push_back(collectives_case(record));
    if (!record.boolean_or("single_process", false)) continue;
    if (Case launched = take_launched(cases.back());
        !std::get<MeasuredCalls>(launched.measured).calls.empty())
      cases.push_back(std::move(launched));
  }
  return cases;
}

}  // namespace zplan::check
