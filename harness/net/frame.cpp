#include "harness/net/frame.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace zplan::bench {

namespace {

constexpr std::string_view kMagic = "ZPBN";
constexpr std::size_t kHeader = 24;

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

std::uint64_t get(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

bool begins_as_ours(std::string_view bytes) {
  const std::size_t known = std::min(bytes.size(), kMagic.size());
  return bytes.substr(0, known) == kMagic.substr(0, known);
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string out(kMagic);
  out.reserve(kHeader + frame.text.size());
  put(out, static_cast<std::uint32_t>(frame.kind), 4);
  put(out, frame.number, 8);
  put(out, frame.text.size(), 8);
  return out + frame.text;
}

std::string pack(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) put(out, text.size(), 8), out += text;
  return out;
}

std::optional<std::vector<std::string>> unpack(std::string_view packed, std::size_t count) {
  std::vector<std::string> texts;
  while (packed.size() >= 8 && texts.size() < count) {
    const std::uint64_t length = get(packed.substr(0, 8));
    packed.remove_prefix(8);
    if (length > packed.size()) return std::nullopt;
    texts.emplace_back(packed.substr(0, static_cast<std::size_t>(length)));
    packed.remove_prefix(static_cast<std::size_t>(length));
  }
  if (!packed.empty() || texts.size() != count) return std::nullopt;
  return texts;
}

Received FrameReader::parse_header() {
  const std::string_view header = bytes_;
  const std::uint64_t kind = get(header.substr(4, 4));
  if (kind < static_cast<std::uint32_t>(FrameKind::hello) ||
      kind > static_cast<std::uint32_t>(FrameKind::barrier))
    return Received::not_ours;
  frame_.kind = static_cast<FrameKind>(kind);
  frame_.number = get(header.substr(8, 8));
  length_ = get(header.substr(16, 8));
  if (length_ > limit_) return Received::too_long;
  wanted_ = kHeader + static_cast<std::size_t>(length_);
  return Received::part;
}

Received FrameReader::read(int fd) {
  // A piece at a time: a peer that announces much and sends little is not given the memory for all of it.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (;;) {
    const std::size_t had = bytes_.size();
    bytes_.resize(had + std::min(wanted_ - had, kPiece));
    const ssize_t got = recv(fd, bytes_.data() + had, bytes_.size() - had, 0);
    const int error = errno;
    bytes_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return Received::part;
    if (got <= 0) return Received::closed;
    if (!begins_as_ours(bytes_)) return Received::not_ours;
    if (bytes_.size() < wanted_) continue;
    if (wanted_ == kHeader && had < kHeader)
      if (const Received seen = parse_header(); seen != Received::part) return seen;
    if (bytes_.size() == wanted_) return Received::whole;
  }
}

Peeked peek(int fd, std::size_t text_limit) {
  std::string bytes(kHeader + text_limit, '\0');
  const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got <= 0)
    return {.closed = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR), .frame = {}};
  bytes.resize(static_cast<std::size_t>(got));
  if (bytes.size() < kHeader || !begins_as_ours(bytes)) return {.closed = false, .frame = {}};
  const std::uint64_t length = get(std::string_view(bytes).substr(16, 8));
  if (length > bytes.size() - kHeader) return {.closed = false, .frame = {}};
  return {.closed = false,
          .frame = Frame{static_cast<FrameKind>(get(std::string_view(bytes).substr(4, 4))),
                         get(std::string_view(bytes).substr(8, 8)),
                         bytes.substr(kHeader, static_cast<std::size_t>(length))}};
}

Frame FrameReader::take() {
  frame_.text = bytes_.substr(kHeader);
  bytes_.clear();
  wanted_ = kHeader;
  length_ = 0;
  return std::exchange(frame_, Frame{});
}

}  // namespace zplan::bench
