#include "models/base/error.h"

#include <fmt/format.h>

namespace zplan {

namespace {
std::string one_line(const std::string& place, const std::string& found, const std::string& accepted) {
  return accepted.empty() ? fmt::format("{}: {}", place, found)
                          : fmt::format("{}: {}; {}", place, found, accepted);
}
}  // namespace

InputError::InputError(std::string place, std::string found, std::string accepted)
    : std::runtime_error(one_line(place, found, accepted)),
      place_(std::move(place)),
      found_(std::move(found)),
      accepted_(std::move(accepted)) {}

std::string in_quotes(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  if (cut) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
    text = text.substr(0, limit);
  }
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  return out + (cut ? "…\"" : "\"");
}

}  // namespace zplan
