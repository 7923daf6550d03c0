#include "planner/check/readers/nccl_log.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "models/base/pattern.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/text_lines.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

struct Program {
  std::string_view name;
  Operation operation;
};
/// Programs of nccl-tests; alltoall and sendrecv are written as one word there.
constexpr std::array kPrograms{
    Program{"all_reduce_perf", Operation::all_reduce},
    Program{"all_gather_perf", Operation::all_gather},
    Program{"reduce_scatter_perf", Operation::reduce_scatter},
    Program{"broadcast_perf", Operation::broadcast},
    Program{"alltoall_perf", Operation::all_to_all},
    Program{"sendrecv_perf", Operation::send_recv},
    Program{"reduce_perf", Operation::reduce},
};

ClusterRequest machines_of(const NcclLog& log, const std::string& place, const Given& given) {
  ClusterRequest machines = given.machines;
  const auto hosts = std::max<std::int64_t>(1, static_cast<std::int64_t>(log.hosts.size()));
  machines.gpus = log.ranks, machines.nodes = hosts;
  if (machines.gpu.empty()) {
    const auto profile = profile_of_card(given.hardware, log.card);
    if (!profile)
      throw InputError(place, in_quotes(log.card) + " is a GPU without a profile",
                       "accepted: with --gpu, the profile to take for it");
    machines.gpu = *profile;
  }
  if (log.ranks % hosts != 0)
    throw InputError(place, fmt::format("{} ranks on {} hosts", log.ranks, hosts),
                     "accepted: as many on each");
  if (hosts == 1) machines.network.clear();
  return machines;
}

std::optional<Operation> operation_of_program(std::string_view text) {
  for (const Program& program : kPrograms)
    if (text.find(program.name) != std::string_view::npos) return program.operation;
  return std::nullopt;
}

std::string nccl_version(std::int64_t code) {
  if (code <= 0) return "";
  // Since 2.9 two digits are the minor version's.
  const std::int64_t major = code >= 10'000 ? code / 10'000 : code / 1000;
  const std::int64_t minor = code >= 10'000 ? code / 100 % 100 : code / 100 % 10;
  return fmt::format("NCCL {}.{}.{}", major, minor, code % 100);
}

Case nccl_case(const NcclLog& log, const std::string& place, const Given& given) {
  if (log.ranks < 2) throw InputError(place, fmt::format("{} ranks", log.ranks), "accepted: two or more");
  if (log.calls.empty()) throw InputError(place, "no measured sizes", "accepted: a whole log of nccl-tests");
  return {.id = std::string(to_name(log.operation)),
          .kind = Kind::collectives,
          .measured =
              MeasuredCalls{assemble_cluster(machines_of(log, place, given), given.hardware), log.calls, {}}};
}

// ---- the text

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
  static const Pattern rank(R"(^#\s+Rank\s+\d+\s.*\son\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)$)");
  const std::optional<Pattern::Match> found = rank.match(line);
  if (!found) return;
  ++log.ranks;
  log.hosts.emplace((*found)[1]);
  log.card = (*found)[2];
}

/// "# nccl-tests version 2.16.7 nccl-headers=22703 nccl-library=22703", since nccl-tests 2.16.
void read_version(std::string_view line, NcclLog& log) {
  static const Pattern version(R"(nccl-library=(\d{1,7}))");
  if (!line.starts_with("#")) return;
  if (const auto found = version.find(line)) log.library = nccl_version(std::stoll(std::string((*found)[1])));
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

// ---- the JSON

Operation operation_of(const JsonReader& report) {
  const JsonReader arguments = report.at("args");
  for (const JsonReader& argument : arguments.items())
    if (const auto operation = operation_of_program(argument.text())) return *operation;
  arguments.fail("no program of nccl-tests", "accepted: all_reduce_perf, all_gather_perf, …");
}

/// One entry per process, which may drive several threads and GPUs.
void read_devices(const JsonReader& config, NcclLog& log) {
  for (const JsonReader& device : config.at("devices").items()) {
    ++log.ranks;
    log.hosts.insert(device.at("hostname").text());
    log.card = device.at("device_info").text();
  }
  log.ranks *= config.integer_or("nthreads", 1, 1, kMostBatch) * config.integer_or("ngpus", 1, 1, kMostBatch);
}

/// Times are in microseconds; a replay of a trace has none out of place.
void read_result(const JsonReader& result, NcclLog& log) {
  const auto timing = result.has("out_of_place") ? result.find("out_of_place") : result.find("in_place");
  if (!timing) return;
  constexpr double kMicroseconds = 1e-6;
  const JsonReader time = timing->at(timing->has("time") ? "time" : "cpu_time");
  const Seconds seconds(kMicroseconds * time.number(0, kMostSeconds / kMicroseconds));
  const Bytes size = bytes_at(result.at("size"));
  if (size.value > 0 && seconds.value > 0) log.calls.push_back({log.operation, size, seconds});
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

NcclLog nccl_log(const JsonReader& report) {
  NcclLog log;
  log.operation = operation_of(report);
  read_devices(report.at("config"), log);
  for (const JsonReader& result : report.at("results").items()) read_result(result, log);
  constexpr std::int64_t kMostVersion = 10'000'000;
  if (const auto code = report.find("nccl_version"); code && code->raw().is_number_integer())
    log.library = nccl_version(code->integer(0, kMostVersion));
  return log;
}

std::vector<Case> read_nccl_json(const JsonReader& report, const Given& given) {
  return {nccl_case(nccl_log(report), report.place(), given)};
}

}  // namespace zplan::check
