#include "models/inventories/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include "models/base/embedded.h"
#include "models/recorded/read.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> inventory_steps;
}

namespace {

/// A rational number: sums of polynomials' numbers stay exact.
struct Ratio {
  std::int64_t over{1}, of{};
};

/// Returns a number of a size's polynomial: a whole one, ["/", whole, whole], or a sum of such, whose
/// denominators are powers of two up to 1024, or 3 and 5 times these.
Ratio number_of(const Json& expression, const ConfigFields& fields) {
  const bool divided = expression.is_array() && expression.at(0) == "/";
  const Json of = fields.value(divided ? expression.at(1) : expression, {});
  if (of.is_number_integer())
    return {.over = divided ? expression.at(2).get<std::int64_t>() : 1, .of = of.get<std::int64_t>()};
  constexpr std::int64_t kOver = 15 << 10;
  const Json real = fields.value(expression, {});
  if (!real.is_number()) return {};
  return {.over = kOver, .of = std::llround(real.get<double>() * static_cast<double>(kOver))};
}

/// Returns the polynomial of a size over one denominator: an entry of "sizes" in zplan.model/1.
Json size_at(const Json& polynomial, const ConfigFields& fields) {
  std::vector<Ratio> numbers;
  std::int64_t over = 1;
  constexpr std::int64_t kMostOver = std::int64_t{1} << 20;
  for (const Json& each : polynomial) {
    Ratio number = number_of(each, fields);
    const std::int64_t common = std::gcd(number.over, number.of);
    number = {.over = number.over / common, .of = number.of / common};
    numbers.push_back(number);
    over = over <= kMostOver && number.over <= kMostOver ? std::lcm(over, number.over) : kMostOver + 1;
  }
  if (over > kMostOver) over = kMostOver;  // of a size by the nearest product, which is an estimate
  Json of = Json::array();
  for (const Ratio& each : numbers)
    of.push_back(over % each.over == 0
                     ? each.of * (over / each.over)
                     : std::llround(static_cast<double>(each.of) / static_cast<double>(each.over) *
                                    static_cast<double>(over)));
  return Json{{"over", over}, {"of", std::move(of)}};
}

Json tensors_of(const std::vector<Tensor>& tensors) {
  Json list = Json::array();
  for (const Tensor& each : tensors) {
    Json entry{each.name, each.shape, std::string(to_name(each.role))};
    if (each.linear) entry.push_back("linear");
    if (each.idle) entry.push_back("idle");
    list.push_back(std::move(entry));
  }
  return list;
}

bool has_names(const LayerKind& kind, const Json& names) {
  return kind.tensors.size() == names.size() &&
         std::equal(kind.tensors.begin(), kind.tensors.end(), names.begin(),
                    [](const Tensor& tensor, const Json& name) { return name == tensor.name; });
}

/// Returns for each kind of the model the recorded kind with the same tensors; nothing where one has none.
std::optional<std::vector<std::size_t>> recorded_kinds(const Inventory& inventory, const Json& kinds) {
  std::vector<std::size_t> found;
  for (const LayerKind& each : inventory.kinds) {
    const auto at = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const Json& kind) { return has_names(each, kind.at("tensors")); });
    if (at == kinds.end()) return std::nullopt;
    found.push_back(static_cast<std::size_t>(at - kinds.begin()));
  }
  return found;
}

/// The kind of the layer at `i`, and −1 beyond both ends.
std::int64_t kind_at(const std::vector<std::size_t>& kinds, std::int64_t i) {
  return i < 0 || i >= static_cast<std::int64_t>(kinds.size())
             ? -1
             : static_cast<std::int64_t>(kinds[static_cast<std::size_t>(i)]);
}

/// Returns for each layer the recorded layer of its kind whose neighbours are most like its own.
std::vector<std::size_t> nearest_layers(const std::vector<std::size_t>& own,
                                        const std::vector<std::size_t>& recorded) {
  std::vector<std::size_t> nearest;
  const auto count = static_cast<std::int64_t>(own.size());
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t most = -1;
    std::size_t best = 0;
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(recorded.size()); ++j) {
      if (kind_at(recorded, j) != kind_at(own, i)) continue;
      // The first and the last layer free blocks of the model around them, which none between them does.
      const bool first = j == 0, last = j + 1 == static_cast<std::int64_t>(recorded.size());
      std::int64_t alike = (first == (i == 0) ? 32 : 0) + (last == (i + 1 == count) ? 4 : 0);
      for (const std::int64_t step : {-1, 1, -2, 2}) {
        const std::int64_t weight = std::abs(step) == 1 ? 8 : 1;
        alike += kind_at(recorded, j + step) == kind_at(own, i + step) ? weight : 0;
      }
      if (alike <= most) continue;
      most = alike;
      best = static_cast<std::size_t>(j);
    }
    nearest.push_back(best);
  }
  return nearest;
}

