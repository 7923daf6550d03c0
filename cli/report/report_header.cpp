// The first lines of a report: the question and the assumptions.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "models/base/version.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/search/candidates.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

std::string plural(std::int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", group_digits(count), thing, count == 1 ? "" : "s");
}

std::string shape_line(const ModelShape& shape) {
  std::string heads =
      shape.key_value_heads == shape.attention_heads
          ? fmt::format("{} heads", shape.attention_heads)
          : fmt::format("{} heads ({} key-value)", shape.attention_heads, shape.key_value_heads);
  std::string line = fmt::format("{}: {}, hidden {}, {}, feed-forward {}, vocabulary {}", shape.architecture,
                                 plural(shape.layers, "layer"), shape.hidden_size, heads,
                                 shape.intermediate_size, shape.vocabulary_size);
  if (shape.experts)
    line += fmt::format(", {} of {} experts of {} per token", shape.experts->experts_per_token,
                        shape.experts->experts, shape.experts->intermediate_size);
  return line + (shape.tied_embeddings ? ", tied embeddings" : "");
}

/// Returns the unusual settings of adapters.
std::string adapter_remarks(const Training& training) {
  std::string remarks;
  if (training.lora_dropout > 0) remarks += fmt::format(", dropout {}", training.lora_dropout);
  if (const std::int64_t held = held_adapters(training); held > 1)
    remarks += fmt::format(", {} adapters in memory of which one trains", held);
  if (training.dora) remarks += ", DoRA";
  if (!training.modules_to_save.empty())
    remarks += fmt::format(", {} {}trained beside them", fmt::join(training.modules_to_save, " and "),
                           training.ties_saved_modules ? "(one copy) " : "");
  if (training.prepares_kbit_training) remarks += ", prepared for k-bit training";
  return remarks;
}

/// Returns the loss and the layers, where they are not those of transformers.
std::string variant_words(const Training& training) {
  std::string words = training.fused_loss ? ", fused loss" : "";
  if (training.fused_head) words += ", TRL's fused head";
  if (training.cut_loss) words += ", cut cross-entropy";
  if (training.compile == Compile::layer) words += ", compiled layers";
  if (training.compile == Compile::model) words += ", compiled as a whole";
  if (training.float8 != Float8::none) words += ", float8 products";
  if (training.modules.kernels.name != LayerKernels{}.name)
    words += fmt::format(", {}'s kernels", training.modules.kernels.owner);
  if (training.loss_shift != LossShift::labels && training.objective == Objective::sft)
    words += ", shifted logits";
  if (training.loss_chunks > 1)
    words +=
        fmt::format(", loss{} in {} slices", training.sliced_head ? " and head" : "", training.loss_chunks);
  if (training.modules.replaces_modules()) words += fmt::format(", modules of {}", training.modules.name);
  return words;
}

std::vector<std::string> model_lines(const Question& q) {
  const Elements all = parameters(q.model), active = active_parameters(q.model),
                 trained = trainable_parameters(q);
  std::string first =
      fmt::format("{}: {} parameters ({})", q.model.name, group_digits(all.value), format_count(all));
  if (active != all) first += fmt::format(", {} active per token", format_count(active));
  std::vector<std::string> lines{
      first, shape_line(q.model.shape),
      q.model.source == ModelSource::size ? q.model.origin : fmt::format("from {}", q.model.origin)};
  if (q.training.method != Method::full)
    lines.push_back(fmt::format("{} trainable: adapters of rank {} on {}{}", group_digits(trained.value),
                                q.training.lora_rank, fmt::join(q.training.lora_targets.modules, ", "),
                                adapter_remarks(q.training)));
  if (trains_values(q.training))
    lines.push_back(fmt::format("values by {} ({}, trained), rewards by {} ({})", q.model.value->name,
                                format_count(parameters(*q.model.value)), q.model.reward->name,
                                format_count(parameters(*q.model.reward))));
  return lines;
}

