#include "planner/search/scale.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "planner/question/framework.h"
#include "planner/search/candidates.h"

namespace zplan {

namespace {

// GPUs and hosts as assemble_cluster takes them.
constexpr std::int64_t kMostCard = 4096, kMostHost = 1'048'576;
constexpr std::int64_t kMostModelSteps = 100'000;  // 10 T parameters

std::int64_t node_size(const Cluster& cluster) {
  if (cluster.instance) return cluster.instance->gpus;
  return cluster.nodes > 1 ? cluster.gpus_per_node : std::max(cluster.node.usual_gpus, cluster.gpus_per_node);
}

Cluster cluster_of(const OpenQuestion& open, std::int64_t gpus) {
  const std::int64_t node = node_of_open(open);
  ClusterRequest request = open.cluster;
  request.gpus = gpus, request.nodes = std::max<std::int64_t>(1, gpus / node);
  if (gpus == 1 || gpus / *request.nodes == 1) request.node.clear();
  Cluster cluster = assemble_cluster(request, *open.hardware);
  // A part of a node comes with its share of the host, as clouds rent it; a machine of one GPU with its own.
  const std::int64_t held = cluster.gpus_per_node, usual = cluster.node.usual_gpus;
  if (request.host_memory || cluster.instance || cluster.gpu.unified_memory || held >= usual) return cluster;
  const Bytes alone = find_node(*open.hardware, "single").host_memory;
  request.host_memory = std::max(Bytes(cluster.node.host_memory.value / usual * held), alone);
  return assemble_cluster(request, *open.hardware);
}

/// Returns the cluster as if `size` had been given: nothing that depends on an assumed size remains.
Cluster cluster_with(const OpenQuestion& open, Solve solve, Bytes size) {
  ClusterRequest request = open.cluster;
  (solve == Solve::memory ? request.memory : request.host_memory) = size;
  return assemble_cluster(request, *open.hardware);
}

Scale counted(std::int64_t count, std::int64_t step) {
  return {count, [step](std::int64_t index) { return (index + 1) * step; }};
}

Scale descending(std::int64_t most) {
  return {most, [most](std::int64_t index) { return most - index; }};
}

std::int64_t longest_sequence(const Question& q) {
  const std::int64_t most = kMostTokens / std::max<std::int64_t>(1, q.space.micro_batch_size.value_or(1));
  const std::int64_t positions = q.model.shape.max_positions;
  return positions > 0 ? std::min(positions, most) : most;
}

/// Lengths that all ranks that divide a sample's tokens do divide.
std::int64_t token_step(const Question& q) {
  const SearchSpace& space = q.space;
  std::int64_t step = 1;
  for (const std::int64_t degree : space.sequence_parallel) step = std::lcm(step, degree);
  for (const std::int64_t degree : space.context_parallel)
    if (degree > 1) step = std::lcm(step, 2 * degree);
  // Tensor-parallel ranks of frameworks with layers of their own divide the tokens between layers.
  if (spec(q.training.framework).has_stages)
    for (const std::int64_t degree : tensor_parallel_degrees(q)) step = std::lcm(step, degree);
  return step;
}

Scale scale_of(const OpenQuestion& open, Solve solve) {
  switch (solve) {
    case Solve::sequence: {
      const std::int64_t step = token_step(open.question);
      return counted(longest_sequence(open.question) / step, step);
    }
    case Solve::model: return counted(kMostModelSteps, kModelStep);
    case Solve::memory: return descending(kMostCard);
    case Solve::host_memory: return descending(kMostHost);
    case Solve::vllm_memory: return counted(100, 1);
    default: return counted(1, 1);
  }
}

/// Throws where no strategy is legal at any value, with the reasons.
void check_legal(const Question& q, const Scales& scales) {
  if (!scales.of_family.empty()) return;
  std::vector<std::string> reasons;
  for (const Rejection& each : scales.rejected)
    for (const std::string& reason : each.reasons)
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(reason);
  throw InputError(
      q.space.global_batch_size ? "--zero, --tp, --offload, --global-batch" : "--zero, --tp, --offload",
      "no legal combination", fmt::format("{}", fmt::join(reasons, "; ")));
}

/// Counts of GPUs, most first: whole nodes, then each number within one.
std::vector<std::int64_t> gpu_counts(std::int64_t node) {
  std::vector<std::int64_t> counts;
  for (std::int64_t n = kMostSolvedGpus / node * node; n > node; n -= node) counts.push_back(n);
  for (std::int64_t n = std::min(node, kMostSolvedGpus); n >= 1; --n) counts.push_back(n);
  return counts;
}

/// The counts on which each strategy is legal.
Scales gpu_scales(const OpenQuestion& open) {
  const std::int64_t node = node_of_open(open);
  std::map<Family, std::vector<std::int64_t>> legal;
  std::map<Family, Rejection> rejected;
  for (const std::int64_t gpus : gpu_counts(node)) {
    const Candidates found = candidates(question_at(open, Solve::gpus, gpus));
    for (const Strategy& each : found.legal) legal[family_of(each)].push_back(gpus);
    for (const Rejection& each : found.rejected) rejected.insert_or_assign(family_of(each.strategy), each);
  }
  Scales scales;
  for (auto& [family, counts] : legal) {
    const auto inside =
        std::count_if(counts.begin(), counts.end(), [node](std::int64_t n) { return n <= node; });
    rejected.erase(family);
    scales.of_family[family] = {
        static_cast<std::int64_t>(counts.size()),
        [counts = counts](std::int64_t index) { return counts[static_cast<std::size_t>(index)]; }, inside};
  }
  for (auto& [family, each] : rejected) scales.rejected.push_back(std::move(each));
  return scales;
}

}  // namespace

std::int64_t node_of_open(const OpenQuestion& open) {
  const Cluster& cluster = open.question.cluster;
  if (cluster.gpus > 1 || cluster.instance) return node_size(cluster);
  // One GPU sits in a node of its own kind: more of them in the GPU's usual one.
  const std::string type = open.cluster.node.empty() ? cluster.gpu.usual_node : open.cluster.node;
  const std::int64_t usual = find_node(*open.hardware, type).usual_gpus;
  return std::max<std::int64_t>(1, usual);
}

Family family_of(const Strategy& s) {
  return {s.zero_stage, s.layout.of_model(), s.offload_optimizer, s.offload_parameters};
}

Question pinned_to(Question question, const Family& family) {
  question.space.zero_stages = {family.zero_stage};
  question.space.tensor_parallel = {family.of_model.tensor};
  question.space.sequence_parallel = {family.of_model.sequence};
  question.space.context_parallel = {family.of_model.context};
  question.space.expert_parallel = {family.of_model.expert};
  question.space.expert_tensor_parallel = {family.of_model.expert_tensor};
  question.space.pipeline_parallel = {family.of_model.pipeline};
  question.space.virtual_stages = {family.of_model.virtual_stages};
  question.space.offloads = {{family.offload_optimizer, family.offload_parameters}};
  return question;
}

Question question_at(const OpenQuestion& open, Solve solve, std::int64_t value) {
  Question q = open.question;
  switch (solve) {
    case Solve::micro_batch: q.space.micro_batch_size = value, q.space.micro_batch_follows = false; break;
    case Solve::sequence: q.training.sequence_length = value; break;
    case Solve::gpus: q.cluster = cluster_of(open, value); break;
    case Solve::model:
      q.model = as_trained(open.model_of_size(Elements(value)), q.model, q.training.objective);
      break;
    case Solve::memory:
    case Solve::host_memory: q.cluster = cluster_with(open, solve, kGiB * value); break;
    case Solve::vllm_memory: q.training.rollout.engine_share = static_cast<double>(value) / 100; break;
  }
  return q;
}

namespace {

/// Adds the strategies that are legal for some model: each tensor-parallel degree divides some number of
/// heads.
Scales model_scales(const OpenQuestion& open) {
  const Scale scale = scale_of(open, Solve::model);
  std::map<Family, Rejection> rejected;
  Scales scales;
  for (const std::int64_t steps : {1, 10, 80, 700, 4000}) {
    const Candidates found = candidates(question_at(open, Solve::model, steps * kModelStep));
    for (const Strategy& each : found.legal) scales.of_family[family_of(each)] = scale;
    for (const Rejection& each : found.rejected) rejected.insert_or_assign(family_of(each.strategy), each);
  }
  for (auto& [family, each] : rejected)
    if (!scales.of_family.contains(family)) scales.rejected.push_back(std::move(each));
  return scales;
}

}  // namespace

Scales scales_of(const OpenQuestion& open, Solve solve) {
  Scales scales;
  if (solve == Solve::gpus) {
    scales = gpu_scales(open);
  } else if (solve == Solve::model) {
    scales = model_scales(open);
  } else {
    const Scale scale = scale_of(open, solve);
    Question easiest = question_at(open, solve, scale.value(0));
    if (solve == Solve::micro_batch) easiest.space.micro_batch_size.reset();
    Candidates found = candidates(easiest);
    for (const Strategy& each : found.legal)
      if (solve != Solve::host_memory || offloads(each)) scales.of_family[family_of(each)] = scale;
    scales.rejected = std::move(found.rejected);
    if (solve == Solve::host_memory && scales.of_family.empty() && !found.legal.empty())
      throw InputError("--solve", "host-memory, but nothing is offloaded",
                       "accepted: with --offload optimizer, all, …");
  }
  check_legal(open.question, scales);
  return scales;
}

std::string value_text(Solve solve, std::int64_t value, ByteUnit unit) {
  switch (solve) {
    case Solve::micro_batch: return fmt::format("micro-batch {}", value);
    case Solve::sequence: return fmt::format("{} token{}", value, value == 1 ? "" : "s");
    case Solve::gpus: return fmt::format("{} GPU{}", value, value == 1 ? "" : "s");
    case Solve::model: return fmt::format("{} parameters", format_count(Elements(value)));
    case Solve::memory: return fmt::format("GPUs of {}", format_bytes(kGiB * value, unit));
    case Solve::host_memory: return fmt::format("{} of host memory", format_bytes(kGiB * value, unit));
    case Solve::vllm_memory:
      return fmt::format("a share of {:.2f} for vLLM", static_cast<double>(value) / 100);
  }
  return "";
}

}  // namespace zplan
