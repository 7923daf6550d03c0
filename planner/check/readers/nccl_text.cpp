#include <regex>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/nccl_log.h"
#include "planner/check/readers/run_options.h"
#include "planner/check/readers/text_lines.h"

namespace zplan::check {

namespace {

/// A line of the table: "size count type [redop] [root] time algbw busbw #wrong time …".
struct TableRow {
  Bytes size;
  double count{};
  bool reduces{};
  double root{-1};
  Seconds time;
};

/// Without the program's name the table tells: what reduces has an operator, what has a root names it, and an
/// all_reduce counts its whole buffer. An all-to-all looks as an all_gather does, and sends as much.
Operation told_by(const TableRow& row) {
  constexpr double kLargestElement = 8;
  if (row.root >= 0) return row.reduces ? Operation::reduce : Operation::broadcast;
  if (!row.reduces) return Operation::all_gather;
  const bool whole = static_cast<double>(row.size.value) <= row.count * kLargestElement;
  return whole ? Operation::all_reduce : Operation::reduce_scatter;
}

/// "#  Rank  0 Group  0 Pid 1234 on host device  0 [0x07] NVIDIA A100-SXM4-80GB", "Group" since 2.13.
void read_rank(std::string_view line, NcclLog& log) {
  static const std::regex rank(R"(^#\s+Rank\s+\d+\s.*\son\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)$)");
  std::match_results<std::string_view::const_iterator> found;
  if (!std::regex_match(line.begin(), line.end(), found, rank)) return;
  ++log.ranks;
  log.hosts.insert(found[1].str());
  log.card = found[2].str();
}

/// "# nccl-tests version 2.16.7 nccl-headers=22703 nccl-library=22703", since nccl-tests 2.16.
void read_version(std::string_view line, NcclLog& log) {
  static const std::regex version(R"(nccl-library=(\d{1,7}))");
  std::match_results<std::string_view::const_iterator> found;
  if (line.starts_with("#") && std::regex_search(line.begin(), line.end(), found, version))
    log.library = nccl_version(std::stoll(found[1].str()));
}

class TableReader {
 public:
  TableReader(const std::string& source, bool has_root) : source_(source), has_root_(has_root) {}

  [[nodiscard]] TableRow row(std::string_view line, std::size_t number) const {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < kFewestWords) fail_at(source_, number, line, "a whole line of nccl-tests' table");
    TableRow row;
    row.size = Bytes(
        static_cast<std::int64_t>(number_at(words[0], 0, static_cast<double>(kMostBytes), source_, number)));
    row.count = number_at(words[1], 0, static_cast<double>(kMostBytes), source_, number);
    std::size_t next = 3;  // behind the type
    if (!is_number(words[next])) row.reduces = words[next++] != "none";
    if (has_root_) row.root = number_at(word(words, next++, line, number), -1, kMostRanks, source_, number);
    constexpr double kMicroseconds = 1e-6;
    row.time = Seconds(kMicroseconds * number_at(word(words, next, line, number), 0,
                                                 kMostSeconds / kMicroseconds, source_, number));
    return row;
  }

 private:
  static constexpr std::size_t kFewestWords = 6;
  [[nodiscard]] std::string_view word(const std::vector<std::string_view>& words, std::size_t index,
                                      std::string_view line, std::size_t number) const {
    if (index >= words.size()) fail_at(source_, number, line, "a whole line of nccl-tests' table");
    return words[index];
  }
  const std::string& source_;
  bool has_root_;
};

bool is_row(std::string_view line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first != std::string_view::npos && line[first] >= '0' && line[first] <= '9';
}

bool is_heading(std::string_view line) {
  return line.starts_with("#") && line.find("size") != std::string_view::npos &&
         line.find("busbw") != std::string_view::npos;
}

}  // namespace

NcclLog nccl_log(std::string_view text, const std::string& source) {
  NcclLog log;
  const std::vector<std::string_view> lines = lines_of(text);
  std::vector<TableRow> rows;
  bool in_table = false, has_root = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    read_rank(lines[i], log);
    read_version(lines[i], log);
    if (is_heading(lines[i]))
      in_table = true, has_root = lines[i].find("root") != std::string_view::npos;
    else if (in_table && is_row(lines[i]))
      rows.push_back(TableReader(source, has_root).row(lines[i], i + 1));
  }
  if (rows.empty()) throw InputError(source, "no measured sizes", "accepted: a whole log of nccl-tests");
  log.operation = operation_of_program(text).value_or(told_by(rows.back()));
  for (const TableRow& row : rows)
    if (row.size.value > 0 && row.time.value > 0) log.calls.push_back({log.operation, row.size, row.time});
  return log;
}

std::vector<Case> read_nccl_text(std::string_view text, const std::string& source, const Given& given) {
  return {nccl_case(nccl_log(text, source), source, given)};
}

}  // namespace zplan::check
