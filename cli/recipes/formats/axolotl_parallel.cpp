// axolotl's FSDP, DeepSpeed and degrees of parallelism. Source: axolotl 0.19 utils/schemas/fsdp.py,
// utils/schemas/validation.py, utils/distributed.py, monkeypatch/accelerate/fsdp2.py.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/base/values.h"
#include "cli/recipes/formats/axolotl.h"
#include "models/base/error.h"

namespace zplan::axolotl {

namespace {

// ---- FSDP. Keys of fsdp_config stand with or without the prefix.
// Source: utils/schemas/validation.py check_fsdp_config_kwargs_prefix, check_fsdp_version_in_fsdp_config.

bool is_filled(const RecipeValue* value) {
  return value != nullptr && (!value->items.empty() || !value->entries.empty());
}

std::string fsdp_key(const RecipePlace& place, std::string_view key) {
  const std::string plain = place.other(fmt::format("fsdp_config.{}", key));
  return plain.empty() ? place.other(fmt::format("fsdp_config.fsdp_{}", key)) : plain;
}

}  // namespace

std::int64_t number_of(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const std::string text = place.other(key);
  return text.empty() ? otherwise : parse_integer(key, text, 0, kMost);
}

bool shards(const RecipePlace& place) {
  return is_filled(place.text.root.find("fsdp")) || is_filled(place.text.root.find("fsdp_config"));
}

bool is_fsdp2(const RecipePlace& place) {
  const std::string above = place.other("fsdp_version");
  return (above.empty() ? fsdp_key(place, "version") : above) == "2";
}

namespace {

/// axolotl's fsdp2_prepare_model casts nothing to fp32, where accelerate's FSDP1 does.
/// Source: monkeypatch/accelerate/fsdp2.py.
RecipeOptions sharded(const RecipePlace& place) {
  if (!is_filled(&place.value)) return {};
  RecipeOptions options{{"--framework", "fsdp"}};
  if (fsdp_key(place, "reshard_after_forward").empty()) options.emplace_back("--zero", "3");
  if (!is_fsdp2(place)) {
    if (place.row.key == "fsdp_config" || !is_filled(place.text.root.find("fsdp_config")))
      place.not_planned("FSDP1 is planned as FSDP2 with fp32 master weights");
    return options;
  }
  if (place.other("adapter").empty()) options.emplace_back("--no-master-weights", kFlagGiven);
  return options;
}

/// Words of `fsdp`: full_shard, auto_wrap, …
RecipeOptions fsdp_words(const RecipePlace& place) {
  RecipeOptions options = sharded(place);
  const auto has = [&](std::string_view word) {
    return std::ranges::any_of(place.value.items, [&](const RecipeValue& each) { return each.text == word; });
  };
  for (const std::string_view word : {"hybrid_shard", "hybrid_shard_zero2", "no_shard"})
    if (has(word)) place.not_planned(fmt::format("{} is planned as full_shard", word));
  for (auto& [option, value] : options)
    if (option == "--zero" && has("shard_grad_op")) value = "2";
  if (has("offload")) options.emplace_back("--offload", "all");
  return options;
}

std::vector<RecipeRow> fsdp_rows() {
  std::vector<RecipeRow> rows{{"fsdp", "", fsdp_words},
                              {"fsdp_config", "", sharded},
                              {"fsdp_version", "", as_word, {{"1", ""}, {"2", ""}}},
                              {"fsdp_config.fsdp_version", "", as_word, {{"1", ""}, {"2", ""}}},
                              {"fsdp_config.version", "", as_word, {{"1", ""}, {"2", ""}}}};
  for (RecipeRow& row : fsdp_section_rows())
    if (!row.key.ends_with("version")) rows.push_back(std::move(row));
  return rows;
}

// ---- Degrees of parallelism. Source: utils/distributed.py _get_parallel_config_kwargs.

/// Ring attention is planned beside FSDP2. A degree without it divides the tokens alone.
RecipeOptions ring(const RecipePlace& place) {
  const bool is_older = place.row.key == "sequence_parallel_degree";
  const std::string degree = place.scalar();
  if (degree.empty() || degree == "1" || (is_older && number_of(place, "context_parallel_size", 0) > 0))
    return {};
  if (shards(place) && is_fsdp2(place)) return {{"--cp", degree}};
  place.not_planned("ring attention without FSDP2: each GPU is planned with whole samples, which take more");
  return {};
}

/// True if tensor parallelism beside FSDP2 is planned with the recipe's other settings.
bool plans_divided_layers(const RecipePlace& place) {
  const bool in_ring =
      number_of(place, "context_parallel_size", 1) > 1 || number_of(place, "sequence_parallel_degree", 1) > 1;
  const RecipeValue* plugins = place.text.root.find("plugins");
  const bool has_kernels =
      plugins != nullptr && std::ranges::any_of(plugins->items, [](const RecipeValue& each) {
        return each.text.ends_with("CutCrossEntropyPlugin") || each.text.ends_with("LigerPlugin");
      });
  return shards(place) && !in_ring && !has_kernels && place.other("adapter").empty() &&
         place.other("rl").empty();
}

RecipeOptions tensor_parallel(const RecipePlace& place) {
  const std::string degree = place.scalar();
  if (degree.empty() || degree == "1") return {};
  if (!place.other("deepspeed").empty()) return {{"--tp", degree}};
  if (plans_divided_layers(place)) {
    place.not_planned(
        "axolotl 0.19 stops at tensor parallelism beside FSDP2 (accelerate 1.13 imports ReplicateParallel, "
        "which transformers 5.16 has no more): planned as transformers' own, DistributedConfig(tp_size, "
        "fsdp_size)");
    return {{"--tp", degree}};
  }
  place.not_planned(
      "tensor parallelism without FSDP2, or with a ring, adapters or kernels of plugins: each GPU is planned "
      "with whole layers, which take more");
  return {};
}

/// Ranks that dp_shard_size leaves over are replicas.
RecipeOptions replicas(const RecipePlace& place) {
  const std::string degree = place.scalar();
  if (degree.empty() || degree == "1" || !shards(place)) return {};
  return {{"--dp-replicate", degree}};
}

RecipeOptions shard_size(const RecipePlace& place) {
  const std::int64_t size = number_of(place, "dp_shard_size", 0);
  const std::int64_t others = std::max<std::int64_t>(1, number_of(place, "tensor_parallel_size", 1)) *
                              std::max<std::int64_t>(1, number_of(place, "context_parallel_size", 1));
  if (size < 2 || number_of(place, "dp_replicate_size", 1) > 1 || !shards(place) || !place.asked.gpus)
    return {};
  const std::int64_t replicas = *place.asked.gpus / others / size;
  return replicas > 1 ? RecipeOptions{{"--dp-replicate", std::to_string(replicas)}} : RecipeOptions{};
}

RecipeOptions tiled_mlp(const RecipePlace& place) {
  if (!place.boolean().value_or(false)) return {};
  if (!place.other("deepspeed").empty()) {
    const std::string tiles = place.other("tiled_mlp_num_shards");
    return {{"--tiled-mlp", tiles.empty() ? "auto" : tiles}};
  }
  place.not_planned(
      "tiles of feed-forward layers are planned under DeepSpeed alone: without them they take more");
  return {};
}

// ---- DeepSpeed.

/// The package's own files, where the recipe's folder has none of the name.
/// Source: axolotl 0.19 deepspeed_configs/ of its repository.
RecipeOptions deepspeed(const RecipePlace& place) {
  RecipeOptions options = as_ds_config(place);
  if (options.size() != 1) return options;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kOwn{
      {{"zero1.json", "1 none"},
       {"zero1_torch_compile.json", "1 none"},
       {"zero2.json", "2 none"},
       {"zero2_torch_compile.json", "2 none"},
       {"zero3.json", "3 none"},
       {"zero3_bf16.json", "3 none"},
       {"zero3_bf16_cpuoffload_all.json", "3 all"},
       {"zero3_bf16_cpuoffload_params.json", "3 param"}}};
  const std::string path = place.scalar(), name = path.substr(path.rfind('/') + 1);
  for (const auto& [own, means] : kOwn) {
    if (name != own || path.find("deepspeed_configs/") == std::string::npos) continue;
    place.recipe.not_planned.back().why =
        fmt::format("{} is not there: read as axolotl's own", in_quotes(path));
    options.emplace_back("--zero", means.substr(0, 1));
    options.emplace_back("--offload", means.substr(2));
  }
  return options;
}

}  // namespace

std::vector<RecipeRow> parallel_rows() {
  std::vector<RecipeRow> rows{
      {"deepspeed", "--ds-config", deepspeed},
      {"dp_replicate_size", "--dp-replicate", replicas},
      {"dp_shard_size", "--dp-replicate", shard_size},
      {"sequence_parallel_degree", "--cp", ring},
      {"context_parallel_size", "--cp", ring},
      {"tensor_parallel_size", "--tp", tensor_parallel},
      {"tiled_mlp", "", tiled_mlp},
  };
  for (RecipeRow& row : fsdp_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace zplan::axolotl
