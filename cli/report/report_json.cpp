#include "cli/report/report_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "cli/report/accuracy.h"
#include "cli/report/explain.h"
#include "cli/report/output_files.h"
#include "cli/report/recipe_report.h"
#include "cli/report/report_deltas.h"
#include "cli/report/search_report.h"
#include "models/base/version.h"
#include "planner/cost/price.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

template <class E>
Json name_json(E value) {
  return std::string(to_name(value));
}

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

/// What is not the usual of adapters and packed weights; without it keys are not there.
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

/// A default of a trainer: flags are true or false, what is not planned has no value.
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

/// A data set's lengths, and what they make of the recommended plan's micro-batch.
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

Json trainer_defaults_json(const std::vector<AppliedDefault>& defaults) {
  Json out = Json::array();
  for (const AppliedDefault& each : defaults) out.push_back(trainer_default_json(each));
  return out;
}

/// Of training on completions that the model generates.
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

Json training_json(const Model& model, const Training& training, Framework framework) {
  const bool adapters = training.method != Method::full;
  Json json = {
      {"method", name_json(training.method)},
      {"lora_rank", adapters ? Json(training.lora_rank) : Json(nullptr)},
      {"lora_targets", adapters ? Json(training.lora_targets.modules) : Json(nullptr)},
      {"lora_dropout", adapters ? Json(training.lora_dropout) : Json(nullptr)},
      {"quantization", training.method == Method::qlora ? name_json(training.quantization) : Json(nullptr)},
      {"prepares_kbit_training", training.prepares_kbit_training},
      {"precision", name_json(training.precision)},
      {"optimizer", name_json(training.optimizer)},
      {"master_weights", training.master_weights && training.precision != Precision::fp32},
      {"sequence_length", training.sequence_length},
      {"attention", name_json(training.attention)},
      {"fused_loss", training.fused_loss},
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
  if (generates(training)) json["rollout"] = rollout_json(model, training);
  if (training.fused_head) json["fused_head"] = true;
  if (training.loss_shift != LossShift::labels) json["loss_shift"] = name_json(training.loss_shift);
  if (training.modules.kernels != LayerKernels{}) json["kernels"] = training.modules.kernels.name;
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

/// Slices, or "auto".
Json tiles_json(std::int64_t tiles) { return tiles == LongContext::kAutoTiles ? Json("auto") : Json(tiles); }

/// What divides, tiles or keeps a sample's tokens elsewhere; without it keys are not there.
void add_tokens(Json& out, const Strategy& s) {
  if (s.layout.sequence > 1) out["sequence_parallel"] = s.layout.sequence;
  if (s.layout.context > 1)
    out["context_parallel"] = s.layout.context, out["key_rotation"] = name_json(s.long_context.rotation);
  if (s.experts.enabled) out["expert_parallel"] = s.layout.expert;
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
  return out;
}

Json timeline_json(const std::vector<Moment>& timeline) {
  Json moments = Json::array();
  for (const Moment& moment : timeline) {
    Json each{{"phase", name_json(reported(moment.phase))},
              {"at", std::string(moment.at)},
              {"bytes", moment.live.value}};
    if (moment.layer >= 0) each["layer"] = moment.layer;
    moments.push_back(std::move(each));
  }
  return moments;
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
  out["timeline"] = timeline_json(memory.timeline);
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
  Json collectives = Json::array();
  for (const Collective& each : schedule.collectives) collectives.push_back(collective_json(each));
  return {{"collectives", std::move(collectives)},
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

Json moments_json(const std::vector<MomentMemory>& moments) {
  Json out = Json::array();
  for (const MomentMemory& each : moments) {
    Json parts = Json::array();
    for (const Resident& part : each.parts)
      parts.push_back({{"name", std::string(part.name)},
                       {"device", part.device.value},
                       {"host", part.host.value},
                       {"host_of_first_rank", part.host_of_first.value}});
    out.push_back({{"moment", name_json(each.moment)},
                   {"device", each.device.value},
                   {"host_per_node", each.host.value},
                   {"parts", std::move(parts)},
                   {"needs_less", std::string(each.remedy)}});
  }
  return out;
}

/// Null where no budget is given.
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
           {"cost", cost->money ? Json(*cost->money) : Json(nullptr)},
           {"speeds_judged", cost->speeds.runs},
           {"wall_seconds_range", range(cost->wall.value)},
           {"cost_range", cost->money ? range(*cost->money) : Json(nullptr)}};
  return out;
}

/// The moment at which memory does not suffice; null where it always does.
Json short_moment_json(const Plan& plan, const Question& q) {
  const MomentMemory* found = short_moment(plan, q);
  return found == nullptr ? Json(nullptr) : name_json(found->moment);
}

Json plan_json(const Plan& plan, const Report& report) {
  Json out{{"id", plan.id()},
           {"strategy", strategy_json(plan.strategy, plan.framework)},
           {"fits", plan.fits},
           {"fits_device", plan.fits_device},
           {"fits_host", plan.fits_host},
           {"memory", memory_json(plan.memory())},
           {"communication", communication_json(plan.communication())},
           {"time", time_json(plan.time)},
           {"ranges", ranges_json(plan, question_of(plan, report))},
           {"why", plan.why}};
  out["moments"] = moments_json(plan.moments);
  out["short_moment"] = short_moment_json(plan, question_of(plan, report));
  if (Json run = run_json(plan, question_of(plan, report)); !run.is_null()) out["run"] = std::move(run);
  if (plan.training) out["training"] = training_json(report.question.model, *plan.training, plan.framework);
  if (!report.options.explain) return out;
  out["explain"] = explain_json(plan, question_of(plan, report));
  out["accuracy"] = accuracy_json(coverage_of(plan, question_of(plan, report)));
  return out;
}

Json rejected_json(const Report& report) {
  Json out = Json::array();
  for (const Rejection& each : report.answer.rejected)
    out.push_back(
        {{"id", plan_id(report.question.training.framework, each.strategy)}, {"reasons", each.reasons}});
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

/// Bytes stay whole numbers; a fraction of nothing is none.
Json delta_json(const Delta& delta, const Plan& plan, const Plan& base) {
  const double from = delta.value(base), change = delta.value(plan) - from;
  return {{"absolute", delta.unit == "bytes" ? Json(std::llround(change)) : Json(change)},
          {"fraction", from > 0 ? Json(change / from) : Json(nullptr)}};
}

/// What each rank sends to each of an expert-parallel group in elements; empty where that is the same for
/// all.
std::vector<std::int64_t> uneven_rows(std::vector<std::int64_t> rows, const Question& question) {
  if (std::adjacent_find(rows.begin(), rows.end(), std::not_equal_to<>()) == rows.end()) return {};
  for (std::int64_t& each : rows) each *= question.model.shape.hidden_size;
  return rows;
}

/// Rows go out as they are routed, and come back the same way: of the first rank, which gets the most, the
/// plan has the calls.
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

/// A schedule of more entries is some ten megabytes: hundreds of micro-steps, written out.
constexpr std::size_t kMostListed = 20'000;

/// Null where it was not simulated, or would be too long to be of use.
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
  if (strategy.layout.data_before_expert) out["data_before_expert"] = true;
  return out;
}

Json all_deltas_json(const Report& report) {
  Json out = Json::array();
  for (const Plan* plan : plans_in_order(report))
    out.push_back({{"id", plan->id()}, {"delta", deltas_json(*plan, baseline_of(*plan, report))}});
  return out;
}

/// One plan alone, compared with a saved report, has no rival.
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
  out["deltas"] = all_deltas_json(report);
  return out;
}

}  // namespace

