#include "hardware_profiles/collective_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace zplan {

namespace {

Bytes part(Bytes size, double of) {
  return Bytes(static_cast<std::int64_t>(std::llround(static_cast<double>(size.value) * of)));
}

/// Numbers of a group as the formulas have them.
struct Numbers {
  explicit Numbers(const GroupPlace& place)
      : n(static_cast<double>(place.ranks)),
        nodes(static_cast<double>(place.nodes)),
        g(static_cast<double>(place.ranks_per_node())) {}
  double n, nodes, g;
  [[nodiscard]] double between_trees() const { return 2 * (nodes - 1) / (nodes * g); }
};

/// Shares of S.
struct Shares {
  double inside, outside;
};

double ring_share(Operation operation, double n) {
  switch (operation) {
    case Operation::all_reduce: return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return (n - 1) / n;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send_recv: return 1;
  }
  return 1;
}

Shares ring_shares(Operation operation, const Numbers& of) {
  const double all = ring_share(operation, of.n), out = of.nodes > 1 ? all / of.g : 0;
  return {all - out, out};
}

Shares switch_shares(Operation operation, const Numbers& of) {
  switch (operation) {
    case Operation::all_gather: return {1 / of.g, 0};
    case Operation::reduce_scatter: return {1, 0};
    default: return {(of.g + 1) / of.g, 0};
  }
}

Shares shares(CollectiveAlgorithm algorithm, Operation operation, const Numbers& of) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return ring_shares(operation, of);
    case CollectiveAlgorithm::tree: return {2 * (of.n - 1) / of.n - of.between_trees(), of.between_trees()};
    case CollectiveAlgorithm::nvls: return switch_shares(operation, of);
    case CollectiveAlgorithm::nvls_tree: return {(of.g + 1) / of.g, of.between_trees()};
    case CollectiveAlgorithm::pairwise:
      if (operation == Operation::send_recv) return ring_shares(operation, of);
      return {(of.g - 1) / of.n, (of.n - of.g) / of.n};
  }
  return {};
}

/// A bridge's pair says nothing of rings that leave the pair, nor the other way round.
bool same_links(const CollectiveCurve& curve, const Cluster& cluster, const GroupPlace& place) {
  const std::int64_t theirs = curve.gpus / curve.nodes, ours = place.ranks_per_node();
  if ((theirs == 1) != (ours == 1)) return false;
  if (ours == 1) return true;  // nothing is sent inside
  if (curve.fabric != cluster.node.fabric) return false;
  return curve.fabric != Fabric::nvlink_bridge || (theirs <= 2) == (ours <= 2);
}

bool does(Operation measured, Operation asked) {
  const auto gathers = [](Operation o) {
    return o == Operation::all_gather || o == Operation::reduce_scatter;
  };
  return measured == asked || (gathers(measured) && gathers(asked));
}

bool other_network(const CollectiveCurve& curve, const Cluster& cluster) {
  return curve.nodes > 1 && !curve.network.empty() && cluster.network &&
         curve.network != cluster.network->name;
}

/// Built-in GPUs are measured on built-in networks; of others nothing is known to scale by.
const Network* network_of(const CollectiveCurve& curve) {
  for (const Network& network : built_in_networks())
    if (network.name == curve.network) return &network;
  return nullptr;
}

bool usable(const CollectiveCurve& curve, const Cluster& cluster, Operation operation,
            const GroupPlace& place, const PricingRules& rules) {
  if (!rules.without_record.empty() && curve.record == rules.without_record) return false;
  return does(curve.operation, operation) && (curve.nodes == 1) == (place.nodes == 1) &&
         same_links(curve, cluster, place) && !curve.points.empty() &&
         (!other_network(curve, cluster) || network_of(curve) != nullptr);
}

