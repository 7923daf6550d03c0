// Times worked out by hand: what queues wait for, what is hidden, what is not.

#include "planner/cost/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/offload_time.h"
#include "planner/cost/queues.h"
#include "planner/cost/schedule.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_context.h"
#include "planner/sharding/shard.h"
#include "planner/step/host_time.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

/// A tape of two loads that take 1 s and 0.25 s on a device that does 1 TFLOP/s and reaches all of it.
class Clocks : public ::testing::Test {
 protected:
  static constexpr double kTera = 1e12;

  Clocks() {
    cluster_.gpu.bf16 = FlopsPerSecond(kTera);
    cluster_.gpu.efficiency = Efficiency{.products = 1, .attention = 1, .memory = 1};
    tape_.loads = {load(kTera, 0), load(kTera / 4, 100'000)};
  }
  static Load load(double flops, std::int64_t nodes) {
    Load made;
    made.attention_forward = Flops(flops);
    made.nodes = nodes;
    return made;
  }
  [[nodiscard]] CostModel cost_model() const { return {tape_, cluster_, training_, strategy_}; }
  [[nodiscard]] RunTime time(const Clock& clock, std::int64_t micro_steps = 1) const {
    CostModel cost_model = this->cost_model();
    Strategy strategy = strategy_;
    strategy.gradient_accumulation_steps = micro_steps;
    return run_time(clock.program(), cost_model, strategy);
  }
  static Call gather(std::int64_t elements) {
    return {.operation = Operation::all_gather,
            .group_size = 8,
            .dtype = "bfloat16",
            .element = Bytes(2),
            .purpose = "test",
            .elements = Elements(elements)};
  }
  static constexpr std::int32_t kLong = 0, kIssuedSlowly = 1;

  Tape tape_;
  Cluster cluster_ = roomy_cluster(8);
  Training training_;
  Strategy strategy_{.layout = {.shard = 8}};
};

TEST_F(Clocks, TheDeviceWaitsForAHostThatIsSlower) {
  Clock clock;
  clock.begin_step();
  clock.compute(kIssuedSlowly);
  const double issued = host_time::kNode.value * 100'000;
  EXPECT_NEAR(time(clock).step.value, issued, 1e-9);
  EXPECT_NEAR(time(clock).launching.value, issued - 0.25, 1e-9);
  EXPECT_NEAR(time(clock).attention.value, 0.25, 1e-9);
}

TEST_F(Clocks, AHostThatIsAheadDoesNotShow) {
  Clock clock;
  clock.begin_step();
  clock.compute(kLong), clock.compute(kLong);
  clock.compute(kIssuedSlowly);
  EXPECT_NEAR(time(clock).step.value, 2.25, 1e-9);
  EXPECT_EQ(time(clock).launching, Seconds(0));
}

TEST_F(Clocks, OnlyWhatOutlastsComputeIsExposed) {
  CostModel cost_model = this->cost_model();
  const double takes = cost_model.call(gather(1'000'000'000)).value;
  ASSERT_GT(takes, 1e-3);
  for (const int loads : {0, 1}) {
    Clock clock;
    clock.begin_step();
    const Instant done = clock.issue(gather(1'000'000'000), {});
    for (int i = 0; i < loads; ++i) clock.compute(kLong);
    clock.wait(done, Phase::forward);
    EXPECT_NEAR(time(clock).exposed_communication().value, std::max(0.0, takes - loads), 1e-9);
    EXPECT_NEAR(time(clock).step.value, std::max(takes, static_cast<double>(loads)), 1e-9);
    EXPECT_NEAR(time(clock).communication.value, takes, 1e-9);
  }
}

TEST_F(Clocks, CollectivesOfOneGroupRunOneBehindTheOther) {
  CostModel cost_model = this->cost_model();
  const double takes = cost_model.call(gather(1'000'000)).value;
  Clock clock;
  clock.begin_step();
  static_cast<void>(clock.issue(gather(1'000'000), {}));
  clock.wait(clock.issue(gather(1'000'000), {}), Phase::forward);
  EXPECT_NEAR(time(clock).step.value, 2 * takes, 1e-12);
}

TEST_F(Clocks, ACallThatNeedsWhatIsComputedWaitsForIt) {
  CostModel cost_model = this->cost_model();
  const double takes = cost_model.call(gather(1'000'000)).value;
  Clock clock;
  clock.begin_step();
  for (int i = 0; i < 5; ++i) clock.compute(kLong);
  clock.wait(clock.issue(gather(1'000'000), clock.computed()), Phase::forward);
  EXPECT_NEAR(time(clock).step.value, 5 + takes, 1e-9);
}

TEST_F(Clocks, MomentsOfAnEarlierStepAreOver) {
  Clock clock;
  clock.begin_step();
  const Instant earlier = clock.issue(gather(1'000'000'000), {});
  clock.begin_step();
  clock.wait(earlier, Phase::forward);
  EXPECT_EQ(time(clock).step, Seconds(0));
}

TEST_F(Clocks, RepeatedMicroStepsCountAsOftenAsTheyRun) {
  Clock clock;
  clock.begin_step();
  clock.compute(kLong);
  clock.begin_repeated();
  clock.compute(kLong);
  clock.end_repeated();
  EXPECT_NEAR(time(clock, 6).step.value, 5, 1e-9);
  EXPECT_NEAR(time(clock, 6).attention.value, 5, 1e-9);
}

/// Whole steps of a small model.
class StepTimes : public ::testing::Test {
 protected:
  StepTimes() { training_.sequence_length = 2048; }
  [[nodiscard]] StepTime time(Strategy s) const {
    if (s.layout.data_ranks() == 1) s.layout.shard = cluster_.gpus / s.layout.tensor;
    return PlanContext(model_, cluster_, training_, Headroom{}).time(s);
  }

  Model model_ = tiny_llama({{"hidden", 1024},
                             {"layers", 8},
                             {"heads", 16},
                             {"kv", 16},
                             {"ffn", 4096},
                             {"vocab", 32'000},
                             {"tie", false}});
  Training training_;
  Cluster cluster_ = roomy_cluster(8);
};

// 2·P + 4·L·a·d·s per token forward; P counts matrices of products, the head included, the embedding not.
TEST_F(StepTimes, FlopsAreCountedAsPaLMDoes) {
  const Strategy s;
  const double matrices = 8.0 * (4 * 1024 * 1024 + 3 * 1024 * 4096) + 1024.0 * 32'000;
  const double forward = (2 * matrices + 4.0 * 8 * 1024 * 2048) * 2048;
  EXPECT_DOUBLE_EQ(micro_step_flops(model_, training_, s).model.value, 3 * forward);
  EXPECT_DOUBLE_EQ(micro_step_flops(model_, training_, s).hardware.value, 4 * forward);
}

TEST_F(StepTimes, TheTapesProductsAreThoseOfTheModel) {
  cluster_.gpu.efficiency = Efficiency{.products = 1, .attention = 1, .memory = 1};
  cluster_.kernels.tail = 0;
  const Strategy s{.checkpointing = Checkpointing::none, .micro_batch_size = 8};
  const double matrices = 8.0 * (4 * 1024 * 1024 + 3 * 1024 * 4096) + 1024.0 * 32'000;
  EXPECT_NEAR(time(s).run.products.value, 3 * 2 * matrices * 2048 * 8 / 312e12, 1e-6);
  // Causal attention sees half of all pairs, and its backward is two and a half times its forward.
  const double pairs = 2048.0 * 2049 / 2;
  EXPECT_NEAR(time(s).run.attention.value, 3.5 * 4 * 8 * 1024 * pairs * 8 / 312e12, 1e-6);
}

// GPT-2 of transformers 4 reads and writes each layer's scores once more forward; backward zeros are written,
// and read with the gradient.
TEST(ScoresOfGpt2, PassTorchWhereInOlderReleases) {
  const Json config = {
      {"model_type", "gpt2"}, {"n_embd", 768}, {"n_layer", 12}, {"n_head", 12}, {"vocab_size", 50'257}};
  const Model model = read_config(JsonReader(config, "GPT-2"));
  Cluster cluster = roomy_cluster(1);
  cluster.kernels.gap = Seconds{};
  Training training;
  training.precision = Precision::fp16;
  training.attention = Attention::eager;
  training.sequence_length = 1024;
  const Strategy strategy{.checkpointing = Checkpointing::none, .micro_batch_size = 4};
  const auto others = [&] {
    return PlanContext(model, cluster, training, Headroom{}).time(strategy).run.other.value;
  };
  const double today = others();
  training.masks_by_where = true;
  const double scores = 2.0 * 4 * 12 * 1024 * 1024, passes = 2 + 4;
  const double bytes = 12 * passes * scores;
  EXPECT_NEAR(others() - today, bytes / KernelRates(cluster, training).memory().value, 1e-6);
}

/// Products of one layer of 16 K tokens on a GPU without an end of its waves.
class ProductTimes : public ::testing::Test {
 protected:
  ProductTimes() {
    cluster_.gpu.efficiency = Efficiency{.products = 1, .attention = 1, .memory = 1};
    cluster_.gpu.multiprocessors = 100;
    cluster_.kernels.tail = 0.5;
  }
  [[nodiscard]] double seconds(const Product& product) const {
    return KernelRates(cluster_, training_).time(product).value;
  }
  Training training_;
  Cluster cluster_ = roomy_cluster(8);
};

TEST_F(ProductTimes, TakeTheirOperationsAndHalfAWave) {
  const Product large{.rows = 12'800, .inner = 4096, .columns = 12'800};
  const double tiles = 100 * 100;
  EXPECT_NEAR(seconds(large), large.flops().value / 312e12 * (1 + 0.5 * 100 / tiles), 1e-12);
}

/// Columns are padded to the smallest tile; a product with few tiles divides its inner dimension.
TEST_F(ProductTimes, ThatAreNarrowArePaddedAndSliced) {
  const Product whole{.rows = 4096, .inner = 4096, .columns = 64};
  const Product narrow{.rows = 4096, .inner = 4096, .columns = 16};
  const double bytes = 2.0 * (4096.0 * 4096 + 4096 * 16 + 4096 * 16);
  EXPECT_NEAR(seconds(narrow),
              std::max(whole.flops().value / 312e12 * 1.5, bytes / cluster_.gpu.memory_bandwidth.value),
              1e-9);
  EXPECT_LE(seconds(narrow), seconds(whole));
}

TEST_F(ProductTimes, OfWideNumbersRunOnThePlainUnits) {
  const Product wide{.rows = 8192, .inner = 8192, .columns = 8192, .element = Bytes(4)};
  EXPECT_GT(seconds(wide), wide.flops().value / (19.5e12 * 0.6));
  Training training;
  training.precision = Precision::fp32;
  EXPECT_EQ(matrix_peak(cluster_.gpu, training.precision), cluster_.gpu.fp32);
}

/// Logits of 50,257 tokens take 1.4 times as long as those of 50,264, whichever factor or result has the odd
/// width.
TEST_F(ProductTimes, OfOddWidthTakeLonger) {
  const auto head = [](std::int64_t vocabulary) {
    return Product{.rows = 8192, .inner = 1024, .columns = vocabulary};
  };
  const auto gradient = [](std::int64_t vocabulary) {
    return Product{.rows = 8192, .inner = vocabulary, .columns = 1024};
  };
  const double longer = cluster_.kernels.unaligned;
  EXPECT_NEAR(longer, 1.4, 0.01);
  EXPECT_NEAR(seconds(head(50'257)) / seconds(head(50'264)), longer, 1e-9);
  EXPECT_NEAR(seconds(gradient(50'257)) / seconds(gradient(50'264)), longer * 50'257 / 50'264, 1e-9);
  Product wide = head(50'257);
  wide.element = Bytes(4);
  const double operations = 2.0 * 8192 * 1024 * 50'304;
  EXPECT_LT(seconds(wide), 1.01 * operations / (cluster_.gpu.fp32->value * cluster_.kernels.plain));
}

/// PyTorch's memory-efficient kernels: 1.66 times FlashAttention's forward and 2.17 times backward, or what
/// small tiles do in a cycle; more where heads are wide, backward only where narrower ones stay in registers.
TEST_F(ProductTimes, OfMaskedAttentionFollowItsTiles) {
  cluster_.gpu.boost_mhz = 2000;
  cluster_.kernels.small_tiles = {.forward = 200, .backward = 100, .narrow_backward = 200};
  const auto seconds_of = [&](const char* capability, std::int64_t head_size) {
    cluster_.gpu.compute_capability = capability;
    Load load;
    load.attention_forward = load.attention_backward = Flops(8e13);
    load.attention_tiled = {.counted = Flops(16e13),
                            .forward = load.attention_forward,
                            .backward = load.attention_backward,
                            .head_size = head_size};
    return KernelRates(cluster_, training_).time(load).attention.value;
  };
  EXPECT_NEAR(seconds_of("8.0", 128), (1.66 + 2.17) * 8e13 / 312e12, 0.01);
  EXPECT_NEAR(seconds_of("8.0", 256), (1.14 * 1.66 + 2.24 * 2.17) * 8e13 / 312e12, 0.02);
  EXPECT_NEAR(seconds_of("8.9", 128), 8e13 / (200 * 100 * 2e9) + 8e13 / (100 * 100 * 2e9), 1e-9);
  EXPECT_NEAR(seconds_of("8.9", 64), 2 * 8e13 / (200 * 100 * 2e9), 1e-9);
  EXPECT_LT(seconds_of("8.9", 96), seconds_of("12.0", 96));
  EXPECT_NEAR(seconds_of("8.9", 256), 1.138 * 8e13 / (200 * 100 * 2e9) + 8e13 / (100 * 100 * 2e9), 0.001);
}

// PyTorch stops recomputing once all that was saved is there: the layer's last product is not repeated.
TEST_F(StepTimes, RecomputationRepeatsTheLayersForward) {
  cluster_.kernels.tail = 0;
  const Strategy once{.checkpointing = Checkpointing::none}, again{.checkpointing = Checkpointing::full};
  const double last = 8.0 * 1024 * 4096, layers = 8.0 * 4 * 1024 * 1024 + 3 * last, head = 1024.0 * 32'000;
  EXPECT_NEAR(time(again).run.products.value / time(once).run.products.value,
              (4 * layers - last + 3 * head) / (3 * (layers + head)), 1e-9);
}

TEST_F(StepTimes, OneGpuSendsNothing) {
  cluster_ = roomy_cluster(1);
  for (const int stage : {0, 1, 2, 3})
    EXPECT_EQ(time({.zero_stage = stage}).communication, Seconds(0)) << stage;
}

TEST_F(StepTimes, WithoutOverlapEverythingShows) {
  Strategy s{.zero_stage = 2};
  s.zero.reduce_bucket_size = Elements(10'000'000);
  s.zero.overlap_comm = false;
  const StepTime all = time(s);
  EXPECT_NEAR(all.exposed_communication.value, all.communication.value, 1e-9);
  s.zero.overlap_comm = true;
  EXPECT_LT(time(s).exposed_communication, all.exposed_communication);
  EXPECT_EQ(time(s).communication, all.communication);
}

TEST_F(StepTimes, TensorParallelCollectivesNeverHide) {
  const StepTime both = time({.zero_stage = 1, .layout = {.tensor = 2}});
  EXPECT_GT(both.run.exposed_tensor, Seconds(0));
  EXPECT_GE(both.exposed_communication, both.run.exposed_tensor);
}

TEST_F(StepTimes, MoreMicroStepsAreAlike) {
  const auto step = [this](std::int64_t n) {
    return time({.zero_stage = 2, .gradient_accumulation_steps = n}).run.micro_steps.value;
  };
  const double one_more = step(4) - step(3);
  EXPECT_GT(one_more, 0);
  EXPECT_NEAR(step(12) - step(4), 8 * one_more, 1e-6 * step(12));
}

TEST_F(StepTimes, PartsMakeTheStep) {
  for (const int stage : {0, 1, 2, 3}) {
    const StepTime t = time({.zero_stage = stage, .gradient_accumulation_steps = 2});
    EXPECT_NEAR(t.step.value,
                (t.compute + t.launching + t.exposed_communication + t.offload + t.optimizer).value,
                1e-9 * t.step.value + 1e-12)
        << stage;
    EXPECT_GT(t.hfu, t.mfu);
  }
}

TEST_F(StepTimes, SlowerLinksNeverHelp) {
  Seconds before{};
  for (const double rate : {600e9, 100e9, 20e9, 5e9, 1e9}) {
    cluster_.gpu.nvlink_effective = cluster_.gpu.pcie_effective = BytesPerSecond(rate);
    cluster_.gpu.nvlink = cluster_.gpu.pcie = BytesPerSecond(rate);
    const Seconds step = time({.zero_stage = 3}).step;
    EXPECT_GE(step, before) << rate;
    before = step;
  }
}

TEST_F(StepTimes, TransfersOutlastComputeOnlyOnce) {
  Schedule schedule;
  schedule.host_to_device = Bytes(75'000'000'000);
  RunTime run;
  run.products = run.micro_steps = run.step = Seconds(1);
  const Strategy s{.zero_stage = 3, .offload_parameters = OffloadDevice::cpu};
  // 75 GB at 25 GB/s take 3 s, of which one is hidden.
  const StepTime with = step_time(model_, training_, s, cluster_, {}, schedule, run);
  EXPECT_NEAR(with.offload.value, 2, 1e-9);
  EXPECT_NEAR(with.step.value, 3, 1e-9);
}

/// A rank with the elements that it updates and its offload's time.
class Offloads : public StepTimes {
 protected:
  Offloads() {
    cluster_.gpu.pcie_effective = BytesPerSecond(24e9);
    cluster_.gpus_per_node = 4;
    cluster_.host = {.threads = 64, .bandwidth = BytesPerSecond(400e9), .disk = BytesPerSecond(4e9)};
    shard_.optimizer_elements = Elements(1'000'000'000);
    shard_.master_weights = Bytes(4'000'000'000);
    shard_.moments = Bytes(8'000'000'000);
  }
  double seconds(const Strategy& s, const Schedule& schedule = {}, double micro_steps = 0) const {
    return offload_time(training_, s, cluster_, shard_, schedule, Seconds(micro_steps)).total().value;
  }
  /// The node's 400 GB/s, of which 17 % are reached, among four; 42 bytes an element.
  double host() const { return 42e9 / (0.17 * 400e9 / 4); }
  Shard shard_;
};

TEST_F(Offloads, TheHostReadsAndWritesEachParameterThrice) {
  EXPECT_EQ(host_update_traffic(training_, shard_), Bytes(42'000'000'000));
  const Strategy all{
      .zero_stage = 3, .offload_optimizer = OffloadDevice::cpu, .offload_parameters = OffloadDevice::cpu};
  EXPECT_NEAR(seconds(all), host(), 1e-9);
  cluster_.host.bandwidth = BytesPerSecond(4e12);
  EXPECT_NEAR(seconds(all), host() / 10, 1e-9);
  cluster_.host.threads = 1;
  const double alone = seconds(all);
  EXPECT_GT(alone, host() / 10);
  cluster_.host.threads = 2;
  EXPECT_NEAR(seconds(all), alone / 2, 1e-9);
}

TEST_F(Offloads, GradientsHideBehindTheBackwardWhereTheyHaveAStream) {
  Schedule schedule;
  schedule.device_to_host = Bytes(48'000'000'000), schedule.host_to_device = Bytes(2'000'000'000);
  Strategy s{.zero_stage = 2, .offload_optimizer = OffloadDevice::cpu};
  const double weights = 2.0 / 24;
  EXPECT_NEAR(seconds(s, schedule, 30), host() + weights + 2, 1e-9);
  s.zero.overlap_comm = true;
  EXPECT_NEAR(seconds(s, schedule, 30), host() + weights, 1e-9);
  EXPECT_NEAR(seconds(s, schedule, 1.5), host() + weights + 1, 1e-9);
}

TEST_F(Offloads, GpusBehindOneSwitchShareItsLink) {
  Schedule schedule;
  schedule.device_to_host = Bytes(48'000'000'000), schedule.host_to_device = Bytes(2'000'000'000);
  const Strategy s{.zero_stage = 2, .offload_optimizer = OffloadDevice::cpu};
  const double before = seconds(s, schedule) - host();
  cluster_.host.gpus_on_uplink = 4;
  EXPECT_NEAR(seconds(s, schedule) - host(), 4 * before, 1e-9);
}

TEST_F(Offloads, StatesOnDrivesAreReadAndWritten) {
  const auto on = [this](OffloadDevice device) {
    return seconds({.zero_stage = 3, .offload_optimizer = device, .offload_parameters = OffloadDevice::cpu});
  };
  EXPECT_NEAR(on(OffloadDevice::nvme) - on(OffloadDevice::cpu), 32e9 / (4e9 / 4), 1e-9);
}

/// An operator after the other, and gradients of further micro-steps added by the host.
TEST_F(Offloads, FsdpsHostIsSlower) {
  const Strategy once{
      .zero_stage = 3, .offload_optimizer = OffloadDevice::cpu, .offload_parameters = OffloadDevice::cpu};
  const double deepspeed = seconds(once);
  training_.framework = Framework::fsdp;
  shard_.master_weights = {};
  EXPECT_GT(seconds(once), 2 * deepspeed);
  Strategy twice = once;
  twice.gradient_accumulation_steps = 2;
  EXPECT_EQ(seconds(twice), seconds(once));
  training_.syncs_each_micro_step = true;
  EXPECT_GT(seconds(twice), seconds(once) + 4e9 / 24e9);
}

}  // namespace
}  // namespace zplan::testing
