#include "harness/mpi/mpi_backend.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <Eigen/Core>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <vector>

#include "harness/control.h"
#include "harness/timing.h"
#include "models/base/format.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace zplan::bench {

namespace {

/// Throws BenchError with MPI's own text if the call failed.
void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw BenchError(fmt::format("{}: {}", call, std::string(text, static_cast<std::size_t>(length))));
}

/// Makes glibc keep freed memory, as it does in a program that has run for a while. MPI allocates a buffer of
/// a message's size for each reduction; if glibc returns it to the system, every call waits for new pages,
/// and reduce_scatter of 1 MiB takes 2.4 times as long.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30), mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

/// Starts MPI, and ends it.
class MpiProcess {
 public:
  MpiProcess();
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;
};

/// Control through MPI, on a communicator of its own, apart from the calls that are measured.
class MpiControl : public Control {
 public:
  explicit MpiControl(std::shared_ptr<MpiProcess> process);
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override;
  [[nodiscard]] std::string broadcast(const std::string& of_rank_0) override;
  void barrier() override;

 private:
  std::shared_ptr<MpiProcess> process_;
  MPI_Comm everyone_{};
  int rank_{}, size_{1};
};

MpiProcess::MpiProcess() {
  keep_freed_memory();
  int given = 0;
  // Only one thread calls MPI. MPI_THREAD_FUNNELED would make Open MPI's calls 0.2 us longer, by locks that
  // are not needed.
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

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns MPI's type. Types of two bytes, which MPI lacks, are sent as integers and summed by `add`.
MPI_Datatype type_of(DataType type) {
  switch (type) {
    case DataType::float32: return MPI_FLOAT;
    case DataType::float64: return MPI_DOUBLE;
    case DataType::float16:
    case DataType::bfloat16: return MPI_UINT16_T;
    case DataType::int8: return MPI_INT8_T;
    case DataType::uint8: return MPI_UINT8_T;
    case DataType::int32: return MPI_INT32_T;
    case DataType::int64: return MPI_INT64_T;
  }
  return MPI_BYTE;
}

template <class Type>
void add(void* input, void* in_and_out, int* count, MPI_Datatype*) {
  const auto* in = static_cast<const Type*>(input);
  auto* out = static_cast<Type*>(in_and_out);
  for (int i = 0; i < *count; ++i) out[i] = out[i] + in[i];
}

struct Sums {
  MPI_Op half{}, bfloat{};
  Sums() {
    check_mpi(MPI_Op_create(add<Eigen::half>, 1, &half), "MPI_Op_create");
    check_mpi(MPI_Op_create(add<Eigen::bfloat16>, 1, &bfloat), "MPI_Op_create");
  }
  [[nodiscard]] MPI_Op of(DataType type) const {
    if (type == DataType::float16) return half;
    return type == DataType::bfloat16 ? bfloat : MPI_SUM;
  }
};

int count_of(std::int64_t elements) {
  if (elements > INT_MAX)
    throw BenchError(
        fmt::format("{} elements for one rank: MPI takes at most {} in a call", elements, INT_MAX));
  return static_cast<int>(elements);
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(MPI_Comm group, const Sums& sums) : group_(group), sums_(sums) {
    MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(group_, &rank_);
    MPI_Comm_size(group_, &size_);
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void issue(const Work& work, const std::byte* send, std::byte* receive) override;

 private:
  void broadcast(const Work& work, const std::byte* send, std::byte* receive);
  void reduce(const Work& work, const std::byte* send, std::byte* receive);
  void reduce_scatter(const Work& work, const std::byte* send, std::byte* receive);
  void send_to_next(const Work& work, const std::byte* send, std::byte* receive);
  void all_to_all(const Work& work, const std::byte* send, std::byte* receive);

  MPI_Comm group_;
  const Sums& sums_;
  int rank_{}, size_{1};
};

void MpiCommunicator::issue(const Work& work, const std::byte* send, std::byte* receive) {
  const MPI_Datatype type = type_of(work.dtype);
  const void* from = work.in_place ? MPI_IN_PLACE : send;
  const std::int64_t share = work.elements / size_;
  switch (work.operation) {
    case Operation::all_reduce:
      return check_mpi(
          MPI_Allreduce(from, receive, count_of(work.elements), type, sums_.of(work.dtype), group_),
          "MPI_Allreduce");
    case Operation::all_gather:
      return check_mpi(MPI_Allgather(from, count_of(share), type, receive, count_of(share), type, group_),
                       "MPI_Allgather");
    case Operation::reduce_scatter: return reduce_scatter(work, send, receive);
    case Operation::broadcast: return broadcast(work, send, receive);
    case Operation::reduce: return reduce(work, send, receive);
    case Operation::all_to_all: return all_to_all(work, send, receive);
    case Operation::send_recv: return send_to_next(work, send, receive);
  }
}

void MpiCommunicator::broadcast(const Work& work, const std::byte*, std::byte* receive) {
  check_mpi(MPI_Bcast(receive, count_of(work.elements), type_of(work.dtype), work.root, group_), "MPI_Bcast");
}

void MpiCommunicator::reduce(const Work& work, const std::byte* send, std::byte* receive) {
  const void* from = work.in_place && rank_ == work.root ? MPI_IN_PLACE : send;
  check_mpi(MPI_Reduce(from, receive, count_of(work.elements), type_of(work.dtype), sums_.of(work.dtype),
                       work.root, group_),
            "MPI_Reduce");
}

/// Moves an in-place result from the begin of the buffer, where MPI leaves it, to the rank's own share, where
/// NCCL leaves it.
void MpiCommunicator::reduce_scatter(const Work& work, const std::byte* send, std::byte* receive) {
  const std::int64_t share = work.elements / size_;
  std::byte* whole = work.in_place ? receive - rank_ * share * size_of(work.dtype) : receive;
  check_mpi(MPI_Reduce_scatter_block(work.in_place ? MPI_IN_PLACE : send, whole, count_of(share),
                                     type_of(work.dtype), sums_.of(work.dtype), group_),
            "MPI_Reduce_scatter_block");
  if (whole != receive) std::memmove(receive, whole, static_cast<std::size_t>(share * size_of(work.dtype)));
}

void MpiCommunicator::all_to_all(const Work& work, const std::byte* send, std::byte* receive) {
  const MPI_Datatype type = type_of(work.dtype);
  if (work.counts.empty()) {
    const int share = count_of(work.elements / size_);
    return check_mpi(MPI_Alltoall(send, share, type, receive, share, type, group_), "MPI_Alltoall");
  }
  std::vector<int> out, out_at, in, in_at;
  for (int peer = 0; peer < size_; ++peer) {
    const Share sent = sent_to(work, size_, rank_, peer), received = received_from(work, size_, rank_, peer);
    out.push_back(count_of(sent.elements)), out_at.push_back(count_of(sent.offset));
    in.push_back(count_of(received.elements)), in_at.push_back(count_of(received.offset));
  }
  check_mpi(
      MPI_Alltoallv(send, out.data(), out_at.data(), type, receive, in.data(), in_at.data(), type, group_),
      "MPI_Alltoallv");
}

void MpiCommunicator::send_to_next(const Work& work, const std::byte* send, std::byte* receive) {
  const MPI_Datatype type = type_of(work.dtype);
  const int count = count_of(work.elements);
  check_mpi(MPI_Sendrecv(send, count, type, (rank_ + 1) % size_, 0, receive, count, type,
                         (rank_ + size_ - 1) % size_, 0, group_, MPI_STATUS_IGNORE),
            "MPI_Sendrecv");
}

/// Returns "Open MPI 4.1.4" for "Open MPI v4.1.4, package: …".
std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string whole(text, static_cast<std::size_t>(length));
  whole = whole.substr(0, whole.find_first_of(",\n"));
  if (const std::size_t v = whole.find(" v"); v != std::string::npos) whole.erase(v + 1, 1);
  return whole;
}

/// Returns the memory available to new allocations, nothing if the system does not report it.
std::optional<Bytes> available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    std::int64_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) return kKiB * kibibytes;
    file.ignore(256, '\n');
  }
  return std::nullopt;
}

