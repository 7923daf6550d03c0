// Every option, once, and every command.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "cli/options/options.h"
#include "cli/options/values.h"
#include "planner/frameworks/deepspeed/config/releases.h"
#include "planner/question/module_set.h"

namespace zplan {

namespace {

constexpr std::string_view kModel = "Model", kCluster = "Cluster", kTraining = "Training", kBatch = "Batch",
                           kBeside = "Loading, evaluation, saving", kBudget = "Time and cost",
                           kSearch = "Strategies", kCompare = "Compare", kFit = "Fit", kCheck = "Check",
                           kLint = "Lint", kImport = "Hardware import", kOutput = "Output";

// Far beyond use, and small enough that every figure of a plan stays within 64 bits.
constexpr double kMostHeadroom = 90;  // percent
constexpr std::int64_t kMostTiles = 1'000'000;
constexpr std::int64_t kMostEvaluated = 1'000'000'000, kMostTrained = 1'000'000'000'000'000;
/// Each is a set of tensors on every rank: a thousand take minutes to plan.
constexpr std::int64_t kMostPlannedAdapters = 64;
constexpr std::int64_t kMostImages = 10'000, kMostImageTokens = 1'000'000;

void set_micro_batch(Options& o, const std::string& text) {
  o.space.micro_batch_size = parse_count_or("--micro-batch", "max", text, kMostMicroBatch);
}

std::int64_t parse_tiles(std::string_view option, const std::string& text) {
  return parse_count_or(option, "auto", text, kMostTiles).value_or(LongContext::kAutoTiles);
}

/// "1344x1008": width and height in pixels.
void set_image_size(Options& o, const std::string& text) {
  constexpr std::int64_t kMostPixels = 65'536;  // along a side
  const std::size_t cross = text.find('x');
  const auto side = [&](const std::string& digits) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (!whole || value < 1 || value > kMostPixels)
      throw InputError(
          "--image-size", in_quotes(text),
          fmt::format("accepted: width x height in pixels, such as 1344x1008, each up to {}", kMostPixels));
    return value;
  };
  o.images.width = side(text.substr(0, cross));
  o.images.height = side(cross == std::string::npos ? std::string() : text.substr(cross + 1));
}

void set_zero(Options& o, const std::string& text) {
  for (const std::int64_t stage : parse_integers("--zero", text, 0, 3))
    o.space.zero_stages.push_back(static_cast<int>(stage));
}

void set_routing(Options& o, const std::string& text) {
  constexpr std::string_view kSkew = "skew=";
  constexpr double kMostSkew = 1e6;
  if (text == "balanced")
    o.training.routing_skew = 1;
  else if (text.starts_with(kSkew))
    o.training.routing_skew = parse_number("--routing", text.substr(kSkew.size()), 0, kMostSkew);
  else
    throw InputError("--routing", in_quotes(text), "accepted: balanced, or skew=S such as skew=2");
}

void set_units(Options& o, const std::string& text) {
  if (text != "GiB" && text != "GB")
    throw InputError("--units", in_quotes(text), accepted_words(text, {"GiB", "GB"}));
  o.unit = text == "GB" ? ByteUnit::gb : ByteUnit::gib;
}

void set_format(Options& o, OutputFormat format, std::string_view option) {
  if (o.format != OutputFormat::text)
    throw InputError(std::string(option), "a second output format",
                     "accepted: one of --json, --csv, --markdown");
  o.format = format;
}

void set_emit(Options& o, const std::string& text) {
  if (text.empty()) throw InputError("--emit", in_quotes(text), "accepted: a file to write, or - for stdout");
  o.emit = text;
}

/// A fraction, or a percentage where a percent sign says so.
void set_tolerance(Options& o, const std::string& text) {
  const bool percent = text.ends_with('%');
  const std::string number = percent ? text.substr(0, text.size() - 1) : text;
  o.tolerance = parse_number("--tolerance", number, 0, percent ? 100 : 1) / (percent ? 100 : 1);
}

/// "4x8": generation and lanes of a slot.
void set_pcie(Options& o, const std::string& text) {
  constexpr std::array<std::int64_t, 5> kLanes{1, 2, 4, 8, 16};
  const std::size_t cross = text.find('x');
  PcieLink link{0, 0};
  const auto read = [&text](std::size_t from, std::size_t to, std::int64_t& value) {
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + to, value);
    return error == std::errc() && end == text.data() + to;
  };
  const bool whole = cross != std::string::npos && read(0, cross, link.generation) &&
                     read(cross + 1, text.size(), link.lanes);
  if (!whole || link.generation < 1 || link.generation > 6 ||
      std::find(kLanes.begin(), kLanes.end(), link.lanes) == kLanes.end())
    throw InputError("--pcie", in_quotes(text),
                     "accepted: generation x lanes, such as 4x8; generations 1 to 6, lanes 1, 2, 4, 8 or 16");
  o.cluster.pcie = link;
}

