#include "models/base/json_text.h"

#include <nlohmann/json.hpp>

namespace zplan {

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zplan
