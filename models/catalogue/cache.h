#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/model.h"

namespace zplan {

/// The model `id` of the Hugging Face hub cache `hub` (folder "models--ORG--NAME", its refs/main, that
/// snapshot's config.json); nothing where the cache does not have it or `id` cannot be a Hub id. Throws
/// InputError where it has only a part of it.
[[nodiscard]] std::optional<Model> cached_model(std::string_view id, const std::string& hub);

/// The model of a config.json. `fallback_name` is what it is called where the config has no _name_or_path.
[[nodiscard]] Model config_model(const std::string& path, const std::string& fallback_name);

}  // namespace zplan
