#pragma once
// Makers of OptionType: each says what a value may be and which field of Options keeps it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/base/values.h"
#include "cli/options/options.h"

namespace zplan::option_types {

/// Returns the field behind a path of members: at(&Options::training, &Training::lora_rank).
template <class... Members>
[[nodiscard]] constexpr auto at(Members... members) {
  return [members...](auto& options) -> auto& { return (options.*....*members); };
}

template <class Field>
using FieldOf = std::remove_cvref_t<std::invoke_result_t<Field, Options&>>;

template <class Value>
struct ValueIn {
  using type = Value;
};
template <class Value>
struct ValueIn<std::optional<Value>> {
  using type = Value;
};
template <class Value>
struct ValueIn<std::vector<Value>> {
  using type = Value;
};
/// The value in a field that may be optional or a list.
template <class Field>
using ValueOf = typename ValueIn<FieldOf<Field>>::type;

template <class Value>
[[nodiscard]] std::string shown(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>)
    return fmt::format("{}", value);
  else
    return std::string(to_name(value));
}
template <class Value>
[[nodiscard]] std::string shown(const std::optional<Value>& value) {
  return value ? shown(*value) : std::string();
}
template <class Value>
[[nodiscard]] std::string shown(const std::vector<Value>& list) {
  std::vector<std::string> words;
  for (const Value& each : list) words.push_back(shown(each));
  return fmt::format("{}", fmt::join(words, ","));
}

template <class Field>
[[nodiscard]] auto shows(Field field) {
  return [field](const Options& options) { return shown(field(options)); };
}

/// A flag that sets the field to `value`.
template <class Field>
[[nodiscard]] OptionType flag(Field field, bool value = true) {
  return {.kind = OptionKind::flag,
          .set = [field, value](Options& options, std::string_view, const auto&) { field(options) = value; }};
}

/// Any text.
template <class Field>
[[nodiscard]] OptionType text(Field field) {
  return {.kind = OptionKind::text,
          .set = [field](Options& options, std::string_view, const auto& given) { field(options) = given; },
          .show = shows(field)};
}

/// A name of a catalogue; `is_file`: or the path of a file that holds one.
template <class Field>
[[nodiscard]] OptionType name(Field field, NamesOf names, bool is_file = false) {
  OptionType type = text(field);
  type.kind = is_file ? OptionKind::path : OptionKind::text;
  type.names = names, type.is_file = is_file;
  return type;
}

/// The path of a file, or with another kind of what that says.
template <class Field>
[[nodiscard]] OptionType path(Field field, OptionKind kind = OptionKind::path, bool is_file = true) {
  OptionType type = text(field);
  type.kind = kind, type.is_file = is_file;
  return type;
}

/// A name of the field's enum.
template <class Field>
[[nodiscard]] OptionType word(Field field) {
  using E = ValueOf<Field>;
  return {.kind = OptionKind::word,
          .words = all_names<E>(),
          .set = [field](Options& options, std::string_view option,
                         const auto& given) { field(options) = parse_name<E>(option, given); },
          .show = shows(field)};
}

/// Several such names.
template <class Field>
[[nodiscard]] OptionType words(Field field) {
  using E = ValueOf<Field>;
  return {.kind = OptionKind::word,
          .is_list = true,
          .words = all_names<E>(),
          .set = [field](Options& options, std::string_view option,
                         const auto& given) { field(options) = parse_names<E>(option, given); },
          .show = shows(field)};
}

/// Names of which some are usual.
template <class Field>
[[nodiscard]] OptionType names(Field field, std::vector<std::string> usual = {}) {
  return {.kind = OptionKind::text,
          .is_list = true,
          .words = std::move(usual),
          .is_open = true,
          .set = [field](Options& options, std::string_view option,
                         const auto& given) { field(options) = parse_list(option, given); },
          .show = shows(field)};
}

/// Paths of files.
template <class Field>
[[nodiscard]] OptionType files(Field field) {
  OptionType type = names(field);
  type.is_file = true;
  return type;
}

