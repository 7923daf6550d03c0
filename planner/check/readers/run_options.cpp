#include "planner/check/readers/run_options.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "models/base/format.h"
#include "models/config.h"
#include "models/lora.h"
#include "models/recorded/read.h"
#include "planner/check/readers/links.h"

namespace zplan::check {

namespace {
/// Whether a row says how many ranks divide a sample; Megatron's sequence parallelism is a switch.
bool divides_samples(const JsonReader& options) {
  const auto given = options.find("sequence_parallel");
  return given && given->raw().is_number_integer();
}
}  // namespace

Bytes bytes_at(const JsonReader& value) { return Bytes(value.integer(0, kMostBytes)); }

std::optional<Model> model_at(const JsonReader& config, Skip& skip) {
  if (config.has("format")) return read_recorded_model(config);
  const std::string architecture = config.at("model_type").text();
  if (config.has("vision_config"))
    if (auto model = recorded_model(config); model && model->recorded) return model;
  const std::vector<std::string> known = supported_architectures();
  if (std::find(known.begin(), known.end(), architecture) != known.end()) return read_config(config);
  if (auto model = recorded_model(config)) return model;
  if (config.has("vision_config") && image_text_model(config)) return read_config(config);
  skip.add("architecture " + architecture);
  return std::nullopt;
}

void read_adapters(const JsonReader& options, const Model& model, Training& training, Skip& skip) {
  training.lora_rank = options.at("lora_rank").integer(1, 65'536);
  const std::optional<JsonReader> given = options.find("lora_targets");
  if (!given && divides_samples(options)) return;  // rows with it adapt all linear layers
  const JsonReader targets = options.at("lora_targets");
  training.lora_targets.modules.clear();
  if (targets.raw().is_string()) {
    training.lora_targets.modules = {targets.text()};
  } else {
    for (const JsonReader& target : targets.items()) training.lora_targets.modules.push_back(target.text());
  }
  const std::vector<std::string> known = adaptable_modules(model);
  const auto is_known = [&](const char* module) {
    return std::find(known.begin(), known.end(), module) != known.end();
  };
  // Libraries with modules of their own call the projection behind attention what Llama calls it.
  if (!is_known("o_proj") && is_known("dense"))
    std::replace(training.lora_targets.modules.begin(), training.lora_targets.modules.end(),
                 std::string("o_proj"), std::string("dense"));
  for (const std::string& target : training.lora_targets.modules)
    if (target != "all-linear" && target != "q_v" &&
        std::find(known.begin(), known.end(), target) == known.end()) {
      skip.add("adapters on modules that zplan does not adapt");
      skip.detail += (skip.detail.empty() ? "" : ", ") + target;
    }
}

std::optional<std::string> profile_named(const std::string& name, std::optional<Bytes> memory, Skip& skip) {
  const auto unknown = [&](const std::string& detail) {
    skip.add("a GPU that is not in the catalogue");
    skip.detail += (skip.detail.empty() ? "" : ", ") + detail;
    return std::nullopt;
  };
  const Gpu* gpu = nullptr;
  try {
    gpu = &find_gpu(built_in_profiles(), name);
  } catch (const InputError&) {
    return unknown(name);
  }
  constexpr double kSameMemory = 0.05;
  const auto has = static_cast<double>(gpu->memory.value);
  if (memory && std::abs(static_cast<double>(memory->value) - has) > kSameMemory * has)
    return unknown(name + " with " + format_bytes(*memory));
  return gpu->name;
}

std::int64_t usual_nodes(std::int64_t gpus) {
  constexpr std::int64_t kPerNode = 8;
  return gpus <= kPerNode ? 1 : gpus % kPerNode == 0 ? gpus / kPerNode : gpus;
}

Cluster usual_cluster(const std::string& profile, std::int64_t gpus, std::optional<Bytes> memory) {
  return assemble_cluster({.gpu = profile,
                           .memory = memory,
                           .gpus = gpus,
                           .nodes = usual_nodes(gpus),
                           .host_memory = std::nullopt},
                          built_in_profiles());
}

void read_ranks_per_node(const JsonReader& row, Cluster& cluster) {
  const auto given = row.find("ranks_per_node");
  if (!given) return;
  const std::int64_t ranks = given->integer(1, kMostRanks);
  if (cluster.gpus % ranks != 0) given->fail(std::to_string(ranks), "accepted: a divisor of the ranks");
  cluster.gpus_per_node = ranks;
  cluster.nodes = cluster.gpus / ranks;
}

namespace {

/// What the source of a row says of its machines.
void read_machine(const JsonReader& row, ClusterRequest& request) {
  constexpr double kMostBandwidth = 1e6;
  if (const auto path = row.find("topology")) request.path = named<PciePath>(*path);
  if (const auto threads = row.find("host_threads")) request.host_threads = threads->integer(1, 100'000);
  if (const auto rate = row.find("host_gb_per_s"))
    request.host_bandwidth = BytesPerSecond(rate->number(1, kMostBandwidth) * 1e9);
}

}  // namespace

Cluster linked_cluster(const std::string& profile, const JsonReader& row, std::int64_t gpus) {
  const NamedLinks links = links_named(row.text_or("interconnect", ""));
  const JsonReader nodes = row.at("nodes");
  const std::int64_t count = links.one_domain ? 1 : nodes.integer(1, kMostRanks);
  if (gpus % count != 0) nodes.fail(std::to_string(count), "accepted: a divisor of gpus");
  ClusterRequest request{.gpu = profile,
                         .memory = std::nullopt,
                         .gpus = gpus,
                         .nodes = count,
                         .node = links.node,
                         .network = count > 1 ? links.network : "",
                         .host_memory = std::nullopt};
  read_machine(row, request);
  return assemble_cluster(request, built_in_profiles());
}

Strategy read_arrangement(const JsonReader& options, std::int64_t gpus) {
  Strategy s;
  const bool divides_tokens = divides_samples(options);
  const char* degree = divides_tokens ? "sequence_parallel" : "tensor_parallel";
  const std::int64_t ranks = options.at(degree).integer(1, kMostRanks);
  if (gpus % ranks != 0) options.at(degree).fail(std::to_string(ranks), "accepted: a divisor of gpus");
  const bool in_ring = options.text_or("framework", "") == "fsdp_cp";
  (!divides_tokens ? s.layout.tensor : in_ring ? s.layout.context : s.layout.sequence) = ranks;
  s.layout = s.layout.filling(gpus);
  s.micro_batch_size = options.at("micro_batch").integer(1, kMostBatch);
  s.gradient_accumulation_steps = options.at("grad_accum").integer(1, kMostBatch);
  const JsonReader checkpointing = options.at("checkpointing");
  s.checkpointing =
      checkpointing.text() == "reentrant" ? Checkpointing::full : named<Checkpointing>(checkpointing);
  return s;
}

void read_offload(const std::string& text, Strategy& strategy) {
  const bool all = text == "all";
  if (all || text.find("optimizer") != std::string::npos) strategy.offload_optimizer = OffloadDevice::cpu;
  if (all || text.find("param") != std::string::npos) strategy.offload_parameters = OffloadDevice::cpu;
}

}  // namespace zplan::check
