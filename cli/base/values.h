#pragma once
// Texts of the command line → values. Each throws InputError with the option, what was given and what is
// accepted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

/// The value of a flag that is to be given.
inline constexpr std::string_view kFlagGiven = "\x01";

/// Options with their values; kFlagGiven for a flag.
using OptionChanges = std::vector<std::pair<std::string, std::string>>;

/// Returns the options of a text such as "--method qlora --dora".
[[nodiscard]] OptionChanges typed_options(std::string_view typed);

/// Returns options as they are typed: "--method qlora --dora".
[[nodiscard]] std::string options_text(const OptionChanges& options);

// The largest numbers that options take.
inline constexpr std::int64_t kLongestSequence = 16'777'216, kMostMicroBatch = 65'536, kMostSteps = 100'000,
                              kMostGlobalBatch = 100'000'000, kMostDegree = 1024, kMostGpus = 1'000'000;

/// Returns the whole of `text` as a whole number; nothing where it is none, or none of 64 bits.
[[nodiscard]] std::optional<std::int64_t> to_whole_number(std::string_view text);

[[nodiscard]] std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t low,
                                         std::int64_t high);

/// A whole number as people write it: "131072", "1e11", "100B", "1.5T" (k, M, B and T stand for powers of
/// `thousand`). `example` is one that is accepted.
[[nodiscard]] std::int64_t parse_count(std::string_view option, std::string_view text, std::int64_t low,
                                       std::int64_t high, std::int64_t thousand, std::string_view example);

/// A price of an hour: "2.2", "$2.20", "2.2/h".
[[nodiscard]] double parse_price(std::string_view option, std::string_view text, double most);

/// A time: "14d", "2w", "36h", "1.5 days".
[[nodiscard]] Seconds parse_duration(std::string_view option, std::string_view text);

/// A whole number from 1 to `most`; nothing for `word`.
[[nodiscard]] std::optional<std::int64_t> parse_count_or(std::string_view option, std::string_view word,
                                                         std::string_view text, std::int64_t most);

/// A finite number in [low, high].
[[nodiscard]] double parse_number(std::string_view option, std::string_view text, double low, double high);

/// "44", "44.5", "44GiB" or "81559MiB", as nvidia-smi prints it. Only positive; how much makes sense is
/// assemble_cluster's to say.
[[nodiscard]] Bytes parse_gib(std::string_view option, std::string_view text);

/// "a,b,c" → its words. Empty words are an error.
[[nodiscard]] std::vector<std::string> parse_values(std::string_view option, std::string_view text);
/// Returns the same words; a word given twice is an error, too.
[[nodiscard]] std::vector<std::string> parse_list(std::string_view option, std::string_view text);

[[nodiscard]] std::vector<std::int64_t> parse_integers(std::string_view option, std::string_view text,
                                                       std::int64_t low, std::int64_t high);

template <class E>
[[nodiscard]] std::vector<E> parse_names(std::string_view option, std::string_view text) {
  std::vector<E> values;
  for (const std::string& word : parse_list(option, text)) values.push_back(parse_name<E>(option, word));
  return values;
}

}  // namespace zplan
