#include "cli/options/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <nlohmann/json.hpp>

#include "cli/hub/hub.h"
#include "models/base/json_reader.h"
#include "models/config.h"
#include "models/recorded/recorded.h"
#include "planner/moments/rollout.h"
#include "planner/plan/legality.h"
#include "planner/question/framework.h"
#include "planner/search/candidates.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

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
    throw InputError("--eval-samples", "the logits kept exceed what zplan counts", "accepted: fewer");
  const double steps = static_cast<double>(
      q.space.global_batch_size.value_or(q.space.gradient_accumulation_steps.value_or(1)));
  const double samples = steps * static_cast<double>(q.space.micro_batch_size.value_or(
                                     std::max<std::int64_t>(1, kMostTokens / q.training.sequence_length)));
  constexpr double kScoreCopies = 16;  // bytes of a score, four times
  if (trains_values(q.training) && samples * static_cast<double>(completion_tokens(q.training)) *
                                           static_cast<double>(q.model.shape.vocabulary_size) * kScoreCopies >
                                       kMostMoved)
    throw InputError("--completion-length, --grad-accum",
                     "the scores of a generation exceed what zplan counts", "accepted: fewer");
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

ModelSearch model_search(const Options& options, const Environment& environment) {
  return model_search(environment, options.hub, options.offline);
}

namespace {

/// Frozen parts get no adapters. Throws InputError where the model has no part that --freeze names.
void exclude_frozen(Question& q) {
  if (!q.training.freezes_vision && !q.training.freezes_projector) return;
  std::vector<std::string> paths = frozen_paths(q.model.inventory, q.training);
  std::ranges::move(paths, std::back_inserter(q.training.lora_targets.excluded));
  if (paths.empty())
    throw InputError("--freeze", fmt::format("{} has no such part", q.model.name),
                     "accepted: with an image-text model whose tower is known");
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
        "the tower of {} has no program for images: it can be planned on text alone, without --images, where "
        "--seq counts the images' tokens",
        architecture);
  return fmt::format("{} is not known to read images", model.name.empty() ? architecture : model.name);
}

/// The model as it runs with images.
const Model& with_images(const Model& model, const ImageRequest& request) {
  if (model.with_images) return *model.with_images;
  throw InputError("--images", why_no_images(model, request),
                   fmt::format("accepted: models of {}", fmt::join(image_text_architectures(), ", ")));
}

