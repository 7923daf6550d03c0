// Measures the time of answers. Figures in docs/performance.md come from here; none of them is a test.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/search/families.h"
#include "planner/search/family.h"
#include "planner/search/search.h"
#include "planner/simulation/run.h"
#include "tests/planner/support.h"

namespace zplan {
namespace {

Question question(const std::string& model, std::int64_t gpus, std::int64_t gib) {
  return testing::question_about(model, {.memory = kGiB * gib, .gpus = gpus});
}

void find_model(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(resolve_model("Qwen/Qwen3-8B", {}));
}
BENCHMARK(find_model);

/// One run of Llama 3 70B on 64 GPUs, whole tape and allocator: initialisation and three steps.
void timeline(benchmark::State& state) {
  const Question q = question("meta-llama/Meta-Llama-3-70B", 64, 80);
  const Strategy strategy{.zero_stage = static_cast<int>(state.range(0)), .layout = {.shard = 64}};
  const RankRun run(q.model, q.training, strategy, {.compute_capability = "9.0"});
  for (auto _ : state) benchmark::DoNotOptimize(run.full());
}
BENCHMARK(timeline)->DenseRange(1, 3);

/// The tape that a run plays, made from the model.
void tape(benchmark::State& state) {
  const Question q = question("meta-llama/Meta-Llama-3-70B", 64, 80);
  const Strategy strategy{.zero_stage = 3, .layout = {.shard = 64}};
  for (auto _ : state) benchmark::DoNotOptimize(record(q.model, q.training, strategy, RankClass{}, "9.0"));
}
BENCHMARK(tape);

void one_plan(benchmark::State& state) {
  const Question q = question("meta-llama/Meta-Llama-3-8B", 8, 80);
  const Strategy strategy{.zero_stage = static_cast<int>(state.range(0)), .layout = {.shard = 8}};
  for (auto _ : state) benchmark::DoNotOptimize(make_plan(q.model, q.cluster, q.training, strategy));
}
BENCHMARK(one_plan)->DenseRange(0, 3);

/// Measures a plan's schedule and time after its memory: prices of loads and calls, calls by kind, the
/// step's time; Llama 3 8B, 32 layers, on two nodes. The run itself is timed below, with a clock and without.
struct TimedRun {
  explicit TimedRun(int stage)
      : q(question("meta-llama/Meta-Llama-3-8B", 16, 80)),
        run(q.model, q.training, {.zero_stage = stage, .layout = {.shard = 16}},
            {.compute_capability = "9.0", .gpus_per_node = 8}) {}

