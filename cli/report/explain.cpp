#include "cli/report/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/document/text.h"
#include "planner/cost/cost_model.h"
#include "planner/explain/why.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/question/question.h"
#include "planner/sharding/expert_model.h"
#include "planner/sharding/megatron_model.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

Symbol count(std::string symbol, std::string meaning, std::int64_t value) {
  return {std::move(symbol), std::move(meaning), group_digits(value)};
}

std::vector<Symbol> model_symbols(const Plan& plan, const Question& q) {
  const ModelShape& shape = q.model.shape;
  const Strategy& s = plan.strategy;
  const bool has_parts = s.megatron && (q.model.shape.experts || q.training.method != Method::full);
  const Model part = has_parts ? megatron_model(q.model, s.layout) : with_local_experts(q.model, s);
  const RankModel rank = rank_model(part, q.training, s.layout.tensor);
  return {
      count("Ψ", "trainable parameters on one tensor-parallel rank", rank.trainable.value),
      count("F", "frozen parameters on one tensor-parallel rank", rank.frozen.value),
      count("P", "parameters whose optimizer states one rank holds", plan.shard().optimizer_elements.value),
      {"n", "elements of one parameter tensor", ""},
      count("L", "layers", shape.layers),
      count("h", "hidden size", shape.hidden_size),
      count("f", "feed-forward size", shape.intermediate_size),
      count("a", "attention heads", shape.attention_heads),
      count("k", "key-value heads", shape.key_value_heads),
      count("d", "head size", shape.head_size),
      count("V", "vocabulary", shape.vocabulary_size)};
}

std::vector<Symbol> training_symbols(const Plan& plan, const Question& q) {
  const Strategy& s = plan.strategy;
  const bool divides = s.layout.token_ranks() > 1;
  return {count("N",
                divides ? "ranks that share states: data-parallel, and of one sample" : "data-parallel ranks",
                s.layout.gradient_ranks()),
          count("t", "tensor-parallel ranks", s.layout.tensor),
          count("w", "bytes of a stored weight or gradient", weight_size(q.training).value),
          count("s", divides ? "tokens of a sample on one rank" : "tokens per sample",
                local_tokens(q.training, s)),
          count("b", "samples per micro-batch", s.micro_batch_size),
          count("T", "tokens per micro-batch, b·s", s.micro_batch_size * local_tokens(q.training, s)),
          count("A", "micro-batches per optimizer step", s.gradient_accumulation_steps)};
}

/// Returns the symbols of the sizes that a framework shards and sends.
std::vector<Symbol> framework_symbols(const Plan& plan, const Question& q) {
  const Strategy& s = plan.strategy;
  const Bytes stored = parameter_size(q.training), computed = weight_size(q.training);
  if (!spec(plan.framework).reads_ds_config)
    return {count("q", "bytes of a parameter that is stored", stored.value),
            count("c", "bytes of a parameter that computes", computed.value),
            count("r", "bytes of a gradient that is reduced",
                  q.training.fsdp_reduces_fp32 ? std::max(stored, computed).value : computed.value)};
  return {count("reduce_bucket_size", "elements", s.zero.reduce_bucket_size.value),
          count("prefetch_bucket_size", "elements", s.zero.prefetch_bucket_size.value),
          count("persistence threshold", "elements", s.zero.persistence_threshold.value),
          count("max_reuse_distance", "elements", s.zero.max_reuse_distance.value)};
}

/// Returns S, the bytes that a layer keeps of a micro-batch for its backward, for each kind of layer. It is
/// taken of the last layer of the kind, since a first layer may keep less.
std::vector<Symbol> saved_symbols(const Plan& plan, const Question& q) {
  std::vector<Symbol> symbols;
  const std::vector<std::size_t>& layers = q.model.inventory.layers;
  for (std::size_t kind = 0; kind < q.model.inventory.kinds.size(); ++kind) {
    const auto last = std::find(layers.rbegin(), layers.rend(), kind);
    if (last == layers.rend()) continue;
    // A stage of a pipeline has fewer layers than the model.
    const std::vector<Bytes>& of_layer = plan.memory().saved_by_layer;
    const Bytes saved =
        of_layer[std::min(of_layer.size(), static_cast<std::size_t>(layers.rend() - last)) - 1];
    symbols.push_back({"S",
                       fmt::format("what a {} layer keeps of a micro-batch for its backward",
                                   q.model.inventory.kinds[kind].name),
                       format_bytes(saved, q.unit)});
  }
  return symbols;
}

std::vector<Symbol> symbols_of(const Plan& plan, const Question& q) {
  std::vector<Symbol> symbols = model_symbols(plan, q);
  for (const std::vector<Symbol>& more :
       {training_symbols(plan, q), framework_symbols(plan, q), saved_symbols(plan, q)})
    symbols.insert(symbols.end(), more.begin(), more.end());
  return symbols;
}

