#pragma once
// Configs of models from the Hugging Face Hub or ModelScope, where neither the catalogue nor a cache has
// them.

#include <optional>
#include <string>
#include <string_view>

#include "cli/base/environment.h"
#include "cli/hub/hub_site.h"
#include "models/catalogue/catalogue.h"

namespace zplan {

/// Holds the address of a hub and the limits of a request to it.
struct HubSettings {
  HubSite site{HubSite::huggingface};
  std::string endpoint{};  ///< "https://huggingface.co"; http for this machine alone
  std::string token{};     ///< goes to the endpoint's host alone; empty: none
  std::string cache{};     ///< folder of downloaded repositories; empty: nothing is kept
  double connect_seconds{3};
  double seconds{15};
};

/// Returns the settings of the process, or nothing where the network must not be used.
[[nodiscard]] std::optional<HubSettings> hub_settings(const Environment& environment, HubSite site,
                                                      bool offline);

/// Returns the config of model `id`, which is kept in the cache, or why there is none. Of a repository of
/// adapters the base is named. Throws InputError for an endpoint that is neither https nor on this machine.
[[nodiscard]] HubAnswer ask_hub(std::string_view id, const HubSettings& settings);

/// Returns the places of resolve_model: the user's models, the caches, and the hub unless the network is shut
/// off.
[[nodiscard]] ModelSearch model_search(const Environment& environment, HubSite site, bool offline);

}  // namespace zplan
