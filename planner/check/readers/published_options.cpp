#include "planner/check/readers/published_options.h"

#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

/// Weights, master copy and products, by the legend of zplan.measurement/1.
struct NamedPrecision {
  std::string_view name;
  Precision precision;
  bool master_weights;
  bool fp32_adapters;
  bool autocast;
};
constexpr std::array kPrecisions{
    NamedPrecision{"fp32", Precision::fp32, true, true, false},
    NamedPrecision{"fp32-master-autocast-bf16", Precision::bf16, true, true, false},
    NamedPrecision{"fp32-master-autocast-fp16", Precision::fp16, true, true, false},
    NamedPrecision{"bf16-mixed", Precision::bf16, true, true, false},
    NamedPrecision{"fp16-mixed", Precision::fp16, true, true, false},
    NamedPrecision{"bf16-pure", Precision::bf16, false, false, false},
    NamedPrecision{"bf16-frozen-fp32-adapter", Precision::bf16, false, true, true},
};

void read_precision(const JsonReader& options, Training& training, Skip& skip) {
  const JsonReader given = options.at("precision");
  const std::string name = given.text();
  if (name.ends_with("-mixed") && training.framework != Framework::deepspeed)
    skip.add("16-bit weights beside an fp32 copy outside DeepSpeed");
  for (const NamedPrecision& known : kPrecisions) {
    if (known.name != name) continue;
    training.precision = known.precision, training.master_weights = known.master_weights;
    training.fp32_adapters = known.fp32_adapters, training.autocast = known.autocast;
    return;
  }
  given.fail_type("a precision of zplan.measurement/1");
}

void read_framework(const JsonReader& options, Training& training, Skip& skip) {
  const std::string name = options.at("framework").text();
  // FSDP that shards nothing replicates, as DDP does.
  const bool whole = options.at("zero").integer(0, 3) == 0;
  if (name == "deepspeed")
    training.framework = Framework::deepspeed;
  else if (name == "single" || name == "ddp" || (name == "fsdp" && whole))
    training.framework = Framework::torch;
  else if (name == "fsdp")
    training.framework = Framework::fsdp;
  else
    skip.add("framework " + name);
}

void read_optimizer(const JsonReader& options, Training& training, Skip& skip) {
  const std::string name = options.at("optimizer").text();
  if (const auto known = from_name<Optimizer>(name))
    training.optimizer = *known;
  else
    skip.add("optimizer " + name);
  training.optimizer_kernel = training.framework == Framework::deepspeed ? OptimizerKernel::deepspeed_fused
                                                                         : OptimizerKernel::foreach;
}

/// What libraries fix and their users' records do not repeat.
struct Library {
  std::string_view source;
  double lora_dropout;
  bool litgpt{};               ///< its modules, under Lightning Fabric, with bitsandbytes 0.42
  bool alternate_products{};   ///< its selective checkpointing
  bool foundry{};              ///< its MPT
  double attention_cost{1.0};  ///< as in Training
};
/// Source: litgpt 0.5 finetune/lora.py, model.py, pyproject.toml; Lightning 2.4
/// fabric/plugins/precision/half.py convert_output; Qwen finetune.py @2df8e8a; ms-swift 1.5
/// swift/llm/utils/argument.py; fsdp_qlora train.py @05ed9f2; torchtitan
/// parallelisms/parallelize_llama.py @9dec370.
/// The Triton kernel that its benchmarks ran (scripts/train/benchmarking/submit_benchmarks.py: attn_impl
/// triton). Source: Dao 2023 (FlashAttention-2), section 4.1: 1.3 to 2.5 times as fast as FlashAttention in
/// Triton; the geometric middle.
constexpr double kTriton = 1.8;
constexpr std::array kLibraries{
    Library{"Lightning-AI/litgpt", 0.05, true, false},
    Library{"QwenLM/Qwen", 0.05, false, false},
    Library{"modelscope/ms-swift", 0.05, false, false},
    Library{"AnswerDotAI/fsdp_qlora", 0.1, false, false},
    Library{"pytorch/torchtitan", 0, false, true},
    Library{"mosaicml/llm-foundry", 0, false, false, true, kTriton},
};

void read_library(const JsonReader& record, Training& training) {
  const std::string source = record.text_or("source", "");
  // Whoever shards a model with FSDP has no room for it whole: it is made without memory, or on the host.
  training.fsdp_makes_shards = training.framework == Framework::fsdp;
  for (const Library& library : kLibraries) {
    if (library.source != source) continue;
    training.litgpt_modules = training.widens_output = training.packed_keeps_input = library.litgpt;
    training.alternate_products = library.alternate_products;
    training.foundry_modules = library.foundry, training.attention_cost = library.attention_cost;
    training.lora_dropout = library.lora_dropout;
  }
}

