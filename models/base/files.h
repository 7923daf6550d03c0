#pragma once

#include <string>
#include <string_view>

namespace zplan {

/// Writes the whole file or leaves what was there: a temporary file beside it, then renamed.
/// Throws InputError naming `option` where that cannot be done.
void write_file(const std::string& path, const std::string& text, std::string_view option);

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
