#include "models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"
#include "models/inventories/by_rules.h"
#include "models/recorded/read.h"
#include "models/vision/towers.h"

namespace zplan {

namespace {

using architectures::Descriptor;
using architectures::descriptors;

/// "config.json#/model_type", whether or not the config has one.
std::string model_type_place(const JsonReader& config) {
  const std::string place = config.place();
  return place + (place.find('#') == std::string::npos ? "#/" : "/") + "model_type";
}

const Descriptor* descriptor_named(const JsonReader& config) {
  const std::string given = config.at("model_type").text();
  for (const Descriptor& each : descriptors())
    if (each.model_type == given) return &each;
  return nullptr;
}

/// True if the name may be a new architecture's: not empty, and not a known one in other case.
bool is_a_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::vector<std::string> known = supported_architectures();
  return !name.empty() && std::find(known.begin(), known.end(), name) == known.end();
}

const Descriptor& descriptor_of_type(const JsonReader& config) {
  if (const Descriptor* found = descriptor_named(config)) return *found;
  const std::string given = config.at("model_type").text();
  throw InputError(model_type_place(config), in_quotes(given) + " is not supported",
                   accepted_words(given, supported_architectures()));
}

/// Returns the descriptor whose class the config lists in `architectures`.
const Descriptor* descriptor_listed(const JsonReader& config) {
  const auto classes = config.find("architectures");
  if (!classes || !classes->raw().is_array()) return nullptr;
  for (const JsonReader& item : classes->items())
    for (const Descriptor& each : descriptors())
      if (item.raw().is_string() && each.causal_lm_class == item.text()) return &each;
  return nullptr;
}

/// Files without model_type (saved by other tools) may still list their class.
const Descriptor& descriptor_of_class(const JsonReader& config) {
  if (const Descriptor* found = descriptor_listed(config)) return *found;
  throw InputError(model_type_place(config), "is missing", accepted_words("", supported_architectures()));
}

/// Returns what packed the weights in the model's files, empty if the config does not name it.
std::string packed_in_files(const JsonReader& config) {
  const auto packed = config.find("quantization_config");
  return packed && packed->raw().is_object() ? packed->text_or("quant_method", "") : "";
}

void check_total(const JsonReader& config, const Inventory& inventory) {
  const double total = approximate_elements(inventory);
  if (total > kMostParameters)
    config.fail(fmt::format("sizes that make {:.3g} parameters", total), "accepted: at most 2^60 parameters");
}

}  // namespace

namespace {

Model described(const JsonReader& config) {
  const Descriptor& about =
      config.has("model_type") ? descriptor_of_type(config) : descriptor_of_class(config);
  Model model = about.read(config, about);
  architectures::leave_whole(model.inventory, about.left_whole);
  return model;
}

/// Returns a model under a name of its own that lists a described class (Kimi K2: DeepseekV3ForCausalLM), by
/// analogy with that: its own code may differ.
std::optional<Model> of_listed_class(const JsonReader& config) {
  const Descriptor* about = descriptor_listed(config);
  if (about == nullptr) return std::nullopt;
  try {
    Model model = about->read(config, *about);
    architectures::leave_whole(model.inventory, about->left_whole);
    model.analogue = std::make_shared<const Model>(model);
    model.shape.architecture = config.text_or("model_type", "unknown");
    return model;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Adds how the model runs with images. Errors in its tower are reported only if images are requested.
void add_images(const JsonReader& config, Model& model) {
  if (!config.raw().contains("vision_config")) return;
  try {
    std::optional<Model> with_images = image_text_model(config);
    if (!with_images) {
      model.image_rule = image_rule(config);
      return;
    }
    check_total(config, with_images->inventory);
    model.with_images = std::make_shared<const Model>(*std::move(with_images));
  } catch (const InputError& error) {
    model.why_no_images = error.what();
  }
}

/// Returns an image-text model on text alone: its language model's program runs, its tower is idle. Nothing
/// where its reader makes no sense of it: images are refused with the reason.
std::optional<Model> image_text_on_text(const JsonReader& config) {
  try {
    std::optional<Model> model = image_text_model(config);
    if (!model) return std::nullopt;
    const std::size_t text = language_model(config)->inventory.before.size();
    const std::size_t tower = model->inventory.before.size() - text;
    for (std::size_t i = 0; i < tower; ++i) model->inventory.before[i].idle = true;
    model->vision.reset();
    return model;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Returns a multimodal model: its towers with its language model's program, as recorded, or by analogy.
std::optional<Model> with_tower(const JsonReader& config) {
  if (!config.has("model_type")) return std::nullopt;
  if (!config.has("vision_config")) return model_with_idle_towers(config);
  if (std::optional<Model> whole = image_text_on_text(config)) return whole;
  std::optional<Model> model = recorded_model(config);
  if (model && model->recorded) return model;
  // Tensors that were recorded stay exact where an analogue would stand for the language model.
  if (std::optional<Model> whole = model_with_idle_towers(config); whole && !(model && whole->analogue))
    return whole;
  if (!model || descriptor_named(config) == nullptr)
    if (std::optional<Model> by_rules = model_by_rules(config)) return by_rules;
  if (model && descriptor_named(config) != nullptr)
    model->analogue = std::make_shared<Model>(described(config));
  return model;
}

/// Returns the model of an architecture without a descriptor: as recorded, with the tensors that transformers
/// gives it, or by analogy.
std::optional<Model> undescribed(const JsonReader& config) {
  if (!config.has("model_type") || descriptor_named(config) != nullptr) return std::nullopt;
  if (!is_a_name(config.at("model_type").text())) return std::nullopt;
  std::optional<Model> recorded = recorded_model(config);
  if (recorded && recorded->recorded) return recorded;
  if (std::optional<Model> by_rules = model_by_rules(config)) return by_rules;
  if (!recorded)
    if (std::optional<Model> listed = of_listed_class(config)) return listed;
  return recorded ? std::move(recorded) : model_by_analogy(config);
}

/// A descriptor may ask for more than a config that transformers wrote says.
Model described_or_recorded(const JsonReader& config) {
  try {
    return described(config);
  } catch (const InputError&) {
    if (config.has("model_type") && config.has("transformers_version"))
      if (auto model = recorded_model(config)) return *std::move(model);
    throw;
  }
}

}  // namespace

Model read_config(const JsonReader& config) {
  if (!config.raw().is_object()) config.fail_type("a JSON object");
  std::optional<Model> model = with_tower(config);
  if (!model) model = undescribed(config);
  if (!model) model = described_or_recorded(config);
  add_images(config, *model);
  model->stored_as = packed_in_files(config);
  check_total(config, model->inventory);
  return *std::move(model);
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Descriptor& each : descriptors()) names.emplace_back(each.model_type);
  return names;
}

}  // namespace zplan