BytesPerSecond parse_rate(std::string_view option, const std::string& text) {
  return BytesPerSecond(parse_number(option, text, 0.01, 1e6) * 1e9);
}

/// One for all, or a list: which of them may stand where is the command's to say.
void set_price(Options& o, const std::string& text) {
  constexpr double kMostPrice = 1e6;
  for (const std::string& word : parse_values("--price", text))
    o.prices.push_back(parse_number("--price", word, 0, kMostPrice));
  if (o.prices.size() == 1) o.budget.price = o.prices.front();
}

using Words = std::vector<std::string>;
using O = Options&;
using T = const std::string&;

}  // namespace

const std::vector<OptionSpec>& option_table() {
  using enum Command;
  // Of each GPU `hardware compare` asks what `plan` asks of one.
  constexpr CommandSet kPlans = plan | hardware_compare;
  constexpr CommandSet kRuns = plan | search | compare | fit;
  constexpr CommandSet kPriced = kRuns | hardware_compare;
  constexpr CommandSet kOneMachine = kRuns | check | lint;
  constexpr CommandSet kPlanning = kOneMachine | hardware_compare;
  constexpr CommandSet kAllButImport = kPlanning | bench | gui | models | hardware | completion;
  constexpr CommandSet kAll = kAllButImport | hardware_import;

  static const std::vector<OptionSpec> table{
      {"--model", "NAME", kModel, kPlanning,
       "catalogue name, size (8B), config.json, folder that holds one, or cached Hub id",
       [](O o, T t) { o.model = t; }},
      {"--method", "full|lora|qlora", kModel, kPlanning, "what is trained [full]",
       [](O o, T t) { o.training.method = parse_name<Method>("--method", t); }, all_names<Method>},
      {"--lora-rank", "R", kModel, kPlanning, "rank of the adapters [16]",
       [](O o, T t) { o.training.lora_rank = parse_integer("--lora-rank", t, 1, 65'536); }},
      {"--lora-targets", "LIST", kModel, kPlanning,
       "modules with adapters: all-linear, q_v, or names such as q_proj,v_proj [all-linear]",
       [](O o, T t) { o.training.lora_targets.modules = parse_list("--lora-targets", t); },
       [] {
         return Words{"all-linear", "q_v"};
       }},
      {"--lora-dropout", "P", kModel, kPlanning, "share of the adapters' inputs that drops out: 0 to 1 [0]",
       [](O o, T t) { o.training.lora_dropout = parse_number("--lora-dropout", t, 0, 1); }},
      {"--freeze", "LIST", kModel, kPlanning,
       "of an image-text model, what is not trained: vision, projector",
       [](O o, T t) {
         for (const std::string& part : parse_list("--freeze", t)) {
           if (part != "vision" && part != "projector")
             throw InputError("--freeze", in_quotes(part), accepted_words(part, {"vision", "projector"}));
           (part == "vision" ? o.training.freezes_vision : o.training.freezes_projector) = true;
         }
       },
       [] {
         return Words{"vision", "projector"};
       }},
      {"--images", "N", kModel, kPlanning, "images in each sample, of an image-text model [none: text alone]",
       [](O o, T t) { o.images.per_sample = parse_integer("--images", t, 1, kMostImages); }},
      {"--image-size", "WxH", kModel, kPlanning,
       "their size in pixels before the processor resizes or cuts them", set_image_size},
      {"--image-tokens", "T", kModel, kPlanning,
       "tokens of each image in the sequence [by the processor's own rule]",
       [](O o, T t) { o.images.tokens = parse_integer("--image-tokens", t, 1, kMostImageTokens); }},
      {"--quantization", "KIND", kModel, kPlanning,
       "of the frozen weights under qlora: nf4, nf4-double, int8, gptq-int4, gptq-int8, awq, "
       "hqq, torchao-int8 [nf4]; torchao-int4 and mxfp4 do not train: why is said",
       [](O o, T t) { o.training.quantization = parse_name<Quantization>("--quantization", t); },
       all_names<Quantization>},
      {"--quant-storage", "KIND", kModel, kPlanning,
       "type that nf4's values are stored in: uint8, or bf16, fp16, fp32, which FSDP2 and ZeRO-3 shard "
       "[uint8]",
       [](O o, T t) { o.training.quant_storage = parse_name<QuantStorage>("--quant-storage", t); },
       all_names<QuantStorage>},
      {"--prepare-kbit", "", kModel, kPlanning,
       "qlora through peft's prepare_model_for_kbit_training: fp32 embeddings, head and norms",
       [](O o, T) { o.training.prepares_kbit_training = true; }},
      {"--adapters", "N", kModel, kPlanning,
       "adapters in memory (peft's add_adapter), of which one trains and the others are frozen [1]",
       [](O o, T t) { o.training.adapters = parse_integer("--adapters", t, 1, kMostPlannedAdapters); }},
      {"--dora", "", kModel, kPlanning, "adapters with magnitudes (DoRA)",
       [](O o, T) { o.training.dora = true; }},
      {"--modules-to-save", "LIST", kModel, kPlanning,
       "copies trained beside adapters: embed_tokens, lm_head",
       [](O o, T t) { o.training.modules_to_save = parse_list("--modules-to-save", t); }},
      {"--tie-saved-modules", "", kModel, kPlanning,
       "one copy of tied embeddings (peft's ensure_weight_tying)",
       [](O o, T) { o.training.ties_saved_modules = true; }},
      {"--no-autocast-adapters", "", kModel, kPlanning,
       "adapters in the weights' type (peft's autocast_adapter_dtype=False)",
       [](O o, T) { o.training.fp32_adapters = false; }},
      {"--objective", "sft|dpo|orpo|simpo|kto|reward|grpo|ppo", kModel, kPlanning,
       "what is trained for: next tokens, answers of pairs (dpo, orpo, simpo, reward) or single ones (kto), "
       "rewards of completions that it generates (grpo; ppo beside a model of values) [sft]",
       [](O o, T t) { o.training.objective = parse_name<Objective>("--objective", t); },
       all_names<Objective>},
      {"--reference", "KIND", kModel, kPlanning,
       "what dpo, kto, grpo and ppo compare with: copy, adapters-off, adapter (a frozen copy of the "
       "adapters), precomputed, none (grpo) [adapters-off, without adapters copy; grpo: none]",
       [](O o, T t) { o.training.reference = parse_name<ReferenceModel>("--reference", t); },
       all_names<ReferenceModel>},
      {"--generations", "G", kModel, kPlanning, "completions of each prompt under grpo [8]",
       [](O o, T t) { o.training.rollout.generations = parse_integer("--generations", t, 2, 65'536); }},
      {"--completion-length", "C", kModel, kPlanning,
       "tokens of --seq that are generated under grpo and ppo; the others are the prompt [half of them]",
       [](O o, T t) {
         o.training.rollout.completion_length = parse_integer("--completion-length", t, 1, kLongestSequence);
       }},
      {"--steps-per-generation", "N", kModel, kPlanning,
       "micro-steps that one generation feeds under grpo [as few optimizer steps' as hold whole groups]",
       [](O o, T t) {
         o.training.rollout.steps_per_generation = parse_integer("--steps-per-generation", t, 1, kMostSteps);
       }},
      {"--iterations", "N", kModel, kPlanning,
       "passes over what was generated (num_iterations; num_ppo_epochs) [1; ppo: 4]",
       [](O o, T t) { o.training.rollout.iterations = parse_integer("--iterations", t, 1, kMostSteps); }},
      {"--rollout", "ENGINE", kModel, kPlanning,
       "what generates: vLLM beside each rank (colocate) or on GPUs of its own (server), or the trainer "
       "itself (trainer) [colocate; ppo: trainer]",
       [](O o, T t) { o.training.rollout.engine = parse_name<RolloutEngine>("--rollout", t); },
       all_names<RolloutEngine>},
      {"--vllm-memory", "SHARE", kModel, kPlanning,
       "of each GPU's memory for colocated vLLM (vllm_gpu_memory_utilization) [0.3]",
       [](O o, T t) { o.training.rollout.engine_share = parse_number("--vllm-memory", t, 0.01, 1); }},
      {"--vllm-sleep", "0|1|2", kModel, kPlanning,
       "while it trains colocated vLLM keeps all, its weights on the host, or nothing [0]",
       [](O o, T t) { o.training.rollout.sleep_level = parse_integer("--vllm-sleep", t, 0, 2); },
       [] {
         return Words{"0", "1", "2"};
       }},
      {"--vllm-tp", "N", kModel, kPlanning, "GPUs that divide vLLM's model (vllm_tensor_parallel_size) [1]",
       [](O o, T t) { o.training.rollout.engine_ranks = parse_integer("--vllm-tp", t, 1, kMostDegree); }},
      {"--value-model", "NAME", kModel, kPlanning,
       "under ppo the model that predicts values and trains beside the policy: as --model [the policy's "
       "shape]",
       [](O o, T t) { o.value_model = t; }},
      {"--reward-model", "NAME", kModel, kPlanning,
       "under ppo the frozen model that gives rewards: as --model [the policy's shape]",
       [](O o, T t) { o.reward_model = t; }},
      {"--mini-batches", "N", kModel, kPlanning,
       "parts of what ppo generated, micro-steps of --grad-accum in each (num_mini_batches) [1]",
       [](O o, T t) { o.training.rollout.mini_batches = parse_integer("--mini-batches", t, 1, kMostSteps); }},
      {"--rollout-batch", "N", kModel, kPlanning,
       "samples of a GPU that ppo generates and scores at once (local_rollout_forward_batch_size) [64]",
       [](O o, T t) {
         o.training.rollout.forward_batch = parse_integer("--rollout-batch", t, 1, kMostSteps);
       }},

      {"--gpus", "N", kCluster, kPlanning, "GPUs in all [1]",
       [](O o, T t) { o.cluster.gpus = parse_integer("--gpus", t, 1, kMostGpus); }},
      {"--gpu", "NAME", kCluster, kOneMachine | hardware_import,
       "hardware profile: zplan hardware lists them [a generic GPU]", [](O o, T t) { o.cluster.gpu = t; }},
      {"--instance", "NAME", kCluster, plan | search | compare | fit,
       "cloud shape such as p5.48xlarge (zplan hardware instances): GPUs, links, host memory, disks [none]",
       [](O o, T t) { o.cluster.instance = t; }},
      {"--mem", "GIB", kCluster, kPlanning,
       "memory per GPU in GiB as nvidia-smi reports it; wins over the profile's",
       [](O o, T t) { o.cluster.memory = parse_gib("--mem", t); }},
      {"--nodes", "M", kCluster, kPlanning, "nodes that the GPUs are spread over [1]",
       [](O o, T t) { o.cluster.nodes = parse_integer("--nodes", t, 1, kMostGpus); }},
      {"--node", "TYPE", kCluster, kPlanning | hardware_import,
       "how GPUs of a node are connected: nvswitch, pcie, … [the GPU's usual]",
       [](O o, T t) { o.cluster.node = t; }},
      {"--network", "NAME", kCluster, kPlanning | hardware_import,
       "between nodes: 8x400g, 100g, … [the GPU's usual]", [](O o, T t) { o.cluster.network = t; }},
      {"--host-mem", "GIB", kCluster, kPlanning, "host memory per node in GiB [the node type's usual]",
       [](O o, T t) { o.cluster.host_memory = parse_gib("--host-mem", t); }},
      {"--pcie", "GENxLANES", kCluster, kPlanning,
       "how each GPU's slot is wired, such as 4x8 (nvidia-smi -q) [the GPU's own generation, 16 lanes]",
       set_pcie},
      {"--topology", "PIX|PXB|PHB|NODE|SYS", kCluster, kPlanning,
       "the longest way between two GPUs of a node, as nvidia-smi topo -m shows it [what is usual]",
       [](O o, T t) { o.cluster.path = parse_name<PciePath>("--topology", t); }, all_names<PciePath>},
      {"--host-threads", "N", kCluster, kPlanning,
       "threads of each process on the host (OMP_NUM_THREADS), for offloaded optimizers [its part of the "
       "cores]",
       [](O o, T t) { o.cluster.host_threads = parse_integer("--host-threads", t, 1, 100'000); }},
      {"--host-bandwidth", "GB/S", kCluster, kPlanning,
       "rated memory bandwidth of a node's processors [usual for the node type]",
       [](O o, T t) { o.cluster.host_bandwidth = parse_rate("--host-bandwidth", t); }},
      {"--disk-bandwidth", "GB/S", kCluster, kPlanning,
       "what the drives of a node read, or write, for offload to NVMe [3]",
       [](O o, T t) { o.cluster.disk = parse_rate("--disk-bandwidth", t); }},
      {"--headroom", "PCT", kCluster, kPlans | search | compare | fit | lint,
       "share of each GPU to leave free, in percent [10]",
       [](O o, T t) { o.headroom.fraction = parse_number("--headroom", t, 0, kMostHeadroom) / 100; }},

      {"--zero", "LIST", kSearch, kPlans | search | fit | check,
       "ZeRO stages to consider, such as 2,3 [0,1,2,3]", set_zero,
       [] {
         return Words{"0", "1", "2", "3"};
       }},
      {"--tp", "LIST", kSearch, kPlans | search | fit | check | lint,
       "tensor-parallel degrees, such as 1,4 [1 and powers of two up to a node]",
       [](O o, T t) { o.space.tensor_parallel = parse_integers("--tp", t, 1, kMostDegree); }},
      {"--sp", "LIST", kSearch, kPlans | search | fit | check | lint,
       "sequence-parallel degrees (DeepSpeed Ulysses), such as 1,8 [1]",
       [](O o, T t) { o.space.sequence_parallel = parse_integers("--sp", t, 1, kMostDegree); }},
      {"--cp", "LIST", kSearch, kPlans | search | fit | check,
       "context-parallel degrees (ring attention with FSDP2), such as 1,8 [1]",
       [](O o, T t) { o.space.context_parallel = parse_integers("--cp", t, 1, kMostDegree); }},
      {"--ep", "LIST", kSearch, kPlans | search | fit | check,
       "expert-parallel degrees of a mixture (DeepSpeed AutoEP), such as 1,8 [1]",
       [](O o, T t) { o.space.expert_parallel = parse_integers("--ep", t, 1, kMostDegree); }},
      {"--routing", "balanced|skew=S", kSearch, kPlans | search | compare | fit | check,
       "rows of the first rank of an expert-parallel group, S times the mean [balanced]", set_routing,
       [] {
         return Words{"balanced", "skew=2"};
       }},
      {"--cp-rotate", "allgather|alltoall", kSearch, kPlans | search | fit | check,
       "how the ring passes keys and values on [allgather]",
       [](O o, T t) { o.space.long_context.rotation = parse_name<KeyRotation>("--cp-rotate", t); },
       all_names<KeyRotation>},
      {"--offload", "LIST", kSearch, kPlans | search | fit | check,
       "where optimizer states and parameters go: none, optimizer, all, … [none,optimizer,all]",
       [](O o, T t) { o.space.offloads = parse_names<Offload>("--offload", t); }, all_names<Offload>},
      {"--buckets", "default|hf-auto", kSearch, kPlans | search | compare | fit | check,
       "bucket sizes: DeepSpeed's defaults, or HF's for \"auto\" [hf-auto]",
       [](O o, T t) { o.space.buckets = parse_name<Buckets>("--buckets", t); }, all_names<Buckets>},
      {"--ds-config", "FILE", kSearch, kPlans | fit | check,
       "plan exactly this DeepSpeed config; options fill what it leaves open",
       [](O o, T t) { o.ds_config = t; }},
      {"--recipe", "LIST", kSearch, plan | search | fit,
       "configs of axolotl, LLaMA-Factory, TRL, torchtune, ms-swift, accelerate or TrainingArguments, read "
       "as "
       "options; what is given besides wins",
       [](O o, T t) { o.recipe_files = parse_list("--recipe", t); }},
      {"--framework", "NAME", kSearch, kPlans | search | fit | check | lint,
       "whose sharding is planned: deepspeed, fsdp (FSDP2), torch (DDP, or one GPU) [deepspeed]",
       [](O o, T t) { o.training.framework = parse_name<Framework>("--framework", t); },
       all_names<Framework>},
      {"--deepspeed-version", "V", kSearch, kPlans | search | compare | fit | lint,
       "release that the ds_config is for: 0.16 to 0.19, or one such as 0.18.3 [0.19]",
       [](O o, T t) { o.training.deepspeed = parse_release("--deepspeed-version", t); },
       [] {
         return Words{"0.16", "0.17", "0.18", "0.19"};
       }},

      {"--trainer", "LIST", kTraining, plan | search | fit,
       "whose defaults fill what is not given: trl, transformers, swift, llama-factory, axolotl, torchtune, "
       "litgpt; with a release as in trl@1.16 [none]",
       [](O o, T t) {
         for (const std::string& each : parse_list("--trainer", t))
           o.trainers.push_back(parse_trainer("--trainer", each));
       },
       trainer_names},
      {"--precision", "bf16|fp16|fp32", kTraining, kPlanning, "[bf16]",
       [](O o, T t) { o.training.precision = parse_name<Precision>("--precision", t); },
       all_names<Precision>},
      {"--optimizer", "NAME", kTraining, kPlanning,
       "adamw, adamw8bit, sgd, sgd-momentum, adafactor, lion, muon [adamw]",
       [](O o, T t) { o.training.optimizer = parse_name<Optimizer>("--optimizer", t); },
       all_names<Optimizer>},
      {"--no-master-weights", "", kTraining, kPlanning, "no fp32 copy of 16-bit weights",
       [](O o, T) { o.training.master_weights = false; }},
      {"--checkpointing", "none|selective|full", kTraining, kPlanning, "activation checkpointing [full]",
       [](O o, T t) { o.space.checkpointing = parse_name<Checkpointing>("--checkpointing", t); },
       all_names<Checkpointing>},
      {"--checkpoint-offload", "none|alst|deepspeed", kTraining, kPlanning,
       "checkpointed inputs in host memory: ArcticTraining's patch, or DeepSpeed's hooks [none]",
       [](O o, T t) {
         o.space.long_context.checkpoint_offload = parse_name<CheckpointOffload>("--checkpoint-offload", t);
       },
       all_names<CheckpointOffload>},
      {"--tiled-mlp", "auto|N", kTraining, kPlanning,
       "the feed-forward over N slices of the tokens (ALST) [whole]",
       [](O o, T t) { o.space.long_context.tiled_mlp = parse_tiles("--tiled-mlp", t); },
       [] { return Words{"auto"}; }},
      {"--tiled-loss", "auto|N", kTraining, kPlanning,
       "head and loss over N slices of the tokens (ALST) [whole]",
       [](O o, T t) { o.space.long_context.tiled_loss = parse_tiles("--tiled-loss", t); },
       [] { return Words{"auto"}; }},
      {"--attention", "flash|sdpa|eager", kTraining, kPlanning, "attention kernel [flash]",
       [](O o, T t) { o.training.attention = parse_name<Attention>("--attention", t); },
       all_names<Attention>},
      {"--fused-loss", "", kTraining, kPlanning,
       "a fused or chunked cross-entropy (Liger and the like): no full logits",
       [](O o, T) { o.training.fused_loss = true; }},
      {"--loss-chunks", "N", kTraining, kPlanning,
       "cross-entropy over N slices of the tokens; logits stay whole [1]",
       [](O o, T t) { o.training.loss_chunks = parse_integer("--loss-chunks", t, 1, kLongestSequence); }},
      {"--sliced-head", "", kTraining, kPlanning,
       "with --loss-chunks: the head runs slice by slice too, as torchtune's",
       [](O o, T) { o.training.sliced_head = true; }},
      {"--fused-head", "", kTraining, kPlanning,
       "TRL's head without logits: log-probabilities by tiles, computed again in the backward",
       [](O o, T) { o.training.fused_head = true; }},
      {"--loss-shift", "labels|logits|logits-alone", kTraining, kPlanning,
       "what the loss shifts: labels, as transformers since 4.49; a copy of the logits before [labels]",
       [](O o, T t) { o.training.loss_shift = parse_name<LossShift>("--loss-shift", t); },
       all_names<LossShift>},
      {"--kernels", "torch|liger|fla", kTraining, kPlanning,
       "PyTorch's operators; Liger-Kernel's norms, rotations and gated activations; flash-linear-attention's "
       "gated delta rule [torch]",
       [](O o, T t) { choose_kernels(o.training.modules, "--kernels", t); }, kernel_names},
      {"--modules", "LIBRARY", kTraining, kPlanning,
       "whose layers run: transformers, litgpt, llm-foundry, torchtitan [transformers]",
       [](O o, T t) { choose_modules(o.training.modules, "--modules", t); }, module_set_names},
      {"--expandable-segments", "", kTraining, kPlanning, "PyTorch's allocator with expandable_segments:True",
       [](O o, T) { o.training.expandable_segments = true; }},

      {"--seq", "S", kBatch, kPlanning, "tokens per sample [2048]",
       [](O o, T t) { o.training.sequence_length = parse_integer("--seq", t, 1, kLongestSequence); }},
      {"--lengths", "FILE|mean=M,spread=S,limit=L", kBatch, plan | search | fit,
       "tokens of the data set's samples: one a line, or a length and how many have it; or their mean, "
       "standard deviation and limit [all as --seq]",
       [](O o, T t) { o.lengths = t; }},
      {"--batching", "padded|grouped|packed", kBatch, plan | search | fit,
       "with --lengths: batches padded to their longest sample, of like lengths, or filled rows [padded]",
       [](O o, T t) { o.batching = parse_name<Batching>("--batching", t); }, all_names<Batching>},
      {"--micro-batch", "B|max", kBatch, kPlanning,
       "samples per GPU and forward pass; max: the most that fit [1]", set_micro_batch,
       [] { return Words{"max"}; }},
      {"--grad-accum", "A", kBatch, kPlanning, "micro-batches per optimizer step [1]",
       [](O o, T t) {
         o.space.gradient_accumulation_steps = parse_integer("--grad-accum", t, 1, kMostSteps);
       }},
      {"--global-batch", "G", kBatch, kPlanning,
       "samples per optimizer step over all GPUs [what the others make]",
       [](O o, T t) { o.space.global_batch_size = parse_integer("--global-batch", t, 1, kMostGlobalBatch); }},

      {"--load-dtype", "bf16|fp16|fp32", kBeside, kRuns,
       "from_pretrained's dtype [the checkpoint's, or fp32 where the weights are the masters]",
       [](O o, T t) { o.training.beside.load_dtype = parse_name<Precision>("--load-dtype", t); },
       all_names<Precision>},
      {"--load-everywhere", "", kBeside, kRuns, "every rank reads the checkpoint at stage 3: no zero.Init",
       [](O o, T) { o.training.beside.loads_everywhere = true; }},
      {"--save", "full|sharded", kBeside, kRuns,
       "weights gathered on one rank, or every rank's shards [what the plan's config says]",
       [](O o, T t) { o.training.beside.save = parse_name<SavedModel>("--save", t); }, all_names<SavedModel>},
      {"--eval-batch", "N", kBeside, kRuns, "samples per GPU of an evaluation step [none is evaluated]",
       [](O o, T t) { o.training.beside.eval_batch = parse_integer("--eval-batch", t, 1, kMostMicroBatch); }},
      {"--eval-logits", "", kBeside, kRuns,
       "compute_metrics is given, so that the Trainer keeps the logits of all samples [losses alone]",
       [](O o, T) { o.training.beside.keeps_logits = true; }},
      {"--eval-samples", "N", kBeside, kRuns, "samples whose logits are kept",
       [](O o, T t) {
         o.training.beside.eval_samples = parse_integer("--eval-samples", t, 1, kMostEvaluated);
       }},
      {"--eval-accumulation", "N", kBeside, kRuns,
       "evaluation steps until kept logits move to the host [never before the end]",
       [](O o, T t) {
         o.training.beside.eval_accumulation_steps =
             parse_integer("--eval-accumulation", t, 1, kMostEvaluated);
       }},
      {"--generate", "N", kBeside, kRuns, "tokens generated behind each prompt of --seq tokens [none]",
       [](O o, T t) { o.training.beside.new_tokens = parse_integer("--generate", t, 1, kLongestSequence); }},

      {"--samples", "N", kBudget, kPriced, "samples of an epoch: how long the run takes",
       [](O o, T t) { o.budget.samples = parse_integer("--samples", t, 1, kMostTrained); }},
      {"--tokens", "N", kBudget, kPriced, "the same in tokens",
       [](O o, T t) { o.budget.tokens = parse_integer("--tokens", t, 1, kMostTrained); }},
      {"--epochs", "X", kBudget, kPriced, "how often all of them are trained on [1]",
       [](O o, T t) { o.budget.epochs = parse_number("--epochs", t, 0.001, 1e6); }},
      {"--price", "X", kBudget, kPriced,
       "of a GPU and hour, in any currency: what the run costs; of hardware compare one for all or X,Y,… in "
       "the order of the names",
       set_price},
      {"--order", "given|fastest|cheapest", kCompare, compare | hardware_compare,
       "of GPUs and cloud shapes, or of a file's scenarios [given]",
       [](O o, T t) { o.order = parse_name<ListOrder>("--order", t); }, all_names<ListOrder>},

      {"--baseline", "STRATEGY|FILE|NAME", kCompare, compare,
       "what differences are from: a strategy, a ds_config, a report saved with --json, or a scenario's name "
       "[the first]",
       [](O o, T t) { o.baseline = t; }},
      {"--differences", "", kCompare, compare, "leave out lines in which all strategies are alike",
       [](O o, T) { o.differences = true; }},

      {"--solve", "WHAT", kFit, fit,
       "the most or the least that fits: micro-batch, sequence, model; gpus, memory, host-memory [all left "
       "open]",
       [](O o, T t) { o.solve = parse_name<Solve>("--solve", t); }, all_names<Solve>},
      {"--oom", "TEXT|FILE", kFit, fit,
       "explain a CUDA out-of-memory message, or the lines of a log (- for stdin), and say what helps",
       [](O o, T t) { o.oom = t; }},

      {"--worst", "N", kCheck, check, "of the records only the N that are furthest off [all]",
       [](O o, T t) { o.worst = static_cast<std::size_t>(parse_integer("--worst", t, 0, 1'000'000)); }},
      {"--fit-efficiency", "", kCheck, check,
       "what shares of their peaks GPUs reach, by least squares of measured speeds",
       [](O o, T) { o.fit_efficiency = true; }},
      {"--tolerance", "X", kCheck, check,
       "exit status 1 where a median error exceeds X: 0.05 or 5% [no limit]", set_tolerance},

      {"--fix", "", kLint, lint, "repair the configs in place; what they were stays as FILE.orig",
       [](O o, T) { o.fix = true; }},
      {"--sarif", "", kLint, lint, "findings as SARIF 2.1.0, for code scanners",
       [](O o, T) { o.sarif = true; }},

      {"--name", "NAME", kImport, hardware_import,
       "what the profile is called [the GPU's name with -measured]", [](O o, T t) { o.profile_name = t; }},
      {"--output", "FILE", kImport, hardware_import,
       "write the profile there, as -o does (- for stdout) [stdout]", [](O o, T t) { o.output = t; }, nullptr,
       "-o"},

      {"--json", "", kOutput, kAllButImport, "one JSON object (zplan.report/1)",
       [](O o, T) { set_format(o, OutputFormat::json, "--json"); }},
      {"--csv", "", kOutput, kPlans | search | compare | fit | check, "one line per plan, bytes and seconds",
       [](O o, T) { set_format(o, OutputFormat::csv, "--csv"); }},
      {"--markdown", "", kOutput, kPlans | search | compare | fit | check, "the table for a document",
       [](O o, T) { set_format(o, OutputFormat::markdown, "--markdown"); }},
      {"--explain", "", kOutput, plan | search | compare,
       "every figure with its formula, its numbers and its source", [](O o, T) { o.explain = true; }},
      {"--emit", "FILE", kOutput, plan | search | compare | lint,
       "write the recommended config: a ds_config, or accelerate's for fsdp (- for stdout)", set_emit},
      {"--recipe-out", "FILE", kOutput, plan | search,
       "write the first --recipe with the recommended change, and the config that it names beside it (- for "
       "stdout)",
       [](O o, T t) { o.recipe_out = t; }},
      {"--nvme-path", "FOLDER", kOutput, plan | search | compare | fit | lint,
       "on a local disk, for offload to NVMe [/local_nvme]", [](O o, T t) { o.nvme_path = t; }},
      {"--config-style", "STYLE", kOutput, plan | search | compare | lint,
       "of the ds_config: plain, hf-auto (\"auto\" for the HF Trainer), ms-swift [plain]",
       [](O o, T t) { o.config_style = parse_name<ConfigStyle>("--config-style", t); },
       all_names<ConfigStyle>},
      {"--units", "GiB|GB", kOutput, kPlanning, "unit of memory: 1024³ or 1000³ bytes [GiB]", set_units,
       [] {
         return Words{"GiB", "GB"};
       }},
      {"--no-color", "", kOutput, kAll, "no colour on a terminal (as does NO_COLOR)",
       [](O o, T) { o.no_color = true; }},
      {"--help", "", kOutput, kAll, "this text", [](O o, T) { o.help = true; }, nullptr, "-h"},
      {"--version", "", kOutput, kAll, "version, and how many models and GPUs are known",
       [](O o, T) { o.version = true; }, nullptr, "-V"},
  };
  return table;
}

const std::vector<CommandSpec>& command_table() {
  using enum Command;
  static const std::vector<CommandSpec> table{
      {plan, "", "every strategy: memory, traffic, time, which fits, which to take and why (the default)"},
      {search, "",
       "the fastest config that fits, over everything that is not pinned, batch and checkpointing too",
       "zplan --ds-config FILE …, which decides what a search would"},
      {compare, "STRATEGY|FILE…",
       "pinned strategies or ds_configs side by side: zero3, tp8+zero1, zero3+offload-all, lora+zero2+b4; or "
       "the scenarios of a FILE.zplan",
       "in a strategy, as in tp8+zero1+offload-all, fsdp or FILE.json, or in a file of scenarios"},
      {fit, "",
       "the inverse: largest micro-batch, longest sequence, fewest GPUs, smallest GPU, biggest model; what "
       "helps against an out-of-memory error",
       "with the plan that fit names"},
      {check, "FILE|FOLDER…",
       "predictions against measurements: published or recorded runs, DeepSpeed and nccl-tests logs, memory "
       "snapshots",
       "--worst, --tolerance, --json, …"},
      {lint, "FILE…",
       "what is wrong with DeepSpeed configs, what DeepSpeed makes of it, and what to write instead; with "
       "--model whether they fit",
       "--fix, --json, --sarif, --model, --gpus, …"},
      {bench, "[OPTION…]",
       "real collectives on these machines (NCCL, or MPI where there is no GPU), a plan's calls replayed; "
       "its own options: zplan bench --help"},
      {gui, "[FILE… | OPTION…]",
       "the window: scenarios side by side, as options or from files (needs Qt 6); its own options: zplan "
       "gui --help"},
      {models,
       "[list | show NAME | search WORDS]",
       "the catalogue of models",
       "",
       {"list", "show", "search"}},
      {hardware,
       "[list | instances | show NAME | search WORDS | compare NAME… | import FILE…]",
       "the catalogue of GPUs, nodes, networks and cloud shapes; compare plans one question on several of "
       "them; "
       "import makes a GPU's profile of nccl-tests logs and zplan-bench results",
       "",
       {"list", "instances", "show", "search", "compare", "import"}},
      {completion, "bash | zsh | fish", "a completion script for your shell", "", {"bash", "zsh", "fish"}},
  };
  return table;
}

}  // namespace zplan
