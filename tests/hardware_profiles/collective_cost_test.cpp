// One collective call: properties of the curves and of NCCL's model. What both are worth against published
// logs is tests/check/collectives_test.cpp's.

#include "hardware_profiles/collective_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zplan {
namespace {

using Algorithm = CollectiveAlgorithm;

Cluster cluster(const std::string& gpu, std::int64_t gpus, std::int64_t nodes, const std::string& node = "",
                const std::string& network = "") {
  return assemble_cluster({.gpu = gpu, .gpus = gpus, .nodes = nodes, .node = node, .network = network},
                          built_in_profiles());
}

/// The machines that a curve of `gpu` was measured on.
Cluster machines_of(const Gpu& gpu, const CollectiveCurve& curve) {
  const std::string node = curve.gpus == curve.nodes ? "" : std::string(to_name(curve.fabric));
  return cluster(gpu.name, curve.gpus, curve.nodes, node, curve.network);
}

std::vector<Bytes> sizes() {
  std::vector<Bytes> all{Bytes(1)};
  for (double size = 8; size < 2e10; size *= 1.3) all.emplace_back(static_cast<std::int64_t>(size));
  return all;
}

/// The first of the curves that are of one group.
bool is_first(const Gpu& gpu, const CollectiveCurve& curve) {
  for (const CollectiveCurve& each : gpu.collectives) {
    if (&each == &curve) return true;
    if (each.operation == curve.operation && each.gpus == curve.gpus && each.nodes == curve.nodes &&
        each.fabric == curve.fabric && each.network == curve.network)
      return false;
  }
  return true;
}

TEST(MeasuredCurves, AreExactAtTheirPoints) {
  std::size_t points = 0;
  for (const Gpu& gpu : built_in_profiles().gpus)
    for (const CollectiveCurve& curve : gpu.collectives) {
      if (!is_first(gpu, curve)) continue;
      const Cluster machines = machines_of(gpu, curve);
      const CollectivePricer pricer(machines, curve.operation, place_of_all(machines));
      EXPECT_EQ(pricer.source().rfind("measured: " + curve.source, 0), 0U) << pricer.source();
      for (const CollectivePoint& point : curve.points) {
        EXPECT_NEAR(pricer.time(point.bytes).value / point.seconds.value, 1, 1e-9) << curve.source;
        ++points;
      }
    }
  EXPECT_GT(points, 250U);
}

TEST(MeasuredCurves, LieBetweenTheirPoints) {
  const Cluster machines = cluster("b200", 8, 1);
  const CollectivePricer pricer(machines, Operation::all_gather, place_of_all(machines));
  const CollectiveCurve& curve = machines.gpu.collectives.front();
  ASSERT_EQ(curve.operation, Operation::all_gather);
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    const CollectivePoint &low = curve.points[i - 1], &high = curve.points[i];
    const double middle =
        std::sqrt(static_cast<double>(low.bytes.value) * static_cast<double>(high.bytes.value));
    const double expected = std::sqrt(low.seconds.value * high.seconds.value);
    EXPECT_NEAR(pricer.time(Bytes(static_cast<std::int64_t>(middle))).value, expected, expected * 1e-3);
  }
}

TEST(MeasuredCurves, GoOnAtTheirEnds) {
  const Cluster machines = cluster("b200", 8, 1);
  const CollectivePricer pricer(machines, Operation::all_gather, place_of_all(machines));
  const Seconds smallest = pricer.time(Bytes(128));
  EXPECT_NEAR(pricer.time(Bytes(1)).value, smallest.value, smallest.value * 0.01);  // latency alone
  const Bytes largest = kGiB * 16;
  EXPECT_NEAR(ratio(pricer.time(largest * 4), pricer.time(largest)), 4, 1e-6);  // the same bandwidth
}

