#pragma once

#include <string>

namespace zplan {

/// An empty file in the system's folder for such, gone with this.
class TemporaryFile {
 public:
  /// Throws InputError naming TMPDIR where it cannot be made.
  TemporaryFile();
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace zplan
