#include "harness/net/hello.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"

namespace zplan::bench {

namespace {

std::string name(const Hello& hello) {
  return fmt::format("rank {} on host {} (pid {})", hello.rank, hello.host, hello.pid);
}

Hello parse(const Frame& frame) {
  const Json json = parse_json(frame.text, "hello");
  const JsonReader reader(json, "hello");
  constexpr std::int64_t kMost = 1 << 30;
  return {.protocol = frame.number,
          .rank = static_cast<int>(reader.at("rank").integer(0, kMost)),
          .size = static_cast<int>(reader.at("size").integer(1, kMost)),
          .pid = reader.at("pid").integer(0, kMost),
          .host = reader.at("host").text(),
          .version = reader.at("version").text()};
}

}  // namespace

Hello own_hello(const TcpOptions& options) {
  return {.rank = options.rank,
          .size = options.size,
          .pid = getpid(),
          .host = options.host.empty() ? host_name() : options.host,
          .version = options.version};
}

Frame to_frame(const Hello& hello) {
  const Json json = {{"rank", hello.rank},
                     {"size", hello.size},
                     {"pid", hello.pid},
                     {"host", hello.host},
                     {"version", hello.version}};
  return {FrameKind::hello, hello.protocol, json.dump(-1, ' ', true, Json::error_handler_t::replace)};
}

std::optional<Hello> read_hello(const Frame& frame) {
  if (frame.kind != FrameKind::hello) return std::nullopt;
  try {
    return parse(frame);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string why_refused(const Hello& rank_0, const Hello& caller) {
  if (caller.protocol != rank_0.protocol || caller.version != rank_0.version)
    return fmt::format(
        "{} runs zplan {} (protocol {}), rank 0 on host {} zplan {} (protocol {}): the same version is "
        "needed on every host",
        name(caller), caller.version, caller.protocol, rank_0.host, rank_0.version, rank_0.protocol);
  if (caller.size != rank_0.size)
    return fmt::format(
        "{} was started as one of {} ranks, rank 0 on host {} as one of {}: start all with one number of "
        "ranks",
        name(caller), caller.size, rank_0.host, rank_0.size);
  if (caller.rank < 1 || caller.rank >= caller.size)
    return fmt::format(
        "{} came to rank 0 on host {} (pid {}), where ranks 1 to {} are awaited: give each process a rank of "
        "its own",
        name(caller), rank_0.host, rank_0.pid, rank_0.size - 1);
  return {};
}

}  // namespace zplan::bench