std::vector<std::string> cluster_lines(const Question& q) {
  const Cluster& c = q.cluster;
  std::vector<std::string> lines{
      fmt::format("{} x {} with {}: {} usable, {} after {} headroom", c.gpus, c.gpu.name,
                  format_bytes(c.memory, q.unit), format_bytes(c.usable_memory, q.unit),
                  format_bytes(available(c, q.headroom), q.unit), format_percent(q.headroom.fraction))};
  std::string nodes =
      c.nodes == 1 ? "1 node" : fmt::format("{} nodes of {}", c.nodes, plural(c.gpus_per_node, "GPU"));
  if (c.network) nodes += fmt::format(", network {}", c.network->name);
  lines.push_back(
      fmt::format("{}, {} of host memory each", nodes, format_bytes(c.host_memory_per_node, q.unit)));
  if (c.instance)
    lines.push_back(fmt::format("{} of {}: {} vCPUs, {} of local disk ({}, {})", c.instance->name,
                                c.instance->provider, c.instance->vcpus,
                                format_bytes(c.instance->local_disk, q.unit), c.instance->source,
                                c.instance->date));
  return lines;
}

std::string method_words(const Training& t) {
  if (t.method == Method::full && !t.trained_layers.empty())
    return fmt::format("fine-tuning of {} alone",
                       plural(static_cast<std::int64_t>(t.trained_layers.size()), "layer"));
  if (t.method == Method::full) return "full fine-tuning";
  if (t.method == Method::lora) return t.trains_tower ? "LoRA beside a tower that trains whole" : "LoRA";
  if (shards_packed(t))
    return fmt::format("QLoRA ({} stored in {})", to_name(t.quantization), to_name(t.quant_storage));
  return fmt::format("QLoRA ({})", to_name(t.quantization));
}

/// Returns text such as "256 of 1024 tokens generated by colocated vLLM (0.3 of each GPU)".
std::string rollout_words(const Training& t) {
  const Rollout& rollout = t.rollout;
  std::string of = fmt::format("{} of {} tokens generated", completion_tokens(t), t.sequence_length);
  if (!trains_values(t) && !distils(t))
    of += fmt::format(", {} completions of each prompt", rollout.generations);
  switch (rollout.engine) {
    case RolloutEngine::trainer: return of + " by the trainer itself";
    case RolloutEngine::server: return of + " by vLLM on GPUs of its own";
    case RolloutEngine::colocate: break;
  }
  return of + fmt::format(" by colocated vLLM ({} of each GPU, sleep level {})", rollout.engine_share,
                          rollout.sleep_level);
}

/// Returns text such as "gkd, teacher Qwen/Qwen2.5-14B-Instruct; ".
std::string teacher_words(const Question& q) {
  const Training& t = q.training;
  std::string teacher = "on a server";
  if (const auto reference = reference_of(t))
    teacher = *reference != ReferenceModel::copy ? "the student itself"
              : q.model.teacher                  ? q.model.teacher->name
                                                 : "a copy of the model";
  const std::string generated = rolls_out(t) ? ": " + rollout_words(t) : "";
  return fmt::format("gkd, teacher {}{}; ", teacher, generated);
}

/// Returns the objective, such as "dpo, reference a copy"; empty for next tokens.
std::string objective_words(const Question& q) {
  const Training& t = q.training;
  if (t.objective == Objective::sft) return "";
  if (distils(t)) return teacher_words(q);
  const auto reference = reference_of(t);
  const std::string against = reference ? fmt::format(", reference {}", to_name(*reference)) : "";
  if (generates(t)) return fmt::format("{}{}: {}; ", to_name(t.objective), against, rollout_words(t));
  return fmt::format("{} over {}{}; ", to_name(t.objective),
                     sequences_per_sample(t) == 2 ? "pairs" : "single answers", against);
}

