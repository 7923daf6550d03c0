#include "harness/recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/files.h"

namespace zplan::bench {

Recorder::Recorder(Json head, std::string path) : document_(std::move(head)), path_(std::move(path)) {
  for (const char* list : {"collectives", "copies", "storage", "compute"}) document_[list] = Json::array();
  document_["replay"] = nullptr;
  document_["notes"] = Json::array();
}

void Recorder::add(const std::string& key, Json entry) {
  const std::lock_guard lock(mutex_);
  document_[key].push_back(std::move(entry));
}

void Recorder::set(const std::string& key, Json value) {
  const std::lock_guard lock(mutex_);
  document_[key] = std::move(value);
}

Json Recorder::document(const std::string& stopped) {
  const std::lock_guard lock(mutex_);
  Json out = document_;
  out["complete"] = stopped.empty();
  out["stopped"] = stopped.empty() ? Json(nullptr) : Json(stopped);
  return out;
}

void Recorder::write(const std::string& stopped) {
  if (path_.empty()) return;
  const std::string text = document(stopped).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::lock_guard lock(mutex_);
  if (written_) return;
  write_file(path_, text, "--output");
  written_ = true;
}

void check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path target(path), folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::string reason;
  if (fs::is_directory(target, ignored))
    reason = "it is a folder";
  else if (access(fs::exists(target, ignored) ? path.c_str() : folder.c_str(), W_OK) != 0)
    reason = std::strerror(errno);
  if (!reason.empty())
    throw InputError("--output", fmt::format("{} cannot be written: {}", in_quotes(path), reason),
                     "accepted: a file in a folder that can be written");
}

Json statistics_json(const TimeStatistics& of) {
  return {{"median", of.median.value}, {"p10", of.p10.value},         {"p90", of.p90.value},
          {"lowest", of.lowest.value}, {"highest", of.highest.value}, {"mean", of.mean.value}};
}

}  // namespace zplan::bench
