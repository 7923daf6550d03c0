#include "models/recorded/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/config.h"

namespace zplan {

namespace {

using Kind = RecordedEvent::Kind;

constexpr std::int64_t kMostLayers = 1024, kMostBlocks = 1 << 22, kMostSize = std::int64_t{1} << 40,
                       kMostSequence = std::int64_t{1} << 40, kMostPlayed = 40'000'000,
                       kMostTensors = 1 << 20;

std::int32_t small(std::int64_t value) { return static_cast<std::int32_t>(value); }

// ---- tensors

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// "model.layers.{}.self_attn.q_proj.weight" → "q_proj".
std::string module_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : last_part(name.substr(0, dot));
}

Tensor read_tensor(const JsonReader& entry) {
  const std::vector<JsonReader> fields = entry.items();
  if (fields.size() < 3) entry.fail_type("a list of name, shape, role and what else is known");
  Tensor tensor;
  tensor.name = fields[0].text();
  double elements = 1;  // of extents that are not 0, since those are multiplied in order
  for (const JsonReader& each : fields[1].items()) {
    tensor.shape.push_back(each.integer(0, kMostSize));
    elements *= static_cast<double>(std::max<std::int64_t>(1, tensor.shape.back()));
  }
  if (elements > kMostParameters)
    fields[1].fail(fmt::format("extents that make {:.3g} elements", elements),
                   "accepted: at most 2^60 elements");
  tensor.role = parse_name<TensorRole>(fields[2].place(), fields[2].text());
  tensor.module = module_of(tensor.name);
  for (std::size_t i = 3; i < fields.size(); ++i) {
    const std::string word = fields[i].text();
    if (word == "linear") {
      if (tensor.shape.size() != 2)
        fields[1].fail_type("two sizes, since the tensor is a linear layer's weight");
      tensor.linear = Linear{.in_features = tensor.shape[1], .out_features = tensor.shape[0]};
    } else if (word == "idle") {
      tensor.idle = true;
    } else {
      fields[i].fail(in_quotes(word), accepted_words(word, {"linear", "idle"}));
    }
  }
  return tensor;
}

void check_count(const JsonReader& place, double tensors) {
  if (tensors > static_cast<double>(kMostTensors))
    place.fail("more than 2^20 tensors", "accepted: at most as many");
}

/// Blocks that repeat stand once, with {} for their number.
void add_blocks(std::vector<Tensor>& tensors, const JsonReader& given) {
  given.only_keys({"from", "blocks", "tensors"});
  const std::int64_t from = given.at("from").integer(0, kMostLayers);
  const std::int64_t blocks = given.at("blocks").integer(1, kMostLayers);
  std::vector<Tensor> of_one;
  for (const JsonReader& each : given.at("tensors").items()) of_one.push_back(read_tensor(each));
  check_count(given, static_cast<double>(tensors.size()) +
                         static_cast<double>(blocks) * static_cast<double>(of_one.size()));
  for (std::int64_t i = from; i < from + blocks; ++i)
    for (Tensor tensor : of_one) {
      if (const std::size_t at = tensor.name.find("{}"); at != std::string::npos)
        tensor.name.replace(at, 2, std::to_string(i));
      tensors.push_back(std::move(tensor));
    }
}

std::vector<Tensor> read_tensors(const JsonReader& list) {
  std::vector<Tensor> tensors;
  for (const JsonReader& each : list.items()) {
    if (each.raw().is_object())
      add_blocks(tensors, each);
    else
      tensors.push_back(read_tensor(each));
    check_count(list, static_cast<double>(tensors.size()));
  }
  return tensors;
}

std::vector<RecordedModule> read_modules(const JsonReader& list, std::size_t parameters) {
  std::vector<RecordedModule> modules;
  for (const JsonReader& each : list.items()) {
    RecordedModule module;
    const bool leaf = each.raw().is_object();
    if (leaf) each.only_keys({"own", "leaf"}), module.leaf = each.boolean_or("leaf", false);
    for (const JsonReader& index : (leaf ? each.at("own") : each).items())
      module.own.push_back(small(index.integer(0, static_cast<std::int64_t>(parameters) - 1)));
    modules.push_back(std::move(module));
  }
  return modules;
}

void read_inventory(const JsonReader& given, Model& model, Recorded& recorded) {
  given.only_keys({"before", "modules", "kinds", "layers", "after", "buffers"});
  Inventory& inventory = model.inventory;
  inventory.buffers = Bytes(given.integer_or("buffers", 0, 0, kMostSize));
  inventory.before = read_tensors(given.at("before"));
  inventory.after = read_tensors(given.at("after"));
  recorded.modules = read_modules(given.at("modules"), inventory.before.size() + inventory.after.size());
  for (const JsonReader& each : given.at("kinds").items()) {
    each.only_keys({"tensors", "modules"});
    inventory.kinds.push_back(
        {fmt::format("kind {}", inventory.kinds.size()), read_tensors(each.at("tensors"))});
    if (inventory.kinds.back().tensors.empty())
      each.at("tensors").fail("a layer without tensors", "accepted: at least one");
    recorded.layer_modules.push_back(read_modules(each.at("modules"), inventory.kinds.back().tensors.size()));
  }
  const JsonReader layers = given.at("layers");
  const auto kinds = static_cast<std::int64_t>(inventory.kinds.size());
  for (const JsonReader& each : layers.items())
    inventory.layers.push_back(static_cast<std::size_t>(each.integer(0, kinds - 1)));
  if (inventory.layers.empty() || static_cast<std::int64_t>(inventory.layers.size()) > kMostLayers)
    layers.fail(fmt::format("{} layers", inventory.layers.size()),
                fmt::format("accepted: 1 to {}", kMostLayers));
  double tensors = static_cast<double>(inventory.before.size() + inventory.after.size());
  for (const std::size_t kind : inventory.layers)
    tensors += static_cast<double>(inventory.kinds[kind].tensors.size());
  check_count(layers, tensors);
}

void read_shape(const JsonReader& given, Model& model) {
  given.only_keys({"hidden_size", "intermediate_size", "attention_heads", "key_value_heads", "head_size",
                   "vocabulary_size", "max_positions", "tied_embeddings", "experts", "sliding_window",
                   "sliding_layers"});
  ModelShape& shape = model.shape;
  const auto size = [&](const char* key, std::int64_t low) { return given.at(key).integer(low, kMostSize); };
  shape.layers = static_cast<std::int64_t>(model.inventory.layers.size());
  shape.hidden_size = size("hidden_size", 1);
  shape.intermediate_size = size("intermediate_size", 1);
  shape.attention_heads = size("attention_heads", 1);
  shape.key_value_heads = size("key_value_heads", 1);
  shape.head_size = size("head_size", 1);
  shape.vocabulary_size = size("vocabulary_size", 1);
  shape.max_positions = given.integer_or("max_positions", 0, 0, kMostSize);
  shape.tied_embeddings = given.boolean_or("tied_embeddings", false);
  shape.sliding_window = given.integer_or("sliding_window", 0, 0, kMostSize);
  shape.sliding_layers = given.integer_or("sliding_layers", 0, 0, shape.layers);
  const auto experts = given.find("experts");
  if (!experts) return;
  experts->only_keys({"experts", "experts_per_token", "intermediate_size"});
  MixtureOfExperts mixture;
  mixture.experts = experts->at("experts").integer(1, kMostLayers * 16);
  mixture.experts_per_token = experts->at("experts_per_token").integer(1, mixture.experts);
  mixture.intermediate_size = experts->at("intermediate_size").integer(1, kMostSize);
  for (const std::size_t each : model.inventory.layers)
    for (const Tensor& tensor : model.inventory.kinds[each].tensors)
      if (tensor.role == TensorRole::expert) {
        ++mixture.layers;
        break;
      }
  shape.experts = mixture;
}

// ---- events

std::int32_t part_at(const JsonReader& value) {
  if (value.raw().is_null()) return kOwnPart;
  if (value.raw().is_string()) {
    if (value.text() != "model")
      value.fail(in_quotes(value.text()), "accepted: null, \"model\" or a number of layers");
    return kAroundLayers;
  }
  return small(value.integer(-kMostLayers, kMostLayers));
}

struct Named {
  std::string_view name;
  Kind kind;
  std::string_view fields;  ///< p: part; b: block; i: index
};
constexpr std::array kEvents{
    Named{"free", Kind::free, "bB"},
    Named{"gradient", Kind::gradient, "iIbB"},
    Named{"enter", Kind::enter, "iI"},
    Named{"leave", Kind::leave, "iI"},
    Named{"enter_backward", Kind::enter_backward, "iI"},
    Named{"leave_backward", Kind::leave_backward, "iI"},
    Named{"read", Kind::read, "iIb"},
    Named{"keep", Kind::keep, "iI"},
    Named{"let_go", Kind::let_go, "iI"},
    Named{"loss", Kind::loss, ""},
    Named{"loss_backward", Kind::loss_backward, ""},
    Named{"backward", Kind::backward, ""},
    Named{"compute", Kind::compute, "i"},
};

RecordedEvent read_event(const JsonReader& given) {
  if (given.raw().is_number()) {
    const std::int64_t value = given.integer(-kMostBlocks, kMostBlocks);
    return value >= 0 ? RecordedEvent{.kind = Kind::allocate, .index = small(value)}
                      : RecordedEvent{.kind = Kind::free, .block = small(-1 - value)};
  }
  const std::vector<JsonReader> fields = given.items();
  if (fields.empty()) given.fail_type("a number, or a list that begins with the event's name");
  const std::string name = fields[0].text();
  const auto about =
      std::find_if(kEvents.begin(), kEvents.end(), [&](const Named& each) { return each.name == name; });
  if (about == kEvents.end()) {
    std::vector<std::string> names;
    for (const Named& each : kEvents) names.emplace_back(each.name);
    fields[0].fail(in_quotes(name), accepted_words(name, names));
  }
  if (fields.size() != about->fields.size() + 1)
    given.fail(fmt::format("{} fields", fields.size()),
               fmt::format("accepted: {} of {}", about->fields.size() + 1, in_quotes(name)));
  RecordedEvent event{.kind = about->kind};
  for (std::size_t i = 0; i < about->fields.size(); ++i) {
    const JsonReader& field = fields[i + 1];
    switch (about->fields[i]) {
      case 'i': event.index = small(field.integer(0, kMostBlocks)); break;
      case 'b': event.block = small(field.integer(0, kMostBlocks)); break;
      case 'I': event.index_part = part_at(field); break;
      default: event.block_part = part_at(field);
    }
  }
  return event;
}

RecordedSize read_size(const JsonReader& given) {
  RecordedSize size;
  const bool divided = given.raw().is_object();
  if (divided) {
    given.only_keys({"over", "of"});
    size.over = given.at("over").integer(1, kMostSize);
  }
  const JsonReader list = divided ? given.at("of") : given;
  for (const JsonReader& each : list.items())
    size.coefficients.push_back(each.integer(-(std::int64_t{1} << 52), std::int64_t{1} << 52));
  if (size.coefficients.empty() || size.coefficients.size() > 12)
    list.fail(fmt::format("{} coefficients", size.coefficients.size()), "accepted: 1 to 12");
  return size;
}

RecordedPart read_part(const JsonReader& given, std::size_t sections, bool around) {
  if (around)
    given.only_keys({"forward", "head", "backward", "blocks", "modules"});
  else
    given.only_keys({"forward", "backward", "blocks", "modules"});
  const auto section = [&](const char* key) {
    return static_cast<std::size_t>(given.at(key).integer(0, static_cast<std::int64_t>(sections) - 1));
  };
  RecordedPart part{.forward = section("forward"),
                    .backward = section("backward"),
                    .head = 0,
                    .blocks = small(given.at("blocks").integer(0, kMostBlocks))};
  if (around) part.head = section("head");
  if (const auto modules = given.find("modules")) part.modules = read_modules(*modules, kMostBlocks);
  return part;
}

RecordedLoad read_load(const JsonReader& given, std::size_t sizes) {
  given.only_keys({"products", "attention", "moved", "kernels", "backward"});
  const auto size = [&](const JsonReader& value) {
    return small(value.integer(0, static_cast<std::int64_t>(sizes) - 1));
  };
  RecordedLoad load;
  if (const auto products = given.find("products"))
    for (const JsonReader& each : products->items()) {
      const std::vector<JsonReader> d = each.items();
      if (d.size() != 5) each.fail_type("a list of batch, rows, inner, columns and times");
      load.products.push_back({size(d[0]), size(d[1]), size(d[2]), size(d[3]), size(d[4])});
    }
  if (const auto attention = given.find("attention")) load.attention = size(*attention);
  if (const auto moved = given.find("moved")) load.moved = size(*moved);
  load.kernels = given.integer_or("kernels", 0, 0, kMostSize);
  load.backward = given.boolean_or("backward", false);
  return load;
}

/// Walks a tape once over all layers: every block that is freed or becomes a gradient was made and is still
/// there, every parameter and module exists.
class Walk {
 public:
  Walk(const JsonReader& place, const Model& model, const Recorded& recorded, const RecordedTape& tape)
      : place_(place),
        model_(model),
        recorded_(recorded),
        tape_(tape),
        live_(tape.layers.size() + 1),
        next_(live_.size()) {
    count_adapters();
    check_blocks();
    for (std::size_t i = 0; i <= tape.layers.size(); ++i)
      live_[i].resize(static_cast<std::size_t>(i == tape.layers.size() ? tape.around.blocks
                                                                       : tape.kinds[tape.layers[i]].blocks));
  }

