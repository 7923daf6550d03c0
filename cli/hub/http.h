#pragma once
// One GET over HTTP by libcurl, which is opened at run time: the program starts without it.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace zplan {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers{};  ///< "Authorization: Bearer …"
  double connect_seconds{3};
  double seconds{15};                             ///< of the whole answer
  std::size_t limit_bytes{std::size_t{4} << 20};  ///< of its body
};

struct HttpAnswer {
  long status{};                                 ///< 0: there was no whole answer, and `error` says why
  std::map<std::string, std::string> headers{};  ///< names in lower case
  std::string body{};
  std::string error{};
};

/// Returns the answer to a GET. Redirects are not followed. Never throws for what a server or network does.
[[nodiscard]] HttpAnswer http_get(const HttpRequest& request);

}  // namespace zplan
