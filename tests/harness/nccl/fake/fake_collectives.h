#pragma once
// Collectives on memory, with the semantics that nccl.h documents.

#include <nccl.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fake {

struct Call {
  std::string name;
  const char* send{};
  char* receive{};
  std::size_t count{};  // as the caller counts
  ncclDataType_t type{};
  int op{-1}, root{-1};
};
/// By rank.
using Calls = std::map<int, Call>;

[[nodiscard]] std::size_t size_of(ncclDataType_t type);
/// Elements that a rank's buffers hold: sent, received.
[[nodiscard]] std::pair<std::size_t, std::size_t> buffers(const Call& call, int size);
[[nodiscard]] bool lies_apart_or_in_place(const Call& call, int rank, int size);
void put(const std::vector<char>& data, char* to);
/// Runs the calls of all ranks at once.
void do_collective(const Calls& calls);

}  // namespace fake
