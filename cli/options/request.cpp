#include "cli/options/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <tuple>

#include "cli/commands/compare.h"
#include "cli/options/ds_config_option.h"
#include "cli/options/recipe_option.h"
#include "models/config.h"
#include "models/recorded/recorded.h"
#include "planner/moments/rollout.h"
#include "planner/plan/legality.h"
#include "planner/question/framework.h"
#include "planner/search/candidates.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

void check_needed(const Options& options) {
  if (!options.has("--model"))
    throw InputError("--model", "missing",
                     "needed: a model and a cluster, such as --model 8B --gpus 5 --mem 44 (zplan --help)");
}

/// Buckets and configs are DeepSpeed's.
void check_framework(const Options& options) {
  if (spec(options.training.framework).reads_ds_config) return;
  for (const std::string_view option :
       {"--buckets", "--ds-config", "--config-style", "--deepspeed-version", "--nvme-path"})
    if (options.has(option))
      throw InputError(std::string(option),
                       fmt::format("does nothing with --framework {}", to_name(options.training.framework)),
                       "accepted: with --framework deepspeed");
  if (spec(options.training.framework).config_file.empty() && options.has("--emit"))
    throw InputError("--emit", "plain PyTorch needs no config",
                     "accepted: with --framework deepspeed or fsdp");
}

void check_reference(const Options& options) {
  const Training& training = options.training;
  const bool compares =
      training.objective == Objective::dpo || training.objective == Objective::kto || generates(training);
  if (options.has("--reference") && !compares)
    throw InputError("--reference",
                     fmt::format("does nothing with --objective {}", to_name(training.objective)),
                     "accepted: with --objective dpo, kto, grpo or ppo");
  const bool always = trains_values(training);
  if (always &&
      (training.reference == ReferenceModel::none || training.reference == ReferenceModel::adapter ||
       training.reference == ReferenceModel::precomputed))
    throw InputError("--reference",
                     fmt::format("{} with --objective ppo, whose penalty is computed of new completions by a "
                                 "model of its own or without adapters",
                                 to_name(*training.reference)),
                     "accepted: copy, adapters-off");
  if (training.reference == ReferenceModel::none && !generates(training))
    throw InputError("--reference", fmt::format("none with --objective {}", to_name(training.objective)),
                     "accepted: copy, adapters-off, adapter, precomputed");
  if (training.reference == ReferenceModel::precomputed && generates(training))
    throw InputError("--reference", "precomputed with --objective grpo, whose completions are new",
                     "accepted: copy, adapters-off, adapter, none");
}

template <class List = std::initializer_list<std::string_view>>
void refuse_any(const Options& options, const List& some, const std::string& why,
                const std::string& accepted) {
  for (const std::string_view option : some)
    if (options.has(option)) throw InputError(std::string(option), why, accepted);
}

/// What an engine in the trainer's processes, or any engine, is told.
void check_engine_options(const Options& options, RolloutEngine engine) {
  const std::string why = fmt::format("does nothing with --rollout {}", to_name(engine));
  if (engine != RolloutEngine::colocate)
    refuse_any(options, {"--vllm-memory", "--vllm-sleep"}, why, "accepted: with --rollout colocate");
  if (engine == RolloutEngine::trainer)
    refuse_any(options, {"--vllm-tp"}, why, "accepted: with --rollout colocate or server");
}

