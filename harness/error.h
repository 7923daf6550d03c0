#pragma once
// What can go wrong while measuring. Bad input is an InputError (models/base/error.h), as everywhere.

#include <stdexcept>
#include <string>

namespace zplan::bench {

/// The run cannot go on: one line that says which rank, what it did, what happened and what to do.
class BenchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// There is no memory for a buffer; a smaller size may do.
class OutOfMemory : public BenchError {
 public:
  using BenchError::BenchError;
};

/// Another rank noticed it first and says so there: this rank ends for the same reason and prints nothing.
class ToldByAnother : public BenchError {
 public:
  using BenchError::BenchError;
};

}  // namespace zplan::bench
