#include "models/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "models/base/error.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(std::string_view option, const std::string& path, const std::string& reason) {
  if (option == path)
    throw InputError(path, "cannot be written: " + reason,
                     "accepted: a file in a folder that can be written");
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

/// Holds back signals that end the program, so that a write leaves no temporary file. Each takes effect at
/// the end.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, each);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_{};
};

/// True for files of the kernel's: stdout by its name, descriptors, devices.
bool is_of_kernel(const std::string& path) { return path.starts_with("/dev/") || path.starts_with("/proc/"); }

/// True if a link's target is outside of the folder that the link was named in.
bool leads_outside(const fs::path& path, const fs::path& target) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path, error).parent_path(), error);
  const fs::path whole = fs::weakly_canonical(fs::absolute(target, error), error);
  return std::mismatch(folder.begin(), folder.end(), whole.begin(), whole.end()).first != folder.end();
}

/// Returns the file to replace: through a link within its folder the file that it leads to. A link that leads
/// elsewhere may be another's: a folder of recipes is often unpacked.
fs::path replaced_file(const std::string& path, std::string_view option) {
  const fs::path target = behind_links(path);
  std::error_code error;
  if (fs::is_symlink(target, error)) fail(option, path, "it is a link to itself");
  if (target != fs::path(path) && leads_outside(path, target))
    fail(option, path, fmt::format("it is a link out of its folder, to {}", in_quotes(target.string())));
  struct stat about {};
  if (::stat(target.c_str(), &about) == 0 && (about.st_mode & 0222U) == 0)
    fail(option, path, "it is read-only");
  return target;
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

/// Writes to a device or a pipe, which renaming would replace. A pipe that nobody reads is an error.
void write_through(const std::string& path, const std::string& text, std::string_view option) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file >= 0) ::fcntl(file, F_SETFL, O_WRONLY);
  const int failed = file < 0 ? errno : write_all(file, text);
  if (failed != 0) fail(option, path, std::strerror(failed));
}

/// A file that is written beside the one that it will replace. Of devices and pipes, which renaming would
/// replace, the text is kept until then.
class NewFile {
 public:
  NewFile(const std::string& path, const std::string& text, std::string_view option,
          const std::string& permissions_of)
      : path_(path), text_(text), option_(option) {
    std::error_code error;
    if (fs::is_directory(path, error)) fail(option, path, "it is a folder");
    if (is_of_kernel(path) || (fs::exists(path, error) && !fs::is_regular_file(path, error))) return;
    target_ = replaced_file(path, option);
    constexpr std::string_view kEnding = ".tmp";
    std::string temporary = target_.string() + ".XXXXXX" + std::string(kEnding);
    const int file = ::mkostemps(temporary.data(), static_cast<int>(kEnding.size()), O_CLOEXEC);
    if (file < 0) fail(option, path, std::strerror(errno));
    const bool kept = ::fchmod(file, permissions(target_, permissions_of)) == 0;
    int failed = kept ? 0 : errno;
    if (const int unwritten = write_all(file, text); failed == 0) failed = unwritten;
    if (failed != 0) {
      fs::remove(temporary, error);
      fail(option, path, std::strerror(failed));
    }
    temporary_ = std::move(temporary);
  }
  ~NewFile() {
    std::error_code error;
    if (!temporary_.empty()) fs::remove(temporary_, error);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void replace() {
    if (target_.empty()) return write_through(path_, text_, option_);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(option_, path_, std::strerror(errno));
    temporary_.clear();
  }

 private:
  const std::string& path_;
  const std::string& text_;
  std::string_view option_;
  fs::path target_;  ///< empty: a device or a pipe
  std::string temporary_;
};

}  // namespace

void write_file(const std::string& path, const std::string& text, std::string_view option,
                const std::string& permissions_of) {
  const HeldSignals held;
  NewFile(path, text, option, permissions_of).replace();
}

void write_files(const FileText& named, const FileText& unnamed, std::string_view option) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(unnamed.path, error);
  if (fs::exists(there) && (!fs::is_regular_file(there) || read_file(unnamed.path) != unnamed.text))
    throw InputError(std::string(option),
                     fmt::format("{} is there with another text", in_quotes(unnamed.path)),
                     "accepted: without that file");
  const HeldSignals held;
  NewFile first(unnamed.path, unnamed.text, option, {}), second(named.path, named.text, option, {});
  first.replace();
  try {
    second.replace();
  } catch (const InputError&) {
    if (!fs::exists(there)) fs::remove(unnamed.path, error);
    throw;
  }
}

TemporaryFile::TemporaryFile() : path_((std::filesystem::temp_directory_path() / "zplan-XXXXXX").string()) {
  const int file = mkstemp(path_.data());
  if (file < 0)
    throw InputError("TMPDIR", path_ + " cannot be made", "accepted: a folder that can be written");
  close(file);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

}  // namespace zplan
