#include "harness/nccl/nccl_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "harness/control.h"
#include "harness/nccl/busy_stream.h"
#include "harness/nccl/nccl_rank.h"
#include "harness/timing.h"
#include "models/base/error.h"

namespace zplan::bench {

namespace {

/// Returns a text that identifies this machine, even if machines or containers share a name.
std::string host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{} {}", host_name(), boot);
}

/// Returns the rank's number among those of its host, modulo the number of GPUs.
int device_of(Control& control, int devices) {
  const std::vector<std::string> hosts = control.all_gather(host());
  const auto mine = hosts.begin() + control.rank();
  return static_cast<int>(std::count(hosts.begin(), mine, *mine)) % devices;
}

std::string bus_id(const CudaRuntime& cuda, int device) {
  std::array<char, 32> text{};
  const cudaError_t result = cuda.pci_bus_id(text.data(), static_cast<int>(text.size()), device);
  return result == cudaSuccess ? text.data() : fmt::format("GPU {}", device);
}

/// Throws InputError if ranks share a GPU without --share-gpu; with it, gives each rank an NCCL_HOSTID of its
/// own. Ranks exchange the same messages whatever their options are: run() compares these later.
void check_shared_gpu(Control& control, const CudaRuntime& cuda, int device, bool may_share) {
  const std::vector<std::string> all = control.all_gather(host() + ' ' + bus_id(cuda, device));
  if (may_share) {
    setenv("NCCL_HOSTID", fmt::format("zplan-rank-{}", control.rank()).c_str(), 1);
    return;
  }
  for (std::size_t second = 0; second < all.size(); ++second)
    for (std::size_t first = 0; first < second; ++first)
      if (all[first] == all[second])
        throw InputError("--backend nccl",
                         fmt::format("ranks {} and {} share one GPU, which NCCL refuses", first, second),
                         "start at most as many ranks as a host has GPUs, or add --share-gpu for a test");
}

/// Returns the id that rank 0 makes for the communicator of all ranks.
ncclUniqueId unique_id(Control& control, const Nccl& nccl) {
  ncclUniqueId id{};
  if (const ncclResult_t result = control.rank() == 0 ? nccl.unique_id(&id) : ncclSuccess;
      result != ncclSuccess)
    throw BenchError(fmt::format("rank 0: ncclGetUniqueId fails: {} ({}); NCCL_DEBUG=INFO says more",
                                 nccl.error_string(result), static_cast<int>(result)));
  const std::string bytes = control.broadcast(std::string(id.internal, sizeof id.internal));
  std::memcpy(id.internal, bytes.data(), std::min(bytes.size(), sizeof id.internal));
  return id;
}

class NcclBackend final : public Backend {
 public:
  NcclBackend(std::unique_ptr<Control> control, NcclOptions options, std::shared_ptr<NcclRank> rank)
      : control_(std::move(control)),
        options_(std::move(options)),
        rank_(std::move(rank)),
        computed_(rank_->device.event()),
        called_(rank_->device.event()) {}

  [[nodiscard]] Identity identity() const override;
  [[nodiscard]] Control& control() override { return *control_; }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override;

  [[nodiscard]] Memory allocate(Bytes size) override { return rank_->device.allocate(size); }
  void upload(std::byte* to, const std::byte* from, Bytes size) override;
  void download(std::byte* to, const std::byte* from, Bytes size) override;
  void finish() override;

  [[nodiscard]] std::vector<double> time(std::int64_t times, const std::function<void()>& issue) override;
  void compute(Seconds time) override;
  void let_calls_wait() override;
  void let_compute_wait() override;

  void abort() noexcept override { rank_->live.abort(); }

 private:
  void start_computing();
  void wait_for(const Event& event);
  void keep_events(std::size_t count);

