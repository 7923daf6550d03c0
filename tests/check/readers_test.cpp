// Readers: rows → questions.

#include <gtest/gtest.h>

#include <map>

#include "hardware_profiles/cluster.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

std::map<std::string, Case> by_id(const std::string& path) {
  std::map<std::string, Case> all;
  const std::string full = std::string(ZPLAN_TEST_DATA) + "/reference/" + path;
  for (Case& each : cases_of(read_file(full), path)) {
    const bool held = std::holds_alternative<MeasuredHeld>(each.measured);
    all.emplace(each.id + (held ? " held" : ""), std::move(each));
  }
  return all;
}
const std::map<std::string, Case>& steps() {
  static const auto all = by_id("steps/steps.json");
  return all;
}
const std::map<std::string, Case>& published() {
  static const auto all = by_id("published/memory.json");
  return all;
}
const Setup& setup_of(const std::map<std::string, Case>& all, const std::string& id) {
  return *all.at(id).setup;
}

TEST(StepRows, AreOfTheLastStep) {
  const auto& memory =
      std::get<MeasuredMemory>(steps().at("Llama-3-8B|z0|n5|b1s2048|ckpt|buckets=default").measured);
  ASSERT_EQ(memory.figures.size(), 2U);
  EXPECT_EQ(memory.figures[0].range, (Range{160'622'430'720, 160'622'430'720}));
  EXPECT_EQ(memory.figures[1].range, (Range{162'940'321'792, 162'940'321'792}));
  EXPECT_EQ(memory.peak_phases, std::vector{Phase::step});
}

TEST(StepRows, OffloadHasHostMemory) {
  const auto& memory = std::get<MeasuredMemory>(
      steps()
          .at("Llama-3-8B|z3|n5|b1s2048|ckpt|buckets=default|offload=optimizer|optimizer=ds_cpu")
          .measured);
  ASSERT_EQ(memory.figures.size(), 4U);
  EXPECT_EQ(memory.figures[2].statistic, Statistic::host_pinned);
  EXPECT_EQ(memory.figures[2].range, (Range{12'884'901'888, 12'884'901'888}));
  EXPECT_EQ(memory.figures[3].statistic, Statistic::host_pageable);
  EXPECT_EQ(memory.figures[3].range, (Range{19'272'629'328, 19'272'629'328}));
}