/// Returns the precision and its master copy. LoRA under PyTorch's own frameworks keeps the base as it is
/// loaded.
std::string precision_words(const Training& t) {
  if (t.precision == Precision::fp32) return "fp32";
  if (!spec(t.framework).casts_model && t.method == Method::lora && t.master_weights)
    return fmt::format("fp32 base under {} autocast, fp32 adapters", to_name(t.precision));
  if (!spec(t.framework).casts_model && t.method == Method::lora)
    return fmt::format("{} base, fp32 adapters", to_name(t.precision));
  return fmt::format("{} {} fp32 master weights", to_name(t.precision),
                     t.master_weights ? "with" : "without");
}

/// Returns a plan that is trained as the question says, else the leading one.
const Plan& ordinary_plan(const Report& report) {
  const std::vector<Plan>& plans = report.answer.plans;
  const auto at =
      std::find_if(plans.begin(), plans.end(), [](const Plan& plan) { return plan.name.empty(); });
  return at == plans.end() ? leading_plan(report) : *at;
}

std::string batch_words(const Report& report) {
  const SearchSpace& space = report.question.space;
  const Strategy& s = ordinary_plan(report).strategy;
  const std::string micro = space.micro_batch_size ? fmt::format("micro-batch {}", *space.micro_batch_size)
                                                   : std::string("the largest micro-batch that fits");
  const std::string steps = s.gradient_accumulation_steps == 1
                                ? std::string("no gradient accumulation")
                                : fmt::format("{} micro-batches per step", s.gradient_accumulation_steps);
  return fmt::format("{} of {} tokens, {}", micro, report.question.training.sequence_length, steps);
}

bool runs_in_stages(const Plan& plan) { return plan.strategy.layout.pipeline > 1; }

bool any_named(const std::vector<Plan>& plans) {
  return std::ranges::any_of(plans, [](const Plan& plan) { return !plan.name.empty(); });
}

std::string training_line(const Report& report) {
  const Training& t = report.question.training;
  if (report.found != nullptr)
    return objective_words(report.question) + fmt::format("{}, {}, {}; samples of {} tokens; {} attention{}",
                                                          method_words(t), precision_words(t),
                                                          to_name(t.optimizer), t.sequence_length,
                                                          to_name(t.attention), variant_words(t));
  return objective_words(report.question) +
         fmt::format("{}{}, {}, {}; {}; {} checkpointing, {} attention{}", spec(t.framework).title,
                     method_words(t), precision_words(t), to_name(t.optimizer), batch_words(report),
                     to_name(report.question.space.checkpointing), to_name(t.attention), variant_words(t)) +
         (t.expandable_segments ? ", expandable segments" : "") +
         (any_named(report.answer.plans) ? "; but as a strategy's own name or config says" : "");
}

/// Returns the number, tokens and tiles of images, of a model that reads them.
std::vector<std::string> image_lines(const Report& report) {
  const Question& q = report.question;
  if (!q.model.vision) return {};
  const ImageBatch& images = q.training.images;
  std::vector<std::string> lines{
      fmt::format("{} per sample, each {} tokens of {} x {} patches{}; {} of {} tokens are text",
                  plural(images.per_sample, "image"), group_digits(images.tokens), images.columns,
                  images.rows, images.tiles > 1 ? fmt::format(" in {} tiles", images.tiles) : "",
                  group_digits(q.training.sequence_length - images.sequence()),
                  group_digits(q.training.sequence_length))};
  lines.push_back(fmt::format("tokens per image: {}", report.options.has("--image-tokens")
                                                          ? "--image-tokens"
                                                          : q.model.vision->rule.source));
  lines.emplace_back(
      "the batch holds images in fp32 until the backward is over; cuDNN's workspace for the convolution over "
      "patches is not known and not counted");
  if (!report.options.has("--seq"))
    lines.push_back(fmt::format("sequence of the images' {} tokens and as many of text as the default has",
                                group_digits(images.sequence())));
  return lines;
}

