#include "cli/hub/http.h"

#if defined(ZPLAN_HAS_CURL)
#include <curl/curl.h>
#include <dlfcn.h>
#endif

#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <string_view>

#include "models/base/names.h"

namespace zplan {

#if defined(ZPLAN_HAS_CURL)

namespace {

/// The functions of libcurl that a GET needs; null where there is no libcurl.
struct Curl {
  decltype(&curl_easy_init) init{};
  decltype(&curl_easy_setopt) set{};
  decltype(&curl_easy_perform) perform{};
  decltype(&curl_easy_getinfo) info{};
  decltype(&curl_easy_cleanup) cleanup{};
  decltype(&curl_easy_strerror) text_of{};
  decltype(&curl_slist_append) append{};
  decltype(&curl_slist_free_all) free_list{};
  bool found{};
};

template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Curl open_curl() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  Curl curl;
  decltype(&curl_global_init) start{};
  if (library == nullptr || !find_function(library, "curl_global_init", start)) return curl;
  curl.found = find_function(library, "curl_easy_init", curl.init) &&
               find_function(library, "curl_easy_setopt", curl.set) &&
               find_function(library, "curl_easy_perform", curl.perform) &&
               find_function(library, "curl_easy_getinfo", curl.info) &&
               find_function(library, "curl_easy_cleanup", curl.cleanup) &&
               find_function(library, "curl_easy_strerror", curl.text_of) &&
               find_function(library, "curl_slist_append", curl.append) &&
               find_function(library, "curl_slist_free_all", curl.free_list) &&
               start(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return curl;
}

const Curl& libcurl() {
  static const Curl curl = open_curl();
  return curl;
}

struct Received {
  HttpAnswer& answer;
  std::size_t limit_bytes;
  bool too_long{};
};

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* into) {
  auto& received = *static_cast<Received*>(into);
  if (received.answer.body.size() + size * count > received.limit_bytes) {
    received.too_long = true;
    return 0;
  }
  received.answer.body.append(data, size * count);
  return size * count;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* into) {
  constexpr std::size_t kMostHeaders = 200;
  auto& headers = static_cast<Received*>(into)->answer.headers;
  const std::string_view line(data, size * count);
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos && headers.size() < kMostHeaders)
    headers[lower_case(std::string(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
  return size * count;
}

long milliseconds(double seconds) { return static_cast<long>(seconds * 1000); }

std::string why_failed(const Curl& curl, CURLcode code, const Received& received,
                       const HttpRequest& request) {
  if (received.too_long) return fmt::format("the answer is longer than {} bytes", request.limit_bytes);
  if (code == CURLE_OPERATION_TIMEDOUT) return fmt::format("no whole answer within {:g} s", request.seconds);
  return lower_case(curl.text_of(code));
}

}  // namespace

HttpAnswer http_get(const HttpRequest& request) {
  const Curl& curl = libcurl();
  HttpAnswer answer;
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl.found ? curl.init() : nullptr, [](CURL* each) {
    if (each != nullptr) libcurl().cleanup(each);
  });
  if (!handle) {
    answer.error = "libcurl.so.4 is not installed";
    return answer;
  }
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl.append(list, header.c_str());
  Received received{answer, request.limit_bytes};
  CURL* one = handle.get();
  curl.set(one, CURLOPT_URL, request.url.c_str());
  curl.set(one, CURLOPT_HTTPHEADER, list);
  curl.set(one, CURLOPT_USERAGENT, "zplan");
  curl.set(one, CURLOPT_FOLLOWLOCATION, 0L);
  curl.set(one, CURLOPT_NOSIGNAL, 1L);
  curl.set(one, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.connect_seconds));
  curl.set(one, CURLOPT_TIMEOUT_MS, milliseconds(request.seconds));
  curl.set(one, CURLOPT_WRITEFUNCTION, &take_body);
  curl.set(one, CURLOPT_WRITEDATA, &received);
  curl.set(one, CURLOPT_HEADERFUNCTION, &take_header);
  curl.set(one, CURLOPT_HEADERDATA, &received);
  // Requests to this machine pass no proxy.
  if (request.url.starts_with("http://")) curl.set(one, CURLOPT_PROXY, "");
  const CURLcode code = curl.perform(one);
  if (code == CURLE_OK)
    curl.info(one, CURLINFO_RESPONSE_CODE, &answer.status);
  else
    answer.error = why_failed(curl, code, received, request), answer.body.clear();
  curl.free_list(list);
  return answer;
}

#else

HttpAnswer http_get(const HttpRequest&) {
  HttpAnswer answer;
#if defined(__EMSCRIPTEN__)
  answer.error = "the page sends nothing; the model's config.json can be dropped on it";
#else
  answer.error = "this zplan was built without libcurl";
#endif
  return answer;
}

#endif

}  // namespace zplan
