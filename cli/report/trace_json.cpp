#include "cli/report/trace_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "hardware_profiles/cluster.h"
#include "models/base/version.h"
#include "planner/question/question.h"

namespace zplan {

namespace {

using Kind = TraceLane::Kind;

constexpr double kMicroseconds = 1e6;
constexpr int kDevice = 0, kProcess = 1;  ///< "pid" of what runs on the GPU, and of the host's threads
constexpr int kFirstStream = 7;           ///< PyTorch's traces name the default stream so

bool is_on_device(Kind kind) {
  return kind == Kind::compute || kind == Kind::communicator || kind == Kind::copies;
}

std::string_view category_of(Kind kind) {
  switch (kind) {
    case Kind::compute:
    case Kind::communicator: return "kernel";
    case Kind::copies: return "gpu_memcpy";
    case Kind::host:
    case Kind::optimizer:
    case Kind::engine: return "cpu_op";
  }
  return "cpu_op";
}

/// The name of NCCL's kernel in a profile. Its algorithm and protocol are left out: a trace is of times.
std::string kernel_name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return "ncclDevKernel_AllReduce";
    case Operation::all_gather: return "ncclDevKernel_AllGather";
    case Operation::reduce_scatter: return "ncclDevKernel_ReduceScatter";
    case Operation::broadcast: return "ncclDevKernel_Broadcast";
    case Operation::reduce: return "ncclDevKernel_Reduce";
    case Operation::all_to_all:
    case Operation::send_recv: return "ncclDevKernel_SendRecv";
  }
  return "ncclDevKernel";
}

/// The collective as torch.distributed's records name it.
std::string_view collective_name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return "allreduce";
    case Operation::all_gather: return "_allgather_base";
    case Operation::reduce_scatter: return "_reduce_scatter_base";
    case Operation::broadcast: return "broadcast";
    case Operation::reduce: return "reduce";
    case Operation::all_to_all: return "all_to_all";
    case Operation::send_recv: return "send";
  }
  return "";
}

class TraceWriter {
 public:
  TraceWriter(const StepTrace& trace, const Plan& plan, const Question& question)
      : trace_(trace), plan_(plan), question_(question) {}

  Json write() {
    name_processes();
    for (std::size_t i = 0; i < trace_.lanes.size(); ++i) name_lane(i);
    add_step();
    for (const TraceSpan& each : trace_.spans) add(each);
    return {{"schemaVersion", 1},
            {"deviceProperties", Json::array({device()})},
            {"distributedInfo", distributed()},
            {"displayTimeUnit", "ms"},
            {"baseTimeNanoseconds", 0},
            {"traceName", fmt::format("zplan {} {}", question_.model.name, plan_.id())},
            {"zplan", about()},
            {"traceEvents", std::move(events_)}};
  }

 private:
  [[nodiscard]] Json device() const {
    const Gpu& gpu = question_.cluster.gpu;
    return {{"id", kDevice},
            {"name", gpu.name},
            {"totalGlobalMem", question_.cluster.memory.value},
            {"computeCapability", gpu.compute_capability}};
  }
  [[nodiscard]] Json distributed() const {
    Json groups = Json::array();
    std::set<std::tuple<Group, std::int64_t, std::int64_t>> seen;
    for (const TraceLane& each : trace_.lanes) {
      const Call& call = each.call;
      if (each.kind != Kind::communicator || !seen.emplace(call.group, call.group_size, call.stride).second)
        continue;
      groups.push_back({{"pg_name", fmt::format("{}", groups.size())},
                        {"pg_desc", to_name(call.group)},
                        {"backend_config", "cuda:nccl"},
                        {"pg_size", call.group_size}});
    }
    const std::size_t count = groups.size();
    return {{"backend", "nccl"},
            {"rank", 0},
            {"world_size", trace_.world},
            {"pg_count", count},
            {"pg_config", std::move(groups)}};
  }
  /// Returns the fields that mark the trace as a prediction, because its format is that of recorded traces.
  [[nodiscard]] Json about() const {
    return {{"predicted", true},
            {"zplan_version", std::string(version())},
            {"plan", plan_.id()},
            {"step_seconds", trace_.step.value},
            {"pipeline_stage", trace_.rank_stage},
            {"micro_steps_left_out", trace_.left_out}};
  }

