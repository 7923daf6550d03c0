#include "models/base/temporary_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "models/base/error.h"

namespace zplan {

TemporaryFile::TemporaryFile() : path_((std::filesystem::temp_directory_path() / "zplan-XXXXXX").string()) {
  const int file = mkstemp(path_.data());
  if (file < 0)
    throw InputError("TMPDIR", path_ + " cannot be made", "accepted: a folder that can be written");
  close(file);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

}  // namespace zplan
