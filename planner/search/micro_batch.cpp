#include "planner/search/micro_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/base/divisors.h"
#include "planner/plan/plan_context.h"
#include "planner/search/first.h"

namespace zplan {

namespace {

std::string batch_mismatch(const Question& q, const Strategy& s, std::string_view of) {
  return fmt::format("a global batch of {} is not a multiple of {}{} data-parallel ranks",
                     *q.space.global_batch_size, of, s.layout.data_ranks());
}

/// Of the micro-batches that make the global batch. One micro-step holds other things than two, and two
/// others than more: each of these is tried by itself, and memory grows with the micro-batch among the rest.
template <class Fits>
std::optional<std::int64_t> largest_divisor_that_fits(const Question& q, const Strategy& strategy,
                                                      std::int64_t most, const Fits& fits) {
  constexpr std::int64_t kUnlike = 2;
  const std::int64_t samples = *q.space.global_batch_size / strategy.layout.data_ranks();
  std::vector<std::int64_t> sizes;  // largest first
  for (const std::int64_t size : divisors(samples))
    if (size <= most) sizes.insert(sizes.begin(), size);
  auto rest = sizes.begin();
  for (; rest != sizes.end() && samples / *rest <= kUnlike; ++rest)
    if (fits(*rest)) return *rest;
  const std::int64_t found = first_that(sizes.end() - rest, [&](std::int64_t i) { return fits(rest[i]); });
  return found < sizes.end() - rest ? std::optional(rest[found]) : std::nullopt;
}

std::optional<std::string> divide_batch(const Question& q, Strategy& s, std::int64_t micro_batch) {
  const SearchSpace& space = q.space;
  s.micro_batch_size = micro_batch;
  s.gradient_accumulation_steps = space.gradient_accumulation_steps.value_or(1);
  if (!space.global_batch_size) return std::nullopt;
  const std::int64_t global = *space.global_batch_size;
  if (!space.gradient_accumulation_steps) {
    if (global % (micro_batch * s.layout.data_ranks()) != 0)
      return batch_mismatch(q, s, fmt::format("micro-batch {} x ", micro_batch));
    s.gradient_accumulation_steps = global / (micro_batch * s.layout.data_ranks());
    return std::nullopt;
  }
  const std::int64_t samples = s.gradient_accumulation_steps * s.layout.data_ranks();
  if (space.micro_batch_follows) {
    if (global % samples != 0)
      return batch_mismatch(q, s, fmt::format("accumulation {} x ", s.gradient_accumulation_steps));
    s.micro_batch_size = global / samples;
  } else if (micro_batch * samples != global) {
    return fmt::format(
        "a global batch of {} is not micro-batch {} x accumulation {} x {} data-parallel ranks", global,
        micro_batch, s.gradient_accumulation_steps, s.layout.data_ranks());
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> set_batch(const Question& q, Strategy& s, std::int64_t micro_batch) {
  if (auto mismatch = divide_batch(q, s, micro_batch)) return mismatch;
  if (s.gradient_accumulation_steps % q.training.rollout.mini_batches == 0) return std::nullopt;
  return fmt::format(
      "{} micro-steps of an update are not whole mini-batches of {}: --mini-batches, --grad-accum",
      s.gradient_accumulation_steps, q.training.rollout.mini_batches);
}

std::optional<std::int64_t> largest_micro_batch(const Question& q, PlanContext& context,
                                                const Strategy& strategy) {
  const std::int64_t most = std::max<std::int64_t>(1, kMostTokens / q.training.sequence_length);
  const auto fits = [&](std::int64_t micro_batch) {
    Strategy s = strategy;
    return !set_batch(q, s, micro_batch) && context.outline(s).fits;
  };
  if (q.space.global_batch_size) return largest_divisor_that_fits(q, strategy, most, fits);
  const std::int64_t fit = first_that(most, [&](std::int64_t index) { return !fits(index + 1); });
  return fit > 0 ? std::optional(fit) : std::nullopt;
}

Strategy sized(const Question& q, PlanContext& context, Strategy strategy) {
  if (!q.space.micro_batch_size)
    if (const auto most = largest_micro_batch(q, context, strategy))
      static_cast<void>(set_batch(q, strategy, *most));
  return strategy;
}

}  // namespace zplan
