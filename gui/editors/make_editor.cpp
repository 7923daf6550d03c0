#include "gui/editors/make_editor.h"

#include <algorithm>
#include <array>

#include "gui/editors/number_editor.h"
#include "gui/editors/option_words.h"
#include "gui/editors/picker.h"
#include "gui/editors/simple_editors.h"

namespace zplan::gui {

namespace {

using Stops = std::vector<qint64> (*)();
constexpr std::array<std::pair<std::string_view, Stops>, 3> kSliders{
    {{"--seq", sequence_stops}, {"--micro-batch", micro_batch_stops}, {"--gpus", gpu_stops}}};

struct Names {
  std::string_view option;
  NameTable* (*make)(const Environment&, QObject*);
  const char* title;  ///< of the dialog for a file; null: none
};
constexpr std::array kNames{
    Names{"--model", model_names, QT_TRANSLATE_NOOP("zplan::gui::Picker", "Browse for a config.json")},
    Names{"--value-model", model_names, QT_TRANSLATE_NOOP("zplan::gui::Picker", "Browse for a config.json")},
    Names{"--reward-model", model_names, QT_TRANSLATE_NOOP("zplan::gui::Picker", "Browse for a config.json")},
    Names{"--gpu", gpu_names, nullptr},
    Names{"--instance", instance_names, nullptr},
    Names{"--node", node_names, nullptr},
    Names{"--network", network_names, nullptr}};

QStringList words_of(const OptionSpec& spec) {
  QStringList words;
  if (spec.choices != nullptr)
    for (const std::string& word : spec.choices()) words << QString::fromStdString(word);
  return words;
}

/// Lists of which all words are known. Modules with adapters may be any of the model's.
bool is_closed_list(const OptionSpec& spec) {
  return spec.value == "LIST" && spec.choices != nullptr && spec.name != "--lora-targets";
}

Picker* make_picker(const Names& names, const Environment& environment) {
  const QString title = names.title == nullptr ? QString() : Picker::tr(names.title);
  NameTable* table = names.make(environment, nullptr);
  auto* picker = new Picker(table, title);
  table->setParent(picker);
  return picker;
}

}  // namespace

ValueEditor* make_editor(const OptionSpec& spec, const Environment& environment) {
  if (spec.value.empty()) return new FlagEditor(option_label(spec));
  if (const auto names = std::ranges::find(kNames, spec.name, &Names::option); names != kNames.end())
    return make_picker(*names, environment);
  for (const auto& [option, stops] : kSliders)
    if (option == spec.name) return new NumberEditor(stops());
  const QStringList words = words_of(spec);
  if (is_closed_list(spec)) return new ChecksEditor(words, words.size() > 4 ? 2 : 4);
  // Of releases there are more than those that stand for their series.
  if (!words.isEmpty() && spec.value != "LIST" && spec.value != "V") return new ChoiceEditor(words);
  if (spec.value == "FILE") return new FileEditor;
  const bool is_degree =
      spec.name == "--tp" || spec.name == "--sp" || spec.name == "--cp" || spec.name == "--ep";
  return new TextEditor(is_degree ? QStringList{"1", "2", "4", "8", "1,2,4,8"} : words);
}

}  // namespace zplan::gui
