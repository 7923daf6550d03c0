#pragma once
// Reads an existing ds_config: everything in it that changes memory, traffic or time.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "planner/question/strategy.h"

namespace zplan {

/// A value and where it was read: "ds_config.json#/zero_optimization/stage", with a remark where the key is
/// absent and the value is DeepSpeed's default.
template <class T>
struct Pinned {
  T value{};
  std::string place;
  bool operator==(const Pinned&) const = default;
};
template <class T>
using Pin = std::optional<Pinned<T>>;

/// Settings of a ds_config. Absent: the file does not decide it, or leaves it to the HF Trainer with "auto".
struct DsConfigPins {
  Pin<int> zero_stage;
  Pin<Offload>
      offload;  ///< with cpu and nvme mixed, no name of --offload says it, but it is planned all the same
  Pin<std::int64_t> tensor_parallel;
  Pin<std::int64_t> sequence_parallel;
  Pin<std::int64_t> expert_parallel;  ///< autoep_size; absent: the section is not there, or not enabled
  ExpertParallel experts{};
  bool data_before_expert{};  ///< use_data_before_expert_parallelism
  Pin<std::int64_t> micro_batch_size;
  Pin<std::int64_t> gradient_accumulation_steps;
  Pin<std::int64_t> train_batch_size;  ///< as DeepSpeed counts it: see resolve_batch
  Pin<Precision> precision;
  Pin<bool> master_weights;
  Pin<Optimizer> optimizer;
  bool vocabulary_parallel_head{};    ///< tensor_parallel.vocab_parallel_lm_head
  ZeroOptions zero;                   ///< complete: what the file leaves out is DeepSpeed's default
  bool micro_batch_is_auto{};         ///< the HF Trainer fills it in: train_batch_size does not decide it
  std::vector<std::string> warnings;  ///< one sentence each
};

/// Reads the text of a ds_config. `source` is its name in messages; `hidden_size` is the model's, for bucket
/// sizes that are "auto"; `release` decides what it means that gradient_clipping is left out. Throws
/// InputError with file and pointer where DeepSpeed would stop: text that is not JSON, unknown or removed
/// keys, values out of range, bf16 and fp16 together, NVMe without a path, AutoTP at ZeRO-3 with a
/// train_batch_size.
[[nodiscard]] DsConfigPins read_ds_config(std::string_view text, const std::string& source,
                                          std::int64_t hidden_size, DeepSpeedRelease release = {});

/// The batch that pins make on a number of GPUs; absent where they leave it open.
struct Batch {
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> gradient_accumulation_steps;
  std::optional<std::int64_t>
      global_batch_size;  ///< samples per optimizer step: tensor-parallel ranks not counted
  bool operator==(const Batch&) const = default;
};

/// DeepSpeed's batch triangle: train_batch_size = micro × accumulation × world, where the world counts
/// tensor-parallel ranks too. Throws InputError naming /train_batch_size where no whole numbers satisfy it.
/// Source: DeepSpeed 0.19.8 runtime/config.py _set_batch_related_parameters, _batch_assertion.
[[nodiscard]] Batch resolve_batch(const DsConfigPins& pins, std::int64_t gpus);

/// The value of a command-line option, or else what the file pins. InputError naming both places where they
/// differ. `name` turns a value into what the message shows.
template <class T, class Name>
[[nodiscard]] std::optional<T> reconcile(const std::optional<T>& option, std::string_view option_name,
                                         const Pin<T>& pin, Name name) {
  if (!pin) return option;
  if (option && !(*option == pin->value))
    throw InputError(std::string(option_name), fmt::format("{} contradicts {}", name(*option), pin->place),
                     fmt::format("accepted: {} as there, or leave the option out", name(pin->value)));
  return pin->value;
}

}  // namespace zplan
