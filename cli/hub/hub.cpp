#include "cli/hub/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cli/hub/http.h"
#include "cli/hub/hub_cache.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 20;

/// Returns what stands between :// and the path, as libcurl sees it.
std::string shown_host(std::string_view url) {
  const std::size_t begin = url.find("://");
  const std::string_view rest = begin == std::string_view::npos ? url : url.substr(begin + 3);
  return std::string(rest.substr(0, rest.find_first_of("/?#")));
}

/// Returns the host of a URL without user, port and brackets, in lower case.
std::string host_of(std::string_view url) {
  std::string host = lower_case(shown_host(url));
  if (const std::size_t at = host.rfind('@'); at != std::string::npos) host.erase(0, at + 1);
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

/// True for https, and for http to this machine.
bool is_allowed(std::string_view url) {
  if (url.starts_with("https://")) return !host_of(url).empty();
  return url.starts_with("http://") && is_loopback(host_of(url));
}

void check_endpoint(const HubSettings& settings) {
  const char* variable = settings.site == HubSite::modelscope ? "MODELSCOPE_DOMAIN" : "HF_ENDPOINT";
  if (!is_allowed(settings.endpoint))
    throw InputError(variable, in_quotes(settings.endpoint),
                     "accepted: https://HOST, or http:// for this machine alone");
}

/// The answer for a URL, and where the hub said which revision it is.
struct Answer {
  HttpAnswer http;
  std::string revision, tag;  ///< of the first answer that names them; empty: none did
  std::string refused{};      ///< why a redirect was not followed
};

std::string header(const HttpAnswer& answer, const char* name) {
  const auto found = answer.headers.find(name);
  return found == answer.headers.end() ? std::string() : found->second;
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// Returns the URL that a Location means, which may be a path on the same host.
std::string redirected(const std::string& from, const std::string& location) {
  if (location.find("://") != std::string::npos) return location;
  const std::size_t host = from.find("://") + 3;
  if (location.starts_with("//")) return from.substr(0, host - 2) + location;
  const std::string root = from.substr(0, from.find_first_of("/?#", host));
  return location.starts_with('/') ? root + location : root + "/" + location;
}

/// A tag names the blob in huggingface_hub's cache: without W/ and quotes.
std::string plain_tag(std::string tag) {
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return tag;
}

/// Follows a bounded number of redirects, none of them to http, and sends the token to the first host alone.
Answer get_file(const std::string& url, const HubSettings& settings) {
  constexpr int kMostRedirects = 5;
  Answer answer;
  std::string at = url;
  for (int followed = 0;; ++followed) {
    HttpRequest request{.url = at,
                        .connect_seconds = settings.connect_seconds,
                        .seconds = settings.seconds,
                        .limit_bytes = kMostBytes};
    if (!settings.token.empty() && shown_host(at) == shown_host(url))
      request.headers.push_back("Authorization: Bearer " + settings.token);
    answer.http = http_get(request);
    if (answer.revision.empty()) answer.revision = header(answer.http, "x-repo-commit");
    if (answer.tag.empty()) {
      const std::string linked = header(answer.http, "x-linked-etag");
      answer.tag = plain_tag(linked.empty() ? header(answer.http, "etag") : linked);
    }
    if (!is_redirect(answer.http.status)) return answer;
    at = redirected(at, header(answer.http, "location"));
    if (followed == kMostRedirects) answer.refused = "it redirects without end";
    if (!is_allowed(at))
      answer.refused = fmt::format("it redirects to {}, which is not https", in_quotes(at));
    if (!answer.refused.empty()) return answer;
  }
}

std::string url_of(std::string_view id, std::string_view file, const HubSettings& settings) {
  if (settings.site == HubSite::modelscope)
    return fmt::format("{}/api/v1/models/{}/repo?Revision=master&FilePath={}", settings.endpoint, id, file);
  return fmt::format("{}/{}/resolve/main/{}", settings.endpoint, id, file);
}

std::string token_words(const HubSettings& settings) {
  const char* variable = settings.site == HubSite::modelscope ? "MODELSCOPE_API_TOKEN" : "HF_TOKEN";
  return settings.token.empty() ? fmt::format("{} of an account that may read it gives access", variable)
                                : fmt::format("the account of {} has no access", variable);
}

/// Returns why there is no file; empty where there is one.
std::string why_none(const Answer& answer, const HubSettings& settings) {
  const std::string host = shown_host(settings.endpoint);
  const HttpAnswer& http = answer.http;
  if (!answer.refused.empty()) return fmt::format("{}: {}", host, answer.refused);
  if (http.status == 0) return fmt::format("{} cannot be asked: {}", host, http.error);
  if (http.status == 200) return {};
  const std::string code = header(http, "x-error-code");
  if (http.status == 404 || code == "RepoNotFound") return fmt::format("{} has no such model", host);
  if (http.status == 401 || http.status == 403)
    return fmt::format("{} shows it to some accounts alone ({}): {}", host, http.status,
                       token_words(settings));
  if (http.status == 429) {
    const std::string after = header(http, "retry-after");
    const bool seconds = !after.empty() && after.find_first_not_of("0123456789") == std::string::npos;
    return fmt::format("{} takes no more questions for a while (429){}", host,
                       seconds ? fmt::format(": try again in {} s", after.substr(0, 9)) : "");
  }
  return fmt::format("{} answers with status {}", host, http.status);
}

/// True if the repository may be there without the file.
bool lacks_file(const Answer& answer) {
  return answer.http.status == 404 && header(answer.http, "x-error-code") != "RepoNotFound";
}

/// Returns the text as a JSON object; nothing, and why, if it is none.
std::optional<Json> object_of(const Answer& answer, std::string_view file, const HubSettings& settings,
                              std::string& why) {
  try {
    Json json = parse_json(answer.http.body, std::string(file));
    if (json.is_object()) return json;
    why = fmt::format("the {} of {} is no JSON object", file, shown_host(settings.endpoint));
  } catch (const InputError& error) {
    why = fmt::format("the {} of {} is not JSON", file, shown_host(settings.endpoint));
  }
  return std::nullopt;
}

HubAnswer ask_for_adapters(std::string_view id, const HubSettings& settings, HubAnswer none) {
  const Answer answer = get_file(url_of(id, "adapter_config.json", settings), settings);
  if (!why_none(answer, settings).empty()) return none;
  const auto adapters = object_of(answer, "adapter_config.json", settings, none.why_none);
  if (!adapters) return none;
  const auto base = adapters->find("base_model_name_or_path");
  if (base == adapters->end() || !base->is_string() || base->get<std::string>().empty()) {
    none.why_none = fmt::format("{} is a repository of adapters that names no base", id);
    return none;
  }
  return {.base = base->get<std::string>()};
}

}  // namespace

HubAnswer ask_hub(std::string_view id, const HubSettings& settings) {
  check_endpoint(settings);
  const Answer answer = get_file(url_of(id, "config.json", settings), settings);
  HubAnswer result{.why_none = why_none(answer, settings)};
  if (lacks_file(answer)) return ask_for_adapters(id, settings, std::move(result));
  if (!result.why_none.empty()) return result;
  if (!object_of(answer, "config.json", settings, result.why_none)) return result;
  result.config = answer.http.body;
  const std::string revision = answer.revision.empty() ? "main" : answer.revision;
  const std::string host = shown_host(settings.endpoint);
  result.origin = settings.site == HubSite::modelscope
                      ? fmt::format("{} at revision master, from {}", id, host)
                      : fmt::format("{} at revision {}, from {}", id, revision, host);
  if (settings.site == HubSite::modelscope)
    keep_modelscope_config(settings.cache, id, result.config);
  else
    keep_config(settings.cache, id, answer.revision, answer.tag, result.config);
  return result;
}

namespace {

bool may_ask(const Environment& environment, bool offline) {
  return !offline && !environment.hub_offline && environment.network;
}

}  // namespace

std::optional<HubSettings> hub_settings(const Environment& environment, HubSite site, bool offline) {
  if (!may_ask(environment, offline)) return std::nullopt;
  HubSettings settings{.site = site};
  settings.endpoint =
      site == HubSite::modelscope ? environment.modelscope_endpoint : environment.hub_endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  settings.token = site == HubSite::modelscope ? environment.modelscope_token : hub_token(environment);
  settings.cache =
      site == HubSite::modelscope ? modelscope_cache_folder(environment) : hub_cache_folder(environment);
  return settings;
}

ModelSearch model_search(const Environment& environment, HubSite site, bool offline) {
  ModelSearch search{
      .user_models = user_models_folder(environment),
      .hub_cache = hub_cache_folder(environment),
      .modelscope_cache = site == HubSite::modelscope ? modelscope_cache_folder(environment) : ""};
  // Reads the token's file when a hub is asked, not before: the catalogue knows most models.
  if (may_ask(environment, offline))
    search.hub = [=](std::string_view id) { return ask_hub(id, *hub_settings(environment, site, offline)); };
  else if (offline || environment.hub_offline)
    search.why_no_hub = offline ? "no hub was asked: --offline" : "no hub was asked: HF_HUB_OFFLINE";
  return search;
}

}  // namespace zplan
