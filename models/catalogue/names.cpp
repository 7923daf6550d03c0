#include "models/catalogue/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "models/base/embedded.h"
#include "models/base/json_reader.h"
#include "models/base/names.h"
#include "models/catalogue/lookup.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> name_rules;
}

namespace {

Json rules_file(std::string_view name) {
  for (const embedded::EmbeddedFile& file : embedded::name_rules)
    if (file.name == name) return parse_json(file.text, std::string(name));
  return {};
}

struct NameRules {
  std::vector<PackedName> packed;
  std::set<std::string, std::less<>> variants;     ///< words of a name that do not change the shape
  std::vector<std::string> dated;                  ///< families in which a date does not change it either
  std::set<std::string, std::less<>> other_shape;  ///< names that look like copies and are none
  std::vector<std::string> reshaping;  ///< parts of words behind a model's name that say another shape
  std::set<std::string, std::less<>> reshaping_words;         ///< whole words that say so
  std::map<std::string, OtherSize, std::less<>> other_sizes;  ///< by name in lower case
};

void read_other_sizes(const Json& list, NameRules& rules) {
  for (const Json& each : list) {
    const OtherSize size{.of = each.at("of"),
                         .vocabulary = each.value("vocabulary", std::int64_t{0}),
                         .score_outputs = each.value("score_outputs", std::int64_t{0})};
    for (const Json& name : each.at("names")) rules.other_sizes[lower_case(name.get<std::string>())] = size;
  }
}

const NameRules& rules() {
  static const NameRules all = [] {
    const Json file = rules_file("names/rules.json");
    NameRules read;
    for (const Json& each : file.at("packed"))
      read.packed.push_back({.ending = each.at("ending"),
                             .method = each.at("method"),
                             .quantization = each.value("quantization", ""),
                             .partly = each.value("partly", false)});
    for (const Json& each : file.at("variants")) read.variants.insert(each.get<std::string>());
    for (const Json& each : file.at("dated")) read.dated.push_back(each);
    for (const Json& each : file.at("other_shape"))
      read.other_shape.insert(lower_case(each.get<std::string>()));
    for (const Json& each : file.at("reshaping")) read.reshaping.push_back(each);
    for (const Json& each : file.at("reshaping_words")) read.reshaping_words.insert(each.get<std::string>());
    read_other_sizes(file.at("other_sizes"), read);
    return read;
  }();
  return all;
}

std::string_view last_part(std::string_view id) { return id.substr(id.find('/') + 1); }
std::string_view organisation(std::string_view id) {
  const std::size_t slash = id.find('/');
  return slash == std::string_view::npos ? std::string_view() : id.substr(0, slash);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "InternVL2_5-8B" → "internvl2.5", "8b".
std::vector<std::string> words_of_name(std::string_view name) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool decimal =
        name[i] == '_' && i > 0 && i + 1 < name.size() && is_digit(name[i - 1]) && is_digit(name[i + 1]);
    if (decimal)
      words.back() += '.';
    else if (name[i] == '-' || name[i] == '_' || name[i] == ' ')
      words.emplace_back();
    else
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return words;
}

/// A name without the words that do not change its shape.
struct Stem {
  std::string text;
  std::set<std::string> left_out;
};

bool is_date(const std::string& word) {
  return word.size() == 4 && std::all_of(word.begin(), word.end(), is_digit);
}

/// Returns the words of the last part of a name; "Meta-Llama" is "Llama".
std::vector<std::string> words_of_model(std::string_view name) {
  std::vector<std::string> words = words_of_name(last_part(name));
  if (words.size() > 1 && words[0] == "meta" && words[1].starts_with("llama")) words.erase(words.begin());
  return words;
}

Stem stem_of(const std::vector<std::string>& words) {
  Stem stem;
  std::vector<std::string> dates;
  for (const std::string& word : words) {
    if (rules().variants.contains(word))
      stem.left_out.insert(word);
    else if (is_date(word))
      dates.push_back(word);
    else
      stem.text += word;
  }
  const bool dated = std::any_of(rules().dated.begin(), rules().dated.end(),
                                 [&](const std::string& family) { return stem.text.starts_with(family); });
  for (const std::string& date : dates) {
    if (dated)
      stem.left_out.insert(date);
    else
      stem.text += "@" + date;
  }
  return stem;
}

Stem stem_of(std::string_view name) { return stem_of(words_of_model(name)); }

/// A name of an entry, and the entry.
struct Named {
  std::string name;
  const CatalogueEntry* entry{};
  bool is_own{};  ///< of the catalogue, not of names/aliases.json
};

struct NameIndex {
  std::map<std::string, const CatalogueEntry*> aliases;  ///< names/aliases.json: whole ids in lower case
  std::map<std::string, std::vector<Named>> last_parts;  ///< in lower case
  std::map<std::string, std::vector<Named>> stems;
};

void add_name(NameIndex& index, const Named& named) {
  index.last_parts[lower_case(std::string(last_part(named.name)))].push_back(named);
  index.stems[stem_of(named.name).text].push_back(named);
}

const NameIndex& name_index() {
  static const NameIndex all = [] {
    NameIndex index;
    std::map<std::string, const CatalogueEntry*, std::less<>> entries;
    for (const CatalogueEntry& entry : catalogue()) {
      entries[entry.name] = &entry;
      add_name(index, {entry.name, &entry, true});
      for (const std::string& alias : entry.aliases) add_name(index, {alias, &entry, true});
    }
    const Json file = rules_file("names/aliases.json");
    for (const auto& [name, aliases] : file.items()) {
      const CatalogueEntry* entry = entries.at(name);
      for (const Json& each : aliases) {
        const auto alias = each.get<std::string>();
        index.aliases[lower_case(alias)] = entry;
        add_name(index, {alias, entry, false});
      }
    }
    return index;
  }();
  return all;
}

bool all_one(const std::vector<Named>& found) {
  return !found.empty() && std::all_of(found.begin(), found.end(),
                                       [&](const Named& each) { return each.entry == found.front().entry; });
}

/// Returns the one entry among those found; of several the one of the same account, else the one of which it
/// is the catalogue's own name; else null.
const CatalogueEntry* only_entry(const std::vector<Named>& found, std::string_view name) {
  if (all_one(found)) return found.front().entry;
  const std::string account = lower_case(std::string(organisation(name)));
  std::vector<Named> of_account, own;
  for (const Named& each : found) {
    if (lower_case(std::string(organisation(each.name))) == account) of_account.push_back(each);
    if (each.is_own) own.push_back(each);
  }
  if (all_one(of_account)) return of_account.front().entry;
  return of_account.empty() && all_one(own) ? own.front().entry : nullptr;
}

const CatalogueEntry* of_same_name(std::string_view name) {
  const NameIndex& index = name_index();
  const auto found = index.last_parts.find(lower_case(std::string(last_part(name))));
  return found == index.last_parts.end() ? nullptr : only_entry(found->second, name);
}

/// Returns the entry of the same stem, of several the one of which the same words were left out.
const CatalogueEntry* of_same_stem(std::string_view name) {
  const NameIndex& index = name_index();
  const Stem stem = stem_of(name);
  const auto at = index.stems.find(stem.text);
  if (stem.text.empty() || at == index.stems.end()) return nullptr;
  if (const CatalogueEntry* only = only_entry(at->second, name)) return only;
  std::vector<Named> same;
  for (const Named& each : at->second)
    if (stem_of(each.name).left_out == stem.left_out) same.push_back(each);
  return only_entry(same, name);
}

const CatalogueEntry* alias_of(std::string_view name) {
  const auto found = name_index().aliases.find(lower_case(std::string(name)));
  return found == name_index().aliases.end() ? nullptr : found->second;
}

const OtherSize* other_size_of(std::string_view name) {
  const std::string whole = lower_case(std::string(name));
  for (const std::string_view each : {std::string_view(whole), last_part(whole)})
    if (const auto found = rules().other_sizes.find(each); found != rules().other_sizes.end())
      return &found->second;
  return nullptr;
}

const CatalogueEntry* entry_with_name(std::string_view name) {
  const auto found = entries_named(name, NameMatch::exact, catalogue());
  return found.size() == 1 ? found.front() : nullptr;
}

bool is_of_other_shape(std::string_view name) {
  const std::string whole = lower_case(std::string(name));
  return rules().other_shape.contains(whole) || rules().other_shape.contains(std::string(last_part(whole)));
}

std::string difference_in_words(const OtherSize& other) {
  if (other.score_outputs == 1) return "with a head of one output";
  if (other.score_outputs > 1) return fmt::format("with a head of {} outputs", other.score_outputs);
  return fmt::format("with a vocabulary of {}", other.vocabulary);
}

/// Returns what a name means as it is written, its packing aside.
std::optional<NameMeaning> unpacked_meaning(std::string_view name) {
  if (is_of_other_shape(name)) return std::nullopt;
  if (const OtherSize* other = other_size_of(name))
    return NameMeaning{
        .entry = entry_with_name(other->of), .why = difference_in_words(*other), .other = other};
  if (const CatalogueEntry* entry = entry_with_name(name)) return NameMeaning{.entry = entry};
  if (const CatalogueEntry* entry = alias_of(name))
    return NameMeaning{.entry = entry, .why = "of the same shape"};
  if (const CatalogueEntry* entry = of_same_name(name))
    return NameMeaning{.entry = entry, .why = "a copy of the same name"};
  if (const CatalogueEntry* entry = of_same_stem(name))
    return NameMeaning{.entry = entry, .why = "of the same shape by its name"};
  return std::nullopt;
}

bool is_size(std::string_view word) {
  const auto size = parse_size(word);
  constexpr Elements kLeast{50'000'000};  // "300k" and "1m" are lengths
  return (size && *size >= kLeast) ||
         (!word.empty() && is_digit(word.front()) && word.find('x') != word.npos);
}

/// True if a word behind a model's name may not stand for data, a method or a version of training.
bool says_other_shape(const std::string& word) {
  return is_size(word) || is_date(word) || rules().reshaping_words.contains(word) ||
         std::any_of(rules().reshaping.begin(), rules().reshaping.end(),
                     [&](const std::string& part) { return word.find(part) != std::string::npos; });
}

/// Returns the entry of which the first words of a name are the name.
const CatalogueEntry* entry_of_words(const std::vector<std::string>& words) {
  const auto at = name_index().stems.find(stem_of(words).text);
  if (at == name_index().stems.end() || std::none_of(words.begin(), words.end(), is_size)) return nullptr;
  return only_entry(at->second, "");
}

}  // namespace

