// `zplan hardware`: the catalogue of GPUs, nodes, networks and cloud shapes, and profiles made of
// measurements.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/document/table.h"
#include "cli/report/report.h"
#include "hardware_profiles/profiles.h"
#include "models/base/format.h"
#include "models/base/json_reader.h"
#include "planner/calibration/import_profile.h"

namespace zplan {

namespace {

/// One figure of a profile; `key` is its name in the profile's file, which is what its source goes by.
struct Fact {
  std::string key, value;
};

/// A GPU, node or network as rows of figures.
struct Profile {
  std::string kind, name;
  std::vector<std::string> aliases;
  std::vector<Fact> facts;
  Sources sources;
};

std::string teraflops(const std::optional<FlopsPerSecond>& rate) {
  return rate ? fmt::format("{:g} TFLOP/s", rate->value / 1e12) : std::string("-");
}

std::string rate(BytesPerSecond speed) {
  return speed == BytesPerSecond{} ? std::string("-") : format_rate(speed);
}

std::string link_text(const LinkSpeed& speed) {
  return fmt::format("all_reduce {}, all_gather {}, latency {}", format_rate(speed.all_reduce),
                     format_rate(speed.all_gather), format_seconds(speed.latency));
}

template <class Number>
std::string unit_text(const std::optional<Number>& figure, std::string_view unit) {
  return figure ? fmt::format("{:g} {}", static_cast<double>(*figure), unit) : std::string("-");
}

/// Figures without a value in the profile are left out: they have no source either.
void keep_known(std::vector<Fact>& facts) {
  std::erase_if(facts, [](const Fact& fact) { return fact.value == "-"; });
}

std::vector<Fact> gpu_facts(const Gpu& gpu) {
  std::vector<Fact> facts{{"memory_mib", format_bytes(gpu.memory)},
                          {"driver_reserved_mib", format_bytes(gpu.driver_reserved)},
                          {"multiprocessors", unit_text(gpu.multiprocessors, "SMs")},
                          {"boost_mhz", unit_text(gpu.boost_mhz, "MHz")},
                          {"memory_bus_bits", unit_text(gpu.memory_bus_bits, "bits")},
                          {"memory_gbit_per_s_per_pin", unit_text(gpu.memory_gbit_per_pin, "Gbit/s per pin")},
                          {"memory_bandwidth_gb_per_s", rate(gpu.memory_bandwidth)},
                          {"board_power_w", unit_text(gpu.board_power, "W")},
                          {"bf16_dense_tflops", teraflops(gpu.bf16)},
                          {"fp16_dense_tflops", teraflops(gpu.fp16)},
                          {"tf32_dense_tflops", teraflops(gpu.tf32)},
                          {"fp32_tflops", teraflops(gpu.fp32)},
                          {"fp8_dense_tflops", teraflops(gpu.fp8)},
                          {"matrix_efficiency", format_percent(efficiency_of(gpu).products)},
                          {"attention_efficiency", format_percent(efficiency_of(gpu).attention)},
                          {"memory_efficiency", format_percent(efficiency_of(gpu).memory)},
                          {"compute_capability", gpu.compute_capability},
                          {"nvlink_gb_per_s_per_direction", rate(gpu.nvlink)},
                          {"nvlink_effective_gb_per_s_per_direction", rate(gpu.nvlink_effective)},
                          {"pcie_gb_per_s_per_direction", rate(gpu.pcie)},
                          {"pcie_effective_gb_per_s_per_direction", rate(gpu.pcie_effective)},
                          {"peer_to_peer", gpu.peer_to_peer ? "yes" : "no"},
                          {"unified_memory", gpu.unified_memory ? "yes" : "-"},
                          {"usual_node", gpu.usual_node},
                          {"usual_network", gpu.usual_network}};
  keep_known(facts);
  return facts;
}

/// Latency and bandwidth of a curve, and how far it is from that line.
std::string fit_text(const CurveFit& fit) {
  return fmt::format("latency {}, bus bandwidth {}; off by {} (median), {} (worst)",
                     format_seconds(fit.latency), format_rate(fit.bus_bandwidth),
                     format_percent(fit.median_residual), format_percent(fit.worst_residual));
}

/// A key per curve, though two may be of one group.
void add_curve(Profile& profile, const CollectiveCurve& curve) {
  std::string key = fmt::format(
      "curve: {}, {} GPUs, {}", to_name(curve.operation), curve.gpus,
      curve.nodes > 1 ? fmt::format("{} nodes", curve.nodes) : std::string(to_name(curve.fabric)));
  while (profile.sources.contains(key)) key += ", again";
  profile.facts.push_back({key, fmt::format("{} sizes: {}", curve.points.size(), fit_text(*curve.fit))});
  profile.sources[key] = curve.source;
}

/// Measured links carry their own sources.
Profile profile_of(const Gpu& gpu) {
  Profile profile{"GPU", gpu.name, gpu.aliases, gpu_facts(gpu), gpu.sources};
  for (const char* share : {"matrix_efficiency", "attention_efficiency", "memory_efficiency"})
    profile.sources.try_emplace(share, "the model of all GPUs: docs/step-time.md");
  for (const MeasuredLink& link : gpu.links) {
    const std::string key = fmt::format("measured: {} GPUs, {}", link.gpus, to_name(link.fabric));
    profile.facts.push_back({key, link_text(link.speed)});
    profile.sources[key] = link.source;
  }
  for (const CollectiveCurve& curve : gpu.collectives)
    if (curve.fit) add_curve(profile, curve);
  return profile;
}

Profile profile_of(const Node& node) {
  Profile profile{"node",
                  node.name,
                  node.aliases,
                  {{"fabric", std::string(to_name(node.fabric))},
                   {"usual_gpus", fmt::format("{}", node.usual_gpus)},
                   {"host_memory_gib", format_bytes(node.host_memory)},
                   {"host_cores", fmt::format("{}", node.host_cores)},
                   {"host_memory_gb_per_s", format_rate(node.host_bandwidth)},
                   {"link_fraction", format_percent(node.link_fraction)},
                   {"latency_us", format_seconds(node.latency)}},
                  node.sources};
  if (node.measured) profile.facts.push_back({"measured", link_text(*node.measured)});
  return profile;
}

Profile profile_of(const Network& network) {
  return {"network",
          network.name,
          network.aliases,
          {{"nics_per_node", fmt::format("{}", network.nics)},
           {"nic_gb_per_s_per_direction", rate(network.nic)},
           {"nic_effective_gb_per_s_per_direction", rate(network.per_nic)},
           {"latency_us", format_seconds(network.latency)}},
          network.sources};
}

Profile profile_of(const Instance& instance) {
  Profile profile{
      "cloud shape",
      instance.name,
      instance.aliases,
      {{"provider", instance.provider},
       {"gpu", instance.gpu},
       {"gpus", fmt::format("{}", instance.gpus)},
       {"node", instance.node},
       {"network", instance.network},
       {"host_memory_gib", format_bytes(instance.host_memory)},
       {"vcpus", fmt::format("{}", instance.vcpus)},
       {"local_disk_gb", fmt::format("{:g} GB", static_cast<double>(instance.local_disk.value) / 1e9)}},
      {}};
  for (const Fact& fact : profile.facts) {
    const auto doubt = instance.assumed.find(fact.key);
    profile.sources[fact.key] = doubt == instance.assumed.end()
                                    ? fmt::format("{} ({})", instance.source, instance.date)
                                    : fmt::format("assumed: {}", doubt->second);
  }
  return profile;
}

std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Every word stands in the name or in one alias, case and punctuation ignored.
bool matches(const std::string& name, const std::vector<std::string>& aliases, std::string_view words) {
  std::string all = folded(name);
  for (const std::string& alias : aliases) all += "\n" + folded(alias);
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (all.find(folded(words.substr(at, end - at))) == std::string::npos) return false;
    at = end + 1;
  }
  return true;
}

template <class Each>
void keep_matches(std::vector<Each>& list, std::string_view words) {
  std::erase_if(list, [words](const Each& each) { return !matches(each.name, each.aliases, words); });
}

std::string tera_value(const std::optional<FlopsPerSecond>& value) {
  return value ? fmt::format("{:g}", value->value / 1e12) : std::string("-");
}

std::string gigabytes(BytesPerSecond speed) {
  return speed.value > 0 ? fmt::format("{:.4g}", speed.value / 1e9) : std::string("-");
}

std::string gpus_text(const std::vector<Gpu>& gpus, const Style& style) {
  Table table{{{"GPU", "", false, kAlways},
               {"memory", "GiB", true, kAlways},
               {"bf16", "TFLOP/s", true, 9},
               {"fp16", "TFLOP/s", true, 5},
               {"bandwidth", "GB/s", true, 8},
               {"NVLink", "GB/s", true, 7},
               {"PCIe", "GB/s", true, 6},
               {"node", "", false, 3}},
              {}};
  for (const Gpu& gpu : gpus)
    table.rows.push_back(
        {{gpu.name, format_bytes_value(gpu.memory), tera_value(gpu.bf16), tera_value(gpu.fp16),
          gigabytes(gpu.memory_bandwidth), gigabytes(gpu.nvlink), gigabytes(gpu.pcie), gpu.usual_node}});
  return render_text(table, style);
}

std::string nodes_text(const std::vector<Node>& nodes, const Style& style) {
  Table table{{{"node", "", false, kAlways},
               {"connected by", "", false, 5},
               {"usual GPUs", "", true, 4},
               {"host memory", "GiB", true, 6}},
              {}};
  for (const Node& node : nodes)
    table.rows.push_back({{node.name, std::string(to_name(node.fabric)), fmt::format("{}", node.usual_gpus),
                           format_bytes_value(node.host_memory)}});
  return render_text(table, style);
}

std::string networks_text(const std::vector<Network>& networks, const Style& style) {
  Table table{{{"network", "", false, kAlways},
               {"NICs", "", true, 5},
               {"per NIC", "GB/s", true, 4},
               {"per node", "GB/s", true, 6},
               {"latency", "", true, 3}},
              {}};
  for (const Network& network : networks)
    table.rows.push_back({{network.name, fmt::format("{}", network.nics), gigabytes(network.per_nic),
                           gigabytes(network.per_node), format_seconds(network.latency)}});
  return render_text(table, style);
}

std::string instances_text(const std::vector<Instance>& instances, const Style& style) {
  Table table{{{"cloud shape", "", false, kAlways},
               {"provider", "", false, 4},
               {"GPUs", "", true, kAlways},
               {"GPU", "", false, kAlways},
               {"links", "", false, 6},
               {"network", "", false, 7},
               {"host memory", "GiB", true, 8},
               {"vCPUs", "", true, 5},
               {"local disk", "GB", true, 3}},
              {}};
  for (const Instance& each : instances)
    table.rows.push_back({{each.name, each.provider, fmt::format("{}", each.gpus), each.gpu, each.node,
                           each.network, format_bytes_value(each.host_memory), fmt::format("{}", each.vcpus),
                           fmt::format("{:.0f}", static_cast<double>(each.local_disk.value) / 1e9)}});
  return render_text(table, style);
}

std::string list_text(const HardwareProfiles& profiles, const Style& style) {
  std::string out;
  const auto add = [&out](const std::string& table) { out += (out.empty() ? "" : "\n") + table; };
  if (!profiles.gpus.empty()) add(gpus_text(profiles.gpus, style));
  if (!profiles.nodes.empty()) add(nodes_text(profiles.nodes, style));
  if (!profiles.networks.empty()) add(networks_text(profiles.networks, style));
  if (!profiles.instances.empty()) add(instances_text(profiles.instances, style));
  return out;
}

std::string source_of(const Profile& profile, const std::string& key) {
  const auto at = profile.sources.find(key);
  return at == profile.sources.end() ? std::string() : at->second;
}

Json profile_json(const Profile& profile) {
  Json figures = Json::object();
  for (const Fact& fact : profile.facts)
    figures[fact.key] = {{"value", fact.value}, {"source", source_of(profile, fact.key)}};
  return {{"kind", profile.kind},
          {"name", profile.name},
          {"aliases", profile.aliases},
          {"figures", std::move(figures)}};
}

std::string list_json(const HardwareProfiles& profiles) {
  Json out{{"schema", "zplan.hardware/1"},
           {"gpus", Json::array()},
           {"nodes", Json::array()},
           {"networks", Json::array()},
           {"instances", Json::array()}};
  for (const Gpu& each : profiles.gpus) out["gpus"].push_back(profile_json(profile_of(each)));
  for (const Node& each : profiles.nodes) out["nodes"].push_back(profile_json(profile_of(each)));
  for (const Network& each : profiles.networks) out["networks"].push_back(profile_json(profile_of(each)));
  for (const Instance& each : profiles.instances) out["instances"].push_back(profile_json(profile_of(each)));
  return json_text(out);
}

std::string show_text(const Profile& profile, const Style& style) {
  std::string out = style(Tone::strong, fmt::format("{} ({})", profile.name, profile.kind)) + "\n";
  if (!profile.aliases.empty())
    out += paragraph("also: ", fmt::format("{}", fmt::join(profile.aliases, ", ")), style.width);
  std::size_t key_width = 0;
  for (const Fact& fact : profile.facts) key_width = std::max(key_width, display_width(fact.key));
  for (const Fact& fact : profile.facts) {
    out += paragraph(fmt::format("\n  {:<{}}  ", fact.key, key_width).substr(1), fact.value, style.width);
    if (const std::string source = source_of(profile, fact.key); !source.empty())
      out += style(Tone::faint, paragraph("      ", source, style.width));
  }
  return out;
}

/// The one profile of a file.
Profile profile_in(const std::string& path) {
  const Json json = parse_json(read_file(path), path);
  const HardwareProfiles read = read_profiles(JsonReader(json, path));
  if (!read.gpus.empty()) return profile_of(read.gpus.front());
  return read.nodes.empty() ? profile_of(read.networks.front()) : profile_of(read.nodes.front());
}

/// Returns the GPU, node, network or cloud shape of this name. The error for an unknown name lists the GPUs.
Profile find_profile(const HardwareProfiles& profiles, const std::string& name) {
  if (name.ends_with(".json")) return profile_in(name);
  HardwareProfiles found = profiles;
  const std::string wanted = folded(name);
  const auto is_named = [&wanted](const auto& each) {
    return folded(each.name) == wanted ||
           std::any_of(each.aliases.begin(), each.aliases.end(),
                       [&](const std::string& alias) { return folded(alias) == wanted; });
  };
  if (const auto at = std::find_if(found.nodes.begin(), found.nodes.end(), is_named); at != found.nodes.end())
    return profile_of(*at);
  if (const auto at = std::find_if(found.networks.begin(), found.networks.end(), is_named);
      at != found.networks.end())
    return profile_of(*at);
  if (const Instance* instance = instance_called(profiles, name)) return profile_of(*instance);
  return profile_of(find_gpu(profiles, name, "hardware show"));
}

std::vector<check::Document> measurements_of(const Options& options) {
  std::vector<check::Document> documents;
  for (const std::string& path : options.words) documents.push_back(check::recognised(read_file(path), path));
  if (documents.empty())
    throw InputError("hardware import", "no file", "needed: nccl-tests logs or zplan-bench results");
  return documents;
}

/// Returns the profile as JSON, after reading it back as a check.
std::string profile_text(const Gpu& gpu) {
  const std::string text = json_text(write_gpu(gpu));
  const Json json = parse_json(text, gpu.name);
  (void)read_profiles(JsonReader(json, gpu.name));
  return text;
}

}  // namespace