/// A whole number from `least` to `most`; `all`: these numbers, where they are few.
template <class Field>
[[nodiscard]] OptionType integer(Field field, std::int64_t least, std::int64_t most,
                                 std::vector<std::string> all = {}) {
  return {.kind = OptionKind::integer,
          .words = std::move(all),
          .set =
              [field, least, most](Options& options, std::string_view option, const auto& given) {
                using Value = ValueOf<Field>;
                field(options) = static_cast<Value>(parse_integer(option, given, least, most));
              },
          .show = shows(field)};
}

/// A number of things, which may be written "1e11" or "100B".
template <class Field>
[[nodiscard]] OptionType count(Field field, std::int64_t least, std::int64_t most,
                               std::int64_t thousand = 1000, std::string_view example = "100B or 1e11") {
  OptionType type = integer(field, least, most);
  type.set = [=](Options& options, std::string_view option, const auto& given) {
    field(options) = static_cast<ValueOf<Field>>(parse_count(option, given, least, most, thousand, example));
  };
  return type;
}

/// A number of tokens in a row, of which "8k" is 8192.
template <class Field>
[[nodiscard]] OptionType length(Field field) {
  return count(field, 1, kLongestSequence, 1024, "8192 or 8k");
}

/// Several whole numbers; `usual` are suggested, or with `is_open` false all that there are.
template <class Field>
[[nodiscard]] OptionType integers(Field field, std::int64_t least, std::int64_t most,
                                  std::vector<std::string> usual = {}, bool is_open = true) {
  return {.kind = OptionKind::integer,
          .is_list = true,
          .words = std::move(usual),
          .is_open = is_open,
          .set =
              [field, least, most](Options& options, std::string_view option, const auto& given) {
                field(options).clear();
                for (const std::int64_t each : parse_integers(option, given, least, most))
                  field(options).push_back(static_cast<ValueOf<Field>>(each));
              },
          .show = shows(field)};
}

/// A whole number from 1 to `most`, or `otherwise`, which is kept as `kept`.
template <class Field>
[[nodiscard]] OptionType integer_or(Field field, std::string_view otherwise, FieldOf<Field> kept,
                                    std::int64_t most) {
  const auto set = [=](Options& options, std::string_view option, const std::string& given) {
    const auto count = parse_count_or(option, otherwise, given, most);
    field(options) = count ? FieldOf<Field>(*count) : kept;
  };
  const auto show = [=](const Options& options) {
    return field(options) == kept ? std::string(otherwise) : shown(field(options));
  };
  return {.kind = OptionKind::integer, .words = {std::string(otherwise)}, .set = set, .show = show};
}

/// A number from `least` to `most`, kept times `unit`.
template <class Field>
[[nodiscard]] OptionType number(Field field, double least, double most, double unit = 1) {
  return {.kind = OptionKind::number,
          .set = [=](Options& options, std::string_view option, const auto& given) {
            using Value = ValueOf<Field>;
            field(options) = Value(parse_number(option, given, least, most) * unit);
          }};
}

/// A size in GiB.
template <class Field>
[[nodiscard]] OptionType gibibytes(Field field) {
  return {.kind = OptionKind::number,
          .set = [field](Options& options, std::string_view option, const auto& given) {
            field(options) = parse_gib(option, given);
          }};
}

/// Returns the type with other words accepted, too.
[[nodiscard]] inline OptionType open(OptionType type) {
  type.is_open = true;
  return type;
}

/// Several values, separated by commas, which the type's `set` reads at once.
[[nodiscard]] inline OptionType several(OptionType type) {
  type.is_list = true;
  return type;
}

/// Some other form, which `set` reads; `words` complete it.
[[nodiscard]] inline OptionType special(OptionKind kind, void (*set)(Options&, const std::string&),
                                        std::vector<std::string> words = {}, bool is_open = true) {
  return {.kind = kind,
          .words = std::move(words),
          .is_open = is_open,
          .set = [set](Options& options, std::string_view, const auto& given) { set(options, given); }};
}

}  // namespace zplan::option_types
