#include "planner/frameworks/deepspeed/config/lint.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

/// Returns more rounds than a file could need: each takes findings away for good, and reads all of the text.
std::size_t most_rounds(std::string_view text) {
  constexpr std::size_t kMost = 1000, kLeast = 20, kBytes = std::size_t{16} << 20;
  return std::clamp(kBytes / (text.size() + 1), kLeast, kMost);
}

const Json& nothing() {
  static const Json null;
  return null;
}

/// 0 to 3; 0 where it is anything else, at which DeepSpeed stops. accelerate takes 2 for "auto".
int stage_of(const Json& document, ConfigStyle style) {
  if (!document.is_object() || !document.contains("zero_optimization")) return 0;
  const Json& zero = document.at("zero_optimization");
  if (zero.is_boolean()) return zero.get<bool>() ? 1 : 0;
  if (!zero.is_object() || !zero.contains("stage")) return 0;
  const Json& stage = zero.at("stage");
  if (is_auto(stage)) return style == ConfigStyle::plain ? 0 : 2;
  const ValueRule& rule = lint_knowledge().values.at("/zero_optimization/stage");
  const Fit fit = fit_of(rule, stage);
  return fit == Fit::right || fit == Fit::converted ? converted(rule, stage).get<int>() : 0;
}

void note_below(const Json& value, const std::string& pointer,
                std::unordered_map<std::string, const Json*>& values) {
  values[pointer] = &value;
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      note_below(value[i], fmt::format("{}/{}", pointer, i), values);
  if (value.is_object())
    for (const auto& [key, below] : value.get_ref<const Json::object_t&>())
      note_below(below, pointer + "/" + pointer_step(key), values);
}

/// Several findings at one place stay in the order of the rules.
void sort_by_place(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
}

std::vector<Finding> lint_document(const DsText& ds, const LintOptions& options) {
  const ConfigStyle style = options.style.value_or(inferred_style(ds.document));
  LintContext context{ds, options, style, stage_of(ds.document, style)};
  context.note_values();
  for (const auto rules :
       {lint_text_flaws, lint_all_keys, lint_arguments, lint_values, lint_auto, lint_batch, lint_sequence,
        lint_experts, lint_stage, lint_precision, lint_optimizer, lint_scheduler})
    rules(context);
  sort_by_place(context.findings);
  return std::move(context.findings);
}

bool has_auto_of_trainer(const Json& object, const std::string& pointer) {
  return object.is_object() &&
         std::any_of(object.items().begin(), object.items().end(), [&](const auto& item) {
           const std::string own = pointer + "/" + pointer_step(item.key());
           return is_auto(item.value()) ? filled_by_trainer(own) : has_auto_of_trainer(item.value(), own);
         });
}

bool is_flaw(const Finding& finding) {
  return finding.rule == "comment" || finding.rule == "trailing-comma" || finding.rule == "byte-order-mark" ||
         finding.rule == "duplicate-key";
}

/// Takes something out and writes nothing, so that it goes together with others of its kind.
bool only_removes(const Finding& finding) {
  return finding.fix->edits.size() == 1 && finding.fix->edits.front().text.empty();
}

/// Returns those repairs, in order of place, whose spans do not overlap.
std::vector<Finding> apart(const std::vector<Finding>& findings) {
  std::vector<Finding> kept;
  for (const Finding& each : findings)
    if (kept.empty() || each.fix->edits.front().span.begin >= kept.back().fix->edits.front().span.end)
      kept.push_back(each);
  return kept;
}

/// Returns the repairs that can be made at once. Text that is not JSON is repaired first: a removed member
/// would leave its comma.
std::vector<Finding> next_repairs(const std::vector<Finding>& findings) {
  std::vector<Finding> flaws, removals, others;
  for (const Finding& each : findings)
    if (each.fix) (is_flaw(each) ? flaws : only_removes(each) ? removals : others).push_back(each);
  if (!flaws.empty()) return apart(flaws);
  if (!removals.empty()) return apart(removals);
  return others.empty() ? others : std::vector<Finding>{others.front()};
}

}  // namespace

// ---- the context

