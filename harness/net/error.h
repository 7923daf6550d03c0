#pragma once
// Errors that came over the wire.

#include "harness/error.h"

namespace zplan::bench {

/// Another rank saw it first and says so there: this rank ends for the same reason, and prints nothing.
class ToldByAnother : public BenchError {
 public:
  using BenchError::BenchError;
};

}  // namespace zplan::bench