Figure bytes_figure(std::string name, Bytes size, std::string formula, std::string source,
                    const Question& q) {
  return {std::move(name), format_bytes(size, q.unit), static_cast<double>(size.value), std::move(formula),
          std::move(source)};
}

Section memory_section(const Plan& plan, const Question& q) {
  const Peak& peak = plan.memory().peak;
  Section section{
      "memory", fmt::format("Memory at the peak ({}, {})", to_name(reported(peak.phase)), peak.at), {}};
  for (std::size_t i = 0; i < kTerms; ++i) {
    const TermInfo& term = info(static_cast<Term>(i), plan.framework);
    const Bytes size = peak.holds[term.term];
    if (size == Bytes{}) continue;
    section.figures.push_back(bytes_figure(fmt::format("{}: {}", in_words(to_name(term.part)), term.name),
                                           size, std::string(term.formula), std::string(term.source), q));
  }
  section.figures.push_back(bytes_figure("peak", peak.bytes(), "the sum of these", "docs/memory.md", q));
  return section;
}

Section required_section(const Plan& plan, const Question& q) {
  const std::string source = "PyTorch's caching allocator, simulated (docs/allocator.md)";
  const MemoryPlan& m = plan.memory();
  return {
      "required",
      "The smallest device on which it runs",
      {bytes_figure("allocated at the peak", m.peak_allocated,
                    "peak without CUDA context and NCCL, each block rounded as the allocator does", source,
                    q),
       bytes_figure("allocated at initialisation", m.initialisation.allocated,
                    "the highest before the first step", source, q),
       bytes_figure("reserved", m.peak_reserved, "what the allocator takes of a GPU with memory to spare",
                    source, q),
       bytes_figure("required", m.required,
                    "the least the allocator gets by with, giving back what it caches, + CUDA context + NCCL",
                    source, q),
       bytes_figure("required, at least", m.required_low, "allocated + CUDA context + NCCL", source, q),
       bytes_figure("required, at most", m.required_high, "reserved + CUDA context + NCCL", source, q),
       bytes_figure(
           "available", available(q.cluster, q.headroom),
           fmt::format("usable memory of {} less {} headroom", format_bytes(q.cluster.usable_memory, q.unit),
                       format_percent(q.headroom.fraction)),
           fmt::format("{}; --headroom", q.cluster.gpu.name), q)}};
}

Section steady_section(const Plan& plan, const Question& q) {
  const int stage = plan.strategy.zero_stage;
  const auto over = [stage](std::string_view what, int from) {
    return fmt::format("{}{}", what, stage >= from ? " / N" : "");
  };
  const std::string source = "Rajbhandari et al. 2020, section 3 and figure 1";
  const SteadyState& steady = plan.memory().steady;
  return {"steady",
          "The state as ZeRO papers tabulate it",
          {bytes_figure("parameters", steady.parameters, over("(w·Ψ + frozen bytes)", 3), source, q),
           bytes_figure("gradients", steady.gradients, over("w·Ψ", 2), source, q),
           bytes_figure("optimizer states", steady.optimizer_states, over("(master weights + moments)·Ψ", 1),
                        source, q)}};
}

Section host_section(const Plan& plan, const Question& q) {
  const HostMemory& host = plan.memory().host;
  const std::string source(spec(plan.framework).host_source);
  Section section{"host", "Host memory and disk per node", {}};
  if (host.total == Bytes{} && host.nvme == Bytes{}) return section;
  section.figures = {bytes_figure("host memory", host.total,
                                  "what offload keeps there, or flattening takes as DeepSpeed starts, for "
                                  "every GPU of the node",
                                  source, q),
                     bytes_figure("of that pinned", host.pinned, "each block rounded up to a power of two",
                                  "torch's pinned allocator", q),
                     bytes_figure("on NVMe", host.nvme, "states that are swapped out", source, q)};
  return section;
}

/// Returns the memory of a run beside its steps. The host memory of the processes themselves and of mapped
/// checkpoints is left to the headroom.
Section moments_section(const Plan& plan, const Question& q) {
  Section section{"moments", "Beside the steps: device memory of a GPU, host memory of a node", {}};
  for (const MomentMemory& each : plan.moments) {
    if (each.moment == RunMoment::training) continue;
    const std::string moment(moment_words(each.moment));
    for (const Resident& part : each.parts) {
      const std::string formula(part.formula), source(part.source);
      if (part.device.value > 0)
        section.figures.push_back(bytes_figure(fmt::format("{}: {}, on the device", moment, part.name),
                                               part.device, formula, source, q));
      if (part.host.value > 0)
        section.figures.push_back(bytes_figure(fmt::format("{}: {}, on the host", moment, part.name),
                                               part.host * q.cluster.gpus_per_node,
                                               formula + ", for every GPU of the node", source, q));
      if (part.host_of_first.value > 0)
        section.figures.push_back(
            bytes_figure(fmt::format("{}: {}, on the first rank's host", moment, part.name),
                         part.host_of_first, formula, source, q));
    }
  }
  return section;
}

