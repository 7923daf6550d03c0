// An architecture is its descriptor: a row is enough to plan a new one, and nothing else knows its name.
#include "models/architectures/descriptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "models/config.h"
#include "tests/models/support.h"

namespace zplan::test {
namespace {

namespace fs = std::filesystem;
using architectures::Descriptor;

/// Lines of a file that hold one of `words` outside of a comment, and not as a config's "model_type".
std::vector<std::string> lines_with(const fs::path& file, const std::vector<std::string>& words) {
  std::vector<std::string> found;
  std::istringstream lines(read_file(file.string()));
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find("//"));
    if (line.find("\"model_type\"") != std::string::npos) continue;
    if (line.find("text_or(\"opt\"") != std::string::npos) continue;  // a recorded step's optimizer
    for (const std::string& word : words)
      if (line.find(word) != std::string::npos) found.push_back(file.string() + ": " + line);
  }
  return found;
}

/// Names of models are matched where people write them, and a trainer's config may have builders by name.
bool reads_names(const fs::path& folder) {
  return folder.filename() == "architectures" || folder.filename() == "catalogue" ||
         folder.filename() == "formats";
}

TEST(Descriptors, NoOtherCodeAsksForAName) {
  std::vector<std::string> quoted, found;
  for (const std::string& name : supported_architectures()) quoted.push_back('"' + name + '"');
  const fs::path root = fs::path(ZPLAN_TEST_DATA).parent_path();
  int files = 0;
  for (const char* folder : {"models", "planner", "cli", "gui"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& file = entry.path();
      const bool is_code = file.extension() == ".cpp" || file.extension() == ".h";
      if (!is_code || reads_names(file.parent_path())) continue;
      ++files;
      for (std::string& line : lines_with(file, quoted)) found.push_back(std::move(line));
    }
  EXPECT_GT(files, 100);
  EXPECT_THAT(found, testing::IsEmpty());
}

/// Like Llama, but for what the row says.
const Descriptor& row() {
  using architectures::WindowRule;
  static const Descriptor fictional{
      .model_type = "fictional",
      .causal_lm_class = "FictionalForCausalLM",
      .sizes = {.hidden_size = {"width"}, .default_key_value_heads = 2},
      .feed_forward = architectures::FeedForward::plain,
      .dropout = {"dropout", 0.25},
      .window = WindowRule{.size = 128, .layers = WindowRule::Layers::all_but_each_nth, .n = 3},
      .block = {.output_bias = {.otherwise = true}, .query_key_norm = architectures::QueryKeyNorm::of_heads},
      .modules = {.norm_before_attention = "norm",
                  .norm_before_feed_forward = {},
                  .query_norm = "query_norm",
                  .attention_output = "out"},
      .operators = {.activation = Activation::relu, .full_attention_every = 3},
      .libraries = {.autotp_refuses = true}};
  return fictional;
}

Model fictional() {
  const Json config = parse_json(
      R"({"width": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4,
          "vocab_size": 160})",
      "test");
  return row().read(JsonReader(config, "test"), row());
}

TEST(Descriptors, ARowIsEnoughForTheShape) {
  const ModelShape shape = fictional().shape;
  EXPECT_EQ(shape.architecture, "fictional");
  EXPECT_EQ(shape.hidden_size, 64);
  EXPECT_EQ(shape.key_value_heads, 2);
  EXPECT_FALSE(shape.gated_mlp);
  EXPECT_EQ(shape.dropout, 0.25);
  EXPECT_EQ(shape.sliding_window, 128);
  EXPECT_EQ(shape.sliding_layers, 4);
  EXPECT_EQ(shape.operators, row().operators);
  EXPECT_EQ(shape.modules, row().modules);
  EXPECT_EQ(shape.libraries, row().libraries);
  EXPECT_FALSE(shape.operators.measured);
}

TEST(Descriptors, ARowIsEnoughForTheTensors) {
  const Model model = fictional();
  std::vector<std::string> names;
  for (const Tensor& tensor : model.inventory.kinds.front().tensors)
    names.push_back(tensor.name.substr(std::string("model.layers.{}.").size()));
  EXPECT_THAT(names,
              testing::ElementsAre("self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                   "self_attn.v_proj.weight", "self_attn.out.weight", "self_attn.out.bias",
                                   "self_attn.query_norm.weight", "self_attn.k_norm.weight",
                                   "mlp.up_proj.weight", "mlp.down_proj.weight", "norm.weight"));
}

}  // namespace
}  // namespace zplan::test
