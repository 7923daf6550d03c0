#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "models/base/pattern.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/text_lines.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

/// Figures of see_memory_usage: GiB under the name GB, rounded to a hundredth, and the last one to whole GiB.
/// It resets the peaks. Source: DeepSpeed 0.19.8 runtime/utils.py.
struct MemoryLine {
  double max_allocated{}, reserved{}, max_reserved{};
};
constexpr double kHundredth = 0.005, kWhole = 0.5;  // what rounding may hide

double gib(double value) { return value * static_cast<double>(kGiB.value); }

std::optional<MemoryLine> memory_line(std::string_view line, const std::string& source, std::size_t number) {
  static const Pattern usage(R"(MA (\S+) GB\s+Max_MA (\S+) GB\s+CA (\S+) GB\s+Max_CA (\S+) GB)");
  const std::optional<Pattern::Match> found = usage.find(line);
  if (!found) {
    if (line.find("Max_MA") != std::string_view::npos)
      fail_at(source, number, line, "a whole line of see_memory_usage");
    return std::nullopt;
  }
  constexpr double kMost = 1e6;
  const auto value = [&](std::size_t group) { return number_at((*found)[group], 0, kMost, source, number); };
  return MemoryLine{value(2), value(3), value(4)};
}

/// DeepSpeed's own labels while it initialises.
bool labels_initialisation(std::string_view line) {
  for (const std::string_view words : {"DeepSpeed Engine: After", "initialize", "initializing", "partitions"})
    if (line.find(words) != std::string_view::npos) return true;
  return false;
}

/// Lines behind the initialisation, which peaks on its own and is not what a plan predicts. A label stands
/// above its figures.
std::vector<MemoryLine> memory_of_training(const std::vector<std::string_view>& lines,
                                           const std::string& source) {
  std::vector<MemoryLine> found;
  bool initialising = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto usage = memory_line(lines[i], source, i + 1);
    if (!usage) {
      if (labels_initialisation(lines[i])) initialising = true, found.clear();
      continue;
    }
    if (!initialising) found.push_back(*usage);
    initialising = false;
  }
  return found;
}

MeasuredMemory peaks(const std::vector<MemoryLine>& lines) {
  double allocated = 0, reserved = 0, max_reserved = 0;
  for (const MemoryLine& line : lines) {
    allocated = std::max(allocated, line.max_allocated);
    reserved = std::max(reserved, line.reserved);
    max_reserved = std::max(max_reserved, line.max_reserved);
  }
  const double least = std::max(reserved - kHundredth, max_reserved - kWhole);
  return {{{Statistic::allocated, {gib(allocated - kHundredth), gib(allocated + kHundredth)}},
           {Statistic::reserved, {gib(least), gib(std::max(least, max_reserved + kWhole))}}},
          {}};
}

/// "1.32 GB" of the communication logger, in powers of 1024.
Bytes message_size(std::string_view value, std::string_view unit, const std::string& source,
                   std::size_t line) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KB", "MB", "GB", "TB"};
  const auto* const known = std::find(kUnits.begin(), kUnits.end(), unit);
  if (known == kUnits.end()) fail_at(source, line, unit, "B, KB, MB, GB or TB");
  double size = number_at(value, 0, 1024, source, line);
  for (const auto* at = kUnits.begin(); at != known; ++at) size *= 1024;
  return Bytes(static_cast<std::int64_t>(size));
}

std::optional<Operation> operation_of(std::string_view name) {
  for (const auto& [operation, prefix] : EnumNames<Operation>::table)
    if (name == prefix || (name.starts_with(prefix) && name[prefix.size()] == '_')) return operation;
  return std::nullopt;
}

/// The table that log_summary prints: an operation's name at the start of a line, then an indented line per
/// message size: size, count, total and average latency in milliseconds, two bandwidths. The size of an
/// all_gather is one rank's part. Source: DeepSpeed 0.19.8 utils/comms_logging.py, comm/comm.py.
class CommunicationTable {
 public:
  CommunicationTable(const std::string& source, std::int64_t ranks) : source_(source), ranks_(ranks) {}

  void read(std::string_view line, std::size_t number) {
    if (line.find("Comm. Op") != std::string_view::npos) {
      inside_ = line.find("tput_avg") != std::string_view::npos;  // not the table of stragglers
      operation_.reset();
    } else if (inside_ && !line.empty() && line.front() != ' ') {
      operation_ = operation_of(words_of(line).front());
    } else if (inside_ && operation_ && !words_of(line).empty()) {
      read_size(words_of(line), line, number);
    }
  }
  [[nodiscard]] std::vector<TimedCall> take() { return std::move(calls_); }

 private:
  void read_size(const std::vector<std::string_view>& words, std::string_view line, std::size_t number) {
    if (words.front() == "0B") return;
    constexpr std::size_t kColumns = 7;  // a size is two words
    if (words.size() != kColumns)
      fail_at(source_, number, line, "a whole line of the communication logger's table");
    Bytes size = message_size(words[0], words[1], source_, number);
    if (*operation_ == Operation::all_gather) size = size * ranks_;
    constexpr double kMilliseconds = 1e-3, kMost = 1e9;
    const double latency = number_at(words[4], 0, kMost, source_, number) * kMilliseconds;
    if (size.value > 0 && latency > 0) calls_.push_back({*operation_, size, Seconds(latency)});
  }

  const std::string& source_;
  std::int64_t ranks_;
  bool inside_{};
  std::optional<Operation> operation_;
  std::vector<TimedCall> calls_;
};

std::vector<TimedCall> timed_calls(const std::vector<std::string_view>& lines, const std::string& source,
                                   std::int64_t ranks) {
  CommunicationTable table(source, ranks);
  for (std::size_t i = 0; i < lines.size(); ++i) table.read(lines[i], i + 1);
  return table.take();
}

}  // namespace

std::vector<Case> read_deepspeed_log(std::string_view text, const std::string& source, const Given& given) {
  if (given.plan == nullptr)
    throw InputError(source, "a log without its plan", "needed: --model, --gpus, --zero, …");
  const std::vector<std::string_view> lines = lines_of(text);
  std::vector<Case> cases;
  const auto add = [&](const char* id, Measured measured, std::optional<Setup> setup) {
    cases.push_back(
        {.id = id, .kind = Kind::log, .measured = std::move(measured), .setup = std::move(setup)});
  };
  if (const auto memory = memory_of_training(lines, source); !memory.empty())
    add("see_memory_usage", peaks(memory), *given.plan);
  if (auto calls = timed_calls(lines, source, given.plan->strategy.layout.data_ranks()); !calls.empty())
    add("comms", MeasuredCalls{given.plan->cluster, std::move(calls), {}}, std::nullopt);
  if (cases.empty())
    throw InputError(source, "nothing measured behind the initialisation",
                     "accepted: lines of see_memory_usage, or the communication logger's table");
  return cases;
}

}  // namespace zplan::check
