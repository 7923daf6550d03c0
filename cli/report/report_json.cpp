#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "cli/document/json_values.h"
#include "cli/report/advice.h"
#include "cli/report/explain.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "cli/report/script_settings.h"
#include "models/base/version.h"
#include "planner/cost/price.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

Json model_json(const Question& q) {
  const ModelShape& shape = q.model.shape;
  const MixtureOfExperts experts = shape.experts.value_or(MixtureOfExperts{});
  return {{"name", q.model.name},
          {"source", name_json(q.model.source)},
          {"origin", q.model.origin},
          {"architecture", shape.architecture},
          {"parameters", parameters(q.model).value},
          {"trainable_parameters", trainable_parameters(q).value},
          {"active_parameters", active_parameters(q.model).value},
          {"layers", shape.layers},
          {"hidden_size", shape.hidden_size},
          {"intermediate_size", shape.intermediate_size},
          {"attention_heads", shape.attention_heads},
          {"key_value_heads", shape.key_value_heads},
          {"head_size", shape.head_size},
          {"vocabulary_size", shape.vocabulary_size},
          {"tied_embeddings", shape.tied_embeddings},
          {"experts", experts.experts},
          {"experts_per_token", experts.experts_per_token}};
}

Json instance_json(const Instance& instance) {
  return {{"name", instance.name},
          {"provider", instance.provider},
          {"gpus", instance.gpus},
          {"vcpus", instance.vcpus},
          {"local_disk_bytes", instance.local_disk.value},
          {"source", instance.source},
          {"date", instance.date}};
}

Json cluster_json(const Question& q) {
  const Cluster& cluster = q.cluster;
  Json out{{"gpu", cluster.gpu.name},
           {"gpus", cluster.gpus},
           {"nodes", cluster.nodes},
           {"gpus_per_node", cluster.gpus_per_node},
           {"memory_bytes", cluster.memory.value},
           {"usable_memory_bytes", cluster.usable_memory.value},
           {"available_memory_bytes", available(cluster, q.headroom).value},
           {"headroom", q.headroom.fraction},
           {"host_memory_bytes_per_node", cluster.host_memory_per_node.value},
           {"available_host_memory_bytes_per_node", available_on_host(cluster, q.headroom).value},
           {"node", cluster.node.name},
           {"network", cluster.network ? Json(cluster.network->name) : Json(nullptr)},
           {"assumptions", cluster.assumptions}};
  if (cluster.instance) out["instance"] = instance_json(*cluster.instance);
  return out;
}

/// Adds the unusual settings of adapters and packed weights.
void add_adapters(Json& out, const Training& training) {
  if (training.method == Method::full) return;
  if (held_adapters(training) > 1) out["adapters"] = held_adapters(training);
  if (training.dora) out["dora"] = true;
  if (!training.modules_to_save.empty()) {
    out["modules_to_save"] = training.modules_to_save;
    out["ties_saved_modules"] = training.ties_saved_modules;
  }
  if (!training.fp32_adapters) out["fp32_adapters"] = false;
  if (shards_packed(training)) out["quant_storage"] = name_json(training.quant_storage);
}

/// Returns a default of a trainer: flags are true or false, settings that are not planned null.
Json trainer_default_json(const AppliedDefault& each) {
  const bool flag = each.value == "on" || each.value == "off";
  return {{"trainer", each.trainer.trainer},
          {"release", fmt::format("{}.{}", each.trainer.release.major, each.trainer.release.minor)},
          {"option", each.option},
          {"value", each.value.empty() ? Json(nullptr)
                    : flag             ? Json(each.value == "on")
                                       : Json(each.value)},
          {"source", each.source}};
}

/// Returns the lengths of the data set and how they fill the micro-batch of the leading plan.
Json lengths_json(const Report& report) {
  const Question& q = report.question;
  const DataLengths& data = *q.lengths;
  const Strategy& s = leading_plan(report).strategy;
  const std::int64_t samples = s.micro_batch_size;
  const double padded = data.padded_to(samples), useful = data.useful_share(samples);
  const auto micro_batches =
      static_cast<double>(s.gradient_accumulation_steps * s.layout.data_ranks() * samples);
  return {{"samples", data.lengths.samples()},
          {"shortest", data.lengths.shortest()},
          {"longest", data.lengths.longest()},
          {"mean", data.lengths.mean()},
          {"batching", name_json(data.batching)},
          {"worst_sequence", data.worst()},
          {"micro_batch_size", samples},
          {"mean_padded_sequence", padded},
          {"useful_share", useful},
          {"tokens_per_step", padded * useful * micro_batches}};
}