/// Returns the options that shape the answer and have their defaults; their values are in the line above.
std::string defaults_line(const Report& report) {
  const Options& options = report.options;
  const auto is_trainers = [&](std::string_view name) {
    return std::ranges::any_of(report.question.trainer_defaults,
                               [&](const AppliedDefault& each) { return each.option == name; });
  };
  const bool searches = options.command == Command::search;
  std::vector<std::string> untold;
  for (const std::string_view name : {"--gpus", "--method", "--precision", "--optimizer", "--seq",
                                      "--micro-batch", "--checkpointing", "--attention", "--headroom"}) {
    if (options.has(name) || is_trainers(name)) continue;
    if (name == "--gpus" && options.has("--instance")) continue;
    if (searches && (name == "--micro-batch" || name == "--checkpointing")) continue;
    if (name == "--micro-batch" && options.has("--global-batch")) continue;
    untold.emplace_back(name);
  }
  return untold.empty() ? "" : fmt::format("defaults of options not given: {}", fmt::join(untold, " "));
}

std::string buckets_line(const Report& report) {
  const Question& q = report.question;
  const ZeroOptions zero = zero_knobs(q, 3, q.space.buckets);
  return fmt::format(
      "bucket sizes {}: reduce {}, prefetch {}, persistence threshold {} elements (--buckets)",
      report.question.space.buckets == Buckets::hf_auto ? "as HF sets them for \"auto\"" : "of DeepSpeed",
      group_digits(zero.reduce_bucket_size.value), group_digits(zero.prefetch_bucket_size.value),
      group_digits(zero.persistence_threshold.value));
}

/// Returns the lengths of the data set and the length that plans are made for.
std::vector<std::string> length_lines(const Question& q) {
  if (!q.lengths) return {};
  const DataLengths& data = *q.lengths;
  const SampleLengths& all = data.lengths;
  std::vector<std::string> lines{fmt::format(
      "{} samples of {} to {} tokens, {:.0f} on average, half up to {}; {}", group_digits(all.samples()),
      group_digits(all.shortest()), group_digits(all.longest()), all.mean(), group_digits(all.quantile(0.5)),
      data.batching == Batching::packed
          ? fmt::format("packed into rows of {} tokens", group_digits(data.limit))
          : fmt::format("batches {}",
                        data.batching == Batching::grouped ? "of like lengths" : "in random order"))};
  if (data.batching == Batching::packed) {
    lines.push_back(fmt::format("about {:.1f} samples a row; rows are taken as full",
                                static_cast<double>(data.limit) / all.mean()));
    return lines;
  }
  const std::int64_t samples = q.space.micro_batch_size.value_or(1);
  lines.push_back(
      fmt::format("planned for the longest micro-batch, of {} tokens a sample; on average samples are padded "
                  "to {:.0f}, of which "
                  "{} are their own, at a micro-batch of {}",
                  group_digits(data.worst()), data.padded_to(samples),
                  format_percent(data.useful_share(samples)), samples));
  return lines;
}

/// Returns "--fused-head" for a flag that is on, "without --no-master-weights" for one that is off.
std::string default_words(const AppliedDefault& each) {
  if (each.value.empty() || each.value == "on") return std::string(each.option);
  if (each.value == "off") return fmt::format("without {}", each.option);
  return fmt::format("{} {}", each.option, each.value);
}

/// Returns a line for each trainer: the defaults that it sets, and those that no plan knows.
std::vector<std::string> trainer_lines(const std::vector<AppliedDefault>& defaults) {
  std::vector<std::string> lines;
  std::vector<TrainerChoice> seen;
  for (const AppliedDefault& first : defaults) {
    if (std::ranges::find(seen, first.trainer) != seen.end()) continue;
    seen.push_back(first.trainer);
    std::vector<std::string> planned, left_out;
    for (const AppliedDefault& each : defaults)
      if (each.trainer == first.trainer)
        (each.value.empty() ? left_out : planned).push_back(default_words(each));
    if (!planned.empty())
      lines.push_back(fmt::format("defaults of {}: {}", to_text(first.trainer), fmt::join(planned, ", ")));
    if (!left_out.empty())
      lines.push_back(
          fmt::format("{} does what is not planned: {}", to_text(first.trainer), fmt::join(left_out, "; ")));
  }
  return lines;
}

