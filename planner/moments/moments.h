#pragma once
// Moments of a run beside its steps: loading, evaluation, saving. Each lists what is resident in device and
// host memory at its worst instant, on every rank, and what the first rank holds beyond that.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

struct Plan;
struct RunInputs;
struct StepInputs;

/// In the order of a run; of reinforcement learning weights go to what generates (`weight_sync`), it
/// generates
/// (`generation`) and completions are scored before they are trained on. `save_model` writes weights that
/// from_pretrained loads, `save_checkpoint` what training goes on from.
enum class RunMoment {
  load,
  weight_sync,
  scoring,
  training,
  evaluation,
  generation,
  save_model,
  save_checkpoint
};
template <>
struct EnumNames<RunMoment> {
  static constexpr std::array<std::pair<RunMoment, std::string_view>, 8> table{
      {{RunMoment::load, "load"},
       {RunMoment::weight_sync, "weight_sync"},
       {RunMoment::scoring, "scoring"},
       {RunMoment::training, "training"},
       {RunMoment::evaluation, "evaluation"},
       {RunMoment::generation, "generation"},
       {RunMoment::save_model, "save_model"},
       {RunMoment::save_checkpoint, "save_checkpoint"}}};
};

/// Resident is memory that one thing takes.
struct Resident {
  std::string_view name;
  Bytes device{};         ///< of each rank
  Bytes host{};           ///< of each rank
  Bytes host_of_first{};  ///< what the node's first rank has beside that
  std::string_view formula{}, source{};
  bool is_copy{};  ///< on the host, of what the device holds
  bool operator==(const Resident&) const = default;
};

/// Returns the sum of all parts on a rank's device.
[[nodiscard]] Bytes on_device(const std::vector<Resident>& parts);

/// Memory at one moment of a run.
struct MomentMemory {
  RunMoment moment{};
  std::vector<Resident> parts{};
  Bytes device{};             ///< of a rank, CUDA context and NCCL included; 0 where the moment takes none
  Bytes host{};               ///< of the first node: what its ranks allocate
  std::string_view remedy{};  ///< what would need less, and how it is set; empty: nothing is known
  bool operator==(const MomentMemory&) const = default;
};

/// Returns the host memory of loading, training and saving, without devices. `offload` is that of one node.
/// Source: docs/moments.md.
[[nodiscard]] std::vector<MomentMemory> host_moments(const StepInputs& inputs, std::int64_t ranks_per_node,
                                                     Bytes offload);

/// Returns the host memory of a node at the moment that takes most of it.
[[nodiscard]] Bytes most_on_host(const std::vector<MomentMemory>& moments);

/// StepFigures are figures of a plan's steps that its moments depend on.
struct StepFigures {
  Bytes required;  ///< the smallest device of its steps
  Bytes held;      ///< live in PyTorch's allocator between them
  Bytes gathered;  ///< parameters that are whole in its forward
  Bytes outside;   ///< CUDA context and NCCL
  Bytes offload;   ///< host memory of a node
};
/// Returns all moments of a run on nodes of `ranks_per_node` ranks, in order.
[[nodiscard]] std::vector<MomentMemory> run_moments(const RunInputs& inputs, const StepFigures& step,
                                                    std::int64_t ranks_per_node);

/// Returns the first moment whose device or host memory does not suffice; null where all do.
[[nodiscard]] const MomentMemory* short_moment(const std::vector<MomentMemory>& moments, Bytes device,
                                               Bytes host);

}  // namespace zplan
