#pragma once
// One message on the wire: kind, number, text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan::bench {

/// hello: a process says who it is (number: version of this protocol); welcome: all have come; refusal: this
/// process cannot take part; failure: the run ends, with the reason of the rank that saw it first; the rest
/// are the calls of Control (number: how many there were).
enum class FrameKind : std::uint32_t { hello = 1, welcome, refusal, failure, all_gather, broadcast, barrier };

struct Frame {
  FrameKind kind{FrameKind::hello};
  std::uint64_t number{};
  std::string text;
  bool operator==(const Frame&) const = default;
};

/// Bytes of a frame on the wire: "ZPBN", then kind, number and length of the text in network order, the text.
[[nodiscard]] std::string encode(const Frame& frame);

/// Several texts as one, and back; nothing where `packed` is not `count` texts.
[[nodiscard]] std::string pack(const std::vector<std::string>& texts);
[[nodiscard]] std::optional<std::vector<std::string>> unpack(std::string_view packed, std::size_t count);

/// What one look at a socket brought.
enum class Received { part, whole, closed, not_ours, too_long };

/// Puts a frame together from what comes in pieces; reads no byte behind it.
class FrameReader {
 public:
  explicit FrameReader(std::uint64_t text_limit) : limit_(text_limit) {}

  /// Takes what is there without waiting. not_ours and too_long are known from the first bytes on.
  [[nodiscard]] Received read(int fd);
  /// The frame of the last `whole`; the next read() begins another.
  [[nodiscard]] Frame take();
  /// Bytes of the text that were announced, for too_long.
  [[nodiscard]] std::uint64_t announced() const { return length_; }

 private:
  [[nodiscard]] Received parse_header();
  std::uint64_t limit_;
  std::string bytes_;
  std::size_t wanted_{24};
  std::uint64_t length_{};
  Frame frame_;
};

/// What lies at a socket, left there.
struct Peeked {
  bool closed{};               ///< by the other end, and nothing more comes
  std::optional<Frame> frame;  ///< the next one, where it is whole and has no more than so much text
};
[[nodiscard]] Peeked peek(int fd, std::size_t text_limit);

}  // namespace zplan::bench