/// A curve that begins with 1 GiB does not say that 1 KiB takes as long.
TEST(MeasuredCurves, SmallMessagesOfAShortCurveAreTheModels) {
  const Cluster machines = cluster("a40", 2, 1, "nvlink-bridge");
  const CollectivePricer pricer(machines, Operation::all_reduce, place_of_all(machines));
  EXPECT_TRUE(pricer.measured());
  EXPECT_LT(pricer.time(kKiB).value, 30e-6);
}

TEST(MeasuredCurves, CarryOverToOtherNumbersOfGpusOfASwitch) {
  const Cluster eight = cluster("b200", 8, 1), four = cluster("b200", 4, 1);
  const CollectivePricer all(eight, Operation::all_gather, place_of_all(eight)),
      half(four, Operation::all_gather, place_of_all(four));
  EXPECT_EQ(half.source().rfind("scaled: ", 0), 0U) << half.source();
  const Bytes large = kGiB * 8, small(1024);
  const double bus_all = 7.0 / 8 / all.time(large).value, bus_half = 3.0 / 4 / half.time(large).value;
  EXPECT_NEAR(bus_half / bus_all, 1, 0.01);      // bus bandwidth stays
  EXPECT_LT(half.time(small), all.time(small));  // fewer steps
}

/// Beyond the measured sizes a longer message never takes less time.
TEST(MeasuredCurves, CarriedOverTakeLongerForMore) {
  for (const char* gpu : {"a100-80gb", "h100", "h200", "b200"})
    for (const Operation operation : {Operation::all_reduce, Operation::all_gather})
      for (const std::int64_t nodes : {1, 4, 64}) {
        const Cluster machines = cluster(gpu, nodes * 4, nodes);
        const CollectivePricer pricer(machines, operation, place_of_all(machines));
        Seconds last{};
        for (const Bytes size : sizes()) {
          const Seconds time = pricer.time(size);
          EXPECT_GE(time.value, last.value * (1 - 1e-9))
              << gpu << " " << to_name(operation) << " " << nodes << " nodes, " << size.value << " B";
          last = time;
        }
      }
}

TEST(MeasuredCurves, ALogCanBeLeftOut) {
  const Cluster machines = cluster("rtx-2080-ti", 2, 1);
  const PricingRules rules{.without_record = "n38"};
  EXPECT_TRUE(CollectivePricer(machines, Operation::all_reduce, place_of_all(machines)).measured());
  const CollectivePricer without(machines, Operation::all_reduce, place_of_all(machines), rules);
  EXPECT_FALSE(without.measured());
  EXPECT_EQ(without.source().rfind("NCCL's model: ", 0), 0U) << without.source();
}

TEST(MeasuredCurves, OfTheMachineItselfWin) {
  HardwareProfiles mine = built_in_profiles();
  Node rig = find_node(mine, "nvswitch");
  rig.name = "rig";
  rig.collectives = {{.operation = Operation::all_reduce,
                      .fabric = rig.fabric,
                      .gpus = 8,
                      .points = {{Bytes(1024), Seconds(1e-5)}, {kGiB, Seconds(1e-2)}}}};
  mine.nodes.push_back(rig);
  const Cluster machines = assemble_cluster({.gpu = "a100-80gb", .gpus = 8, .node = "rig"}, mine);
  const CollectivePricer pricer(machines, Operation::all_reduce, place_of_all(machines));
  EXPECT_NEAR(pricer.time(kGiB).value, 1e-2, 1e-9);
  EXPECT_EQ(pricer.source().rfind("measured: this machine's profile", 0), 0U) << pricer.source();
}

/// Who measured two figures of a machine gets them back.
TEST(MeasuredCurves, PeakAndLatencyOfTheMachineWinToo) {
  HardwareProfiles mine = built_in_profiles();
  Node rig = find_node(mine, "pcie");
  rig.name = "rig";
  rig.measured = LinkSpeed{BytesPerSecond(11e9), BytesPerSecond(10e9), Seconds(3e-5)};
  mine.nodes.push_back(rig);
  const Cluster machines = assemble_cluster({.gpu = "rtx-4090-24gb", .gpus = 4, .node = "rig"}, mine);
  const CollectivePricer pricer(machines, Operation::all_gather, place_of_all(machines));
  EXPECT_NEAR(pricer.time(Bytes(64)).value, 3e-5, 1e-7);
  EXPECT_NEAR(pricer.time(kGiB).value, 3e-5 + 0.75 * 1073741824.0 / 10e9, 1e-6);
}

