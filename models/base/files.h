#pragma once

#include <string>
#include <string_view>

namespace zplan {

/// Writes the whole file or leaves the old one, by renaming. The file has the permissions of the old one,
/// else those of the file `permissions_of`, else the usual ones. A link within its folder is followed. Throws
/// InputError, which names `option` (the path itself where no option named it), if that fails, if the file is
/// read-only, or if a link leads out of its folder.
void write_file(const std::string& path, const std::string& text, std::string_view option,
                const std::string& permissions_of = {});

struct FileText {
  std::string path, text;
};

/// Writes two files as write_file does, or neither. Nobody gave the name of `unnamed`: throws InputError,
/// which names `option`, where it is there with another text.
void write_files(const FileText& named, const FileText& unnamed, std::string_view option);

/// An empty file in the system's temporary folder, removed with this.
class TemporaryFile {
 public:
  /// Throws InputError, which names TMPDIR, if the file cannot be created.
  TemporaryFile();
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace zplan