  Question q;
  RankRun run;
};

void schedule_and_time(benchmark::State& state) {
  const TimedRun timed(static_cast<int>(state.range(0)));
  const RunResult played = timed.run.live();
  for (auto _ : state) {
    CostModel cost_model = timed.run.cost_model(timed.q.cluster);
    benchmark::DoNotOptimize(timed.run.time(played, timed.run.schedule(played), cost_model));
  }
}
BENCHMARK(schedule_and_time)->DenseRange(0, 3);

void live_run(benchmark::State& state) {
  const TimedRun timed(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(timed.run.live());
}
BENCHMARK(live_run)->DenseRange(0, 3);

void all_strategies(benchmark::State& state, const char* model, std::int64_t gpus, std::int64_t gib) {
  const Question q = question(model, gpus, gib);
  for (auto _ : state) benchmark::DoNotOptimize(answer(q));
}
BENCHMARK_CAPTURE(all_strategies, 8B_on_5, "8B", 5, 44);
BENCHMARK_CAPTURE(all_strategies, llama3_70B_on_64, "meta-llama/Meta-Llama-3-70B", 64, 80);
BENCHMARK_CAPTURE(all_strategies, qwen3_30B_A3B_on_5, "Qwen/Qwen3-30B-A3B", 5, 44);

// ---- searches: many plans at once

constexpr std::int64_t kMostMicroBatch = 64, kMostAccumulation = 64;

std::vector<std::int64_t> up_to(std::int64_t most) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(most));
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

Question on_h100(const std::string& model, std::int64_t gpus) {
  ClusterRequest request;
  request.gpu = "H100-SXM-80GB", request.gpus = gpus, request.nodes = std::max<std::int64_t>(1, gpus / 8);
  Question q = question(model, 8, 80);
  q.cluster = assemble_cluster(request, built_in_profiles());
  return q;
}

/// Every micro-batch and accumulation up to 64 of a family: memory, traffic and time of each. How many there
/// were.
std::int64_t estimate_all(PlanScreen& screen, const Strategy& strategy) {
  std::int64_t plans = 0;
  PlanFamily family = screen.family(strategy);
  for (const std::int64_t accumulation : up_to(kMostAccumulation)) {
    const std::vector<Estimate> all = family.estimates(up_to(kMostMicroBatch), accumulation);
    benchmark::DoNotOptimize(all.data());
    plans += static_cast<std::int64_t>(all.size());
  }
  return plans;
}

/// Llama 3 8B on 8 GPUs, from nothing: tapes, runs and their programs too; every legal stage, degree, offload
/// and checkpointing. One core.
void plans_of_a_sweep(benchmark::State& state) {
  const Question q = on_h100("meta-llama/Meta-Llama-3-8B", 8);
  std::int64_t plans = 0;
  for (auto _ : state) {
    PlanContext context(q.model, q.cluster, q.training, q.headroom);
    PlanScreen screen(context);
    for (const FamilyReport& each : families(q, {.buckets = {Buckets::hf_auto},
                                                .micro_batch_sizes = {},
                                                .accumulations = {},
                                                .global_batch_size = {}}))
      if (each.outcome != FamilyOutcome::illegal) plans += estimate_all(screen, each.name.strategy);
  }
  state.SetItemsProcessed(plans);
}
BENCHMARK(plans_of_a_sweep)->Unit(benchmark::kMillisecond);

/// Measures one more ZeRO-3 candidate, whose run exists, by the size of the model and the number of GPUs.
void one_more_plan(benchmark::State& state, const char* model, std::int64_t gpus) {
  const Question q = on_h100(model, gpus);
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  PlanScreen screen(context);
  const Strategy strategy{.zero_stage = 3, .layout = {.shard = gpus}};
  PlanFamily family = screen.family(strategy);
  const std::vector<std::int64_t> sizes = up_to(kMostMicroBatch);
  std::int64_t plans = 0, accumulation = 3;
  for (auto _ : state) {
    const std::vector<Estimate> all = family.estimates(sizes, accumulation++);
    benchmark::DoNotOptimize(all.data());
    plans += static_cast<std::int64_t>(all.size());
  }
  state.SetItemsProcessed(plans);
}
/// Measures the first candidate of a family: the tape and the run.
void first_plan(benchmark::State& state, const char* model, std::int64_t gpus) {
  const Question q = on_h100(model, gpus);
  const Strategy strategy{.zero_stage = 3, .layout = {.shard = gpus}};
  for (auto _ : state) {
    PlanContext context(q.model, q.cluster, q.training, q.headroom);
    PlanScreen screen(context);
    benchmark::DoNotOptimize(screen.family(strategy).estimate(1, 1));
  }
}
#define ZPLAN_BY_SIZE(name)                            \
  BENCHMARK_CAPTURE(name, 0.5B_on_1, "0.5B", 1);       \
  BENCHMARK_CAPTURE(name, 8B_on_1, "8B", 1);           \
  BENCHMARK_CAPTURE(name, 8B_on_128, "8B", 128);       \
  BENCHMARK_CAPTURE(name, 8B_on_16384, "8B", 16384);   \
  BENCHMARK_CAPTURE(name, 70B_on_512, "70B", 512);     \
  BENCHMARK_CAPTURE(name, 405B_on_4096, "405B", 4096); \
  BENCHMARK_CAPTURE(name, 1T_on_16384, "1T", 16384)
ZPLAN_BY_SIZE(one_more_plan);
ZPLAN_BY_SIZE(first_plan);

void search_everything(benchmark::State& state, const char* model, std::int64_t gpus) {
  const Question q = on_h100(model, gpus);
  std::size_t candidates = 0;
  for (auto _ : state) candidates += explore(q, {}).candidates;
  state.SetItemsProcessed(static_cast<std::int64_t>(candidates));
}
BENCHMARK_CAPTURE(search_everything, 8B_on_8, "8B", 8)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(search_everything, 70B_on_512, "70B", 512)->Unit(benchmark::kMillisecond)->UseRealTime();

int run_quietly(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0) waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

/// The whole process; beside it one that does nothing, so that the machine's own cost of a process is known.
void whole_process(benchmark::State& state, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{ZPLAN_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (auto _ : state) benchmark::DoNotOptimize(run_quietly(words));
}
BENCHMARK_CAPTURE(whole_process, 8B_on_5, {"--model", "8B", "--gpus", "5", "--mem", "44"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(whole_process, 70B_on_512,
                  {"--model", "70B", "--gpus", "512", "--nodes", "64", "--gpu", "H100-SXM-80GB"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void empty_process(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(run_quietly({"/bin/true"}));
}
BENCHMARK(empty_process)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace zplan

BENCHMARK_MAIN();
