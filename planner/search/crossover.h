#pragma once
// The speed of a link from which one strategy trains faster than another.

#include <functional>
#include <optional>
#include <string>

#include "planner/plan/accuracy.h"
#include "planner/question/question.h"

namespace zplan {

struct Plan;

/// DecisiveLink is the link that decides between strategies of a cluster: the network where there are several
/// nodes, else the links inside the node.
struct DecisiveLink {
  std::string name;    ///< "NVLink", "PCIe", or the network's: "8x400g"
  BytesPerSecond now;  ///< the network out of a node; inside a node the bus bandwidth of a long all_gather
  bool between{};      ///< the nodes
};
/// Returns the name of the link between the GPUs of a node: "NVLink", "PCIe".
[[nodiscard]] std::string name_of_inner_link(const Cluster& cluster);
/// Returns the decisive link; nothing for one GPU.
[[nodiscard]] std::optional<DecisiveLink> decisive_link(const Cluster& cluster);
/// Returns the cluster with its decisive link at `factor` times the speed.
[[nodiscard]] Cluster with_link(Cluster cluster, double factor);

/// Links are tried at 1/64 to 64 times their speed.
inline constexpr double kMostLinkFactor = 64;

/// One side of a comparison: a strategy and whose it is; `name` and `training` as a Plan has them.
struct Entrant {
  Framework framework{Framework::deepspeed};
  Strategy strategy;
  std::string name{};
  std::optional<Training> training{};
  bool operator==(const Entrant&) const = default;
  [[nodiscard]] std::string id() const { return name.empty() ? plan_id(framework, strategy) : name; }
};

struct Crossover {
  DecisiveLink link;
  double factor{};       ///< at / link.now
  BytesPerSecond at;     ///< the bandwidth at which both train equally fast
  Entrant below, above;  ///< which is faster on a slower link, which on a faster one
};

/// Returns the bandwidth of the decisive link, nearest to today's, at which two legal strategies train
/// equally many tokens a second; they may be of two frameworks and need not fit. Returns nothing where one of
/// them is faster everywhere between 1/64 and 64 times today's bandwidth, or where there is no link. The
/// question's own link factors count as 1.
[[nodiscard]] std::optional<Crossover> crossover(const Question& question, const Entrant& one,
                                                 const Entrant& other);

/// Contest compares the two fastest of several plans, by tokens per second: of those that fit, or of all
/// where fewer than two fit.
struct Contest {
  std::string faster, slower;        ///< ids
  double ratio{};                    ///< of their tokens per second
  Tie tie;                           ///< how far apart they must be to be told apart
  std::optional<DecisiveLink> link;  ///< absent: one GPU
  std::optional<Crossover> crossover;
};
/// Returns the contest; nothing for fewer than two plans.
[[nodiscard]] std::optional<Contest> contest(const Question& question, const std::vector<Plan>& plans);

/// Returns where f changes its sign between 1/`most` and `most`; nothing where it does not. Steps by powers
/// of two find the change nearest to 1, bisection in the logarithm narrows it to 1e-4.
[[nodiscard]] std::optional<double> nearest_sign_change(const std::function<double(double)>& f, double most);

}  // namespace zplan
