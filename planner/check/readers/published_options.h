#pragma once
// The options that published runs share, whatever was measured of them.

#include <optional>
#include <string>

#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

struct PublishedRun {
  std::optional<Setup> setup;  ///< the cluster is the caller's to choose
  Skip skip;                   ///< features that zplan does not model
  std::int64_t gpus{1};
};

/// `config` and `options` of a record of zplan.measurement/1 or zplan.speed/1. What a source does not say is
/// taken as the library's default: AdamW of PyTorch walks lists of tensors (foreach), DeepSpeed's is its
/// FusedAdam, buckets are those that Hugging Face sets for "auto".
[[nodiscard]] PublishedRun read_published_run(const JsonReader& record);

}  // namespace zplan::check