/// A GPU whose peak was published, but no curve: the model, lifted or lowered to that peak.
TEST(MeasuredCurves, APublishedPeakIsACurveOfOnePoint) {
  const Cluster machines = cluster("h100", 8, 1);
  const CollectivePricer pricer(machines, Operation::all_gather, place_of_all(machines));
  const double bus = 7.0 / 8 * static_cast<double>((kGiB * 4).value) / pricer.time(kGiB * 4).value;
  EXPECT_NEAR(bus, machines.gpu.links.front().speed.all_gather.value, 1e6);
}

/// Rings that leave a bridged pair are others than those inside it.
TEST(MeasuredCurves, OfAPairDoNotSpeakForMore) {
  const Cluster six = cluster("a40", 6, 1, "nvlink-bridge");
  EXPECT_FALSE(CollectivePricer(six, Operation::all_reduce, place_of_all(six)).measured());
}

/// `links` and `collectives` of a profile are of the same logs.
TEST(MeasuredCurves, AgreeWithThePeaksOfTheProfile) {
  for (const Gpu& gpu : built_in_profiles().gpus)
    for (const CollectiveCurve& curve : gpu.collectives)
      for (const MeasuredLink& link : gpu.links) {
        if (curve.operation != Operation::all_reduce || curve.nodes != 1 || curve.fabric != link.fabric ||
            curve.gpus != link.gpus || !is_first(gpu, curve))
          continue;
        const auto n = static_cast<double>(curve.gpus);
        double peak = 0;
        for (const CollectivePoint& point : curve.points)
          peak =
              std::max(peak, static_cast<double>(point.bytes.value) / point.seconds.value * 2 * (n - 1) / n);
        EXPECT_NEAR(peak / link.speed.all_reduce.value, 1, 0.03) << gpu.name << " " << curve.source;
      }
}

/// A longer message never takes less, whatever NCCL would choose for it.
TEST(NcclModels, TakeLongerForMore) {
  for (const char* gpu : {"v100-sxm-32gb", "a100-80gb", "h100", "b200", "gb200-nvl72"})
    for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                      Operation::broadcast, Operation::all_to_all, Operation::send_recv})
      for (const std::int64_t nodes : {1, 2, 3, 16})
        for (const std::int64_t each : {1, 2, 8}) {
          if (nodes * each == 1) continue;
          const Cluster machines = cluster(gpu, nodes * each, nodes);
          const NcclModel model = nccl_model(machines, operation, place_of_all(machines));
          Seconds last{};
          for (const Bytes size : sizes()) {
            const Seconds time = model.time(size);
            EXPECT_GE(time, last) << gpu << " " << to_name(operation) << " " << nodes << "x" << each;
            last = time;
          }
          EXPECT_GT(last.value, 0);
          EXPECT_TRUE(std::isfinite(last.value));
        }
}

CollectiveAlgorithm chosen(const Cluster& machines, Operation operation, Bytes size) {
  return nccl_model(machines, operation, place_of_all(machines)).choose(size).way->algorithm;
}

/// Source of the expected choices, printed by NCCL_DEBUG=TUNING on such machines: NVIDIA/nccl-tests issues
/// 212, 366; NVIDIA/nccl issue 1281.
TEST(NcclModels, ChooseAsNcclDoes) {
  EXPECT_EQ(chosen(cluster("h100", 8, 1), Operation::all_reduce, kGiB), Algorithm::nvls);
  EXPECT_EQ(chosen(cluster("h100", 8, 1), Operation::all_gather, kGiB), Algorithm::ring);
  EXPECT_EQ(chosen(cluster("a100-80gb", 8, 1), Operation::all_reduce, kGiB), Algorithm::ring);
  EXPECT_EQ(chosen(cluster("h100", 16, 2), Operation::all_reduce, kGiB), Algorithm::nvls_tree);
  EXPECT_EQ(chosen(cluster("a100-80gb", 16, 2, "", "efa-4x100g"), Operation::all_reduce, kGiB),
            Algorithm::tree);
  EXPECT_EQ(chosen(cluster("h100", 16, 2), Operation::reduce_scatter, kGiB), Algorithm::ring);
  EXPECT_EQ(chosen(cluster("h100", 16, 2), Operation::all_to_all, kGiB), Algorithm::pairwise);
}