/// Returns lines that name the model for which another name was taken, and that no weights are packed unless
/// an option asks for it.
std::vector<std::string> name_lines(const Question& q) {
  if (q.model.read_as.empty()) return {};
  if (q.model.stored_as.empty() || q.training.method == Method::qlora) return {q.model.read_as};
  return {
      fmt::format("{} ({} weights): planned unpacked, in {}; --method qlora plans adapters on packed weights",
                  q.model.read_as, q.model.stored_as, to_name(q.training.precision))};
}

std::vector<std::string> assumption_lines(const Report& report) {
  std::vector<std::string> lines = name_lines(report.question);
  for (std::string& each : trainer_lines(report.question.trainer_defaults)) lines.push_back(std::move(each));
  if (const std::string line = defaults_line(report); !line.empty()) lines.push_back(line);
  const bool deepspeed = std::ranges::any_of(
      report.answer.plans, [](const Plan& plan) { return spec(plan.framework).reads_ds_config; });
  const bool fsdp = std::ranges::any_of(
      report.answer.plans, [](const Plan& plan) { return spec(plan.framework).reads_accelerate_config; });
  if (fsdp && report.question.training.precision != Precision::fp32)
    lines.emplace_back(report.options.has("--no-master-weights")
                           ? "FSDP2 as accelerate 1.15 sets it up: 16-bit shards, computed and reduced in 16 "
                             "bits, loaded shard by shard"
                           : "FSDP2 as accelerate 1.15 sets it up: fp32 shards of what trains, computed and "
                             "reduced in 16 bits, "
                             "loaded shard by shard");
  const SearchSpace& space = report.question.space;
  const bool has_batch = space.global_batch_size || space.gradient_accumulation_steps;
  if (!has_batch && std::ranges::any_of(report.answer.plans, &runs_in_stages))
    lines.push_back(
        fmt::format("{} micro-batches a step for each pipeline stage: --global-batch says how many",
                    kMicroBatchesPerStage));
  for (std::string& each : length_lines(report.question)) lines.push_back(std::move(each));
  for (std::string& each : image_lines(report)) lines.push_back(std::move(each));
  if (report.question.model.shape.delta_net && report.question.training.modules.kernels.delta_rule == nullptr)
    lines.emplace_back(
        "gated delta nets run by PyTorch's operators; where flash-linear-attention is installed it runs "
        "them with less: --kernels fla");
  if (deepspeed && !report.options.has("--buckets") && report.found == nullptr)
    lines.push_back(buckets_line(report));
  if (deepspeed && !report.question.space.zero)
    lines.emplace_back(
        "overlap_comm on at ZeRO 1 and 2, where DeepSpeed's own default is off: the ds_config says so");
  for (const std::string& each : report.question.cluster.assumptions) lines.push_back(each);
  return lines;
}

}  // namespace

std::vector<HeaderBlock> header_blocks(const Report& report) {
  std::vector<HeaderBlock> blocks{{"Recipe", recipe_lines(report.options), true},
                                  {"Model", model_lines(report.question)},
                                  {"Cluster", cluster_lines(report.question)},
                                  {"Training", {training_line(report)}}};
  if (report.found != nullptr) blocks.push_back({"Searched", {searched_line(report)}});
  blocks.push_back({"Assumed", assumption_lines(report), true});
  blocks.push_back({"Warning", report.answer.warnings, true});
  return blocks;
}

void add_header(Document& doc, const Report& report) {
  for (const HeaderBlock& each : header_blocks(report))
    for (const std::string& line : each.lines) {
      const bool labelled = &line == &each.lines.front();
      const std::string first = fmt::format("{:<11}", labelled ? each.label : "");
      doc.paragraph(first + (each.bullets ? "- " : ""), line, labelled ? Tone::strong : Tone::plain,
                    labelled ? each.label : "");
    }
}

}  // namespace zplan
