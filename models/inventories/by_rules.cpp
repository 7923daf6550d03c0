#include "models/inventories/by_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/analogy.h"
#include "models/base/embedded.h"
#include "models/inventories/fields.h"
#include "models/inventories/steps.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> inventories;
}

namespace {

constexpr std::int64_t kMostModules = 1 << 14, kMostExtent = std::int64_t{1} << 40;
constexpr std::size_t kMostRuleTensors = 1 << 20;

/// "jamba" of "inventories/files/jamba.json".
std::string_view architecture_in(const embedded::EmbeddedFile& file) {
  std::string_view name = file.name;
  name.remove_prefix(name.rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

/// "model.layers.{}.mlp.experts.{}.w1.weight" with the numbers from `from` on in place of {}.
std::string numbered(std::string name, const ConfigFields::Places& places, std::size_t from) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    at = name.find("{}", at);
    if (at == std::string::npos) break;
    if (i >= from)
      name.replace(at, 2, std::to_string(places[i]));
    else
      at += 2;
  }
  return name;
}

std::string module_named(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return name;
  const std::string path = name.substr(0, dot);
  return path.substr(path.rfind('.') + 1);
}

/// Makes the tensors of an inventory's document for one config.
class Maker {
 public:
  Maker(const JsonReader& config, const Json& document)
      : config_(config), document_(document), fields_(config, document) {}

  Inventory inventory() {
    const auto& layers = document_.at("layers").get_ref<const std::string&>();
    for (const Json& item : document_.at("items")) {
      if (item.contains("list") && item.at("list") == layers)
        make_layers(item);
      else
        add(item, {}, 0, made_.layers.empty() ? made_.before : made_.after);
    }
    if (made_.layers.empty()) config_.fail("no layers", "accepted: at least one");
    return std::move(made_);
  }
  [[nodiscard]] const ConfigFields& fields() const { return fields_; }

 private:
  void make_layers(const Json& item) {
    const std::int64_t count = fields_.whole(item.at("count"), {}, kMostModules);
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<Tensor> tensors;
      for (const Json& each : item.at("items")) add(each, {i}, 1, tensors);
      const auto alike = std::find_if(made_.kinds.begin(), made_.kinds.end(),
                                      [&](const LayerKind& kind) { return kind.tensors == tensors; });
      made_.layers.push_back(static_cast<std::size_t>(alike - made_.kinds.begin()));
      if (alike == made_.kinds.end())
        made_.kinds.push_back({fmt::format("kind {}", made_.kinds.size()), std::move(tensors)});
    }
  }

  void add(const Json& item, const ConfigFields::Places& places, std::size_t from, std::vector<Tensor>& to) {
    if (const auto items = item.find("items"); items != item.end()) {
      const std::int64_t count = fields_.whole(item.at("count"), places, kMostModules);
      ConfigFields::Places inner = places;
      inner.push_back(0);
      for (std::int64_t i = 0; i < count; ++i) {
        inner.back() = i;
        for (const Json& each : *items) add(each, inner, from, to);
      }
      return;
    }
    if (const auto when = item.find("when"); when != item.end() && !fields_.holds(*when, places)) return;
    if (++tensors_ > kMostRuleTensors)
      config_.fail("sizes that make more than 2^20 tensors", "accepted: fewer");
    to.push_back(tensor(item, places, from));
  }

  [[nodiscard]] Tensor tensor(const Json& item, const ConfigFields::Places& places, std::size_t from) const {
    Tensor made;
    made.name = numbered(item.at("name").get<std::string>(), places, from);
    double elements = 1;
    for (const Json& each : item.at("shape")) {
      made.shape.push_back(fields_.whole(each, places, kMostExtent));
      elements *= static_cast<double>(std::max<std::int64_t>(1, made.shape.back()));
    }
    if (elements > kMostParameters)
      config_.fail(fmt::format("sizes that make a tensor of {:.3g} elements", elements),
                   "accepted: at most 2^60 parameters");
    made.role = parse_name<TensorRole>(config_.place(), item.at("role").get<std::string>());
    made.module = module_named(made.name);
    if (item.contains("linear"))
      made.linear = Linear{.in_features = made.shape.at(1), .out_features = made.shape.at(0)};
    else if (made.role == TensorRole::expert && made.shape.size() == 3)
      made.linear =
          Linear{.in_features = made.shape[2], .out_features = made.shape[1], .copies = made.shape[0]};
    return made;
  }