TEST(StepRows, DeepSpeed) {
  const check::Setup& setup = setup_of(steps(), "Llama-3-8B|z0|n5|b1s2048|ckpt|buckets=default");
  EXPECT_EQ(setup.training.framework, Framework::deepspeed);
  EXPECT_TRUE(setup.training.master_weights);
  EXPECT_EQ(setup.training.optimizer_kernel, OptimizerKernel::fused);
  EXPECT_EQ(setup.training.sequence_length, 2048);
  EXPECT_EQ(setup.strategy.layout.data_ranks(), 5);
  EXPECT_EQ(setup.strategy.checkpointing, Checkpointing::full);
  EXPECT_EQ(setup.cluster.gpu.compute_capability, "8.0");
  EXPECT_EQ(parameters(setup.model), Elements(8'030'261'248));
}

TEST(StepRows, DeepSpeedKnobsComeFromItsConfig) {
  const check::Setup& setup = setup_of(
      steps(),
      "Llama-3-8B|z3|n8|b1s1024|ckpt|zero_extra=reduce_bucket_size.200000000-allgather_bucket_size.50000000");
  EXPECT_EQ(setup.strategy.zero.reduce_bucket_size, Elements(200'000'000));
}

TEST(StepRows, FsdpIsStage3OrTwoWithFp32Shards) {
  const check::Setup& reshards =
      setup_of(steps(), "Llama-3-8B|fsdp|n8|b1s2048|ckpt|precision=amp|reshard=True");
  EXPECT_EQ(reshards.training.framework, Framework::fsdp);
  EXPECT_EQ(reshards.strategy.zero_stage, 3);
  EXPECT_EQ(reshards.training.precision, Precision::bf16);
  EXPECT_TRUE(reshards.training.master_weights);
  EXPECT_TRUE(reshards.training.fsdp_reduces_fp32);
  EXPECT_TRUE(reshards.training.syncs_each_micro_step);
  EXPECT_EQ(
      setup_of(steps(), "Llama-3-8B|fsdp|n8|b1s2048|ckpt|precision=amp|reshard=False").strategy.zero_stage,
      2);
  EXPECT_FALSE(setup_of(steps(), "Llama-3-8B|fsdp|n8|b1s2048|ckpt|precision=bf16|reshard=True")
                   .training.master_weights);
  EXPECT_FALSE(setup_of(steps(), "Llama-3-8B|fsdp|n8|b1s2048|ckpt|precision=amp|reduce=bf16|reshard=True")
                   .training.fsdp_reduces_fp32);
  EXPECT_FALSE(
      setup_of(steps(), "Llama-3-8B|fsdp|n8|b1s2048|ckpt|gas4|precision=amp|reshard=False|no_sync=True")
          .training.syncs_each_micro_step);
}

TEST(StepRows, SingleIsPlainPyTorch) {
  const check::Setup& pure = setup_of(steps(), "Qwen2.5-1.5B|single|n1|b1s2048|ckpt");
  EXPECT_EQ(pure.training.framework, Framework::torch);
  EXPECT_FALSE(pure.training.master_weights);
  EXPECT_EQ(pure.strategy.zero_stage, 0);
  EXPECT_TRUE(setup_of(steps(), "Llama-3.2-1B|single|n1|b1s2048|ckpt|precision=amp").training.master_weights);
  const check::Setup& adapters =
      setup_of(steps(), "Llama-3-8B|single|n1|b1s1024|ckpt|lora=True|adapter_dtype=bf16");
  EXPECT_EQ(adapters.training.method, Method::lora);
  EXPECT_FALSE(adapters.training.fp32_adapters);
}

TEST(StepRows, UnderTensorParallelismPhasesAreCoarser) {
  for (const auto& [id, each] : steps()) {
    const auto& memory = std::get<MeasuredMemory>(each.measured);
    if (each.setup->strategy.layout.tensor == 1) {
      EXPECT_EQ(memory.peak_phases.size(), 1U) << id;
    }
  }
}

TEST(StepRows, Qlora) {
  const auto all = by_id("qlora/steps.json");
  const check::Setup& setup =
      setup_of(all, "Llama-3.2-1B|single|nf4|b1s2048|ckpt|optimizer=paged_adamw8bit|prep=True|autocast=True");
  EXPECT_EQ(setup.training.method, Method::qlora);
  EXPECT_EQ(setup.training.quantization, Quantization::nf4);
  EXPECT_EQ(setup.training.optimizer, Optimizer::paged_adamw8bit);
  EXPECT_TRUE(setup.training.prepares_kbit_training);
  EXPECT_TRUE(setup.training.autocast);
  EXPECT_TRUE(
      setup_of(all, "Llama-3.2-1B|single|nf4|b4s1024|ckpt|reentrant=True").training.reentrant_checkpointing);
  EXPECT_EQ(setup_of(all, "Qwen2.5-0.5B|single|full|b2s1024|ckpt|optimizer=torch_foreach")
                .training.optimizer_kernel,
            OptimizerKernel::foreach);
  for (const auto& [id, each] : all) EXPECT_FALSE(each.skip.any()) << id << ": " << each.skip.text();
}

TEST(CapacityRows, AreBrackets) {
  const auto all = by_id("capacity/capacity.json");
  EXPECT_EQ(all.size(), 50U);
  const auto& memory = std::get<MeasuredMemory>(all.at("Llama-2-7B|z2|n8|b2s1024|buckets=auto").measured);
  EXPECT_EQ(memory.figures.front().statistic, Statistic::required);
  EXPECT_EQ(memory.figures.front().range, (Range{36'744'200'192, 36'813'406'208}));
}

TEST(RecordedRuns, GiveTheirScheduleAndTheirBytes) {
  const auto all = by_id("deepspeed_runs/runs.json");
  EXPECT_EQ(all.size(), 356U);
  const Case& run = all.at("s1_w2_ga2_offopt");
  EXPECT_EQ(run.setup->strategy.offload_optimizer, OffloadDevice::cpu);
  EXPECT_EQ(run.setup->strategy.gradient_accumulation_steps, 2);
  const auto& calls = std::get<MeasuredSchedule>(run.measured).calls;
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_EQ(calls[0],
            (CallTally{Operation::all_reduce, "bfloat16", 2, Phase::backward, 1, Elements(2'725'632)}));
  EXPECT_EQ(calls[3].operation, Operation::all_gather);
  EXPECT_EQ(calls[3].elements, Elements(2'725'632));  // its output
  const auto& held = std::get<MeasuredHeld>(all.at("s1_w2_ga2_offopt held").measured);
  ASSERT_EQ(held.ranks.size(), 2U);
  EXPECT_EQ(held.ranks[0].parameters, Bytes(5'451'264));
  EXPECT_EQ(held.ranks[0].master_weights, Bytes(5'451'264));
  EXPECT_EQ(held.ranks[0].moments, Bytes(10'902'528));
}

TEST(RecordedRuns, KnobsOfCommunicationAreRead) {
  const auto all = by_id("deepspeed_runs/runs.json");
  const auto zero = [&all](const char* id) { return all.at(id).setup->strategy.zero; };
  EXPECT_EQ(zero("s2_w4_ga1_commfp32").communication_type, Precision::fp32);
  EXPECT_EQ(zero("s3_w4_ga1_pt0_hpz2").secondary_partition, 2);
  EXPECT_FALSE(zero("s2_w4_ga1_multirank0").multi_rank_bucket_allreduce);
  EXPECT_FALSE(zero("s3_w4_ga1_pt0_rs0").reduce_scatter);
  EXPECT_TRUE(zero("s3_w4_ga1_pt0_allreducefetch").gather_by_all_reduce);
}

TEST(ActivationRows, AreModelsCutToAFewLayers) {
  const auto all = by_id("activations/activations.json");
  EXPECT_EQ(all.size(), 652U);
  const Case& row = all.at("Llama-3-8B|3 layers|sdpa|lora_bf16|lora=q_v|b1s1024");
  EXPECT_EQ(row.setup->model.shape.layers, 3);
  EXPECT_EQ(row.setup->training.method, Method::lora);
  EXPECT_FALSE(row.setup->training.fp32_adapters);
  EXPECT_EQ(row.setup->training.framework, Framework::torch);
  EXPECT_FALSE(row.setup->training.master_weights);
  EXPECT_TRUE(all.at("Llama-3-8B|3 layers|sdpa|padding_mask|b1s1024").setup->training.padding_mask);
  EXPECT_TRUE(all.at("Llama-3-8B|3 layers|sdpa|use_cache|b1s1024").setup->training.keeps_cache);
  EXPECT_TRUE(all.at("Llama-3-8B|3 layers|sdpa|amp|b1s512").setup->training.master_weights);
  for (const auto& [id, each] : all) EXPECT_TRUE(each.setup) << id;  // every model is in the catalogue
}

TEST(PublishedMemory, Precisions) {
  const Training& pure = setup_of(published(), "m088").training;  // bf16-pure
  EXPECT_EQ(pure.framework, Framework::torch);
  EXPECT_FALSE(pure.master_weights);
  EXPECT_FALSE(pure.fp32_adapters);
  EXPECT_EQ(pure.optimizer_kernel, OptimizerKernel::foreach);
  const Training& adapters = setup_of(published(), "m252").training;  // bf16-frozen-fp32-adapter
  EXPECT_TRUE(adapters.fp32_adapters);
  EXPECT_TRUE(adapters.autocast);
  const check::Setup& mixed = setup_of(published(), "m055");  // bf16-mixed under DeepSpeed
  EXPECT_TRUE(mixed.training.master_weights);
  EXPECT_EQ(mixed.strategy.zero_stage, 3);
  EXPECT_EQ(mixed.strategy.zero.reduce_bucket_size, Elements(2048 * 2048));  // as Hugging Face sets "auto"
  const Training& autocast = setup_of(published(), "m271").training;  // fp32-master-autocast-bf16 under FSDP
  EXPECT_EQ(autocast.framework, Framework::fsdp);
  EXPECT_TRUE(autocast.master_weights);
}

TEST(PublishedMemory, ChunksOfTheLossAreTheLibrarys) {
  EXPECT_EQ(setup_of(published(), "m085").training.loss_chunks, 9);  // ⌈1044 / 128⌉ of litgpt
  EXPECT_EQ(setup_of(published(), "m305").training.loss_chunks, 8);  // torchtune
}

TEST(PublishedMemory, FsdpThatShardsNothingIsReplicated) {
  EXPECT_EQ(setup_of(published(), "m334").training.framework, Framework::torch);
  EXPECT_EQ(setup_of(published(), "m334").strategy.layout.data_ranks(), 2);
}

TEST(PublishedMemory, OutOfMemoryNeedsMoreThanTheCardHad) {
  const auto& memory = std::get<MeasuredMemory>(published().at("m098").measured);
  EXPECT_EQ(memory.figures.front().statistic, Statistic::required);
  EXPECT_FALSE(memory.figures.front().range.high);
  const double capacity = 42'949'672'960;
  EXPECT_LT(memory.figures.front().range.low, capacity);  // the driver keeps 1 to 3 %
  EXPECT_GT(memory.figures.front().range.low, 0.97 * capacity);
  // A proven lower bound beyond the GPU's usable memory counts instead.
  EXPECT_GE(std::get<MeasuredMemory>(published().at("m606").measured).figures.front().range.low,
            33'736'968'110);
}

// litgpt names slices of a projection that the checkpoint has in one: falcon-7b has 71 query heads of 64, one
// key and one value head.
TEST(PublishedMemory, AdaptersOnSlicesOfAProjectionAreNamed) {
  const check::Setup& falcon = setup_of(published(), "m122");
  EXPECT_FALSE(published().at("m122").skip.any());
  EXPECT_FALSE(falcon.model.shape.fused_query_key_value);
  const Inventory adapters = lora_adapters(falcon.model, 32, falcon.training.lora_targets);
  constexpr std::int64_t kHidden = 4544, kRank = 32, kLayers = 32;
  EXPECT_EQ(elements(adapters).value, kLayers * kRank * (2 * kHidden + kHidden + 64));
  EXPECT_EQ(parameters(falcon.model).value, 7'217'189'760);
}

TEST(PublishedMemory, EmbeddingsTrainedBesideAdaptersAreCopies) {
  EXPECT_EQ(setup_of(published(), "m007").training.modules_to_save,
            (std::vector<std::string>{"wte", "lm_head"}));
  EXPECT_FALSE(published().at("m007").skip.any());
}

TEST(PublishedMemory, SkipsNameFeaturesAndNeverTheModelAlone) {
  const auto skip = [](const char* id) { return published().at(id).skip; };
  EXPECT_EQ(skip("m590").features, std::vector<std::string>{"framework llm.c"});
  EXPECT_EQ(skip("m372").features, std::vector<std::string>{"architecture bert"});
  EXPECT_EQ(skip("m107").features, std::vector<std::string>{"a figure in doubt"});
  EXPECT_NE(skip("m107").detail, "");
  EXPECT_EQ(skip("m308").features, (std::vector<std::string>{"offloaded activations", "torch.compile of what is not said"}));
  for (const auto& [id, each] : published()) EXPECT_TRUE(each.setup || each.skip.any()) << id;
}

/// The only case of the first row of a published file, changed.
template <class Change>
Case changed(const std::string& path, Change change) {
  Json rows = parse_json(read_file(std::string(ZPLAN_TEST_DATA) + "/reference/published/" + path), path);
  Json row = rows.front();
  change(row);
  return cases_of(Json::array({row}).dump()).front();
}

// Nothing is planned on another GPU than the one that was used.
TEST(Published, ACardThatIsNotInTheCatalogueIsSkipped) {
  const std::vector<std::string> unknown{"a GPU that is not in the catalogue"};
  const auto memory_on = [](const char* name, std::int64_t bytes) {
    return changed("memory.json", [&](Json& row) { row["gpu"] = {{"name", name}, {"memory_bytes", bytes}}; });
  };
  EXPECT_EQ(memory_on("H100 80GB", 85'520'809'984).card, "H100-SXM-80GB");
  EXPECT_EQ(memory_on("MI999X 192GB", 206'158'430'208).skip.features, unknown);
  EXPECT_EQ(memory_on("H100 64GB HBM2e", 68'719'476'736).skip.features,
            unknown);  // a word less names another
  const Case other_memory = memory_on("H100", 102'625'181'696);
  EXPECT_EQ(other_memory.skip.features, unknown);
  EXPECT_EQ(other_memory.skip.detail, "H100 with 95.6 GiB");
  const Case speed = changed("speed.json", [](Json& row) { row["options"]["gpu_profile"] = "mi999x"; });
  EXPECT_EQ(speed.skip.features, unknown);
  EXPECT_EQ(speed.skip.detail, "mi999x");
  EXPECT_EQ(changed("collectives.json", [](Json& row) { row["gpu"] = "mi999x"; }).skip.features, unknown);
}

TEST(Published, ACardThatIsNotNamedIsNoCard) {
  const Case peak = changed("memory.json", [](Json& row) {
    row["gpu"] = {{"name", nullptr}, {"memory_bytes", 25'769'803'776}};
  });
  EXPECT_FALSE(peak.skip.any());
  EXPECT_EQ(peak.card, "");
  EXPECT_TRUE(peak.setup->card_is_known);
  EXPECT_EQ(peak.setup->cluster.gpu.name, "generic");
}

// Fields of the row state what a library fixes, whoever published it.
TEST(Published, FieldsDecideAndNoName) {
  for (const char* source : {"Lightning-AI/litgpt", "mosaicml/llm-foundry", "somebody/else"}) {
    const auto with = [&](const char* key, const Json& value) {
      return changed("memory.json",
                     [&](Json& row) {
                       row["source"] = source, row["remarks"] = "empty_cache, single process";
                       for (const char* each : {"modules", "lora_dropout", "loss_chunk_tokens"})
                         row["options"].erase(each);
                       row["options"]["seq_exact"] = false;
                       if (!value.is_null()) row["options"][key] = value;
                     })
          .setup.value();
    };
    const check::Setup plain = with("modules", nullptr);
    EXPECT_EQ(plain.training.modules.name, "transformers") << source;
    EXPECT_EQ(plain.training.lora_dropout, 0) << source;
    EXPECT_TRUE(plain.varies) << source;
    EXPECT_EQ(with("modules", "litgpt").training.modules.name, "litgpt");
    EXPECT_EQ(with("modules", "llm-foundry").training.modules.name, "llm-foundry");
    EXPECT_EQ(with("lora_dropout", 0.1).training.lora_dropout, 0.1);
    EXPECT_FALSE(with("empties_cache", true).varies);
    EXPECT_THROW((void)with("modules", "mine"), InputError);
  }
}

TEST(PublishedSpeed, NamesItsMachines) {
  const auto all = by_id("published/speed.json");
  EXPECT_EQ(all.size(), 179U);
  const check::Setup& setup = setup_of(all, "s001");
  EXPECT_EQ(setup.cluster.gpu.name, "H100-SXM-80GB");
  EXPECT_EQ(setup.cluster.nodes, 64);
  EXPECT_EQ(std::get<MeasuredSpeed>(all.at("s001").measured).tokens_per_second_per_gpu, 1007);
}

TEST(PublishedCollectives, NameTheirLinks) {
  const auto all = by_id("published/collectives.json");
  EXPECT_EQ(all.size(), 36U + 3);  // small messages of three logs by themselves
  const auto cluster = [&](const char* id) { return std::get<MeasuredCalls>(all.at(id).measured).cluster; };
  EXPECT_EQ(cluster("n08").network->name, "efa-32x100g");
  EXPECT_EQ(cluster("n24").nodes, 1);  // one NVLink domain over 18 hosts
  EXPECT_EQ(cluster("n24").gpus, 72);
  EXPECT_EQ(all.at("n42").skip.text(), "a GPU that is not named");
  EXPECT_FALSE(all.at("n02").skip.any());
  EXPECT_EQ(all.at("n02, small").skip.text(), "small messages where one process drives all GPUs");
  EXPECT_EQ(std::get<MeasuredCalls>(all.at("n02").measured).record, "n02");
}

}  // namespace
}  // namespace zplan::check::testing
