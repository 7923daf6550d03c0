#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// A named model: its Hugging Face config, and the source of that. Counts are derived, never stored.
struct CatalogueEntry {
  std::string name;  ///< Hub id: "Qwen/Qwen3-8B"
  std::vector<std::string> aliases;
  std::string source;    ///< where the config was read
  std::string revision;  ///< of the source; empty where it has none
  std::string config;    ///< as JSON, which hardly any question reads
};

/// Returns the models compiled into the program, sorted by name.
[[nodiscard]] const std::vector<CatalogueEntry>& catalogue();

/// HubAnswer holds a hub's answer about one repository.
struct HubAnswer {
  std::string config{};    ///< its config.json; empty: there is none
  std::string base{};      ///< a repository of adapters: the model that they belong to
  std::string origin{};    ///< of the config: "ORG/NAME at revision abc, from huggingface.co"
  std::string why_none{};  ///< why there is neither: "huggingface.co has no such model"
};

/// ModelSearch names the places of resolve_model besides the catalogue. Nothing here reads the environment or
/// the network.
struct ModelSearch {
  std::string user_models{};       ///< folder of the user's own *.json entries; empty: none
  std::string hub_cache{};         ///< Hugging Face hub cache ("…/huggingface/hub"); empty: none
  std::string modelscope_cache{};  ///< ModelScope's cache; empty: not looked into
  std::function<HubAnswer(std::string_view id)>
      hub{};                 ///< asks a hub for what is nowhere else; empty: none is asked
  std::string why_no_hub{};  ///< why none is asked: "offline"
};

/// Returns the model that `text`, a value of --model, means: a catalogue name or alias (case-insensitive,
/// with or without the organisation), a bare size ("8B"), a config.json, a folder that holds one, a Hub id
/// in the local cache, a name that means a known model (meaning_of_name), or a Hub id that `where.hub` knows.
/// Throws InputError("--model", …) with the nearest names if nothing matches.
[[nodiscard]] Model resolve_model(std::string_view text, const ModelSearch& where);

/// Returns the model of a catalogue entry.
[[nodiscard]] Model catalogue_model(const CatalogueEntry& entry);

/// Returns the elements of "8B", "0.5B", "1.1T" or "350M", nothing if the text is not a bare size.
[[nodiscard]] std::optional<Elements> parse_size(std::string_view text);

/// Returns a dense Llama-style model of exactly `size` parameters: the nearest such shape of the catalogue,
/// scaled.
[[nodiscard]] Model infer_model(Elements size);

/// Returns the entries whose name or alias contains every word of `words`, best first.
[[nodiscard]] std::vector<const CatalogueEntry*> search_catalogue(std::string_view words);

}  // namespace zplan