  const JsonReader& config_;
  const Json& document_;
  ConfigFields fields_;
  Inventory made_;
  std::size_t tensors_{};
};

/// Returns the names of experts in peft's target_modules, which live as long as the program; empty: peft
/// cannot adapt them.
ExpertModules expert_modules_of(const Json& document) {
  static constexpr std::array<ExpertModules, 2> kKnown{
      {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}}};
  const std::string gate = document.value("experts", "");
  const auto* found = std::ranges::find(kKnown, gate, &ExpertModules::gate);
  return found == kKnown.end() ? ExpertModules{} : *found;
}

/// Returns the shape in the names that most architectures use; what they do not say is read off the tensors.
ModelShape shape_of_inventory(const Inventory& inventory, Json config) {
  Json& text =
      config.contains("text_config") && config["text_config"].is_object() ? config["text_config"] : config;
  text["num_hidden_layers"] = inventory.layers.size();
  for (const Tensor& each : inventory.before)
    if (each.role == TensorRole::token_embedding && each.shape.size() == 2)
      text["vocab_size"] = each.shape[0], text["hidden_size"] = each.shape[1];
  if (std::optional<ModelShape> shape = shape_by_names(config)) return *shape;
  throw InputError("config.json", "sizes that are not known by name", "accepted: hidden_size and vocab_size");
}

/// True of tensors of towers for images and sound, and of what joins them to the language model.
bool is_of_tower(const std::string& name) {
  for (const char* word : {"vision", "visual", "audio", "multi_modal", "projector", "connector"})
    if (name.find(word) != std::string::npos) return true;
  return false;
}

/// Text alone reaches no tower.
void idle_towers(const JsonReader& config, Inventory& inventory) {
  if (!config.has("vision_config") && !config.has("audio_config")) return;
  for (std::vector<Tensor>* part : {&inventory.before, &inventory.after})
    for (Tensor& each : *part) each.idle = is_of_tower(each.name);
}

/// True if the config says its model's width: defaults of transformers alone are nobody's model.
bool says_width(const JsonReader& config) {
  for (const char* key : {"hidden_size", "d_model", "n_embd", "text_config", "transformers_version"})
    if (config.has(key)) return true;
  return false;
}

}  // namespace

std::optional<Model> model_by_rules(const JsonReader& config) {
  const std::string architecture = config.text_or("model_type", "");
  if (!says_width(config)) return std::nullopt;
  for (const embedded::EmbeddedFile& file : embedded::inventories) {
    if (architecture_in(file) != architecture) continue;
    const Json document = parse_json(file.text, std::string(file.name));
    Maker maker(config, document);
    Inventory inventory = maker.inventory();
    idle_towers(config, inventory);
    const Json filled = maker.fields().filled_in();
    Model model = nearest_model(filled, inventory, shape_of_inventory(inventory, filled));
    auto analogue = std::make_shared<Model>(model);
    model.inventory = std::move(inventory);
    model.shape.architecture = architecture;
    model.shape.libraries = {.expert_modules = expert_modules_of(document),
                             .autotp_refuses = model.shape.libraries.autotp_refuses};
    model.recorded = recorded_steps(maker.fields(), model);
    model.shape.operators.measured = model.recorded != nullptr;
    model.analogue = std::move(analogue);
    return model;
  }
  return std::nullopt;
}

std::vector<std::string> architectures_by_rules() {
  std::vector<std::string> names;
  for (const embedded::EmbeddedFile& file : embedded::inventories) names.emplace_back(architecture_in(file));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace zplan