Json deltas_json(const Plan& plan, const Plan* base) {
  if (base == nullptr) return nullptr;
  Json out;
  for (const Delta& delta : deltas()) out[std::string(delta.name)] = delta_json(delta, plan, *base);
  return out;
}

Json asked_json(const Report& report) {
  return {{"model", model_json(report.question)},
          {"cluster", cluster_json(report.question)},
          {"training",
           training_json(report.question.model, report.question.training, leading_plan(report).framework)}};
}

Json report_json(const Report& report) {
  Json plans = Json::array();
  for (const Plan& plan : report.answer.plans) plans.push_back(plan_json(plan, report));
  const Plan* recommended = report.answer.recommended();
  Json out{{"schema", "zplan.report/1"},
           {"zplan_version", std::string(version())},
           {"plans", std::move(plans)},
           {"recommended", recommended ? Json(recommended->id()) : Json(nullptr)},
           {"rejected", rejected_json(report)},
           {"alternative", alternative_json(report)},
           {"ds_config", recommended ? ds_config_json(*recommended, report) : Json(nullptr)},
           {"fsdp_config", recommended ? fsdp_config_json(*recommended, report) : Json(nullptr)},
           {"launch", recommended ? launch_json(*recommended, report) : Json(nullptr)},
           {"comparison", comparison_json(report)},
           {"schedule", schedule_json(report)},
           {"search", report.found ? search_json(report) : Json(nullptr)},
           {"warnings", report.answer.warnings}};
  if (!report.options.recipes.empty()) out["recipes"] = recipes_json(report.options.recipes);
  if (report.question.lengths) out["lengths"] = lengths_json(report);
  if (const auto& defaults = report.question.trainer_defaults; !defaults.empty())
    out["trainer_defaults"] = trainer_defaults_json(defaults);
  out.update(asked_json(report));
  return out;
}

}  // namespace zplan