double apart(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

/// Another network counts as much as twice the nodes: on the same GPUs at the same line rate (H100, 8×400
/// and 32×100 Gb/s) a curve of the other network tells more than one of a quarter of the GPUs.
constexpr double kOtherNetwork = 1;

/// Smaller is nearer.
std::pair<bool, double> distance(const CollectiveCurve& curve, const Cluster& cluster, Operation operation,
                                 const GroupPlace& place) {
  return {curve.operation != operation, apart(curve.nodes, place.nodes) +
                                            apart(curve.gpus / curve.nodes, place.ranks_per_node()) +
                                            (other_network(curve, cluster) ? kOtherNetwork : 0)};
}

/// Nearest first. A machine's own curves come before its network's, and both before its GPU's.
std::vector<const CollectiveCurve*> nearest_curves(const Cluster& cluster, Operation operation,
                                                   const GroupPlace& place, const PricingRules& rules) {
  std::vector<const CollectiveCurve*> found;
  const auto look = [&](const std::vector<CollectiveCurve>& curves) {
    for (const CollectiveCurve& curve : curves)
      if (usable(curve, cluster, operation, place, rules)) found.push_back(&curve);
  };
  look(cluster.node.collectives);
  if (cluster.network) look(cluster.network->collectives);
  look(cluster.gpu.collectives);
  std::stable_sort(found.begin(), found.end(), [&](const CollectiveCurve* a, const CollectiveCurve* b) {
    return distance(*a, cluster, operation, place) < distance(*b, cluster, operation, place);
  });
  return found;
}

/// Returns the peak of an operation: all_reduce's or all_gather's, which all_to_all uses, too.
BytesPerSecond peak_of(const LinkSpeed& speed, Operation operation) {
  return operation == Operation::all_reduce ? speed.all_reduce : speed.all_gather;
}

Seconds at_peak(Bytes size, Operation operation, std::int64_t gpus, BytesPerSecond bus) {
  return Seconds(ring_share(operation, static_cast<double>(gpus)) * static_cast<double>(size.value) /
                 bus.value);
}

/// Peak and latency that a node's profile measured, as a curve: both added.
CollectiveCurve curve_of_node(const Node& node, Operation operation, std::int64_t gpus) {
  CollectiveCurve curve{.operation = operation,
                        .fabric = node.fabric,
                        .gpus = gpus,
                        .source = "peak and latency of node profile " + node.name};
  for (Bytes size(64); size <= kGiB * 64; size = size * 2)
    curve.points.push_back(
        {size, node.measured->latency + at_peak(size, operation, gpus, peak_of(*node.measured, operation))});
  return curve;
}

/// A published peak as a curve of one long message.
CollectiveCurve curve_of_peak(const MeasuredLink& link, Operation operation) {
  constexpr Bytes kLong = kGiB * 4;
  return {.operation = operation,
          .fabric = link.fabric,
          .gpus = link.gpus,
          .source = link.source,
          .points = {{kLong, at_peak(kLong, operation, link.gpus, peak_of(link.speed, operation))}}};
}

/// Returns a profile's peak of groups inside a node as a curve: the node's own, else the GPU's nearest in
/// number of GPUs, if the GPU has no curve of this operation (one that the rules leave out counts).
std::optional<CollectiveCurve> peak_curve(const Cluster& cluster, Operation operation,
                                          const GroupPlace& place) {
  if (place.nodes > 1) return std::nullopt;
  if (cluster.node.measured) return curve_of_node(cluster.node, operation, place.ranks);
  if (!nearest_curves(cluster, operation, place, {}).empty()) return std::nullopt;
  std::optional<CollectiveCurve> best;
  for (const MeasuredLink& link : cluster.gpu.links) {
    CollectiveCurve curve = curve_of_peak(link, operation);
    if (!usable(curve, cluster, operation, place, {})) continue;
    if (!best || distance(curve, cluster, operation, place) < distance(*best, cluster, operation, place))
      best = std::move(curve);
  }
  return best;
}

std::string group_in_words(std::int64_t gpus, std::int64_t nodes) {
  return nodes == 1 ? fmt::format("{} GPUs", gpus) : fmt::format("{} GPUs on {} nodes", gpus, nodes);
}

std::string curve_in_words(const CollectiveCurve& curve, bool scaled) {
  const std::string from = curve.source.empty() ? "this machine's profile" : curve.source;
  if (!scaled) return is_assumed(from) ? from : "measured: " + from;
  return fmt::format("scaled: {} of {}{}{}, by NCCL's model ({})", to_name(curve.operation),
                     group_in_words(curve.gpus, curve.nodes), curve.network.empty() ? "" : " over ",
                     curve.network, from);
}

std::string model_in_words(const Cluster& cluster, const GroupPlace& place) {
  return fmt::format("NCCL's model: nothing measured of {} {} ({}{}{})", place.ranks, cluster.gpu.name,
                     to_name(cluster.node.fabric), place.nodes > 1 ? ", " : "",
                     place.nodes > 1 && cluster.network ? cluster.network->name : "");
}

/// Returns NCCL's model of the group that a curve was measured on.
NcclModel model_of(const CollectiveCurve& curve, const Cluster& cluster) {
  const GroupPlace place{.ranks = curve.gpus, .nodes = curve.nodes, .side_by_side = 1};
  const Network* theirs = other_network(curve, cluster) ? network_of(curve) : nullptr;
  return nccl_model(cluster, curve.operation, place, theirs);
}

double number(Bytes size) { return static_cast<double>(std::max<std::int64_t>(1, size.value)); }

}  // namespace

std::string name_of_way(const CollectiveCost& cost) {
  return fmt::format("{} {}", to_name(cost.algorithm), to_name(cost.protocol));
}

WireBytes wire_bytes(CollectiveAlgorithm algorithm, Operation operation, const GroupPlace& place,
                     Bytes bytes) {
  if (place.ranks < 2) return {};
  const Shares of = shares(algorithm, operation, Numbers(place));
  return {part(bytes, of.inside), part(bytes, of.outside)};
}

