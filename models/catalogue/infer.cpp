// A model of any size: the nearest well-known Llama shape, scaled, then fitted to the last parameter.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/base/format.h"
#include "models/catalogue/catalogue.h"
#include "models/config.h"

namespace zplan {

namespace {

constexpr Elements kSmallest{1'000'000};
constexpr Elements kLargest{100'000'000'000'000};
constexpr std::int64_t kKeptSlack =
    5000;                       ///< a kept shape leaves at most one parameter in so many unassigned
constexpr double kKeep = 0.02;  ///< a shape this near in size is kept but for its MLP
// A gated MLP is usually 2.7 to 4 times as wide as the hidden size; outside these the depth is chosen again.
constexpr double kNarrowestMlp = 2.25, kWidestMlp = 4.5;

/// One shape per size class, so that "7B" means the shape people think of and not whichever is nearest by
/// chance.
constexpr std::array<std::string_view, 10> kLadder{"HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-360M",
                                                   "meta-llama/Llama-3.2-1B",    "meta-llama/Llama-3.2-3B",
                                                   "meta-llama/Llama-2-7b-hf",   "meta-llama/Llama-3.1-8B",
                                                   "meta-llama/Llama-2-13b-hf",  "01-ai/Yi-34B",
                                                   "meta-llama/Llama-3.1-70B",   "meta-llama/Llama-3.1-405B"};

std::int64_t embedding_copies(const ModelShape& shape) { return shape.tied_embeddings ? 1 : 2; }

/// A row of the embedding, and of the head where that is a matrix of its own.
std::int64_t vocabulary_row(const ModelShape& shape) { return embedding_copies(shape) * shape.hidden_size; }

/// Attention and norms of one layer: what the width of the MLP does not change.
std::int64_t layer_without_mlp(const ModelShape& shape) {
  const std::int64_t heads = 2 * (shape.attention_heads + shape.key_value_heads) * shape.head_size;
  return shape.hidden_size * heads + 2 * shape.hidden_size;
}

std::int64_t outside_layers(const ModelShape& shape) {
  return shape.vocabulary_size * vocabulary_row(shape) + shape.hidden_size;
}

/// V h copies + h + L (2 h (heads + key-value heads) d + 2 h + 3 h f): a Llama of this shape.
std::int64_t llama_parameters(const ModelShape& shape) {
  const std::int64_t mlp = 3 * shape.hidden_size * shape.intermediate_size;
  return outside_layers(shape) + shape.layers * (layer_without_mlp(shape) + mlp);
}

double distance(Elements size, const Model& model) {
  return std::abs(std::log(ratio(size, parameters(model))));
}

const CatalogueEntry& entry_called(std::string_view name) {
  return *std::find_if(catalogue().begin(), catalogue().end(),
                       [&](const CatalogueEntry& entry) { return entry.name == name; });
}

const std::vector<Model>& ladder() {
  static const std::vector<Model> models = [] {
    std::vector<Model> all;
    for (const std::string_view name : kLadder) all.push_back(catalogue_model(entry_called(name)));
    return all;
  }();
  return models;
}

const Model& nearest_model(Elements size) {
  return *std::min_element(ladder().begin(), ladder().end(), [&](const Model& a, const Model& b) {
    return distance(size, a) < distance(size, b);
  });
}

std::int64_t nearest_multiple(double value, std::int64_t step) {
  return std::max<std::int64_t>(1, std::llround(value / static_cast<double>(step))) * step;
}

/// The divisor of `heads` nearest to `wanted` key-value heads among those that tensor parallelism can deal
/// out as far as the heads themselves: multiples of the largest power of two up to 8 that divides `heads`.
std::int64_t key_value_heads(std::int64_t heads, double wanted) {
  const std::int64_t ranks = std::gcd(heads, std::int64_t{8});
  const auto off = [&](std::int64_t n) { return std::abs(std::log(static_cast<double>(n) / wanted)); };
  std::int64_t best = heads;
  for (std::int64_t each = ranks; each <= heads; each += ranks)
    if (heads % each == 0 && off(each) < off(best)) best = each;
  return best;
}

/// Steps of the hidden size near `wanted`: coarse enough for heads that tensor parallelism can deal out (4 or
/// 8 of 128 in large models), fine enough to stay within a sixteenth.
std::int64_t width_step(double wanted) {
  std::int64_t step = 128;
  while (step < 1024 && static_cast<double>(16 * step) <= wanted) step *= 2;
  return step;
}

/// Heads follow the hidden size; groups stay about as large as in the original.
void scale_width(ModelShape& shape, double factor) {
  const double group =
      static_cast<double>(shape.attention_heads) / static_cast<double>(shape.key_value_heads);
  const double wanted = static_cast<double>(shape.hidden_size) * factor;
  shape.hidden_size = nearest_multiple(wanted, width_step(wanted));
  shape.attention_heads = shape.hidden_size / shape.head_size;
  shape.key_value_heads =
      key_value_heads(shape.attention_heads, static_cast<double>(shape.attention_heads) / group);
}

/// A large vocabulary would eat a small model: at most a third of it.
void limit_vocabulary(ModelShape& shape, Elements size) {
  constexpr std::int64_t kStep = 128;
  const std::int64_t most = size.value / 3 / vocabulary_row(shape) / kStep * kStep;
  shape.vocabulary_size = std::min(shape.vocabulary_size, std::max(kStep, most));
}

/// Width of the MLP that comes nearest to `size` from below; may be less than 1 where nothing is left for it.
std::int64_t fitting_mlp(const ModelShape& shape, Elements size) {
  const std::int64_t per_layer =
      (size.value - outside_layers(shape)) / shape.layers - layer_without_mlp(shape);
  return per_layer / (3 * shape.hidden_size);
}

/// Layers that make a model of `size` with an MLP of `mlp_ratio` times the hidden size.
std::int64_t fitting_layers(const ModelShape& shape, Elements size, double mlp_ratio) {
  const auto width = static_cast<double>(shape.hidden_size);
  const double layer = static_cast<double>(layer_without_mlp(shape)) + 3.0 * width * width * mlp_ratio;
  const auto inside = static_cast<double>(size.value - outside_layers(shape));
  return std::max<std::int64_t>(1, std::llround(inside / layer));
}

ModelShape scaled(const ModelShape& nearest, Elements size, double factor) {
  ModelShape shape = nearest;
  const double edge = std::cbrt(factor);
  scale_width(shape, edge);
  limit_vocabulary(shape, size);
  shape.layers = nearest_multiple(static_cast<double>(nearest.layers) * edge, 1);
  const auto mlp = static_cast<double>(fitting_mlp(shape, size)) / static_cast<double>(shape.hidden_size);
  if (mlp >= kNarrowestMlp && mlp <= kWidestMlp) return shape;
  const double usual =
      static_cast<double>(nearest.intermediate_size) / static_cast<double>(nearest.hidden_size);
  shape.layers = fitting_layers(shape, size, usual);
  return shape;
}

/// Sets the MLP's width, as round a number as leaves at most `slack` of `size` unassigned.
void fit_mlp(ModelShape& shape, Elements size, std::int64_t slack) {
  const std::int64_t widest = std::max<std::int64_t>(1, fitting_mlp(shape, size));
  for (std::int64_t step = 64; step >= 1; step /= 2) {
    shape.intermediate_size = std::max<std::int64_t>(1, widest / step * step);
    if (size.value - llama_parameters(shape) <= slack) return;
  }
}

ModelShape fitted(const Model& nearest, Elements size) {
  const double factor = ratio(size, parameters(nearest));
  ModelShape shape = nearest.shape;
  if (std::abs(factor - 1.0) <= kKeep) {
    fit_mlp(shape, size, size.value / kKeptSlack);
    return shape;
  }
  shape = scaled(nearest.shape, size, factor);
  fit_mlp(shape, size, shape.vocabulary_size / 100 * vocabulary_row(shape));
  shape.vocabulary_size += (size.value - llama_parameters(shape)) / vocabulary_row(shape);
  return shape;
}

Json llama_config(const ModelShape& shape) {
  return {{"model_type", "llama"},
          {"hidden_size", shape.hidden_size},
          {"intermediate_size", shape.intermediate_size},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.attention_heads},
          {"num_key_value_heads", shape.key_value_heads},
          {"head_dim", shape.head_size},
          {"vocab_size", shape.vocabulary_size},
          {"max_position_embeddings", shape.max_positions},
          {"tie_word_embeddings", shape.tied_embeddings}};
}

/// "8B", "350M": the largest unit that says it in at most three decimals, else all digits.
std::string size_name(Elements size) {
  constexpr std::array<std::pair<std::int64_t, char>, 3> units{
      {{1'000'000'000'000, 'T'}, {1'000'000'000, 'B'}, {1'000'000, 'M'}}};
  for (const auto& [unit, letter] : units) {
    if (size.value < unit || size.value % (unit / 1000) != 0) continue;
    const std::int64_t thousandths = size.value / (unit / 1000);
    return fmt::format("{}{}", static_cast<double>(thousandths) / 1000.0, letter);
  }
  return group_digits(size.value);
}

std::string how_inferred(const ModelShape& shape, const Model& nearest, Elements unassigned) {
  const std::string rest = unassigned.value == 0 ? ""
                                                 : fmt::format("; {} parameters more make the count exact",
                                                               group_digits(unassigned.value));
  return fmt::format(
      "inferred from the size, after {}: {} layers, hidden size {}, intermediate size {}, {} heads ({} "
      "key-value) of {}, "
      "vocabulary {}, embeddings {}{}",
      nearest.name, shape.layers, shape.hidden_size, shape.intermediate_size, shape.attention_heads,
      shape.key_value_heads, shape.head_size, shape.vocabulary_size,
      shape.tied_embeddings ? "tied" : "untied", rest);
}

/// Parameters that no whole size takes up, as one tensor that every rank of a tensor-parallel group holds.
void add_unassigned(Inventory& inventory, Elements count) {
  if (count.value == 0) return;
  inventory.after.push_back({.name = "unassigned",
                             .shape = {count.value},
                             .role = TensorRole::other,
                             .split = TensorParallelSplit::replicated,
                             .split_units = 1,
                             .linear = std::nullopt,
                             .module = "unassigned"});
}

}  // namespace

Model infer_model(Elements size) {
  if (size < kSmallest || size > kLargest)
    throw InputError("--model", fmt::format("a size of {} parameters", group_digits(size.value)),
                     "accepted: sizes from 1M to 100T");
  const Model& nearest = nearest_model(size);
  const Json config = llama_config(fitted(nearest, size));
  Model model = read_config(JsonReader(config, "the inferred shape"));
  const Elements unassigned = size - parameters(model);
  add_unassigned(model.inventory, unassigned);
  model.name = size_name(size);
  model.source = ModelSource::size;
  model.origin = how_inferred(model.shape, nearest, unassigned);
  return model;
}

namespace {

/// Decimal digits that a unit stands for: 9 for "B".
std::optional<std::size_t> zeros_of(char unit) {
  switch (std::tolower(static_cast<unsigned char>(unit))) {
    case 'k': return 3;
    case 'm': return 6;
    case 'b': return 9;
    case 't': return 12;
    default: return std::nullopt;
  }
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// A string of digits as a number; what 64 bits cannot hold becomes the largest that they can.
std::int64_t to_number(std::string_view digits) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t value = 0;
  for (const char c : digits) {
    if (value > (most - 9) / 10) return most;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::optional<Elements> parse_size(std::string_view text) {
  const auto zeros = text.empty() ? std::nullopt : zeros_of(text.back());
  if (!zeros) return std::nullopt;
  std::string_view number = text.substr(0, text.size() - 1);
  if (!number.empty() && number.back() == ' ') number.remove_suffix(1);

  const std::size_t point = number.find('.');
  const std::string_view whole = number.substr(0, point);
  std::string_view fraction = point == std::string_view::npos ? "0" : number.substr(point + 1);
  if (!all_digits(whole) || !all_digits(fraction)) return std::nullopt;

  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  if (fraction.size() > *zeros) return std::nullopt;  // a part of a parameter
  // Shifting the point in the digits themselves keeps 1.7B exact, which no binary fraction is.
  const std::string digits =
      std::string(whole) + std::string(fraction) + std::string(*zeros - fraction.size(), '0');
  return Elements(to_number(digits));
}

}  // namespace zplan
