#include "models/base/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "models/base/error.h"

namespace zplan {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(std::string_view option, const std::string& path, const std::string& reason) {
  throw InputError(std::string(option), fmt::format("{} cannot be written: {}", in_quotes(path), reason),
                   "accepted: a file in a folder that can be written, or - for stdout");
}

/// False where not every byte reached the file.
bool write_all(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return !file.fail();
}

}  // namespace

void write_file(const std::string& path, const std::string& text, std::string_view option) {
  std::error_code error;
  if (fs::is_directory(path, error)) fail(option, path, "it is a folder");
  // A device or a pipe takes the text itself: renaming over it would replace it.
  const bool special = fs::exists(path, error) && !fs::is_regular_file(path, error);
  // Through a link the file it points to is written, and the link stays.
  const fs::path target = fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : fs::path(path);
  const fs::path temporary = special ? target : fs::path(fmt::format("{}.{}.tmp", target.string(), getpid()));
  errno = 0;
  if (!write_all(temporary, text)) {
    const std::string reason = std::strerror(errno == 0 ? EIO : errno);
    if (!special) fs::remove(temporary, error);
    fail(option, path, reason);
  }
  if (special) return;
  fs::rename(temporary, target, error);
  if (!error) return;
  const std::string reason = error.message();
  fs::remove(temporary, error);
  fail(option, path, reason);
}

TemporaryFile::TemporaryFile() : path_((std::filesystem::temp_directory_path() / "zplan-XXXXXX").string()) {
  const int file = mkstemp(path_.data());
  if (file < 0)
    throw InputError("TMPDIR", path_ + " cannot be made", "accepted: a folder that can be written");
  close(file);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

}  // namespace zplan
