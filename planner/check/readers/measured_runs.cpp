#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/fields.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/values.h"
#include "planner/check/record.h"

namespace zplan::check {

namespace {

/// The GPU of all rows.
struct Card {
  std::string name;
  std::optional<std::string> profile;
  std::string compute_capability;
  Bytes total;
};

Card card_at(const JsonReader& at, const Given& given) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 29, kMost = std::int64_t{1} << 42;
  Card card{.name = at.at("name").text(),
            .profile = {},
            .compute_capability = at.at("compute_capability").text(),
            .total = Bytes(at.at("total_bytes").integer(kLeast, kMost))};
  card.profile = profile_of_card(given.hardware, card.name);
  const std::string& capability = card.compute_capability;
  const std::size_t dot = capability.find('.');
  const bool right = dot == capability.size() - 2 && (dot == 1 || dot == 2) &&
                     capability.find_first_not_of("0123456789.") == std::string::npos;
  if (!right) at.at("compute_capability").fail(in_quotes(capability), "accepted: as 9.0");
  return card;
}

/// A row: the training and its measurements.
struct MeasuredRun {
  Run training;
  std::string place;  ///< "rows[3]"
  std::int64_t sharing{1};
  Bytes available;
  bool ran{};
  std::string failed_in{};
  std::map<std::int64_t, JsonReader> steps{};  ///< by number

  [[nodiscard]] const JsonReader& row() const { return training.row; }
};

std::map<std::int64_t, JsonReader> steps_at(const JsonReader& measured) {
  constexpr std::size_t kDigits = 9;
  std::map<std::int64_t, JsonReader> steps;
  for (const std::string& key : measured.keys()) {
    const bool number = !key.empty() && key.size() <= kDigits && key.front() != '0' &&
                        key.find_first_not_of("0123456789") == std::string::npos;
    if (!number) measured.at(key).fail("step " + in_quotes(key), "accepted: steps by number, from 1");
    steps.emplace(std::stoll(key), measured.at(key));
  }
  return steps;
}

bool ran_at(const JsonReader& outcome) {
  const std::string text = outcome.text();
  if (text != "ran" && text != "out_of_memory") outcome.fail(in_quotes(text), "accepted: ran, out_of_memory");
  return text == "ran";
}

/// Returns where the run ended out of memory; empty where that is not known.
std::string failure_at(const JsonReader& row, bool ran) {
  const auto failed = row.find("failed_in");
  if (!failed) return "";
  if (ran) failed->fail(in_quotes(failed->text()), "accepted: with outcome out_of_memory");
  if (failed->text() != "initialisation") (void)planned_phases(*failed, false);
  return failed->text();
}

MeasuredRun run_at(const JsonReader& row, std::size_t index, const Card& card) {
  MeasuredRun run{.training = read_run(row, kTraining),
                  .place = fmt::format("rows[{}]", index),
                  .sharing = row.integer_or("sharing", 1, 1, kMostRanks),
                  .available = bytes_at(row.at("available_bytes")),
                  .ran = ran_at(row.at("outcome"))};
  if (run.training.gpus % run.sharing != 0)
    row.at("sharing").fail(std::to_string(run.sharing), "accepted: a divisor of gpus");
  if (run.available < Bytes(1) || run.available > Bytes(card.total.value / run.sharing))
    row.at("available_bytes").fail_type("above 0, and of all ranks on the GPU at most its total_bytes");
  run.failed_in = failure_at(row, run.ran);
  if (const auto measured = row.find("measured")) run.steps = steps_at(*measured);
  if (run.ran && run.steps.empty()) row.at("measured").fail("no steps", "accepted: at least one");
  return run;
}

/// Returns the cluster. Its memory depends on the compute capability (workspaces, context, NCCL's channels),
/// on whether tensor-parallel groups stay inside, and where ZeRO++ splits its exchange: where ranks share
/// a GPU, DeepSpeed sees one in each process, and NCCL a host of its own for each.
Cluster cluster_of(const MeasuredRun& run, const Card& card, const Given& given) {
  const std::int64_t gpus = run.training.gpus;
  ClusterRequest request{.gpu = card.profile.value_or(kGenericCard),
                         .memory = card.total,
                         .gpus = gpus,
                         .nodes = usual_nodes(gpus),
                         .host_memory = std::nullopt};
  if (run.sharing > 1) request.nodes = gpus / run.training.setup.strategy.layout.tensor;
  Cluster cluster = assemble_cluster(request, given.hardware);
  read_ranks_per_node(run.training.options, cluster);
  cluster.gpu.compute_capability = card.compute_capability;
  cluster.usable_memory = run.available;
  return cluster;
}

class Flaws {
 public:
  explicit Flaws(const MeasuredRun& run) : run_(run) {}

  void at_most(const std::string& where, std::int64_t figure, std::int64_t most, std::string_view what) {
    if (figure > most)
      flaws_.push_back(fmt::format("{}.{}: {}, more than {} {}", run_.place, where, figure, what, most));
  }
  void equal(const std::string& where, std::int64_t figure, std::int64_t right, std::string_view what) {
    if (figure != right)
      flaws_.push_back(fmt::format("{}.{}: {}, {} {}", run_.place, where, figure, what, right));
  }
  [[nodiscard]] std::vector<std::string> found() && { return std::move(flaws_); }

