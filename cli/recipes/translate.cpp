#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/base/values.h"
#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/base/json_reader.h"
#include "models/catalogue/names.h"

namespace zplan {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::optional<bool> boolean_of(const RecipeValue& value) {
  if (value.kind != RecipeKind::scalar) return std::nullopt;
  const std::string word = lower_case(value.text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

std::string row_words(const RecipeRow& row) {
  std::vector<std::string_view> all;
  for (const auto& [word, options] : row.words) all.push_back(word);
  return fmt::format("accepted: {}", fmt::join(all, ", "));
}

std::vector<std::string> words_of(const RecipePlace& place) {
  std::vector<std::string> words;
  if (place.value.kind == RecipeKind::list) {
    for (const RecipeValue& each : place.value.items) {
      if (each.kind != RecipeKind::scalar) place.fail("a list in a list", "accepted: names");
      words.push_back(each.text);
    }
    return words;
  }
  std::istringstream parts(place.scalar());
  for (std::string part; std::getline(parts, part, ',');) {
    part.erase(0, part.find_first_not_of(" \t"));
    part.erase(part.find_last_not_of(" \t") + 1);
    if (!part.empty()) words.push_back(part);
  }
  return words;
}

ordered_json json_of(const RecipeValue& value) {
  switch (value.kind) {
    case RecipeKind::nothing: return nullptr;
    case RecipeKind::list: {
      ordered_json list = ordered_json::array();
      for (const RecipeValue& each : value.items) list.push_back(json_of(each));
      return list;
    }
    case RecipeKind::map: {
      ordered_json map = ordered_json::object();
      for (const RecipeEntry& each : value.entries) map[each.key] = json_of(each.value);
      return map;
    }
    case RecipeKind::scalar: break;
  }
  if (value.quoted) return value.text;
  if (const auto flag = boolean_of(value)) return *flag;
  ordered_json number = ordered_json::parse(value.text, nullptr, false);
  return number.is_number() ? number : ordered_json(value.text);
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

/// The words of "(q|k|v)" that ends in front of `at`; none where anything else is in the brackets.
std::vector<std::string> alternatives_before(const std::string& text, std::size_t at) {
  const std::size_t open = at == 0 || text[at - 1] != ')' ? std::string::npos : text.rfind('(', at - 1);
  if (open == std::string::npos) return {};
  std::string inside = text.substr(open + 1, at - open - 2);
  if (inside.starts_with("?:")) inside.erase(0, 2);
  std::vector<std::string> words;
  std::istringstream parts(inside);
  for (std::string part; std::getline(parts, part, '|');) {
    if (part.empty() || !std::ranges::all_of(part, is_word)) return {};
    words.push_back(part);
  }
  return words;
}

/// "q_proj,k_proj" of a regular expression whose modules end in "_proj": "(q|k)_proj", "q_proj"; empty for
/// any other text.
std::string modules_of_pattern(const std::string& text) {
  constexpr std::string_view kEnd = "_proj";
  constexpr std::size_t kLongest = 4096;
  if (text.size() > kLongest || text.find_first_of("()|*^$\\[") == std::string::npos) return {};
  std::vector<std::string> modules;
  const auto add = [&](std::string module) {
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(std::move(module));
  };
  for (std::size_t at = text.find(kEnd); at != std::string::npos; at = text.find(kEnd, at + 1)) {
    for (const std::string& word : alternatives_before(text, at)) add(word + std::string(kEnd));
    std::size_t begin = at, end = at;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    while (end < text.size() && is_word(text[end])) ++end;
    if (begin < at) add(text.substr(begin, end - begin));
  }
  return fmt::format("{}", fmt::join(modules, ","));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

void RecipePlace::fail(const std::string& found, const std::string& accepted) const {
  throw InputError(fmt::format("{}:{}: {}", source_of(text, value), value.line, row.key), found, accepted);
}

std::string RecipePlace::scalar() const {
  if (value.kind == RecipeKind::list) fail("a list", "accepted: one value");
  if (value.kind == RecipeKind::map) fail("a section", "accepted: one value");
  return value.text;
}

std::optional<bool> RecipePlace::boolean() const { return boolean_of(value); }

std::string RecipePlace::other(std::string_view path) const {
  const RecipeValue* found = text.root.find_path(path);
  return found == nullptr ? std::string() : found->text;
}

bool RecipePlace::is_on(std::string_view path) const {
  const RecipeValue* found = text.root.find_path(path);
  return found != nullptr && boolean_of(*found).value_or(false);
}

bool RecipePlace::is_given(std::string_view option) const {
  return std::ranges::find(asked.given, option) != asked.given.end();
}

void RecipePlace::not_planned(std::string why) const {
  recipe.not_planned.push_back({std::string(row.key), value.line, std::move(why)});
}

std::string source_of(const RecipeText& text, const RecipeValue& value) {
  return value.source == 0 || value.source > text.sources.size() ? text.file : text.sources[value.source - 1];
}

RecipeOptions as_text(const RecipePlace& place) {
  const std::string written = place.scalar();
  if (written.empty()) return {};
  // Options of the search take several values, which a trainer's key does not.
  if (written.find(',') != std::string::npos) place.fail(in_quotes(written), "accepted: one value");
  return {{std::string(place.row.option), written}};
}

RecipeOptions as_flag(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const auto on = place.boolean();
  if (!on) place.fail(in_quotes(place.scalar()), "accepted: true, false");
  if (!*on) return {};
  return {{std::string(place.row.option), std::string(kFlagGiven)}};
}

RecipeOptions as_word(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const auto find = [&](const std::string& word) {
    return std::ranges::find_if(
        place.row.words, [&](const auto& each) { return lower_case(std::string(each.first)) == word; });
  };
  auto found = find(lower_case(place.scalar()));
  if (const auto flag = place.boolean(); flag && found == place.row.words.end())
    found = find(*flag ? "true" : "false");
  if (found == place.row.words.end()) place.fail(in_quotes(place.scalar()), row_words(place.row));
  if (found->second.empty()) return {};
  if (found->second.starts_with("--")) return typed_options(found->second);
  return {{std::string(place.row.option), std::string(found->second)}};
}

RecipeOptions as_list(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const std::vector<std::string> words = words_of(place);
  if (words.empty()) return {};
  return {{std::string(place.row.option), fmt::format("{}", fmt::join(words, ","))}};
}

RecipeOptions as_targets(const RecipePlace& place) {
  RecipeOptions options = as_list(place);
  if (options.empty()) return {};
  std::string& modules = options.front().second;
  if (std::string named = modules_of_pattern(modules); !named.empty()) {
    place.not_planned("the pattern is read as its modules, wherever they are");
    modules = std::move(named);
  }
  if (modules == "all" || modules == "all_linear") modules = "all-linear";
  if (modules.find_first_of("()|*^$\\[") != std::string::npos)
    place.fail(in_quotes(modules), "accepted: names of modules such as q_proj, v_proj; all-linear");
  return options;
}

namespace {

/// Nodes of a launcher: a number, or twice the same as in "2:2"; nothing where it is neither.
std::optional<std::int64_t> nodes_of(std::string text) {
  if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
    if (text.substr(0, colon) != text.substr(colon + 1)) return std::nullopt;
    text.resize(colon);
  }
  constexpr std::size_t kDigits = 6;
  if (text.empty() || text.size() > kDigits || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoll(text);
}

}  // namespace

RecipeOptions as_processes(const RecipePlace& place) {
  const std::string text = place.scalar();
  if (text.empty() || text == "auto" || text == "gpu") return {};
  std::int64_t nodes = 1;
  for (const std::string_view key : {"NNODES", "nnodes", "num_nodes"}) {
    const std::string said = place.other(key);
    if (said.empty()) continue;
    const auto number = nodes_of(said);
    if (!number)
      place.fail(fmt::format("on {} nodes", in_quotes(said)), "accepted: a number of nodes; --gpus, --nodes");
    nodes = *number;
  }
  return {{"--gpus", std::to_string(parse_integer(place.row.key, text, 1, kMostGpus) * nodes)}};
}

RecipeOptions as_included(const RecipePlace& place) {
  const std::string list = place.scalar();
  std::int64_t gpus = 0, nodes = 0;
  std::istringstream hosts(list);
  for (std::string host; std::getline(hosts, host, '@'); ++nodes) {
    const std::size_t colon = host.find(':');
    if (colon == std::string::npos) {  // all GPUs of the host
      place.not_planned("GPUs of whole hosts: --gpus and --nodes say them");
      return {};
    }
    gpus += std::ranges::count(host.substr(colon), ',') + 1;
  }
  if (gpus == 0) return {};
  RecipeOptions options{{"--gpus", std::to_string(gpus)}};
  if (nodes > 1) options.emplace_back("--nodes", std::to_string(nodes));
  return options;
}

RecipeOptions as_nodes(const RecipePlace& place) {
  if (place.is_given("--gpus") || place.scalar().empty()) return {};
  const auto nodes = nodes_of(place.scalar());
  if (!nodes) place.fail(in_quotes(place.scalar()), "accepted: a number of nodes; --gpus, --nodes");
  if (*nodes == 1) return {};
  return {{"--nodes", std::to_string(*nodes)}};
}

RecipeOptions as_ds_config(const RecipePlace& place) {
  const RecipeOptions deepspeed{{"--framework", "deepspeed"}};
  if (place.value.kind == RecipeKind::nothing) return {};
  if (place.value.kind == RecipeKind::map) {
    place.recipe.ds_config = json_of(place.value).dump(2);
    return {{"--framework", "deepspeed"},
            {"--ds-config", fmt::format("{}:{}", place.text.file, place.value.line)}};
  }
  const std::string name = place.scalar();
  if (name.starts_with('{')) {
    place.recipe.ds_config = name;
    return {{"--framework", "deepspeed"},
            {"--ds-config", fmt::format("{}:{}", place.text.file, place.value.line)}};
  }
  const fs::path beside = fs::path(place.folder) / name;
  if (may_name(place.text, beside))
    return {{"--framework", "deepspeed"}, {"--ds-config", beside.lexically_normal().string()}};
  if (const auto found = find_named(place.text, name)) {
    if (!found->is_written) return {{"--framework", "deepspeed"}, {"--ds-config", found->path}};
    place.recipe.ds_config = found->text;
    return {{"--framework", "deepspeed"},
            {"--ds-config", fmt::format("{}: {}", place.text.file, found->path)}};
  }
  const auto word =
      std::ranges::find_if(place.row.words, [&](const auto& each) { return each.first == name; });
  if (word != place.row.words.end()) return typed_options(word->second);
  place.not_planned(fmt::format("{} {}: stage and offload are left open; --ds-config or --zero says them",
                                in_quotes(name),
                                is_there(beside) ? "lies outside of the recipe's folder" : "is not there"));
  return deepspeed;
}

RecipeOptions as_allocator(const RecipePlace& place) {
  const std::string said = lower_case(place.scalar());
  return said.find("expandable_segments:true") != std::string::npos
             ? RecipeOptions{{"--expandable-segments", std::string(kFlagGiven)}}
             : RecipeOptions{};
}

RecipeOptions as_model(const RecipePlace& place) {
  const std::string name = place.scalar();
  if (name.empty()) return {};
  const fs::path beside = fs::path(place.folder) / name;
  std::error_code ignored;
  if (fs::exists(beside / "config.json", ignored)) return {{"--model", beside.lexically_normal().string()}};
  // An alias whose shape is known by its whole name keeps the ending that says how it is packed.
  const std::optional<NameMeaning> known = meaning_of_name(name);
  return {{"--model", known && known->packed == nullptr ? name : unpacked_name(name)}};
}

// Weights that are packed before they are loaded, or by a library other than bitsandbytes.

namespace {

using nlohmann::json;

/// Formats over whose weights, which stay packed, adapters can train. Source: transformers 5.23
/// quantizers/quantizer_*.py is_trainable; axolotl 0.19 integrations/kernels (modelopt).
constexpr std::array<std::string_view, 5> kTrainable{"aqlm", "compressed-tensors", "eetq", "fp8", "modelopt"};

constexpr std::size_t kMostShown = 200;  // of a quantization_config

constexpr std::string_view kPlanned =
    "accepted: models in 16 bits, or packed by GPTQ (4 or 8 bits), AWQ (4 bits) or bitsandbytes (nf4, int8)";

/// quantization_config of a model's folder, or null. Throws InputError where the config is no JSON.
json packing_in(const fs::path& folder) {
  const std::string path = (folder / "config.json").string();
  if (std::error_code ignored; !fs::exists(path, ignored)) return nullptr;
  const json config = parse_json(read_file(path), path);
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

/// Weights of another format under adapters are planned in 16 bits, which take more.
RecipeOptions as_wide(const RecipePlace& place, const std::string& name, std::string_view method) {
  if (std::ranges::find(kTrainable, method) == kTrainable.end() || !trains_adapters(place))
    place.fail(in_quotes(name), std::string(kPlanned));
  place.not_planned(
      fmt::format("weights packed by {} are planned in 16 bits, which take more memory", method));
  return {};
}

/// True if the recipe itself says how nf4 is packed, of which a name that ends in "-bnb-nf4" says nothing.
bool is_packed_as_asked(const RecipePlace& place, std::string_view by_name) {
  if (by_name != "nf4") return false;
  return std::ranges::any_of(place.recipe.settings, [](const RecipeSetting& setting) {
    return std::ranges::any_of(setting.options, [](const auto& option) {
      return option.first == "--quantization" && option.second.starts_with("nf4");
    });
  });
}

}  // namespace

bool trains_adapters(const RecipePlace& place) {
  for (const std::string_view key : {"finetuning_type", "tuner_type", "train_type"}) {
    const std::string said = place.other(key);
    if (!said.empty()) return said != "full" && said != "freeze";
  }
  if (!place.other("adapter").empty() || place.is_on("use_peft")) return true;
  const RecipeFormat format = place.recipe.format;  // LLaMA-Factory and ms-swift train adapters by default
  return format == RecipeFormat::llama_factory || format == RecipeFormat::swift || place.is_given("--method");
}

std::string unpacked_name(const std::string& model) {
  const PackedName* packed = packed_name(model);
  if (packed == nullptr || packed->quantization.empty()) return model;
  return model.substr(0, model.size() - packed->ending.size());
}

RecipeOptions as_packed_model(const RecipePlace& place) {
  const std::string name = place.scalar();
  std::string quantization;
  if (const json packing = packing_in(fs::path(place.folder) / name); packing.is_object()) {
    quantization = quantization_of(packing);
    if (quantization.empty())
      place.fail(fmt::format("{}: quantization_config {}", in_quotes(name),
                             packing.dump(-1, ' ', true).substr(0, kMostShown)),
                 std::string(kPlanned));
  } else if (const PackedName* packed = packed_name(name); packed != nullptr && !packed->method.empty()) {
    quantization = packed->quantization;
    if (quantization.empty()) return as_wide(place, name, packed->method);
    if (is_packed_as_asked(place, quantization)) return {};
    if (packed->partly)
      place.not_planned(
          "the layers that this copy leaves in 16 bits are planned in 4: it takes more memory than planned");
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
