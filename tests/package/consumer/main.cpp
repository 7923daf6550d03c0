// A program outside zplan that uses its library: consumer VERSION plans Llama 3 8B on eight H100 and says
// whether the figures are what they must be.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hardware_profiles/cluster.h"
#include "models/base/format.h"
#include "models/base/version.h"
#include "models/config.h"
#include "planner/plan/plan.h"

namespace {

// Meta-Llama-3-8B as its config.json describes it.
constexpr std::string_view kConfig = R"({
  "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
  "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false})";
constexpr std::int64_t kParameters = 8'030'261'248;  // total_size / 2 of the published safetensors index

int failures = 0;

void expect(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << '\n';
  ++failures;
}

void plan_llama() {
  const zplan::Json config = zplan::parse_json(kConfig, "config.json");
  const zplan::Model model = zplan::read_config(zplan::JsonReader(config, "config.json"));
  expect(zplan::parameters(model) == zplan::Elements(kParameters), "8,030,261,248 parameters");

  zplan::ClusterRequest request;
  request.gpu = "H100-SXM-80GB";
  request.gpus = 8;
  const zplan::Cluster cluster = zplan::assemble_cluster(request, zplan::built_in_profiles());
  zplan::Strategy strategy;
  strategy.zero_stage = 3;
  strategy.layout.shard = 8;
  const zplan::Plan plan = zplan::make_plan(model, cluster, zplan::Training{}, strategy);

  // ZeRO-3 shares all 16 bytes per parameter of mixed-precision Adam between the ranks (Rajbhandari et al.
  // 2020), so the peak lies between that and the whole model.
  const zplan::Bytes peak = plan.memory().required;
  expect(peak > zplan::Bytes(16 * kParameters / 8) && peak < zplan::Bytes(16 * kParameters),
         "a peak for ZeRO-3");
  std::cout << plan.id() << " needs " << zplan::format_bytes(peak) << " per GPU\n";
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 2 && argv[1] == zplan::version(), "the version of the installed library");
  try {
    plan_llama();
  } catch (const zplan::InputError& error) {
    expect(false, error.what());
  }
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
