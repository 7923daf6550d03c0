#include "planner/frameworks/deepspeed/config/data.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/embedded.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> deepspeed_data;
}

Json deepspeed_data(std::string_view name) {
  const std::string path = "frameworks/deepspeed/config/" + std::string(name);
  for (const embedded::EmbeddedFile& file : embedded::deepspeed_data)
    if (file.name == path) return parse_json(file.text, path);
  return {};
}

}  // namespace zplan