/// Returns the settings of training on completions that the model generates.
Json rollout_json(const Model& model, const Training& training) {
  const Rollout& rollout = training.rollout;
  Json json = {{"engine", name_json(rollout.engine)},      {"generations", rollout.generations},
               {"prompt_length", prompt_tokens(training)}, {"completion_length", completion_tokens(training)},
               {"iterations", passes(training)},           {"vllm_memory", rollout.engine_share},
               {"vllm_sleep", rollout.sleep_level},        {"vllm_tp", rollout.engine_ranks}};
  if (!trains_values(training)) return json;
  json["value_model"] = model.value->name, json["reward_model"] = model.reward->name;
  json["mini_batches"] = rollout.mini_batches, json["rollout_batch"] = rollout.forward_batch;
  return json;
}

/// Returns the settings of learning a teacher's probabilities.
Json distillation_json(const Model& model, const Training& training) {
  const Distillation& about = training.distillation;
  const bool is_named = reference_of(training) == ReferenceModel::copy && model.teacher;
  Json json = {{"teacher", is_named ? Json(model.teacher->name) : Json(nullptr)},
               {"divergence", name_json(about.divergence)}};
  if (about.top > 0) json["teacher_top"] = about.top;
  if (about.adds_likelihood) json["label_loss"] = true;
  return json;
}

/// The modules that get adapters: of "q_v" those of this model's queries and values.
std::vector<std::string> adapted_modules(const Model& model, const LoraTargets& targets) {
  if (targets.modules != std::vector<std::string>{"q_v"}) return targets.modules;
  std::vector<std::string> names;
  const auto add = [&names](const Tensor& tensor, int) {
    if (std::ranges::find(names, tensor.module) == names.end()) names.push_back(tensor.module);
  };
  for_each_tensor(lora_adapters(model, 1, targets), add);
  return names;
}

Json training_json(const Model& model, const Training& training, Framework framework) {
  const bool adapters = training.method != Method::full;
  Json json = {
      {"method", name_json(training.method)},
      {"lora_rank", adapters ? Json(training.lora_rank) : Json(nullptr)},
      {"lora_targets", adapters ? Json(adapted_modules(model, training.lora_targets)) : Json(nullptr)},
      {"lora_dropout", adapters ? Json(training.lora_dropout) : Json(nullptr)},
      {"quantization", training.method == Method::qlora ? name_json(training.quantization) : Json(nullptr)},
      {"prepares_kbit_training", training.prepares_kbit_training},
      {"precision", name_json(training.precision)},
      {"optimizer", name_json(training.optimizer)},
      {"master_weights", training.master_weights && training.precision != Precision::fp32},
      {"sequence_length", training.sequence_length},
      {"attention", name_json(training.attention)},
      {"fused_loss", training.fused_loss || training.cut_loss},
      {"loss_chunks", training.loss_chunks},
      {"sliced_head", training.sliced_head},
      {"modules", training.modules.name},
      {"expandable_segments", training.expandable_segments},
      {"framework", name_json(framework)},
      {"deepspeed_version", to_text(training.deepspeed)}};
  add_adapters(json, training);
  if (training.objective != Objective::sft) {
    json["objective"] = name_json(training.objective);
    const auto reference = reference_of(training);
    json["reference"] = reference ? name_json(*reference) : Json(nullptr);
  }
  if (rolls_out(training)) json["rollout"] = rollout_json(model, training);
  if (distils(training)) json["distillation"] = distillation_json(model, training);
  if (!training.trained_layers.empty()) json["trained_layers"] = training.trained_layers;
  if (training.trains_tower) json["trains_tower"] = true;
  if (training.fused_head) json["fused_head"] = true;
  if (training.cut_loss) json["cut_cross_entropy"] = true;
  if (training.compile != Compile::none) json["compile"] = name_json(training.compile);
  if (training.float8 != Float8::none) json["float8"] = name_json(training.float8);
  if (training.loss_shift != LossShift::labels) json["loss_shift"] = name_json(training.loss_shift);
  if (training.modules.kernels.name != LayerKernels{}.name) json["kernels"] = training.modules.kernels.name;
  if (training.freezes_vision) json["frozen_parts"].push_back("vision");
  if (training.freezes_projector) json["frozen_parts"].push_back("projector");
  if (const ImageBatch& images = training.images; images.per_sample > 0)
    json["images"] = {{"per_sample", images.per_sample},
                      {"tokens", images.tokens},
                      {"tiles", images.tiles},
                      {"rows", images.rows},
                      {"columns", images.columns}};
  return json;
}

