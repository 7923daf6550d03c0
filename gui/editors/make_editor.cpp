// Which editor an option has, by its type.

#include <algorithm>
#include <array>

#include "gui/editors/number_editor.h"
#include "gui/editors/option_field.h"
#include "gui/editors/picker.h"
#include "gui/editors/simple_editors.h"

namespace zplan::gui {

namespace {

using Stops = std::vector<qint64> (*)();
constexpr std::array<std::pair<std::string_view, Stops>, 3> kSliders{
    {{"--seq", sequence_stops}, {"--micro-batch", micro_batch_stops}, {"--gpus", gpu_stops}}};

NameTable* names_of(const OptionType& type, const Environment& environment) {
  switch (type.names) {
    case NamesOf::models: return model_names(environment, nullptr);
    case NamesOf::gpus: return gpu_names(environment, nullptr);
    case NamesOf::instances: return instance_names(environment, nullptr);
    case NamesOf::nodes: return node_names(environment, nullptr);
    case NamesOf::networks: return network_names(environment, nullptr);
    case NamesOf::nothing: break;
  }
  return nullptr;
}

Picker* make_picker(NameTable* names, bool of_models) {
  auto* picker = new Picker(names, of_models ? Picker::tr("Browse for a config.json") : QString());
  names->setParent(picker);
  return picker;
}

}  // namespace

ValueEditor* make_editor(const OptionSpec& spec, const Environment& environment) {
  const OptionType& type = spec.type;
  if (type.kind == OptionKind::flag) return new FlagEditor(option_label(spec));
  if (NameTable* names = names_of(type, environment))
    return make_picker(names, type.names == NamesOf::models);
  for (const auto& [option, stops] : kSliders)
    if (option == spec.name) return new NumberEditor(stops());
  QStringList words;
  for (const std::string& word : type.words) words << QString::fromStdString(word);
  if (type.is_list && !words.isEmpty() && !type.is_open)
    return new ChecksEditor(words, words.size() > 4 ? 2 : 4);
  if (!type.is_list && !words.isEmpty() && type.kind != OptionKind::text) return new ChoiceEditor(words);
  if (!type.is_list && type.is_file) return new FileEditor;
  return new TextEditor(words);
}

}  // namespace zplan::gui