std::string ring_formula(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return "2·(r−1)/r · bytes";
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return "(r−1)/r · bytes";
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send_recv: return "bytes";
  }
  return "";
}

/// Traffic is in GB, as links are rated in GB/s.
Figure collective_figure(const Collective& each, Framework framework) {
  return {fmt::format("{}: {} of {}", to_name(each.phase), to_name(each.operation), each.purpose),
          fmt::format("{} sent per GPU", format_bytes(each.wire_bytes_per_gpu, ByteUnit::gb)),
          static_cast<double>(each.wire_bytes_per_gpu.value),
          fmt::format("{}, r = {} ranks ({} group); {} call{}, {} element{} of {}, {}; {} {}: {} in all",
                      ring_formula(each.operation), each.group_size, to_name(each.group),
                      group_digits(each.count), each.count == 1 ? "" : "s", group_digits(each.elements.value),
                      each.elements.value == 1 ? "" : "s", each.dtype, format_bytes(each.bytes, ByteUnit::gb),
                      to_name(each.algorithm), to_name(each.protocol), format_seconds(each.time)),
          std::string(spec(framework).calls_source)};
}

Section communication_section(const Plan& plan, const Question& q) {
  Section section{"communication", "Communication per optimizer step", {}};
  for (const Collective& each : plan.communication().collectives)
    section.figures.push_back(collective_figure(each, plan.framework));
  const std::string offload = "offload traffic per GPU and optimizer step";
  if (plan.communication().host_to_device > Bytes{})
    section.figures.push_back(bytes_figure("host to device", plan.communication().host_to_device, offload,
                                           "docs/communication.md", q));
  if (plan.communication().device_to_host > Bytes{})
    section.figures.push_back(bytes_figure("device to host", plan.communication().device_to_host, offload,
                                           "docs/communication.md", q));
  return section;
}

Figure time_figure(std::string name, Seconds time, std::string formula, std::string source) {
  return {std::move(name), time.value > 0 ? format_seconds(time) : "0 s", time.value, std::move(formula),
          std::move(source)};
}

/// Returns the formula of offload with its rates. Figures of the host are usual ones unless options give
/// them.
std::string offload_text(const Cluster& cluster) {
  return fmt::format(
      "transfers at {} and the host's update at {} per rank ({} threads; {} of memory bandwidth per node) "
      "that "
      "nothing hides",
      format_rate(cluster.gpu.pcie_effective), format_rate(update_rate(cluster.host, cluster.gpus_per_node)),
      cluster.host.threads, format_rate(cluster.host.bandwidth));
}

std::string source_of(const Gpu& gpu, const std::string& figure) {
  const auto at = gpu.sources.find(figure);
  return at == gpu.sources.end() ? "docs/step-time.md" : at->second;
}

/// Returns the rate that a class of operations reaches, as text.
std::string reached(const Question& q, double share) {
  const auto peak = matrix_peak(q.cluster.gpu, q.training.precision);
  return fmt::format("{} · {}",
                     peak ? fmt::format("{:.4g} TFLOP/s", peak->value / 1e12) : std::string("its fp32 rate"),
                     format_percent(share));
}