Finding& LintContext::add(std::string_view rule, const std::string& pointer, Saying saying) {
  const auto key = ds.keys.find(pointer);
  const auto value = ds.values.find(pointer);
  const std::size_t offset = key != ds.keys.end()       ? key->second.begin
                             : value != ds.values.end() ? value->second.begin
                                                        : 0;
  findings.push_back({.rule = std::string(rule),
                      .severity = lint_rule(rule).severity,
                      .pointer = pointer,
                      .place = places.of(offset),
                      .outcome = saying.outcome,
                      .found = std::move(saying.found),
                      .effect = std::move(saying.effect),
                      .advice = std::move(saying.advice),
                      .fix = std::move(saying.fix),
                      .others = std::move(saying.others)});
  return findings.back();
}

void LintContext::note_values() { note_below(ds.document, "", values); }

const Json& LintContext::at(const std::string& pointer) const {
  const auto found = values.find(pointer);
  return found == values.end() ? nothing() : *found->second;
}

bool LintContext::has(const std::string& pointer) const { return !at(pointer).is_null(); }

bool LintContext::flag(const std::string& pointer, bool fallback) const {
  const Json& value = at(pointer);
  const ValueRule rule{.kind = ValueKind::boolean, .checked = true};
  if (value.is_null() || is_auto(value) || fit_of(rule, value) == Fit::wrong_kind) return fallback;
  return converted(rule, value).get<bool>();
}

std::int64_t LintContext::sequence_parallel() const {
  return options.sequence_parallel.value_or(whole("/sequence_parallel_size").value_or(1));
}

std::optional<std::int64_t> LintContext::whole(const std::string& pointer) const {
  const Json& value = at(pointer);
  constexpr double kLargest = 9e18;
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (std::floor(number) != number || std::abs(number) > kLargest) return std::nullopt;
  return value.is_number_float() ? static_cast<std::int64_t>(number) : value.get<std::int64_t>();
}

std::string LintContext::text(const std::string& pointer) const {
  const Json& value = at(pointer);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string LintContext::device(const std::string& section) const {
  const std::string pointer = "/zero_optimization/" + section;
  const bool old = flag(
      section == "offload_param" ? "/zero_optimization/cpu_offload_param" : "/zero_optimization/cpu_offload",
      false);
  const std::string named = text(pointer + "/device");
  return old ? "cpu" : named.empty() ? "none" : named;
}

std::string LintContext::precision() const {
  const std::string bf16 = has("/bf16") ? "/bf16" : "/bfloat16";
  if (flag(bf16 + "/enabled", false)) return "bf16";
  if (flag("/fp16/enabled", false)) return "fp16";
  const bool open = is_auto(at(bf16 + "/enabled")) || is_auto(at("/fp16/enabled"));
  return open && style != ConfigStyle::plain ? "" : "fp32";
}

LintFix LintContext::removal(const std::string& pointer) const {
  return {"leave it out", remove_member(ds, pointer)};
}

LintFix LintContext::writing(const std::string& pointer, const std::string& json) const {
  const std::size_t slash = pointer.rfind('/');
  const std::string key = pointer.substr(slash + 1);
  return {fmt::format("write \"{}\": {}", key, json), set_member(ds, pointer.substr(0, slash), key, json)};
}

std::string offered(const std::optional<LintFix>& fix, const std::vector<LintFix>& others) {
  std::string text = fix ? fix->what : "";
  for (const LintFix& each : others) text += (text.empty() ? "" : "; or ") + each.what;
  return text;
}

std::string shown_value(const Json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value.dump();
  return value.is_array() ? "a list" : "an object";
}

bool filled_by_trainer(std::string_view pointer) {
  const std::vector<std::string>& pointers = ds_keys().auto_pointers;
  return std::find(pointers.begin(), pointers.end(), pointer) != pointers.end();
}

bool auto_is_native(std::string_view pointer) {
  return pointer == "/data_types/keep_in_fp32_modules" || pointer == "/pipeline/stages" ||
         pointer.starts_with("/zero_optimization/zenflow/");
}

// ---- what others call

ConfigStyle inferred_style(const Json& document) {
  return has_auto_of_trainer(document, "") ? ConfigStyle::hf_auto : ConfigStyle::plain;
}

std::vector<Finding> lint(std::string_view text, const std::string& source, const LintOptions& options) {
  return lint_document(read_ds_text(text, source), options);
}

FixedText fix(std::string_view text, const std::string& source, const LintOptions& options) {
  FixedText result{std::string(text), {}};
  // Who fills in "auto" does not change where a repair takes the last one out.
  LintOptions same = options;
  same.style = options.style.value_or(inferred_style(read_ds_text(text, source).document));
  for (std::size_t left = most_rounds(text); left > 0; --left) {
    const std::vector<Finding> findings = lint(result.text, source, same);
    const std::vector<Finding> repairs = next_repairs(findings);
    if (repairs.empty()) break;
    std::vector<TextEdit> edits;
    for (const Finding& each : repairs)
      edits.insert(edits.end(), each.fix->edits.begin(), each.fix->edits.end());
    result.text = edited(result.text, std::move(edits));
    result.fixed.insert(result.fixed.end(), repairs.begin(), repairs.end());
  }
  return result;
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& each) { return each.severity == Severity::error; });
}

