#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware_profiles/profiles.h"
#include "models/catalogue/catalogue.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Models, ListNamesEveryOne) {
  const std::string text = in_process("models").out;
  EXPECT_EQ(text, in_process("models list").out);
  for (const CatalogueEntry& entry : catalogue()) EXPECT_THAT(text, HasSubstr(entry.name));
}

TEST(Models, SearchTakesSeveralWords) {
  const std::string text = in_process("models search qwen3 8b").out;
  EXPECT_THAT(text, HasSubstr("Qwen/Qwen3-8B"));
  EXPECT_THAT(text, Not(HasSubstr("Qwen/Qwen3-32B")));
}

TEST(Models, ShowAddsUp) {
  const json model = json::parse(in_process("models show gpt2 --json").out);
  EXPECT_EQ(model.at("parameters"), 124'439'808);  // named_parameters() of transformers' GPT2LMHeadModel
  std::int64_t sum = 0;
  for (const json& tensor : model.at("tensors")) {
    std::int64_t elements = 1;
    for (const json& size : tensor.at("shape")) elements *= size.get<std::int64_t>();
    const std::string where = tensor.at("where");
    sum += elements * (where.find(" x ") == std::string::npos ? 1 : std::stoll(where));
  }
  EXPECT_EQ(sum, 124'439'808);
}

TEST(Models, ListAsJson) {
  const json list = json::parse(in_process("models --json").out);
  EXPECT_EQ(list.at("models").size(), catalogue().size());
}

TEST(Hardware, ListNamesEveryOne) {
  const std::string text = in_process("hardware").out;
  for (const Gpu& gpu : built_in_profiles().gpus) EXPECT_THAT(text, HasSubstr(gpu.name));
  for (const Node& node : built_in_profiles().nodes) EXPECT_THAT(text, HasSubstr(node.name));
  for (const Network& network : built_in_profiles().networks) EXPECT_THAT(text, HasSubstr(network.name));
}

/// Every figure of every profile is shown with the source that its file gives.
TEST(Hardware, ShowHasEveryFiguresSource) {
  const json list = json::parse(in_process("hardware --json").out);
  int figures = 0;
  const auto check = [&](const json& profile, const Sources& sources) {
    for (const auto& [key, source] : sources) {
      ASSERT_TRUE(profile.at("figures").contains(key)) << profile.at("name") << " lacks " << key;
      EXPECT_EQ(profile.at("figures").at(key).at("source"), source);
      ++figures;
    }
  };
  const HardwareProfiles& built_in = built_in_profiles();
  for (std::size_t i = 0; i < built_in.gpus.size(); ++i)
    check(list.at("gpus").at(i), built_in.gpus[i].sources);
  for (std::size_t i = 0; i < built_in.nodes.size(); ++i)
    check(list.at("nodes").at(i), built_in.nodes[i].sources);
  for (std::size_t i = 0; i < built_in.networks.size(); ++i)
    check(list.at("networks").at(i), built_in.networks[i].sources);
  EXPECT_GT(figures, 300);
}

TEST(Hardware, ShowTakesAliasesAndNodesAndNetworks) {
  EXPECT_THAT(in_process("hardware show h100").out, HasSubstr("H100-SXM-80GB (GPU)"));
  EXPECT_THAT(in_process("hardware show nvswitch").out, HasSubstr("nvswitch (node)"));
  EXPECT_THAT(in_process("hardware show 8x400g").out, HasSubstr("8x400g (network)"));
}

TEST(Hardware, SearchFindsByPartOfAName) {
  const std::string text = in_process("hardware search h100").out;
  EXPECT_THAT(text, HasSubstr("H100-PCIE-80GB"));
  EXPECT_THAT(text, Not(HasSubstr("V100")));
}

TEST(Version, CountsWhatIsKnown) {
  const std::string counts = " (" + std::to_string(catalogue().size()) + " models, " +
                             std::to_string(built_in_profiles().gpus.size()) + " GPUs)\n";
  const Result result = as_process({"--version"});
  EXPECT_THAT(result.out, testing::StartsWith("zplan "));
  EXPECT_THAT(result.out, testing::EndsWith(counts));
  EXPECT_EQ(as_process({"-V"}).out, result.out);
}

}  // namespace
}  // namespace zplan::test
