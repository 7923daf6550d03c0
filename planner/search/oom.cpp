#include "planner/search/oom.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/model_trace/causal_lm.h"
#include "planner/moments/rollout.h"
#include "planner/plan/rank_run.h"
#include "planner/simulation/memory.h"
#include "planner/simulation/run.h"

namespace zplan {

namespace {

// Shares of a GPU below which figures are not worth a sentence, and above which one block is large.
constexpr double kWorthTelling = 0.05, kLarge = 0.1;

Bytes card_of(const OomMessage& m) { return m.allowed ? *m.allowed : m.capacity.value_or(m.asked); }

/// Sets what the process's other libraries and other processes hold of the GPU.
void take_shares(OomReading& reading) {
  const OomMessage& m = reading.message;
  const auto reserved = m.reserved();
  if (m.process && reserved) reading.outside = std::max(*m.process - *reserved, Bytes{});
  Bytes listed{};
  for (const OomMessage::Process& each : m.others) listed += each.size;
  if (!m.others.empty()) reading.others = listed;
  if (m.process || !reserved || !m.capacity || !m.free) return;
  reading.reserved_is_old = m.others.empty();
  if (reading.reserved_is_old) reading.others = std::max(*m.capacity - *m.free - *reserved, Bytes{});
}

OomCause cause_of(const OomReading& reading) {
  const OomMessage& m = reading.message;
  const Bytes card = card_of(m), free = m.free.value_or(Bytes{});
  if (m.asked >= card) return OomCause::beyond_card;
  const Bytes reserved = m.reserved().value_or(Bytes{});
  if (m.allowed && reserved + m.asked > *m.allowed && free >= m.asked) return OomCause::limit;
  if (free >= m.asked) return OomCause::enough_free;
  // Older messages do not tell other processes from the context and NCCL: a tenth of the GPU is more than
  // these.
  const Bytes others = reading.others.value_or(Bytes{}), cached = m.unallocated.value_or(Bytes{});
  const double worth = reading.reserved_is_old ? kLarge : kWorthTelling;
  const bool strangers = free + others >= m.asked && ratio(others, card) >= worth;
  const bool gaps = free + cached >= m.asked && ratio(cached, card) >= kWorthTelling;
  if (strangers && (!gaps || others > cached)) return OomCause::other_processes;
  if (gaps) return OomCause::fragmentation;
  return ratio(m.asked, card) >= kLarge ? OomCause::large_block : OomCause::full;
}

std::string held_sentence(const OomReading& reading, ByteUnit unit) {
  const OomMessage& m = reading.message;
  std::string text;
  const auto add = [&](const std::optional<Bytes>& size, std::string_view what) {
    if (size) text += fmt::format("{}{} {}", text.empty() ? "held: " : ", ", format_bytes(*size, unit), what);
  };
  add(m.allocated, "in tensors");
  add(m.private_pools, "of them in CUDA graphs' pools");
  add(m.unallocated, "cached by PyTorch and not in use");
  add(reading.outside, "by this process outside PyTorch (CUDA context, NCCL, other libraries)");
  add(reading.others, reading.reserved_is_old ? "outside PyTorch: CUDA context, NCCL and other processes"
                                              : "by other processes");
  return text;
}

std::string cause_sentence(const OomReading& reading, ByteUnit unit) {
  const OomMessage& m = reading.message;
  const auto size = [unit](Bytes bytes) { return format_bytes(bytes, unit); };
  const Bytes free = m.free.value_or(Bytes{});
  switch (reading.cause) {
    case OomCause::beyond_card:
      return fmt::format(
          "one block of {} is more than the {} that there are: it has to become smaller, whatever else is "
          "freed",
          size(m.asked), size(card_of(m)));
    case OomCause::limit:
      return fmt::format(
          "the GPU has memory free, but this process may take only {} (set_per_process_memory_fraction)",
          size(*m.allowed));
    case OomCause::enough_free:
      return fmt::format(
          "{} were free, enough for it: freed again before the message was made, or kept back by the "
          "system (a limit of WSL, Windows or ROCm)",
          size(free));
    case OomCause::other_processes:
      return reading.reserved_is_old
                 ? fmt::format(
                       "{} are held outside PyTorch, more than a CUDA context and NCCL take: another process "
                       "is on this GPU; without it the block would fit",
                       size(*reading.others))
                 : fmt::format("other processes hold {}: without them the block would fit",
                               size(*reading.others));
    case OomCause::fragmentation:
      return fmt::format(
          "fragmentation: {} are cached and not in use, in pieces that are too small; with the {} that are "
          "free they would be enough",
          size(*m.unallocated), size(free));
    case OomCause::large_block:
      return fmt::format(
          "one large block, {} of the GPU: logits (micro-batch x sequence x vocabulary), a whole "
          "gradient or gathered embedding, or states made in the first optimizer step are of such a size",
          format_percent(ratio(m.asked, card_of(m))));
    case OomCause::full:
      return "the GPU is full of what this process holds: the block that failed is small and only the last "
             "of many";
  }
  return "";
}

/// "GPU 1 of 44.4 GiB, rank 1: asked for 2.00 GiB where 512.0 MiB were free".
std::string asked_sentence(const OomMessage& m, ByteUnit unit) {
  std::string text =
      m.gpu ? fmt::format("{} {}", m.device == "XPU" ? "XPU" : "GPU", *m.gpu) : std::string("a GPU");
  if (m.capacity) text += fmt::format(" of {}", format_bytes(*m.capacity, unit));
  if (m.rank) text += fmt::format(", rank {}", *m.rank);
  text += fmt::format(": asked for {}", format_bytes(m.asked, unit));
  if (m.free) text += fmt::format(" where {} were free", format_bytes(*m.free, unit));
  return text;
}

/// Returns what a small size in a message means: PyTorch allocates small blocks in segments.
std::optional<std::string> segment_sentence(const OomMessage& m) {
  if (m.asked_text == "2.00 MiB") return "2.00 MiB are a segment for blocks of up to 1 MiB";
  if (m.asked_text == "20.00 MiB")
    return "20.00 MiB are a segment for blocks of 1 to 10 MiB, or one block of that size";
  return std::nullopt;
}

}  // namespace

OomReading read_oom(const OomMessage& message, ByteUnit unit) {
  OomReading reading;
  reading.message = message;
  take_shares(reading);
  reading.cause = cause_of(reading);
  reading.sentences.push_back(asked_sentence(message, unit));
  if (const auto segment = segment_sentence(message)) reading.sentences.push_back(*segment);
  if (std::string held = held_sentence(reading, unit); !held.empty())
    reading.sentences.push_back(std::move(held));
  reading.sentences.push_back(cause_sentence(reading, unit));
  return reading;
}

Bytes taken_by_others(const OomReading& reading, Bytes usable) {
  const Bytes others = reading.reserved_is_old ? Bytes{} : reading.others.value_or(Bytes{});
  const Bytes beyond = reading.message.allowed ? usable - *reading.message.allowed : Bytes{};
  return std::clamp(std::max(others, beyond), Bytes{}, usable);
}

namespace {

/// Returns the bytes that the allocator can have: the GPU less what lies outside PyTorch, by the message
/// where it says so, else by the plan's allowances.
Bytes pool_of(const Question& q, const Strategy& s, const OomReading& reading) {
  const Bytes allowance = outside_allocator(s, q.cluster.gpu.compute_capability, q.cluster.gpus_per_node) +
                          engine_resident(q.training, q.cluster.usable_memory);
  const Bytes card = reading.message.capacity.value_or(q.cluster.usable_memory);
  const Bytes others = reading.others.value_or(Bytes{});
  Bytes pool = card - (reading.reserved_is_old ? std::max(others, allowance)
                                               : others + reading.outside.value_or(allowance));
  if (reading.message.allowed) pool = std::min(pool, *reading.message.allowed);
  return std::max(pool, Bytes(1));
}

/// Blocks whose message would print the same size.
std::vector<OomMatch> matches_of(const std::vector<BlockRequest>& requests, const OomMessage& message) {
  std::map<std::tuple<Term, Phase, std::string_view>, OomMatch> found;
  for (const BlockRequest& each : requests) {
    if (torch_size(asked_of_device(each.size)) != message.asked_text) continue;
    OomMatch& match = found[{each.term, each.phase, each.at}];
    const Bytes least = match.times == 0 ? each.size : std::min(match.size, each.size);
    match = {each.term, each.phase, each.at, match.times + 1, least};
  }
  std::vector<OomMatch> matches;
  for (const auto& [key, match] : found) matches.push_back(match);
  std::stable_sort(matches.begin(), matches.end(),
                   [](const OomMatch& a, const OomMatch& b) { return a.times > b.times; });
  return matches;
}

}  // namespace

OomReplay replay_oom(const Question& q, const Strategy& s, const OomReading& reading) {
  const OomMessage& message = reading.message;
  const std::int64_t rank = message.rank.value_or(message.gpu.value_or(0));
  const ProcessGroup data = process_group(s.layout, Group::data);
  const std::int64_t data_rank = std::min(rank / data.stride, data.size - 1);
  const RankRun refused(q.model, q.training, s, RankRun::target_of(q.cluster), data_rank * data.stride);
  std::vector<BlockRequest> requests;
  RunInputs run = refused.inputs();
  run.requests = &requests;
  OomReplay replay;
  replay.pool = pool_of(q, s, reading);
  run.outside = message.capacity.value_or(q.cluster.usable_memory) - replay.pool;
  const RunResult pressed = simulate_within(run, replay.pool);
  replay.completes = pressed.completed;
  if (!pressed.completed && !requests.empty()) replay.refused = requests.back();
  replay.initialising = replay.refused && replay.refused->phase == Phase::initialisation;
  requests.clear();
  static_cast<void>(simulate(run));
  replay.matches = matches_of(requests, message);
  return replay;
}

}  // namespace zplan
