#include "planner/check/readers/calls.h"

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

/// "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "functional.all_gather_tensor" and
/// plain names. permute_tensor sends to the next rank: an all_to_all_single in which all but one part is
/// empty.
Operation operation_at(const JsonReader& name) {
  constexpr std::string_view kFunctional = "functional.";
  std::string text = name.text();
  if (text.starts_with(kFunctional)) text.erase(0, kFunctional.size());
  if (text == "permute_tensor") return Operation::send_recv;
  for (const auto& [operation, prefix] : EnumNames<Operation>::table)
    if (text == prefix || (text.starts_with(prefix) && text[prefix.size()] == '_')) return operation;
  name.fail_type("an operation of torch.distributed");
}

Phase phase_at(const JsonReader& name) {
  const std::string text = name.text();
  if (text == "data" || text == "forward" || text == "loss") return Phase::forward;
  if (text == "loss_backward" || text == "backward") return Phase::backward;
  if (text == "micro_step" || text == "clip" || text == "step") return Phase::step;
  name.fail_type("data, forward, loss, loss_backward, backward or step");
}

}  // namespace

namespace {

CallTally call_at(const JsonReader& each, std::int64_t count, const char* in, const char* out) {
  CallTally call{.operation = operation_at(each.at("op")),
                 .dtype = each.at("dtype").text(),
                 .group_size = each.at("group").integer(1, kMostRanks),
                 .phase = phase_at(each.at("phase")),
                 .count = count,
                 .elements = {}};
  const char* counted = call.operation == Operation::all_gather ? out : in;
  call.elements = Elements(each.at(counted).integer(0, kMostBytes));
  return call;
}

}  // namespace

std::vector<CallTally> read_calls(const JsonReader& list, const char* in, const char* out) {
  std::vector<CallTally> calls;
  for (const JsonReader& each : list.items()) {
    CallTally call = call_at(each, each.at("count").integer(1, kMostCalls), in, out);
    if (call.group_size > 1) calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<CallTally> read_sequence(const JsonReader& list) {
  std::vector<CallTally> sequence;
  for (const JsonReader& each : list.items()) {
    CallTally call = call_at(each, each.integer_or("times", 1, 1, kMostCalls), "n_in", "n_out");
    call.elements = call.elements * call.count;
    if (call.group_size > 1) append_folded(sequence, std::move(call));
  }
  return sequence;
}

}  // namespace zplan::check