  std::unique_ptr<Control> control_;
  NcclOptions options_;
  std::shared_ptr<NcclRank> rank_;
  Event computed_, called_;  ///< what the other queue waits for
  std::vector<Event> events_;
  std::unique_ptr<BusyStream> busy_;
};

Identity NcclBackend::identity() const {
  int nccl = 0, cuda = 0;
  rank_->nccl.version(&nccl);
  rank_->device.cuda().runtime_version(&cuda);
  return {.backend = "nccl",
          .library = "NCCL " + nccl_version_text(nccl),
          .driver = driver_version(options_.places),
          .cuda = cuda_version_text(cuda)};
}

std::unique_ptr<Communicator> NcclBackend::split(int color, int key) {
  return std::make_unique<NcclCommunicator>(rank_, rank_->split(color, key));
}

void NcclBackend::upload(std::byte* to, const std::byte* from, Bytes size) {
  rank_->device.copy(to, from, size, cudaMemcpyHostToDevice, rank_->calls);
  rank_->finish(rank_->calls);
}

void NcclBackend::download(std::byte* to, const std::byte* from, Bytes size) {
  rank_->device.copy(to, from, size, cudaMemcpyDeviceToHost, rank_->calls);
  rank_->finish(rank_->calls);
}

void NcclBackend::finish() {
  rank_->finish(rank_->calls);
  if (busy_) rank_->finish(busy_->stream());
}

void NcclBackend::keep_events(std::size_t count) {
  while (events_.size() < count) events_.push_back(rank_->device.timing_event());
}

void NcclBackend::wait_for(const Event& event) {
  const auto reached = [&] {
    rank_->check_alive();
    return rank_->device.reached(event);
  };
  if (!wait_until(rank_->timeout, reached)) rank_->give_up_late(to_text(rank_->last));
}

std::vector<double> NcclBackend::time(std::int64_t times, const std::function<void()>& issue) {
  const auto count = static_cast<std::size_t>(times);
  keep_events(2 * count);
  for (std::size_t each = 0; each < count; ++each) {
    rank_->device.record(events_[2 * each], rank_->calls);
    issue();
    rank_->device.record(events_[2 * each + 1], rank_->calls);
  }
  // One after the other: the time-out holds for each call, not for all together.
  for (std::size_t each = 0; each < count; ++each) wait_for(events_[2 * each + 1]);
  finish();
  std::vector<double> seconds;
  for (std::size_t each = 0; each < count; ++each)
    seconds.push_back(rank_->device.between(events_[2 * each], events_[2 * each + 1]).value);
  return seconds;
}

void NcclBackend::start_computing() {
  busy_ = std::make_unique<BusyStream>(rank_->device, load_cublas(options_.places), rank_->timeout);
  rank_->device.wait(busy_->stream(), called_);
}

void NcclBackend::compute(Seconds time) {
  if (time.value <= 0) return;
  if (!busy_) start_computing();
  busy_->keep_busy(time);
}

void NcclBackend::let_calls_wait() {
  if (!busy_) return;
  rank_->device.record(computed_, busy_->stream());
  rank_->device.wait(rank_->calls, computed_);
}

void NcclBackend::let_compute_wait() {
  rank_->device.record(called_, rank_->calls);
  if (busy_) rank_->device.wait(busy_->stream(), called_);
}

}  // namespace

std::unique_ptr<Backend> make_nccl_backend(std::unique_ptr<Control> control, const NcclOptions& options) {
  const std::string who = fmt::format("rank {}", control->rank());
  const CudaRuntime cuda = load_cuda(options.places);
  const Nccl nccl = load_nccl(options.places);
  const int device = device_of(*control, cuda.devices);
  check_shared_gpu(*control, cuda, device, options.share_gpu);
  auto rank = std::make_shared<NcclRank>(Device(cuda, device, who), nccl, options.timeout);
  rank->join_world(control->rank(), control->size(), unique_id(*control, nccl));
  return std::make_unique<NcclBackend>(std::move(control), options, std::move(rank));
}

int usable_gpus(const LibraryPlaces& places) {
  try {
    return load_cuda(places).devices;
  } catch (const InputError&) {
    return 0;
  }
}

void check_nccl(const LibraryPlaces& places) {
  (void)load_cuda(places);
  (void)load_nccl(places);
}

}  // namespace zplan::bench
