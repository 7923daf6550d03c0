// Every option, once.

#include <fmt/format.h>

#include <charconv>

#include "cli/options/options.h"
#include "cli/options/values.h"
#include "planner/frameworks/deepspeed/config/releases.h"

namespace zplan {

namespace {

constexpr std::string_view kModel = "Model", kCluster = "Cluster", kTraining = "Training", kBatch = "Batch",
                           kSearch = "Strategies", kCompare = "Compare", kFit = "Fit", kCheck = "Check",
                           kLint = "Lint", kImport = "Hardware import", kOutput = "Output";

// Far beyond use, and small enough that every figure of a plan stays within 64 bits.
constexpr double kMostHeadroom = 90;  // percent

void set_micro_batch(Options& o, const std::string& text) {
  if (text == "max") return o.space.micro_batch_size.reset();
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 1 || size > kMostMicroBatch)
    throw InputError("--micro-batch", in_quotes(text),
                     fmt::format("accepted: a whole number from 1 to {}, or max", kMostMicroBatch));
  o.space.micro_batch_size = size;
}

void set_zero(Options& o, const std::string& text) {
  for (const std::int64_t stage : parse_integers("--zero", text, 0, 3))
    o.space.zero_stages.push_back(static_cast<int>(stage));
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

using O = Options&;
using T = const std::string&;

const std::vector<OptionSpec> kTable{
    {"--model", "NAME", kModel,
     "catalogue name, size (8B), config.json, folder that holds one, or cached Hub id",
     [](O o, T t) { o.model = t; }},
    {"--method", "full|lora|qlora", kModel, "what is trained [full]",
     [](O o, T t) { o.training.method = parse_name<Method>("--method", t); }, all_names<Method>},
    {"--lora-rank", "R", kModel, "rank of the adapters [16]",
     [](O o, T t) { o.training.lora_rank = parse_integer("--lora-rank", t, 1, 65'536); }},
    {"--lora-targets", "LIST", kModel,
     "modules with adapters: all-linear, q_v, or names such as q_proj,v_proj [all-linear]",
     [](O o, T t) { o.training.lora_targets.modules = parse_list("--lora-targets", t); },
     [] {
       return std::vector<std::string>{"all-linear", "q_v"};
     }},
    {"--lora-dropout", "P", kModel, "share of the adapters' inputs that drops out: 0 to 1 [0]",
     [](O o, T t) { o.training.lora_dropout = parse_number("--lora-dropout", t, 0, 1); }},
    {"--quantization", "KIND", kModel,
     "of the frozen weights under qlora: nf4, nf4-double, int8, gptq-int4, gptq-int8 [nf4]",
     [](O o, T t) { o.training.quantization = parse_name<Quantization>("--quantization", t); },
     all_names<Quantization>},
    {"--prepare-kbit", "", kModel,
     "qlora through peft's prepare_model_for_kbit_training: fp32 embeddings, head and norms",
     [](O o, T) { o.training.prepares_kbit_training = true; }},

    {"--gpus", "N", kCluster, "GPUs in all [1]",
     [](O o, T t) { o.cluster.gpus = parse_integer("--gpus", t, 1, kMostGpus); }},
    {"--gpu", "NAME", kCluster, "hardware profile: zplan hardware lists them [a generic card]",
     [](O o, T t) { o.cluster.gpu = t; }},
    {"--mem", "GIB", kCluster, "memory per GPU in GiB as nvidia-smi reports it; wins over the profile's",
     [](O o, T t) { o.cluster.memory = parse_gib("--mem", t); }},
    {"--nodes", "M", kCluster, "nodes that the GPUs are spread over [1]",
     [](O o, T t) { o.cluster.nodes = parse_integer("--nodes", t, 1, kMostGpus); }},
    {"--node", "TYPE", kCluster, "how GPUs of a node are connected: nvswitch, pcie, … [the card's usual]",
     [](O o, T t) { o.cluster.node = t; }},
    {"--network", "NAME", kCluster, "between nodes: 8x400g, 100g, … [the card's usual]",
     [](O o, T t) { o.cluster.network = t; }},
    {"--host-mem", "GIB", kCluster, "host memory per node in GiB [the node type's usual]",
     [](O o, T t) { o.cluster.host_memory = parse_gib("--host-mem", t); }},
    {"--headroom", "PCT", kCluster, "share of each card to leave free, in percent [10]",
     [](O o, T t) { o.headroom.fraction = parse_number("--headroom", t, 0, kMostHeadroom) / 100; }},

    {"--zero", "LIST", kSearch, "ZeRO stages to consider, such as 2,3 [0,1,2,3]", set_zero,
     [] {
       return std::vector<std::string>{"0", "1", "2", "3"};
     }},
    {"--tp", "LIST", kSearch, "tensor-parallel degrees, such as 1,4 [1 and powers of two up to a node]",
     [](O o, T t) { o.space.tensor_parallel = parse_integers("--tp", t, 1, kMostDegree); }},
    {"--offload", "LIST", kSearch,
     "where optimizer states and parameters go: none, optimizer, all, … [none,optimizer,all]",
     [](O o, T t) { o.space.offloads = parse_names<Offload>("--offload", t); }, all_names<Offload>},
    {"--buckets", "default|hf-auto", kSearch,
     "bucket sizes: DeepSpeed's defaults, or HF's for \"auto\" [hf-auto]",
     [](O o, T t) { o.space.buckets = parse_name<Buckets>("--buckets", t); }, all_names<Buckets>},
    {"--ds-config", "FILE", kSearch, "plan exactly this DeepSpeed config; options fill what it leaves open",
     [](O o, T t) { o.ds_config = t; }},
    {"--framework", "NAME", kSearch,
     "whose sharding is planned: deepspeed, fsdp (FSDP2), torch (DDP, or one GPU) [deepspeed]",
     [](O o, T t) { o.training.framework = parse_name<Framework>("--framework", t); }, all_names<Framework>},
    {"--deepspeed-version", "V", kSearch,
     "release that the ds_config is for: 0.16 to 0.19, or one such as 0.18.3 [0.19]",
     [](O o, T t) { o.training.deepspeed = parse_release("--deepspeed-version", t); },
     [] {
       return std::vector<std::string>{"0.16", "0.17", "0.18", "0.19"};
     }},

    {"--precision", "bf16|fp16|fp32", kTraining, "[bf16]",
     [](O o, T t) { o.training.precision = parse_name<Precision>("--precision", t); }, all_names<Precision>},
    {"--optimizer", "NAME", kTraining, "adamw, adamw8bit, sgd, sgd-momentum, adafactor, lion, muon [adamw]",
     [](O o, T t) { o.training.optimizer = parse_name<Optimizer>("--optimizer", t); }, all_names<Optimizer>},
    {"--no-master-weights", "", kTraining, "no fp32 copy of 16-bit weights",
     [](O o, T) { o.training.master_weights = false; }},
    {"--checkpointing", "none|selective|full", kTraining, "activation checkpointing [full]",
     [](O o, T t) { o.space.checkpointing = parse_name<Checkpointing>("--checkpointing", t); },
     all_names<Checkpointing>},
    {"--attention", "flash|sdpa|eager", kTraining, "attention kernel [flash]",
     [](O o, T t) { o.training.attention = parse_name<Attention>("--attention", t); }, all_names<Attention>},
    {"--fused-loss", "", kTraining, "a fused or chunked cross-entropy (Liger and the like): no full logits",
     [](O o, T) { o.training.fused_loss = true; }},
    {"--expandable-segments", "", kTraining, "PyTorch's allocator with expandable_segments:True",
     [](O o, T) { o.training.expandable_segments = true; }},

    {"--seq", "S", kBatch, "tokens per sample [2048]",
     [](O o, T t) { o.training.sequence_length = parse_integer("--seq", t, 1, kLongestSequence); }},
    {"--micro-batch", "B|max", kBatch, "samples per GPU and forward pass; max: the most that fit [1]",
     set_micro_batch, [] { return std::vector<std::string>{"max"}; }},
    {"--grad-accum", "A", kBatch, "micro-batches per optimizer step [1]",
     [](O o, T t) { o.space.gradient_accumulation_steps = parse_integer("--grad-accum", t, 1, kMostSteps); }},
    {"--global-batch", "G", kBatch, "samples per optimizer step over all GPUs [what the others make]",
     [](O o, T t) { o.space.global_batch_size = parse_integer("--global-batch", t, 1, kMostGlobalBatch); }},

    {"--baseline", "STRATEGY|FILE|NAME", kCompare,
     "what differences are from: a strategy, a ds_config, a report saved with --json, or a scenario's name "
     "[the first]",
     [](O o, T t) { o.baseline = t; }},
    {"--differences", "", kCompare, "leave out lines in which all strategies are alike",
     [](O o, T) { o.differences = true; }},

    {"--solve", "WHAT", kFit,
     "the most or the least that fits: micro-batch, sequence, model; gpus, memory, host-memory [all left "
     "open]",
     [](O o, T t) { o.solve = parse_name<Solve>("--solve", t); }, all_names<Solve>},
    {"--oom", "TEXT|FILE", kFit,
     "explain a CUDA out-of-memory message, or the lines of a log (- for stdin), and say what helps",
     [](O o, T t) { o.oom = t; }},

    {"--worst", "N", kCheck, "of the records only the N that are furthest off [all]",
     [](O o, T t) { o.worst = static_cast<std::size_t>(parse_integer("--worst", t, 0, 1'000'000)); }},
    {"--fit-efficiency", "", kCheck,
     "what shares of their peaks cards reach, by least squares of measured speeds",
     [](O o, T) { o.fit_efficiency = true; }, nullptr, true},
    {"--tolerance", "X", kCheck, "exit status 1 where a median error exceeds X: 0.05 or 5% [no limit]",
     set_tolerance},

    {"--fix", "", kLint, "repair the configs in place; what they were stays as FILE.orig",
     [](O o, T) { o.fix = true; }},
    {"--sarif", "", kLint, "findings as SARIF 2.1.0, for code scanners", [](O o, T) { o.sarif = true; }},

    {"--name", "NAME", kImport, "what the profile is called [the card's name with -measured]",
     [](O o, T t) { o.profile_name = t; }},
    {"--output", "FILE", kImport, "write the profile there, as -o does (- for stdout) [stdout]",
     [](O o, T t) { o.output = t; }},

    {"--json", "", kOutput, "one JSON object (zplan.report/1)",
     [](O o, T) { set_format(o, OutputFormat::json, "--json"); }, nullptr, true},
    {"--csv", "", kOutput, "one line per plan, bytes and seconds",
     [](O o, T) { set_format(o, OutputFormat::csv, "--csv"); }},
    {"--markdown", "", kOutput, "the table for a document",
     [](O o, T) { set_format(o, OutputFormat::markdown, "--markdown"); }},
    {"--explain", "", kOutput, "every figure with its formula, its numbers and its source",
     [](O o, T) { o.explain = true; }},
    {"--emit", "FILE", kOutput,
     "write the recommended config: a ds_config, or accelerate's for fsdp (- for stdout)", set_emit},
    {"--nvme-path", "FOLDER", kOutput, "on a local disk, for offload to NVMe [/local_nvme]",
     [](O o, T t) { o.nvme_path = t; }},
    {"--config-style", "STYLE", kOutput,
     "of the ds_config: plain, hf-auto (\"auto\" for the HF Trainer), ms-swift [plain]",
     [](O o, T t) { o.config_style = parse_name<ConfigStyle>("--config-style", t); }, all_names<ConfigStyle>},
    {"--units", "GiB|GB", kOutput, "unit of memory: 1024³ or 1000³ bytes [GiB]", set_units,
     [] {
       return std::vector<std::string>{"GiB", "GB"};
     }},
    {"--no-color", "", kOutput, "no colour on a terminal (as does NO_COLOR)",
     [](O o, T) { o.no_color = true; }, nullptr, true},
    {"--help", "", kOutput, "this text", [](O o, T) { o.help = true; }, nullptr, true},
    {"--version", "", kOutput, "version, and how many models and GPUs are known",
     [](O o, T) { o.version = true; }, nullptr, true},
};

}  // namespace

const std::vector<OptionSpec>& option_table() { return kTable; }

}  // namespace zplan