/// Returns a number of slices, or "auto".
Json tiles_json(std::int64_t tiles) { return tiles == LongContext::kAutoTiles ? Json("auto") : Json(tiles); }

/// Adds the settings that divide or tile a sample's tokens, or keep them elsewhere.
void add_tokens(Json& out, const Strategy& s) {
  if (s.layout.sequence > 1) out["sequence_parallel"] = s.layout.sequence;
  if (s.layout.context > 1)
    out["context_parallel"] = s.layout.context, out["key_rotation"] = name_json(s.long_context.rotation);
  if (s.experts.enabled) out["expert_parallel"] = s.layout.expert;
  if (s.layout.expert_tensor > 1) out["expert_tensor_parallel"] = s.layout.expert_tensor;
  if (s.layout.replicate > 1) out["dp_replicate"] = s.layout.replicate;
  if (s.long_context.tiled_mlp != 0) out["tiled_mlp"] = tiles_json(s.long_context.tiled_mlp);
  if (s.long_context.tiled_loss != 0) out["tiled_loss"] = tiles_json(s.long_context.tiled_loss);
  if (s.long_context.checkpoint_offload != CheckpointOffload::none)
    out["checkpoint_offload"] = name_json(s.long_context.checkpoint_offload);
}

Json strategy_json(const Strategy& s, Framework framework) {
  Json out{{"framework", name_json(framework)},
           {"zero_stage", s.zero_stage},
           {"tensor_parallel", s.layout.tensor},
           {"data_parallel", s.layout.data_ranks()},
           {"offload_optimizer", name_json(s.offload_optimizer)},
           {"offload_parameters", name_json(s.offload_parameters)},
           {"activation_checkpointing", name_json(s.checkpointing)},
           {"micro_batch_size", s.micro_batch_size},
           {"gradient_accumulation_steps", s.gradient_accumulation_steps},
           {"global_batch_size", s.global_batch_size()},
           {"reduce_bucket_elements", s.zero.reduce_bucket_size.value},
           {"prefetch_bucket_elements", s.zero.prefetch_bucket_size.value},
           {"persistence_threshold_elements", s.zero.persistence_threshold.value}};
  add_tokens(out, s);
  if (s.megatron) out["pipeline_parallel"] = s.layout.pipeline, out["megatron"] = megatron_words(*s.megatron);
  if (s.torchtitan)
    out["pipeline_parallel"] = s.layout.pipeline, out["torchtitan"] = titan_words(*s.torchtitan);
  if (s.layout.virtual_stages > 1) out["virtual_stages"] = s.layout.virtual_stages;
  return out;
}

Json moment_json(const Moment& moment) {
  Json out{{"phase", name_json(reported(moment.phase))},
           {"at", std::string(moment.at)},
           {"bytes", moment.live.value}};
  if (moment.layer >= 0) out["layer"] = moment.layer;
  return out;
}

Json memory_json(const MemoryPlan& memory) {
  Json out;
  for (const auto& [part, name] : EnumNames<MemoryPart>::table)
    out[std::string(name)] = memory.peak.holds.part(part).value;
  out["peak"] = memory.peak.bytes().value;
  out["peak_allocated"] = memory.peak_allocated.value;
  out["peak_reserved"] = memory.peak_reserved.value;
  out["required"] = memory.required.value;
  out["required_low"] = memory.required_low.value;
  out["required_high"] = memory.required_high.value;
  out["peak_phase"] = name_json(reported(memory.peak.phase));
  out["steady"] = {{"parameters", memory.steady.parameters.value},
                   {"gradients", memory.steady.gradients.value},
                   {"optimizer_states", memory.steady.optimizer_states.value}};
  out["host"] = memory.host.total.value;
  out["host_pinned"] = memory.host.pinned.value;
  out["nvme"] = memory.host.nvme.value;
  out["timeline"] = json_list(memory.timeline, moment_json);
  return out;
}