/// PPOTrainer generates one completion of each prompt by its own model, for one optimizer step's micro-steps.
void check_ppo_options(const Options& options) {
  const std::string why = "does nothing with --objective ppo";
  refuse_any(options, {"--generations"}, why + ", which generates one completion of each prompt",
             "accepted: with --objective grpo");
  refuse_any(options, {"--steps-per-generation"}, why + ", whose generation is all --grad-accum micro-steps'",
             "accepted: with --objective grpo");
  if (options.has("--rollout") && options.training.rollout.engine != RolloutEngine::trainer)
    throw InputError("--rollout",
                     fmt::format("{} with --objective ppo, whose trainer generates by itself",
                                 to_name(options.training.rollout.engine)),
                     "accepted: trainer");
  refuse_any(options, {"--vllm-memory", "--vllm-sleep", "--vllm-tp"},
             why + ", whose trainer generates by itself", "accepted: with --objective grpo");
  if (options.config_style == ConfigStyle::ms_swift)
    throw InputError("--config-style", "ms-swift with --objective ppo, whose trainer is TRL's",
                     "accepted: plain, hf-auto");
}

void check_rollout_options(const Options& options) {
  const Training& training = options.training;
  const std::string why = fmt::format("does nothing with --objective {}", to_name(training.objective));
  if (!trains_values(training)) refuse_any(options, kValueOptions, why, "accepted: with --objective ppo");
  if (!generates(training)) {
    refuse_any(options, kCompletionOptions, why, "accepted: with --objective grpo or ppo");
    return refuse_any(options, kGroupOptions, why, "accepted: with --objective grpo");
  }
  refuse_any(options, {"--lengths", "--generate", "--images"},
             fmt::format("given with --objective {}, which generates its samples itself",
                         to_name(training.objective)),
             "accepted: --seq and --completion-length");
  if (trains_values(training)) return check_ppo_options(options);
  check_engine_options(options, training.rollout.engine);
}

/// An option that could not do anything would mislead.
void check_method(const Options& options) {
  const Method method = options.training.method;
  std::vector<Method> all = methods_named(options);
  all.push_back(method);
  const bool adapters = std::ranges::any_of(all, [](Method each) { return each != Method::full; });
  const bool packed = std::ranges::any_of(all, [](Method each) { return each == Method::qlora; });
  if (!adapters)
    refuse_any(options, kAdapterOptions, "does nothing with --method full",
               "accepted: with --method lora or qlora");
  if (!packed)
    refuse_any(options, kPackedOptions, fmt::format("does nothing with --method {}", to_name(method)),
               "accepted: with --method qlora");
  const Training& training = options.training;
  check_reference(options);
  if (options.has("--quant-storage") && !is_nf4(training.quantization))
    throw InputError("--quant-storage",
                     fmt::format("does nothing with --quantization {}", to_name(training.quantization)),
                     "accepted: with --quantization nf4 or nf4-double");
}

void needs(const Options& options, std::string_view option, std::string_view other) {
  if (options.has(option) && !options.has(other))
    throw InputError(std::string(option), fmt::format("does nothing without {}", other),
                     fmt::format("accepted: with {}", other));
}

/// What stands beside a run's steps is asked for whole.
void check_beside(const Options& options) {
  needs(options, "--eval-logits", "--eval-batch");
  needs(options, "--eval-samples", "--eval-logits");
  needs(options, "--eval-accumulation", "--eval-logits");
  if (options.has("--eval-logits") && !options.has("--eval-samples"))
    throw InputError("--eval-samples", "missing", "needed: how many samples' logits --eval-logits keeps");
  const FrameworkSpec& framework = spec(options.training.framework);
  const auto refuse = [&](std::string_view option, std::string_view accepted) {
    if (options.has(option))
      throw InputError(std::string(option),
                       fmt::format("does nothing with --framework {}", to_name(options.training.framework)),
                       std::string(accepted));
  };
  if (framework.sharded_instead) refuse("--save", "accepted: with a framework that shards");
  if (!framework.gathers_at_modules) refuse("--load-everywhere", "accepted: with --framework deepspeed");
}

void check_budget(const Options& options) {
  if (options.prices.size() > 1)
    throw InputError("--price", fmt::format("{} prices for one kind of GPU", options.prices.size()),
                     "accepted: one; a price for each name with zplan hardware compare");
  if (options.has("--samples") && options.has("--tokens"))
    throw InputError("--tokens", "given with --samples, which says it already", "accepted: one of the two");
  for (const std::string_view option : {"--epochs", "--price"})
    if (options.has(option) && !options.budget.is_known())
      throw InputError(std::string(option), "does nothing without --samples or --tokens",
                       "accepted: with one of the two");
}

}  // namespace

