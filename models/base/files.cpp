#include "models/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "models/base/error.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(std::string_view option, const std::string& path, const std::string& reason) {
  throw InputError(std::string(option), fmt::format("{} cannot be written: {}", in_quotes(path), reason),
                   "accepted: a file in a folder that can be written, or - for stdout");
}

/// Returns 0, or the error number where not every byte is written. Closes the file.
int write_all(int file, const std::string& text) {
  std::size_t done = 0;
  int failed = 0;
  while (failed == 0 && done < text.size()) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count > 0)
      done += static_cast<std::size_t>(count);
    else if (errno != EINTR)
      failed = count == 0 ? EIO : errno;
  }
  if (::close(file) != 0 && failed == 0) failed = errno;
  return failed;
}

/// Returns what a link leads to, which need not be there; of other files the path itself.
fs::path behind_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  fs::path at = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(at, error); ++i) {
    const fs::path to = fs::read_symlink(at, error);
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
  return at;
}

/// Returns the permissions of a file; of none, what the process gives new files.
mode_t permissions(const fs::path& path, const std::string& otherwise) {
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0) return about.st_mode & 07777U;
  if (!otherwise.empty() && ::stat(otherwise.c_str(), &about) == 0) return about.st_mode & 07777U;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666U & ~mask;
}

/// Writes to a device or a pipe, which renaming would replace.
void write_through(const std::string& path, const std::string& text, std::string_view option) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const int failed = file < 0 ? errno : write_all(file, text);
  if (failed != 0) fail(option, path, std::strerror(failed));
}

}  // namespace

void write_file(const std::string& path, const std::string& text, std::string_view option,
                const std::string& permissions_of) {
  std::error_code error;
  if (fs::is_directory(path, error)) fail(option, path, "it is a folder");
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return write_through(path, text, option);
  // Through a link the file it points to is written, and the link stays.
  const fs::path target = behind_links(path);
  constexpr std::string_view kEnding = ".tmp";
  std::string temporary = target.string() + ".XXXXXX" + std::string(kEnding);
  const int file = ::mkostemps(temporary.data(), static_cast<int>(kEnding.size()), O_CLOEXEC);
  if (file < 0) fail(option, path, std::strerror(errno));
  const bool kept = ::fchmod(file, permissions(target, permissions_of)) == 0;
  int failed = kept ? 0 : errno;
  if (const int unwritten = write_all(file, text); failed == 0) failed = unwritten;
  if (failed == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) failed = errno;
  if (failed == 0) return;
  fs::remove(temporary, error);
  fail(option, path, std::strerror(failed));
}

void write_unnamed_file(const std::string& path, const std::string& text, std::string_view option) {
  std::error_code error;
  if (fs::exists(path, error) && (!fs::is_regular_file(path, error) || read_file(path) != text))
    throw InputError(std::string(option), fmt::format("{} is there with another text", in_quotes(path)),
                     "accepted: without that file");
  write_file(path, text, option);
}

TemporaryFile::TemporaryFile() : path_((std::filesystem::temp_directory_path() / "zplan-XXXXXX").string()) {
  const int file = mkstemp(path_.data());
  if (file < 0)
    throw InputError("TMPDIR", path_ + " cannot be made", "accepted: a folder that can be written");
  close(file);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

}  // namespace zplan