namespace {

/// Returns a config's text with another size of the vocabulary, which image-text models state for their text.
std::string with_vocabulary(const std::string& text, std::int64_t tokens) {
  Json config = Json::parse(text);
  Json& of_text = config.contains("text_config") ? config["text_config"] : config;
  of_text["vocab_size"] = tokens;
  return config.dump();
}

}  // namespace

const PackedName* packed_name(std::string_view name) {
  const std::string whole = lower_case(std::string(name));
  const PackedName* longest = nullptr;
  for (const PackedName& each : rules().packed)
    if (whole.ends_with(each.ending) && (longest == nullptr || each.ending.size() > longest->ending.size()))
      longest = &each;
  return longest;
}

namespace {

constexpr std::size_t kLongestName = 200;

/// Returns a name without all the endings that say how its weights are packed.
std::string_view without_packing(std::string_view name) {
  for (const PackedName* end = packed_name(name); end != nullptr; end = packed_name(name))
    name.remove_suffix(end->ending.size());
  return name;
}

/// Returns how a named repository packs its weights; null: in 16 bits.
const PackedName* packed_method(std::string_view name) {
  const PackedName* packed = packed_name(name);
  return packed == nullptr || packed->method.empty() ? nullptr : packed;
}

}  // namespace

std::optional<NameMeaning> meaning_of_name(std::string_view name) {
  if (name.size() > kLongestName || std::count(name.begin(), name.end(), '/') > 1) return std::nullopt;
  if (auto meaning = unpacked_meaning(name)) return meaning;
  const PackedName* packed = packed_name(name);
  if (packed == nullptr) return std::nullopt;
  auto meaning = unpacked_meaning(without_packing(name));
  if (!meaning) return std::nullopt;
  meaning->why = packed->method.empty() ? "a copy of it" : "a packed copy of it";
  meaning->packed = packed_method(name);
  return meaning;
}

