#include "planner/layout/rank_class.h"

namespace zplan {

std::vector<RankClass> rank_classes(const ParallelLayout& layout) {
  std::vector<RankClass> classes;
  for (std::int64_t stage = 0; stage < layout.pipeline; ++stage)
    classes.push_back({.stage = stage, .context = layout.context - 1});
  return classes;
}

RankClass class_of(const ParallelLayout& layout, std::int64_t rank) {
  const auto place = [&](Group group) { return process_group(layout, group).place_of(rank); };
  return {.stage = place(Group::pipeline),
          .tensor = place(Group::tensor),
          .context = place(Group::context),
          .expert = place(Group::expert),
          .slice = place(Group::data)};
}

}  // namespace zplan
