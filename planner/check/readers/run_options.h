#pragma once
// Pieces that readers of several formats share: models, GPUs and adapters as files name them.

#include <optional>
#include <string>

#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

// Far beyond any run, and small enough that every figure stays within 64 bits.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 50, kMostRanks = 1'000'000, kMostBatch = 65'536,
                              kMostSequence = 16'777'216, kMostCalls = std::int64_t{1} << 32;
inline constexpr double kMostSeconds = 1e6;

/// Bytes as a whole number.
[[nodiscard]] Bytes bytes_at(const JsonReader& value);

/// The model of a row's `config`; nothing, and the reason in `skip`, where its architecture is not known.
/// Throws InputError for a config of a known architecture that is not one.
[[nodiscard]] std::optional<Model> model_at(const JsonReader& config, Skip& skip);

/// lora_rank and lora_targets ("all-linear" or names) of a row's options; a target that zplan
/// does not adapt is a reason in `skip`.
void read_adapters(const JsonReader& options, const Model& model, Training& training, Skip& skip);

/// The built-in profile of the GPU that a row names; nothing, and the reason in `skip`, where the catalogue
/// has no GPU of that name, or one whose memory differs from `memory` by more than 5 %.
[[nodiscard]] std::optional<std::string> profile_named(const std::string& name, std::optional<Bytes> memory,
                                                       Skip& skip);
/// Where a row names no GPU, or none that is known.
inline constexpr const char* kGenericCard = "generic";

/// Nodes of eight GPUs each, one node below that: what published runs use.
[[nodiscard]] std::int64_t usual_nodes(std::int64_t gpus);
/// `gpus` GPUs in as many nodes. Memory of the profile where `memory` is absent.
[[nodiscard]] Cluster usual_cluster(const std::string& profile, std::int64_t gpus,
                                    std::optional<Bytes> memory);

/// Where a row says how many ranks of the cluster's a node has (ranks_per_node).
void read_ranks_per_node(const JsonReader& row, Cluster& cluster);

/// GPUs on links as `row` names them: interconnect, nodes, and what its source says of the machine: topology,
/// host_threads, host_gb_per_s. Where it names one NVLink domain, all are one node. Throws InputError
/// where the nodes do not divide the GPUs.
[[nodiscard]] Cluster linked_cluster(const std::string& profile, const JsonReader& row, std::int64_t gpus);

/// How ranks and batches are arranged and what is checkpointed: tensor_parallel, micro_batch, grad_accum and
/// checkpointing of a row's options.
[[nodiscard]] Strategy read_arrangement(const JsonReader& options, std::int64_t gpus);

/// "none", "optimizer", "param", "all" or "optimizer+param" to host memory.
void read_offload(const std::string& text, Strategy& strategy);

/// The value of an enum by its name.
template <class E>
[[nodiscard]] E named(const JsonReader& value) {
  return parse_name<E>(value.place(), value.text());
}

}  // namespace zplan::check
