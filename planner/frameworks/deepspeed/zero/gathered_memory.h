#pragma once
// The device memory that ZeRO-3's gathers take and give back: what a GatherPlan means to PyTorch's allocator.

#include "planner/frameworks/deepspeed/zero/coordinator.h"

namespace zplan {

/// A block of device memory that is taken or given back.
struct GatherBlock {
  enum class Use : std::uint8_t {
    parameter,        ///< a whole parameter
    shared_buffer,    ///< parameters on their way together, or by_all_reduce for as long as one of them is
                      ///< whole
    host_copy,        ///< an offloaded shard, for as long as the call takes
    secondary_shard,  ///< within secondary_partition ranks
  };
  Use use{Use::parameter};
  bool taken{true};  ///< false: given back
  /// Allocated on the compute stream; else, with overlap_comm, on the stream of gathers. A block that is
  /// freed as a parameter has been used on the compute stream, too (record_stream).
  bool on_compute_stream{};
  std::int32_t event{};  ///< as GatherAction::event
  std::int32_t block{};  ///< its name, used once in a GatheredMemory
  Bytes size;            ///< as asked for
  bool operator==(const GatherBlock&) const = default;
};

/// Device memory of gathered parameters, beside the shards, through plans in order. A value: a copy goes on
/// from the same state.
class GatheredMemory {
 public:
  /// `tape` outlives it.
  GatheredMemory(const ModuleTape& tape, const GatherOptions& options, StepKind step = StepKind::steady);

  /// Returns the blocks that exist before the step: secondary shards, and from the second step on persistent
  /// parameters.
  [[nodiscard]] const std::vector<GatherBlock>& held_before() const { return held_before_; }

  /// Appends what a plan allocates and frees, in order, to `blocks`. NCCL keeps an offloaded shard's copy
  /// until its call is waited for; here it is freed when the call is issued.
  void play(const GatherPlan& plan, std::vector<GatherBlock>& blocks);

 private:
  static constexpr std::int32_t kNone = -1;
  /// A block, for as long as something refers to it.
  struct Storage {
    GatherBlock::Use use{};
    bool on_compute_stream{};
    std::int32_t references{};
    Bytes size;
  };

  void hold_before(StepKind step);
  /// Its name.
  [[nodiscard]] std::int32_t take(GatherBlock::Use use, Bytes size, std::int32_t references = 1);
  void drop(std::int32_t storage);

  [[nodiscard]] Bytes whole(std::int32_t parameter) const;
  [[nodiscard]] Bytes shard(std::int32_t parameter, std::int32_t ranks) const;
  [[nodiscard]] std::vector<std::int32_t> copies_from_host(std::span<const std::int32_t> parameters,
                                                           std::int32_t ranks);

  void act(const GatherAction& action, std::span<const std::int32_t> parameters);
  void gather(const GatherAction& action, std::span<const std::int32_t> parameters);
  void gather_quantized(const GatherAction& action, std::span<const std::int32_t> parameters);
  void wait_for_quantized(const GatherAction& action, std::span<const std::int32_t> parameters);
  void gather_persistent(std::span<const std::int32_t> parameters, std::int32_t ranks);
  void keep(std::int32_t parameter);
  void let_go(std::int32_t parameter);

  const ModuleTape* tape_;
  GatherOptions options_;
  std::vector<GatherBlock> held_before_;
  std::vector<Storage> storages_;                            ///< by name
  std::vector<std::int32_t> whole_, secondary_;              ///< by parameter: storage
  std::vector<std::int32_t> buffers_;                        ///< by call: storage
  std::vector<std::int32_t> scales_, restored_;              ///< of quantised calls, likewise
  std::vector<std::pair<std::int32_t, std::int32_t>> kept_;  ///< parameter and storage, oldest first
  std::int32_t event_{};
  bool on_compute_stream_{};
  std::vector<GatherBlock>* blocks_{};  ///< while a plan is played
};

}  // namespace zplan
