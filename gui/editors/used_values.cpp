#include "gui/editors/used_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "models/base/format.h"

namespace zplan::gui {

namespace {

using Text = std::string (*)(const Planned&);
struct Used {
  std::string_view option;
  Text text;
};

template <class E>
std::string name(E value) {
  return std::string(to_name(value));
}
template <class List>
std::string joined(const List& list) {
  return fmt::format("{}", fmt::join(list, ","));
}
std::string number(std::int64_t value) { return fmt::format("{}", value); }
std::string gib(Bytes size) { return format_bytes_value(size, ByteUnit::gib); }

std::string offload_names(const Planned& p) {
  std::vector<std::string> names;
  for (const Offload each : offloads(p.question)) names.push_back(name(each));
  return joined(names);
}
const Training& training(const Planned& p) { return p.question.training; }
const Strategy& strategy(const Planned& p) { return p.plan().strategy; }

constexpr std::array kUsed{
    Used{"--method", [](const Planned& p) { return name(training(p).method); }},
    Used{"--lora-rank", [](const Planned& p) { return number(training(p).lora_rank); }},
    Used{"--lora-targets", [](const Planned& p) { return joined(training(p).lora_targets.modules); }},
    Used{"--lora-dropout", [](const Planned& p) { return fmt::format("{}", training(p).lora_dropout); }},
    Used{"--quantization", [](const Planned& p) { return name(training(p).quantization); }},
    Used{"--gpus", [](const Planned& p) { return number(p.question.cluster.gpus); }},
    Used{"--gpu", [](const Planned& p) { return p.question.cluster.gpu.name; }},
    Used{"--instance",
         [](const Planned& p) {
           return p.question.cluster.instance ? p.question.cluster.instance->name : std::string();
         }},
    Used{"--mem", [](const Planned& p) { return gib(p.question.cluster.memory); }},
    Used{"--nodes", [](const Planned& p) { return number(p.question.cluster.nodes); }},
    Used{"--node", [](const Planned& p) { return p.question.cluster.node.name; }},
    Used{"--network",
         [](const Planned& p) {
           return p.question.cluster.network ? p.question.cluster.network->name : std::string();
         }},
    Used{"--host-mem", [](const Planned& p) { return gib(p.question.cluster.host_memory_per_node); }},
    Used{"--host-threads", [](const Planned& p) { return number(p.question.cluster.host.threads); }},
    Used{"--host-bandwidth",
         [](const Planned& p) { return fmt::format("{:g}", p.question.cluster.host.bandwidth.value / 1e9); }},
    Used{"--disk-bandwidth",
         [](const Planned& p) { return fmt::format("{:g}", p.question.cluster.host.disk.value / 1e9); }},
    Used{"--headroom", [](const Planned& p) { return format_percent(p.question.headroom.fraction); }},
    Used{"--zero", [](const Planned& p) { return joined(stages(p.question)); }},
    Used{"--tp", [](const Planned& p) { return joined(tensor_parallel_degrees(p.question)); }},
    Used{"--sp", [](const Planned& p) { return number(strategy(p).layout.sequence); }},
    Used{"--ep", [](const Planned& p) { return number(strategy(p).layout.expert); }},
    Used{"--cp", [](const Planned& p) { return number(strategy(p).layout.context); }},
    Used{"--dp-replicate", [](const Planned& p) { return number(strategy(p).layout.replicate); }},
    Used{"--cp-rotate", [](const Planned& p) { return name(strategy(p).long_context.rotation); }},
    Used{"--checkpoint-offload",
         [](const Planned& p) { return name(strategy(p).long_context.checkpoint_offload); }},
    Used{"--offload", offload_names},
    Used{"--buckets", [](const Planned& p) { return name(p.question.space.buckets); }},
    Used{"--framework", [](const Planned& p) { return name(training(p).framework); }},
    Used{"--deepspeed-version", [](const Planned& p) { return to_text(training(p).deepspeed); }},
    Used{"--precision", [](const Planned& p) { return name(training(p).precision); }},
    Used{"--optimizer", [](const Planned& p) { return name(training(p).optimizer); }},
    Used{"--checkpointing", [](const Planned& p) { return name(strategy(p).checkpointing); }},
    Used{"--attention", [](const Planned& p) { return name(training(p).attention); }},
    Used{"--seq", [](const Planned& p) { return number(training(p).sequence_length); }},
    Used{"--micro-batch", [](const Planned& p) { return number(strategy(p).micro_batch_size); }},
    Used{"--grad-accum", [](const Planned& p) { return number(strategy(p).gradient_accumulation_steps); }},
    Used{"--global-batch", [](const Planned& p) { return number(strategy(p).global_batch_size()); }},
    Used{"--units", [](const Planned& p) { return unit_name(p.options.unit); }},
    Used{"--nvme-path", [](const Planned& p) { return p.options.nvme_path; }},
    Used{"--config-style", [](const Planned& p) { return name(p.options.config_style); }},
};

}  // namespace

QString used_value(std::string_view option, const Planned& planned) {
  const auto at = std::ranges::find(kUsed, option, &Used::option);
  if (at == kUsed.end() || planned.saved || planned.answer.plans.empty()) return {};
  return QString::fromStdString(at->text(planned));
}

QString stated_default(const OptionSpec& spec) {
  const std::size_t open = spec.help.rfind('[');
  if (open == std::string_view::npos || !spec.help.ends_with(']')) return {};
  const std::string_view inside = spec.help.substr(open + 1, spec.help.size() - open - 2);
  return QString::fromUtf8(inside.data(), static_cast<qsizetype>(inside.size()));
}

}  // namespace zplan::gui
