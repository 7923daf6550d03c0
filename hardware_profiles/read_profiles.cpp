// Profile files → values, every figure checked and sourced. The schemas in hardware_profiles/schema say the
// same.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hardware_profiles/platform.h"
#include "hardware_profiles/profiles.h"
#include "models/base/names.h"

namespace zplan {

namespace {

constexpr double kLargestRate = 100'000;  ///< GB/s or TFLOP/s: far above any machine
constexpr double kLeastRate = 0.001;

BytesPerSecond gigabytes_per_second(const JsonReader& at) {
  return BytesPerSecond(at.number(kLeastRate, kLargestRate) * 1e9);
}

BytesPerSecond gigabytes_per_second_or_none(const JsonReader& file, std::string_view key) {
  const auto at = file.find(key);
  return at ? gigabytes_per_second(*at) : BytesPerSecond{};
}

std::optional<FlopsPerSecond> teraflops(const JsonReader& file, std::string_view key) {
  const auto at = file.find(key);
  if (!at) return std::nullopt;
  return FlopsPerSecond(at->number(kLeastRate, kLargestRate) * 1e12);
}

std::optional<std::int64_t> count(const JsonReader& file, std::string_view key, std::int64_t most) {
  const auto at = file.find(key);
  return at ? std::optional(at->integer(1, most)) : std::nullopt;
}

std::optional<double> gigabits_per_pin(const JsonReader& file) {
  const auto at = file.find("memory_gbit_per_s_per_pin");
  return at ? std::optional(at->number(kLeastRate, 1000)) : std::nullopt;
}

Bytes mebibytes(const JsonReader& at, std::int64_t low, std::int64_t high) {
  return kMiB * at.integer(low, high);
}

Bytes gibibytes(const JsonReader& at) {
  return Bytes(static_cast<std::int64_t>(at.number(1, 1048576) * static_cast<double>(kGiB.value)));
}

Seconds microseconds(const JsonReader& at) { return Seconds(at.number(0.01, 1e6) * 1e-6); }

/// A fraction above 0, at most 1.
double fraction(const JsonReader& at) {
  const double value = at.number(0, 1);
  if (!(value > 0)) at.fail_type("a number above 0, at most 1");
  return value;
}

std::string text_not_empty(const JsonReader& at) {
  std::string text = at.text();
  if (text.empty()) at.fail_type("a text that is not empty");
  return text;
}

std::string name_of(const JsonReader& file) {
  const JsonReader at = file.at("name");
  std::string name = text_not_empty(at);
  if (!is_profile_name(name))
    at.fail_type(
        "a name of letters, digits, dots, dashes, underscores and blanks, a letter or digit in front");
  return name;
}

std::vector<std::string> aliases_of(const JsonReader& file) {
  std::vector<std::string> aliases;
  if (const auto list = file.find("aliases"))
    for (const JsonReader& each : list->items()) aliases.push_back(text_not_empty(each));
  return aliases;
}

Fabric fabric_of(const JsonReader& at) {
  const std::string name = at.text();
  if (const auto fabric = from_name<Fabric>(name)) return *fabric;
  at.fail(in_quotes(name), accepted_words(name, all_names<Fabric>()));
}

Operation operation_of(const JsonReader& at) {
  const std::string name = at.text();
  if (const auto operation = from_name<Operation>(name)) return *operation;
  at.fail(in_quotes(name), accepted_words(name, all_names<Operation>()));
}

LinkSpeed link_speed_of(const JsonReader& at) {
  return {.all_reduce = gigabytes_per_second(at.at("all_reduce_bus_gb_per_s")),
          .all_gather = gigabytes_per_second(at.at("all_gather_bus_gb_per_s")),
          .latency = microseconds(at.at("latency_us"))};
}

MeasuredLink measured_link(const JsonReader& at) {
  at.only_keys(
      {"fabric", "gpus", "all_reduce_bus_gb_per_s", "all_gather_bus_gb_per_s", "latency_us", "source"});
  return {.fabric = fabric_of(at.at("fabric")),
          .gpus = at.at("gpus").integer(2, 1024),
          .speed = link_speed_of(at),
          .source = text_not_empty(at.at("source"))};
}

CollectivePoint point_of(const JsonReader& bytes, const JsonReader& seconds) {
  constexpr double kLongest = 3600;
  if (!(seconds.number(0, kLongest) > 0)) seconds.fail_type("a time above 0, at most 3600 seconds");
  return {.bytes = Bytes(bytes.integer(1, std::int64_t{1} << 50)),
          .seconds = Seconds(seconds.number(0, kLongest))};
}

/// One point, `bytes` and `seconds`, or several, `points` of two numbers each.
std::vector<CollectivePoint> points_of(const JsonReader& at) {
  if (!at.has("points")) return {point_of(at.at("bytes"), at.at("seconds"))};
  for (const char* key : {"bytes", "seconds"})
    if (at.has(key)) at.at(key).fail("a point beside \"points\"", "accepted: one of the two");
  std::vector<CollectivePoint> points;
  for (const JsonReader& pair : at.at("points").items()) {
    const std::vector<JsonReader> numbers = pair.items();
    if (numbers.size() != 2) pair.fail_type("[bytes, seconds]");
    points.push_back(point_of(numbers[0], numbers[1]));
  }
  if (points.empty()) at.at("points").fail_type("one point at least");
  return points;
}

std::optional<CurveFit> fit_of(const JsonReader& file) {
  const auto at = file.find("fit");
  if (!at) return std::nullopt;
  at->only_keys({"latency_us", "bus_gb_per_s", "median_residual", "worst_residual"});
  constexpr double kMost = 1e6;  // microseconds; far beyond use as a share, too
  return CurveFit{.latency = Seconds(at->at("latency_us").number(0, kMost) * 1e-6),
                  .bus_bandwidth = gigabytes_per_second(at->at("bus_gb_per_s")),
                  .median_residual = at->at("median_residual").number(0, kMost),
                  .worst_residual = at->at("worst_residual").number(0, kMost)};
}

CollectiveCurve curve_of(const JsonReader& at, Fabric fabric) {
  at.only_keys({"operation", "fabric", "gpus", "nodes", "network", "source", "record", "bytes", "seconds",
                "points", "fit"});
  const auto given = at.find("fabric");
  const std::int64_t gpus = at.at("gpus").integer(2, 1'000'000);
  const std::int64_t nodes = at.integer_or("nodes", 1, 1, 1'000'000);
  if (gpus % nodes != 0) at.at("nodes").fail_type("a divisor of gpus");
  return {.operation = operation_of(at.at("operation")),
          .fabric = given ? fabric_of(*given) : fabric,
          .gpus = gpus,
          .nodes = nodes,
          .network = at.text_or("network", ""),
          .source = at.text_or("source", ""),
          .record = at.text_or("record", ""),
          .points = points_of(at),
          .fit = fit_of(at)};
}

bool same_group(const CollectiveCurve& a, const CollectiveCurve& b) {
  return a.operation == b.operation && a.fabric == b.fabric && a.gpus == b.gpus && a.nodes == b.nodes &&
         a.network == b.network && a.source == b.source && a.record == b.record;
}

/// By ascending size; of one size that was measured twice the first.
void put_in_order(std::vector<CollectivePoint>& points) {
  const auto smaller = [](const CollectivePoint& a, const CollectivePoint& b) { return a.bytes < b.bytes; };
  const auto equal = [](const CollectivePoint& a, const CollectivePoint& b) { return a.bytes == b.bytes; };
  std::stable_sort(points.begin(), points.end(), smaller);
  points.erase(std::unique(points.begin(), points.end(), equal), points.end());
}

/// Joins entries of the same group and operation to one curve.
std::vector<CollectiveCurve> collectives_of(const JsonReader& file, Fabric fabric) {
  std::vector<CollectiveCurve> curves;
  const auto list = file.find("collectives");
  if (!list) return curves;
  for (const JsonReader& each : list->items()) {
    CollectiveCurve curve = curve_of(each, fabric);
    const auto known = std::find_if(curves.begin(), curves.end(),
                                    [&](const CollectiveCurve& one) { return same_group(one, curve); });
    if (known == curves.end())
      curves.push_back(std::move(curve));
    else
      known->points.insert(known->points.end(), curve.points.begin(), curve.points.end());
  }
  for (CollectiveCurve& curve : curves) put_in_order(curve.points);
  return curves;
}

/// A source for every figure of the file, and for nothing else.
Sources sources_of(const JsonReader& file, const std::set<std::string>& not_figures) {
  const JsonReader at = file.at("sources");
  Sources sources;
  for (const std::string& figure : at.keys()) {
    if (!file.has(figure) || not_figures.contains(figure))
      at.fail(fmt::format("{} is no figure of this profile", in_quotes(figure)),
              "one source per figure, by its key");
    sources[figure] = text_not_empty(at.at(figure));
  }
  for (const std::string& key : file.keys())
    if (!not_figures.contains(key) && !sources.contains(key))
      at.fail(fmt::format("has no {}", in_quotes(key)),
              "where each figure was read; \"assumed: …\" where it is not certain");
  return sources;
}

const std::set<std::string> kNotFigures{"schema", "name",     "aliases",     "sources",
                                        "links",  "measured", "collectives", "collectives_as"};

/// NVLink is given as rated and as reached, or not at all.
void check_nvlink(const JsonReader& file) {
  const std::string rated = "nvlink_gb_per_s_per_direction",
                    reached = "nvlink_effective_gb_per_s_per_direction";
  if (file.has(rated) != file.has(reached)) (void)file.at(file.has(rated) ? reached : rated);
}

/// Throws InputError if a reached rate is above the rated one.
void check_order(const JsonReader& file, std::string_view reached, std::string_view rated) {
  if (file.has(reached) && file.has(rated) &&
      file.at(reached).number(0, kLargestRate) > file.at(rated).number(0, kLargestRate))
    file.at(reached).fail("more than the rated speed", fmt::format("at most {}", rated));
}

void check_reserved(const JsonReader& file) {
  if (file.at("driver_reserved_mib").integer(0, 65536) >= file.at("memory_mib").integer(512, 4194304))
    file.at("driver_reserved_mib").fail("all of the memory", "less than memory_mib");
}

/// "9.0", or what another vendor's compiler calls it: "gfx942", "ascend910b", "gaudi2".
std::string compute_capability_of(const JsonReader& at) {
  std::string text = at.text();
  if (platform_of(text).platform != Platform::cuda && is_profile_name(text)) return text;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t dot = text.find('.');
  const bool fits = (dot == 1 || dot == 2) && text.size() == dot + 2 &&
                    std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(dot), digit) &&
                    digit(text.back());
  if (!fits) at.fail_type("a compute capability such as \"9.0\", or gfx…, ascend…, gaudi…");
  return text;
}

void check_gpu(const JsonReader& file) {
  file.only_keys({"schema",
                  "name",
                  "aliases",
                  "memory_mib",
                  "driver_reserved_mib",
                  "multiprocessors",
                  "boost_mhz",
                  "memory_bus_bits",
                  "memory_gbit_per_s_per_pin",
                  "memory_bandwidth_gb_per_s",
                  "board_power_w",
                  "bf16_dense_tflops",
                  "fp16_dense_tflops",
                  "tf32_dense_tflops",
                  "fp32_tflops",
                  "fp8_dense_tflops",
                  "compute_capability",
                  "nvlink_gb_per_s_per_direction",
                  "nvlink_effective_gb_per_s_per_direction",
                  "pcie_gb_per_s_per_direction",
                  "pcie_effective_gb_per_s_per_direction",
                  "peer_to_peer",
                  "unified_memory",
                  "matrix_efficiency",
                  "attention_efficiency",
                  "memory_efficiency",
                  "usual_node",
                  "usual_network",
                  "links",
                  "collectives",
                  "collectives_as",
                  "sources"});
  check_nvlink(file);
  check_order(file, "nvlink_effective_gb_per_s_per_direction", "nvlink_gb_per_s_per_direction");
  check_order(file, "pcie_effective_gb_per_s_per_direction", "pcie_gb_per_s_per_direction");
  check_reserved(file);
  (void)file.at("fp16_dense_tflops");
  (void)file.at("fp32_tflops");
}

std::vector<MeasuredLink> links_of(const JsonReader& file) {
  std::vector<MeasuredLink> links;
  if (const auto list = file.find("links"))
    for (const JsonReader& each : list->items()) links.push_back(measured_link(each));
  return links;
}

std::optional<double> board_power_of(const JsonReader& file) {
  const auto at = file.find("board_power_w");
  return at ? std::optional(at->number(1, kLargestRate)) : std::nullopt;
}

/// All three shares or none.
std::optional<Efficiency> efficiency_of(const JsonReader& file) {
  if (!file.has("matrix_efficiency") && !file.has("attention_efficiency") && !file.has("memory_efficiency"))
    return std::nullopt;
  return Efficiency{.products = fraction(file.at("matrix_efficiency")),
                    .attention = fraction(file.at("attention_efficiency")),
                    .memory = fraction(file.at("memory_efficiency"))};
}

Gpu read_gpu(const JsonReader& file) {
  check_gpu(file);
  return {.name = name_of(file),
          .aliases = aliases_of(file),
          .memory = mebibytes(file.at("memory_mib"), 512, 4194304),
          .driver_reserved = mebibytes(file.at("driver_reserved_mib"), 0, 65536),
          .multiprocessors = count(file, "multiprocessors", 10'000),
          .boost_mhz = count(file, "boost_mhz", 100'000),
          .memory_bus_bits = count(file, "memory_bus_bits", 1'000'000),
          .memory_gbit_per_pin = gigabits_per_pin(file),
          .memory_bandwidth = gigabytes_per_second(file.at("memory_bandwidth_gb_per_s")),
          .bf16 = teraflops(file, "bf16_dense_tflops"),
          .fp16 = teraflops(file, "fp16_dense_tflops"),
          .tf32 = teraflops(file, "tf32_dense_tflops"),
          .fp32 = teraflops(file, "fp32_tflops"),
          .fp8 = teraflops(file, "fp8_dense_tflops"),
          .compute_capability = compute_capability_of(file.at("compute_capability")),
          .nvlink = gigabytes_per_second_or_none(file, "nvlink_gb_per_s_per_direction"),
          .nvlink_effective = gigabytes_per_second_or_none(file, "nvlink_effective_gb_per_s_per_direction"),
          .pcie = gigabytes_per_second(file.at("pcie_gb_per_s_per_direction")),
          .pcie_effective = gigabytes_per_second(file.at("pcie_effective_gb_per_s_per_direction")),
          .peer_to_peer = file.at("peer_to_peer").boolean(),
          .unified_memory = file.boolean_or("unified_memory", false),
          .board_power = board_power_of(file),
          .efficiency = efficiency_of(file),
          .usual_node = text_not_empty(file.at("usual_node")),
          .usual_network = text_not_empty(file.at("usual_network")),
          .links = links_of(file),
          .collectives = collectives_of(file, Fabric::pcie_peer),
          .collectives_as = file.text_or("collectives_as", ""),
          .sources = sources_of(file, kNotFigures)};
}

std::optional<LinkSpeed> measured_of(const JsonReader& file) {
  const auto at = file.find("measured");
  if (!at) return std::nullopt;
  at->only_keys({"all_reduce_bus_gb_per_s", "all_gather_bus_gb_per_s", "latency_us"});
  return link_speed_of(*at);
}

Node read_node(const JsonReader& file) {
  file.only_keys({"schema", "name", "aliases", "fabric", "usual_gpus", "host_memory_gib", "host_cores",
                  "host_memory_gb_per_s", "link_fraction", "latency_us", "measured", "collectives",
                  "sources"});
  const Fabric fabric = fabric_of(file.at("fabric"));
  const Node usual;
  const auto bandwidth = file.find("host_memory_gb_per_s");
  return {.name = name_of(file),
          .aliases = aliases_of(file),
          .fabric = fabric,
          .usual_gpus = file.at("usual_gpus").integer(1, 1024),
          .host_memory = gibibytes(file.at("host_memory_gib")),
          .host_cores = file.integer_or("host_cores", usual.host_cores, 1, 1'000'000),
          .host_bandwidth = bandwidth ? gigabytes_per_second(*bandwidth) : usual.host_bandwidth,
          .link_fraction = fraction(file.at("link_fraction")),
          .latency = microseconds(file.at("latency_us")),
          .measured = measured_of(file),
          .collectives = collectives_of(file, fabric),
          .sources = sources_of(file, kNotFigures)};
}

Network read_network(const JsonReader& file) {
  file.only_keys({"schema", "name", "aliases", "nics_per_node", "nic_gb_per_s_per_direction",
                  "nic_effective_gb_per_s_per_direction", "latency_us", "collectives", "sources"});
  check_order(file, "nic_effective_gb_per_s_per_direction", "nic_gb_per_s_per_direction");
  const std::int64_t nics = file.at("nics_per_node").integer(1, 1024);
  const BytesPerSecond per_nic = gigabytes_per_second(file.at("nic_effective_gb_per_s_per_direction"));
  return {.name = name_of(file),
          .aliases = aliases_of(file),
          .nics = nics,
          .nic = gigabytes_per_second(file.at("nic_gb_per_s_per_direction")),
          .per_nic = per_nic,
          .per_node = per_nic * static_cast<double>(nics),
          .latency = microseconds(file.at("latency_us")),
          .collectives = collectives_of(file, Fabric::pcie_peer),
          .sources = sources_of(file, kNotFigures)};
}

/// Returns by figure of an instance why it is uncertain.
Sources assumed_of(const JsonReader& file) {
  Sources assumed;
  const auto at = file.find("assumed");
  if (!at) return assumed;
  for (const std::string& figure : at->keys()) {
    if (!file.has(figure))
      at->fail(fmt::format("{} is no figure of this instance", in_quotes(figure)),
               "accepted: keys beside it");
    assumed[figure] = text_not_empty(at->at(figure));
  }
  return assumed;
}

std::string date_of(const JsonReader& at) {
  std::string text = at.text();
  bool fits = text.size() == 10;
  for (std::size_t i = 0; fits && i < text.size(); ++i)
    fits = i == 4 || i == 7 ? text[i] == '-' : text[i] >= '0' && text[i] <= '9';
  if (!fits) at.fail_type("a date such as \"2026-11-23\"");
  return text;
}

std::string web_page(const JsonReader& at) {
  std::string text = at.text();
  if (!text.starts_with("https://")) at.fail_type("the address of a page, https://…");
  return text;
}

Instance read_instance(const JsonReader& at) {
  at.only_keys({"name", "provider", "aliases", "gpu", "gpus", "node", "network", "host_memory_gib", "vcpus",
                "local_disk_gb", "source", "date", "assumed"});
  return {.name = name_of(at),
          .provider = text_not_empty(at.at("provider")),
          .aliases = aliases_of(at),
          .gpu = text_not_empty(at.at("gpu")),
          .node = text_not_empty(at.at("node")),
          .network = text_not_empty(at.at("network")),
          .gpus = at.at("gpus").integer(1, 1024),
          .host_memory = gibibytes(at.at("host_memory_gib")),
          .vcpus = at.at("vcpus").integer(1, 100'000),
          .local_disk = Bytes(static_cast<std::int64_t>(at.at("local_disk_gb").number(0, 1e7) * 1e9)),
          .source = web_page(at.at("source")),
          .date = date_of(at.at("date")),
          .assumed = assumed_of(at)};
}

std::vector<Instance> read_instances(const JsonReader& file) {
  file.only_keys({"schema", "instances"});
  std::vector<Instance> all;
  for (const JsonReader& each : file.at("instances").items()) all.push_back(read_instance(each));
  return all;
}

}  // namespace

/// Fit to be typed, listed and compared: no control characters.
bool is_profile_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._- ").find(c) != std::string_view::npos;
  };
  if (name.empty() || name.size() > 100) return false;
  const bool begins = std::string_view("._- ").find(name.front()) == std::string_view::npos;
  return begins && std::all_of(name.begin(), name.end(), fits);
}

HardwareProfiles read_profiles(const JsonReader& file) {
  const JsonReader schema = file.at("schema");
  const std::string kind = schema.text();
  HardwareProfiles profiles;
  if (kind == "zplan.gpu/1")
    profiles.gpus.push_back(read_gpu(file));
  else if (kind == "zplan.node/1")
    profiles.nodes.push_back(read_node(file));
  else if (kind == "zplan.network/1")
    profiles.networks.push_back(read_network(file));
  else if (kind == "zplan.instances/1")
    profiles.instances = read_instances(file);
  else
    schema.fail(in_quotes(kind), accepted_words(kind, {"zplan.gpu/1", "zplan.node/1", "zplan.network/1",
                                                       "zplan.instances/1"}));
  return profiles;
}

}  // namespace zplan