void check_magnitude(const Question& q) {
  constexpr double kMostScores = 4.4e12, kMostMoved = 4e18;
  constexpr double kMostNodeCopies = 16 * 1024;  // bytes of a logit, twice, on every rank of a node
  const auto tokens = static_cast<double>(q.training.sequence_length) *
                      static_cast<double>(q.space.micro_batch_size.value_or(1));
  const BesideSteps& beside = q.training.beside;
  const auto evaluated = static_cast<double>(q.training.sequence_length + beside.new_tokens) *
                         static_cast<double>(std::max<std::int64_t>(beside.eval_batch, 1));
  if (evaluated > static_cast<double>(kMostTokens))
    throw InputError("--seq, --eval-batch, --generate", fmt::format("{:.0f} tokens in one batch", evaluated),
                     "accepted: up to 268435456");
  const double kept = static_cast<double>(beside.eval_samples + beside.eval_batch * q.cluster.gpus) *
                      static_cast<double>(q.training.sequence_length) *
                      static_cast<double>(q.model.shape.vocabulary_size);
  if (beside.keeps_logits && kept * kMostNodeCopies > kMostMoved)
    throw InputError("--eval-samples", "so many samples' logits cannot be counted", "accepted: fewer");
  const double steps = static_cast<double>(
      q.space.global_batch_size.value_or(q.space.gradient_accumulation_steps.value_or(1)));
  const double samples = steps * static_cast<double>(q.space.micro_batch_size.value_or(
                                     std::max<std::int64_t>(1, kMostTokens / q.training.sequence_length)));
  constexpr double kScoreCopies = 16;  // bytes of a score, four times
  if (trains_values(q.training) && samples * static_cast<double>(completion_tokens(q.training)) *
                                           static_cast<double>(q.model.shape.vocabulary_size) * kScoreCopies >
                                       kMostMoved)
    throw InputError("--completion-length, --grad-accum", "so many scores of a generation cannot be counted",
                     "accepted: fewer");
  if (tokens > static_cast<double>(kMostTokens))
    throw InputError("--seq, --micro-batch", fmt::format("{:.0f} tokens in one micro-batch", tokens),
                     "accepted: up to 268435456");
  if (q.training.attention == Attention::eager &&
      tokens * static_cast<double>(q.training.sequence_length) > kMostScores)
    throw InputError("--attention", "eager with so long a sequence: its score matrices cannot be counted",
                     "accepted: flash, sdpa");
  if (static_cast<double>(parameters(q.model).value) * 12 * steps > kMostMoved)
    throw InputError(q.space.global_batch_size ? "--global-batch" : "--grad-accum",
                     fmt::format("{:.0f} is too many for this model", steps), "accepted: fewer");
}

/// One form of the loss: fused, in slices, or whole.
void check_loss(const Training& training) {
  if (training.fused_loss && training.loss_chunks > 1)
    throw InputError("--loss-chunks", "given with --fused-loss, which has slices of its own",
                     "accepted: one of the two");
  if (training.sliced_head && training.loss_chunks == 1)
    throw InputError("--sliced-head", "given without slices", "accepted: with --loss-chunks of 2 or more");
}

