#include "harness/recorder.h"

#include "models/base/write_file.h"

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

}  // namespace zplan::bench
