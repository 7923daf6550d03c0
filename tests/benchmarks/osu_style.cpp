// The loop that OSU's micro-benchmarks time a blocking collective with, written down anew from its
// description (the mean over all calls and ranks of MPI_Wtime around each, then a barrier), to compare
// zplan-bench with:
//   mpirun -n 2 osu_style all_reduce BYTES CALLS WARMUP
// Source: OSU Micro-Benchmarks, README, "Collective Benchmarks".

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void call(const std::string& operation, std::vector<float>& in, std::vector<float>& out, int ranks,
          int rank) {
  const int all = static_cast<int>(in.size()), share = all / ranks;
  if (operation == "all_reduce")
    MPI_Allreduce(in.data(), out.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (operation == "all_gather")
    MPI_Allgather(in.data(), share, MPI_FLOAT, out.data(), share, MPI_FLOAT, MPI_COMM_WORLD);
  if (operation == "reduce_scatter")
    MPI_Reduce_scatter_block(in.data(), out.data(), share, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (operation == "broadcast") MPI_Bcast(out.data(), all, MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (operation == "reduce") MPI_Reduce(in.data(), out.data(), all, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (operation == "all_to_all")
    MPI_Alltoall(in.data(), share, MPI_FLOAT, out.data(), share, MPI_FLOAT, MPI_COMM_WORLD);
  if (operation == "send_recv")
    MPI_Sendrecv(in.data(), all, MPI_FLOAT, (rank + 1) % ranks, 0, out.data(), all, MPI_FLOAT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int count, char** values) {
  if (count != 5) return std::fprintf(stderr, "usage: osu_style OPERATION BYTES CALLS WARMUP\n"), 2;
  MPI_Init(nullptr, nullptr);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string operation = values[1];
  std::vector<float> in(static_cast<std::size_t>(std::atol(values[2])) / sizeof(float)), out(in.size());
  const int calls = std::atoi(values[3]), warmup = std::atoi(values[4]);
  std::vector<double> samples;
  for (int i = 0; i < warmup + calls; ++i) {
    const double begin = MPI_Wtime();
    call(operation, in, out, ranks, rank);
    if (i >= warmup) samples.push_back(MPI_Wtime() - begin);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  std::vector<double> sums(samples.size());
  MPI_Reduce(samples.data(), sums.data(), calls, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  // OSU prints the mean over calls; one call that the system interrupted moves it, so each call's mean is
  // printed.
  for (const double each : sums)
    if (rank == 0) std::printf("%.9g\n", each / ranks);
  MPI_Finalize();
}
