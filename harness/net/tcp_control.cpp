#include "harness/net/tcp_control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "models/base/error.h"

namespace zplan::bench {

namespace {

constexpr std::size_t kLongestReason = std::size_t{1} << 16;

std::string_view name_of_call(std::uint32_t kind) {
  switch (static_cast<FrameKind>(kind)) {
    case FrameKind::all_gather: return "all_gather";
    case FrameKind::broadcast: return "broadcast";
    case FrameKind::barrier: return "barrier";
    default: return "no call";
  }
}
std::string_view name_of_call(FrameKind kind) { return name_of_call(static_cast<std::uint32_t>(kind)); }

TcpOptions checked(TcpOptions options) {
  if (options.rank < 0 || options.rank >= options.size)
    throw InputError("rank", fmt::format("{} of {} ranks", options.rank, options.size),
                     fmt::format("accepted: 0 to {}", options.size - 1));
  if (options.host.empty()) options.host = host_name();
  return options;
}

}  // namespace

TcpControl::TcpControl(TcpOptions options) : options_(checked(std::move(options))) {
  if (options_.size == 1) return;
  if (options_.rank == 0)
    peers_ = wait_for_peers(options_);
  else
    peers_.push_back(join_rank_0(options_));
}

std::vector<std::string> TcpControl::all_gather(const std::string& mine) {
  begin_call();
  check_length(mine, FrameKind::all_gather);
  if (options_.rank != 0) {
    auto all = unpack(exchange(FrameKind::all_gather, mine).text, static_cast<std::size_t>(options_.size));
    if (!all)
      end(fmt::format("{} sent no list of {} texts", name_of(peers_[0]), options_.size), Origin::here);
    return std::move(*all);
  }
  std::vector<std::string> all = collect(FrameKind::all_gather);
  all.insert(all.begin(), mine);
  send_to_all({FrameKind::all_gather, calls_, pack(all)});
  return all;
}

std::string TcpControl::broadcast(const std::string& of_rank_0) {
  begin_call();
  if (options_.rank != 0) return await(FrameKind::broadcast).text;
  check_length(of_rank_0, FrameKind::broadcast);
  send_to_all({FrameKind::broadcast, calls_, of_rank_0});
  return of_rank_0;
}

void TcpControl::barrier() {
  begin_call();
  if (options_.rank != 0) {
    (void)exchange(FrameKind::barrier, {});
    return;
  }
  (void)collect(FrameKind::barrier);
  send_to_all({FrameKind::barrier, calls_, {}});
}

void TcpControl::fail(const std::string& reason) noexcept {
  if (!ended_.empty()) return;
  try {
    ended_ = reason;
    tell_failure(peers_, reason);
  } catch (const std::exception&) {  // no memory for the message: the others see that the connection closes
  }
}

std::string TcpControl::failure_seen() const {
  if (!ended_.empty()) return ended_;
  for (const Peer& peer : peers_) {
    const Peeked next = peek(peer.socket.fd(), kLongestReason);
    if (next.closed) return fmt::format("{} ended", full_name_of(peer));
    if (next.frame && next.frame->kind == FrameKind::failure) return next.frame->text;
  }
  return {};
}

void TcpControl::begin_call() {
  if (!ended_.empty()) throw ToldByAnother(ended_);
  ++calls_;
}

void TcpControl::check_length(const std::string& text, FrameKind kind) {
  const auto limit = static_cast<std::size_t>(options_.message_limit.value);
  if (text.size() <= limit) return;
  end(fmt::format("rank {} on host {} has {} bytes for {}, where {} are the most", options_.rank,
                  options_.host, text.size(), name_of_call(kind), limit),
      Origin::here);
}

/// Of the other ranks: says its part, takes what rank 0 makes of all.
Frame TcpControl::exchange(FrameKind kind, std::string text) {
  Peer& rank_0 = peers_[0];
  const Deadline deadline = Clock::now() + options_.timeout;
  const std::string why = send_all(rank_0.socket.fd(), encode({kind, calls_, std::move(text)}), deadline);
  if (!why.empty()) send_failed(rank_0, why);
  return await(kind);
}

Frame TcpControl::await(FrameKind kind) {
  Peer& rank_0 = peers_[0];
  // Rank 0 may come that late itself, and then gives the last of the others as long: the one that is late is
  // named by it, not by those who wait.
  const auto patience = 2 * options_.timeout + std::chrono::seconds(5);
  const Deadline deadline = Clock::now() + patience;
  Received seen = Received::part;
  while ((seen = rank_0.reader.read(rank_0.socket.fd())) == Received::part)
    if (!wait_for(rank_0.socket.fd(), POLLIN, deadline))
      end(fmt::format("{} did not answer for {} in {}", name_of(rank_0), seconds_text(patience),
                      name_of_call(kind)),
          Origin::here);
  if (seen == Received::closed) end(fmt::format("{} ended", full_name_of(rank_0)), Origin::here);
  if (seen != Received::whole)
    end(fmt::format("{} sent what is no message of this run", name_of(rank_0)), Origin::here);
  Frame frame = rank_0.reader.take();
  if (frame.kind == FrameKind::failure) end(frame.text, Origin::told);
  if (const std::string wrong = check(frame, rank_0, kind); !wrong.empty()) end(wrong, Origin::here);
  return frame;
}

std::string TcpControl::check(const Frame& frame, const Peer& peer, FrameKind kind) const {
  if (frame.kind == kind && frame.number == calls_) return {};
  return fmt::format("{} is in {} (call {}), rank {} in {} (call {}): ranks do not do the same",
                     name_of(peer), name_of_call(frame.kind), frame.number, options_.rank, name_of_call(kind),
                     calls_);
}

/// Of rank 0: what every other rank says, all heard at once so that one that ends is seen while others are
/// slow.
std::vector<std::string> TcpControl::collect(FrameKind kind) {
  const Deadline deadline = Clock::now() + options_.timeout;
  std::vector<std::string> texts(peers_.size());
  std::vector<bool> heard(peers_.size());
  std::vector<pollfd> fds;
  for (;;) {
    fds.clear();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (heard[i]) continue;
      Peer& peer = peers_[i];
      const Received seen = peer.reader.read(peer.socket.fd());
      if (seen == Received::part) {
        fds.push_back({.fd = peer.socket.fd(), .events = POLLIN, .revents = 0});
        continue;
      }
      if (seen == Received::closed) end(fmt::format("{} ended", full_name_of(peer)), Origin::here, &peer);
      if (seen != Received::whole)
        end(fmt::format("{} sent what is no message of this run", name_of(peer)), Origin::here);
      Frame frame = peer.reader.take();
      if (frame.kind == FrameKind::failure) end(frame.text, Origin::told, &peer);
      if (const std::string wrong = check(frame, peer, kind); !wrong.empty()) end(wrong, Origin::here);
      heard[i] = true;
      texts[i] = std::move(frame.text);
    }
    if (fds.empty()) return texts;
    if (Clock::now() >= deadline)
      end(fmt::format("{} did not answer for {} in {}", name_of_silent(heard), seconds_text(options_.timeout),
                      name_of_call(kind)),
          Origin::here);
    (void)poll(fds.data(), fds.size(), milliseconds_until(deadline));
  }
}