/// Lets a tape's layers follow each other as none were recorded. A layer frees blocks of the one before it by
/// their numbers there, which differ between layers: what it freed behind its recorded neighbour becomes what
/// was freed of its new one, in the same order.
class Chain {
 public:
  Chain(Json& document, Json& tape) : sections_(document["sections"]), tape_(tape) {
    const auto count = static_cast<std::int64_t>(tape_.at("layers").size());
    outlive_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      for (const char* key : {"forward", "backward"}) note(kind(i).at(key), i);
    for (const char* key : {"head", "backward"}) note(tape_.at("around").at(key), count);
    for (auto& each : outlive_) {
      std::sort(each.begin(), each.end());
      each.erase(std::unique(each.begin(), each.end()), each.end());
    }
  }

  /// `order`: the recorded layer that stands at each place.
  void arrange(const std::vector<std::size_t>& order) {
    Json kinds = Json::array(), layers = Json::array();
    const auto at = [&](std::int64_t i) {
      return i < 0 || i >= static_cast<std::int64_t>(order.size())
                 ? -1
                 : static_cast<std::int64_t>(order[static_cast<std::size_t>(i)]);
    };
    std::int64_t place = 0;
    for (const std::size_t each : order) {
      Json made = kind(static_cast<std::int64_t>(each));
      for (const char* key : {"forward", "backward"})
        made[key] = moved(made.at(key), static_cast<std::int64_t>(each), place, at);
      const auto known = std::find(kinds.begin(), kinds.end(), made);
      layers.push_back(known - kinds.begin());
      if (known == kinds.end()) kinds.push_back(std::move(made));
      ++place;
    }
    const auto recorded = static_cast<std::int64_t>(outlive_.size());
    Json& around = tape_["around"];
    for (const char* key : {"head", "backward"}) around[key] = moved(around.at(key), recorded, place, at);
    tape_["kinds"] = std::move(kinds);
    tape_["layers"] = std::move(layers);
  }

 private:
  [[nodiscard]] const Json& kind(std::int64_t layer) const {
    return tape_.at("kinds").at(tape_.at("layers").at(static_cast<std::size_t>(layer)).get<std::size_t>());
  }

  static bool frees_of_another(const Json& event) {
    return event.is_array() && event.size() == 3 && event.at(0) == "free" && event.at(2).is_number_integer();
  }

  void note(const Json& section, std::int64_t layer) {
    for (const Json& event : sections_.at(section.get<std::size_t>())) {
      if (!frees_of_another(event)) continue;
      const std::int64_t of = layer + event.at(2).get<std::int64_t>();
      if (of >= 0 && of < static_cast<std::int64_t>(outlive_.size()))
        outlive_[static_cast<std::size_t>(of)].push_back(event.at(1).get<std::int64_t>());
    }
  }

  /// Returns the number of a section's copy whose frees name blocks of the layers that now stand around it.
  template <class At>
  Json moved(const Json& section, std::int64_t recorded, std::int64_t place, const At& at) {
    Json events = sections_.at(section.get<std::size_t>());
    bool differs = false;
    for (Json& event : events) {
      if (!frees_of_another(event)) continue;
      const std::int64_t step = event.at(2).get<std::int64_t>();
      const std::int64_t before = recorded + step, now = at(place + step);
      if (before == now || before < 0 || before >= static_cast<std::int64_t>(outlive_.size()) || now < 0)
        continue;
      const auto& old = outlive_[static_cast<std::size_t>(before)];
      const auto& own = outlive_[static_cast<std::size_t>(now)];
      const auto found = std::find(old.begin(), old.end(), event.at(1).get<std::int64_t>());
      if (old.size() != own.size() || found == old.end()) continue;
      const std::int64_t block = own[static_cast<std::size_t>(found - old.begin())];
      differs = differs || event.at(1) != block;
      event[1] = block;
    }
    if (!differs) return section;
    const auto known = std::find(sections_.begin(), sections_.end(), events);
    const Json number = known - sections_.begin();
    if (known == sections_.end()) sections_.push_back(std::move(events));
    return number;
  }

