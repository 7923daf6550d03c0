// Which names there are: the catalogue of models and the hardware profiles, as `zplan models` and `zplan
// hardware` list them.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gui/editors/name_table.h"
#include "hardware_profiles/profiles.h"
#include "models/base/error.h"
#include "models/base/format.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"

namespace zplan::gui {

namespace {

namespace fs = std::filesystem;

QString text(const std::string& utf8) { return QString::fromStdString(utf8); }

QStringList texts(const std::vector<std::string>& list) {
  QStringList all;
  for (const std::string& each : list) all << text(each);
  return all;
}

QString rate(BytesPerSecond speed) {
  return speed.value > 0 ? text(format_rate(speed)) : QStringLiteral("–");
}

NameTable::Row row_of(const CatalogueEntry& entry) {
  return {text(entry.name), texts(entry.aliases), [&entry] {
            const Model model = catalogue_model(entry);
            const Elements all = parameters(model), active = active_parameters(model);
            return QStringList{text(format_count(all)),
                               active == all ? QStringLiteral("–") : text(format_count(active)),
                               QString::number(model.shape.layers)};
          }};
}

/// Entries live as long as their rows.
NameTable::Row row_of(CatalogueEntry&& entry) {
  const auto kept = std::make_shared<const CatalogueEntry>(std::move(entry));
  NameTable::Row row = row_of(*kept);
  row.details = [kept, details = row.details] { return details(); };
  return row;
}

/// What is no file of entries is left out here; naming it as the model says what is wrong with it.
void add_user_models(std::vector<NameTable::Row>& rows, const std::string& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored)) {
    if (file.path().extension() != ".json") continue;
    try {
      const std::string path = file.path().string();
      for (CatalogueEntry& entry : read_entries(parse_json(read_file(path), path), path)) {
        (void)catalogue_model(entry);  // throws where its config will not do
        rows.push_back(row_of(std::move(entry)));
      }
    } catch (const InputError&) {
      continue;
    }
  }
}

/// A user's profile that cannot be read is said where a scenario is planned.
HardwareProfiles profiles(const Environment& environment) {
  try {
    return with_user_profiles(user_hardware_folder(environment));
  } catch (const InputError&) {
    return built_in_profiles();
  }
}

template <class List, class Details>
std::vector<NameTable::Row> rows_of(const List& list, Details details) {
  std::vector<NameTable::Row> rows;
  for (const auto& each : list)
    rows.push_back({text(each.name), texts(each.aliases), [found = details(each)] { return found; }});
  return rows;
}

}  // namespace

NameTable* model_names(const Environment& environment, QObject* parent) {
  std::vector<NameTable::Row> rows;
  for (const CatalogueEntry& entry : catalogue()) rows.push_back(row_of(entry));
  if (const std::string folder = user_models_folder(environment); !folder.empty())
    add_user_models(rows, folder);
  return new NameTable(
      {NameTable::tr("Model"), NameTable::tr("Parameters"), NameTable::tr("Active"), NameTable::tr("Layers")},
      std::move(rows), parent);
}

NameTable* gpu_names(const Environment& environment, QObject* parent) {
  const auto details = [](const Gpu& gpu) {
    return QStringList{text(format_bytes(gpu.memory)), rate(gpu.memory_bandwidth), rate(gpu.nvlink)};
  };
  return new NameTable(
      {NameTable::tr("GPU"), NameTable::tr("Memory"), NameTable::tr("Bandwidth"), NameTable::tr("NVLink")},
      rows_of(profiles(environment).gpus, details), parent);
}

NameTable* instance_names(const Environment& environment, QObject* parent) {
  const auto details = [](const Instance& instance) {
    return QStringList{QString::number(instance.gpus), text(instance.gpu),
                       text(format_bytes(instance.host_memory))};
  };
  return new NameTable({NameTable::tr("Cloud shape"), NameTable::tr("GPUs"), NameTable::tr("GPU"),
                        NameTable::tr("Host memory")},
                       rows_of(profiles(environment).instances, details), parent);
}

NameTable* node_names(const Environment& environment, QObject* parent) {
  const auto details = [](const Node& node) {
    return QStringList{text(std::string(to_name(node.fabric))), text(format_bytes(node.host_memory))};
  };
  return new NameTable(
      {NameTable::tr("Node type"), NameTable::tr("Connected by"), NameTable::tr("Host memory")},
      rows_of(profiles(environment).nodes, details), parent);
}

NameTable* network_names(const Environment& environment, QObject* parent) {
  const auto details = [](const Network& network) {
    return QStringList{QString::number(network.nics), rate(network.per_node),
                       text(format_seconds(network.latency))};
  };
  return new NameTable(
      {NameTable::tr("Network"), NameTable::tr("NICs"), NameTable::tr("Per node"), NameTable::tr("Latency")},
      rows_of(profiles(environment).networks, details), parent);
}

}  // namespace zplan::gui
