#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

/// The fields of a config as the architecture's class in transformers fills them in, and expressions over
/// them. An expression is a number, a truth value, a field's path ("text_config.hidden_size"), "#0" for the
/// number of the layer ("#1" for the place in a list inside it), or a list that begins with an operator.
/// models/inventories/symbols.py has the same operators.
class ConfigFields {
 public:
  /// `rules`: an inventory's document, which must outlive this, as must the config.
  ConfigFields(const JsonReader& config, const Json& rules);

  using Places = std::vector<std::int64_t>;
  /// Returns what the expression yields, null where a field that it needs has no value.
  [[nodiscard]] Json value(const Json& expression, const Places& places) const;
  /// Returns the expression's whole number. Throws InputError, which names a field, where it yields none in
  /// [0, high].
  [[nodiscard]] std::int64_t whole(const Json& expression, const Places& places, std::int64_t high) const;
  [[nodiscard]] bool holds(const Json& expression, const Places& places) const;

  /// Returns the config with the fields that it leaves out.
  [[nodiscard]] Json filled_in() const;

 private:
  /// Returns the expression's value: a field's own, which may be a long list, else one that is put into
  /// `held`.
  [[nodiscard]] const Json& looked_up(const Json& expression, const Places& places, Json& held) const;
  [[nodiscard]] const Json& field(const std::string& path) const;
  [[nodiscard]] Json filled_in(const std::string& path) const;
  [[nodiscard]] const Json* given(const std::string& path) const;
  [[nodiscard]] Json as_given(const std::string& path) const;
  [[nodiscard]] Json by_rule(const Json& rule) const;
  [[nodiscard]] Json words_of_flags(const Json& flags) const;
  [[noreturn]] void fail(const Json& expression, const Json& found, std::int64_t high) const;

  const JsonReader& config_;
  const Json& rules_;
  mutable std::map<std::string, Json> known_;
  mutable std::set<std::string> open_;  ///< being filled in
};

}  // namespace zplan