/// Images in each sample: how many tokens and patches they are, and a sequence that holds them.
void add_images(const Options& options, Question& q) {
  if (!options.has("--images")) return;
  Model model = with_images(q.model, options.images);
  model.name = q.model.name, model.source = q.model.source, model.origin = q.model.origin;
  q.model = std::move(model);
  ImageBatch& images = q.training.images;
  images = image_batch(q.model.vision->rule, q.model.vision->tower, options.images);
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

std::string_view reference_word(const Training& training) {
  return to_name(reference_of(training).value_or(ReferenceModel::none));
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

/// Adds the value and reward model of PPOTrainer and its fixed settings. Its models keep use_cache, which
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

/// Adds the teacher of gkd, and what generates: nothing, unless an option says that the student does.
void add_teacher(const Options& options, const ModelSearch& search, Question& q) {
  if (!distils(q.training)) return;
  Training& training = q.training;
  training.distillation.on_policy = options.has("--rollout") || options.has("--completion-length");
  training.rollout.generations = 1;
  if (!options.has("--rollout")) training.rollout.engine = RolloutEngine::trainer;
  const bool is_copy = reference_of(training) == ReferenceModel::copy;
  if (!is_copy && !options.teacher.empty())
    throw InputError("--teacher", fmt::format("beside --reference {}", reference_word(training)),
                     "accepted: with --reference copy");
  if (reference_of(training) == std::nullopt && training.distillation.top == 0)
    throw InputError("--reference", "none: a teacher on a server sends its most probable tokens",
                     "accepted: with --teacher-top N");
  if (!is_copy) return;
  if (options.teacher.empty() && !options.has("--reference"))
    throw InputError("--objective", "gkd without a teacher",
                     "accepted: with --teacher NAME, or --reference copy, adapters-off, none");
  try {
    if (!options.teacher.empty())
      q.model.teacher = std::make_shared<const Model>(resolve_model(options.teacher, search));
  } catch (const InputError& error) {
    throw error.place() == "--model" ? InputError("--teacher", error.found(), error.accepted()) : error;
  }
}

/// Adds a copy behind each of as many groups of layers, which train alone. Source: LLaMA-Factory 0.9.5
/// scripts/llama_pro.py; ms-swift 4.6 swift/tuners/llamapro.py.
void expand_blocks(std::int64_t blocks, Question& q) {
  if (blocks == 0) return;
  Model& model = q.model;
  const auto layers = static_cast<std::int64_t>(model.inventory.layers.size());
  if (layers % blocks != 0)
    throw InputError("--expand-blocks", fmt::format("{} of {} layers", blocks, layers),
                     "accepted: a divisor of the number of layers");
  if (model.recorded || model.analogue)
    throw InputError("--expand-blocks", for_described_models("added layers"), "accepted: such a model");
  std::vector<std::size_t> all;
  for (std::int64_t i = 0; i < layers; ++i) {
    all.push_back(model.inventory.layers[static_cast<std::size_t>(i)]);
    if ((i + 1) % (layers / blocks) != 0) continue;
    q.training.trained_layers.push_back(static_cast<std::int64_t>(all.size()));
    all.push_back(all.back());
  }
  model.inventory.layers = std::move(all);
  model.shape.layers += blocks;
}

/// Returns the layers that "last:2", "first:2", "every:4" or "3,7" name. Source: LLaMA-Factory 0.9.5
/// model/adapter.py _setup_freeze_tuning.
std::vector<std::int64_t> layers_named(const std::string& text, std::int64_t layers) {
  constexpr std::string_view kOption = "--train-layers";
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return parse_integers(kOption, text, 0, layers - 1);
  const std::string word = text.substr(0, colon);
  if (word != "last" && word != "first" && word != "every")
    throw InputError(std::string(kOption), in_quotes(text), "accepted: 30,31, last:2, first:2, every:4");
  const std::int64_t count = parse_integer(kOption, text.substr(colon + 1), 1, layers);
  if (word == "every" && layers % count != 0)
    throw InputError(std::string(kOption), fmt::format("{} of {} layers", text, layers),
                     "accepted: a divisor of the number of layers");
  std::vector<std::int64_t> named;
  for (std::int64_t i = 0; i < count; ++i)
    named.push_back(word == "last"    ? layers - count + i
                    : word == "first" ? i
                                      : (i + 1) * (layers / count) - 1);
  return named;
}

/// Layers of the model that train.
void add_trained_parts(const Options& options, Question& q) {
  const auto layers = static_cast<std::int64_t>(q.model.inventory.layers.size());
  if (!options.trained_layers.empty())
    q.training.trained_layers = layers_named(options.trained_layers, layers);
  if (!q.training.trained_layers.empty() && (q.model.recorded || q.model.analogue))
    throw InputError("--train-layers", for_described_models("freezing layers"), "accepted: such a model");
  if (options.has("--train-layers") && options.has("--expand-blocks"))
    throw InputError("--train-layers", "beside --expand-blocks", "accepted: one of the two");
  bool has_trained = false;
  for_each_tensor(q.model.inventory, [&](const Tensor& tensor, int layer) {
    has_trained = has_trained || (q.training.trains_tower && trains(q.training, tensor, layer));
  });
  if (q.training.trains_tower && !has_trained)
    throw InputError("--train-tower", fmt::format("{} has no tower", q.model.name),
                     "accepted: with an image-text model whose tower is known");
}

/// Completions within the sample, and an engine that starts.
void check_rollout(const Question& q) {
  if (!rolls_out(q.training)) return;
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

/// A data set's lengths, cut at --seq; plans are for its longest micro-batch.
void add_lengths(const Options& options, Question& q) {
  if (!options.has("--lengths")) return;
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

/// True if the option is given; one option about the form of the loss stands for all of them.
bool is_chosen(const Options& options, std::string_view option) {
  constexpr std::array kLoss{"--fused-loss",  "--fused-head", "--loss-chunks",
                             "--sliced-head", "--tiled-loss", "--loss-shift"};
  if (std::ranges::find(kLoss, option) == kLoss.end()) return options.has(option);
  return std::ranges::any_of(kLoss, [&](const char* each) { return options.has(each); });
}

/// Cuts a sequence that was not given at the positions that the model has.
void choose_length(const Options& options, Question& q) {
  const std::int64_t positions = q.model.shape.max_positions;
  if (positions == 0 || positions >= q.training.sequence_length) return;
  const bool learned = elements(q.model.inventory, TensorRole::position_embedding).value > 0;
  if (learned && options.has("--seq"))
    throw InputError("--seq",
                     fmt::format("{}, but {} has learned positions for {}", q.training.sequence_length,
                                 q.model.name, positions),
                     fmt::format("accepted: up to {}", positions));
  if (!options.has("--seq")) q.training.sequence_length = positions;
}

/// Takes another kernel where flash attention does not run.
void choose_attention(const Options& options, Question& q) {
  if (runs_flash(q.training, q.cluster.gpu) || q.training.attention != Attention::flash) return;
  if (options.has("--attention"))
    throw InputError("--attention",
                     "flash in fp32 or on a GPU before compute capability 8.0: its kernels do not run",
                     "accepted: sdpa, eager");
  q.training.attention = Attention::sdpa;
}

/// Returns the model that --model names, with the config that a recipe makes of it.
Model asked_model(const Options& options, const Environment& environment) {
  if (!options.model_config) return resolve_model(options.model, model_search(options, environment));
  const Json config = Json::parse(*options.model_config);
  Model model = read_config(JsonReader(config, options.model));
  model.name = options.model;
  model.source = ModelSource::config;
  model.origin = "as the recipe's trainer builds it";
  return model;
}

/// Returns the cluster. GPUs beyond a usual node fill several, as they come, where the number of nodes is not
/// said.
Cluster assembled(const ClusterRequest& asked, const HardwareProfiles& profiles) {
  Cluster cluster = assemble_cluster(asked, profiles);
  const std::int64_t usual = cluster.node.usual_gpus;
  if (asked.nodes || !asked.instance.empty() || cluster.gpus <= usual || cluster.gpus % usual != 0)
    return cluster;
  ClusterRequest request = asked;
  request.nodes = cluster.gpus / usual;
  cluster = assemble_cluster(request, profiles);
  cluster.assumptions.push_back(
      fmt::format("{} GPUs in {} nodes of {}, as many as {} nodes usually hold (--nodes)", cluster.gpus,
                  cluster.nodes, usual, cluster.node.name));
  return cluster;
}

Request requested(const Options& options, const Environment& environment) {
  check_conditions(options);
  // The catalogues of hardware and of models are read side by side.
  auto hardware = std::async(std::launch::async, [&] {
    return profiles_for(options.cluster.gpu, user_hardware_folder(environment), options.cluster.instance);
  });
  Request request{{.model = asked_model(options, environment),
                   .cluster = assembled(options.cluster, hardware.get()),
                   .training = with_framework(options.training, options.training.framework),
                   .space = options.space,
                   .headroom = options.headroom,
                   .unit = options.unit,
                   .budget = options.budget},
                  {}};
  Question& q = request.question;
  q.trainer_defaults =
      apply_trainers(options.trainers,
                     {q.training, q.space.checkpointing, q.space.long_context.checkpoint_offload,
                      q.space.micro_batch_size.value_or(1), &q.space.megatron},
                     q.cluster.gpus, [&](std::string_view option) { return is_chosen(options, option); });
  if (q.training.objective == Objective::reward) make_reward_model(q.model, q.training);
  add_ppo(options, model_search(options, environment), q);
  add_teacher(options, model_search(options, environment), q);
  expand_blocks(options.expanded_blocks, q);
  // Prompts are padded on the left and completions on the right; under Megatron-Core ms-swift joins samples
  // in rows without padding (padding_free).
  if (rolls_out(q.training) && !q.training.modules.makes_all_losses) q.training.padding_mask = true;
  if (!options.ds_config.empty()) request.warnings = apply_ds_config(options, request.question);
  add_images(options, request.question);
  add_lengths(options, request.question);
  choose_defaults(options, request.question);
  check_rollout(request.question);
  exclude_frozen(request.question);
  add_trained_parts(options, request.question);
  const bool free_micro_batch = !options.has("--micro-batch") && request.question.space.micro_batch_size;
  request.question.space.micro_batch_follows =
      free_micro_batch && options.has("--global-batch") && options.has("--grad-accum");
  check_magnitude(request.question);
  return request;
}

}  // namespace

/// Source: torchao 0.18 float8/__init__.py: capability 8.9 and later.
void check_float8(const Question& q) {
  const Gpu& gpu = q.cluster.gpu;
  if (q.training.float8 == Float8::none || gpu.fp8) return;
  throw InputError("--float8", fmt::format("{} has no matrix units for 8-bit numbers", gpu.name),
                   "accepted: --float8 none, or a GPU such as H100-SXM-80GB");
}

void choose_defaults(const Options& options, Question& q) {
  choose_length(options, q);
  // A module that cannot checkpoint was recorded without.
  if (q.model.recorded && !options.has("--checkpointing") &&
      std::ranges::none_of(q.model.recorded->tapes, &RecordedTape::checkpointed))
    q.space.checkpointing = Checkpointing::none;
  if (std::string why = why_no_bitsandbytes(q.training, q.cluster.gpu); !why.empty())
    throw InputError(q.training.method == Method::qlora ? "--method, --optimizer" : "--optimizer", why,
                     "accepted: --method full or lora, --optimizer adamw, sgd, …, or another GPU");
  check_float8(q);
  choose_attention(options, q);
}

Request make_request(const Options& options, const Environment& environment) {
  try {
    return requested(options, environment);
  } catch (const InputError& error) {
    throw at_recipe(options, error);
  }
}

OpenQuestion open_question(const Options& options, const Question& question,
                           const HardwareProfiles& hardware) {
  ClusterRequest cluster = options.cluster;
  if (!cluster.nodes && cluster.instance.empty() && cluster.gpus) cluster.nodes = question.cluster.nodes;
  return {.question = question,
          .cluster = cluster,
          .hardware = &hardware,
          .model_of_size = infer_model,
          .attention_given = options.has("--attention")};
}

}  // namespace zplan
