#include "tests/models/support.h"

#include <cctype>
#include <stdexcept>

#include "models/config.h"

namespace zplan::test {

Json test_data(const std::string& path) {
  const std::string file = std::string(ZPLAN_TEST_DATA) + "/" + path;
  return parse_json(read_file(file), file);
}

Model model_of(const Json& config) { return read_config(JsonReader(config, "config.json")); }

Model model_of(const char* config) { return model_of(parse_json(config, "config.json")); }

std::string message_of(const std::string& config) {
  try {
    const Json json = parse_json(config, "config.json");
    static_cast<void>(read_config(JsonReader(json, "config.json")));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::string test_name(const std::string& text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

const Tensor& tensor_named(const Inventory& inventory, const std::string& name) {
  for (const Tensor& tensor : inventory.before)
    if (tensor.name == name) return tensor;
  for (const LayerKind& kind : inventory.kinds)
    for (const Tensor& tensor : kind.tensors)
      if (tensor.name == name) return tensor;
  for (const Tensor& tensor : inventory.after)
    if (tensor.name == name) return tensor;
  throw std::out_of_range("no tensor " + name);
}

const std::vector<Counted>& counted_models() {
  static const std::vector<Counted> models = [] {
    std::vector<Counted> all;
    const Json file = test_data("reference/parameter_counts/parameter_counts.json");
    for (const auto& [name, row] : file["models"].items()) all.push_back({name, row});
    return all;
  }();
  return models;
}

Model model_of(const Counted& counted) {
  Json config = counted.row["config"];
  config["model_type"] = counted.row["model_type"];
  return model_of(config);
}

}  // namespace zplan::test