 private:
  const MeasuredRun& run_;
  std::vector<std::string> flaws_;
};

/// The peak of the step is the highest of its phases, and that of the phase that it names.
void check_phases(const std::string& where, const JsonReader& step, std::int64_t peak, Flaws& flaws) {
  const auto phases = step.find("phases");
  if (!phases) return;
  const std::string named = step.at("peak_phase").text();
  for (const std::string& name : phases->keys()) {
    const std::int64_t bytes = bytes_at(phases->at(name).at("peak_allocated")).value;
    const std::string place = fmt::format("{}.phases.{}.peak_allocated", where, name);
    if (name == named)
      flaws.equal(place, bytes, peak, "but by peak_phase it holds the step's peak,");
    else
      flaws.at_most(place, bytes, peak, "the step's peak");
  }
}

void check_step(const std::string& where, const JsonReader& step, const MeasuredRun& run, Flaws& flaws) {
  const std::int64_t allocated = bytes_at(step.at("peak_allocated")).value;
  const std::int64_t reserved = bytes_at(step.at("peak_reserved")).value;
  flaws.at_most(where + ".peak_allocated", allocated, reserved, "peak_reserved");
  if (const auto requested = step.find("peak_requested"))
    flaws.at_most(where + ".peak_requested", bytes_at(*requested).value, allocated, "peak_allocated");
  // Ranks that share may divide what is free unequally; what they took together is divided by their number.
  if (run.sharing == 1)
    flaws.at_most(where + ".peak_reserved", reserved, run.available.value, "available_bytes");
  if (const auto device = step.find("device_bytes"))
    flaws.at_most(where + ".device_bytes", bytes_at(*device).value, run.available.value, "available_bytes");
  check_phases(where, step, allocated, flaws);
}

std::vector<std::string> flaws_of(const MeasuredRun& run) {
  Flaws flaws(run);
  for (const auto& [number, step] : run.steps)
    check_step(fmt::format("measured.{}", number), step, run, flaws);
  const auto stated = run.row().find("parameters");
  if (stated && run.training.has_model && run.training.setup.training.method == Method::full)
    flaws.equal("parameters", bytes_at(*stated).value, parameters(run.training.setup.model).value,
                "the config's model has");
  return std::move(flaws).found();
}

MeasuredMemory memory_of(const MeasuredRun& run) {
  if (!run.ran)
    return {
        {{Statistic::required, {static_cast<double>(run.available.value), std::nullopt}}}, {}, run.failed_in};
  const JsonReader& steady = run.steps.rbegin()->second;
  MeasuredMemory memory{{bytes_figure(Statistic::allocated, steady.at("peak_allocated")),
                         bytes_figure(Statistic::reserved, steady.at("peak_reserved"))},
                        {},
                        {}};
  if (const auto phase = steady.find("peak_phase"))
    memory.peak_phases = planned_phases(*phase, run.training.setup.strategy.layout.tensor > 1);
  if (const auto device = steady.find("device_bytes"))
    memory.figures.push_back(bytes_figure(Statistic::device, *device));
  return memory;
}

/// Returns the median time of the steps after the second: in the first ones kernels are loaded and tuned, and
/// states made.
std::optional<double> step_seconds(const MeasuredRun& run) {
  constexpr std::int64_t kWarmUp = 2;
  std::vector<double> times;
  for (const auto& [number, step] : run.steps) {
    const auto seconds = step.find("seconds");
    if (!seconds) continue;
    const double time = seconds->number(0, kMostSeconds);
    if (!(time > 0)) seconds->fail_type("a time above 0");
    if (number > kWarmUp) times.push_back(time);
  }
  if (times.empty()) return std::nullopt;
  std::sort(times.begin(), times.end());
  return median_of(times);
}

Skip speed_skip(const MeasuredRun& run, const Card& card) {
  Skip skip = run.training.skip;
  if (run.sharing > 1) skip.add("ranks that share a GPU");
  if (run.training.gpus > run.sharing) skip.add("links between the GPUs are not stated");
  if (!card.profile) skip.add("no profile of this GPU", card.name);
  return skip;
}

/// Adds memory, and speed where steps were timed.
void add_cases(MeasuredRun run, const Card& card, const Given& given, std::vector<Case>& cases) {
  if (run.training.has_model) {
    run.training.setup.cluster = cluster_of(run, card, given);
    run.training.setup.card_is_known = true;
  }
  Case memory = case_of(run.training, Kind::measurement, memory_of(run));
  memory.subset = card.name + (run.sharing > 1 ? ", ranks that share it" : "");
  memory.flaws = flaws_of(run);
  cases.push_back(std::move(memory));
  const std::optional<double> seconds = run.ran ? step_seconds(run) : std::nullopt;
  if (!seconds || !run.training.has_model) return;
  const Strategy& s = run.training.setup.strategy;
  const auto tokens = static_cast<double>(s.micro_batch_size * s.gradient_accumulation_steps *
                                          run.training.setup.training.sequence_length);
  cases.push_back(case_of(run.training, Kind::speed, MeasuredSpeed{tokens / *seconds}));
  cases.back().skip = speed_skip(run, card);
}

}  // namespace

std::vector<Case> read_measured_runs(const JsonReader& file, const Given& given) {
  const Card card = card_at(file.at("card"), given);
  if (const auto versions = file.find("versions"))
    for (const std::string& name : versions->keys()) (void)versions->at(name).text();
  std::vector<Case> cases;
  std::size_t index = 0;
  for (const JsonReader& row : file.at("rows").items())
    add_cases(run_at(row, index++, card), card, given, cases);
  if (cases.empty()) file.at("rows").fail("no rows", "accepted: at least one");
  return cases;
}

}  // namespace zplan::check