  void name_processes() {
    meta("process_name", kProcess, 0, {{"name", "zplan (predicted)"}});
    meta("process_labels", kProcess, 0, {{"labels", "CPU"}});
    meta("process_sort_index", kProcess, 0, {{"sort_index", 0}});
    meta("process_name", kDevice, 0, {{"name", "zplan (predicted)"}});
    meta("process_labels", kDevice, 0, {{"labels", fmt::format("GPU {}", kDevice)}});
    meta("process_sort_index", kDevice, 0, {{"sort_index", 5'000'000}});
  }
  [[nodiscard]] static int thread_of(std::size_t lane) { return static_cast<int>(lane) + kFirstStream - 1; }
  [[nodiscard]] int process_of(std::size_t lane) const {
    return is_on_device(trace_.lanes[lane].kind) ? kDevice : kProcess;
  }
  void name_lane(std::size_t lane) {
    const int thread = thread_of(lane);
    const std::string name = is_on_device(trace_.lanes[lane].kind)
                                 ? fmt::format("stream {} {}", thread, trace_.lanes[lane].name)
                                 : trace_.lanes[lane].name;
    meta("thread_name", process_of(lane), thread, {{"name", name}});
    meta("thread_sort_index", process_of(lane), thread, {{"sort_index", thread}});
  }
  void meta(std::string_view name, int process, int thread, Json arguments) {
    events_.push_back({{"ph", "M"},
                       {"name", name},
                       {"ts", 0.0},
                       {"pid", process},
                       {"tid", thread},
                       {"args", std::move(arguments)}});
  }
  /// The step as torch.profiler's own annotation, in a thread of its own.
  void add_step() {
    const int thread = kFirstStream - 2;
    meta("thread_name", kProcess, thread, {{"name", "step"}});
    meta("thread_sort_index", kProcess, thread, {{"sort_index", thread}});
    complete("user_annotation", "ProfilerStep#0", kProcess, thread, Seconds{}, trace_.step,
             {{"plan", plan_.id()}, {"predicted", true}});
  }
  void complete(std::string_view category, const std::string& name, int process, int thread, Seconds from,
                Seconds until, Json arguments) {
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", process},
                       {"tid", thread},
                       {"ts", from.value * kMicroseconds},
                       {"dur", (until - from).value * kMicroseconds},
                       {"args", std::move(arguments)}});
  }

  void add(const TraceSpan& span) {
    const Kind kind = trace_.lanes[span.lane].kind;
    Json arguments = {{"phase", span.phase == Phase::initialisation ? "generation" : to_name(span.phase)}};
    if (span.micro_step > 0) arguments["micro_step"] = span.micro_step;
    if (span.layer >= 0) arguments["layer"] = span.layer;
    if (is_on_device(kind)) arguments["device"] = kDevice, arguments["stream"] = thread_of(span.lane);
    if (span.flops > 0) arguments["flops"] = span.flops;
    if (span.moved > Bytes{}) arguments["bytes"] = span.moved.value;
    if (span.kernels > 0) arguments["kernels"] = span.kernels;
    std::string name = span.name;
    if (span.call >= 0) {
      const Call& call = trace_.calls[static_cast<std::size_t>(span.call)];
      describe(call, arguments);
      name = kernel_name(call.operation);
    } else if (kind == Kind::copies) {
      name =
          span.name.ends_with("host") ? "Memcpy DtoH (Device -> Pinned)" : "Memcpy HtoD (Pinned -> Device)";
      arguments["purpose"] = span.name;
    } else if (span.layer >= 0) {
      name = fmt::format("{}, layer {}", span.name, span.layer);
    }
    complete(category_of(kind), name, process_of(span.lane), thread_of(span.lane), span.from, span.until,
             std::move(arguments));
  }
  static void describe(const Call& call, Json& arguments) {
    const bool gathers = call.operation == Operation::all_gather;
    const bool scatters = call.operation == Operation::reduce_scatter;
    const std::int64_t part = call.elements.value / call.group_size;
    arguments["purpose"] = call.purpose;
    arguments["Collective name"] = collective_name(call.operation);
    arguments["In msg nelems"] = gathers ? part : call.elements.value;
    arguments["Out msg nelems"] = scatters ? part : call.elements.value;
    arguments["Group size"] = call.group_size;
    arguments["dtype"] = call.dtype;
    arguments["Process Group Description"] = to_name(call.group);
  }

  const StepTrace& trace_;
  const Plan& plan_;
  const Question& question_;
  Json events_ = Json::array();
};

}  // namespace

Json trace_json(const StepTrace& trace, const Plan& plan, const Question& question) {
  return TraceWriter(trace, plan, question).write();
}

}  // namespace zplan
