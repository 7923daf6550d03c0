// Every option, once.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "cli/options/option_types.h"
#include "planner/frameworks/deepspeed/config/releases.h"
#include "planner/question/argument_list.h"
#include "planner/question/framework.h"
#include "planner/question/module_set.h"

namespace zplan {

namespace {

constexpr std::string_view kModel = "Model", kCluster = "Cluster", kTraining = "Training", kBatch = "Batch",
                           kBeside = "Loading, evaluation, saving", kBudget = "Time and cost",
                           kSearch = "Strategies", kCompare = "Compare", kFit = "Fit", kCheck = "Check",
                           kLint = "Lint", kImport = "Hardware import", kOutput = "Output";

// Far beyond use, and small enough that every figure of a plan stays within 64 bits.
constexpr double kMostHeadroom = 90;  // percent
/// Each is played, those of an MLP in each layer.
constexpr std::int64_t kMostMlpTiles = 256, kMostLossTiles = 4096, kMostLossChunks = 1024;
constexpr std::int64_t kMostEvaluated = 1'000'000'000, kMostTrained = 1'000'000'000'000'000;
/// Each is a set of tensors on every rank: a thousand take minutes to plan.
constexpr std::int64_t kMostPlannedAdapters = 64;
constexpr std::int64_t kMostTop = 1'000'000;
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostImages = 10'000, kMostImageTokens = 1'000'000;

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

/// Arguments replace those that are usual; "none": Megatron's own defaults.
void set_megatron(Options& o, const std::string& text) {
  MegatronOptions& options = o.space.megatron = {};
  if (text == "none") return;
  for (const std::string& each : parse_list("--megatron", text))
    set_megatron_argument(options, "--megatron", each);
}

/// Takes the schedule that an option of its own names, beside other settings. Throws InputError where
/// --torchtitan names another.
void take_schedule(Options& o) {
  TitanOptions& options = o.space.torchtitan;
  if (!o.pipeline_schedule || options.schedule == *o.pipeline_schedule) return;
  if (options.schedule != TitanOptions{}.schedule)
    throw InputError("--pipeline-schedule", in_quotes(std::string(to_name(*o.pipeline_schedule))),
                     fmt::format("accepted: {}, which --torchtitan names, or --torchtitan without it",
                                 to_name(options.schedule)));
  options.schedule = *o.pipeline_schedule;
}

void set_torchtitan(Options& o, const std::string& text) {
  TitanOptions& options = o.space.torchtitan = {};
  if (text != "none")
    for (const std::string& each : parse_list("--torchtitan", text))
      set_titan_argument(options, "--torchtitan", each);
  take_schedule(o);
}

void set_pipeline_schedule(Options& o, const std::string& text) {
  const auto schedule = parse_name<PipelineSchedule>("--pipeline-schedule", text);
  if (o.pipeline_schedule) o.space.torchtitan.schedule = schedule;  // the last one given counts
  o.pipeline_schedule = schedule;
  take_schedule(o);
}

void set_units(Options& o, const std::string& text) {
  if (text != "GiB" && text != "GB")
    throw InputError("--units", in_quotes(text), accepted_words(text, {"GiB", "GB"}));
  o.unit = text == "GB" ? ByteUnit::gb : ByteUnit::gib;
}

template <OutputFormat format>
void set_format(Options& o, const std::string&) {
  if (o.format != OutputFormat::text)
    throw InputError(format == OutputFormat::json  ? "--json"
                     : format == OutputFormat::csv ? "--csv"
                                                   : "--markdown",
                     "a second output format", "accepted: one of --json, --csv, --markdown");
  o.format = format;
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

/// A price for all GPUs, or under `hardware compare` one for each name.
void set_price(Options& o, const std::string& text) {
  constexpr double kMostPrice = 1e6;
  for (const std::string& word : parse_values("--price", text))
    o.prices.push_back(parse_price("--price", word, kMostPrice));
  if (o.prices.size() > 1 && o.command != Command::hardware_compare)
    throw InputError("--price", fmt::format("{} prices for one kind of GPU", o.prices.size()),
                     "accepted: one; a price for each name with zplan hardware compare");
  if (o.prices.size() == 1) o.budget.price = o.prices.front();
}

void set_within(Options& o, const std::string& text) { o.within = parse_duration("--within", text); }

void set_freeze(Options& o, const std::string& text) {
  for (const std::string& part : parse_list("--freeze", text)) {
    if (part != "vision" && part != "projector")
      throw InputError("--freeze", in_quotes(part), accepted_words(part, {"vision", "projector"}));
    (part == "vision" ? o.training.freezes_vision : o.training.freezes_projector) = true;
  }
}

void set_release(Options& o, const std::string& text) {
  o.training.deepspeed = parse_release("--deepspeed-version", text);
}

void set_kernels(Options& o, const std::string& text) {
  choose_kernels(o.training.modules, "--kernels", text);
}

void set_modules(Options& o, const std::string& text) {
  choose_modules(o.training.modules, "--modules", text);
}

void set_trainers(Options& o, const std::string& text) {
  for (const std::string& each : parse_list("--trainer", text))
    o.trainers.push_back(parse_trainer("--trainer", each));
}

/// The frameworks of which `has` is true, by name.
std::vector<std::string> frameworks(bool (*has)(const FrameworkSpec&)) {
  std::vector<std::string> names;
  for (const auto& [framework, name] : EnumNames<Framework>::table)
    if (has(spec(framework))) names.emplace_back(name);
  return names;
}

std::vector<std::string> objectives_but(std::initializer_list<std::string_view> others) {
  std::vector<std::string> names = all_names<Objective>();
  std::erase_if(names,
                [&](const std::string& name) { return std::ranges::find(others, name) != others.end(); });
  return names;
}

// Fields of the parts of Options.
auto training(auto... members) { return option_types::at(&Options::training, members...); }
auto rollout(auto member) { return option_types::at(&Options::training, &Training::rollout, member); }
auto beside(auto member) { return option_types::at(&Options::training, &Training::beside, member); }
auto cluster(auto member) { return option_types::at(&Options::cluster, member); }
auto space(auto... members) { return option_types::at(&Options::space, members...); }
auto budget(auto member) { return option_types::at(&Options::budget, member); }

/// A framework, or several that a search compares; plain PyTorch also by the name that reports call its plans
/// by.
OptionType framework() {
  OptionType type = option_types::word(training(&Training::framework));
  type.set = [read = type.set](Options& options, std::string_view option, const std::string& given) {
    options.frameworks.clear();
    for (const std::string_view each : split(given, ',')) {
      read(options, option, each == "ddp" ? std::string(to_name(Framework::torch)) : std::string(each));
      options.frameworks.push_back(options.training.framework);
    }
    if (options.frameworks.size() == 1) return;
    if (options.command != Command::search)
      throw InputError(std::string(option), in_quotes(given),
                       "accepted: one framework; \"zplan search\" takes several");
    options.training.framework = Framework::deepspeed;
  };
  type.show = [show = type.show](const Options& options) {
    if (options.frameworks.size() < 2) return show(options);
    std::vector<std::string_view> names;
    for (const Framework each : options.frameworks) names.push_back(to_name(each));
    return fmt::format("{}", fmt::join(names, ","));
  };
  return type;
}

/// Reads the number of GPUs. Text such as "2x4090" is refused with the two options that express it.
OptionType gpus() {
  OptionType type = option_types::integer(cluster(&ClusterRequest::gpus), 1, kMostGpus);
  type.set = [read = type.set](Options& options, std::string_view option, const std::string& given) {
    const std::size_t digits = given.find_first_not_of("0123456789");
    const bool is_joined = digits != std::string::npos && digits != 0 && digits + 1 < given.size() &&
                           (given[digits] == 'x' || given[digits] == 'X');
    if (is_joined)
      throw InputError(std::string(option), in_quotes(given),
                       fmt::format("accepted: a whole number; {} {} --gpu {}", option,
                                   given.substr(0, digits), in_quotes(given.substr(digits + 1))));
    read(options, option, given);
  };
  return type;
}

const std::vector<std::string> kDegrees{"1", "2", "4", "8", "1,2,4,8"};

}  // namespace

const std::vector<OptionSpec>& option_table() {
  using enum Command;
  using namespace option_types;
  // `hardware compare` asks the questions of `plan` for each GPU.
  constexpr CommandSet kPlans = plan | hardware_compare;
  constexpr CommandSet kRuns = plan | search | compare | fit;
  constexpr CommandSet kPriced = kRuns | hardware_compare;
  constexpr CommandSet kOneMachine = kRuns | check | lint;
  constexpr CommandSet kPlanning = kOneMachine | hardware_compare;
  constexpr CommandSet kAllButImport = kPlanning | bench | gui | models | hardware | completion;
  constexpr CommandSet kAll = kAllButImport | hardware_import;

  using Conditions = std::vector<Condition>;
  const Conditions kNone;
  const Conditions kAdapters{{{"--method"}, {"lora", "qlora"}}}, kPacked{{{"--method"}, {"qlora"}}};
  const Conditions kFull{{{"--method"}, {"full"}}};
  const Conditions kGenerated{{{"--objective"}, {"grpo", "ppo", "gkd"}}},
      kGroups{{{"--objective"}, {"grpo"}}};
  const Conditions kDistils{{{"--objective"}, {"gkd"}}};
  const Conditions kFed{{{"--objective"}, {"grpo", "gkd"}}}, kPassed{{{"--objective"}, {"grpo", "ppo"}}};
  const Conditions kManyCompletions{{.options = {"--objective"},
                                     .words = objectives_but({"ppo"}),
                                     .because = ", which generates one completion of each prompt"},
                                    kGroups.front()};
  const Conditions kColocated{{{"--objective"}, {"grpo", "gkd"}}, {{"--rollout"}, {"colocate"}}};
  const Conditions kValues{{{"--objective"}, {"ppo"}}};
  const Conditions kDeepSpeed{
      {{"--framework"}, frameworks([](const FrameworkSpec& each) { return each.reads_ds_config; })}};
  const Conditions kStages{
      {{"--framework"}, frameworks([](const FrameworkSpec& each) { return each.has_stages; })}};
  const Conditions kMegatronAlone{
      {{"--framework"}, frameworks([](const FrameworkSpec& each) { return &each == &megatron_spec(); })}};
  const Conditions kTorchtitanAlone{
      {{"--framework"}, frameworks([](const FrameworkSpec& each) { return &each == &torchtitan_spec(); })}};
  const Conditions kWithConfigs{
      {{"--framework"}, frameworks([](const FrameworkSpec& each) { return !each.config_file.empty(); })}};
  const Conditions kStepsInBackward{{{"--method"}, {"full"}},
                                    {{"--framework"}, frameworks([](const FrameworkSpec& each) {
                                       return !each.reads_ds_config && !each.has_stages;
                                     })}};
  const Conditions kShards{{{"--framework"}, frameworks([](const FrameworkSpec& each) {
                              return !each.sharded_instead && !each.has_stages;
                            })}};
  const Conditions kGathers{
      {{"--framework"}, frameworks([](const FrameworkSpec& each) { return each.gathers_at_modules; })}};
  const Condition kGivenSamples{
      .options = {"--objective"},
      .words = objectives_but({"grpo", "ppo"}),
      .because = ", which generates its samples: --seq and --completion-length say their length"};
  const Condition kTokens{.options = {"--objective"},
                          .words = objectives_but({"reward"}),
                          .because = ", which has no loss of tokens"};
  const Condition kLabelled{.options = {"--objective"},
                            .words = objectives_but({"reward", "gkd"}),
                            .because = ", whose loss is of whole logits"};
  const Condition kNoFusedLoss{.options = {"--fused-loss"}, .is_excluded = true};
  const Condition kNoFusedHead{.options = {"--fused-head"}, .is_excluded = true};
  const Condition kNoChunks{.options = {"--loss-chunks"}, .is_excluded = true};
  const Conditions kWithImages{{{"--images"}}};
  const Conditions kWithLengths{{{"--lengths"}}};
  const Conditions kWithEvalBatch{{{"--eval-batch"}}};
  const Conditions kWithEvalLogits{{{"--eval-logits"}}};
  const Conditions kBudgeted{{{"--samples", "--tokens"}}};
  const Conditions kWithRecipe{{{"--recipe"}}};
  const Conditions kWithChunks{{{"--loss-chunks"}}};
  const Conditions kSampled{kGivenSamples};
  const Conditions kTokenLoss{kTokens};
  const Conditions kCut{kTokens, kNoFusedLoss, kNoChunks, kNoFusedHead};
  const Conditions kChunked{kTokens, kNoFusedLoss};
  const Conditions kFusedHead{kLabelled, kNoFusedLoss, kNoChunks};
  const Conditions kReferenced{{{"--objective"}, {"dpo", "kto", "grpo", "ppo", "gkd"}},
                               {.options = {"--objective"}, .words = {"dpo", "kto", "grpo"}, .of = "adapter"},
                               {.options = {"--objective"}, .words = {"dpo", "kto"}, .of = "precomputed"},
                               {.options = {"--objective"}, .words = {"grpo", "gkd"}, .of = "none"}};
  const Conditions kRollout{{{"--objective"}, {"grpo", "ppo", "gkd"}},
                            {.options = {"--objective"}, .words = {"grpo", "gkd"}, .of = "colocate"},
                            {.options = {"--objective"}, .words = {"grpo", "gkd"}, .of = "server"}};
  const Conditions kNf4{{{"--method"}, {"qlora"}}, {{"--quantization"}, {"nf4", "nf4-double"}}};
  const Conditions kEngine{{{"--objective"}, {"grpo", "gkd"}}, {{"--rollout"}, {"colocate", "server"}}};
  const Conditions kOneSize{
      kGivenSamples,
      {.options = {"--images"}, .is_excluded = true, .because = ", whose samples are all alike"}};
  const Conditions kOneBudget{
      {.options = {"--samples"}, .is_excluded = true, .because = ", which says it already"}};
  const Conditions kStyles{kDeepSpeed.front(),
                           {.options = {"--objective"},
                            .words = objectives_but({"ppo"}),
                            .of = "ms-swift",
                            .because = ", whose trainer is TRL's"}};
  const Conditions kShifted{{{"--objective"}, {"sft"}}, kNoFusedLoss, kNoChunks, kNoFusedHead};
  const OptionSpec::Needed kModelNeeded{
      "", "a model and a cluster, such as --model 8B --gpus 5 --mem 44 (zplan --help)"};
  const OptionSpec::Needed kSamplesNeeded{"--eval-logits", "how many samples' logits --eval-logits keeps"};

  static const std::vector<OptionSpec> table{
      {"--model", "NAME", kModel, kPlanning, "Model",
       "model to train: catalogue name, size (8B), config.json, folder that holds one, or Hub id",
       name(at(&Options::model), NamesOf::models, true), kNone, "", std::nullopt, kModelNeeded},
      {"--hub", "huggingface|modelscope", kModel, kPlanning | models, "",
       "where to ask for the config of a model that nothing here knows [huggingface]",
       word(at(&Options::hub))},
      {"--offline", "", kModel, kPlanning | models, "",
       "ask no hub for a model's config (as does HF_HUB_OFFLINE=1)", flag(at(&Options::offline))},
      {"--method", "full|lora|qlora", kModel, kPlanning, "Method",
       "train all weights (full), adapters (lora), or adapters on packed weights (qlora) [full]",
       word(training(&Training::method))},
      {"--lora-rank", "R", kModel, kPlanning, "LoRA rank", "rank of the adapters [16]",
       integer(training(&Training::lora_rank), 1, 65'536), kAdapters},
      {"--lora-targets", "LIST", kModel, kPlanning, "LoRA targets",
       "modules that get adapters: all-linear, q_v, or names such as q_proj,v_proj [all-linear]",
       names(training(&Training::lora_targets, &LoraTargets::modules), {"all-linear", "q_v"}), kAdapters},
      {"--lora-dropout", "P", kModel, kPlanning, "LoRA dropout",
       "dropout of the adapters' inputs, from 0 to 1 [0]", number(training(&Training::lora_dropout), 0, 1),
       kAdapters},
      {"--freeze", "LIST", kModel, kPlanning, "Frozen parts",
       "parts of an image-text model that are not trained: vision, projector [none]",
       several(special(OptionKind::word, set_freeze, {"vision", "projector"}, false))},
      {"--train-tower", "", kModel, kPlanning, "Trained tower",
       "train tower and projector of an image-text model whole beside the adapters (ms-swift's lora_llm)",
       flag(training(&Training::trains_tower)), kAdapters},
      {"--train-layers", "LIST|last:N|first:N|every:N", kModel, kPlanning, "Trained layers",
       "layers that train while all else is frozen in the type that computes: numbers from 0, the last or "
       "first N, or the last of each of N groups [all, and the rest of the model]",
       text(at(&Options::trained_layers)), kFull},
      {"--expand-blocks", "N", kModel, kPlanning, "Added blocks",
       "layers that are added as copies, one behind each of N groups, and train alone (LLaMA Pro) [none]",
       integer(at(&Options::expanded_blocks), 1, kMostLayers), kFull},
      {"--images", "N", kModel, kPlanning, "Images per sample",
       "images in each sample of an image-text model [none: text alone]",
       integer(at(&Options::images, &ImageRequest::per_sample), 1, kMostImages), kSampled},
      {"--image-size", "WxH", kModel, kPlanning, "Image size",
       "width and height of each image in pixels, before the processor resizes or cuts it",
       special(OptionKind::text, set_image_size), kWithImages},
      {"--image-tokens", "T", kModel, kPlanning, "Tokens per image",
       "tokens of each image in the sequence [by the processor's own rule]",
       integer(at(&Options::images, &ImageRequest::tokens), 1, kMostImageTokens), kWithImages},
      {"--quantization", "KIND", kModel, kPlanning, "Quantization",
       "format of the frozen weights under qlora: nf4, nf4-double, int8, gptq-int4, gptq-int8, awq, hqq, "
       "torchao-int8; torchao-int4 and mxfp4 cannot train adapters [nf4]",
       word(training(&Training::quantization)), kPacked},
      {"--quant-storage", "KIND", kModel, kPlanning, "Stored as",
       "type that stores nf4's values: uint8, or bf16, fp16, fp32, which FSDP2 and ZeRO-3 can shard [uint8]",
       word(training(&Training::quant_storage)), kNf4},
      {"--prepare-kbit", "", kModel, kPlanning, "Prepared for k-bit",
       "run peft's prepare_model_for_kbit_training, which keeps embeddings, head and norms in fp32",
       flag(training(&Training::prepares_kbit_training)), kPacked},
      {"--adapters", "N", kModel, kPlanning, "Adapters in memory",
       "adapters in memory (peft's add_adapter); one trains, the others are frozen [1]",
       integer(training(&Training::adapters), 1, kMostPlannedAdapters), kAdapters},
      {"--dora", "", kModel, kPlanning, "DoRA", "train adapters with magnitudes (DoRA)",
       flag(training(&Training::dora)), kAdapters},
      {"--modules-to-save", "LIST", kModel, kPlanning, "Trained copies",
       "modules trained as whole copies beside the adapters: embed_tokens, lm_head [none]",
       names(training(&Training::modules_to_save)), kAdapters},
      {"--tie-saved-modules", "", kModel, kPlanning, "One copy of tied ones",
       "keep one copy of tied embeddings (peft's ensure_weight_tying)",
       flag(training(&Training::ties_saved_modules)), kAdapters},
      {"--no-autocast-adapters", "", kModel, kPlanning, "Adapters in 16 bits",
       "keep adapters in the weights' type (peft's autocast_adapter_dtype=False)",
       flag(training(&Training::fp32_adapters), false), kAdapters},
      {"--objective", "sft|dpo|orpo|simpo|kto|reward|grpo|ppo|gkd", kModel, kPlanning, "Objective",
       "training objective: next tokens (sft), pairs of answers (dpo, orpo, simpo, reward), single answers "
       "(kto), generated completions (grpo; ppo, which trains a value model too), a teacher's probabilities "
       "(gkd) [sft]",
       word(training(&Training::objective))},
      {"--reference", "KIND", kModel, kPlanning, "Reference model",
       "reference model of dpo, kto, grpo and ppo: copy, adapters-off, adapter (a frozen copy of the "
       "adapters), precomputed, none (grpo); gkd's teacher: copy (--teacher), adapters-off (the student), "
       "none (on a server) [adapters-off, without adapters copy; grpo: none; gkd: copy]",
       word(training(&Training::reference)), kReferenced},
      {"--teacher", "NAME", kModel, kPlanning, "Teacher",
       "frozen model whose probabilities are learnt under gkd, named as in --model",
       name(at(&Options::teacher), NamesOf::models, true), kDistils},
      {"--divergence", "mixture|forward|reverse", kModel, kPlanning, "Divergence",
       "divergence of student and teacher under gkd: Jensen-Shannon's of their mixture (0 < beta < 1), or "
       "Kullback-Leibler's forward (beta 0) or reverse (beta 1) [mixture]",
       word(training(&Training::distillation, &Distillation::divergence)), kDistils},
      {"--teacher-top", "N", kModel, kPlanning, "Teacher's tokens",
       "most probable tokens of the teacher that gkd's loss is of (gkd_logits_topk) [the whole vocabulary]",
       integer(training(&Training::distillation, &Distillation::top), 1, kMostTop), kDistils},
      {"--label-loss", "", kModel, kPlanning, "Labels' loss",
       "add the cross-entropy of the labels to gkd's loss (ms-swift's sft_alpha)",
       flag(training(&Training::distillation, &Distillation::adds_likelihood)), kDistils},
      {"--generations", "G", kModel, kPlanning, "Completions per prompt",
       "completions that grpo generates for each prompt [8]",
       integer(rollout(&Rollout::generations), 2, 65'536), kManyCompletions},
      {"--completion-length", "C", kModel, kPlanning, "Completion length",
       "tokens of --seq that grpo, ppo and gkd generate; the others are the prompt [half of --seq; gkd: "
       "nothing is generated]",
       length(rollout(&Rollout::completion_length)), kGenerated},
      {"--steps-per-generation", "N", kModel, kPlanning, "Steps per generation",
       "micro-steps that grpo and gkd train on one generation [those of the fewest optimizer steps that hold "
       "whole groups; gkd: 1]",
       integer(rollout(&Rollout::steps_per_generation), 1, kMostSteps), kFed},
      {"--iterations", "N", kModel, kPlanning, "Passes per generation",
       "passes over each generation (num_iterations; num_ppo_epochs) [1; ppo: 4]",
       integer(rollout(&Rollout::iterations), 1, kMostSteps), kPassed},
      {"--rollout", "ENGINE", kModel, kPlanning, "What generates",
       "engine that generates: vLLM on the training GPUs (colocate), vLLM on GPUs of its own (server), or "
       "the trainer (trainer) [colocate; ppo, gkd: trainer]",
       word(rollout(&Rollout::engine)), kRollout},
      {"--vllm-memory", "SHARE", kModel, kPlanning, "vLLM's memory share",
       "share of each GPU's memory that colocated vLLM uses (vllm_gpu_memory_utilization) [0.3]",
       number(rollout(&Rollout::engine_share), 0.01, 1), kColocated},
      {"--vllm-sleep", "0|1|2", kModel, kPlanning, "vLLM's sleep level",
       "what colocated vLLM keeps during training: everything (0), its weights in host memory (1), nothing "
       "(2) [0]",
       integer(rollout(&Rollout::sleep_level), 0, 2, {"0", "1", "2"}), kColocated},
      {"--vllm-tp", "N", kModel, kPlanning, "vLLM's tensor parallel",
       "tensor-parallel degree of vLLM's model (vllm_tensor_parallel_size) [1]",
       integer(rollout(&Rollout::engine_ranks), 1, kMostDegree), kEngine},
      {"--value-model", "NAME", kModel, kPlanning, "Value model",
       "model that predicts values under ppo and trains beside the policy, named as in --model [the policy's "
       "shape]",
       name(at(&Options::value_model), NamesOf::models, true), kValues},
      {"--reward-model", "NAME", kModel, kPlanning, "Reward model",
       "frozen model that gives rewards under ppo, named as in --model [the policy's shape]",
       name(at(&Options::reward_model), NamesOf::models, true), kValues},
      {"--mini-batches", "N", kModel, kPlanning, "Mini-batches",
       "parts of a generation under ppo, each of --grad-accum micro-steps (num_mini_batches) [1]",
       integer(rollout(&Rollout::mini_batches), 1, kMostSteps), kValues},
      {"--rollout-batch", "N", kModel, kPlanning, "Generated at once",
       "samples that a GPU generates and scores at once under ppo (local_rollout_forward_batch_size) [64]",
       integer(rollout(&Rollout::forward_batch), 1, kMostSteps), kValues},
      {"--gpus", "N", kCluster, kPlanning, "GPUs", "number of GPUs [1]", gpus(), kNone, "", lint},
      {"--gpu", "NAME", kCluster, kOneMachine | hardware_import, "GPU type",
       "GPU profile; zplan hardware lists them [a generic GPU]",
       name(cluster(&ClusterRequest::gpu), NamesOf::gpus, true), kNone, "", lint},
      {"--instance", "NAME", kCluster, plan | search | compare | fit, "Cloud shape",
       "cloud shape such as p5.48xlarge, with its GPUs, links, host memory and disks; zplan hardware "
       "instances lists them [none]",
       name(cluster(&ClusterRequest::instance), NamesOf::instances)},
      {"--mem", "GIB", kCluster, kPlanning, "Memory (GiB)",
       "memory per GPU in GiB as nvidia-smi reports it; replaces the profile's",
       gibibytes(cluster(&ClusterRequest::memory))},
      {"--nodes", "M", kCluster, kPlanning, "Nodes", "nodes that hold the GPUs [1]",
       integer(cluster(&ClusterRequest::nodes), 1, kMostGpus)},
      {"--node", "TYPE", kCluster, kPlanning | hardware_import, "Node type",
       "how the GPUs of a node are connected: nvswitch, pcie, … [usual for the GPU]",
       name(cluster(&ClusterRequest::node), NamesOf::nodes)},
      {"--network", "NAME", kCluster, kPlanning | hardware_import, "Network",
       "network between nodes: 8x400g, 100g, … [usual for the GPU]",
       name(cluster(&ClusterRequest::network), NamesOf::networks)},
      {"--host-mem", "GIB", kCluster, kPlanning, "Host memory (GiB)",
       "host memory per node in GiB [usual for the node type]",
       gibibytes(cluster(&ClusterRequest::host_memory))},
      {"--pcie", "GENxLANES", kCluster, kPlanning, "PCIe slots",
       "PCIe generation and lanes of each GPU's slot, such as 4x8 (nvidia-smi -q) [the GPU's generation, 16 "
       "lanes]",
       special(OptionKind::text, set_pcie)},
      {"--topology", "PIX|PXB|PHB|NODE|SYS", kCluster, kPlanning, "Way between GPUs",
       "longest path between two GPUs of a node, as nvidia-smi topo -m names it [usual for the node type]",
       word(cluster(&ClusterRequest::path))},
      {"--host-threads", "N", kCluster, kPlanning, "Threads of a process",
       "host threads of each process (OMP_NUM_THREADS), which run offloaded optimizers [its share of the "
       "cores]",
       integer(cluster(&ClusterRequest::host_threads), 1, 100'000)},
      {"--host-bandwidth", "GB/S", kCluster, kPlanning, "Host bandwidth (GB/s)",
       "rated memory bandwidth of a node's processors in GB/s [usual for the node type]",
       number(cluster(&ClusterRequest::host_bandwidth), 0.01, 1e6, 1e9)},
      {"--disk-bandwidth", "GB/S", kCluster, kPlanning, "Disk bandwidth (GB/s)",
       "rate in GB/s at which a node's drives read and write, for offload to NVMe [3]",
       number(cluster(&ClusterRequest::disk), 0.01, 1e6, 1e9)},
      {"--headroom", "PCT", kCluster, kPlans | search | compare | fit | lint, "Headroom (%)",
       "share of each GPU to leave free, in percent [10]",
       number(at(&Options::headroom, &Headroom::fraction), 0, kMostHeadroom, 0.01)},
      {"--zero", "LIST", kSearch, kPlans | search | fit | check, "ZeRO stages",
       "ZeRO stages to consider, such as 2,3 [0,1,2,3]",
       integers(space(&SearchSpace::zero_stages), 0, 3, {"0", "1", "2", "3"}, false)},
      {"--tp", "LIST", kSearch, kPlans | search | fit | check | lint, "Tensor parallel",
       "tensor-parallel degrees to consider, such as 1,4 [1 and powers of two up to a node]",
       integers(space(&SearchSpace::tensor_parallel), 1, kMostDegree, kDegrees), kNone, "", lint},
      {"--pp", "LIST", kSearch, kPlans | search | fit | check, "Pipeline parallel",
       "pipeline stages to consider (Megatron-Core, torchtitan), such as 1,4 [1 and powers of two that "
       "divide layers]",
       integers(space(&SearchSpace::pipeline_parallel), 1, kMostDegree, kDegrees), kStages},
      {"--vpp", "LIST", kSearch, kPlans | search | fit | check, "Virtual stages",
       "virtual pipeline stages to consider (Megatron-Core, torchtitan): chunks of layers on each pipeline "
       "stage, such "
       "as "
       "1,2 [1]",
       integers(space(&SearchSpace::virtual_stages), 1, kMostDegree, kDegrees), kStages},
      {"--megatron", "LIST", kSearch, kPlans | search | fit | check, "Megatron-Core's arguments",
       "arguments of Megatron-Core, by its own names without dashes: NAME, or NAME=VALUE; none: its own "
       "defaults (docs/megatron.md) "
       "[those of its recipes]",
       special(OptionKind::text, set_megatron, possible_words(megatron_arguments())), kMegatronAlone},
      {"--torchtitan", "LIST", kSearch, kPlans | search | fit | check, "torchtitan's settings",
       "settings of torchtitan, by the last part of its own names: NAME, or NAME=VALUE; none: its own "
       "defaults (docs/torchtitan.md) [none]",
       special(OptionKind::text, set_torchtitan, possible_words(titan_arguments())), kTorchtitanAlone},
      {"--pipeline-schedule", "NAME", kSearch, kPlans | search | fit | check, "Pipeline schedule",
       "schedule of the pipeline's stages (torchtitan), by the name of torch's class [1F1B]",
       special(OptionKind::word, set_pipeline_schedule, all_names<PipelineSchedule>()), kTorchtitanAlone},
      {"--sp", "LIST", kSearch, kPlans | search | fit | check | lint, "Sequence parallel",
       "sequence-parallel degrees to consider (Ulysses: of DeepSpeed, or of ms-swift), such as 1,8 [1]",
       integers(space(&SearchSpace::sequence_parallel), 1, kMostDegree, kDegrees)},
      {"--cp", "LIST", kSearch, kPlans | search | fit | check, "Context parallel",
       "context-parallel degrees to consider (ring attention with FSDP2), such as 1,8 [1]",
       integers(space(&SearchSpace::context_parallel), 1, kMostDegree, kDegrees)},
      {"--ep", "LIST", kSearch, kPlans | search | fit | check, "Expert parallel",
       "expert-parallel degrees to consider (DeepSpeed AutoEP, Megatron-Core, torchtitan), such as 1,8 [1; "
       "under "
       "the latter two 1, a node and all GPUs of a stage]",
       integers(space(&SearchSpace::expert_parallel), 1, kMostDegree, kDegrees)},
      {"--etp", "LIST", kSearch, kPlans | search | fit | check, "Expert tensor parallel",
       "degrees of tensor parallelism within experts to consider (Megatron-Core), such as 1,2 [1]",
       integers(space(&SearchSpace::expert_tensor_parallel), 1, kMostDegree, kDegrees), kMegatronAlone},
      {"--dp-replicate", "LIST", kSearch, kPlans | search | fit | check, "Replicas",
       "copies of what FSDP2 shards (hybrid sharding) to consider, such as 1,2 [1]",
       integers(space(&SearchSpace::replicas), 1, kMostDegree, kDegrees)},
      {"--routing", "balanced|skew=S", kSearch, kPlans | search | compare | fit | check, "Routing of tokens",
       "rows of the first rank of an expert-parallel group, as a multiple S of the mean [balanced]",
       special(OptionKind::word, set_routing, {"balanced", "skew=2"})},
      {"--cp-rotate", "allgather|alltoall", kSearch, kPlans | search | fit | check, "Ring rotation",
       "collective that passes keys and values around the ring [allgather]",
       word(space(&SearchSpace::long_context, &LongContext::rotation))},
      {"--offload", "LIST", kSearch, kPlans | search | fit | check, "Offload",
       "states to offload, each an alternative: none, optimizer, all, … [none,optimizer,all]",
       words(space(&SearchSpace::offloads))},
      {"--buckets", "default|hf-auto", kSearch, kPlans | search | compare | fit | check, "Bucket sizes",
       "bucket sizes: DeepSpeed's defaults, or HF's for \"auto\" [hf-auto]",
       word(space(&SearchSpace::buckets)), kDeepSpeed},
      {"--ds-config", "FILE", kSearch, kPlans | fit | check, "DeepSpeed config",
       "DeepSpeed config to plan exactly; options fill what it leaves open",
       path(at(&Options::ds_config), OptionKind::config), kDeepSpeed},
      {"--recipe", "LIST", kSearch, plan | search | fit, "Trainer's config",
       "configs of axolotl, LLaMA-Factory, TRL, torchtune, torchtitan, ms-swift, accelerate or "
       "TrainingArguments, read as options; options given beside them win",
       files(at(&Options::recipe_files))},
      {"--framework", "NAME", kSearch, kPlans | search | fit | check | lint, "Framework",
       "framework that shards the model: deepspeed, fsdp (FSDP2), torch (DDP, or one GPU), megatron "
       "(Megatron-Core), torchtitan; search takes several, separated by commas [deepspeed]",
       framework()},
      {"--deepspeed-version", "V", kSearch, kPlans | search | compare | fit | lint, "DeepSpeed release",
       "DeepSpeed release that the config is for: 0.16 to 0.19, or one such as 0.18.3 [0.19]",
       special(OptionKind::text, set_release, {"0.16", "0.17", "0.18", "0.19"}), kDeepSpeed, "", lint},
      {"--trainer", "LIST", kTraining, plan | search | fit, "Trainer's defaults",
       "trainers whose defaults hold for options that are not given: trl, transformers, swift, unsloth, "
       "llama-factory, axolotl, torchtune, litgpt; with a release as in trl@1.16 [none]",
       several(special(OptionKind::word, set_trainers, trainer_names(), false))},
      {"--precision", "bf16|fp16|fp32", kTraining, kPlanning, "Precision",
       "type that the model computes in [bf16]", word(training(&Training::precision))},
      {"--optimizer", "NAME", kTraining, kPlanning, "Optimizer",
       "optimizer: adamw, adamw8bit, adamw4bit, adamw32bit, paged_adamw8bit, paged_adamw32bit, sgd, "
       "sgd-momentum, adafactor, lion, lion8bit, lion32bit, paged_lion8bit, paged_lion32bit, muon [adamw]",
       open(word(training(&Training::optimizer)))},
      {"--no-master-weights", "", kTraining, kPlanning, "No fp32 master weights",
       "keep no fp32 copy of 16-bit weights", flag(training(&Training::master_weights), false)},
      {"--optimizer-kernel", "fused|foreach|single|deepspeed-fused", kTraining, kPlanning,
       "Optimizer's kernel",
       "how torch's AdamW updates: one kernel over all parameters (fused), lists with temporaries of all at "
       "once (foreach), one parameter after the other (single); DeepSpeed's FusedAdam (deepspeed-fused) "
       "[fused]",
       word(training(&Training::optimizer_kernel))},
      {"--optimizer-in-backward", "", kTraining, kPlanning, "Optimizer in the backward",
       "update each parameter as soon as its gradient is there, and free that",
       flag(training(&Training::steps_in_backward)), kStepsInBackward},
      {"--checkpointing", "none|selective|full", kTraining, kPlanning, "Checkpointing",
       "activations that the backward pass computes again [full]", word(space(&SearchSpace::checkpointing))},
      {"--checkpoint-offload", "none|alst|deepspeed|unsloth|trl|torchtune", kTraining, kPlanning,
       "Activations on the host",
       "keep in host memory the inputs of checkpointed layers, by ArcticTraining's patch (alst), DeepSpeed's "
       "hooks or Unsloth; or all that autograd saves, by hooks of trl or torchtune (activation offloading), "
       "with and without checkpointing [none]",
       word(space(&SearchSpace::long_context, &LongContext::checkpoint_offload))},
      {"--tiled-mlp", "auto|N", kTraining, kPlanning, "Tiled MLP",
       "slices of the tokens that the feed-forward layers run over (ALST) [whole]",
       integer_or(space(&SearchSpace::long_context, &LongContext::tiled_mlp), "auto", LongContext::kAutoTiles,
                  kMostMlpTiles)},
      {"--tiled-loss", "auto|N", kTraining, kPlanning, "Tiled loss",
       "slices of the tokens that head and loss run over (ALST) [whole]",
       integer_or(space(&SearchSpace::long_context, &LongContext::tiled_loss), "auto",
                  LongContext::kAutoTiles, kMostLossTiles)},
      {"--attention", "flash|sdpa|eager", kTraining, kPlanning, "Attention", "attention kernel [flash]",
       word(training(&Training::attention))},
      {"--fused-loss", "", kTraining, kPlanning, "Fused loss",
       "use a fused or chunked cross-entropy (Liger and the like), which never holds all logits",
       flag(training(&Training::fused_loss)), kTokenLoss},
      {"--loss-chunks", "N", kTraining, kPlanning, "Loss in slices",
       "slices of the tokens that the cross-entropy runs over; the logits stay whole [1]",
       integer(training(&Training::loss_chunks), 1, kMostLossChunks), kChunked},
      {"--sliced-head", "", kTraining, kPlanning, "Head in slices",
       "run the head slice by slice too, as torchtune does; with --loss-chunks",
       flag(training(&Training::sliced_head)), kWithChunks},
      {"--fused-head", "", kTraining, kPlanning, "Fused head",
       "use TRL's head without logits, which computes log-probabilities by tiles, and again in the backward",
       flag(training(&Training::fused_head)), kFusedHead},
      {"--loss-shift", "labels|logits|logits-alone", kTraining, kPlanning, "What the loss shifts",
       "what the loss shifts by one: the labels (transformers since 4.49), or a copy of the logits (before) "
       "[labels]",
       word(training(&Training::loss_shift)), kShifted},
      {"--cut-cross-entropy", "", kTraining, kPlanning, "Cut cross-entropy",
       "use Apple's cut cross-entropy, which keeps logits in the multiprocessors, forward and backward",
       flag(training(&Training::cut_loss)), kCut},
      {"--compile", "none|layer|model", kTraining, kPlanning, "torch.compile",
       "what torch.compile compiles: each decoder layer (torchtune, torchtitan), or the whole model with "
       "head "
       "and loss (TrainingArguments(torch_compile=True)) [none]",
       word(training(&Training::compile))},
      {"--float8", "none|tensorwise|rowwise|tensorwise-gather", kTraining, kPlanning, "Float8 products",
       "multiply in 8 bits in the layers' linear modules (torchao), operands scaled as a whole or by rows; "
       "tensorwise-gather: FSDP2 gathers weights in 8 bits, too [none]",
       word(training(&Training::float8))},
      {"--kernels", "torch|liger|fla", kTraining, kPlanning, "Kernels of layers",
       "kernels of the layers: PyTorch's (torch), Liger-Kernel's norms, rotations and gated activations "
       "(liger), flash-linear-attention's gated delta rule (fla) [torch]",
       special(OptionKind::word, set_kernels, kernel_names(), false)},
      {"--modules", "LIBRARY", kTraining, kPlanning, "Library of layers",
       "library whose layers run: transformers, litgpt, llm-foundry, torchtitan, unsloth [transformers]",
       special(OptionKind::word, set_modules, module_set_names(), false)},
      {"--expandable-segments", "", kTraining, kPlanning, "Expandable segments",
       "run PyTorch's allocator with expandable_segments:True",
       flag(training(&Training::expandable_segments))},
      {"--seq", "S", kBatch, kPlanning, "Sequence length", "tokens per sample; 8k is 8192 [2048]",
       length(training(&Training::sequence_length))},
      {"--lengths", "FILE|mean=M,spread=S,limit=L", kBatch, plan | search | fit, "Sample lengths",
       "lengths of the samples in tokens: a file with one a line, or a length and how many have it; or mean, "
       "standard deviation and limit [all as --seq]",
       text(at(&Options::lengths)), kOneSize},
      {"--batching", "padded|grouped|packed", kBatch, plan | search | fit, "Batching",
       "how samples of different lengths are batched: padded to the longest, grouped by length, or packed "
       "into full rows [padded]",
       word(at(&Options::batching)), kWithLengths},
      {"--micro-batch", "B|max", kBatch, kPlanning, "Micro-batch",
       "samples per GPU and forward pass; max finds the most that fit [1]",
       integer_or(space(&SearchSpace::micro_batch_size), "max", std::nullopt, kMostMicroBatch)},
      {"--grad-accum", "A", kBatch, kPlanning, "Gradient accumulation",
       "micro-batches per optimizer step [1; with pipeline stages 4 for each]",
       integer(space(&SearchSpace::gradient_accumulation_steps), 1, kMostSteps)},
      {"--global-batch", "G", kBatch, kPlanning, "Global batch",
       "samples per optimizer step over all GPUs [follows from the others]",
       integer(space(&SearchSpace::global_batch_size), 1, kMostGlobalBatch)},
      {"--load-dtype", "bf16|fp16|fp32", kBeside, kRuns, "Load as",
       "type that from_pretrained loads the weights in [the checkpoint's, or fp32 where the weights are the "
       "masters]",
       word(beside(&BesideSteps::load_dtype))},
      {"--load-everywhere", "", kBeside, kRuns, "Every rank loads",
       "let every rank read the checkpoint at stage 3 (no zero.Init)",
       flag(beside(&BesideSteps::loads_everywhere)), kGathers},
      {"--save", "full|sharded", kBeside, kRuns, "Saved model",
       "save the weights gathered on one rank (full) or as every rank's shards [what the plan's config says]",
       word(beside(&BesideSteps::save)), kShards},
      {"--eval-batch", "N", kBeside, kRuns, "Evaluation batch",
       "samples per GPU in an evaluation step [no evaluation]",
       integer(beside(&BesideSteps::eval_batch), 1, kMostMicroBatch)},
      {"--eval-logits", "", kBeside, kRuns, "Logits are kept",
       "keep the logits of all samples, as the Trainer does with compute_metrics [losses alone]",
       flag(beside(&BesideSteps::keeps_logits)), kWithEvalBatch},
      {"--eval-samples", "N", kBeside, kRuns, "Samples evaluated", "samples whose logits an evaluation keeps",
       count(beside(&BesideSteps::eval_samples), 1, kMostEvaluated, 1000, "10k"), kWithEvalLogits, "",
       std::nullopt, kSamplesNeeded},
      {"--eval-accumulation", "N", kBeside, kRuns, "Steps until moved",
       "evaluation steps until kept logits move to the host [never before the end]",
       integer(beside(&BesideSteps::eval_accumulation_steps), 1, kMostEvaluated), kWithEvalLogits},
      {"--generate", "N", kBeside, kRuns, "Tokens generated",
       "tokens to generate after each prompt of --seq tokens [none]",
       length(beside(&BesideSteps::new_tokens)), kSampled},
      {"--samples", "N", kBudget, kPriced, "Samples",
       "samples of an epoch, from which the run's duration follows",
       count(budget(&Budget::samples), 1, kMostTrained, 1000, "50000 or 50k")},
      {"--tokens", "N", kBudget, kPriced, "Tokens",
       "tokens of an epoch, in the place of --samples: 100B, 1e11",
       count(budget(&Budget::tokens), 1, kMostTrained), kOneBudget},
      {"--epochs", "X", kBudget, kPriced, "Epochs", "number of epochs [1]",
       number(budget(&Budget::epochs), 0.001, 1e6), kBudgeted},
      {"--price", "X", kBudget, kPriced, "Price of a GPU-hour",
       "price of a GPU-hour in any currency, from which the run's cost follows; hardware compare takes one "
       "for all or X,Y,… in the order of the names",
       several(special(OptionKind::number, set_price, {}, false)), kBudgeted},
      {"--order", "given|fastest|cheapest", kCompare, compare | hardware_compare, "",
       "order of GPUs and cloud shapes, or of a file's scenarios [given]", word(at(&Options::order))},
      {"--baseline", "STRATEGY|FILE|NAME", kCompare, compare, "",
       "what differences are from: a strategy, a ds_config, a report saved with --json, or a scenario's name "
       "[the first]",
       path(at(&Options::baseline), OptionKind::config, false)},
      {"--differences", "", kCompare, compare, "", "leave out lines in which all strategies are alike",
       flag(at(&Options::differences))},
      {"--slide", "", kCompare, compare, "",
       "a title and the five lines that decide, for a slide; with --markdown as a table to paste",
       flag(at(&Options::slide))},
      {"--solve", "WHAT", kFit, fit, "",
       "find the most or the least that fits: micro-batch, sequence, model, vllm-memory; gpus, memory, "
       "host-memory [all left open]",
       word(at(&Options::solve))},
      {"--within", "TIME", kFit, fit, "",
       "find the fewest GPUs that train --samples or --tokens in 36h, 14d or 2w, the cheapest and the "
       "fastest; --gpus is then the most to take [1024]",
       special(OptionKind::text, set_within), kBudgeted},
      {"--oom", "TEXT|FILE", kFit, fit, "",
       "explain a CUDA out-of-memory message, or the lines of a log (- for stdin), and say what helps",
       path(at(&Options::oom))},
      {"--worst", "N", kCheck, check, "", "show only the N records that are furthest off [all]",
       integer(at(&Options::worst), 0, 1'000'000)},
      {"--fit-efficiency", "", kCheck, check, "",
       "fit by least squares the share of their peaks that GPUs reach to measured speeds",
       flag(at(&Options::fit_efficiency))},
      {"--tolerance", "X", kCheck, check, "",
       "exit with status 1 where a median error exceeds X: 0.05 or 5% [no limit]",
       special(OptionKind::number, set_tolerance)},
      {"--fix", "", kLint, lint, "", "repair the configs in place; the originals stay as FILE.orig",
       flag(at(&Options::fix))},
      {"--sarif", "", kLint, lint, "", "write findings as SARIF 2.1.0, for code scanners",
       flag(at(&Options::sarif))},
      {"--name", "NAME", kImport, hardware_import, "", "name of the profile [the GPU's name with -measured]",
       text(at(&Options::profile_name))},
      {"--output", "FILE", kImport, hardware_import, "",
       "file to write the profile to (- for stdout) [stdout]", path(at(&Options::output)), kNone, "-o"},
      {"--json", "", kOutput, kAllButImport, "",
       "write one JSON object (zplan.report/1); with --help the table of options",
       special(OptionKind::flag, set_format<OutputFormat::json>)},
      {"--csv", "", kOutput, kPlans | search | compare | fit | check, "",
       "write one line per plan, in bytes and seconds",
       special(OptionKind::flag, set_format<OutputFormat::csv>)},
      {"--markdown", "", kOutput, kPlans | search | compare | fit | check, "",
       "write the table for a document", special(OptionKind::flag, set_format<OutputFormat::markdown>)},
      {"--explain", "", kOutput, plan | search | compare, "",
       "show every figure with its formula, its numbers and its source", flag(at(&Options::explain))},
      {"--verbose", "", kOutput, plan | search | compare | fit, "",
       "print the whole answer: every strategy, reason and assumption, not one screen of them",
       flag(at(&Options::verbose))},
      {"--no-advice", "", kOutput, plan | search, "",
       "leave out what would train faster, for scripts that ask much: it takes most of an answer's time",
       flag(at(&Options::no_advice))},
      {"--emit", "FILE", kOutput, plan | search | compare | lint, "",
       "write the recommended config: a ds_config, or accelerate's for fsdp (- for stdout)",
       path(at(&Options::emit)), kWithConfigs},
      {"--recipe-out", "FILE", kOutput, plan | search, "",
       "write the first --recipe with the recommended change, and the config that it names beside it (- for "
       "stdout)",
       path(at(&Options::recipe_out)), kWithRecipe},
      {"--snapshot", "FILE", kOutput, plan | search | compare, "",
       "write the predicted allocations of the rank that needs most memory as a PyTorch memory snapshot, for "
       "pytorch.org/memory_viz",
       path(at(&Options::snapshot))},
      {"--trace", "FILE", kOutput, plan | search | compare, "",
       "write the predicted step as a trace in the form of PyTorch's profiler, for ui.perfetto.dev",
       path(at(&Options::trace))},
      {"--html", "FILE", kOutput, plan | search | compare, "", "write the answer as one page for a browser",
       path(at(&Options::html))},
      {"--nvme-path", "FOLDER", kOutput, plan | search | compare | fit | lint, "NVMe path",
       "folder on a local disk for offload to NVMe [/local_nvme]",
       path(at(&Options::nvme_path), OptionKind::path, false), kDeepSpeed},
      {"--config-style", "STYLE", kOutput, plan | search | compare | lint, "Config style",
       "style of the ds_config: plain, hf-auto (\"auto\" for the HF Trainer), ms-swift [plain]",
       word(at(&Options::config_style)), kStyles},
      {"--units", "GiB|GB", kOutput, kPlanning, "Unit of memory",
       "unit of memory: 1024³ or 1000³ bytes [GiB]",
       special(OptionKind::word, set_units, {"GiB", "GB"}, false)},
      {"--no-color", "", kOutput, kAll, "", "use no colour on a terminal (as does NO_COLOR)",
       flag(at(&Options::no_color))},
      {"--help", "", kOutput, kAll, "", "print this text", flag(at(&Options::help)), kNone, "-h"},
      {"--version", "", kOutput, kAll, "", "print the version and how many models and GPUs are known",
       flag(at(&Options::version)), kNone, "-V"},
  };
  return table;
}
}  // namespace zplan