  void run() {
    check_modules();
    const int layers = static_cast<int>(tape_.layers.size());
    std::size_t played = 0;
    const auto section = [&](std::size_t which, int layer) {
      const RecordedEvents& events = recorded_.sections[which];
      played += events.size();
      if (static_cast<std::int64_t>(played) > kMostPlayed)
        fail("more than 40 million events in a micro-step", "accepted: fewer");
      for (const RecordedEvent& each : events) event(each, layer, which);
    };
    section(tape_.around.forward, -1);
    for (int i = 0; i < layers; ++i) section(kind(i).forward, i);
    section(tape_.around.head, -1);
    for (int i = layers; i-- > 0;) section(kind(i).backward, i);
    section(tape_.around.backward, -1);
  }

 private:
  /// Blocks of all layers, for which memory is taken here.
  void check_blocks() const {
    std::int64_t blocks = tape_.around.blocks;
    for (const std::size_t each : tape_.layers) blocks += tape_.kinds[each].blocks;
    if (blocks > kMostPlayed)
      fail(fmt::format("{} blocks in all layers", blocks), fmt::format("accepted: at most {}", kMostPlayed));
  }
  /// Parameters that modules of parts hold, of adapters, too.
  void check_modules(const RecordedPart& part, std::size_t parameters) const {
    if (!part.modules) return;
    for (const RecordedModule& module : *part.modules)
      for (const std::int32_t each : module.own)
        if (static_cast<std::size_t>(each) >= parameters)
          fail(fmt::format("a module holds parameter {} of {}", each, parameters),
               "accepted: one of those that there are");
  }
  void check_modules() const {
    check_modules(tape_.around, named(-1));
    for (int i = 0; i < static_cast<int>(tape_.layers.size()); ++i) check_modules(kind(i), named(i));
  }
  [[nodiscard]] const RecordedPart& kind(int layer) const {
    return tape_.kinds[tape_.layers[static_cast<std::size_t>(layer)]];
  }
  [[noreturn]] void fail(const std::string& found, const std::string& accepted) const {
    place_.fail(found, accepted);
  }

