#pragma once
// Readers of fields: each writes the value of one field into a run. The table in fields.cpp names them.

#include <algorithm>
#include <type_traits>
#include <utility>

#include "planner/check/readers/fields.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

/// A text as a template's argument.
template <std::size_t N>
struct Word {
  char text[N]{};
  constexpr Word(const char (&from)[N]) { std::copy_n(from, N, text); }  // NOLINT: meant to convert
};

/// Returns the place of a member in the run.
template <auto Member>
auto& target(Run& run) {
  Training& training = run.setup.training;
  if constexpr (std::is_invocable_v<decltype(Member), Training&>)
    return training.*Member;
  else if constexpr (std::is_invocable_v<decltype(Member), Rollout&>)
    return training.rollout.*Member;
  else if constexpr (std::is_invocable_v<decltype(Member), BesideSteps&>)
    return training.beside.*Member;
  else if constexpr (std::is_invocable_v<decltype(Member), LongContext&>)
    return run.setup.strategy.long_context.*Member;
  else if constexpr (std::is_invocable_v<decltype(Member), Setup&>)
    return run.setup.*Member;
  else
    return run.setup.strategy.*Member;
}
template <auto Member>
using TypeOf = std::remove_reference_t<decltype(target<Member>(std::declval<Run&>()))>;
template <class T>
T value_type(const std::optional<T>&);
template <class T>
T value_type(const T&);

/// Reads true or false.
template <auto Member>
void flag(const JsonReader& value, Run& run) {
  target<Member>(run) = value.boolean();
}
/// Reads true or false, and means the opposite.
template <auto Member>
void opposite(const JsonReader& value, Run& run) {
  target<Member>(run) = !value.boolean();
}
/// Reads a text: whether it is `word`, or is not.
template <auto Member, Word word>
void is(const JsonReader& value, Run& run) {
  target<Member>(run) = value.text() == word.text;
}
template <auto Member, Word word>
void is_not(const JsonReader& value, Run& run) {
  target<Member>(run) = value.text() != word.text;
}
/// Reads a whole number.
template <auto Member, std::int64_t Least, std::int64_t Most>
void whole(const JsonReader& value, Run& run) {
  target<Member>(run) = static_cast<TypeOf<Member>>(value.integer(Least, Most));
}
/// Reads a number from 0 to `Most`.
template <auto Member, int Most>
void number(const JsonReader& value, Run& run) {
  target<Member>(run) = value.number(0, Most);
}
/// Reads the name of a value of an enum.
template <auto Member>
void one_of(const JsonReader& value, Run& run) {
  target<Member>(run) = named<decltype(value_type(std::declval<TypeOf<Member>>()))>(value);
}
/// Reads true or false: if true, the run has a feature that is not modelled.
template <Word feature>
void skip_if(const JsonReader& value, Run& run) {
  if (value.boolean()) run.skip.add(feature.text);
}
/// The run has a feature that is not modelled wherever the field is there.
template <Word feature>
void skip_always(const JsonReader& /*value*/, Run& run) {
  run.skip.add(feature.text);
}

/// Divides the ranks along `axis`; the rest of them shard.
void divide_ranks(Run& run, std::int64_t ParallelLayout::*axis, const JsonReader& value);

// ---- published runs whose model is divided over ranks
/// Starts a run of a framework that divides layers among stages, or experts; false where `name` is none, or
/// the row divides neither.
[[nodiscard]] bool starts_divided(const std::string& name, Run& run);
void read_stages(const JsonReader& value, Run& run);
void read_virtual_stages(const JsonReader& value, Run& run);
void read_context(const JsonReader& value, Run& run);
void read_expert_ranks(const JsonReader& value, Run& run);
void read_expert_tensor(const JsonReader& value, Run& run);
void read_token_division(const JsonReader& value, Run& run);
void read_shard_ranks(const JsonReader& value, Run& run);
void read_pipeline_schedule(const JsonReader& value, Run& run);
void read_local_batch(const JsonReader& value, Run& run);
void read_dispatcher(const JsonReader& value, Run& run);
void read_overlap(const JsonReader& value, Run& run);
void read_loss_fusion(const JsonReader& value, Run& run);
void read_chunk_layout(const JsonReader& value, Run& run);
void read_key_exchange(const JsonReader& value, Run& run);
void read_megatron_arguments(const JsonReader& value, Run& run);
void read_published_attention(const JsonReader& value, Run& run);
void read_summed_bytes(const JsonReader& value, Run& run);
void read_megatron_recompute(const std::string& words, Run& run);
void check_division_of_ranks(const JsonReader& value, Run& run);