// ---- every rule, once

const std::vector<LintRule>& lint_rules() {
  using enum Severity;
  static const std::vector<LintRule> rules{
      {"comment", warning,
       "a comment: DeepSpeed's reader takes it, readers of JSON do not (an error where the Trainer fills in "
       "\"auto\")",
       "runtime/config.py hjson.load; accelerate utils/deepspeed.py json.load"},
      {"trailing-comma", warning, "a comma behind the last of a list or object, as for comments",
       "runtime/config.py hjson.load; accelerate utils/deepspeed.py json.load"},
      {"byte-order-mark", warning, "a byte order mark in front, as for comments",
       "runtime/config.py hjson.load; accelerate utils/deepspeed.py json.load"},
      {"duplicate-key", error, "a key stands twice in one object",
       "runtime/config_utils.py dict_raise_error_on_duplicate_keys"},
      {"not-finite", error, "NaN or an infinity, which JSON has not", "runtime/config.py hjson.load"},
      {"not-an-object", error, "the document is no JSON object",
       "runtime/config.py DeepSpeedConfig.__init__"},
      {"unknown-key", error, "misspelt key at the top level: DeepSpeed ignores it silently",
       "runtime/config.py _initialize_params"},
      {"misplaced-key", error,
       "key of another section or tool at the top level: DeepSpeed ignores it silently",
       "runtime/config.py _initialize_params"},
      {"ignored-key", warning,
       "key that nothing of DeepSpeed has, where it does not check: ignored silently, without effect",
       "runtime/config.py _initialize_params"},
      {"comment-key", note, "a key that is a comment by its name: ignored silently",
       "runtime/config.py _initialize_params"},
      {"unknown-section-key", error, "unknown key in a section that takes no others",
       "runtime/config_utils.py DeepSpeedConfigModel extra=forbid"},
      {"ignored-section-key", error,
       "misspelt or misplaced key in a section that DeepSpeed does not check: ignored silently",
       "runtime/config.py, swap_tensor/aio_config.py, activation_checkpointing/config.py"},
      {"removed-key", error, "a key that DeepSpeed took out and stops at",
       "runtime/config.py _reject_removed_config_keys"},
      {"deprecated-key", warning, "an old key, or an old form of one",
       "runtime/config_utils.py _process_deprecated_field, runtime/zero/config.py "
       "read_zero_config_deprecated"},
      {"deprecated-beside-new", error, "an old key beside the one that took its place",
       "runtime/config_utils.py _process_deprecated_field"},
      {"shadowed-section", error, "bfloat16 beside bf16, which alone is read",
       "runtime/precision_config.py get_bfloat16_config"},
      {"two-names", error, "one setting by its JSON name and its Python name",
       "runtime/config_utils.py DeepSpeedConfigModel populate_by_name"},
      {"optimizer-type", error, "an optimizer that neither DeepSpeed nor torch.optim has",
       "runtime/engine.py _configure_basic_optimizer"},
      {"optimizer-argument", error, "an argument that the optimizer does not have",
       "runtime/engine.py _configure_basic_optimizer"},
      {"optimizer-argument-value", error,
       "a learning rate, betas, eps or weight decay that no optimizer takes",
       "ops/adam/fused_adam.py, torch/optim/adamw.py"},
      {"scheduler-type", error, "a scheduler that neither DeepSpeed nor torch.optim.lr_scheduler has",
       "runtime/engine.py _scheduler_from_config"},
      {"scheduler-argument", error, "an argument that the scheduler does not have",
       "runtime/engine.py _scheduler_from_config"},
      {"scheduler-incomplete", error, "an argument without a default is missing", "runtime/lr_schedules.py"},
      {"torch-scheduler", error, "a scheduler of PyTorch's under ZeRO",
       "runtime/engine.py _scheduler_from_config, torch/optim/lr_scheduler.py"},
      {"missing-type", error, "optimizer or scheduler without a type: DeepSpeed makes none",
       "runtime/config.py get_optimizer_name, get_scheduler_name"},
      {"max-grad-norm", error, "max_grad_norm among the arguments of the optimizer",
       "runtime/engine.py _configure_basic_optimizer"},
      {"not-a-section", error, "something else where a section is expected",
       "runtime/config.py _initialize_params"},
      {"wrong-kind", error, "a value that pydantic cannot read",
       "runtime/config_utils.py DeepSpeedConfigModel"},
      {"unchecked-kind", error, "a value of the wrong kind where DeepSpeed does not check",
       "runtime/config_utils.py get_scalar_param"},
      {"out-of-range", error, "a number outside the limits",
       "runtime/zero/config.py, runtime/config.py _batch_assertion"},
      {"unknown-choice", error, "a word or number that is none of the choices",
       "runtime/zero/config.py, runtime/config.py"},
      {"loose-value", warning, "a value that pydantic converts: \"true\", 1 for true, \"500\"",
       "runtime/config_utils.py DeepSpeedConfigModel"},
      {"auto-nobody-fills", error, "\"auto\" that neither the Trainer nor accelerate fills in",
       "transformers integrations/deepspeed.py HfTrainerDeepSpeedConfig, accelerate utils/dataclasses.py "
       "DeepSpeedPlugin"},
      {"auto-without-trainer", error, "\"auto\" in a config for DeepSpeed alone (--config-style plain)",
       "runtime/config_utils.py DeepSpeedConfigModel.__init__, runtime/config.py"},
      {"auto-needs-trainer", note, "\"auto\" that the Trainer or accelerate fills in",
       "transformers integrations/deepspeed.py HfTrainerDeepSpeedConfig"},
      {"no-batch-size", error, "neither train_batch_size nor train_micro_batch_size_per_gpu",
       "runtime/config.py _set_batch_related_parameters"},
      {"batch-product", error, "train_batch_size is not micro-batch x accumulation steps x GPUs",
       "runtime/config.py _batch_assertion"},
      {"batch-gpus", note, "the number of GPUs that the batch sizes hold for",
       "runtime/config.py _batch_assertion"},
      {"batch-autotp-zero3", error, "train_batch_size beside AutoTP at ZeRO-3",
       "runtime/config.py _batch_assertion, runtime/zero/partition_parameters.py"},
      {"sequence-parallel-ranks", error, "sequence parallelism does not divide the number of GPUs",
       "runtime/sequence_parallel/parallel_state_sp.py"},
      {"sequence-parallel-differs", error, "sequence_parallel_size says another degree than --sp",
       "runtime/config.py DeepSpeedConfig"},
      {"sequence-parallel-batch", error,
       "train_batch_size is not micro-batch x accumulation steps x GPUs / sequence-parallel ranks",
       "runtime/config.py _batch_assertion, parallel_state_sp.py"},
      {"sequence-parallel-clipping", warning,
       "gradients are clipped at ZeRO 1 or 2 under sequence parallelism, whose norm is that many times too "
       "large",
       "runtime/zero/stage_1_and_2.py allreduce_bucket"},
      {"sequence-parallel-type", warning,
       "seq_parallel_communication_data_type at ZeRO 1 or 2, which reduce in fp32 all the same",
       "runtime/zero/stage_1_and_2.py allreduce_bucket"},
      {"sequence-parallel-refused", error,
       "with --model and --sp: a model, sequences or attention that Ulysses does not take",
       "runtime/sequence_parallel/ulysses_sp.py"},
      {"expert-parallel-refused", error,
       "an expert_parallel section with which DeepSpeed stops, in its own words; with --model and --gpus "
       "more of them",
       "module_inject/auto_ep_config.py, auto_ep_folding.py, runtime/engine.py"},
      {"expert-parallel-key", warning, "a key of expert_parallel that DeepSpeed does not know and ignores",
       "module_inject/auto_ep_config.py parse_autoep_config"},
      {"expert-parallel-optimizer", warning, "expert parallelism at ZeRO 1 or 2 without an optimizer section",
       "runtime/zero/stage_1_and_2.py _configure_moe_settings"},
      {"expert-parallel-nothing", warning, "with --model: a model in which AutoEP replaces nothing",
       "module_inject/auto_ep.py ep_parser"},
      {"tensor-parallel-ranks", error, "autotp_size does not divide the number of GPUs", "utils/groups.py"},
      {"tensor-parallel-differs", error, "autotp_size says another degree than tp.tp_size or --tp",
       "runtime/engine.py _apply_autotp_partitioning"},
      {"no-effect", warning, "a key that nothing reads at this stage, or nowhere",
       "runtime/engine.py _configure_zero_optimizer, runtime/utils.py all_gather_dp_groups"},
      {"odd-allgather-bucket", error, "an odd allgather_bucket_size at stage 1 or 2",
       "runtime/zero/stage_1_and_2.py"},
      {"offload-without-effect", error,
       "offload_param before stage 3, offload_optimizer at stage 0: ignored silently",
       "runtime/engine.py _configure_zero_optimizer"},
      {"nvme-without-path", error, "the device nvme without nvme_path",
       "runtime/swap_tensor/partitioned_param_swapper.py, optimizer_utils.py"},
      {"nvme-needs-zero3", error, "the device nvme before stage 3", "runtime/zero/stage_1_and_2.py"},
      {"stage-refuses", error, "a setting that DeepSpeed stops at with this stage or another setting",
       "runtime/zero/stage3.py, stage_1_and_2.py, runtime/config.py _do_error_check"},
      {"hpz-partition", error, "zero_hpz_partition_size before stage 3, or one that does not divide the GPUs",
       "utils/groups.py _create_zero_param_parallel_group"},
      {"aio-without-nvme", warning, "aio, and nothing goes to NVMe",
       "runtime/zero/stage3.py _configure_tensor_swapping"},
      {"activation-checkpointing", note, "activation_checkpointing, which Hugging Face models do not use",
       "runtime/activation_checkpointing/checkpointing.py"},
      {"two-precisions", error, "fp16 and bf16 both enabled", "runtime/config.py _initialize_params"},
      {"autocast-beside-16-bit", warning, "torch_autocast beside bf16 or fp16",
       "runtime/engine.py _configure_distributed_model"},
      {"master-weights", error, "16-bit master weights or states without what they need",
       "runtime/zero/stage_1_and_2.py, runtime/config.py _do_error_check"},
      {"quantised-gradients-misread", warning, "zero_quantized_gradients without fp16",
       "csrc/quantization/pt_binding.cpp ds_swizzle_quant"},
      {"accumulation-type", error, "grad_accum_dtype other than the model's at stage 0",
       "runtime/engine.py _do_optimizer_sanity_check"},
      {"parameter-type", error, "param_dtype other than what bf16 and fp16 say",
       "runtime/engine.py _assert_valid_mixed_precision_config"},
      {"card-precision", error, "fp16 on a GPU that DeepSpeed refuses it on",
       "accelerator/cuda_accelerator.py is_fp16_supported"},
      {"card-emulates-bf16", warning, "bf16 on a GPU that has no bf16 arithmetic",
       "accelerator/cuda_accelerator.py is_bf16_supported, torch.cuda.is_bf16_supported"},
      {"untested-optimizer", error,
       "an optimizer that ZeRO does not list, without zero_allow_untested_optimizer",
       "runtime/engine.py _do_optimizer_sanity_check"},
      {"no-clipping", note,
       "gradient_clipping 0 or less, or left out before 0.19.3: gradients are not clipped",
       "runtime/engine.py gradient_clipping"},
      {"warmup-steps", error, "warmup_num_steps that is no whole number above 0",
       "runtime/lr_schedules.py WarmupLR"},
      {"warmup-longer-than-training", warning, "total_num_steps below warmup_num_steps",
       "runtime/lr_schedules.py WarmupDecayLR"},
      {"megatron-refused", error,
       "an argument or a layout that Megatron-Core does not take, or that has no plan (of a script)",
       "Megatron-Core 0.19.2 training/arguments.py, core/transformer/transformer_config.py"},
      {"does-not-fit", error, "the plan of this config does not fit the cluster (with --model and --gpus)",
       "zplan"},
  };
  return rules;
}

const LintRule& lint_rule(std::string_view id) {
  const std::vector<LintRule>& rules = lint_rules();
  return *std::find_if(rules.begin(), rules.end(), [id](const LintRule& each) { return each.id == id; });
}

}  // namespace zplan