/// Other forms of the loss leave nothing to shift, or no head to fuse.
void check_head(const Options& options, const Training& training) {
  const bool in_slices = training.fused_loss || training.loss_chunks > 1;
  if (options.has("--fused-head") && (in_slices || training.objective == Objective::reward))
    throw InputError("--fused-head",
                     in_slices ? "given beside another form of the loss" : "a reward model has no such head",
                     "accepted: without --fused-loss, --loss-chunks and --objective reward");
  if (in_slices && training.objective == Objective::reward)
    throw InputError(training.fused_loss ? "--fused-loss" : "--loss-chunks",
                     "does nothing with --objective reward, which has no loss of tokens",
                     "accepted: with --objective sft");
  if (options.has("--loss-shift") &&
      (in_slices || training.fused_head || training.objective != Objective::sft))
    throw InputError("--loss-shift", "does nothing without a loss of next tokens over whole logits",
                     "accepted: without --fused-loss, --fused-head, --loss-chunks and --objective");
}

/// What is frozen is there.
void check_frozen(const Question& q) {
  if (!q.training.freezes_vision && !q.training.freezes_projector) return;
  bool found = false;
  for_each_tensor(q.model.inventory,
                  [&](const Tensor& tensor, int) { found = found || freezes(q.training, tensor); });
  if (!found)
    throw InputError("--freeze", fmt::format("{} has no such part", q.model.name),
                     "accepted: with an image-text model whose tower is known");
}

void check_image_options(const Options& options) {
  if (options.has("--images")) return;
  for (const std::string_view option : {"--image-size", "--image-tokens"})
    if (options.has(option))
      throw InputError(std::string(option), "does nothing without --images", "accepted: with --images");
}

/// Why a model cannot be planned with images, and what of them is known.
std::string why_no_images(const Model& model, const ImageRequest& request) {
  if (!model.why_no_images.empty()) return model.why_no_images;
  const std::string& architecture = model.shape.architecture;
  if (model.image_rule)
    return fmt::format(
        "the language model of {} has no program with images; by its processor's rule each image is {} "
        "tokens: on text alone, without --images, --seq counts them",
        architecture, image_batch(*model.image_rule, {.patch_size = 1}, request).tokens);
  if (has_tower(model))
    return fmt::format(
        "neither tokens per image nor the tower of {} are known: it can be planned on text "
        "alone, without --images",
        architecture);
  return fmt::format("{} is not known to read images", model.name.empty() ? architecture : model.name);
}

/// The model as it runs with images.
const Model& with_images(const Model& model, const ImageRequest& request) {
  if (model.with_images) return *model.with_images;
  throw InputError("--images", why_no_images(model, request),
                   fmt::format("accepted: models of {}", fmt::join(image_text_architectures(), ", ")));
}

/// Frozen parts get no adapters. A projector may lie within its tower.
void exclude_frozen(const Vision& vision, Training& training) {
  std::vector<std::string>& excluded = training.lora_targets.excluded;
  if (training.freezes_vision) excluded.push_back(vision.names.tower);
  if (training.freezes_projector) excluded.push_back(vision.names.projector);
}

/// Images in each sample: how many tokens and patches they are, and a sequence that holds them.
void add_images(const Options& options, Question& q) {
  check_image_options(options);
  if (!options.has("--images")) return;
  Model model = with_images(q.model, options.images);
  model.name = q.model.name, model.source = q.model.source, model.origin = q.model.origin;
  q.model = std::move(model);
  ImageBatch& images = q.training.images;
  images = image_batch(q.model.vision->rule, q.model.vision->tower, options.images);
  exclude_frozen(*q.model.vision, q.training);
  if (!options.has("--seq")) q.training.sequence_length += images.sequence();
  if (images.sequence() > q.training.sequence_length)
    throw InputError("--seq",
                     fmt::format("{} tokens do not hold {} images of {} tokens each",
                                 q.training.sequence_length, images.per_sample, images.tokens),
                     fmt::format("accepted: {} and more", images.sequence()));
}

