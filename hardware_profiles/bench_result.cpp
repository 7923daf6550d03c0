#include "hardware_profiles/bench_result.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hardware_profiles/link_speed.h"
#include "hardware_profiles/operation.h"

namespace zplan {

namespace {

// Far beyond any run, and small enough that every figure stays within 64 bits.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50, kMostRanks = 1'000'000,
                       kMostCalls = std::int64_t{1} << 32, kMostSize = std::int64_t{1} << 24;
constexpr double kMostSeconds = 1e6, kMostRate = 1e21;

template <class E>
E named(const JsonReader& at) {
  return parse_name<E>(at.place(), at.text());
}

/// A time, which took some.
double seconds_at(const JsonReader& at) {
  const double value = at.number(0, kMostSeconds);
  if (!(value > 0)) at.fail_type("a time above 0");
  return value;
}

/// Finds what contradicts itself, and keeps it with its place.
class Audit {
 public:
  /// `given` against what it follows from. `slack`: what rounding bytes to whole ones makes of it.
  void follows(const std::string& place, double given, double right, std::string_view from,
               double slack = 0) {
    constexpr double kPrinted = 1e-6;  // figures may be printed with seven digits
    if (std::abs(given - right) > kPrinted * std::abs(right) + slack)
      add("{}: {:g}, {} {:g}", place, given, from, right);
  }
  void holds(bool right, const std::string& place, const std::string& what) {
    if (!right) add("{}: {}", place, what);
  }
  [[nodiscard]] std::vector<std::string> flaws() const { return flaws_; }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    flaws_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  std::vector<std::string> flaws_;
};

double quantile(const std::vector<double>& sorted, double q) {
  const double at = static_cast<double>(sorted.size() - 1) * q;
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

TimeStatistics statistics_at(const JsonReader& at) {
  const auto one = [&](std::string_view key) { return Seconds(seconds_at(at.at(key))); };
  return {one("median"), one("p10"), one("p90"), one("lowest"), one("highest"), one("mean")};
}

struct StatisticName {
  const char* name;
  Seconds TimeStatistics::*figure;
};
constexpr std::array<StatisticName, 6> kStatistics{{{"median", &TimeStatistics::median},
                                                    {"p10", &TimeStatistics::p10},
                                                    {"p90", &TimeStatistics::p90},
                                                    {"lowest", &TimeStatistics::lowest},
                                                    {"highest", &TimeStatistics::highest},
                                                    {"mean", &TimeStatistics::mean}}};

void check_statistics(const TimeStatistics& given, const std::vector<double>& samples,
                      const std::string& place, Audit& audit) {
  const TimeStatistics right = statistics_of(samples);
  for (const StatisticName& each : kStatistics)
    audit.follows(place + "." + each.name, (given.*each.figure).value, (right.*each.figure).value,
                  "its samples give");
}

/// Checks that the quantiles are in order, for results without samples.
void check_order(const TimeStatistics& given, const std::string& place, Audit& audit) {
  const std::array<Seconds, 5> ordered{given.lowest, given.p10, given.median, given.p90, given.highest};
  audit.holds(std::is_sorted(ordered.begin(), ordered.end()), place,
              "lowest, p10, median, p90 and highest are not in this order");
}

std::vector<double> samples_at(const JsonReader& list) {
  std::vector<double> samples;
  for (const JsonReader& each : list.items()) samples.push_back(seconds_at(each));
  if (samples.empty()) list.fail_type("one time at least");
  return samples;
}

void check_collective(const JsonReader& at, const BenchCollective& each, Audit& audit) {
  const double median = each.seconds.median.value;
  const auto place = [&](const char* key) { return each.place + "." + key; };
  audit.follows(place("bytes"), static_cast<double>(each.bytes.value),
                static_cast<double>(each.elements * size_of(named<DataType>(at.at("dtype")))),
                "its elements are");
  check_statistics(each.seconds, each.samples, place("seconds"), audit);
  audit.follows(place("iterations"), static_cast<double>(at.at("iterations").integer(1, kMostCalls)),
                static_cast<double>(each.samples.size()), "its samples are");
  audit.follows(place("algorithm_bandwidth"), at.at("algorithm_bandwidth").number(0, kMostRate),
                static_cast<double>(each.bytes.value) / median, "bytes over seconds.median are");
  if (each.sent)
    audit.follows(place("sent_calls"), static_cast<double>(each.sent->calls),
                  static_cast<double>(each.samples.size()), "its samples are");
  const double wire = static_cast<double>(ring_wire_bytes(each.operation, each.bytes, each.ranks).value);
  audit.follows(place("bus_bandwidth"), at.at("bus_bandwidth").number(0, kMostRate), wire / median,
                "a ring's bytes over seconds.median are", 2 / median);
  const double mean = seconds_at(at.at("mean_over_ranks"));
  audit.holds(mean <= median * (1 + 1e-6), place("mean_over_ranks"),
              fmt::format("{:g}, more than the slowest rank's {:g}", mean, median));
  const std::int64_t wrong = at.at("wrong_elements").integer(0, kMostBytes);
  audit.holds(wrong == 0, place("wrong_elements"),
              fmt::format("{} of {} elements came out wrong", wrong,
                          at.at("checked_elements").integer(0, kMostBytes)));
}

/// Names of ports have a colon, which those of interfaces cannot have.
std::optional<BenchSent> sent_at(const JsonReader& at) {
  const auto list = at.find("sent_bytes");
  if (!list) return std::nullopt;
  BenchSent sent{.calls = at.at("sent_calls").integer(1, kMostCalls)};
  for (const std::string& name : list->keys()) {
    Bytes& sum = name.find(':') == std::string::npos ? sent.interfaces : sent.ports;
    sum += Bytes(list->at(name).integer(0, kMostBytes));
  }
  return sent;
}

BenchCollective collective_at(const JsonReader& at, std::size_t index, Audit& audit) {
  const JsonReader group = at.at("group");
  BenchCollective each{.place = fmt::format("collectives[{}]", index),
                       .operation = named<Operation>(at.at("operation")),
                       .dtype = at.at("dtype").text(),
                       .in_place = at.at("in_place").boolean(),
                       .group = group.at("name").text(),
                       .ranks = group.at("size").integer(1, kMostRanks),
                       .stride = group.at("stride").integer(1, kMostRanks),
                       .at_once = group.at("at_once").integer(1, kMostRanks),
                       .nodes = at.at("nodes").integer(1, kMostRanks),
                       .bytes = Bytes(at.at("bytes").integer(1, kMostBytes)),
                       .elements = at.at("elements").integer(1, kMostBytes),
                       .seconds = statistics_at(at.at("seconds")),
                       .samples = samples_at(at.at("samples")),
                       .sent = sent_at(at)};
  if (each.nodes > each.ranks) at.at("nodes").fail_type("at most as many nodes as ranks");
  check_collective(at, each, audit);
  return each;
}

BenchCopy copy_at(const JsonReader& at, std::size_t index, Audit& audit) {
  const std::string place = fmt::format("copies[{}]", index);
  const std::string direction = at.at("direction").text(), memory = at.at("memory").text();
  if (direction != "host_to_device" && direction != "device_to_host")
    at.at("direction").fail_type("host_to_device or device_to_host");
  if (memory != "pinned" && memory != "pageable") at.at("memory").fail_type("pinned or pageable");
  const Bytes bytes(at.at("bytes").integer(1, kMostBytes));
  const TimeStatistics seconds = statistics_at(at.at("seconds"));
  const double speed = at.at("bytes_per_second").number(0, kMostRate);
  check_order(seconds, place + ".seconds", audit);
  audit.follows(place + ".bytes_per_second", speed, static_cast<double>(bytes.value) / seconds.median.value,
                "bytes over seconds.median are");
  return {direction == "host_to_device", memory == "pinned", bytes, BytesPerSecond(speed)};
}

/// A time, or statistics of it.
double time_at(const JsonReader& at) {
  return at.raw().is_object() ? seconds_at(at.at("median")) : seconds_at(at);
}

BenchStorage storage_at(const JsonReader& at, std::size_t index, Audit& audit) {
  const std::string direction = at.at("direction").text();
  if (direction != "read" && direction != "write") at.at("direction").fail_type("read or write");
  const double bytes = static_cast<double>(at.at("bytes").integer(1, kMostBytes));
  const double speed = at.at("bytes_per_second").number(0, kMostRate);
  audit.follows(fmt::format("storage[{}].bytes_per_second", index), speed, bytes / time_at(at.at("seconds")),
                "bytes over seconds are");
  return {at.at("path").text(), direction == "read", at.at("direct").boolean(), BytesPerSecond(speed)};
}

BenchCompute compute_at(const JsonReader& at, std::size_t index, Audit& audit) {
  const std::string kind = at.at("kind").text(), place = fmt::format("compute[{}]", index);
  const double seconds = time_at(at.at("seconds"));
  if (kind == "memory") {
    BenchCompute each{.rate = at.at("bytes_per_second").number(0, kMostRate)};
    audit.follows(place + ".bytes_per_second", each.rate,
                  static_cast<double>(at.at("bytes").integer(1, kMostBytes)) / seconds,
                  "bytes over seconds are");
    return each;
  }
  if (kind != "matrix_product") at.at("kind").fail_type("matrix_product or memory");
  BenchCompute each{.product = true,
                    .dtype = at.at("dtype").text(),
                    .m = at.at("m").integer(1, kMostSize),
                    .n = at.at("n").integer(1, kMostSize),
                    .k = at.at("k").integer(1, kMostSize),
                    .rate = at.at("flops_per_second").number(0, kMostRate)};
  const double flops =
      2.0 * static_cast<double>(each.m) * static_cast<double>(each.n) * static_cast<double>(each.k);
  audit.follows(place + ".flops_per_second", each.rate, flops / seconds, "2·m·n·k over seconds are");
  return each;
}

/// Operation, group, … of a call of the plan or a kind that was counted.
ReplayKind kind_at(const JsonReader& at) {
  return {.operation = at.at("operation").text(),
          .group = at.at("group").text(),
          .group_size = at.at("group_size").integer(1, kMostRanks),
          .stride = at.at("stride").integer(1, kMostRanks),
          .phase = at.at("phase").text(),
          .dtype = at.at("dtype").text(),
          .purpose = at.at("purpose").text()};
}

ReplayKind planned_at(const JsonReader& at, const std::string& place, Audit& audit) {
  ReplayKind kind = kind_at(at);
  const std::int64_t elements = at.at("elements").integer(0, kMostBytes);
  const std::int64_t bytes = at.at("bytes").integer(0, kMostBytes);
  audit.follows(place + ".bytes", static_cast<double>(bytes),
                static_cast<double>(elements) * static_cast<double>(at.at("element_bytes").integer(1, 64)),
                "its elements are");
  kind.count = at.at("times").integer(1, kMostCalls);
  // Sums of a step stay within 64 bits: no figure of a plan comes near.
  if (elements > 0 && kind.count > kMostBytes / elements)
    at.at("times").fail_type("fewer calls of that size");
  if (bytes > 0 && kind.count > kMostBytes / bytes) at.at("times").fail_type("fewer calls of that size");
  kind.elements = elements * kind.count, kind.bytes = bytes * kind.count;
  kind.seconds = at.at("seconds").number(0, kMostSeconds) * static_cast<double>(kind.count);
  return kind;
}

void add(std::vector<ReplayKind>& kinds, const ReplayKind& more, const JsonReader& at) {
  const auto same =
      std::find_if(kinds.begin(), kinds.end(), [&](const ReplayKind& each) { return each.same_kind(more); });
  if (same == kinds.end()) return kinds.push_back(more);
  if (same->bytes > kMostBytes || same->elements > kMostBytes || same->count > kMostCalls)
    at.fail("more than any step moves", "accepted: the schedule of one step");
  same->count += more.count, same->elements += more.elements, same->bytes += more.bytes;
  if (same->seconds && more.seconds) same->seconds = *same->seconds + *more.seconds;
}

std::vector<ReplayKind> planned_kinds(const JsonReader& plan, Audit& audit) {
  std::vector<ReplayKind> kinds;
  double seconds = 0;
  std::size_t index = 0;
  for (const JsonReader& each : plan.at("calls").items()) {
    const ReplayKind kind = planned_at(each, fmt::format("replay.plan.calls[{}]", index++), audit);
    seconds += *kind.seconds;
    add(kinds, kind, each);
  }
  audit.follows("replay.plan.communication_seconds", plan.at("communication_seconds").number(0, kMostSeconds),
                seconds, "its calls take", 1e-9);
  return kinds;
}

std::vector<ReplayKind> counted_kinds(const JsonReader& list) {
  std::vector<ReplayKind> kinds;
  for (const JsonReader& each : list.items()) {
    ReplayKind kind = kind_at(each);
    kind.count = each.at("count").integer(0, kMostCalls);
    kind.elements = each.at("elements").integer(0, kMostBytes);
    kind.bytes = each.at("bytes").integer(0, kMostBytes);
    if (const auto seconds = each.find("seconds")) kind.seconds = seconds_at(*seconds);
    add(kinds, kind, each);
  }
  return kinds;
}

/// A step with compute between the calls has the plan's own time, if nothing else is in it.
std::optional<double> predicted_seconds(const JsonReader& plan, bool compute_stand_in) {
  if (!compute_stand_in) return plan.at("communication_seconds").number(0, kMostSeconds);
  const auto offload = plan.find("offload_seconds");
  if (offload && offload->number(0, kMostSeconds) > 0) return std::nullopt;
  return plan.at("step_seconds").number(0, kMostSeconds);
}

void check_memory(const JsonReader& replay, Audit& audit) {
  const auto memory = replay.find("device_memory");
  if (!memory) return;
  const std::int64_t planned = memory->at("planned_bytes").integer(0, kMostBytes);
  audit.holds(memory->at("holds").boolean(), "replay.device_memory.holds",
              fmt::format("{} bytes were planned, and the device did not hold them", planned));
  audit.follows("replay.device_memory.planned_bytes", static_cast<double>(planned),
                static_cast<double>(replay.at("plan").at("device_memory_bytes").integer(0, kMostBytes)),
                "the plan says");
}

std::optional<BenchReplay> replay_of(const JsonReader& file, Audit& audit) {
  const auto at = file.find("replay");
  if (!at) return std::nullopt;
  BenchReplay replay;
  replay.compute_stand_in = at->at("compute_stand_in").boolean();
  replay.planned = planned_kinds(at->at("plan"), audit);
  replay.counted = counted_kinds(at->at("calls"));
  replay.predicted_seconds = predicted_seconds(at->at("plan"), replay.compute_stand_in);
  replay.seconds = statistics_at(at->at("seconds"));
  check_statistics(replay.seconds, samples_at(at->at("steps")), "replay.seconds", audit);
  audit.holds(at->at("every_rank_alike").boolean(), "replay.every_rank_alike",
              "ranks did not issue the same calls");
  check_memory(*at, audit);
  return replay;
}

BenchHost host_at(const JsonReader& at) {
  BenchHost host{.name = at.at("name").text(), .gpus = {}, .links = {}};
  if (const auto gpus = at.find("gpus"))
    for (const JsonReader& each : gpus->items()) host.gpus.push_back(each.at("name").text());
  if (const auto links = at.find("links"))
    for (const JsonReader& each : links->items()) host.links.push_back(named<LinkKind>(each.at("kind")));
  return host;
}

/// The entries of an optional list.
template <class Value>
std::vector<Value> list_of(const JsonReader& file, std::string_view key,
                           Value (*read)(const JsonReader&, std::size_t, Audit&), Audit& audit) {
  std::vector<Value> all;
  const auto list = file.find(key);
  if (!list) return all;
  for (const JsonReader& each : list->items()) all.push_back(read(each, all.size(), audit));
  return all;
}

}  // namespace

TimeStatistics statistics_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  double sum = 0;
  for (const double each : samples) sum += each;
  return {.median = Seconds(quantile(samples, 0.5)),
          .p10 = Seconds(quantile(samples, 0.1)),
          .p90 = Seconds(quantile(samples, 0.9)),
          .lowest = Seconds(samples.front()),
          .highest = Seconds(samples.back()),
          .mean = Seconds(sum / static_cast<double>(samples.size()))};
}

bool ReplayKind::same_kind(const ReplayKind& other) const {
  return operation == other.operation && group == other.group && group_size == other.group_size &&
         stride == other.stride && phase == other.phase && dtype == other.dtype && purpose == other.purpose;
}

BenchResult read_bench_result(const JsonReader& file) {
  if (file.at("schema").text() != "zplan.bench/1") file.at("schema").fail_type("zplan.bench/1");
  Audit audit;
  BenchResult result{.zplan_version = file.at("zplan_version").text(),
                     .started = file.at("started").text(),
                     .library = file.at("library").text(),
                     .driver = file.text_or("driver", ""),
                     .cuda = file.text_or("cuda", ""),
                     .command = {},
                     .backend = named<BenchBackend>(file.at("backend")),
                     .complete = file.at("complete").boolean(),
                     .stopped = file.text_or("stopped", ""),
                     .ranks = file.at("ranks").integer(1, kMostRanks),
                     .nodes = file.at("nodes").integer(1, kMostRanks),
                     .share_gpu = file.boolean_or("share_gpu", false),
                     .hosts = {},
                     .collectives = list_of(file, "collectives", collective_at, audit),
                     .copies = list_of(file, "copies", copy_at, audit),
                     .storage = list_of(file, "storage", storage_at, audit),
                     .compute = list_of(file, "compute", compute_at, audit),
                     .replay = replay_of(file, audit),
                     .flaws = {}};
  for (const JsonReader& word : file.at("command").items()) result.command.push_back(word.text());
  for (const JsonReader& host : file.at("hosts").items()) result.hosts.push_back(host_at(host));
  result.flaws = audit.flaws();
  return result;
}

std::string card_of(const BenchResult& result, const std::string& place) {
  std::string card;
  for (const BenchHost& host : result.hosts)
    for (const std::string& gpu : host.gpus) {
      if (!card.empty() && gpu != card)
        throw InputError(place, fmt::format("{} and {}", in_quotes(card), in_quotes(gpu)),
                         "accepted: a result of one kind of GPU");
      card = gpu;
    }
  return card;
}

namespace {

/// α in seconds, β in seconds per byte.
struct Line {
  double alpha{}, beta{};
};

/// One coefficient alone: the least squares of x·c = 1.
double alone(const Eigen::VectorXd& x) { return x.sum() / x.squaredNorm(); }

/// Fits both coefficients. Rows are divided by their time: the residual is a share of it. Two columns are
/// orthogonalised by Gram and Schmidt, because Eigen's decompositions take long to compile.
Line fit_line(const Eigen::VectorXd& bytes, const Eigen::VectorXd& seconds) {
  const double largest = bytes.maxCoeff(), longest = seconds.maxCoeff();  // columns of one magnitude
  const Eigen::VectorXd fixed = seconds.cwiseInverse() * longest;
  const Eigen::VectorXd rate = (bytes / largest).cwiseQuotient(seconds) * longest;
  const Eigen::VectorXd rate_alone = rate - fixed * (fixed.dot(rate) / fixed.squaredNorm());
  Line best;
  best.beta = alone(rate_alone);
  best.alpha = alone(fixed) - best.beta * fixed.dot(rate) / fixed.squaredNorm();
  if (best.alpha < 0) best = {0, alone(rate)};
  if (best.beta < 0) best = {alone(fixed), 0};
  return {best.alpha * longest, best.beta * longest / largest};
}

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Wire bytes per byte, of a message too long for rounding to count.
double wire_share(const CollectiveCurve& curve) {
  constexpr Bytes kLong = kGiB * 1024;
  return ratio(ring_wire_bytes(curve.operation, kLong, curve.gpus), kLong);
}

}  // namespace

std::optional<CurveFit> fit_curve(const CollectiveCurve& curve) {
  const auto size = static_cast<Eigen::Index>(curve.points.size());
  if (size < 2 || curve.points.front().bytes == curve.points.back().bytes) return std::nullopt;
  Eigen::VectorXd bytes(size), seconds(size);
  for (Eigen::Index i = 0; i < size; ++i) {
    const CollectivePoint& point = curve.points[static_cast<std::size_t>(i)];
    bytes[i] = static_cast<double>(point.bytes.value), seconds[i] = point.seconds.value;
  }
  const Line line = fit_line(bytes, seconds);
  if (!(line.beta > 0)) return std::nullopt;
  std::vector<double> residuals;
  for (Eigen::Index i = 0; i < size; ++i)
    residuals.push_back(std::abs((line.alpha + line.beta * bytes[i]) / seconds[i] - 1));
  return CurveFit{.latency = Seconds(line.alpha),
                  .bus_bandwidth = BytesPerSecond(wire_share(curve) / line.beta),
                  .median_residual = middle_of(residuals),
                  .worst_residual = *std::max_element(residuals.begin(), residuals.end())};
}

}  // namespace zplan
