#pragma once
// Question is what a user asks: a model, a cluster, the training, and what of it the search may choose.

#include <optional>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "models/base/format.h"
#include "models/model.h"
#include "planner/question/headroom.h"
#include "planner/question/lengths.h"
#include "planner/question/strategy.h"
#include "planner/question/trainers.h"

namespace zplan {

/// SearchSpace is what the search varies. An empty list leaves the choice to the search; a value pins it.
struct SearchSpace {
  std::vector<int> zero_stages;
  std::vector<std::int64_t> tensor_parallel;
  std::vector<std::int64_t> sequence_parallel, context_parallel;  ///< empty: 1
  std::vector<std::int64_t> pipeline_parallel;                    ///< stages; empty: the search's choice
  std::vector<std::int64_t> virtual_stages{};  ///< chunks of layers on each stage; empty: 1
  /// Ranks that divide a layer's experts; empty: under Megatron-Core the search's choice, else 1.
  std::vector<std::int64_t> expert_parallel;
  std::vector<std::int64_t> expert_tensor_parallel{};  ///< ranks that divide each expert's tensors; empty: 1
  std::vector<std::int64_t> replicas;  ///< copies of what FSDP2 shards (hybrid sharding); empty: 1
  ExpertParallel experts{};            ///< how AutoEP runs; enabled: at degree 1 too
  bool data_before_expert{};           ///< as in ParallelLayout
  MegatronOptions megatron{recommended_megatron_options()};  ///< where the framework is Megatron-Core
  TitanOptions torchtitan{};                                 ///< where the framework is torchtitan
  LongContext long_context{};
  std::vector<Offload> offloads;
  Checkpointing checkpointing{Checkpointing::full};
  std::optional<std::int64_t> micro_batch_size{1};  ///< absent: the largest that fits
  std::optional<std::int64_t> gradient_accumulation_steps;
  std::optional<std::int64_t> global_batch_size;
  bool micro_batch_follows{};  ///< micro-batch = global batch / accumulation / data-parallel ranks
  Buckets buckets{Buckets::hf_auto};
  std::optional<ZeroOptions> zero;  ///< from a ds_config; wins over `buckets`
  bool operator==(const SearchSpace&) const = default;
};

/// Budget is how much is trained on, and what a GPU costs.
struct Budget {
  std::optional<std::int64_t> samples, tokens;  ///< of one epoch; at most one of them
  double epochs{1};
  std::optional<double> price;  ///< of a GPU and hour, in whatever currency
  [[nodiscard]] bool is_known() const { return samples || tokens; }
  bool operator==(const Budget&) const = default;
};

struct Question {
  Model model;
  Cluster cluster;
  Training training;
  SearchSpace space;
  Headroom headroom;
  ByteUnit unit{ByteUnit::gib};  ///< of sizes in sentences
  Budget budget{};
  std::optional<DataLengths> lengths{};            ///< of the data set; plans are for its longest micro-batch
  std::vector<AppliedDefault> trainer_defaults{};  ///< what trainers chose that the user left open
};

}  // namespace zplan
