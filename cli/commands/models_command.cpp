#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/document/table.h"
#include "cli/options/request.h"
#include "models/base/json_reader.h"
#include "models/config.h"
#include "models/recorded/read.h"

namespace zplan {

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

Json summary_json(const CatalogueEntry& entry, const Model& model) {
  return {{"name", entry.name},
          {"aliases", entry.aliases},
          {"architecture", model.shape.architecture},
          {"parameters", parameters(model).value},
          {"active_parameters", active_parameters(model).value},
          {"layers", model.shape.layers},
          {"hidden_size", model.shape.hidden_size},
          {"source", entry.source},
          {"revision", entry.revision}};
}

std::string list_json(const std::vector<const CatalogueEntry*>& entries) {
  Json models = Json::array();
  for (const CatalogueEntry* entry : entries) models.push_back(summary_json(*entry, catalogue_model(*entry)));
  return Json{{"schema", "zplan.models/1"}, {"models", std::move(models)}}.dump(2) + "\n";
}

std::string list_text(const std::vector<const CatalogueEntry*>& entries, const Style& style) {
  Table table{{{"model", "", false, kAlways},
               {"parameters", "", true, kAlways},
               {"active", "", true, 5},
               {"layers", "", true, 6},
               {"hidden", "", true, 7},
               {"heads", "", true, 4},
               {"vocabulary", "", true, 3},
               {"architecture", "", false, 8}},
              {}};
  for (const CatalogueEntry* entry : entries) {
    const Model model = catalogue_model(*entry);
    const ModelShape& shape = model.shape;
    const Elements all = parameters(model), active = active_parameters(model);
    table.rows.push_back({{entry->name, format_count(all), active == all ? "" : format_count(active),
                           fmt::format("{}", shape.layers), fmt::format("{}", shape.hidden_size),
                           fmt::format("{}/{}", shape.attention_heads, shape.key_value_heads),
                           fmt::format("{}", shape.vocabulary_size), shape.architecture}});
  }
  return render_text(table, style);
}

/// Lists how zplan knows each architecture: by a descriptor, a recording, or its tensors alone.
std::string architectures_text(const Style& style) {
  Table table{{{"architecture", "", false, kAlways},
               {"tensors", "", false, kAlways},
               {"micro-step", "", false, kAlways},
               {"recorded sizes", "", true, 3}},
              {}};
  for (const std::string& name : supported_architectures())
    table.rows.push_back({{name, "descriptor", "descriptor", ""}});
  for (const RecordedArchitecture& each : recorded_architectures())
    table.rows.push_back(
        {{each.name, fmt::format("recorded ({})", each.sizes),
          each.sizes_with_steps > 0 ? "recorded" : "by analogy", fmt::format("{}", each.sizes_with_steps)}});
  return render_text(table, style) +
         paragraph("",
                   "Sizes that were not recorded, and architectures that are not listed, are "
                   "planned by analogy; zplan trace records them.",
                   style.width);
}

Json architectures_json() {
  Json listed = Json::array();
  for (const std::string& name : supported_architectures())
    listed.push_back({{"name", name}, {"known_by", "descriptor"}, {"recorded_sizes", 0}});
  for (const RecordedArchitecture& each : recorded_architectures())
    listed.push_back({{"name", each.name},
                      {"known_by", each.sizes_with_steps > 0 ? "recorded" : "analogy"},
                      {"recorded_sizes", each.sizes_with_steps}});
  return Json{{"schema", "zplan.architectures/1"}, {"architectures", std::move(listed)}};
}

std::vector<const CatalogueEntry*> all_entries() {
  std::vector<const CatalogueEntry*> entries;
  for (const CatalogueEntry& entry : catalogue()) entries.push_back(&entry);
  return entries;
}

void add_tensors(Table& table, const std::string& where, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors)
    table.rows.push_back({{where, tensor.name, shape_text(tensor.shape),
                           group_digits(tensor.elements().value), std::string(to_name(tensor.role))}});
}

std::string layer_label(const Inventory& inventory, std::size_t kind) {
  std::int64_t count = 0;
  for (const std::size_t each : inventory.layers) count += each == kind ? 1 : 0;
  return fmt::format("{} x {}", count, inventory.kinds[kind].name);
}

Table tensor_table(const Inventory& inventory) {
  Table table{{{"where", "", false, 5},
               {"tensor", "", false, kAlways},
               {"shape", "", true, 8},
               {"elements", "", true, kAlways},
               {"role", "", false, 4}},
              {}};
  add_tensors(table, "before", inventory.before);
  for (std::size_t i = 0; i < inventory.kinds.size(); ++i)
    add_tensors(table, layer_label(inventory, i), inventory.kinds[i].tensors);
  add_tensors(table, "after", inventory.after);
  return table;
}