  /// −1: around the layers.
  [[nodiscard]] int part(std::int32_t named, int layer, std::size_t section) const {
    const int layers = static_cast<int>(tape_.layers.size());
    if (named == kOwnPart) return layer;
    if (named == kAroundLayers) return -1;
    const int found = layer >= 0 ? layer + named : named >= 0 ? named : layers + named;
    if (found < 0 || found >= layers)
      fail(fmt::format("section {} names a layer that is {} from layer {}", section, named, layer),
           "accepted: layers that there are");
    return found;
  }
  [[nodiscard]] std::size_t slot(int part) const {
    return part < 0 ? tape_.layers.size() : static_cast<std::size_t>(part);
  }
  void end_block(const RecordedEvent& event, int layer, std::size_t section) {
    std::vector<char>& live = live_[slot(part(event.block_part, layer, section))];
    const auto block = static_cast<std::size_t>(event.block);
    if (block >= live.size() || live[block] == 0)
      fail(fmt::format("section {} frees block {}, which is not there", section, event.block),
           "accepted: a block that was allocated before and is not free");
    live[block] = 0;
  }
  /// Adapters' tensors of a part where every linear layer has one.
  static std::size_t adapters_of(const std::vector<Tensor>& tensors) {
    return 2 * static_cast<std::size_t>(std::ranges::count_if(tensors, [](const Tensor& each) {
             return each.linear && each.role != TensorRole::head && each.role != TensorRole::router;
           }));
  }
  void count_adapters() {
    if (tape_.method != RecordedMethod::lora) return;
    const Inventory& inventory = model_.inventory;
    adapters_.push_back(adapters_of(inventory.before) + adapters_of(inventory.after));
    for (const LayerKind& each : inventory.kinds) adapters_.push_back(adapters_of(each.tensors));
  }
  /// The kind of layer `at` in the inventory.
  [[nodiscard]] std::size_t kind_of(int at) const {
    return model_.inventory.layers[static_cast<std::size_t>(at)];
  }
  /// Parameters of a part, with its adapters.
  [[nodiscard]] std::size_t named(int at) const {
    const Inventory& inventory = model_.inventory;
    const std::size_t parameters = at < 0 ? inventory.before.size() + inventory.after.size()
                                          : inventory.kinds[kind_of(at)].tensors.size();
    return parameters + (adapters_.empty() ? 0 : adapters_[at < 0 ? 0 : 1 + kind_of(at)]);
  }
  void check_index(const RecordedEvent& event, int layer, std::size_t section, bool module) const {
    const int at = part(event.index_part, layer, section);
    const std::optional<std::vector<RecordedModule>>& own =
        at < 0 ? tape_.around.modules : tape_.kinds[tape_.layers[static_cast<std::size_t>(at)]].modules;
    const std::size_t modules = own      ? own->size()
                                : at < 0 ? recorded_.modules.size()
                                         : recorded_.layer_modules[kind_of(at)].size();
    const std::size_t parameters = named(at);
    const std::size_t most = module ? modules : parameters;
    if (static_cast<std::size_t>(event.index) >= most)
      fail(fmt::format("section {} names {} {} of {}", section, module ? "module" : "parameter", event.index,
                       most),
           "accepted: one of those that there are");
    if (event.kind == Kind::read && static_cast<std::size_t>(event.block) >= parameters)
      fail(fmt::format("section {} reads parameter {} of {}", section, event.block, parameters),
           "accepted: one of those that there are");
  }
  void event(const RecordedEvent& event, int layer, std::size_t section) {
    switch (event.kind) {
      case Kind::allocate: {
        if (static_cast<std::size_t>(event.index) >= tape_.sizes.size())
          fail(fmt::format("section {} allocates size {} of {}", section, event.index, tape_.sizes.size()),
               "accepted: one of the tape's sizes");
        std::vector<char>& live = live_[slot(layer)];
        std::size_t& next = next_[slot(layer)];
        if (next >= live.size())
          fail(fmt::format("section {} makes more blocks than the {} of its part", section, live.size()),
               "accepted: as many blocks as the part says");
        live[next++] = 1;
        return;
      }
      case Kind::free: return end_block(event, layer, section);
      case Kind::gradient: check_index(event, layer, section, false); return end_block(event, layer, section);
      case Kind::enter:
      case Kind::leave:
      case Kind::enter_backward:
      case Kind::leave_backward:
      case Kind::read: return check_index(event, layer, section, true);
      case Kind::keep:
      case Kind::let_go: return check_index(event, layer, section, false);
      case Kind::compute:
        if (static_cast<std::size_t>(event.index) >= tape_.loads.size())
          fail(fmt::format("section {} computes load {} of {}", section, event.index, tape_.loads.size()),
               "accepted: one of the tape's loads");
        return;
      case Kind::loss:
      case Kind::loss_backward:
      case Kind::backward:
        if (layer >= 0)
          fail(fmt::format("section {} of a layer begins a phase", section),
               "accepted: phases begin around the layers");
    }
  }