int hardware_command(const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
  const CatalogueAction action = catalogue_action(options);
  const bool json = options.format == OutputFormat::json;
  HardwareProfiles profiles = with_user_profiles(user_hardware_folder(environment));
  if (action.verb == "show") {
    const Profile profile = find_profile(profiles, action.text);
    out << (json ? profile_json(profile).dump(2) + "\n" : show_text(profile, style));
    return kFits;
  }
  if (action.verb == "instances") profiles.gpus.clear(), profiles.nodes.clear(), profiles.networks.clear();
  keep_matches(profiles.gpus, action.text), keep_matches(profiles.nodes, action.text),
      keep_matches(profiles.networks, action.text), keep_matches(profiles.instances, action.text);
  // Cloud shapes are a list of their own; a search finds them too.
  if (action.verb == "list" && !json) profiles.instances.clear();
  if (profiles.gpus.empty() && profiles.nodes.empty() && profiles.networks.empty() &&
      profiles.instances.empty())
    throw InputError("hardware search", in_quotes(action.text) + " is in no name",
                     "zplan hardware lists all names");
  out << (json ? list_json(profiles) : list_text(profiles, style));
  return kFits;
}

int hardware_import(const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
  const HardwareProfiles hardware = with_user_profiles(user_hardware_folder(environment));
  const check::ImportedProfile imported =
      check::import_profile(measurements_of(options), {.hardware = hardware,
                                                       .gpu = options.cluster.gpu,
                                                       .node = options.cluster.node,
                                                       .network = options.cluster.network,
                                                       .name = options.profile_name});
  const std::string text = profile_text(imported.gpu);
  for (const std::string& note : imported.notes) err << fmt::format("zplan: note: {}\n", printable(note));
  if (options.output.empty() || options.output == "-") {
    out << text;
    return kFits;
  }
  write_file(options.output, text, "--output");
  err << fmt::format("zplan: wrote {}: zplan --gpu {} …\n", printable(options.output),
                     printable(options.output));
  return kFits;
}

}  // namespace zplan