std::string TcpControl::name_of_silent(const std::vector<bool>& heard) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (!heard[i]) names.push_back(name_of(peers_[i]));
  const std::size_t count = names.size();
  names.resize(std::min<std::size_t>(count, 4));
  return fmt::format("{}{}", fmt::join(names, ", "),
                     count > names.size() ? fmt::format(" and {} more", count - names.size()) : "");
}

void TcpControl::send_to_all(const Frame& frame) {
  const std::string bytes = encode(frame);
  const Deadline deadline = Clock::now() + options_.timeout;
  for (Peer& peer : peers_)
    if (const std::string why = send_all(peer.socket.fd(), bytes, deadline); !why.empty())
      send_failed(peer, why);
}

/// The other end may have said why before it went.
void TcpControl::send_failed(Peer& peer, const std::string& why) {
  const Received seen = peer.reader.read(peer.socket.fd());
  if (seen == Received::whole)
    if (const Frame frame = peer.reader.take(); frame.kind == FrameKind::failure)
      end(frame.text, Origin::told, &peer);
  const std::string reason = why == "timed out" ? fmt::format("{} took nothing for {}", name_of(peer),
                                                              seconds_text(options_.timeout))
                                                : fmt::format("{} ended ({})", full_name_of(peer), why);
  peer.socket = Socket();  // half of a message went: another behind it would not be understood
  end(reason, Origin::here);
}

void TcpControl::end(const std::string& reason, Origin origin, const Peer* except) {
  ended_ = reason;
  if (options_.rank == 0 || origin == Origin::here) tell_failure(peers_, reason, except);
  if (origin == Origin::told) throw ToldByAnother(reason);
  throw BenchError(reason);
}

TcpOptions tcp_options(const Place& place) {
  if (place.size > 1 && (place.master_address.empty() || place.master_port == 0))
    throw InputError("MASTER_ADDR",
                     fmt::format("not set, and {} does not tell where rank 0 of {} is",
                                 to_name(place.launcher), place.size),
                     "accepted: name or address of the host of rank 0");
  return {.rank = place.rank,
          .size = place.size,
          .meeting = {.address = place.master_address, .port = place.master_port},
          .listen_fd = place.listen_fd};
}

LocalPlace place_on_host(Control& control, const std::string& host) {
  const std::vector<std::string> hosts = control.all_gather(host);
  const auto before = hosts.begin() + control.rank();
  return {.rank = static_cast<int>(std::count(hosts.begin(), before, host)),
          .size = static_cast<int>(std::count(hosts.begin(), hosts.end(), host))};
}

}  // namespace zplan::bench
