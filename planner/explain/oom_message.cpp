#include "planner/explain/oom_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace zplan {

namespace {

constexpr std::string_view kAsked = "Tried to allocate ";
constexpr std::size_t kLongest = 8192;           // a message that lists the processes of a shared GPU
constexpr Bytes kNoCard{std::int64_t{1} << 50};  // sizes beyond are differences that went below zero

/// A text without colours and with every run of blanks as one, and where its lines began.
struct Plain {
  std::string text;
  std::vector<std::size_t> line_of;  ///< of each character, from 1
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Returns the end of an escape sequence that begins at `at`.
std::size_t behind_escape(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  if (end >= text.size() || text[end] != '[') return end;
  for (++end; end < text.size(); ++end)
    if (text[end] >= '@' && text[end] <= '~') return end + 1;
  return end;
}

Plain plain(std::string_view text) {
  Plain out;
  std::size_t line = 1;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\033') {
      i = behind_escape(text, i);
      continue;
    }
    const char c = is_blank(text[i]) ? ' ' : text[i];
    if (text[i] == '\n') ++line;
    if (c != ' ' || (!out.text.empty() && out.text.back() != ' ')) out.text += c, out.line_of.push_back(line);
    ++i;
  }
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "12.5 MiB" at the beginning of `text`.
struct Size {
  Bytes size;
  std::size_t length{};  ///< of its text
};
std::optional<Size> size_at(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, Bytes>, 5> kUnits{
      {{"bytes", Bytes(1)}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}, {"TiB", kGiB * 1024}}};
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0) || end == text.data() + text.size() || *end != ' ')
    return std::nullopt;
  const auto at = static_cast<std::size_t>(end - text.data()) + 1;
  for (const auto& [name, unit] : kUnits) {
    if (!text.substr(at).starts_with(name)) continue;
    const double bytes = number * static_cast<double>(unit.value);
    if (!(bytes < static_cast<double>(kNoCard.value))) return Size{kNoCard, at + name.size()};
    return Size{Bytes(std::llround(bytes)), at + name.size()};
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_behind(std::string_view text, std::string_view word) {
  const std::size_t at = text.rfind(word);
  if (at == std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const char* begin = text.data() + at + word.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  return error == std::errc() && end != begin && value >= 0 ? std::optional(value) : std::nullopt;
}

void take(std::optional<Bytes>& field, Bytes size) {
  if (!field && size < kNoCard) field = size;
}

/// Figures that a message gives in another form than it is kept in.
struct Totals {
  std::optional<Bytes> reserved, cached;
};

/// Stores a size in the figure that the words before and behind it name.
void take_figure(OomMessage& message, Totals& totals, Bytes size, std::string_view before,
                 std::string_view behind) {
  const auto follows = [behind](std::string_view words) { return behind.starts_with(words); };
  if (before.ends_with("has a total capacity of ") || before.ends_with("has a total capacty of ") ||
      follows(" total capacity"))
    return take(message.capacity, size);
  if (follows(" is free") || follows("is free") || follows(" free;") || follows(" free)"))
    return take(message.free, size);
  if (follows(" allowed")) return take(message.allowed, size);
  if (follows(" already allocated") || follows(" is allocated by PyTorch"))
    return take(message.allocated, size);
  if (follows(" allocated in private pools")) return take(message.private_pools, size);
  if (follows(" is reserved by PyTorch but unallocated")) return take(message.unallocated, size);
  if (follows(" reserved in total by PyTorch")) return take(totals.reserved, size);
  if (follows(" cached")) return take(totals.cached, size);
  if (!follows(" memory in use")) return;
  if (before.ends_with("this process has ")) return take(message.process, size);
  const std::string_view near = before.substr(before.size() - std::min<std::size_t>(before.size(), 40));
  const auto id = number_behind(near, "Process ");
  if (id && before.ends_with(fmt::format("Process {} has ", *id)) && size < kNoCard)
    message.others.push_back({*id, size});
}

/// Up to the last figure that every version's message ends with, or the next message.
std::string_view message_in(std::string_view text, std::size_t begin) {
  std::size_t end = std::min(text.find(kAsked, begin + kAsked.size()), begin + kLongest);
  for (const std::string_view last :
       {"is reserved by PyTorch but unallocated", "reserved in total by PyTorch", " cached)"})
    if (const std::size_t at = text.find(last, begin); at < end) end = std::min(end, at + last.size());
  return text.substr(begin, end - begin);
}

/// The number in "GPU 3 has" or "(GPU 3;".
std::optional<int> gpu_of(std::string_view message) {
  for (const std::string_view word : {"GPU ", "Device "}) {
    const std::size_t at = message.find(word);
    if (at == std::string_view::npos) continue;
    int value = 0;
    const char* begin = message.data() + at + word.size();
    const auto [end, error] = std::from_chars(begin, message.data() + message.size(), value);
    if (error == std::errc() && end != begin && value >= 0) return value;
  }
  return std::nullopt;
}

/// Reads the rank from the prefix of a message: "[rank3]: torch.OutOfMemoryError: ".
std::optional<int> rank_of(std::string_view before) {
  const std::size_t from = before.size() - std::min<std::size_t>(before.size(), 120);
  const auto rank = number_behind(before.substr(from), "[rank");
  return rank && *rank < 1'000'000 ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

std::optional<std::string> device_of(std::string_view before) {
  before = before.substr(before.size() - std::min<std::size_t>(before.size(), 40));
  const std::size_t at = before.rfind(" out of memory");
  if (at == std::string_view::npos) return std::nullopt;
  for (const std::string_view name : {"CUDA", "HIP", "XPU"})
    if (before.substr(0, at).ends_with(name)) return std::string(name);
  return std::nullopt;
}

void settle(OomMessage& message, const Totals& totals) {
  if (totals.reserved && message.allocated && !message.unallocated)
    message.unallocated = std::max(*totals.reserved - *message.allocated, Bytes{});
  if (totals.cached && !message.unallocated) message.unallocated = totals.cached;
  // In a container the driver's ids are another's: this process is then listed like a stranger.
  const auto reserved = message.reserved();
  if (message.process || !reserved || message.others.empty()) return;
  const Bytes least = *reserved - kMiB * 16;  // printed with two decimals of a GiB
  const auto own = std::find_if(message.others.begin(), message.others.end(),
                                [least](const auto& each) { return each.size >= least; });
  if (own == message.others.end()) return;
  message.process = own->size;
  message.others.erase(own);
}

std::optional<OomMessage> message_at(const Plain& plain, std::size_t begin) {
  const std::string_view text = plain.text;
  const auto device = device_of(text.substr(0, begin));
  const auto asked = size_at(text.substr(begin + kAsked.size()));
  if (!device || !asked || asked->size >= kNoCard) return std::nullopt;
  OomMessage message;
  message.device = *device, message.asked = asked->size;
  message.asked_text = text.substr(begin + kAsked.size(), asked->length);
  message.line = plain.line_of[begin];
  const std::string_view whole = message_in(text, begin);
  message.gpu = gpu_of(whole);
  message.rank = rank_of(text.substr(0, begin));
  Totals totals;
  for (std::size_t i = kAsked.size() + asked->length; i < whole.size(); ++i) {
    if (!is_digit(whole[i]) || is_digit(whole[i - 1]) || whole[i - 1] == '.') continue;
    const auto found = size_at(whole.substr(i));
    if (!found) continue;
    take_figure(message, totals, found->size, whole.substr(0, i), text.substr(begin + i + found->length, 48));
    i += found->length - 1;
  }
  settle(message, totals);
  return message;
}

/// A message of a source other than PyTorch's allocator: words of one line.
struct OtherMessage {
  OomSource source{};
  std::string_view words;   ///< in the line
  std::string_view also{};  ///< in the line too; empty: nothing more
};

// Source of the wording: NCCL src/include/checks.h CUDACHECK; vLLM v1/worker/utils.py request_memory,
// v1/core/kv_cache_utils.py, csrc/cumem_allocator.cpp; torch c10/core/impl/alloc_cpu.cpp,
// elastic/multiprocessing/api.py; Linux mm/oom_kill.c; bash's and Kubernetes' words for signal 9.
constexpr std::array kOthers{
    OtherMessage{OomSource::sleep, "cumem_allocator.cpp", "out of memory"},
    OtherMessage{OomSource::sleep, "cumem_allocator.cpp", "CUDA Error"},
    OtherMessage{OomSource::nccl, "Cuda failure", "out of memory"},
    OtherMessage{OomSource::nccl, "NCCL", "out of memory"},
    OtherMessage{OomSource::engine, "Free memory on device", "GPU memory utilization"},
    OtherMessage{OomSource::cache, "No available memory for the cache blocks"},
    OtherMessage{OomSource::cache, "KV cache is needed"},
    OtherMessage{OomSource::cache, "tokens that can be stored in KV cache"},
    OtherMessage{OomSource::host, "DefaultCPUAllocator", "allocate memory"},
    OtherMessage{OomSource::host, "Cannot allocate memory"},
    OtherMessage{OomSource::host, "Memory cgroup out of memory"},
    OtherMessage{OomSource::host, "Out of memory: Killed process"},
    OtherMessage{OomSource::host, "oom-kill"},
    OtherMessage{OomSource::host, "oom_kill"},
    OtherMessage{OomSource::host, "OOMKilled"},
    OtherMessage{OomSource::host, "exitcode", "-9"},
    OtherMessage{OomSource::host, "exit code", "-9"},
    OtherMessage{OomSource::host, "exit code", "137"},
    OtherMessage{OomSource::host, "exit status", "137"},
    OtherMessage{OomSource::host, "exit status", "-9"},
    OtherMessage{OomSource::host, "Signal 9"},
    OtherMessage{OomSource::host, "SIGKILL"},
    OtherMessage{OomSource::cuda, "CUDA error: out of memory"},
    OtherMessage{OomSource::cuda, "cudaErrorMemoryAllocation"},
    OtherMessage{OomSource::cuda, "CUDA_ERROR_OUT_OF_MEMORY"}};

std::string_view what_was_asked(OomSource source) {
  switch (source) {
    case OomSource::pytorch: break;
    case OomSource::cuda: return "CUDA, outside PyTorch's allocator";
    case OomSource::nccl: return "NCCL's buffers";
    case OomSource::engine: return "vLLM's share of the GPU";
    case OomSource::cache: return "vLLM's keys and values";
    case OomSource::sleep: return "vLLM, where it wakes from sleep";
    case OomSource::host: return "host memory";
  }
  return "";
}

/// True if the shell says of a line's process that it was killed: "Killed", "line 3:  77 Killed  python
/// train.py".
bool says_killed(std::string_view line) {
  constexpr std::string_view kWord = "Killed";
  const std::size_t at = line.find(kWord);
  if (at == std::string_view::npos) return false;
  const std::string_view before = line.substr(0, at), behind = line.substr(at + kWord.size());
  if (before.find(": line ") != std::string_view::npos) return behind.empty() || behind.front() == ' ';
  return before.find_first_not_of(" \t0123456789[]+") == std::string_view::npos &&
         behind.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::optional<OomSource> other_source(std::string_view line) {
  for (const OtherMessage& each : kOthers)
    if (line.find(each.words) != std::string_view::npos && line.find(each.also) != std::string_view::npos)
      return each.source;
  return says_killed(line) ? std::optional(OomSource::host) : std::nullopt;
}

/// Returns the first message of each source but PyTorch's allocator.
std::vector<OomMessage> read_other_messages(std::string_view text) {
  std::vector<OomMessage> messages;
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const Plain line = plain(text.substr(at, end - at));
    at = end + 1;
    const auto source = other_source(line.text);
    const auto has = [&](const OomMessage& each) { return each.source == *source; };
    if (!source || std::any_of(messages.begin(), messages.end(), has)) continue;
    OomMessage message;
    message.source = *source;
    message.device = *source == OomSource::host ? "host" : "CUDA";
    message.line = number;
    message.rank =
        rank_of(std::string_view(line.text).substr(0, std::min<std::size_t>(line.text.size(), 120)));
    message.asked_text = what_was_asked(*source);
    messages.push_back(std::move(message));
  }
  return messages;
}

bool same_event(OomMessage a, const OomMessage& b) {
  a.line = b.line;
  return a == b;
}

}  // namespace

std::optional<Bytes> OomMessage::reserved() const {
  if (!allocated || !unallocated) return std::nullopt;
  return *allocated + *unallocated;
}

std::vector<OomMessage> read_oom_messages(std::string_view text) {
  const Plain whole = plain(text);
  std::vector<OomMessage> messages;
  for (std::size_t at = whole.text.find(kAsked); at != std::string::npos;
       at = whole.text.find(kAsked, at + 1)) {
    auto message = message_at(whole, at);
    if (message && std::none_of(messages.begin(), messages.end(),
                                [&](const OomMessage& each) { return same_event(each, *message); }))
      messages.push_back(std::move(*message));
  }
  return messages.empty() ? read_other_messages(text) : messages;
}

std::string torch_size(Bytes size) {
  const auto in = [size](Bytes unit) {
    return static_cast<double>(size.value) / static_cast<double>(unit.value);
  };
  if (size <= kKiB) return fmt::format("{} bytes", size.value);
  if (size <= kMiB) return fmt::format("{:.2f} KiB", in(kKiB));
  if (size <= kGiB) return fmt::format("{:.2f} MiB", in(kMiB));
  return fmt::format("{:.2f} GiB", in(kGiB));
}

}  // namespace zplan