Json collective_json(const Collective& each) {
  return {{"operation", name_json(each.operation)},
          {"group", name_json(each.group)},
          {"group_size", each.group_size},
          {"phase", name_json(each.phase)},
          {"dtype", std::string(each.dtype)},
          {"purpose", std::string(each.purpose)},
          {"count", each.count},
          {"elements", each.elements.value},
          {"bytes", each.bytes.value},
          {"wire_bytes_per_gpu", each.wire_bytes_per_gpu.value},
          {"inside_bytes_per_gpu", each.inside_bytes_per_gpu.value},
          {"outside_bytes_per_gpu", each.outside_bytes_per_gpu.value},
          {"seconds", each.time.value},
          {"algorithm", name_json(each.algorithm)},
          {"protocol", name_json(each.protocol)}};
}

Json communication_json(const Schedule& schedule) {
  return {{"collectives", json_list(schedule.collectives, collective_json)},
          {"bytes", schedule.bytes().value},
          {"wire_bytes_per_gpu", schedule.wire_bytes_per_gpu().value},
          {"inside_bytes_per_gpu", schedule.inside_bytes_per_gpu().value},
          {"outside_bytes_per_gpu", schedule.outside_bytes_per_gpu().value},
          {"host_to_device_bytes", schedule.host_to_device.value},
          {"device_to_host_bytes", schedule.device_to_host.value}};
}

Json exposed_json(const RunTime& run) {
  Json out;
  for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward, Phase::step})
    out[std::string(to_name(phase))] = exposed_in(run, phase).value;
  return out;
}

Json time_json(const StepTime& time) {
  Json out{{"step", time.step.value},
           {"compute", time.compute.value},
           {"products", time.run.products.value},
           {"attention", time.run.attention.value},
           {"other_kernels", time.run.other.value},
           {"launching", time.launching.value},
           {"communication", time.communication.value},
           {"exposed_communication", time.exposed_communication.value},
           {"exposed_by_phase", exposed_json(time.run)},
           {"exposed_tensor_parallel", time.run.exposed_tensor.value},
           {"offload", time.offload.value},
           {"optimizer", time.optimizer.value},
           {"tokens_per_second", time.tokens_per_second},
           {"tokens_per_second_per_gpu", time.tokens_per_second_per_gpu},
           {"mfu", time.mfu},
           {"hfu", time.hfu},
           {"bound", name_json(time.bound)}};
  if (time.generation.value > 0) out["generation"] = time.generation.value;
  if (time.scoring.value > 0) out["scoring"] = time.scoring.value;
  return out;
}

Json resident_json(const Resident& part) {
  return {{"name", std::string(part.name)},
          {"device", part.device.value},
          {"host", part.host.value},
          {"host_of_first_rank", part.host_of_first.value}};
}

Json run_moment_json(const MomentMemory& each) {
  return {{"moment", name_json(each.moment)},
          {"device", each.device.value},
          {"host_per_node", each.host.value},
          {"parts", json_list(each.parts, resident_json)},
          {"needs_less", std::string(each.remedy)}};
}

/// Returns null without a budget.
Json run_json(const Plan& plan, const Question& q) {
  const auto cost = run_cost(plan, q);
  if (!cost) return nullptr;
  const auto range = [&](double of) {
    const Ends ends = cost->speeds.of_time(of);
    return Json{{"low", ends.low}, {"high", ends.high}};
  };
  Json out{{"steps", cost->steps},
           {"wall_seconds", cost->wall.value},
           {"gpu_hours", cost->gpu_hours},
           {"cost", or_null(cost->money)},
           {"speeds_judged", cost->speeds.runs},
           {"wall_seconds_range", range(cost->wall.value)},
           {"cost_range", cost->money ? range(*cost->money) : Json(nullptr)}};
  return out;
}

/// Returns the first moment at which memory does not suffice; null where it always does.
Json short_moment_json(const Plan& plan, const Question& q) {
  const MomentMemory* found = short_moment(plan, q);
  return found == nullptr ? Json(nullptr) : name_json(found->moment);
}

Json stage_json(const RankPlan& rank) {
  return {{"stage", rank.place.stage},
          {"required", rank.memory.required.value},
          {"required_low", rank.memory.required_low.value},
          {"required_high", rank.memory.required_high.value},
          {"peak_phase", name_json(reported(rank.memory.peak.phase))},
          {"seconds", rank.through.value}};
}

Json plan_json(const Plan& plan, const Report& report) {
  const Question question = question_of(plan, report);
  Json out = plan_figures_json(plan);
  if (plan.ranks.size() > 1) out["stages"] = json_list(plan.ranks, stage_json);
  out["ranges"] = ranges_json(plan, question);
  out["why"] = plan.why;
  out["moments"] = json_list(plan.moments, run_moment_json);
  out["short_moment"] = short_moment_json(plan, question);
  if (Json run = run_json(plan, question); !run.is_null()) out["run"] = std::move(run);
  if (plan.training) out["training"] = training_json(report.question.model, *plan.training, plan.framework);
  if (!report.options.explain) return out;
  out["explain"] = explain_json(plan, question);
  out["accuracy"] = accuracy_json(coverage_of(plan, question));
  return out;
}

