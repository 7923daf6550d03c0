#include "cli/report/report_deltas.h"

#include "planner/plan/plan.h"

namespace zplan {

namespace {

template <MemoryPart part>
double held(const Plan& plan) {
  return number_of_bytes(plan.memory().peak.holds.part(part));
}

using P = const Plan&;

}  // namespace

const std::vector<Delta>& deltas() {
  static const std::vector<Delta> all{
      {"required", "bytes", [](P p) { return number_of_bytes(p.memory().required); }},
      {"parameters", "bytes", held<MemoryPart::parameters>},
      {"gradients", "bytes", held<MemoryPart::gradients>},
      {"optimizer_states", "bytes", held<MemoryPart::optimizer_states>},
      {"activations", "bytes", held<MemoryPart::activations>},
      {"loss", "bytes", held<MemoryPart::loss>},
      {"communication_buffers", "bytes", held<MemoryPart::communication_buffers>},
      {"temporaries", "bytes", held<MemoryPart::temporaries>},
      {"framework_overhead", "bytes", held<MemoryPart::framework_overhead>},
      {"host", "bytes", [](P p) { return number_of_bytes(p.memory().host.total); }},
      {"wire_per_gpu", "bytes", [](P p) { return number_of_bytes(p.communication().wire_bytes_per_gpu()); }},
      {"step", "seconds", [](P p) { return p.time.step.value; }},
      {"tokens_per_second", "", [](P p) { return p.time.tokens_per_second; }}};
  return all;
}

}  // namespace zplan