/// Slices of a chunked cross-entropy, which the libraries fix: litgpt 0.5 takes 128 tokens (litgpt/utils.py
/// chunked_cross_entropy; of every sample where the head is sliced too, finetune/lora.py), torchtune 0.6
/// eight slices (torchtune/modules/loss/ce_chunked_output_loss.py).
std::optional<std::int64_t> loss_chunks(const JsonReader& record) {
  const std::string source = record.text_or("source", "");
  constexpr std::int64_t kLitgptTokens = 128, kTorchtuneChunks = 8;
  if (source == "pytorch/torchtune") return kTorchtuneChunks;
  if (source != "Lightning-AI/litgpt") return std::nullopt;
  const JsonReader options = record.at("options");
  const std::int64_t samples =
      options.boolean_or("logits_chunked", false) ? 1 : options.at("micro_batch").integer(1, kMostBatch);
  return share(Elements(options.at("seq").integer(1, kMostSequence) * samples), kLitgptTokens).value;
}

void read_loss(const JsonReader& record, Training& training, Skip& skip) {
  const std::string loss = record.at("options").at("loss").text();
  training.fused_loss = loss == "fused";
  if (loss == "full" || loss == "fused") return;
  const auto chunks = loss == "chunked" ? loss_chunks(record) : std::nullopt;
  training.slices_head = record.at("options").boolean_or("logits_chunked", false);
  if (chunks)
    training.loss_chunks = *chunks;
  else
    skip.add(loss + " cross-entropy");
}

void read_method(const JsonReader& options, Setup& setup, Skip& skip) {
  Training& training = setup.training;
  training.method = named<Method>(options.at("method"));
  if (training.method == Method::full) return;
  if (options.boolean_or("lora_trains_embeddings", false))
    skip.add("embeddings and head trained beside adapters");
  read_adapters(options, setup.model, training, skip);
  if (training.method != Method::qlora) return;
  const std::string packed = options.at("quantization").text();
  if (const auto known = from_name<Quantization>(packed))
    training.quantization = *known;
  else
    skip.add("quantization " + packed);
}

/// Flags that stand for a feature each.
void read_flags(const JsonReader& options, Skip& skip) {
  const auto flag = [&](const char* key, const char* feature) {
    if (options.boolean_or(key, false)) skip.add(feature);
  };
  flag("optimizer_in_backward", "optimizer in the backward");
  flag("activation_offload", "offloaded activations");
  flag("compile", "torch.compile");
  flag("fp8", "float8 products");
  flag("sequence_parallel", "sequence parallelism");
}

Training read_training(const JsonReader& record, Skip& skip) {
  const JsonReader options = record.at("options");
  Training training;
  read_framework(options, training, skip);
  read_precision(options, training, skip);
  read_loss(record, training, skip);
  read_library(record, training);
  const std::int64_t gradient = options.at("gradient_dtype_bytes").integer(1, 8);
  training.fsdp_reduces_fp32 = options.integer_or("reduce_dtype_bytes", gradient, 1, 8) == 4;
  training.sequence_length = options.at("seq").integer(1, kMostSequence);
  training.attention = named<Attention>(options.at("attention"));
  return training;
}

Strategy read_strategy(const JsonReader& options, const Setup& setup, std::int64_t gpus) {
  Strategy s = read_arrangement(options, gpus);
  s.zero_stage = static_cast<int>(options.at("zero").integer(0, 3));
  read_offload(options.at("offload").text(), s);
  s.zero = zero_options(Buckets::hf_auto, setup.model.shape.hidden_size);
  return s;
}

}  // namespace

PublishedRun read_published_run(const JsonReader& record) {
  const JsonReader options = record.at("options");
  PublishedRun run;
  run.gpus = options.at("gpus").integer(1, kMostRanks);
  read_flags(options, run.skip);
  std::optional<Model> model = model_at(record.at("config"), run.skip);
  if (!model) return run;
  Setup setup{.model = std::move(*model), .training = {}, .strategy = {}, .cluster = {}};
  setup.training = read_training(record, run.skip);
  read_method(options, setup, run.skip);
  read_optimizer(options, setup.training, run.skip);
  setup.strategy = read_strategy(options, setup, run.gpus);
  // Who empties the cache keeps no blocks of other lengths.
  const bool empties = record.text_or("remarks", "").find("empty_cache") != std::string::npos;
  setup.varies = !empties && !options.boolean_or("seq_exact", true);
  run.setup = std::move(setup);
  return run;
}

}  // namespace zplan::check
