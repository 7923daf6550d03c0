#include <cstdlib>
#include <string>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "cli/run.h"

namespace {

/// A plan's memory is freed just before the next one asks for as much: what the heap has it keeps, and it
/// grows in large steps, which halves the time that a process spends in the kernel.
void keep_heap() {
#if defined(__GLIBC__)
  constexpr int kMiB = 1 << 20;
  mallopt(M_TRIM_THRESHOLD, 1024 * kMiB);
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TOP_PAD, 64 * kMiB);
#endif
}

}  // namespace

int main(int count, char** values) {
  keep_heap();
  return zplan::run_process(std::vector<std::string>(values + (count > 0 ? 1 : 0), values + count));
}
