// A backward in two parts, as stages of a pipeline run it: first what leads to the stage's input, later what
// leads to its parameters. Source: torch 2.14.1 distributed/pipelining/_backward.py; compared with recorded
// steps (docs/torchtitan.md).

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

namespace {

using NodeHandle = std::shared_ptr<Node>;

/// ReverseGraph knows which nodes of a graph lead to a node.
class ReverseGraph {
 public:
  explicit ReverseGraph(const NodeHandle& root) {
    std::vector<NodeHandle> queue{root};
    all_.insert(root.get());
    while (!queue.empty()) {
      const NodeHandle each = std::move(queue.back());
      queue.pop_back();
      for (const NextEdge& next : each->next) {
        if (next.edge.node == nullptr) continue;
        before_[next.edge.node.get()].push_back(each);
        if (all_.insert(next.edge.node.get()).second) queue.push_back(next.edge.node);
      }
    }
  }
  [[nodiscard]] const std::set<Node*>& all() const { return all_; }
  [[nodiscard]] bool has(const NodeHandle& node) const { return all_.contains(node.get()); }

  /// Returns the nodes that lead to `node`, nearest first, but for those of `ends` and what leads there; adds
  /// the nodes of `ends` that were met to `met`.
  [[nodiscard]] std::vector<NodeHandle> leading_to(const NodeHandle& node, const std::set<Node*>& ends,
                                                   std::vector<NodeHandle>& met) const {
    std::vector<NodeHandle> found;
    std::set<Node*> seen{node.get()};
    std::vector<NodeHandle> queue{node};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const auto before = before_.find(queue[i].get());
      if (before == before_.end()) continue;
      for (const NodeHandle& each : before->second) {
        if (!seen.insert(each.get()).second) continue;
        if (ends.contains(each.get())) {
          met.push_back(each);
          continue;
        }
        found.push_back(each), queue.push_back(each);
      }
    }
    return found;
  }

 private:
  std::set<Node*> all_;
  std::map<Node*, std::vector<NodeHandle>> before_;
};

/// Adds a parameter to the group that begins at the same nodes, or makes one of it.
void add_parameter(std::vector<ParameterGroup>& groups, const NodeHandle& parameter,
                   std::vector<NodeHandle> between, std::vector<NodeHandle> nodes) {
  const auto shares = [&](const ParameterGroup& group) {
    return std::ranges::any_of(
        group.nodes, [&](const NodeHandle& each) { return std::ranges::find(nodes, each) != nodes.end(); });
  };
  auto group = std::ranges::find_if(groups, shares);
  if (group == groups.end()) group = groups.emplace(groups.end());
  const auto add = [](std::vector<NodeHandle>& to, const std::vector<NodeHandle>& from) {
    for (const NodeHandle& each : from)
      if (std::ranges::find(to, each) == to.end()) to.push_back(each);
  };
  group->parameters.push_back(parameter);
  add(group->between, between), add(group->nodes, nodes);
}

/// Lets a backward pass over nodes while it is there.
class Unwanted {
 public:
  Unwanted() = default;
  Unwanted(const Unwanted&) = delete;
  Unwanted& operator=(const Unwanted&) = delete;
  ~Unwanted() {
    for (Node* each : nodes_) each->wanted = true;
  }
  void add(Node* node) {
    if (std::exchange(node->wanted, false)) nodes_.push_back(node);
  }

 private:
  std::vector<Node*> nodes_;
};

}  // namespace

std::vector<ParameterGroup> Autograd::backward_to_input(const Tensor& root, Tensor gradient,
                                                        const NodeHandle& input,
                                                        const std::vector<NodeHandle>& parameters) {
  std::vector<ParameterGroup> groups;
  Unwanted others;
  {
    const ReverseGraph graph(root.gradient.node);
    std::vector<NodeHandle> none;
    std::set<Node*> leading{input.get()};
    for (const NodeHandle& each : graph.leading_to(input, {}, none)) leading.insert(each.get());
    for (const NodeHandle& each : parameters) {
      if (!graph.has(each)) continue;
      std::vector<NodeHandle> nodes;
      std::vector<NodeHandle> between = graph.leading_to(each, leading, nodes);
      if (nodes.empty()) continue;
      add_parameter(groups, each, std::move(between), std::move(nodes));
    }
    for (Node* each : graph.all())
      if (!leading.contains(each)) others.add(each);
  }
  for (ParameterGroup& each : groups) each.gradients.resize(each.nodes.size());
  const auto outside = before_node;
  before_node = [&](Node& node) {
    for (ParameterGroup& group : groups)
      for (std::size_t i = 0; i < group.nodes.size(); ++i)
        if (group.nodes[i].get() == &node) group.gradients[i] = node.buffer;
    if (outside) outside(node);
  };
  keeps_graph_ = true;
  backward(root, std::move(gradient));
  keeps_graph_ = false;
  before_node = outside;
  return groups;
}

void Autograd::backward_to_parameters(std::vector<ParameterGroup>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i > 0) groups[i - 1] = {};
    const ParameterGroup& group = groups[i];
    std::set<const Node*> all;
    for (const auto* list : {&group.parameters, &group.between, &group.nodes})
      for (const NodeHandle& each : *list) all.insert(each.get());
    Unwanted others;
    for (const auto* list : {&group.between, &group.nodes})
      for (const NodeHandle& each : *list)
        for (const NextEdge& next : each->next)
          if (next.edge.node != nullptr && !all.contains(next.edge.node.get()))
            others.add(next.edge.node.get());
    for (std::size_t j = 0; j < group.nodes.size(); ++j) group.nodes[j]->buffer = group.gradients[j];
    run_graph(group.nodes);
  }
}

}  // namespace zplan::symbolic
