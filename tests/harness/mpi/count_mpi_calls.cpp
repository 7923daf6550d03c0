// Counts collectives between MPI_Pcontrol(1) and MPI_Pcontrol(0), and writes them at the end, a JSON line per
// kind of call and rank, to $COUNT_MPI_CALLS.RANK.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

namespace {

struct Kind {
  std::string operation;
  int ranks;
  long long bytes;
  auto operator<=>(const Kind&) const = default;
};

bool counting = false;
std::map<Kind, long long> counted;

/// `bytes` as nccl-tests counts: of gathers and scatters the buffer over all ranks.
void count(const char* operation, long long elements, MPI_Datatype type, MPI_Comm group, bool times_ranks) {
  if (!counting) return;
  int ranks = 0, width = 0;
  PMPI_Comm_size(group, &ranks);
  PMPI_Type_size(type, &width);
  ++counted[{operation, ranks, elements * width * (times_ranks ? ranks : 1)}];
}

}  // namespace

extern "C" {

int MPI_Pcontrol(const int level, ...) {
  counting = level == 1;
  return MPI_SUCCESS;
}

int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm group) {
  count("all_reduce", n, type, group, false);
  return PMPI_Allreduce(in, out, n, type, op, group);
}

int MPI_Allgather(const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype type_out,
                  MPI_Comm group) {
  count("all_gather", m, type_out, group, true);
  return PMPI_Allgather(in, n, type, out, m, type_out, group);
}

int MPI_Reduce_scatter_block(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm group) {
  count("reduce_scatter", n, type, group, true);
  return PMPI_Reduce_scatter_block(in, out, n, type, op, group);
}

int MPI_Bcast(void* data, int n, MPI_Datatype type, int root, MPI_Comm group) {
  count("broadcast", n, type, group, false);
  return PMPI_Bcast(data, n, type, root, group);
}

int MPI_Reduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm group) {
  count("reduce", n, type, group, false);
  return PMPI_Reduce(in, out, n, type, op, root, group);
}

int MPI_Alltoall(const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype type_out,
                 MPI_Comm group) {
  count("all_to_all", n, type, group, true);
  return PMPI_Alltoall(in, n, type, out, m, type_out, group);
}

/// Counted by what this rank sends.
int MPI_Alltoallv(const void* in, const int n[], const int at[], MPI_Datatype type, void* out, const int m[],
                  const int at_out[], MPI_Datatype type_out, MPI_Comm group) {
  int ranks = 0;
  PMPI_Comm_size(group, &ranks);
  count("all_to_all", std::accumulate(n, n + ranks, 0LL), type, group, false);
  return PMPI_Alltoallv(in, n, at, type, out, m, at_out, type_out, group);
}

int MPI_Sendrecv(const void* in, int n, MPI_Datatype type, int to, int tag, void* out, int m,
                 MPI_Datatype type_out, int from, int tag_out, MPI_Comm group, MPI_Status* status) {
  count("send_recv", n, type, group, false);
  return PMPI_Sendrecv(in, n, type, to, tag, out, m, type_out, from, tag_out, group, status);
}

int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (const char* path = std::getenv("COUNT_MPI_CALLS")) {
    std::FILE* file = std::fopen((std::string(path) + "." + std::to_string(rank)).c_str(), "w");
    for (const auto& [kind, calls] : counted)
      std::fprintf(file, "{\"operation\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"calls\": %lld}\n",
                   kind.operation.c_str(), kind.ranks, kind.bytes, calls);
    std::fclose(file);
  }
  return PMPI_Finalize();
}

}  // extern "C"
