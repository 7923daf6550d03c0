// The libraries that are installed here have every function that the tables ask for. No driver is needed to
// look.

#include <gtest/gtest.h>

#include "harness/nccl/library.h"

namespace zplan::bench {
namespace {

SharedLibrary open_file(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const LibraryPlaces places{.first = {path.substr(0, slash)}, .system = false, .then = {}};
  SharedLibrary library = open_library({path.substr(slash + 1)}, places);
  EXPECT_NE(library.handle, nullptr) << library.trouble;
  return library;
}

TEST(RealLibraries, HaveNcclsFunctions) {
  const Nccl nccl = nccl_of(open_file(ZPLAN_REAL_NCCL));
  int version = 0;
  EXPECT_EQ(nccl.version(&version), ncclSuccess);
  EXPECT_GE(version, 21800);
}

TEST(RealLibraries, HaveTheRuntimesFunctions) {
  const CudaRuntime cuda = cuda_of(open_file(ZPLAN_REAL_CUDART));
  int version = 0;
  EXPECT_EQ(cuda.runtime_version(&version), cudaSuccess);
  EXPECT_GE(version, 11000);
}

TEST(RealLibraries, HaveCublasFunctions) {
  const Cublas blas = cublas_of(open_file(ZPLAN_REAL_CUBLAS));
  EXPECT_STRNE(blas.status_string(CUBLAS_STATUS_SUCCESS), blas.status_string(CUBLAS_STATUS_NOT_SUPPORTED));
}

}  // namespace
}  // namespace zplan::bench
