#pragma once
// Collects rank 0's measurements as a document of cli/schema/bench.schema.json. The file is written whole or
// not at all, and states whether the run is complete.

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "hardware_profiles/bench_result.h"
#include "models/base/json_reader.h"

namespace zplan::bench {

class Recorder {
 public:
  /// `head`: what is known before anything is measured. `path`: where to; empty: nowhere.
  Recorder(Json head, std::string path);

  /// Adds an entry to the list `key` ("collectives", "notes", …).
  void add(const std::string& key, Json entry);
  void set(const std::string& key, Json value);

  /// The document; `stopped` says why the run ended early, empty where it did not.
  [[nodiscard]] Json document(const std::string& stopped);
  /// Writes it once; later calls do nothing. Throws InputError naming --output.
  void write(const std::string& stopped);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::mutex mutex_;
  Json document_;
  std::string path_;
  bool written_{};
};

/// Throws InputError naming --output where a file cannot be put there: before anything is measured for it.
void check_writable(const std::string& path);

/// Seconds, as a result has them.
[[nodiscard]] Json statistics_json(const TimeStatistics& of);

}  // namespace zplan::bench
