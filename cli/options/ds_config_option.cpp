#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/options/request.h"
#include "models/base/json_reader.h"
#include "planner/frameworks/deepspeed/config/read_config.h"

namespace zplan {

namespace {

template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    return fmt::format("{}", value);
  else
    return std::string(to_name(value));
}

/// A value of an option as typed, or nothing where the option was left out.
template <class T>
std::optional<T> typed(const Options& options, std::string_view name, const T& value) {
  return options.has(name) ? std::optional<T>(value) : std::nullopt;
}

/// Returns the list's value that the file pins, else the first one, which the error then names.
template <class T>
std::optional<T> typed(const std::vector<T>& list, const Pin<T>& pin) {
  if (list.empty()) return std::nullopt;
  const bool among = pin && std::find(list.begin(), list.end(), pin->value) != list.end();
  return among ? pin->value : list.front();
}

template <class T>
void pin_list(std::vector<T>& list, std::string_view option, const Pin<T>& pin) {
  if (!pin) return;
  list = {*reconcile<T>(typed(list, pin), option, pin, shown<T>)};
}

template <class T>
void pin_value(const Options& options, std::string_view option, T& value, const Pin<T>& pin) {
  value = reconcile<T>(typed(options, option, value), option, pin, shown<T>).value_or(value);
}

/// Returns the option's or the file's value, so that both solve the batch arithmetic.
Pin<std::int64_t> merged(const std::optional<std::int64_t>& option, std::string_view name,
                         const Pin<std::int64_t>& pin) {
  const auto value = reconcile<std::int64_t>(option, name, pin, shown<std::int64_t>);
  if (!value) return std::nullopt;
  return Pinned<std::int64_t>{*value, pin ? pin->place : std::string(name)};
}

void pin_batch(const Options& options, DsConfigPins pins, Question& question) {
  SearchSpace& space = question.space;
  if (options.has("--micro-batch") && !space.micro_batch_size && pins.micro_batch_size)
    throw InputError("--micro-batch", fmt::format("max contradicts {}", pins.micro_batch_size->place),
                     "accepted: leave the option out");
  const auto micro = options.has("--micro-batch") ? space.micro_batch_size : std::nullopt;
  pins.micro_batch_size = merged(micro, "--micro-batch", pins.micro_batch_size);
  pins.gradient_accumulation_steps =
      merged(space.gradient_accumulation_steps, "--grad-accum", pins.gradient_accumulation_steps);
  const Batch batch = resolve_batch(pins, question.cluster.gpus);
  if (space.global_batch_size && batch.global_batch_size &&
      *space.global_batch_size != *batch.global_batch_size)
    throw InputError("--global-batch",
                     fmt::format("{} contradicts {}", *space.global_batch_size, options.ds_config),
                     fmt::format("accepted: {} as there, or leave the option out", *batch.global_batch_size));
  if (batch.micro_batch_size) space.micro_batch_size = batch.micro_batch_size;
  if (batch.gradient_accumulation_steps)
    space.gradient_accumulation_steps = batch.gradient_accumulation_steps;
  if (batch.global_batch_size) space.global_batch_size = batch.global_batch_size;
}

void check_together(const Options& options) {
  if (options.has("--buckets"))
    throw InputError("--buckets", "together with --ds-config",
                     "accepted: the sizes are the file's, or DeepSpeed's defaults");
}

/// Returns what `read` does. An error names the command that checks the whole file.
template <class Read>
auto with_hint(const std::string& file, const Read& read) {
  try {
    return read();
  } catch (const InputError& error) {
    throw InputError(error.place(), error.found(),
                     fmt::format("{}{}zplan lint {} checks the whole file", error.accepted(),
                                 error.accepted().empty() ? "" : "; ", file));
  }
}

/// Throws where the file is a config of another program, of which DeepSpeed would ignore every key.
void check_whose(const Json& document, const std::string& file) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOthers{
      {{"distributed_type", "a config of accelerate"},
       {"per_device_train_batch_size", "arguments of a trainer"}}};
  for (const auto& [key, whose] : kOthers)
    if (document.is_object() && document.contains(key))
      throw InputError(file, fmt::format("{}, by its {}", whose, key),
                       fmt::format("accepted: a ds_config; --recipe {} reads this one", file));
}

DsConfigPins read_config(const std::string& text, const std::string& file, const Question& question) {
  check_whose(with_hint(file, [&] { return parse_json(text, file); }), file);
  return with_hint(file, [&] {
    return read_ds_config(text, file, question.model.shape.hidden_size, question.training.deepspeed);
  });
}

}  // namespace

std::vector<std::string> apply_ds_config(const Options& options, Question& question) {
  check_together(options);
  const std::string text = options.ds_config_text ? *options.ds_config_text : read_file(options.ds_config);
  const DsConfigPins pins = read_config(text, options.ds_config, question);
  SearchSpace& space = question.space;
  pin_list(space.zero_stages, "--zero", pins.zero_stage);
  pin_list(space.offloads, "--offload", pins.offload);
  pin_list(space.tensor_parallel, "--tp", pins.tensor_parallel);
  if (space.tensor_parallel.empty()) space.tensor_parallel = {1};
  pin_list(space.sequence_parallel, "--sp", pins.sequence_parallel);
  pin_list(space.expert_parallel, "--ep", pins.expert_parallel);
  space.experts = pins.experts, space.data_before_expert = pins.data_before_expert;
  pin_value(options, "--precision", question.training.precision, pins.precision);
  pin_value(options, "--optimizer", question.training.optimizer, pins.optimizer);
  pin_value(options, "--no-master-weights", question.training.master_weights, pins.master_weights);
  pin_batch(options, pins, question);
  space.zero = pins.zero;
  question.training.vocabulary_parallel_head = pins.vocabulary_parallel_head;
  return pins.warnings;
}

}  // namespace zplan
