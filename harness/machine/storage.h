#pragma once
// Measures how fast a folder's disk reads and writes in the way of offload to NVMe.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/json_reader.h"
#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan::bench {

enum class StorageDirection { write, read };

/// Blocks and requests as DeepSpeed's aio has them (block_size 1 MiB, queue_depth 8, thread_count 1;
/// deepspeed/runtime/swap_tensor/constants.py): eight requests run at a time, each in a thread here.
inline constexpr Bytes kStorageBlock = kMiB;
inline constexpr int kStorageThreads = 8;

/// One pass over the file.
struct StorageResult {
  std::string path;  ///< the folder
  StorageDirection direction{StorageDirection::write};
  bool direct{};
  Bytes bytes{};
  Seconds seconds{};  ///< of a write with the fsync at its end
  std::string note;   ///< what keeps it from being the disk's own speed; empty: nothing known
};
[[nodiscard]] BytesPerSecond rate(const StorageResult& result);
/// An entry of "storage" in zplan.bench/1.
[[nodiscard]] Json storage_json(const StorageResult& result);

/// Returns why figures of such a file system are not a disk's own speed, empty if no reason is known.
/// `file_system`: f_type of statfs(2), 0 if unknown. `direct`: true if it was read past the page cache.
[[nodiscard]] std::string storage_note(std::int64_t file_system, bool direct);

/// Writes a file of `size`, rounded up to whole blocks, to the folder and reads it back: {write, read}. It is
/// written once before the timing, since swap files are overwritten from the second step on; it has no name,
/// so nothing is left whatever happens. The first and last page of each block that is read are compared.
/// Throws InputError where the folder is missing, cannot be written to or has no space; BenchError where the
/// disk fails or returns something else than was written.
[[nodiscard]] std::vector<StorageResult> measure_storage(const std::string& folder, Bytes size = kGiB);

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::StorageDirection> {
  static constexpr std::array<std::pair<bench::StorageDirection, std::string_view>, 2> table{
      {{bench::StorageDirection::write, "write"}, {bench::StorageDirection::read, "read"}}};
};

}  // namespace zplan