/// LL128 needs NVLink's stores.
TEST(NcclModels, HaveNoLl128OverPcie) {
  const Cluster machines = cluster("l40s", 4, 1);
  for (const NcclWay& way : nccl_model(machines, Operation::all_reduce, place_of_all(machines)).ways)
    EXPECT_NE(way.protocol, CollectiveProtocol::ll128);
}

/// Bus bandwidth of a GiB over the rates that the profile states: GB/s.
double bus(const Cluster& machines, Operation operation) {
  const CollectivePricer pricer(machines, operation, place_of_all(machines), {.curves = false});
  const auto n = static_cast<double>(machines.gpus);
  const double factor = operation == Operation::all_reduce ? 2 * (n - 1) / n : (n - 1) / n;
  return static_cast<double>(kGiB.value) * 8 * factor / pricer.time(kGiB * 8).value / 1e9;
}

/// NVLS speeds up all_reduce alone: ZeRO-3, which gathers, must not be credited with it; nor with what a tree
/// saves on two nodes.
TEST(NcclModels, GathersDoNotGetWhatSwitchesAndTreesGiveToAllReduce) {
  const Cluster node = cluster("h100", 8, 1), nodes = cluster("h100", 16, 2);
  EXPECT_GT(bus(node, Operation::all_reduce), 1.25 * bus(node, Operation::all_gather));
  EXPECT_GT(bus(nodes, Operation::all_reduce), 1.15 * bus(nodes, Operation::all_gather));
  EXPECT_NEAR(bus(nodes, Operation::all_gather), 376, 10);  // eight NICs of 47 GB/s
}

TEST(WireBytes, OfEachAlgorithm) {
  const GroupPlace eight{8, 1, 1}, two_nodes{16, 2, 1};
  const Bytes s(1 << 20);
  const auto share = [&](double of) {
    return Bytes(static_cast<std::int64_t>(std::llround(of * (1 << 20))));
  };
  const auto of = [&](Algorithm algorithm, Operation operation, const GroupPlace& place) {
    return wire_bytes(algorithm, operation, place, s);
  };
  EXPECT_EQ(of(Algorithm::ring, Operation::all_reduce, eight), (WireBytes{share(14.0 / 8), Bytes(0)}));
  EXPECT_EQ(of(Algorithm::ring, Operation::all_gather, eight), (WireBytes{share(7.0 / 8), Bytes(0)}));
  EXPECT_EQ(of(Algorithm::ring, Operation::broadcast, eight), (WireBytes{s, Bytes(0)}));
  // One edge in eight of a ring over two nodes of eight leaves the node.
  EXPECT_EQ(of(Algorithm::ring, Operation::all_gather, two_nodes),
            (WireBytes{share(15.0 / 16 * 7 / 8), share(15.0 / 16 / 8)}));
  // A tree of n ranks has n−1 edges, each with S up and S down; between two nodes one of them, so that a node
  // sends S, and a GPU of it S/8.
  EXPECT_EQ(of(Algorithm::tree, Operation::all_reduce, two_nodes),
            (WireBytes{share(30.0 / 16 - 1.0 / 8), share(1.0 / 8)}));
  // The switch reads every GPU's S, and each of eight heads sends an eighth.
  EXPECT_EQ(of(Algorithm::nvls, Operation::all_reduce, eight), (WireBytes{share(9.0 / 8), Bytes(0)}));
  EXPECT_EQ(of(Algorithm::nvls, Operation::all_gather, eight), (WireBytes{share(1.0 / 8), Bytes(0)}));
  EXPECT_EQ(of(Algorithm::nvls_tree, Operation::all_reduce, two_nodes),
            (WireBytes{share(9.0 / 8), share(1.0 / 8)}));
  EXPECT_EQ(of(Algorithm::pairwise, Operation::all_to_all, two_nodes),
            (WireBytes{share(7.0 / 16), share(8.0 / 16)}));
  EXPECT_EQ(of(Algorithm::ring, Operation::all_reduce, {1, 1, 1}), WireBytes{});
  // One GPU per node: all of it leaves.
  EXPECT_EQ(of(Algorithm::ring, Operation::all_reduce, {2, 2, 1}), (WireBytes{Bytes(0), s}));
}