std::string show_text(const Model& model, const Style& style) {
  const ModelShape& shape = model.shape;
  const Elements active = active_parameters(model);
  std::string out =
      paragraph("",
                fmt::format("{}: {} parameters ({})", model.name, group_digits(parameters(model).value),
                            format_count(parameters(model))),
                style.width);
  if (active != parameters(model)) out += fmt::format("{} active per token\n", format_count(active));
  out += paragraph(
      "",
      fmt::format(
          "{}: {} layers, hidden {}, {} heads, {} key-value heads of {}, feed-forward {}, vocabulary {}{}",
          shape.architecture, shape.layers, shape.hidden_size, shape.attention_heads, shape.key_value_heads,
          shape.head_size, shape.intermediate_size, shape.vocabulary_size,
          shape.tied_embeddings ? ", tied embeddings" : ""),
      style.width);
  if (!model.read_as.empty()) out += paragraph("", model.read_as, style.width);
  out += paragraph("source: ", fmt::format("{} ({})", model.origin, to_name(model.source)), style.width);
  return out + "\n" + render_text(tensor_table(model.inventory), style);
}

Json tensors_json(const std::string& where, const std::vector<Tensor>& tensors) {
  Json out = Json::array();
  for (const Tensor& tensor : tensors)
    out.push_back({{"where", where},
                   {"name", tensor.name},
                   {"shape", tensor.shape},
                   {"role", std::string(to_name(tensor.role))}});
  return out;
}

std::string show_json(const Model& model) {
  const Inventory& inventory = model.inventory;
  Json tensors = tensors_json("before", inventory.before);
  for (std::size_t i = 0; i < inventory.kinds.size(); ++i)
    for (Json& each : tensors_json(layer_label(inventory, i), inventory.kinds[i].tensors))
      tensors.push_back(std::move(each));
  for (Json& each : tensors_json("after", inventory.after)) tensors.push_back(std::move(each));
  return json_text(Json{{"schema", "zplan.model/1"},
                        {"name", model.name},
                        {"source", std::string(to_name(model.source))},
                        {"origin", model.origin},
                        {"architecture", model.shape.architecture},
                        {"parameters", parameters(model).value},
                        {"active_parameters", active_parameters(model).value},
                        {"layers", model.shape.layers},
                        {"hidden_size", model.shape.hidden_size},
                        {"tensors", std::move(tensors)}});
}

}  // namespace

CatalogueAction catalogue_action(const Options& options) {
  const std::string command(to_name(options.command));
  if (options.words.empty()) return {"list", ""};
  std::vector<std::string> verbs{"list", "show", "search"};
  if (options.command == Command::models) verbs.emplace_back("architectures");
  if (options.command == Command::hardware) verbs.emplace_back("instances");
  const std::string& verb = options.words.front();
  if (std::find(verbs.begin(), verbs.end(), verb) == verbs.end()) {
    if (options.command == Command::hardware) verbs.insert(verbs.end(), {"compare", "import"});
    throw InputError(command, in_quotes(verb), accepted_words(verb, verbs));
  }
  const std::string text = fmt::format("{}", fmt::join(options.words.begin() + 1, options.words.end(), " "));
  if (verb == "list" && !text.empty())
    throw InputError(command + " list", in_quotes(text), "accepted: nothing more; search takes words");
  if (verb != "list" && verb != "instances" && text.empty())
    throw InputError(command + " " + verb, "no name", fmt::format("accepted: {} {} NAME", command, verb));
  return {verb, text};
}

int models_command(const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
  const bool json = options.format == OutputFormat::json;
  if (options.words == std::vector<std::string>{"architectures"}) {
    out << (json ? architectures_json().dump(2) + "\n" : architectures_text(style));
    return kFits;
  }
  const CatalogueAction action = catalogue_action(options);
  if (action.verb == "show") {
    const Model model = resolve_model(action.text, model_search(options, environment));
    out << (json ? show_json(model) : show_text(model, style));
    return kFits;
  }
  const auto entries = action.verb == "list" ? all_entries() : search_catalogue(action.text);
  if (entries.empty())
    throw InputError("models search", in_quotes(action.text) + " is in no name",
                     "zplan models lists all names");
  out << (json ? list_json(entries) : list_text(entries, style));
  return kFits;
}

}  // namespace zplan
