#pragma once
// Reads names that no entry has: copies under other accounts, variants of training, packed weights.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/catalogue/catalogue.h"

namespace zplan {

/// Holds what the end of a repository's name says of its weights.
struct PackedName {
  std::string ending;        ///< "-bnb-4bit", in lower case
  std::string method;        ///< quantization_config's quant_method
  std::string quantization;  ///< value of --quantization for adapters on them; empty: not planned
  bool partly{};             ///< some layers stay in 16 bits, which the name does not count
};

/// Returns the longest known ending of `name` that says how its weights are packed, or null.
[[nodiscard]] const PackedName* packed_name(std::string_view name);

/// Says in which size the model of a name differs from its entry: rows of the embedding, or the head.
struct OtherSize {
  std::string of;                ///< name of the entry
  std::int64_t vocabulary{};     ///< tokens; 0: the entry's
  std::int64_t score_outputs{};  ///< outputs of a scoring head in the place of the output embedding; 0: none
};

/// An entry that a name means without being called so.
struct NameMeaning {
  const CatalogueEntry* entry{};
  std::string why{};           ///< "a copy of the same name", "the same shape"
  const PackedName* packed{};  ///< how the named repository packs its weights; null: in 16 bits
  const OtherSize* other{};    ///< what differs from the entry; null: nothing
};

/// Returns the entry of the same shape that `name` means: a copy under another account, a variant of training
/// (-Instruct), a packed copy (-AWQ), or a known alias. Nothing where no entry or several are meant, and for
/// names that are known to be of another shape.
[[nodiscard]] std::optional<NameMeaning> meaning_of_name(std::string_view name);

/// Returns the entry whose name, size included, begins `name`, where the rest of `name` does not stand for
/// another shape: "someone/Llama-3.1-8B-Instruct-my-data". It is a guess from the name alone. Nothing where
/// there is none.
[[nodiscard]] std::optional<NameMeaning> tuned_meaning(std::string_view name);

/// Returns the model that a name means: its entry's, with the sizes that differ.
[[nodiscard]] Model model_of_meaning(const NameMeaning& meaning);

/// Returns "NAME is planned as ENTRY, …" as a report says it.
[[nodiscard]] std::string meaning_in_words(std::string_view name, const NameMeaning& meaning);

}  // namespace zplan
