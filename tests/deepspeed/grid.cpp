#include "grid.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/config.h"
#include "planner/plan/legality.h"

namespace zplan::testing {

namespace {

using enum OffloadDevice;

struct Kind {
  std::string name;
  Training training;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  const auto add = [&](std::string name, Training training) {
    all.push_back({std::move(name), std::move(training)});
  };
  for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::fp32})
    add(std::string(to_name(precision)), {.precision = precision});
  for (const Optimizer optimizer : {Optimizer::adamw8bit, Optimizer::sgd, Optimizer::sgd_momentum,
                                    Optimizer::adafactor, Optimizer::lion, Optimizer::muon})
    add(std::string(to_name(optimizer)), {.optimizer = optimizer});
  add("lora", {.method = Method::lora});
  add("qlora", {.method = Method::qlora});
  add("low-master", {.master_weights = false});
  return all;
}

std::vector<ZeroOptions> option_sets(std::int64_t hidden) {
  ZeroOptions tuned = zero_options(Buckets::defaults, hidden);
  tuned.overlap_comm = false;
  tuned.fp32_gradient_accumulation = true;
  tuned.parameter_alignment = true;
  tuned.sub_group_size = Elements(100'000'000);
  tuned.max_live_parameters = tuned.max_reuse_distance = Elements(300'000'000);
  return {zero_options(Buckets::hf_auto, hidden), zero_options(Buckets::defaults, hidden), tuned};
}

}  // namespace

Model llama_8b() {
  const Json config = {{"model_type", "llama"},       {"hidden_size", 4096},
                       {"intermediate_size", 14336},  {"num_hidden_layers", 32},
                       {"num_attention_heads", 32},   {"num_key_value_heads", 8},
                       {"vocab_size", 128256},        {"max_position_embeddings", 8192},
                       {"tie_word_embeddings", false}};
  Model model = read_config(JsonReader(config, "llama_8b"));
  model.name = "meta-llama/Llama-3.1-8B";
  model.source = ModelSource::catalogue;
  return model;
}

Question question_of(const Model& model, std::int64_t gpus, std::int64_t nodes, const Training& training) {
  Question question;
  question.model = model;
  question.training = training;
  question.cluster.gpus = gpus;
  question.cluster.nodes = nodes;
  question.cluster.gpus_per_node = gpus / nodes;
  return question;
}

Plan plan_of(const Strategy& strategy) {
  Plan plan;
  plan.strategy = strategy;
  return plan;
}

std::vector<GridCase> grid() {
  const Model model = llama_8b();
  const std::vector<Offload> offloads{{none, none}, {cpu, none},  {cpu, cpu},
                                      {none, cpu},  {nvme, none}, {nvme, nvme}};
  const std::vector<ZeroOptions> options = option_sets(model.shape.hidden_size);
  std::vector<GridCase> cases;
  for (const Kind& kind : kinds())
    for (const std::int64_t gpus : {1, 2, 5, 8, 16, 64})
      for (const std::int64_t tensor_parallel : {1, 2, 8})
        for (const int stage : {0, 1, 2, 3})
          for (const Offload offload : offloads) {
            const std::size_t turn = cases.size();
            Strategy strategy{.zero_stage = stage,
                              .layout = ParallelLayout{.tensor = tensor_parallel}.filling(gpus),
                              .offload_optimizer = offload.optimizer,
                              .offload_parameters = offload.parameters,
                              .micro_batch_size = 1 + static_cast<std::int64_t>(turn % 4),
                              .gradient_accumulation_steps = 1 + static_cast<std::int64_t>(turn % 3) * 2,
                              .zero = options[turn % options.size()]};
            // The search does this, too: DeepSpeed stops otherwise.
            strategy.zero.reduce_scatter = stage != 3 || kind.training.optimizer != Optimizer::muon;
            if (!why_illegal(model, kind.training, strategy, {gpus, std::min<std::int64_t>(gpus, 8)}).empty())
              continue;
            cases.push_back({fmt::format("{}-{}gpu-{}-{}", kind.name, gpus, strategy_id(strategy), turn),
                             plan_of(strategy),
                             question_of(model, gpus, gpus > 8 ? gpus / 8 : 1, kind.training)});
          }
  return cases;
}

std::vector<GoldenCase> golden_cases() {
  const ZeroOptions filled = zero_options(Buckets::hf_auto, 4096);
  ZeroOptions tuned = filled;
  tuned.overlap_comm = false;
  tuned.sub_group_size = Elements(100'000'000);
  ZeroOptions exact;
  exact.fp32_gradient_accumulation = exact.parameter_alignment = true;
  const auto strategy = [](int stage, const ZeroOptions& zero, OffloadDevice optimizer = none,
                           OffloadDevice parameters = none, std::int64_t data_parallel = 8) {
    return Strategy{.zero_stage = stage,
                    .layout = {.shard = data_parallel},
                    .offload_optimizer = optimizer,
                    .offload_parameters = parameters,
                    .micro_batch_size = 2,
                    .gradient_accumulation_steps = 4,
                    .zero = zero};
  };
  Strategy split = strategy(1, filled, none, none, 4), split3 = strategy(3, filled, none, none, 4);
  split.layout.tensor = split3.layout.tensor = 2;
  return {
      {"zero0", strategy(0, filled), {}},
      {"zero1-fp32-accumulation", strategy(1, exact), {}},
      {"zero2", strategy(2, filled), {}},
      {"zero2-offload-optimizer-fp16", strategy(2, filled, cpu), {.precision = Precision::fp16}},
      {"zero2-aligned-fp32-accumulation", strategy(2, exact), {}},
      {"zero2-fp32", strategy(2, filled), {.precision = Precision::fp32}},
      {"zero2-adamw8bit", strategy(2, filled), {.optimizer = Optimizer::adamw8bit}},
      {"zero2-qlora", strategy(2, filled), {.method = Method::qlora}},
      {"zero3", strategy(3, filled), {}},
      {"zero3-deepspeed-defaults", strategy(3, ZeroOptions{}), {}},
      {"zero3-tuned", strategy(3, tuned), {}},
      {"zero3-lora", strategy(3, filled), {.method = Method::lora}},
      {"zero3-low-master", strategy(3, filled), {.master_weights = false}},
      {"zero3-sgd-momentum", strategy(3, filled), {.optimizer = Optimizer::sgd_momentum}},
      {"zero3-offload-all", strategy(3, filled, cpu, cpu), {}},
      {"zero3-offload-all-nvme-1gpu", strategy(3, filled, nvme, nvme, 1), {}, 1},
      {"tp2-zero1", split, {}},
      {"tp2-zero3", split3, {}},
      {"zero3-hf-auto", strategy(3, filled), {}, 8, ConfigStyle::hf_auto},
      {"zero2-ms-swift", strategy(2, filled), {}, 8, ConfigStyle::ms_swift},
  };
}

Json golden_config(const GoldenCase& each) {
  return ds_config(plan_of(each.strategy), question_of(llama_8b(), each.gpus, 1, each.training), each.style);
}

}  // namespace zplan::testing