  const JsonReader& place_;
  const Model& model_;
  const Recorded& recorded_;
  const RecordedTape& tape_;
  std::vector<std::vector<char>> live_;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> adapters_;  ///< tensors of adapters around the layers, then of each kind of layer
};

RecordedTape read_tape(const JsonReader& given, const Model& model, const Recorded& recorded) {
  given.only_keys({"method", "adapters", "checkpointing", "partitioned", "autocast", "images", "batch",
                   "sequence", "misfit", "aggregated", "sizes", "around", "kinds", "layers", "loads"});
  RecordedTape tape;
  const std::string method = given.text_or("method", "full");
  if (method != "full" && method != "lora")
    given.at("method").fail(in_quotes(method), "accepted: full or lora");
  tape.method = method == "lora" ? RecordedMethod::lora : RecordedMethod::full;
  tape.fp32_adapters = given.text_or("adapters", "bf16") == "fp32";
  const std::string checkpointing = given.text_or("checkpointing", "none");
  if (checkpointing != "none" && checkpointing != "full")
    given.at("checkpointing").fail(in_quotes(checkpointing), "accepted: none or full");
  tape.checkpointed = checkpointing == "full";
  tape.partitioned = given.boolean_or("partitioned", false);
  tape.autocast = given.boolean_or("autocast", false);
  tape.images = given.integer_or("images", 0, 0, 1'000'000);
  tape.batch = given.at("batch").integer(1, 2);
  const JsonReader sequence = given.at("sequence");
  const std::vector<JsonReader> bounds = sequence.items();
  if (bounds.size() != 2)
    sequence.fail_type("a list of the least sequence length and one above the longest, or null");
  tape.from = bounds[0].integer(1, kMostSequence);
  if (!bounds[1].raw().is_null()) tape.below = bounds[1].integer(tape.from + 1, kMostSequence);
  for (const JsonReader& each : given.at("sizes").items()) tape.sizes.push_back(read_size(each));
  const std::size_t sections = recorded.sections.size();
  tape.around = read_part(given.at("around"), sections, true);
  for (const JsonReader& each : given.at("kinds").items())
    tape.kinds.push_back(read_part(each, sections, false));
  const JsonReader layers = given.at("layers");
  for (const JsonReader& each : layers.items())
    tape.layers.push_back(
        static_cast<std::size_t>(each.integer(0, static_cast<std::int64_t>(tape.kinds.size()) - 1)));
  if (tape.layers.size() != model.inventory.layers.size())
    layers.fail(fmt::format("{} layers", tape.layers.size()),
                fmt::format("accepted: {}, as many as the inventory has", model.inventory.layers.size()));
  if (const auto loads = given.find("loads"))
    for (const JsonReader& each : loads->items()) tape.loads.push_back(read_load(each, tape.sizes.size()));
  Walk(given, model, recorded, tape).run();
  return tape;
}

void read_program(const JsonReader& document, const Model& model, Recorded& recorded) {
  for (const JsonReader& section : document.at("sections").items()) {
    RecordedEvents events;
    for (const JsonReader& each : section.items()) events.push_back(read_event(each));
    recorded.sections.push_back(std::move(events));
  }
  for (const JsonReader& each : document.at("tapes").items())
    recorded.tapes.push_back(read_tape(each, model, recorded));
  if (const auto notes = document.find("notes"))
    for (const JsonReader& each : notes->items()) recorded.notes.push_back(each.text());
  if (const auto with = document.find("recorded_with"))
    for (const std::string& key : with->keys())
      recorded.recorded_with +=
          (recorded.recorded_with.empty() ? "" : ", ") + key + " " + with->at(key).text();
}

}  // namespace

