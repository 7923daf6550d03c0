// A pipeline of two stages and two layers: its schedules, what a stage keeps of micro-batches in flight, and
// what stages wait for each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "models/catalogue/catalogue.h"
#include "planner/cost/queues.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/question/framework.h"
#include "planner/sharding/megatron_model.h"
#include "planner/step/step_schedule.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

using Kind = Slot::Kind;

/// Passes of a schedule in order, every repetition written out: "F0 F1 B0 B1 step".
std::string passes(const StepSchedule& schedule) {
  std::string text;
  for (const Round& round : schedule.rounds)
    for (std::int64_t i = 0; i < round.repeats; ++i)
      for (const Slot& slot : round.slots) {
        const std::string number = std::to_string(slot.micro_batch + i * round.begun());
        if (slot.kind == Kind::forward) text += "F" + number + " ";
        if (slot.kind == Kind::backward) text += "B" + number + (slot.last ? "! " : " ");
        if (slot.kind == Kind::step) text += "step ";
      }
  if (!text.empty()) text.pop_back();
  return text;
}

/// A schedule of the test's own: each micro-batch goes through all stages and back before the next begins.
StepSchedule one_at_a_time(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  StepSchedule schedule;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    Round& round = schedule.rounds.emplace_back();
    const auto add = [&](Kind kind) {
      round.slots.push_back({.kind = kind, .micro_batch = i, .last = i + 1 == micro_batches});
    };
    if (stage > 0) add(Kind::receive_hidden);
    add(Kind::forward);
    if (stage + 1 < stages) add(Kind::send_hidden), add(Kind::receive_gradient);
    add(Kind::backward);
    if (stage > 0) add(Kind::send_gradient);
  }
  schedule.rounds.push_back({.slots = {{.kind = Kind::step}}});
  return schedule;
}

