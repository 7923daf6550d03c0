#include "planner/cost/step_time.h"

#include <algorithm>
#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/cost/offload_time.h"
#include "planner/cost/rollout_time.h"
#include "planner/cost/schedule.h"
#include "planner/sharding/shard.h"

namespace zplan {

namespace {

/// Returns the parameters of products that a token passes, with a tied head's.
double active_matrix_parameters(const Model& model) {
  double sum = parameters_of_token(model);
  if (model.shape.tied_embeddings)  // the head's product is there without a tensor of its own
    sum += static_cast<double>(model.shape.vocabulary_size) * static_cast<double>(model.shape.hidden_size);
  return sum;
}

Bound largest_part(const StepTime& time) {
  const std::array<std::pair<Seconds, Bound>, 6> parts{{{time.compute, Bound::compute},
                                                        {time.launching, Bound::launching},
                                                        {time.exposed_communication, Bound::communication},
                                                        {time.offload, Bound::offload},
                                                        {time.optimizer, Bound::optimizer},
                                                        {time.generation, Bound::generation}}};
  return std::max_element(parts.begin(), parts.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace

double parameters_of_token(const Model& model) {
  double sum = 0;
  for_each_tensor(model.inventory, [&](const Tensor& tensor, int) {
    if (!tensor.linear) return;
    const auto size = static_cast<double>(tensor.elements().value);
    const bool routed = tensor.role == TensorRole::expert && model.shape.experts;
    sum += routed ? size * static_cast<double>(model.shape.experts->experts_per_token) /
                        static_cast<double>(model.shape.experts->experts)
                  : size;
  });
  return sum;
}

MicroStepFlops micro_step_flops(const Model& model, const Training& training, const Strategy& strategy) {
  const ModelShape& shape = model.shape;
  const auto tokens = static_cast<double>(strategy.micro_batch_size * sequences_per_sample(training) *
                                          training.sequence_length);
  const std::int64_t linear = shape.delta_net ? shape.delta_net->layers : 0;
  const double attention = 4.0 * static_cast<double>(shape.layers - linear) *
                           static_cast<double>(shape.attention_heads * shape.head_size) *
                           static_cast<double>(training.sequence_length);
  const double forward =
      (2.0 * active_matrix_parameters(model) + attention) * tokens /
      static_cast<double>(strategy.layout.tensor * strategy.layout.pipeline * strategy.layout.token_ranks());
  const double passes = training.method == Method::full ? 3 : 2;
  const double again = strategy.checkpointing == Checkpointing::full ? 1 : 0;
  MicroStepFlops flops{Flops(forward * passes), Flops(forward * (passes + again))};
  if (!trains_values(training) || !model.value) return flops;
  Training values = training;
  values.method = Method::full, values.objective = Objective::sft;
  const MicroStepFlops beside = micro_step_flops(*model.value, values, strategy);
  flops.model += beside.model, flops.hardware += beside.hardware;
  return flops;
}

StepTime step_time(const Model& model, const Training& training, const Strategy& strategy,
                   const Cluster& cluster, const Shard& shard, const Schedule& schedule, const RunTime& run) {
  StepTime time;
  time.run = run;
  time.compute = run.compute();
  time.launching = std::max(Seconds{}, run.launching);  // sums of differences: 1e-14 too little at times
  time.communication = run.communication;
  time.exposed_communication = run.exposed_communication();
  time.optimizer = run.optimizer;
  time.offload = offload_time(training, strategy, cluster, shard, schedule, run.micro_steps).total();
  const RolloutTime rollout = rollout_time(model, training, strategy, cluster);
  time.generation = rollout.generation(), time.scoring = rollout.scoring;
  time.step = run.step + time.offload + rollout.total();
  const auto micro_steps = static_cast<double>(strategy.gradient_accumulation_steps);
  const MicroStepFlops flops = micro_step_flops(model, training, strategy);
  const auto tokens = static_cast<double>(strategy.global_batch_size() * training.sequence_length);
  time.tokens_per_second = tokens / time.step.value;
  time.tokens_per_second_per_gpu = time.tokens_per_second / static_cast<double>(cluster.gpus);
  const Flops possible((time.step * 1.0).value * rate_of(cluster.gpu, training.precision).value);
  time.mfu = flops.model.value * micro_steps / possible.value;
  time.hfu = flops.hardware.value * micro_steps / possible.value;
  time.bound = largest_part(time);
  return time;
}

}  // namespace zplan
