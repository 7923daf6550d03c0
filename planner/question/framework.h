#pragma once
// FrameworkSpec is a training framework's row: its facts, and functions for what it allows, shards, runs,
// warns of and is started with. Each framework fills in one in the folder of its name. The rest of the
// planner reads rows and never compares frameworks, so that folders below planner/frameworks/ include none of
// it.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/question/strategy.h"
#include "planner/question/terms.h"

namespace zplan {

struct AllocatorOptions;
struct Flattening;
struct HostTally;
struct Launch;
struct OptimizerTensor;
struct Plan;
struct Question;
struct RankModel;
struct RunInputs;
struct RunResult;
struct Shard;
struct Slice;
struct StepInputs;
struct StepSchedule;

using Reasons = std::vector<std::string>;

/// ModelFiles says how a trainer loads a model before a framework has it, and how it saves it.
struct ModelFiles {
  /// Each rank makes its own part on its device and reads values into it: no weights wait on the host.
  bool made_on_device{};
  /// Rank 0 reads the checkpoint and sends each parameter on (zero.Init).
  bool hands_out{};
  /// Trained 16-bit parameters become fp32 on the host, on every rank, before they are sharded.
  bool widens_on_host{};
  SavedModel saves{};  ///< what the config of a plan asks for
  /// Every rank clones its state dict to the host; else the first one alone has what is saved.
  bool clones_everywhere{};
  bool trained_alone{};  ///< under peft no frozen weights are gathered
  bool gathers{};        ///< parameter by parameter on the device before the first rank has it
  /// The largest state of a checkpoint that torch.save copies to the host at one time, on each rank.
  Bytes copied_state{};
  bool gathers_states{};           ///< a full checkpoint gathers optimizer states on the first rank
  std::string_view load_remedy{};  ///< what would load with less host memory
  std::string_view save_remedy{};  ///< what would save with less
};

struct FrameworkSpec {
  // ---- as text
  std::string_view title;           ///< before how a model is trained: "FSDP2: "; empty for DeepSpeed
  std::string_view calls_source;    ///< where its collectives are documented
  std::string_view host_source;     ///< likewise what offload keeps on the host
  std::span<const TermInfo> terms;  ///< terms of memory that it holds in its own way
  std::string_view config_file;     ///< what its config is usually called; empty: it needs none
  bool reads_ds_config;             ///< with bucket sizes, releases and lint
  bool reads_accelerate_config;

  // ---- tried where the question leaves it open
  std::span<const int> stages;
  std::span<const Offload> offloads;
  bool splits_layers;                        ///< tensor parallelism
  bool runs_alst;                            ///< ALST: its tiles, and checkpoints on the host
  bool runs_ulysses;                         ///< sequence parallelism: ranks exchange tokens for heads
  bool passes_keys;                          ///< context parallelism: a ring
  bool divides_experts;                      ///< expert parallelism (AutoEP)
  bool has_stages;                           ///< pipeline parallelism, by its own layers
  bool replicates;                           ///< hybrid sharding: copies of what is sharded
  std::optional<Framework> sharded_instead;  ///< what to try where every GPU would hold everything
  std::optional<Framework> packed_instead;   ///< what to try to shard packed weights, beside itself

  // ---- how it holds and computes with a model
  /// In 16-bit training the engine casts the whole model and keeps fp32 master weights apart; else the
  /// parameters are the masters, and what computes is cast from them.
  bool casts_model;
  bool handles_weights;       ///< on one GPU too it casts, wraps or divides the model's own weights
  bool gathers_at_modules;    ///< at stage 3 hooks of each module gather and release its parameters
  bool autocasts_masters;     ///< fp32 weights under torch.autocast
  bool fused_lion;            ///< its Lion is one kernel, without copies
  bool makes_shards;          ///< the model is made without memory; only shards reach the device
  bool fuses_host_optimizer;  ///< offloaded AdamW is one pass over memory, not an operator after the other
  bool adds_on_host;          ///< gradients of further micro-steps are added by the host's processors
  OptimizerKernel kernel;     ///< that AdamW runs in where a training script leaves it to the framework
  bool (*shards_reference)(const Strategy&);                 ///< a copy that log-probabilities come from
  bool (*casts_adapters)(const Training&, const Strategy&);  ///< to the model's type
  Training (*adapt)(Training);  ///< as the Hugging Face Trainer runs it; see with_framework

  /// Gives the strategy, whose layout and stage are set, the framework's own options; null: it has none.
  void (*choose)(const Question&, Strategy&);
  /// Returns the order of a stage's step; null: one forward, one backward.
  StepSchedule (*schedule)(const Strategy&, std::int64_t stage);

  // ---- legality, names, warnings
  void (*check)(const Model&, const Training&, const Strategy&, Reasons&);
  std::string (*sharding_name)(const Strategy&);  ///< "zero3", "fsdp+no-reshard"
  Reasons (*warnings)(const Training&);
  /// Returns warnings about strategies that train in an unexpected way; null: none are known.
  Reasons (*strategy_warnings)(const Training&, const Strategy&);
  /// Returns the replicated state that is to blame where the plan does not fit.
  std::optional<std::string> (*replication)(const Plan&, const Question&);

  // ---- the run
  Shard (*shard)(const RankModel&, const Training&, const Strategy&);
  /// The slice of every rank where ranks divide a flat buffer and hold different parts; else none.
  std::vector<Slice> (*slices)(const RankModel&, const Training&, const Strategy&);
  std::vector<OptimizerTensor> (*optimizer_tensors)(const RankModel&, const Training&, const Strategy&);
  /// Elements of a rank's gradients that offload sums on the device and keeps on the host.
  Elements (*sums_on_host)(const RankModel&, const Training&, const Strategy&, const Shard&);
  RunResult (*play)(const RunInputs&, const std::optional<AllocatorOptions>&, int steps, bool condensed);
  std::optional<Flattening> (*flattening)(const RunInputs&);
  void (*offload)(const StepInputs&, HostTally&);

  // ---- loading and saving
  ModelFiles (*files)(const StepInputs&);

  // ---- starting it
  Launch (*launch)(const Plan&, const Question&, const std::string& config);
  std::vector<std::string> (*config_notes)(const Plan&, const Question&);
};

/// Returns the row of a framework; planner/frameworks/rows.cpp lists them.
[[nodiscard]] const FrameworkSpec& spec(Framework framework);

/// Returns why `framework` does not shard the training's packed weights, where shards_packed() does not hold.
[[nodiscard]] std::string packed_reason(const Training& training, std::string_view framework);
/// Returns how a script loads a model whose packed weights are sharded.
[[nodiscard]] std::string packed_loading(const Training& training);

[[nodiscard]] const FrameworkSpec& deepspeed_spec();   // deepspeed/framework.cpp
[[nodiscard]] const FrameworkSpec& fsdp_spec();        // fsdp/framework.cpp
[[nodiscard]] const FrameworkSpec& ddp_spec();         // ddp/framework.cpp
[[nodiscard]] const FrameworkSpec& megatron_spec();    // megatron/framework.cpp
[[nodiscard]] const FrameworkSpec& torchtitan_spec();  // torchtitan/framework.cpp

/// True if hooks of each module gather and release its parameters: ZeRO-3.
[[nodiscard]] inline bool gathers_at_modules(const Training& training, const Strategy& strategy) {
  return strategy.zero_stage == 3 && spec(training.framework).gathers_at_modules;
}

}  // namespace zplan