CollectivePricer::CollectivePricer(const Cluster& cluster, Operation operation, const GroupPlace& place,
                                   const PricingRules& rules)
    : operation_(operation), place_(place), model_(nccl_model(cluster, operation, place)) {
  if (place.ranks < 2) return;
  factor_ = place.nodes > 1 ? cluster.link_factors.between : cluster.link_factors.inside;
  if (place.nodes > 1 && place.ranks_per_node() > 1) inside_ = peak_of(cluster.inside, operation);
  source_ = model_in_words(cluster, place);
  if (!rules.curves) return;
  const std::vector<const CollectiveCurve*> curves = nearest_curves(cluster, operation, place, rules);
  const std::optional<CollectiveCurve> peak = peak_curve(cluster, operation, place);
  if (curves.empty() && !peak) return;
  source_.clear();
  // A machine's own peak comes before curves of other machines.
  if (peak && cluster.node.collectives.empty()) take(*peak, cluster);
  for (const CollectiveCurve* curve : curves) take(*curve, cluster);
  below_ = std::exp(curve_.front().log_time) / model_.time(smallest_).value;
}

/// True if a curve is of another group, network or operation than the priced one.
bool CollectivePricer::is_other(const CollectiveCurve& curve, const Cluster& cluster) const {
  const bool same_group = curve.gpus == place_.ranks && curve.nodes == place_.nodes &&
                          (place_.nodes == 1 || place_.side_by_side == 1);
  return !same_group || curve.operation != operation_ || other_network(curve, cluster);
}

void CollectivePricer::take(const CollectiveCurve& curve, const Cluster& cluster) {
  const bool scaled = is_other(curve, cluster);
  const NcclModel theirs = scaled ? model_of(curve, cluster) : NcclModel{};
  std::vector<Point> smaller, larger;
  double last = std::log(0.0);
  for (const CollectivePoint& point : curve.points) {
    const double carried = scaled ? ratio(model_.time(point.bytes), theirs.time(point.bytes)) : 1;
    Point at{std::log(number(point.bytes)), std::log(point.seconds.value * carried)};
    // Jumps that were measured where protocols change are kept; where they are carried to, none is known.
    if (scaled) at.log_time = last = std::max(last, at.log_time);
    if (curve_.empty() || at.log_size > curve_.back().log_size)
      larger.push_back(at);
    else if (at.log_size < curve_.front().log_size)
      smaller.push_back(at);
  }
  if (smaller.empty() && larger.empty()) return;
  if (curve_.empty() || !smaller.empty()) smallest_ = curve.points.front().bytes;
  join(std::move(smaller), std::move(larger));
  source_ += (source_.empty() ? "" : "; beyond its sizes ") + curve_in_words(curve, scaled);
}

/// Joins smaller and larger sizes to the points. Times never fall with the size.
void CollectivePricer::join(std::vector<Point> smaller, std::vector<Point> larger) {
  if (!curve_.empty()) {
    for (Point& point : smaller) point.log_time = std::min(point.log_time, curve_.front().log_time);
    for (Point& point : larger) point.log_time = std::max(point.log_time, curve_.back().log_time);
  }
  curve_.insert(curve_.begin(), smaller.begin(), smaller.end());
  curve_.insert(curve_.end(), larger.begin(), larger.end());
}

Seconds CollectivePricer::on_curve(Bytes size) const {
  const double at = std::log(number(size));
  const Point &first = curve_.front(), &last = curve_.back();
  if (at < first.log_size) return model_.time(size) * below_;
  if (at >= last.log_size) return Seconds(std::exp(last.log_time + (at - last.log_size)));
  const auto above = std::upper_bound(curve_.begin(), curve_.end(), at);
  const Point &low = *(above - 1), &high = *above;
  const double share = (at - low.log_size) / (high.log_size - low.log_size);
  return Seconds(std::exp(low.log_time + share * (high.log_time - low.log_time)));
}

Seconds CollectivePricer::on_links_as_they_are(Bytes size) const {
  return measured() ? on_curve(size) : model_.time(size);
}

Seconds CollectivePricer::time(Bytes size) const {
  if (model_.ways.empty()) return {};
  const Seconds now = on_links_as_they_are(size);
  if (factor_ == 1) return now;
  const Seconds latency = std::min(now, on_links_as_they_are(Bytes(1)));
  const Seconds then = latency + (now - latency) * (1 / factor_);
  if (factor_ < 1 || inside_ == BytesPerSecond{}) return then;
  return std::max(then, std::min(now, at_peak(size, operation_, place_.ranks, inside_)));
}

CollectiveCost CollectivePricer::cost(Bytes size) const {
  if (model_.ways.empty()) return {};
  const NcclChoice choice = model_.choose(size);
  const WireBytes wire = wire_bytes(choice.way->algorithm, operation_, place_, size);
  return {.time = time(size),
          .inside = wire.inside,
          .outside = wire.outside,
          .algorithm = choice.way->algorithm,
          .protocol = choice.way->protocol,
          .measured = measured()};
}

CollectiveCost collective_cost(const Cluster& cluster, Operation operation, const GroupPlace& place,
                               Bytes bytes) {
  return CollectivePricer(cluster, operation, place).cost(bytes);
}

}  // namespace zplan