std::optional<NameMeaning> tuned_meaning(std::string_view name) {
  if (name.size() > kLongestName || is_of_other_shape(name)) return std::nullopt;
  std::vector<std::string> words = words_of_model(without_packing(name));
  while (words.size() > 1 && !says_other_shape(words.back())) {
    words.pop_back();
    if (const CatalogueEntry* entry = entry_of_words(words))
      return NameMeaning{.entry = entry,
                         .why = "taken for a fine-tune of it by its name alone",
                         .packed = packed_method(name)};
  }
  return std::nullopt;
}

Model model_of_meaning(const NameMeaning& meaning) {
  if (meaning.other == nullptr) return catalogue_model(*meaning.entry);
  CatalogueEntry entry = *meaning.entry;
  if (meaning.other->vocabulary > 0) entry.config = with_vocabulary(entry.config, meaning.other->vocabulary);
  Model model = catalogue_model(entry);
  if (meaning.other->score_outputs == 0) return model;
  replace_head_by_score(model.inventory, model.shape.hidden_size, meaning.other->score_outputs);
  model.shape.tied_embeddings = false;
  return model;
}

std::string meaning_in_words(std::string_view name, const NameMeaning& meaning) {
  return fmt::format("{} is planned as {}, {}", name, meaning.entry->name, meaning.why);
}

}  // namespace zplan