Json alternative_json(const Report& report) {
  if (!report.answer.alternative) return nullptr;
  return {{"change", report.answer.alternative_change},
          {"plan", plan_json(*report.answer.alternative, report)}};
}

Json crossover_json(const std::optional<Crossover>& crossover) {
  if (!crossover) return nullptr;
  return {{"bytes_per_second", crossover->at.value},
          {"faster_below", crossover->below.id()},
          {"faster_above", crossover->above.id()}};
}

Json link_json(const std::optional<DecisiveLink>& link) {
  if (!link) return nullptr;
  return {{"name", link->name},
          {"between_nodes", link->between},
          {"bytes_per_second", link->now.value},
          {"lowest_tried", link->now.value / kMostLinkFactor},
          {"highest_tried", link->now.value * kMostLinkFactor}};
}

/// Returns the elements that a rank sends to each of its expert-parallel group; empty where they are alike.
std::vector<std::int64_t> uneven_rows(std::vector<std::int64_t> rows, const Question& question) {
  if (std::adjacent_find(rows.begin(), rows.end(), std::not_equal_to<>()) == rows.end()) return {};
  for (std::int64_t& each : rows) each *= question.model.shape.hidden_size;
  return rows;
}

/// Adds the elements that the call sends or receives. Rows return the way that they went; the plan has the
/// calls of the first rank, which receives the most.
void say_counts(const Call& call, const std::vector<std::int64_t>& to_each, Json& out) {
  if (to_each.empty() || call.operation != Operation::all_to_all || call.purpose != "routed tokens") return;
  const std::int64_t sent = std::accumulate(to_each.begin(), to_each.end(), std::int64_t{});
  out[call.elements.value == sent ? "send_counts" : "receive_counts"] = to_each;
}

Json issued_json(const IssuedCall& each) {
  const Call& call = each.call;
  return {{"operation", name_json(call.operation)},
          {"group", name_json(call.group)},
          {"group_size", call.group_size},
          {"stride", call.stride},
          {"phase", name_json(call.phase)},
          {"dtype", std::string(call.dtype)},
          {"element_bytes", call.element.value},
          {"purpose", std::string(call.purpose)},
          {"elements", call.elements.value},
          {"bytes", (call.elements * call.element).value},
          {"times", call.times},
          {"seconds", each.time.value},
          {"compute_seconds", each.compute.value},
          {"exposed", each.exposed}};
}

/// The largest number of calls that are listed: more take some ten megabytes.
constexpr std::size_t kMostListed = 20'000;

/// Returns null where the step was not simulated, or has too many calls to be of use.
Json schedule_json(const Report& report) {
  const std::optional<IssuedStep>& step = report.details.issued;
  if (!step || !step->calls.complete || step->calls.calls.size() > kMostListed) return nullptr;
  const Plan& plan = leading_plan(report);
  const Question& question = report.question;
  const Strategy& strategy = plan.strategy;
  const StepCalls& issued = step->calls;
  Json calls = Json::array();
  const std::vector<std::int64_t> to_each = uneven_rows(step->rows_to_each, question);
  for (const IssuedCall& each : issued.calls) {
    calls.push_back(issued_json(each));
    say_counts(each.call, to_each, calls.back());
  }
  Json out{{"plan", plan.id()},
           {"ranks", question.cluster.gpus},
           {"tensor_parallel", strategy.layout.tensor},
           {"data_parallel", strategy.layout.data_ranks()},
           {"device_memory_bytes", plan.memory().required.value},
           {"step_seconds", plan.time.step.value},
           {"communication_seconds", issued.communication().value},
           {"offload_seconds", plan.time.offload.value},
           {"compute_seconds_behind", issued.compute_behind.value},
           {"calls", std::move(calls)}};
  if (strategy.layout.sequence > 1) out["sequence_parallel"] = strategy.layout.sequence;
  if (strategy.layout.context > 1) out["context_parallel"] = strategy.layout.context;
  if (strategy.layout.expert > 1) out["expert_parallel"] = strategy.layout.expert;
  if (strategy.layout.replicate > 1) out["dp_replicate"] = strategy.layout.replicate;
  if (strategy.layout.data_before_expert) out["data_before_expert"] = true;
  return out;
}

