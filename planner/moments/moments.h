#pragma once
// What a run takes of device and host memory beside its steps: as the model is loaded, evaluated and saved.
// Each moment is a list of what is resident at its worst instant, on every rank and on the first one more.

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

/// What is resident for one reason.
struct Resident {
  std::string_view name;
  Bytes device{};         ///< of each rank
  Bytes host{};           ///< of each rank
  Bytes host_of_first{};  ///< what the node's first rank has beside that
  std::string_view formula{}, source{};
  bool is_copy{};  ///< on the host, of what the device holds
  bool operator==(const Resident&) const = default;
};

/// What all parts take of a rank's device.
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

/// What loading and saving take of the host, and training's offload; `offload`: of one node. Devices are left
/// out. Source: docs/moments.md.
[[nodiscard]] std::vector<MomentMemory> host_moments(const StepInputs& inputs, std::int64_t ranks_per_node,
                                                     Bytes offload);

/// The host memory of a node at the moment that takes most of it.
[[nodiscard]] Bytes most_on_host(const std::vector<MomentMemory>& moments);

/// What a plan's run is known by when its moments are asked for.
struct StepFigures {
  Bytes required;  ///< the smallest device of its steps
  Bytes held;      ///< live in PyTorch's allocator between them
  Bytes gathered;  ///< parameters that are whole in its forward
  Bytes outside;   ///< CUDA context and NCCL
  Bytes offload;   ///< host memory of a node
};
/// All moments of a run on nodes of so many ranks, in order.
[[nodiscard]] std::vector<MomentMemory> run_moments(const RunInputs& inputs, const StepFigures& step,
                                                    std::int64_t ranks_per_node);

/// The first moment whose device or host memory does not suffice; null where all do.
[[nodiscard]] const MomentMemory* short_moment(const std::vector<MomentMemory>& moments, Bytes device,
                                               Bytes host);

}  // namespace zplan