Section time_section(const Plan& plan, const Question& q) {
  const StepTime& time = plan.time;
  const Cluster& cluster = q.cluster;
  const Efficiency efficiency = efficiency_of(cluster.gpu, cluster.kernels);
  const std::string links = cluster.between
                                ? fmt::format("{}; {}", cluster.inside_source, cluster.between_source)
                                : cluster.inside_source;
  Section section{
      "time",
      "Time of one optimizer step",
      {time_figure("matrix products", time.run.products,
                   "A · FLOPs / (" + reached(q, efficiency.products) + ")",
                   source_of(cluster.gpu, "matrix_efficiency")),
       time_figure("attention", time.run.attention, "A · FLOPs / (" + reached(q, efficiency.attention) + ")",
                   source_of(cluster.gpu, "attention_efficiency")),
       time_figure("other kernels", time.run.other,
                   fmt::format("A · bytes read and written / ({} · {})",
                               format_rate(cluster.gpu.memory_bandwidth), format_percent(efficiency.memory)),
                   source_of(cluster.gpu, "memory_efficiency")),
       time_figure("waiting for launches", time.launching,
                   "what the host issues later than the device is ready", "docs/step-time.md"),
       time_figure("communication", time.communication,
                   "each call by the curve of its link, or by NCCL's model", links),
       time_figure("of that exposed", time.exposed_communication, "what the compute stream waits for",
                   "docs/step-time.md"),
       time_figure("offload", time.offload, offload_text(cluster), "docs/step-time.md"),
       time_figure("optimizer", time.optimizer, "bytes that the update moves / memory bandwidth",
                   source_of(cluster.gpu, "memory_bandwidth_gb_per_s")),
       time_figure("step", time.step,
                   "kernels + waiting for launches + exposed communication + offload + optimizer",
                   "docs/step-time.md"),
       {"tokens per second", fmt::format("{:.0f}", time.tokens_per_second), time.tokens_per_second,
        "A · T · N / step", "docs/step-time.md"},
       {"model FLOPs utilisation", format_percent(time.mfu), time.mfu,
        "FLOPs without recomputation / (step · peak)", "Chowdhery et al. 2022 (PaLM), appendix B"},
       {"hardware FLOPs utilisation", format_percent(time.hfu), time.hfu,
        "FLOPs with recomputation / (step · peak)", "docs/step-time.md"}}};
  if (time.generation.value > 0)
    section.figures.push_back(time_figure(
        "generation, in the step", time.generation,
        time.scoring.value > 0
            ? "prompts, and each token's forward: its kernels or their launches, whichever takes "
              "longer, and keys, values and scores moved: not measured"
            : "completion tokens · (weights + keys and values read) / memory bandwidth, and prompts "
              "computed: arithmetic, no engine was measured",
        "docs/rl.md"));
  if (time.scoring.value > 0)
    section.figures.push_back(
        time_figure("scoring, in the step", time.scoring,
                    "forwards of reference, value and reward model: as the cost model has them, not measured",
                    "docs/rl.md"));
  return section;
}

/// Returns `text` aligned right.
std::string right(std::string_view text, std::size_t width) {
  return std::string(width - display_width(text), ' ') + std::string(text);
}

template <class Each>
std::size_t widest(const std::vector<Each>& list, std::string Each::*member) {
  std::size_t width = 0;
  for (const Each& each : list) width = std::max(width, display_width(each.*member));
  return width;
}

void add_symbols(Document& doc, const std::vector<Symbol>& symbols) {
  const std::size_t names = widest(symbols, &Symbol::symbol), values = widest(symbols, &Symbol::value);
  doc.line("Symbols");
  for (const Symbol& each : symbols)
    doc.paragraph(fmt::format("  {}{}  {}  ", each.symbol, right("", names - display_width(each.symbol)),
                              right(each.value, values)),
                  each.meaning);
}

void add_section(Document& doc, const Section& section) {
  const std::size_t width = widest(section.figures, &Figure::value);
  const std::string indent(width + 6, ' ');
  doc.line(), doc.line(section.title);
  for (const Figure& each : section.figures) {
    doc.paragraph(fmt::format("  {}  ", right(each.value, width)), each.name);
    doc.paragraph(indent + "= ", each.formula);
    doc.paragraph(indent + "source: ", each.source);
  }
}

}  // namespace

Explanation explain(const Plan& plan, const Question& q) {
  Explanation out{symbols_of(plan, q), {}};
  for (Section section :
       {memory_section(plan, q), required_section(plan, q), steady_section(plan, q), host_section(plan, q),
        moments_section(plan, q), communication_section(plan, q), time_section(plan, q)})
    if (!section.figures.empty()) out.sections.push_back(std::move(section));
  return out;
}

Json explain_json(const Plan& plan, const Question& q) {
  const Explanation explanation = explain(plan, q);
  Json out{{"symbols", Json::array()}};
  for (const Symbol& each : explanation.symbols)
    out["symbols"].push_back({{"symbol", each.symbol}, {"meaning", each.meaning}, {"value", each.value}});
  for (const Section& section : explanation.sections) {
    Json figures = Json::array();
    for (const Figure& each : section.figures)
      figures.push_back(
          {{"name", each.name}, {"value", each.number}, {"formula", each.formula}, {"source", each.source}});
    out[section.name] = std::move(figures);
  }
  return out;
}

void add_figures(Document& doc, const Plan& plan, const Question& q) {
  const Explanation explanation = explain(plan, q);
  doc.line(fmt::format("{} explained", plan.id())), doc.line();
  add_symbols(doc, explanation.symbols);
  for (const Section& section : explanation.sections) add_section(doc, section);
}

}  // namespace zplan