  Json& sections_;
  Json& tape_;
  std::vector<std::vector<std::int64_t>> outlive_;  ///< blocks of each recorded layer that others free
};

std::vector<std::size_t> whole_numbers(const Json& list) {
  std::vector<std::size_t> numbers;
  for (const Json& each : list) numbers.push_back(each.get<std::size_t>());
  return numbers;
}

/// True if the config has what all recordings had: chunks, kernels, switches, activations.
bool is_alike(const Json& where, const ConfigFields& fields) {
  return std::all_of(where.items().begin(), where.items().end(), [&](const auto& each) {
    const Json own = fields.value(each.key(), {});
    return own.is_null() || own == each.value();
  });
}

/// Returns the recorded model that the steps are at these sizes, as a zplan.model/1 document.
std::optional<Json> document_at(const Json& steps, const ConfigFields& fields, const Model& model) {
  const Inventory& inventory = model.inventory;
  const auto kinds = recorded_kinds(inventory, steps.at("kinds"));
  if (!kinds) return std::nullopt;
  std::vector<std::size_t> own;
  for (const std::size_t each : inventory.layers) own.push_back((*kinds)[each]);
  const std::vector<std::size_t> nearest = nearest_layers(own, whole_numbers(steps.at("layers")));
  Json listed = Json::array();
  for (std::size_t i = 0; i < inventory.kinds.size(); ++i)
    listed.push_back({{"tensors", tensors_of(inventory.kinds[i].tensors)},
                      {"modules", steps.at("kinds").at((*kinds)[i]).at("modules")}});
  Json own_events{{"sections", steps.at("sections")}};
  Json tapes = steps.at("tapes");
  for (Json& tape : tapes) {
    for (Json& size : tape["sizes"]) size = size_at(size, fields);
    Chain(own_events, tape).arrange(nearest);
  }
  const ModelShape& shape = model.shape;
  return Json{{"format", kRecordedFormat},
              {"architecture", steps.at("architecture")},
              {"recorded_with", steps.at("recorded_with")},
              {"shape",
               {{"hidden_size", shape.hidden_size},
                {"intermediate_size", std::max<std::int64_t>(1, shape.intermediate_size)},
                {"attention_heads", shape.attention_heads},
                {"key_value_heads", shape.key_value_heads},
                {"head_size", shape.head_size},
                {"vocabulary_size", shape.vocabulary_size}}},
              {"inventory",
               {{"before", tensors_of(inventory.before)},
                {"modules", steps.at("modules")},
                {"kinds", std::move(listed)},
                {"layers", inventory.layers},
                {"after", tensors_of(inventory.after)}}},
              {"sections", std::move(own_events["sections"])},
              {"tapes", std::move(tapes)},
              {"notes", steps.at("notes")}};
}

/// True of "inventories/steps/ARCHITECTURE.json" and of "…/ARCHITECTURE@VARIANT.json".
bool is_of_architecture(std::string_view file, std::string_view architecture) {
  constexpr std::string_view kFolder = "inventories/steps/";
  if (!file.starts_with(kFolder)) return false;
  file.remove_prefix(kFolder.size());
  if (!file.starts_with(architecture)) return false;
  file.remove_prefix(architecture.size());
  return file.starts_with('.') || file.starts_with('@');
}

}  // namespace

std::shared_ptr<const Recorded> recorded_steps(const ConfigFields& fields, const Model& model) {
  for (const embedded::EmbeddedFile& each : embedded::inventory_steps) {
    if (!is_of_architecture(each.name, model.shape.architecture)) continue;
    const std::string file(each.name);
    const Json steps = parse_json(each.text, file);
    if (!is_alike(steps.at("where"), fields)) continue;
    const std::optional<Json> document = document_at(steps, fields, model);
    if (!document) continue;
    try {
      return read_recorded_model(JsonReader(*document, file)).recorded;
    } catch (const InputError&) {
      continue;  // layers follow each other as none were recorded
    }
  }
  return nullptr;
}

}  // namespace zplan