/// Returns nulls without a contest: one plan alone may be compared with a saved report.
Json contest_json(const std::optional<Contest>& contest) {
  if (!contest)
    return {{"faster", nullptr},     {"slower", nullptr}, {"ratio", nullptr},    {"tie", nullptr},
            {"tie_within", nullptr}, {"link", nullptr},   {"crossover", nullptr}};
  return {{"faster", contest->faster},
          {"slower", contest->slower},
          {"ratio", contest->ratio},
          {"tie", contest->ratio < 1 + contest->tie.within},
          {"tie_within", contest->tie.within},
          {"link", link_json(contest->link)},
          {"crossover", crossover_json(contest->crossover)}};
}

Json comparison_json(const Report& report) {
  if (report.comparison == nullptr) return nullptr;
  Json out = contest_json(report.comparison->contest);
  out["baseline"] = report.comparison->baseline;
  out["deltas"] = json_list(plans_in_order(report), [&](const Plan* plan) {
    return Json{{"id", plan->id()}, {"delta", deltas_json(*plan, baseline_of(*plan, report))}};
  });
  return out;
}

/// Returns what the plan assumes of the training script.
Json script_json(const Plan& plan, const Report& report) {
  return json_list(script_of(plan, report), [](const ScriptSetting& each) {
    return Json{{"place", name_json(each.place)},
                {"key", or_null(each.key)},
                {"value", each.value},
                {"text", each.text}};
  });
}

Json reach_json(const std::vector<TrainerReach>& reaches) {
  return json_list(reaches, [](const TrainerReach& each) {
    return Json{
        {"trainer", to_text(each.trainer)},
        {"fits", each.fits},
        {"required_bytes", each.required.value},
        {"step_seconds", each.step.value},
        {"largest_micro_batch", each.largest_micro_batch ? Json(*each.largest_micro_batch) : Json(nullptr)},
        {"longest_sequence", each.longest_sequence ? Json(*each.longest_sequence) : Json(nullptr)}};
  });
}

}  // namespace

Json plan_figures_json(const Plan& plan) {
  return {{"id", plan.id()},
          {"strategy", strategy_json(plan.strategy, plan.framework)},
          {"fits", plan.fits},
          {"fits_device", plan.fits_device},
          {"fits_host", plan.fits_host},
          {"memory", memory_json(plan.memory())},
          {"communication", communication_json(plan.communication())},
          {"time", time_json(plan.time)}};
}

Json asked_json(const Report& report) {
  return {{"model", model_json(report.question)},
          {"cluster", cluster_json(report.question)},
          {"training",
           training_json(report.question.model, report.question.training, leading_plan(report).framework)}};
}

Json report_json(const Report& report) {
  const Plan* recommended = report.answer.recommended();
  Json out{{"schema", "zplan.report/1"}, {"zplan_version", std::string(version())}};
  out.update(asked_json(report));
  out["plans"] = json_list(report.answer.plans, [&](const Plan& plan) { return plan_json(plan, report); });
  out["recommended"] = recommended ? Json(recommended->id()) : Json(nullptr);
  out["rejected"] = json_list(report.answer.rejected, [&](const Rejection& each) {
    const std::string id = plan_id(report.question.training.framework, each.strategy);
    return Json{{"id", id}, {"reasons", each.reasons}};
  });
  out["alternative"] = alternative_json(report);
  out["advice"] = advice_json(report);
  if (!report.reaches.empty()) out["reach"] = reach_json(report.reaches);
  out["ds_config"] = recommended ? ds_config_json(*recommended, report) : Json(nullptr);
  out["fsdp_config"] = recommended ? fsdp_config_json(*recommended, report) : Json(nullptr);
  out["launch"] = recommended ? launch_json(*recommended, report) : Json(nullptr);
  out["script"] = recommended ? script_json(*recommended, report) : Json(nullptr);
  out["comparison"] = comparison_json(report);
  out["schedule"] = schedule_json(report);
  out["search"] = report.found ? search_json(report) : Json(nullptr);
  out["warnings"] = report.answer.warnings;
  if (!report.options.recipes.empty()) out["recipes"] = recipes_json(report.options.recipes);
  if (report.question.lengths) out["lengths"] = lengths_json(report);
  if (const auto& defaults = report.question.trainer_defaults; !defaults.empty())
    out["trainer_defaults"] = json_list(defaults, trainer_default_json);
  return out;
}

}  // namespace zplan