bool is_recorded_model(const Json& document) {
  if (!document.is_object()) return false;
  const auto format = document.find("format");
  return format != document.end() && format->is_string() &&
         format->get<std::string>().starts_with("zplan.model/");
}

Model read_recorded_model(const JsonReader& document) {
  if (!document.raw().is_object()) document.fail_type("a JSON object");
  document.only_keys({"format", "name", "architecture", "class", "recorded_with", "config", "shape",
                      "inventory", "sections", "tapes", "notes"});
  const std::string format = document.at("format").text();
  if (format != kRecordedFormat)
    document.at("format").fail(in_quotes(format), fmt::format("accepted: {}", in_quotes(kRecordedFormat)));
  Model model;
  model.name = document.text_or("name", "");
  model.shape.architecture = document.at("architecture").text();
  auto recorded = std::make_shared<Recorded>();
  read_inventory(document.at("inventory"), model, *recorded);
  read_shape(document.at("shape"), model);
  const double total = approximate_elements(model.inventory);
  if (total > kMostParameters)
    document.at("inventory")
        .fail(fmt::format("sizes that make {:.3g} parameters", total), "accepted: at most 2^60 parameters");
  read_program(document, model, *recorded);
  model.shape.operators.measured = true;
  if (recorded->tapes.empty()) {
    model.analogue = std::make_shared<Model>(analogue_of(model.shape));
    model.shape.operators.measured = false;
  } else {
    model.recorded = std::move(recorded);
  }
  return model;
}

}  // namespace zplan