TEST(CollectiveCosts, GroupsOfOneAreFree) {
  EXPECT_EQ(collective_cost(cluster("h100", 8, 1), Operation::all_reduce, {1, 1, 8}, kGiB), CollectiveCost{});
}

TEST(CollectiveCosts, SubGroupsInsideANodeDoNotUseTheNetwork) {
  const Cluster machines = cluster("h100", 32, 4);
  const GroupPlace sub_group = place_group(machines, 8);
  const CollectiveCost inside = collective_cost(machines, Operation::all_gather, sub_group, kGiB);
  const CollectiveCost across =
      collective_cost(machines, Operation::all_gather, place_of_all(machines), kGiB);
  EXPECT_EQ(inside.outside, Bytes(0));
  EXPECT_GT(across.outside, Bytes(0));
  const Cluster alone = cluster("h100", 8, 1);
  EXPECT_EQ(inside.time, collective_cost(alone, Operation::all_gather, place_of_all(alone), kGiB).time);
}

/// Eight data-parallel groups of one GPU per node share the network: one NIC for all, or one for each.
TEST(CollectiveCosts, GroupsSideBySideShareTheNics) {
  for (const auto& [network, slower] :
       std::vector<std::pair<std::string, double>>{{"400g", 8}, {"8x400g", 1}}) {
    const Cluster machines = cluster("h100", 32, 4, "", network);
    const GroupPlace place = place_group(machines, 4, 8);
    EXPECT_EQ(place.side_by_side, 8);
    const auto time = [&](std::int64_t groups) {
      const GroupPlace shared{place.ranks, place.nodes, groups};
      return CollectivePricer(machines, Operation::all_gather, shared, {.curves = false}).time(kGiB * 4);
    };
    EXPECT_NEAR(ratio(time(8), time(1)), slower, 0.02 * slower) << network;
  }
}

/// No call sends more than its links carry.
TEST(CollectiveCosts, StayWithinTheLinks) {
  for (const Gpu& gpu : built_in_profiles().gpus)
    for (const char* network : {"100g", "8x200g", "efa-32x100g"})
      for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::all_to_all})
        for (const std::int64_t nodes : {1, 2, 4, 32}) {
          const Cluster machines = cluster(gpu.name, nodes * 8, nodes, "", network);
          const bool nvlink =
              machines.node.fabric == Fabric::nvswitch || machines.node.fabric == Fabric::mesh;
          const double link = nvlink ? gpu.nvlink.value : gpu.pcie.value;
          const CollectiveCost cost =
              CollectivePricer(machines, operation, place_of_all(machines), {.curves = false}).cost(kGiB * 8);
          const double inside = static_cast<double>(cost.inside.value) / cost.time.value;
          const double outside = static_cast<double>(cost.outside.value) * 8 / cost.time.value;
          EXPECT_LE(inside, link) << gpu.name << " " << to_name(operation) << " " << nodes;
          EXPECT_LE(outside, nodes == 1
                                 ? 0
                                 : machines.network->nic.value * static_cast<double>(machines.network->nics))
              << gpu.name << " " << to_name(operation) << " " << nodes << " " << network;
        }
}

}  // namespace
}  // namespace zplan
