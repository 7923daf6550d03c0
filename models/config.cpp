#include "models/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"

namespace zplan {

namespace {

using architectures::Descriptor;
using architectures::descriptors;

/// "config.json#/model_type", whether or not the config has one.
std::string model_type_place(const JsonReader& config) {
  const std::string place = config.place();
  return place + (place.find('#') == std::string::npos ? "#/" : "/") + "model_type";
}

const Descriptor& descriptor_of_type(const JsonReader& config) {
  const std::string given = config.at("model_type").text();
  for (const Descriptor& each : descriptors())
    if (each.model_type == given) return each;
  throw InputError(model_type_place(config), in_quotes(given) + " is not supported",
                   accepted_words(given, supported_architectures()));
}

/// Files without model_type (saved by other tools) may still list their class.
const Descriptor& descriptor_of_class(const JsonReader& config) {
  if (const auto classes = config.find("architectures"))
    for (const JsonReader& item : classes->items()) {
      const std::string given = item.text();
      for (const Descriptor& each : descriptors())
        if (each.causal_lm_class == given) return each;
    }
  throw InputError(model_type_place(config), "is missing", accepted_words("", supported_architectures()));
}

void check_total(const JsonReader& config, const Inventory& inventory) {
  const double total = approximate_elements(inventory);
  if (total > kMostParameters)
    config.fail(fmt::format("sizes that make {:.3g} parameters", total), "accepted: at most 2^60 parameters");
}

}  // namespace

Model read_config(const JsonReader& config) {
  if (!config.raw().is_object()) config.fail_type("a JSON object");
  const Descriptor& about =
      config.has("model_type") ? descriptor_of_type(config) : descriptor_of_class(config);
  Model model = about.read(config, about);
  architectures::leave_whole(model.inventory, about.left_whole);
  check_total(config, model.inventory);
  return model;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Descriptor& each : descriptors()) names.emplace_back(each.model_type);
  return names;
}

}  // namespace zplan