/// vLLM refuses a share that its weights and one sequence do not fit into.
void check_engine_share(const Question& q) {
  const EngineMemory engine = engine_memory(q.model, q.training, {}, q.cluster.usable_memory);
  const Bytes needed = engine.weights + engine.activations + engine.sequence;
  if (engine.share >= needed) return;
  const double least = number_of_bytes(needed) / number_of_bytes(q.cluster.usable_memory);
  throw InputError("--vllm-memory",
                   fmt::format("{:.2f} of a GPU is {}: vLLM's weights, activations and one sequence take {}",
                               q.training.rollout.engine_share, format_bytes(engine.share, q.unit),
                               format_bytes(needed, q.unit)),
                   least < 1 ? fmt::format("accepted: from {:.2f}", std::ceil(least * 100) / 100)
                             : std::string("accepted: with a larger --vllm-tp, or --rollout server"));
}

/// The model that `option` names, as it gives each token a number; where it is not given the policy's shape.
std::shared_ptr<const Model> scorer(const std::string& option, const std::string& given, const Model& policy,
                                    const ModelSearch& search) {
  try {
    return std::make_shared<const Model>(
        scoring_model(given.empty() ? policy : resolve_model(given, search)));
  } catch (const InputError& error) {
    throw error.place() == "--model" ? InputError(option, error.found(), error.accepted()) : error;
  }
}

/// What PPOTrainer has beside the policy, and does whatever it is told. Its models keep use_cache, which
/// transformers leaves on. Source: TRL 1.8 experimental/ppo/ppo_trainer.py.
void add_ppo(const Options& options, const ModelSearch& search, Question& q) {
  if (!trains_values(q.training)) return;
  auto value = scorer("--value-model", options.value_model, q.model, search);
  auto reward = scorer("--reward-model", options.reward_model, q.model, search);
  q.model.value = std::move(value), q.model.reward = std::move(reward);
  q.training.rollout.engine = RolloutEngine::trainer;
  q.training.rollout.generations = 1;
  q.training.keeps_cache = true;
}

/// Completions within the sample, and an engine that starts.
void check_rollout(const Question& q) {
  if (!generates(q.training)) return;
  const Rollout& rollout = q.training.rollout;
  const std::int64_t completion = completion_tokens(q.training), whole = q.training.sequence_length;
  if (completion >= whole)
    throw InputError("--completion-length", fmt::format("{} of {} tokens leave no prompt", completion, whole),
                     fmt::format("accepted: up to {}", whole - 1));
  if (rollout.engine != RolloutEngine::colocate) return;
  if (q.cluster.gpus % rollout.engine_ranks != 0)
    throw InputError("--vllm-tp", fmt::format("{} of {} GPUs", rollout.engine_ranks, q.cluster.gpus),
                     "accepted: a divisor of --gpus");
  check_engine_share(q);
}

void choose_defaults(const Options& options, Question& q) {
  check_loss(q.training);
  check_head(options, q.training);
  const std::int64_t positions = q.model.shape.max_positions;
  const bool too_long = positions > 0 && positions < q.training.sequence_length;
  const bool learned = elements(q.model.inventory, TensorRole::position_embedding).value > 0;
  if (too_long && learned && options.has("--seq"))
    throw InputError("--seq",
                     fmt::format("{}, but {} has learned positions for {}", q.training.sequence_length,
                                 q.model.name, positions),
                     fmt::format("accepted: up to {}", positions));
  if (too_long && !options.has("--seq")) q.training.sequence_length = positions;
  // A module that cannot checkpoint was recorded without.
  if (q.model.recorded && !options.has("--checkpointing") &&
      std::ranges::none_of(q.model.recorded->tapes, &RecordedTape::checkpointed))
    q.space.checkpointing = Checkpointing::none;
  if (std::string why = why_no_bitsandbytes(q.training, q.cluster.gpu); !why.empty())
    throw InputError(q.training.method == Method::qlora ? "--method, --optimizer" : "--optimizer", why,
                     "accepted: --method full or lora, --optimizer adamw, sgd, …, or another GPU");
  if (runs_flash(q.training, q.cluster.gpu) || q.training.attention != Attention::flash) return;
  if (options.has("--attention"))
    throw InputError("--attention",
                     "flash in fp32 or on a GPU before compute capability 8.0: its kernels do not run",
                     "accepted: sdpa, eager");
  q.training.attention = Attention::sdpa;
}