TEST(StepSchedules, AccumulateGradients) {
  EXPECT_EQ(passes(accumulate_gradients(1)), "F0 B0! step");
  EXPECT_EQ(passes(accumulate_gradients(2)), "F0 B0 F1 B1! step");
  EXPECT_EQ(passes(accumulate_gradients(5)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4! step");
  EXPECT_EQ(accumulate_gradients(5).rounds.size(), accumulate_gradients(5000).rounds.size());
}

TEST(StepSchedules, RepeatPassesBeforeTheOptimizerStep) {
  EXPECT_EQ(passes(repeated(accumulate_gradients(2), 2, 2)), "F0 B0 F1 B1 F2 B2 F3 B3! step");
  EXPECT_EQ(passes(repeated(one_forward_one_backward(0, 2, 2), 2, 2)), "F0 F1 B0 B1 F2 F3 B2 B3! step");
  EXPECT_EQ(repeated(accumulate_gradients(2), 1, 2), accumulate_gradients(2));
}

TEST(StepSchedules, AccumulateLengths) {
  EXPECT_EQ(passes(accumulate_lengths(4, 2)), "F0 B0 F1 B1! step F0 B0 F1 B1! step");
  EXPECT_EQ(passes(accumulate_lengths(3, 2)), "F0 B0 F1 B1! step F0 B0! step");
  EXPECT_EQ(accumulate_lengths(3, 2).rounds.front().slots.front().tape, 1U);
  EXPECT_EQ(accumulate_lengths(3, 2).rounds.back().slots.front().tape, 0U);
}

TEST(StepSchedules, OneForwardOneBackward) {
  EXPECT_EQ(passes(one_forward_one_backward(0, 2, 4)), "F0 F1 B0 F2 B1 F3 B2 B3! step");
  EXPECT_EQ(passes(one_forward_one_backward(1, 2, 4)), "F0 B0 F1 B1 F2 B2 F3 B3! step");
  EXPECT_EQ(passes(one_forward_one_backward(0, 4, 2)), "F0 F1 B0 B1! step");
  EXPECT_EQ(passes(one_forward_one_backward(1, 4, 6)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5! step");
  EXPECT_EQ(one_forward_one_backward(1, 4, 6).rounds.size(),
            one_forward_one_backward(1, 4, 600).rounds.size());
}

/// Passes with their chunks, "F0.1" for micro-batch 0 in chunk 1, and reductions "R1" of chunks.
std::string chunk_passes(const StepSchedule& schedule) {
  std::string text;
  for (const Round& round : schedule.rounds)
    for (const Slot& slot : round.slots) {
      const std::string place = std::to_string(slot.micro_batch) + "." + std::to_string(slot.tape);
      if (slot.kind == Kind::forward) text += "F" + place + " ";
      if (slot.kind == Kind::backward) text += "B" + place + (slot.last ? "! " : " ");
      if (slot.kind == Kind::reduce) text += "R" + std::to_string(slot.tape) + (slot.last ? "! " : " ");
    }
  if (!text.empty()) text.pop_back();
  return text;
}

TEST(StepSchedules, InterleavedOneForwardOneBackward) {
  const Interleaving two{.stages = 2, .chunks = 2, .micro_batches = 4, .group = 2};
  EXPECT_EQ(chunk_passes(interleaved_one_forward_one_backward(0, two)),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 R1 B2.0 B3.0! R0!");
  EXPECT_EQ(chunk_passes(interleaved_one_forward_one_backward(1, two)),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 R1 B3.0! R0!");
  // A last group of fewer micro-batches, and a step whose forwards all run first.
  EXPECT_EQ(chunk_passes(interleaved_one_forward_one_backward(
                1, {.stages = 2, .chunks = 2, .micro_batches = 5, .group = 3})),
            "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.0 B0.0 F4.0 B1.0 F3.1 B2.0 F4.1 B3.1 B4.1 B3.0 "
            "R1 B4.0! R0!");
  EXPECT_EQ(chunk_passes(interleaved_one_forward_one_backward(
                0, {.stages = 2, .chunks = 2, .micro_batches = 2, .group = 2})),
            "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 R1 B0.0 B1.0! R0!");
}

/// Passes with the parts of the model that they run, "F0.1" for part 0 and micro-batch 1, as torchtitan's
/// actions were recorded: I and W are the parts of a backward in two parts. Losses are left out.
std::string part_passes(const TorchPipeline& of, std::int64_t stage, bool is_v) {
  std::string text;
  const StepSchedule schedule = torch_looped(stage, of);
  for (const Round& round : schedule.rounds)
    for (const Slot& slot : round.slots) {
      const std::int64_t part = slot.tape == 0 ? stage : is_v ? 2 * of.stages - 1 - stage : of.stages + stage;
      const std::map<Kind, std::string> names{{Kind::forward, "F"},
                                              {Kind::backward, "B"},
                                              {Kind::input_gradient, "I"},
                                              {Kind::weight_gradient, "W"},
                                              {Kind::reduce, "R"}};
      const auto name = names.find(slot.kind);
      if (name == names.end()) continue;
      text += (text.empty() ? "" : " ") + name->second + std::to_string(part);
      if (slot.kind != Kind::reduce) text += "." + std::to_string(slot.micro_batch);
    }
  return text;
}

TEST(StepSchedules, BackwardsInTwoPartsRunAsTorchtitansDo) {
  using Order = TorchPipeline::Order;
  const TorchPipeline zero_bubble{.stages = 2, .micro_batches = 8, .order = Order::zero_bubble_v};
  EXPECT_EQ(part_passes(zero_bubble, 0, true),
            "F0.0 F0.1 F0.2 F3.0 I3.0 W3.0 F3.1 I3.1 W3.1 F0.3 I0.0 W0.0 F3.2 I3.2 W3.2 F0.4 I0.1 W0.1 F3.3 "
            "I3.3 W3.3 F0.5 I0.2 W0.2 F3.4 I3.4 W3.4 F0.6 I0.3 W0.3 F3.5 I3.5 W3.5 F0.7 I0.4 W0.4 F3.6 I3.6 "
            "W3.6 I0.5 W0.5 F3.7 I3.7 W3.7 R3 I0.6 W0.6 I0.7 W0.7 R0");
  const TorchPipeline dual{.stages = 2, .micro_batches = 8, .order = Order::dual_pipe_v};
  EXPECT_EQ(part_passes(dual, 0, true),
            "F0.0 F0.1 F0.2 F3.0 I3.0 W3.0 F3.1 F0.3 B3.1 F3.2 B0.0 F0.4 B3.2 F3.3 B0.1 F0.5 B3.3 F3.4 B0.2 "
            "F0.6 B3.4 F3.5 B0.3 F0.7 B3.5 F3.6 B0.4 B3.6 F3.7 B0.5 B3.7 R3 I0.6 W0.6 I0.7 W0.7 R0");
  const TorchPipeline interleaved{.stages = 2, .micro_batches = 8, .order = Order::interleaved_zero_bubble};
  EXPECT_EQ(part_passes(interleaved, 1, false),
            "F1.0 F1.1 F3.0 I3.0 F3.1 I3.1 W3.0 F1.2 I1.0 W3.1 F1.3 I1.1 W1.0 F3.2 I3.2 W1.1 F3.3 I3.3 W3.2 "
            "F1.4 I1.2 W3.3 F1.5 I1.3 W1.2 F3.4 I3.4 W1.3 F3.5 I3.5 W3.4 F1.6 I1.4 W3.5 F1.7 I1.5 W1.4 F3.6 "
            "I3.6 W1.5 F3.7 I3.7 W3.6 I1.6 W3.7 R3 I1.7 W1.6 W1.7 R1");
  // A micro-batch whose backward is in two parts is one from its forward on; the last rank passes on to
  // itself.
  const StepSchedule first = torch_looped(0, dual), last = torch_looped(1, zero_bubble);
  for (const Slot& slot : first.rounds.front().slots)
    if (slot.kind == Kind::forward) {
      EXPECT_EQ(slot.is_split, slot.tape == 0 ? slot.micro_batch > 5 : slot.micro_batch == 0);
    }
  std::size_t local = 0;
  for (const Slot& slot : last.rounds.front().slots) local += slot.is_local ? 1U : 0U;
  EXPECT_EQ(local, 16U);
}

/// The program of a rank that runs `schedule` by loads 0 (forward), 1 (backward) and 2 (each part of a
/// backward in two parts), and sends call 0.
StepProgram program_of(const StepSchedule& schedule, std::int32_t stage, std::int32_t stages) {
  const Call call{.operation = Operation::send_recv, .group = Group::pipeline, .group_size = 2};
  const std::int32_t before = (stage + stages - 1) % stages, behind = (stage + 1) % stages;
  Clock clock;
  clock.begin_step();
  std::map<std::pair<std::int64_t, std::size_t>, Instant> received;
  for (const Round& round : schedule.rounds) {
    if (round.steady) clock.begin_repeated();
    for (const Slot& slot : round.slots) {
      Instant& there = received[{slot.micro_batch, slot.tape}];
      if (slot.is_local) continue;
      const std::int32_t next = slot.is_backwards ? before : behind, last = before + behind - next;
      switch (slot.kind) {
        case Kind::receive_hidden: there = clock.receive(call, last, -1); break;
        case Kind::receive_gradient: there = clock.receive(call, next, -1); break;
        case Kind::send_hidden: static_cast<void>(clock.send(call, next, clock.computed(), -1)); break;
        case Kind::send_gradient: static_cast<void>(clock.send(call, last, clock.computed(), -1)); break;
        case Kind::forward: clock.wait(there, Phase::forward), clock.compute(0); break;
        case Kind::backward: clock.wait(there, Phase::backward), clock.compute(1); break;
        case Kind::input_gradient: clock.wait(there, Phase::backward), clock.compute(2); break;
        case Kind::weight_gradient: clock.compute(2); break;
        default: break;
      }
    }
    if (round.steady) clock.end_repeated(round.repeats);
  }
  clock.end_micro_steps();
  return clock.program();
}

/// Seconds until the last of `programs` is through.
double time_of(const std::vector<StepProgram>& programs, const Durations<double>& takes) {
  std::vector<RankProgram> ranks;
  for (const StepProgram& each : programs) ranks.push_back({&each, &takes});
  double last = 0;
  for (const PlayedStep& each : play(ranks)) last = std::max(last, run_time(each, 1).step.value);
  return last;
}

Durations<double> durations_of(double forward, double backward, double transfer) {
  Durations<double> takes{.calls = {transfer}, .memory_bytes_per_second = 1};
  takes.loads.resize(3);
  takes.loads[0].products = forward, takes.loads[1].products = backward;
  takes.loads[2].products = backward / 2;
  return takes;
}

using Make = StepSchedule (*)(std::int64_t, std::int64_t, std::int64_t);
double time_of(Make make, std::int64_t stages, std::int64_t micro_batches, double transfer) {
  std::vector<StepProgram> programs;
  for (std::int64_t i = 0; i < stages; ++i)
    programs.push_back(program_of(make(i, stages, micro_batches), static_cast<std::int32_t>(i),
                                  static_cast<std::int32_t>(stages)));
  return time_of(programs, durations_of(1, 2, transfer));
}
double time_of(const Interleaving& of, double transfer) {
  std::vector<StepProgram> programs;
  for (std::int64_t i = 0; i < of.stages; ++i)
    programs.push_back(program_of(interleaved_one_forward_one_backward(i, of), static_cast<std::int32_t>(i),
                                  static_cast<std::int32_t>(of.stages)));
  return time_of(programs, durations_of(1, 2, transfer));
}

TEST(StagesInQueues, WaitForEachOtherAsTheClosedFormSays) {
  for (const std::int64_t stages : {1, 2, 3, 4, 8})
    for (const std::int64_t micro_batches : {8, 9, 64}) {
      const double bubble = static_cast<double>(stages - 1) * 3;
      EXPECT_DOUBLE_EQ(time_of(one_forward_one_backward, stages, micro_batches, 0),
                       static_cast<double>(micro_batches) * 3 + bubble)
          << stages << " stages, " << micro_batches << " micro-batches";
    }
}

TEST(StagesInQueues, WaitLessWithChunksAsTheClosedFormSays) {
  for (const std::int64_t stages : {2, 3, 4, 8})
    for (const std::int64_t chunks : {2, 3, 5})
      for (const std::int64_t groups : {1, 2, 7}) {
        const std::int64_t micro_batches = groups * stages;
        for (const bool overlaps_ends : {false, true}) {
          const Interleaving of{.stages = stages,
                                .chunks = chunks,
                                .micro_batches = micro_batches,
                                .group = stages,
                                .overlaps_ends = overlaps_ends};
          EXPECT_DOUBLE_EQ(time_of(of, 0), static_cast<double>(micro_batches * chunks + stages - 1) * 3)
              << stages << " stages, " << chunks << " chunks, " << micro_batches << " micro-batches";
        }
      }
}

// Where a forward and both parts of a backward take as long, (p − 1)·(F + I − W) is idle under zero-bubble
// schedules (arXiv 2401.10241, table 2), (p − 1)·(F&B + B − 3·W) under DualPipeV (deepseek-ai/DualPipe), and
// three times the former where backwards are whole.
TEST(StagesInQueues, WaitLessWithBackwardsInTwoPartsAsTheClosedFormsSay) {
  using Order = TorchPipeline::Order;
  for (const auto& [order, idle] :
       {std::pair(Order::interleaved, 3), std::pair(Order::interleaved_zero_bubble, 1),
        std::pair(Order::zero_bubble_v, 1), std::pair(Order::dual_pipe_v, 2)})
    for (const std::int64_t stages : {2, 3, 4, 8})
      for (const std::int64_t micro_batches : {2 * stages, 8 * stages}) {
        std::vector<StepProgram> programs;
        for (std::int64_t i = 0; i < stages; ++i)
          programs.push_back(
              program_of(torch_looped(i, {.stages = stages, .micro_batches = micro_batches, .order = order}),
                         static_cast<std::int32_t>(i), static_cast<std::int32_t>(stages)));
        EXPECT_DOUBLE_EQ(time_of(programs, durations_of(1, 2, 0)),
                         static_cast<double>(6 * micro_batches + (stages - 1) * idle))
            << static_cast<int>(order) << ": " << stages << " stages, " << micro_batches << " micro-batches";
      }
}

TEST(StagesInQueues, RunGroupsOfAnySizeThatMegatronTakes) {
  for (const std::int64_t stages : {3, 4, 5})
    for (const bool overlaps : {false, true})
      for (std::int64_t group = stages; group <= 2 * stages; ++group)
        for (std::int64_t micro_batches = group; micro_batches < 5 * group; ++micro_batches) {
          if (const std::int64_t over = micro_batches % group; over > 0 && over < stages) continue;
          const Interleaving of{.stages = stages,
                                .chunks = 3,
                                .micro_batches = micro_batches,
                                .group = group,
                                .overlaps = overlaps};
          EXPECT_GE(time_of(of, 0), static_cast<double>(micro_batches * 3 + stages - 1) * 3);
          EXPECT_LE(time_of(of, 0), static_cast<double>(micro_batches * 3 + 2 * (stages - 1)) * 3);
        }
}

TEST(StagesInQueues, WaitForWhatIsUnderWay) {
  // Two micro-batches are under way at a time: each pair of them waits for a transfer there and one back.
  EXPECT_DOUBLE_EQ(time_of(one_forward_one_backward, 2, 4, 0.25), 4 * 3 + 3 + 2 * (2 * 0.25));
}

TEST(StagesInQueues, RunAnyOtherSchedule) {
  EXPECT_DOUBLE_EQ(time_of(one_at_a_time, 2, 4, 0.25), 4 * (2 * 3 + 2 * 0.25));
}

TEST(StagesInQueues, AreRefusedWhereBothWait) {
  const Call call{.operation = Operation::send_recv, .group = Group::pipeline, .group_size = 2};
  std::vector<StepProgram> programs;
  for (const std::int32_t peer : {1, 0}) {
    Clock clock;
    clock.begin_step();
    const Instant there = clock.receive(call, peer, -1);
    clock.wait(there, Phase::forward);
    static_cast<void>(clock.send(call, peer, clock.computed(), -1));
    programs.push_back(clock.program());
  }
  EXPECT_THROW(static_cast<void>(time_of(programs, durations_of(1, 2, 0))), std::logic_error);
}

class Pipeline : public ::testing::Test {
 protected:
  static constexpr std::int64_t kStages = 2, kMicroBatches = 4;

  Pipeline() {
    training_.framework = Framework::torch;
    training_.sequence_length = 64;
    strategy_.gradient_accumulation_steps = kMicroBatches;
  }
  [[nodiscard]] RankRun stage(std::int64_t which) const {
    return {model_, training_, strategy_, RankRun::target_of(cluster_), which};
  }
  static RunResult live(const RankRun& run, const StepSchedule& schedule) {
    RunInputs inputs = run.inputs();
    inputs.schedule = &schedule;
    return simulate_live(inputs);
  }
  static RunResult by_allocator(const RankRun& run, const StepSchedule& schedule) {
    RunInputs inputs = run.inputs();
    inputs.schedule = &schedule;
    return simulate(inputs);
  }
  /// Returns the bytes that a stage keeps of a micro-batch while another one runs.
  static Bytes kept(const RankRun& run) {
    struct Sum {
      void section(int, bool) {}
      void delta(const MemoryDelta& delta, std::int32_t) { bytes += delta.net_total; }
      void gradient(int, std::int32_t, Bytes, Term) {}
      void part_of_gradient(int, std::int32_t, Bytes, Term) {}
      void module(const Event&, int) {}
      void workspace(std::int32_t) {}
      void phase(Phase) {}
      Bytes bytes;
    } sum;
    play_forward(run.recording().condensed, sum);
    return sum.bytes + token_ids(1, run.training().sequence_length);
  }

  Model model_ = tiny_llama({{"hidden", 256},
                             {"ffn", 512},
                             {"layers", 2},
                             {"heads", 4},
                             {"kv", 4},
                             {"vocab", 128},
                             {"tie", false}});
  Cluster cluster_ = roomy_cluster(kStages);
  Training training_;
  Strategy strategy_{.layout = {.pipeline = kStages}};
};

TEST_F(Pipeline, DividesTheModelAmongStages) {
  const RankRun first = stage(0), last = stage(1);
  EXPECT_EQ(first.place().stage, 0);
  EXPECT_EQ(last.place().stage, 1);
  EXPECT_EQ(first.model().inventory.layers.size(), 1U);
  EXPECT_FALSE(first.model().inventory.before.empty());
  EXPECT_TRUE(first.model().inventory.after.empty());
  EXPECT_TRUE(last.model().inventory.before.empty());
  EXPECT_EQ(elements(first.model().inventory) + elements(last.model().inventory), elements(model_.inventory));
  const auto computes_loss = [](const RankRun& run) {
    return std::ranges::any_of(run.recording().tape.head, [](const Event& each) {
      return each.kind == Event::Kind::phase && each.index == static_cast<std::int32_t>(Phase::loss);
    });
  };
  EXPECT_FALSE(computes_loss(first));
  EXPECT_TRUE(computes_loss(last));
}

TEST_F(Pipeline, KeepsAsManyMicroBatchesAsStagesFollow) {
  for (std::int64_t i = 0; i < kStages; ++i) {
    const RankRun run = stage(i);
    const StepSchedule one = one_at_a_time(i, kStages, kMicroBatches);
    const StepSchedule overlapped = one_forward_one_backward(i, kStages, kMicroBatches);
    const Bytes more = i == 0 ? kept(run) : Bytes{};
    EXPECT_GT(kept(run), Bytes{});
    EXPECT_EQ(live(run, overlapped).peak_allocated - live(run, one).peak_allocated, more) << "stage " << i;
    EXPECT_EQ(by_allocator(run, overlapped).peak.bytes() - by_allocator(run, one).peak.bytes(), more);
    EXPECT_EQ(live(run, overlapped).left, live(run, one).left);
    EXPECT_EQ(live(run, overlapped).left[Term::saved_activations], Bytes{});
  }
}

TEST_F(Pipeline, NeedsTheSameWhetherItsTapeIsCondensedOrNot) {
  for (std::int64_t i = 0; i < kStages; ++i) {
    const RankRun run = stage(i);
    const RunInputs inputs = run.inputs();
    const RunResult whole = simulate_live_from_whole_tape(inputs), condensed = simulate_live(inputs);
    EXPECT_EQ(condensed.peak_allocated, whole.peak_allocated) << "stage " << i;
    EXPECT_EQ(condensed.left, whole.left);
    EXPECT_EQ(condensed.program, whole.program);
    EXPECT_EQ(condensed.calls, whole.calls);
  }
}

TEST_F(Pipeline, IsSimulatedOnceForEquallyManyInFlight) {
  const RankRun run = stage(0);
  const RunResult few = live(run, one_forward_one_backward(0, kStages, 6));
  const RunResult many = live(run, one_forward_one_backward(0, kStages, 600));
  EXPECT_EQ(few.peak_allocated, many.peak_allocated);
  EXPECT_EQ(few.program.events.size(), many.program.events.size());
}

TEST_F(Pipeline, TakesTheTimeOfBothStagesTogether) {
  std::vector<RunResult> played;
  std::vector<Durations<double>> takes;
  for (std::int64_t i = 0; i < kStages; ++i) {
    const RankRun run = stage(i);
    played.push_back(run.live());
    // A second for the forward's first load and two for that of the backward: nothing else takes time.
    Durations<double> each{.calls = std::vector<double>(played.back().program.calls.size()),
                           .memory_bytes_per_second = 1e30};
    each.loads.resize(run.recording().tape.loads.size());
    const TapePart& layer = run.recording().tape.classes.front();
    const auto first_load = [](const std::vector<Event>& events) {
      return static_cast<std::size_t>(std::ranges::find(events, Event::Kind::compute, &Event::kind)->index);
    };
    each.loads[first_load(layer.forward)].products = 1, each.loads[first_load(layer.backward)].products = 2;
    takes.push_back(std::move(each));
  }
  std::vector<RankProgram> ranks;
  for (std::size_t i = 0; i < played.size(); ++i) ranks.push_back({&played[i].program, &takes[i]});
  const std::vector<PlayedStep> times = play(ranks);
  EXPECT_NEAR(run_time(times[0], 1).step.value, kMicroBatches * 3 + (kStages - 1) * 3, 1e-6);
  EXPECT_NEAR(run_time(times[1], 1).step.value, kMicroBatches * 3 + 1, 1e-6);
  // By itself a stage waits for nobody.
  EXPECT_NEAR(run_time(play(played[0].program, takes[0]), kMicroBatches - 3).step.value, kMicroBatches * 3,
              1e-6);
}

TEST_F(Pipeline, IsAsWellUsedForATokenAsTheModelUndivided) {
  const StepTime staged = make_plan(model_, cluster_, training_, strategy_).time;
  const StepTime undivided = make_plan(model_, cluster_, training_, {.layout = {.shard = kStages}}).time;
  EXPECT_NEAR(staged.mfu / staged.tokens_per_second, undivided.mfu / undivided.tokens_per_second,
              1e-9 * undivided.mfu / undivided.tokens_per_second);
}

TEST_F(Pipeline, IsPlannedRankByRank) {
  const Plan plan = make_plan(model_, cluster_, training_, strategy_);
  ASSERT_EQ(plan.ranks.size(), 2U);
  EXPECT_EQ(plan.ranks[0].place.stage, 0);
  EXPECT_EQ(plan.ranks[1].place.stage, 1);
  EXPECT_EQ(plan.memory().required, std::max(plan.ranks[0].memory.required, plan.ranks[1].memory.required));
  EXPECT_EQ(plan.slowest().through, std::max(plan.ranks[0].through, plan.ranks[1].through));
  EXPECT_GE(plan.time.step, plan.ranks[1].through);
  for (const RankPlan& each : plan.ranks) EXPECT_FALSE(each.communication.collectives.empty());
  EXPECT_TRUE(plan.fits);
}

TEST_F(Pipeline, PlacesRanksOfTheWorld) {
  const ParallelLayout layout{.tensor = 2, .shard = 2, .pipeline = 2};
  EXPECT_EQ(class_of(layout, 0), (RankClass{}));
  EXPECT_EQ(class_of(layout, 3), (RankClass{.tensor = 1, .slice = 1}));
  EXPECT_EQ(class_of(layout, 5), (RankClass{.stage = 1, .tensor = 1}));
  EXPECT_EQ(rank_classes(layout).size(), 2U);
}

/// Two stages of two chunks of one layer each, under Megatron-Core.
class Interleaved : public ::testing::Test {
 protected:
  static constexpr std::int64_t kStages = 2;

  Interleaved() {
    training_ = with_framework({}, Framework::megatron);
    training_.sequence_length = 64;
    strategy_.zero_stage = 1;
    strategy_.megatron = recommended_megatron_options();
    strategy_.gradient_accumulation_steps = 4;
  }
  [[nodiscard]] RankRun stage(std::int64_t which) const {
    return {model_, training_, strategy_, RankRun::target_of(cluster_), which};
  }
  /// Seconds until each stage is through, where every load takes a second and every call a fifth.
  static std::vector<double> through(const std::vector<RunResult>& played) {
    std::vector<Durations<double>> takes;
    std::vector<RankProgram> ranks;
    takes.reserve(played.size());
    for (const RunResult& each : played) {
      takes.push_back(
          {.calls = std::vector<double>(each.program.calls.size(), 0.2), .memory_bytes_per_second = 1e30});
      std::int32_t loads = 0;
      for (const ClockEvent& event : each.program.events)
        if (event.kind == ClockEvent::Kind::compute) loads = std::max(loads, event.index + 1);
      takes.back().loads.resize(static_cast<std::size_t>(loads), {.products = 1});
      ranks.push_back({&each.program, &takes.back()});
    }
    std::vector<double> times;
    for (const PlayedStep& each : play(ranks)) times.push_back(run_time(each, 1).step.value);
    return times;
  }

  Model model_ = tiny_llama({{"hidden", 256},
                             {"ffn", 512},
                             {"layers", 4},
                             {"heads", 4},
                             {"kv", 4},
                             {"vocab", 128},
                             {"tie", false}});
  Cluster cluster_ = roomy_cluster(kStages);
  Training training_;
  Strategy strategy_{.layout = {.pipeline = kStages, .virtual_stages = 2}};
};

TEST_F(Interleaved, GivesEachStageTwoChunksOfTheModel) {
  const RankRun first = stage(0), last = stage(1);
  EXPECT_EQ(chunk_layers(4, strategy_, 0)[1].first, 2);
  EXPECT_EQ(chunk_layers(4, strategy_, 1)[1].first, 3);
  EXPECT_EQ(first.model().inventory.layers.size(), 2U);
  EXPECT_EQ(first.recording().chunks(), 2U);
  EXPECT_EQ(first.rank().tensors.front().chunk, 0U);
  EXPECT_EQ(first.rank().tensors.back().chunk, 1U);
  EXPECT_EQ(last.rank().tensors.front().chunk, 0U);
  EXPECT_EQ(last.rank().tensors.back().chunk, 1U);
  EXPECT_EQ(elements(first.model().inventory) + elements(last.model().inventory),
            elements(megatron_model(model_, {}).inventory));
  strategy_.megatron->layers_of_chunks = {1, 1, 0, 2};
  EXPECT_EQ(chunk_layers(4, strategy_, 1)[1].first, 2);
  EXPECT_EQ(chunk_layers(4, strategy_, 1)[1].end, 4);
}

/// Expects that a rank needs and sends the same over whole tapes and over condensed ones.
void expect_same_condensed(const RankRun& run) {
  const RunInputs inputs = run.inputs();
  const RunResult whole = simulate_live_from_whole_tape(inputs), condensed = simulate_live(inputs);
  EXPECT_EQ(condensed.peak_allocated, whole.peak_allocated) << "stage " << run.place().stage;
  EXPECT_EQ(condensed.left, whole.left);
  EXPECT_EQ(condensed.program.events.size(), whole.program.events.size());
  EXPECT_EQ(condensed.calls, whole.calls);
}

TEST_F(Interleaved, NeedsTheSameWhetherItsTapesAreCondensedOrNot) {
  for (std::int64_t i = 0; i < kStages; ++i) expect_same_condensed(stage(i));
}

TEST_F(Interleaved, GroupsThatAreAlikeAreWrittenOnce) {
  strategy_.gradient_accumulation_steps = 40;
  std::vector<RunResult> folded, whole;
  for (std::int64_t i = 0; i < kStages; ++i) {
    const RankRun run = stage(i);
    RunInputs inputs = run.inputs();
    folded.push_back(simulate_live(inputs));
    const StepSchedule every = unfolded(*inputs.schedule);
    inputs.schedule = &every;
    whole.push_back(simulate_live(inputs));
    EXPECT_LT(3 * folded.back().program.events.size(), whole.back().program.events.size());
    EXPECT_EQ(folded.back().peak_allocated, whole.back().peak_allocated) << "stage " << i;
    EXPECT_EQ(folded.back().left, whole.back().left);
  }
  const std::vector<double> once = through(folded), all = through(whole);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(once[i], all[i], 1e-9 * all[i]) << "stage " << i;
}

/// torchtitan's pipeline of two stages, whose backwards are in two parts.
class BackwardsInTwoParts : public ::testing::TestWithParam<PipelineSchedule> {
 protected:
  static constexpr std::int64_t kStages = 2;

  BackwardsInTwoParts() {
    training_.sequence_length = 64;
    strategy_.zero_stage = 3;
    strategy_.layout = {.shard = 2, .pipeline = kStages, .virtual_stages = 2};
    strategy_.gradient_accumulation_steps = 8;
    strategy_.torchtitan = TitanOptions{.attention = TitanAttention::varlen, .schedule = GetParam()};
  }
  [[nodiscard]] RankRun stage(std::int64_t which) const {
    return {model_, training_, strategy_, RankRun::target_of(roomy_cluster(4)), RankClass{.stage = which}};
  }
  [[nodiscard]] Reasons warnings() const {
    return spec(Framework::torchtitan).strategy_warnings(training_, strategy_);
  }

  Model model_ = tiny_llama(
      {{"hidden", 64}, {"ffn", 128}, {"layers", 6}, {"heads", 4}, {"kv", 2}, {"vocab", 512}, {"tie", false}});
  Training training_ = with_framework({}, Framework::torchtitan);
  Strategy strategy_;
};

TEST_P(BackwardsInTwoParts, NeedTheSameWhetherTapesAreCondensedOrNot) {
  for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full})
    for (const std::int64_t slices : {0, 8})
      for (std::int64_t i = 0; i < kStages; ++i) {
        strategy_.checkpointing = checkpointing, strategy_.torchtitan->loss_chunks = slices;
        expect_same_condensed(stage(i));
      }
}

// The loss in slices releases the norm before the first part of a backward looks for it.
TEST_P(BackwardsInTwoParts, LeaveTheFinalNormOutWithTheLossInSlices) {
  const std::int64_t last = is_v_shaped(GetParam()) ? 0 : kStages - 1;
  const Elements in_slices = stage(last).shard().optimizer_elements;
  strategy_.torchtitan->loss_chunks = 0;
  const Elements lost = stage(last).shard().optimizer_elements - in_slices;
  EXPECT_EQ(lost.value, GetParam() == PipelineSchedule::dual_pipe_v ? 0 : 64 / 2);
}

TEST_P(BackwardsInTwoParts, WarnOfWhatTheyChange) {
  EXPECT_EQ(warnings().size(), 2U);
  strategy_.checkpointing = Checkpointing::none;
  EXPECT_EQ(warnings().size(), 1U);
  strategy_.torchtitan->loss_chunks = 0;
  EXPECT_EQ(warnings().size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(OfTorchtitan, BackwardsInTwoParts,
                         ::testing::Values(PipelineSchedule::interleaved_zero_bubble,
                                           PipelineSchedule::zero_bubble_v, PipelineSchedule::dual_pipe_v));

// 38 layers, embedding and head counted: 10 a stage make 4 stages, 5 make 8, and none makes 12. Two parts on
// a rank are torchtitan's own choice.
TEST(TorchtitanStages, AreAsManyAsLayersOfAStageMake) {
  const Model model = resolve_model("Qwen/Qwen3-8B", {});
  const Training training = with_framework({}, Framework::torchtitan);
  Strategy strategy{.zero_stage = 3, .layout = {.pipeline = 4, .virtual_stages = 3}};
  strategy.torchtitan.emplace().schedule = PipelineSchedule::interleaved;
  strategy.gradient_accumulation_steps = 8;
  const auto refused = [&](World world) {
    std::string all;
    for (const std::string& each : why_illegal(model, training, strategy, world)) all += each + "\n";
    return all;
  };
  EXPECT_EQ(refused({4, 4}),
            "no pipeline_parallel_layers_per_stage divides 38 layers, with what counts for the first and the "
            "last, into 12 "
            "parts; --vpp 1, 2\n");
  strategy.layout.virtual_stages = 2;
  EXPECT_EQ(refused({4, 4}), "");
  strategy.layout.pipeline = 2, strategy.layout.virtual_stages = 5;
  EXPECT_EQ(refused({2, 2}), "") << "4 layers a stage";
}

}  // namespace
}  // namespace zplan::testing