class MpiBackend : public Backend {
 public:
  MpiBackend() : process_(std::make_shared<MpiProcess>()), control_(process_) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &everyone_), "MPI_Comm_dup");
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
    MPI_Comm_size(node, &ranks_here_);
    MPI_Comm_free(&node);
  }

  [[nodiscard]] Identity identity() const override { return {"mpi", library_version(), "", ""}; }
  [[nodiscard]] Control& control() override { return control_; }
  [[nodiscard]] bool has_form(Operation operation, bool in_place) const override {
    return operation == Operation::broadcast ? in_place : Backend::has_form(operation, in_place);
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override {
    MPI_Comm group = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(MPI_COMM_WORLD, color, key, &group), "MPI_Comm_split");
    return std::make_unique<MpiCommunicator>(group, sums_);
  }
  [[nodiscard]] Memory allocate(Bytes size) override;
  void upload(std::byte* to, const std::byte* from, Bytes size) override {
    std::memcpy(to, from, static_cast<std::size_t>(size.value));
  }
  void download(std::byte* to, const std::byte* from, Bytes size) override {
    std::memcpy(to, from, static_cast<std::size_t>(size.value));
  }
  void finish() override {}
  [[nodiscard]] std::vector<double> time(std::int64_t times, const std::function<void()>& issue) override;
  void compute(Seconds time) override {
    for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < time.value;) {
    }
  }
  void let_calls_wait() override {}
  void let_compute_wait() override {}
  void mark_step(bool begins) override { MPI_Pcontrol(begins ? 1 : 0); }
  /// mpirun ends the others if one ends without MPI_Finalize.
  void abort() noexcept override {}

 private:
  std::shared_ptr<MpiProcess> process_;
  MpiControl control_;
  Sums sums_;
  MPI_Comm everyone_{};
  int ranks_here_{1};
};

/// Checks the available memory first and then touches every page: Linux grants more memory than there is, and
/// kills a process that uses it.
Memory MpiBackend::allocate(Bytes size) {
  const std::optional<Bytes> free = available_memory();
  void* data = nullptr;
  const bool lacks = free && size.value > free->value / ranks_here_;
  if (lacks || posix_memalign(&data, 4096, static_cast<std::size_t>(size.value)) != 0)
    throw OutOfMemory(fmt::format("no host memory for {} in each of {} ranks{}", format_bytes(size),
                                  ranks_here_, free ? ", " + format_bytes(*free) + " are free" : ""));
  std::memset(data, 0, static_cast<std::size_t>(size.value));
  return {data, size, [](void* held) { std::free(held); }};
}

/// Puts a barrier after each call, so that no rank runs ahead.
std::vector<double> MpiBackend::time(std::int64_t times, const std::function<void()>& issue) {
  const auto barrier = [this] { check_mpi(MPI_Barrier(everyone_), "MPI_Barrier"); };
  barrier();
  return time_each(times, issue, barrier);
}

}  // namespace

std::unique_ptr<Backend> make_mpi_backend() { return std::make_unique<MpiBackend>(); }

std::unique_ptr<Control> make_mpi_control() {
  return std::make_unique<MpiControl>(std::make_shared<MpiProcess>());
}

}  // namespace zplan::bench
