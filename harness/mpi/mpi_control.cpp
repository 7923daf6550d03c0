#include "harness/mpi/mpi_control.h"

#include <fmt/format.h>

#include <climits>
#include <numeric>

#include "harness/error.h"
#include "harness/mpi/mpi_backend.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace zplan::bench {

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw BenchError(fmt::format("{}: {}", call, std::string(text, static_cast<std::size_t>(length))));
}

namespace {

/// MPI allocates buffers of the size of a message for reductions. Where glibc returns each to the system,
/// which depends on the rest of the heap, every call waits for new pages: reduce_scatter of 1 MiB then takes
/// 2.4 times as long. So they are kept, as in a program that has run for a while.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30), mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

}  // namespace

MpiProcess::MpiProcess() {
  keep_freed_memory();
  int given = 0;
  // One thread alone calls MPI. To say that there are others (MPI_THREAD_FUNNELED) makes Open MPI's calls 0.2
  // us longer, with locks that are not needed.
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SINGLE, &given), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiProcess::~MpiProcess() {
  // A rank that leaves because of an error would wait in MPI_Finalize for those that do not know of it.
  if (std::uncaught_exceptions() == 0) MPI_Finalize();
}

MpiControl::MpiControl(std::shared_ptr<MpiProcess> process) : process_(std::move(process)) {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &everyone_), "MPI_Comm_dup");
  MPI_Comm_rank(everyone_, &rank_);
  MPI_Comm_size(everyone_, &size_);
}

std::vector<std::string> MpiControl::all_gather(const std::string& mine) {
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<std::size_t>(size_)), starts(lengths.size());
  check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, everyone_), "MPI_Allgather");
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  std::string all(static_cast<std::size_t>(starts.back() + lengths.back()), '\0');
  check_mpi(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR,
                           everyone_),
            "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    texts.push_back(all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  return texts;
}

std::string MpiControl::broadcast(const std::string& of_rank_0) {
  int length = static_cast<int>(of_rank_0.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT, 0, everyone_), "MPI_Bcast");
  std::string text = rank_ == 0 ? of_rank_0 : std::string(static_cast<std::size_t>(length), '\0');
  check_mpi(MPI_Bcast(text.data(), length, MPI_CHAR, 0, everyone_), "MPI_Bcast");
  return text;
}

void MpiControl::barrier() { check_mpi(MPI_Barrier(everyone_), "MPI_Barrier"); }

std::unique_ptr<Control> make_mpi_control() {
  return std::make_unique<MpiControl>(std::make_shared<MpiProcess>());
}

}  // namespace zplan::bench
