// Small models of every architecture against named_parameters() of the real ones: names, order and shapes,
// and the same for the adapters that peft adds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <set>

#include "models/config.h"
#include "models/lora.h"
#include "tests/models/support.h"

namespace zplan::test {

/// One small model of tests/reference/named_parameters.
struct Listed {
  std::string name;
  Json record;
};

void PrintTo(const Listed& listed, std::ostream* out) { *out << listed.name; }

namespace {

/// "name [shape]" of every tensor, with the layer's number in its place.
std::vector<std::string> listing(const Inventory& inventory) {
  std::vector<std::string> lines;
  for_each_tensor(inventory, [&](const Tensor& tensor, int layer) {
    std::string name = tensor.name;
    if (const std::size_t hole = name.find("{}"); hole != std::string::npos)
      name.replace(hole, 2, std::to_string(layer));
    lines.push_back(name + " " + Json(tensor.shape).dump());
  });
  return lines;
}

std::vector<std::string> listing(const Json& rows) {
  std::vector<std::string> lines;
  for (const Json& row : rows) lines.push_back(row[0].get<std::string>() + " " + row[1].dump());
  return lines;
}

const std::vector<Listed>& listed_models() {
  static const std::vector<Listed> models = [] {
    std::vector<Listed> all;
    const std::string folder = std::string(ZPLAN_TEST_DATA) + "/reference/named_parameters";
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".json") files.insert(entry.path().filename().string());
    for (const std::string& file : files) {
      const Json family = test_data("reference/named_parameters/" + file);
      for (const Json& record : family["models"])
        all.push_back(
            {test_name(family["family"].get<std::string>()) + "_" + std::to_string(all.size()), record});
    }
    return all;
  }();
  return models;
}

class NamedParameters : public testing::TestWithParam<Listed> {
 protected:
  const Json& record = GetParam().record;
  const Model model = model_of(record["config"]);
};

TEST_P(NamedParameters, Equal) {
  EXPECT_THAT(listing(model.inventory), testing::ElementsAreArray(listing(record["parameters"])));
}

TEST_P(NamedParameters, AllLinearAdapters) {
  EXPECT_THAT(listing(lora_adapters(model, 4, {{"all-linear"}})),
              testing::ElementsAreArray(listing(record["lora_r4"]["all-linear"])));
}

TEST_P(NamedParameters, QueryValueAdapters) {
  EXPECT_THAT(listing(lora_adapters(model, 4, {{"q_v"}})),
              testing::ElementsAreArray(listing(record["lora_r4"]["q_v"])));
}

INSTANTIATE_TEST_SUITE_P(Models, NamedParameters, testing::ValuesIn(listed_models()),
                         [](const auto& each) { return each.param.name; });

TEST(NamedParametersFiles, CoverEveryArchitectureOfTransformers) {
  std::set<std::string> missing;
  for (const std::string& name : supported_architectures()) missing.insert(name);
  for (const Listed& listed : listed_models())
    missing.erase(listed.record["config"]["model_type"].get<std::string>());
  // gemma3 is gemma3_text one level down; the others are not in transformers.
  EXPECT_THAT(missing, testing::UnorderedElementsAre("baichuan", "chatglm", "gemma3", "internlm2", "qwen"));
}

}  // namespace

}  // namespace zplan::test
