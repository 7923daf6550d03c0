#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

/// Who publishes models.
enum class HubSite { huggingface, modelscope };
template <>
struct EnumNames<HubSite> {
  static constexpr std::array<std::pair<HubSite, std::string_view>, 2> table{
      {{HubSite::huggingface, "huggingface"}, {HubSite::modelscope, "modelscope"}}};
};

}  // namespace zplan
