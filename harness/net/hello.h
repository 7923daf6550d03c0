#pragma once
// What a process says when it comes, and who may take part.

#include <cstdint>
#include <optional>
#include <string>

#include "harness/net/frame.h"
#include "harness/net/rendezvous.h"

namespace zplan::bench {

inline constexpr std::uint64_t kProtocol = 1;
inline constexpr std::uint64_t kHelloLimit = 4096;  ///< bytes of a hello's text

struct Hello {
  std::uint64_t protocol{kProtocol};
  int rank{}, size{};
  std::int64_t pid{};
  std::string host{}, version{};
};

[[nodiscard]] Hello own_hello(const TcpOptions& options);
[[nodiscard]] Frame to_frame(const Hello& hello);
/// Nothing where the frame is no hello. Of another protocol only that is read.
[[nodiscard]] std::optional<Hello> read_hello(const Frame& frame);

/// Why the caller cannot take part in the run of `rank_0`, as one line; empty: it can. Whether its rank is
/// there already is not looked at.
[[nodiscard]] std::string why_refused(const Hello& rank_0, const Hello& caller);

}  // namespace zplan::bench
