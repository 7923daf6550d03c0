#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"
#include "models/config.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

/// The catalogue's config of the named model, cut to `layers` layers.
std::optional<Model> cut_model(const std::string& name, std::int64_t layers, const std::string& place) {
  std::vector<const CatalogueEntry*> named = entries_named(name, NameMatch::exact, catalogue());
  if (named.empty()) named = entries_named(name, NameMatch::loose, catalogue());
  if (named.empty()) return std::nullopt;
  Json config = Json::parse(named.front()->config);
  config[config.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = layers;
  // Lists with an entry per layer are for the whole depth; without them the pattern is the architecture's
  // own.
  config.erase("layer_types");
  return read_config(JsonReader(config, place));
}

/// The named model, of the fewest layers that hold one with a window and one without, where it has both.
std::optional<Model> smallest_model(const std::string& name, const std::string& place) {
  std::optional<Model> one = cut_model(name, 1, place);
  const std::int64_t period = one ? one->shape.operators.full_attention_every : 0;
  if (period == 0) return one;
  std::optional<Model> all = cut_model(name, period, place);
  return all->shape.sliding_layers > 0 && all->shape.sliding_layers < period ? all : one;
}

/// Whether the row measured the model that the catalogue means.
bool same_sizes(const JsonReader& shape, const ModelShape& model) {
  const auto size = [&](const char* key) { return shape.at(key).integer(1, kMostSequence); };
  return size("hidden") == model.hidden_size && size("heads") == model.attention_heads &&
         size("kv_heads") == model.key_value_heads && size("ffn") == model.intermediate_size &&
         size("vocab") == model.vocabulary_size && size("head_dim") == model.head_size &&
         shape.at("tied").boolean() == model.tied_embeddings;
}

Training row_training(const JsonReader& row) {
  const std::string variant = row.text_or("variant", "");
  const std::string adapters = row.at("lora").text();
  Training training;
  training.framework = Framework::torch;
  training.master_weights = row.at("dtype").text() != "bf16";  // else autocast over fp32 weights
  training.sequence_length = row.at("s").integer(1, kMostSequence);
  training.attention = named<Attention>(row.at("attn"));
  training.padding_mask = variant == "padding_mask";
  training.keeps_cache = variant == "use_cache";
  training.fp32_adapters = variant != "lora_bf16";
  if (adapters == "none") return training;
  constexpr std::int64_t kMeasuredRank = 16;
  training.method = Method::lora;
  training.lora_rank = kMeasuredRank;
  training.lora_targets.modules = {adapters};
  return training;
}

/// What the measuring process began with: the model that the row names, cut to the fewest layers that hold
/// each of its kinds, in full training, without checkpointing, with one sample of eight tokens.
std::optional<Setup> first_setup(const JsonReader& row, const Cluster& cluster) {
  const std::string name = row.text_or("first", "");
  std::optional<Model> model = name.empty() ? std::nullopt : smallest_model(name, row.place());
  if (!model) return std::nullopt;
  Setup first{.model = std::move(*model), .training = {}, .strategy = {}, .cluster = cluster};
  first.training.framework = Framework::torch;
  first.training.master_weights = false;
  first.training.sequence_length = 8;
  first.training.attention = Attention::sdpa;
  first.strategy.checkpointing = Checkpointing::none;
  return first;
}

ActivationFigures figures(const JsonReader& row, const std::string& prefix) {
  const JsonReader peaks = row.at(prefix + "peaks_above_base");
  return {.saved_after_forward = bytes_at(row.at(prefix + "saved_after_forward_bytes")),
          .forward = bytes_at(peaks.at("fwd")),
          .loss = bytes_at(peaks.at("loss_fwd")),
          .loss_backward = bytes_at(peaks.at("loss_bwd")),
          .layers_backward = bytes_at(peaks.at("layers_bwd"))};
}

std::string row_id(const JsonReader& row, std::int64_t layers) {
  const std::string variant = row.text_or("variant", "");
  const std::string adapters = row.at("lora").text();
  std::string id = row.at("model").text() + "|" + std::to_string(layers) + " layers|" + row.at("attn").text();
  if (row.at("dtype").text() != "bf16") id += "|amp";
  if (!variant.empty()) id += "|" + variant;
  if (adapters != "none") id += "|lora=" + adapters;
  id += "|b" + row.at("b").raw().dump() + "s" + row.at("s").raw().dump();
  return row.at("ckpt").boolean() ? id + "|ckpt" : id;
}

Case activation_case(const JsonReader& row) {
  const JsonReader shape = row.at("shape");
  const std::int64_t layers = shape.at("layers_used").integer(1, kMostBatch);
  MeasuredActivations measured{
      .requested = figures(row, "requested_"), .allocated = figures(row, ""), .first = std::nullopt};
  Case result{.id = row_id(row, layers),
              .file = {},
              .kind = Kind::activation,
              .measured = measured,
              .setup = std::nullopt,
              .skip = {}};
  std::optional<Model> model = cut_model(row.at("model").text(), layers, row.place());
  if (!model || !same_sizes(shape, model->shape)) {
    result.skip.add("a model that is not in the catalogue: " + row.at("model").text());
    return result;
  }
  Setup setup{.model = std::move(*model), .training = row_training(row), .strategy = {}, .cluster = {}};
  setup.strategy.micro_batch_size = row.at("b").integer(1, kMostBatch);
  setup.strategy.checkpointing = row.at("ckpt").boolean() ? Checkpointing::full : Checkpointing::none;
  setup.cluster = usual_cluster("A100-SXM-80GB", 1, std::nullopt);
  measured.first = first_setup(row, setup.cluster);
  result.measured = std::move(measured);
  result.setup = std::move(setup);
  return result;
}

}  // namespace

std::vector<Case> read_activation_rows(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) cases.push_back(activation_case(row));
  return cases;
}

}  // namespace zplan::check
