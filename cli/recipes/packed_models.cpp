// Weights that are packed before they are loaded, or by a library other than bitsandbytes as they are: what
// recipes say of them, and what of that is not planned.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPlanned =
    "accepted: models in 16 bits, or packed by GPTQ (4 or 8 bits), AWQ (4 bits) or bitsandbytes (nf4, int8)";

/// How the Hub's repositories are named whose config.json has a quantization_config, and the value of
/// --quantization; empty: not planned. The longest ending counts.
struct PackedEnding {
  std::string_view ending, quantization;
};
constexpr std::array kEndings{PackedEnding{"-gptq-int4", "gptq-int4"},
                              PackedEnding{"-gptq-int8", "gptq-int8"},
                              PackedEnding{"-int4", "gptq-int4"},  // Qwen's first generation
                              PackedEnding{"-int8", "gptq-int8"},
                              PackedEnding{"-gptq", "gptq-int4"},  // main branches have 4 bits
                              PackedEnding{"-awq", "awq"},
                              PackedEnding{"-bnb-4bit", "nf4-double"},
                              PackedEnding{"-unsloth-bnb-4bit", ""},  // some layers are left in 16 bits
                              PackedEnding{"-fp8", ""},
                              PackedEnding{"-fp8-dynamic", ""},
                              PackedEnding{"-nvfp4", ""},
                              PackedEnding{"-gguf", ""},
                              PackedEnding{"-aqlm", ""},
                              PackedEnding{"-hqq", ""},
                              PackedEnding{"-eetq", ""}};

const PackedEnding* ending_of(const std::string& model) {
  const std::string name = lower_case(model);
  const PackedEnding* longest = nullptr;
  for (const PackedEnding& each : kEndings)
    if (name.ends_with(each.ending) && (longest == nullptr || each.ending.size() > longest->ending.size()))
      longest = &each;
  return longest;
}

/// quantization_config of a model's folder, or null.
json packing_in(const fs::path& folder) {
  std::ifstream file(folder / "config.json");
  if (!file) return nullptr;
  const json config = json::parse(file, nullptr, false);
  return config.is_object() ? config.value("quantization_config", json()) : json();
}

/// --quantization of a quantization_config; empty: not planned. Source: transformers 5.23
/// utils/quantization_config.py.
std::string quantization_of(const json& packing) {
  const auto number = [&](const char* key, int otherwise) {
    const auto found = packing.find(key);
    return found != packing.end() && found->is_number_integer() ? found->get<int>() : otherwise;
  };
  const auto is_on = [&](const char* key) { return packing.value(key, json()) == json(true); };
  const json method = packing.value("quant_method", json());
  if (method == "gptq" && number("bits", 4) == 4) return "gptq-int4";
  if (method == "gptq" && number("bits", 4) == 8) return "gptq-int8";
  if (method == "awq" && number("bits", 4) == 4) return "awq";
  if (method != "bitsandbytes") return {};
  if (is_on("load_in_8bit")) return "int8";
  const bool is_nf4 = is_on("load_in_4bit") && packing.value("bnb_4bit_quant_type", json()) == "nf4";
  if (!is_nf4) return {};
  return is_on("bnb_4bit_use_double_quant") ? "nf4-double" : "nf4";
}

/// Where packed weights are not touched: LoRA by the key of each trainer.
bool trains_adapters(const RecipePlace& place) {
  for (const std::string_view key : {"finetuning_type", "tuner_type", "train_type"}) {
    const std::string said = place.other(key);
    if (!said.empty()) return said == "lora";
  }
  return !place.other("adapter").empty() || place.is_on("use_peft") ||
         place.text.root.find("base_model") == nullptr;
}

}  // namespace

std::string unpacked_name(const std::string& model) {
  const PackedEnding* ending = ending_of(model);
  if (ending == nullptr || ending->quantization.empty()) return model;
  return model.substr(0, model.size() - ending->ending.size());
}

RecipeOptions as_packed_model(const RecipePlace& place) {
  const std::string name = place.scalar();
  std::string quantization;
  if (const json packing = packing_in(fs::path(place.folder) / name); packing.is_object()) {
    quantization = quantization_of(packing);
    if (quantization.empty())
      place.fail(fmt::format("{}: quantization_config {}", in_quotes(name), packing.dump()),
                 std::string(kPlanned));
  } else if (const PackedEnding* ending = ending_of(name)) {
    quantization = ending->quantization;
    if (quantization.empty()) place.fail(in_quotes(name), std::string(kPlanned));
  } else {
    return {};
  }
  if (!trains_adapters(place))
    place.fail(fmt::format("{}: its weights are packed", in_quotes(name)), "accepted: with LoRA adapters");
  return {{"--method", "qlora"}, {"--quantization", quantization}};
}

RecipeOptions hqq_bits(const RecipePlace& place) {
  if (place.scalar() != "4") place.fail(fmt::format("{} with HQQ", in_quotes(place.scalar())), "accepted: 4");
  return {{"--method", "qlora"}, {"--quantization", "hqq"}};
}

}  // namespace zplan
