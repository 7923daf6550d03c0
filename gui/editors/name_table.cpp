#include "gui/editors/name_table.h"

#include <QRegularExpression>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hardware_profiles/profiles.h"
#include "models/base/error.h"
#include "models/base/format.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"

namespace zplan::gui {

namespace {

QString folded(const QString& text) {
  QString kept;
  for (const QChar c : text)
    if (c.isLetterOrNumber()) kept += c.toLower();
  return kept;
}

/// Returns the parts of a name: of "meta-llama/Llama-3.1-8B" meta, llama, llama, 3, 1, 8b.
QStringList parts(const QString& name) {
  static const QRegularExpression between(QStringLiteral("[^\\p{L}\\p{N}]+"));
  return name.toLower().split(between, Qt::SkipEmptyParts);
}

bool has_all(const QString& name, const QStringList& words) {
  return std::ranges::all_of(words, [&name](const QString& word) { return name.contains(word); });
}

}  // namespace

NameTable::NameTable(QStringList headings, std::vector<Row> rows, QObject* parent)
    : QAbstractTableModel(parent),
      headings_(std::move(headings)),
      rows_(std::move(rows)),
      details_(rows_.size()) {}

int NameTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int NameTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(headings_.size());
}

const QStringList& NameTable::details(std::size_t row) const {
  if (details_[row].isEmpty()) details_[row] = rows_[row].details();
  return details_[row];
}

QVariant NameTable::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid)) return {};
  const auto row = static_cast<std::size_t>(index.row());
  const bool is_name = index.column() == 0;
  switch (role) {
    case Qt::DisplayRole: return is_name ? rows_[row].name : details(row).value(index.column() - 1);
    case Qt::EditRole: return rows_[row].name;
    case Qt::ToolTipRole: return rows_[row].aliases.join(QStringLiteral(", "));
    case Qt::TextAlignmentRole:
      return QVariant(Qt::AlignVCenter | (is_name ? Qt::AlignLeading : Qt::AlignTrailing));
    case kNames: return QStringList(rows_[row].name) + rows_[row].aliases;
    default: return {};
  }
}

QVariant NameTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= headings_.size()) return {};
  if (role == Qt::DisplayRole) return headings_[section];
  if (role == Qt::TextAlignmentRole)
    return QVariant(Qt::AlignVCenter | (section == 0 ? Qt::AlignLeading : Qt::AlignTrailing));
  return {};
}

// ---- search
// ---------------------------------------------------------------------------------------------------------

NameFilter::NameFilter(NameTable* names, QObject* parent) : QSortFilterProxyModel(parent) {
  setDynamicSortFilter(true);
  setSourceModel(names);
  sort(0);
}

void NameFilter::look_for(const QString& words) {
  QStringList wanted;
  for (const QString& word : words.split(QLatin1Char(' '), Qt::SkipEmptyParts))
    if (const QString bare = folded(word); !bare.isEmpty()) wanted << bare;
  if (wanted == words_) return;
  words_ = wanted;
  invalidate();
}

bool NameFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
  const QStringList names = sourceModel()->index(row, 0, parent).data(NameTable::kNames).toStringList();
  return std::ranges::any_of(names, [this](const QString& name) { return has_all(folded(name), words_); });
}

int NameFilter::distance(const QModelIndex& index) const {
  const QString all = words_.join(QString());
  if (all.isEmpty()) return 0;
  int least = 3;
  for (const QString& name : index.data(NameTable::kNames).toStringList()) {
    const QString whole = folded(name), bare = folded(name.section(QLatin1Char('/'), -1));
    const QStringList own = parts(name);
    const bool has_parts =
        std::ranges::all_of(words_, [&own](const QString& word) { return own.contains(word); });
    const bool begins = bare.startsWith(all) || whole.startsWith(all);
    least = std::min(least, has_parts ? 0 : begins ? 1 : whole.contains(all) ? 2 : 3);
  }
  return least;
}

bool NameFilter::lessThan(const QModelIndex& left, const QModelIndex& right) const {
  const int a = distance(left), b = distance(right);
  return a != b ? a < b : left.row() < right.row();
}

// ---- the names there are: the catalogue of models and the hardware profiles
// ---------------------------------------------------------------------------------------------------------

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

/// Adds the user's models; files that hold none are skipped, and planning them reports the error.
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

/// Returns all profiles; without the user's where one cannot be read, which planning reports.
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
