#include "cli/document/pickle.h"

#include <limits>

namespace zplan {

namespace {

// Opcodes. Source: CPython Lib/pickletools.py.
enum : unsigned char {
  kProtocol = 0x80,
  kMark = '(',
  kEmptyDict = '}',
  kEmptyList = ']',
  kSetItems = 'u',
  kAppends = 'e',
  kText = 'X',          // BINUNICODE
  kInteger = 'J',       // BININT: 4 bytes, signed
  kShortInteger = 'K',  // BININT1
  kLong = 0x8a,         // LONG1
  kTrue = 0x88,
  kFalse = 0x89,
  kPair = 0x86,     // TUPLE2
  kRemember = 'q',  // BINPUT
  kRememberLong = 'r',
  kRecall = 'h',  // BINGET
  kRecallLong = 'j',
  kStop = '.',
};

constexpr std::int64_t kBatch = 1000;  // as CPython writes lists

}  // namespace

PickleWriter::PickleWriter() { byte(kProtocol), byte(2); }

void PickleWriter::bytes(std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) byte(static_cast<int>((value >> (8 * i)) & 0xff));
}

void PickleWriter::count() {
  if (open_.empty() || !open_.back().is_list || ++open_.back().items < kBatch) return;
  byte(kAppends), byte(kMark);
  open_.back().items = 0;
}

void PickleWriter::begin_dict() {
  byte(kEmptyDict), byte(kMark);
  open_.push_back({});
}

void PickleWriter::end_dict() {
  byte(kSetItems);
  open_.pop_back();
  count();
}

void PickleWriter::begin_list() {
  byte(kEmptyList), byte(kMark);
  open_.push_back({.is_list = true});
}

void PickleWriter::end_list() {
  byte(kAppends);
  open_.pop_back();
  count();
}

void PickleWriter::text(std::string_view text) {
  if (const auto known = texts_.find(text); known != texts_.end()) return recall(known->second);
  byte(kText), bytes(text.size(), 4);
  out_ += text;
  texts_.emplace(text, remember());
  count();
}

void PickleWriter::number(std::int64_t value) {
  if (value >= 0 && value <= 0xff) {
    byte(kShortInteger), bytes(static_cast<std::uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    byte(kInteger), bytes(static_cast<std::uint64_t>(value), 4);
  } else {
    byte(kLong), byte(8), bytes(static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::integer(std::int64_t value) {
  number(value);
  count();
}

void PickleWriter::boolean(bool value) {
  byte(value ? kTrue : kFalse);
  count();
}

void PickleWriter::pair(std::int64_t first, std::int64_t second) {
  number(first), number(second);
  byte(kPair);
  count();
}

std::int32_t PickleWriter::remember() {
  const std::int32_t name = names_++;
  const bool is_short = name <= 0xff;
  byte(is_short ? kRemember : kRememberLong), bytes(static_cast<std::uint64_t>(name), is_short ? 1 : 4);
  return name;
}

void PickleWriter::recall(std::int32_t name) {
  const bool is_short = name <= 0xff;
  byte(is_short ? kRecall : kRecallLong), bytes(static_cast<std::uint64_t>(name), is_short ? 1 : 4);
  count();
}

std::string PickleWriter::finish() {
  byte(kStop);
  return std::move(out_);
}

}  // namespace zplan
