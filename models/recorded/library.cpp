#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/base/embedded.h"
#include "models/recorded/read.h"
#include "models/recorded/recorded.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> recorded_models;
}

namespace {

/// Keys of a config that change neither tensors nor what runs in training.
bool is_idle_key(std::string_view key) {
  static constexpr std::array kKeys{
      std::string_view{"architectures"},      std::string_view{"dtype"},
      std::string_view{"torch_dtype"},        std::string_view{"id2label"},
      std::string_view{"label2id"},           std::string_view{"initializer_range"},
      std::string_view{"use_cache"},          std::string_view{"transformers_version"},
      std::string_view{"problem_type"},       std::string_view{"return_dict"},
      std::string_view{"auto_map"},           std::string_view{"rope_theta"},
      std::string_view{"rope_scaling"},       std::string_view{"rope_parameters"},
      std::string_view{"rms_norm_eps"},       std::string_view{"layer_norm_eps"},
      std::string_view{"quantization_config"}};
  return key.starts_with("_") || key.ends_with("_token_id") || key.ends_with("_token_index") ||
         key.ends_with("_eps") || key.ends_with("epsilon") ||
         std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

/// True if `given` agrees with `recorded` in all that it states.
bool agrees(const Json& given, const Json& recorded) {
  if (given.is_object() && recorded.is_object()) {
    return std::all_of(given.items().begin(), given.items().end(), [&](const auto& each) {
      if (is_idle_key(each.key())) return true;
      const auto known = recorded.find(each.key());
      return known == recorded.end() || agrees(each.value(), *known);
    });
  }
  return given == recorded;
}

/// True if the config states its model's width, as all that transformers writes do.
bool says_shape(const JsonReader& config) {
  static constexpr std::array kKeys{"transformers_version", "hidden_size", "d_model", "n_embd",
                                    "text_config"};
  return std::any_of(kKeys.begin(), kKeys.end(), [&](const char* key) { return config.has(key); });
}

/// "qwen3_next" of "recorded/files/qwen3_next@80b.json".
std::string_view architecture_of(const embedded::EmbeddedFile& file) {
  std::string_view name = file.name;
  name.remove_prefix(name.rfind('/') + 1);
  return name.substr(0, name.find('@'));
}

}  // namespace

std::optional<Model> recorded_model(const JsonReader& config) {
  const std::string architecture = config.text_or("model_type", "");
  std::optional<Model> tensors_alone;
  if (!says_shape(config)) return std::nullopt;
  for (const embedded::EmbeddedFile& file : embedded::recorded_models) {
    if (architecture_of(file) != architecture) continue;
    const Json document = parse_json(file.text, std::string(file.name));
    if (!agrees(config.raw(), document.at("config"))) continue;
    Model model = read_recorded_model(JsonReader(document, std::string(file.name)));
    if (model.recorded) return model;
    if (!tensors_alone) tensors_alone = std::move(model);
  }
  return tensors_alone;
}

std::vector<RecordedArchitecture> recorded_architectures() {
  std::map<std::string, RecordedArchitecture> found;
  for (const embedded::EmbeddedFile& file : embedded::recorded_models) {
    RecordedArchitecture& each = found[std::string(architecture_of(file))];
    each.name = architecture_of(file);
    ++each.sizes;
    if (file.text.find(R"("tapes":[])") == std::string_view::npos) ++each.sizes_with_steps;
  }
  std::vector<RecordedArchitecture> listed;
  for (auto& [name, each] : found) listed.push_back(std::move(each));
  return listed;
}

Bytes RecordedSize::at(std::int64_t b, std::int64_t s, std::int64_t rank) const {
  const auto batch = static_cast<double>(b), sequence = static_cast<double>(s);
  const double monomials[] = {1,     sequence,         sequence * sequence,
                              batch, batch * sequence, batch * sequence * sequence};
  // Sizes stay far below 2^53 wherever they are exact.
  double sum = 0;
  for (std::size_t i = 0; i < coefficients.size(); ++i)
    sum +=
        static_cast<double>(coefficients[i]) * monomials[i % 6] * (i < 6 ? 1.0 : static_cast<double>(rank));
  constexpr double kMost = 0x1p60;
  return Bytes(static_cast<std::int64_t>(std::clamp(std::ceil(sum / static_cast<double>(over)), 0.0, kMost)));
}

}  // namespace zplan