// ---- the model and the ranks
void read_published_compile(const JsonReader& value, Run& run);
void read_published_float8(const JsonReader& value, Run& run);
void read_published_offload(const JsonReader& value, Run& run);
void read_recompute(const JsonReader& value, Run& run);
void read_gpus(const JsonReader& value, Run& run);
void read_model(const JsonReader& value, Run& run);
void read_cut_model(const JsonReader& value, Run& run);
void read_small_llama(const JsonReader& value, Run& run);
void read_modules(const JsonReader& value, Run& run);
void read_kernels(const JsonReader& value, Run& run);
void read_liger(const JsonReader& value, Run& run);
void read_compile(const JsonReader& value, Run& run);
void read_images(const JsonReader& value, Run& run);
void read_frozen(const JsonReader& value, Run& run);
void read_value_model(const JsonReader& value, Run& run);
void read_reward_model(const JsonReader& value, Run& run);
void read_teacher(const JsonReader& value, Run& run);
void read_divergence(const JsonReader& value, Run& run);

// ---- what is trained, and how
void read_framework(const JsonReader& value, Run& run);
void read_host_framework(const JsonReader& value, Run& run);
void read_published_precision(const JsonReader& value, Run& run);
void read_precision(const JsonReader& value, Run& run);
void read_attention(const JsonReader& value, Run& run);
void read_variant(const JsonReader& value, Run& run);
void read_loss(const JsonReader& value, Run& run);
void read_loss_chunks(const JsonReader& value, Run& run);
void read_loss_chunk_tokens(const JsonReader& value, Run& run);
void check_loss_chunks(const JsonReader& value, Run& run);
void read_answer_loss(const JsonReader& value, Run& run);
void read_loss_shift(const JsonReader& value, Run& run);
void read_fsdp_inputs(const JsonReader& value, Run& run);
void read_zeroing(const JsonReader& value, Run& run);
void read_steps_in_backward(const JsonReader& value, Run& run);
void read_reduced_bytes(const JsonReader& value, Run& run);
void read_precision_policy(const JsonReader& value, Run& run);
void read_method(const JsonReader& value, Run& run);
void read_reference(const JsonReader& value, Run& run);
void read_engine(const JsonReader& value, Run& run);
void read_completion(const JsonReader& value, Run& run);
void read_trained_ends(const JsonReader& value, Run& run);
void read_saved_modules(const JsonReader& value, Run& run);
void read_targets(const JsonReader& value, Run& run);
void read_recorded_adapters(const JsonReader& value, Run& run);
void read_measured_adapters(const JsonReader& value, Run& run);
void read_quantization(const JsonReader& value, Run& run);
void read_score_head(const JsonReader& value, Run& run);
void read_trainable(const JsonReader& value, Run& run);
void read_optimizer(const JsonReader& value, Run& run);
void read_eval_batch(const JsonReader& value, Run& run);
void read_empty_cache(const JsonReader& value, Run& run);
void read_trainer(const JsonReader& value, Run& run);

// ---- how it is arranged
void read_tensor_parallel(const JsonReader& value, Run& run);
void read_sequence_parallel(const JsonReader& value, Run& run);
void read_replicas(const JsonReader& value, Run& run);
void read_routed_experts(const JsonReader& value, Run& run);
void read_experts(const JsonReader& value, Run& run);
void read_maker(const JsonReader& value, Run& run);
void read_checkpointing(const JsonReader& value, Run& run);
void read_full_checkpointing(const JsonReader& value, Run& run);
void read_resharding(const JsonReader& value, Run& run);
void read_offload(const JsonReader& value, Run& run);
void read_tiled_mlp(const JsonReader& value, Run& run);
void read_tiled_loss(const JsonReader& value, Run& run);
void read_saved_offload(const JsonReader& value, Run& run);
void read_float8(const JsonReader& value, Run& run);
void read_checkpoint_offload(const JsonReader& value, Run& run);
void read_buckets(const JsonReader& value, Run& run);
void read_engine_config(const JsonReader& value, Run& run);
void read_reference_ds_config(const JsonReader& value, Run& run);
void read_recorded_ds_config(const JsonReader& value, Run& run);
void read_capability(const JsonReader& value, Run& run);
void read_node_ranks(const JsonReader& value, Run& run);
void read_rank(const JsonReader& value, Run& run);

/// True if a row says how many ranks divide a sample. Megatron's sequence parallelism is a switch.
[[nodiscard]] bool divides_samples(const Run& run);

}  // namespace zplan::check