namespace {

/// A data set's lengths, cut at --seq; plans are for its longest micro-batch.
void add_lengths(const Options& options, Question& q) {
  if (!options.has("--lengths")) {
    if (options.has("--batching"))
      throw InputError("--batching", "does nothing without --lengths", "accepted: with --lengths");
    return;
  }
  if (options.has("--images"))
    throw InputError("--lengths", "given with --images, whose samples are all alike",
                     "accepted: one of the two");
  const std::string& given = options.lengths;
  DataLengths data{.lengths = given.starts_with("mean=") ? lengths_of_moments("--lengths", given)
                                                         : parse_lengths(given, read_file(given)),
                   .batching = options.batching};
  data.limit = q.training.sequence_length;
  if (options.has("--seq") || data.batching == Batching::packed) data.lengths = data.lengths.cut(data.limit);
  q.training.sequence_length = data.worst();
  // Batches whose samples differ are padded, and attention is given a mask.
  const bool differ = data.lengths.shortest() != data.lengths.longest();
  q.training.padding_mask = data.batching != Batching::packed && differ;
  q.lengths = std::move(data);
}

/// Whether the user said it: of the loss's forms one stands for all.
bool is_chosen(const Options& options, std::string_view option) {
  constexpr std::array kLoss{"--fused-loss",  "--fused-head", "--loss-chunks",
                             "--sliced-head", "--tiled-loss", "--loss-shift"};
  if (std::ranges::find(kLoss, option) == kLoss.end()) return options.has(option);
  return std::ranges::any_of(kLoss, [&](const char* each) { return options.has(each); });
}

}  // namespace

ModelSearch model_search(const Environment& environment) {
  return {.user_models = user_models_folder(environment), .hub_cache = hub_cache_folder(environment)};
}

namespace {

Request requested(const Options& options, const Environment& environment) {
  check_needed(options);
  check_method(options);
  check_rollout_options(options);
  check_framework(options);
  check_beside(options);
  check_budget(options);
  // The catalogues of hardware and of models are read side by side.
  auto hardware = std::async(std::launch::async, [&] {
    return profiles_for(options.cluster.gpu, user_hardware_folder(environment), options.cluster.instance);
  });
  Request request{{.model = resolve_model(options.model, model_search(environment)),
                   .cluster = assemble_cluster(options.cluster, hardware.get()),
                   .training = with_framework(options.training, options.training.framework),
                   .space = options.space,
                   .headroom = options.headroom,
                   .unit = options.unit,
                   .budget = options.budget},
                  {}};
  Question& q = request.question;
  q.trainer_defaults = apply_trainers(
      options.trainers, {q.training, q.space.checkpointing, q.space.micro_batch_size.value_or(1)},
      q.cluster.gpus, [&](std::string_view option) { return is_chosen(options, option); });
  if (q.training.objective == Objective::reward) make_reward_model(q.model, q.training);
  add_ppo(options, model_search(environment), q);
  // Prompts are padded on the left and completions on the right.
  if (generates(q.training)) q.training.padding_mask = true;
  if (!options.ds_config.empty()) request.warnings = apply_ds_config(options, request.question);
  add_images(options, request.question);
  add_lengths(options, request.question);
  choose_defaults(options, request.question);
  check_rollout(request.question);
  check_frozen(request.question);
  const bool free_micro_batch = !options.has("--micro-batch") && request.question.space.micro_batch_size;
  request.question.space.micro_batch_follows =
      free_micro_batch && options.has("--global-batch") && options.has("--grad-accum");
  check_magnitude(request.question);
  return request;
}

}  // namespace

Request make_request(const Options& options, const Environment& environment) {
  try {
    return requested(options, environment);
  } catch (const InputError& error) {
    throw at_recipe(options, error);
  }
}

}  // namespace zplan
