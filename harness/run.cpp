#include "harness/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "harness/control.h"
#include "harness/measure.h"
#include "harness/replay.h"
#include "harness/report.h"
#include "models/base/error.h"
#include "models/base/version.h"

namespace zplan::bench {

namespace {

/// Reports bad input that all ranks know of.
class AllAgree : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns what all ranks must agree on. Leaves out --output, which concerns rank 0 alone.
Json agreed(std::vector<std::string> arguments) {
  for (auto at = arguments.begin(); at != arguments.end();) {
    const bool named = *at == "-o" || *at == "--output";
    at = named ? arguments.erase(at, std::min(at + 2, arguments.end())) : at + 1;
  }
  return {{"version", std::string(version())}, {"arguments", std::move(arguments)}};
}

/// Throws InputError if ranks were started differently: they would wait for each other's calls.
void fail_if_ranks_differ(Control& control, const std::vector<std::string>& arguments) {
  const std::vector<std::string> all = control.all_gather(agreed(arguments).dump());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const Json first = Json::parse(all[0]), other = Json::parse(all[rank]);
    const char* what = first["version"] != other["version"] ? "version" : "arguments";
    throw InputError("bench",
                     fmt::format("rank {} runs with {} {}, rank 0 with {}", rank, what, other[what].dump(),
                                 first[what].dump()),
                     "needed: the same program and options everywhere");
  }
}

/// Runs `act` on all ranks and makes an InputError of one, such as of a file on its host, one of all.
template <class Do>
void agree(Control& control, const Do& act) {
  std::string wrong;
  try {
    act();
  } catch (const InputError& error) {
    wrong = error.what();
  }
  const std::vector<std::string> all = control.all_gather(wrong);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      throw AllAgree(rank == 0 ? all[rank] : fmt::format("rank {}: {}", rank, all[rank]));
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

/// Returns an entry per host, in the order of their first ranks.
Json hosts_json(const std::vector<std::string>& names, const std::vector<std::string>& descriptions) {
  Json hosts = Json::array();
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const Json& each) { return each["name"] == names[rank]; });
    if (known != hosts.end()) {
      (*known)["ranks"].push_back(rank);
      continue;
    }
    Json host = Json::parse(descriptions[rank]);
    host["name"] = names[rank], host["ranks"] = {rank};
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Json head(const std::vector<std::string>& arguments, const Identity& identity,
          const std::vector<std::string>& names, const Json& hosts, bool share_gpu) {
  std::vector<std::string> command{"zplan-bench"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return {{"schema", "zplan.bench/1"},
          {"zplan_version", std::string(version())},
          {"command", command},
          {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"complete", false},
          {"stopped", nullptr},
          {"backend", identity.backend},
          {"library", identity.library},
          {"driver", or_null(identity.driver)},
          {"cuda", or_null(identity.cuda)},
          {"ranks", names.size()},
          {"nodes", hosts.size()},
          {"share_gpu", share_gpu},
          {"hosts", hosts}};
}

/// Returns the commands that read the written file.
std::string next_text(const Json& document, const std::string& path) {
  if (path.empty()) return "";
  std::string out;
  if (!document["collectives"].empty() || !document["copies"].empty())
    out += fmt::format("  zplan hardware import {} --output profile.json\n", path);
  if (!document["replay"].is_null()) out += fmt::format("  zplan check {}\n", path);
  return out.empty() ? out : "\nNext\n" + out;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void warn(const std::string& line) { std::fprintf(stderr, "zplan: bench: %s\n", line.c_str()); }

/// Runs one rank, once all are connected.
class Run {
 public:
  Run(const Options& options, const std::vector<std::string>& arguments, Backend& backend,
      const Machine& machine)
      : options_(options),
        arguments_(arguments),
        backend_(backend),
        machine_(machine),
        first_(backend.control().rank() == 0),
        // Ranks that wait for the same one give up one after another, so that only the first prints.
        watchdog_(options.timeout, Seconds(0.5 * backend.control().rank()),
                  [this](const std::string& reason) { give_up(reason); }) {}

  int measure_all();

 private:
  void meet();
  void give_up(const std::string& reason);
  [[nodiscard]] bool measure_collectives(Session& session);
  void measure_machine(Session& session);
  [[nodiscard]] bool replay_plan(Session& session, const PlannedStep& step);
  void deliver(const Session& session);
  [[nodiscard]] bool prints() const { return first_ && !options_.json; }

  const Options& options_;
  const std::vector<std::string>& arguments_;
  Backend& backend_;
  const Machine& machine_;
  const bool first_;
  std::vector<std::string> names_;  ///< of hosts, by rank
  std::unique_ptr<Recorder> recorder_;
  Watchdog watchdog_;  ///< last: it ends first
};

/// Called by the watchdog's thread if the rank's own hangs.
void Run::give_up(const std::string& reason) {
  const bool asked = StopSignals::asked() != StopSignals::Asked::nothing;
  // After a signal to all ranks only the first reports what it was doing.
  if (!asked) warn(fmt::format("rank {} on {}: {}", backend_.control().rank(), host_name(), reason));
  if (asked && first_) warn(reason);
  try {
    if (recorder_ != nullptr) recorder_->write(asked ? "interrupted" : reason);
  } catch (const std::exception& error) {
    warn(error.what());
  }
  backend_.abort();
  _exit(kFailed);
}

void Run::meet() {
  Control& control = backend_.control();
  watchdog_.begin("meeting the other ranks");
  fail_if_ranks_differ(control, arguments_);
  agree(control, [this] {
    if (first_ && !options_.output.empty()) check_writable(options_.output);
  });
  names_ = control.all_gather(host_name());
  const Json hosts = hosts_json(names_, control.all_gather(machine_.host ? machine_.host().dump() : "{}"));
  const Identity identity = backend_.identity();
  const bool share_gpu = options_.share_gpu && identity.backend == to_name(BackendChoice::nccl);
  recorder_ = std::make_unique<Recorder>(head(arguments_, identity, names_, hosts, share_gpu),
                                         first_ ? options_.output : "");
  if (prints()) print(opening_text(recorder_->document("")));
}

bool Run::measure_collectives(Session& session) {
  if (options_.measured_operations().empty()) return true;
  if (prints()) print("\n" + table_head());
  return sweep(session, [this](const Measurement& found) {
    if (prints()) print(table_line(found));
  });
}

/// Runs on rank 0 alone, since GPUs of one host share its PCIe lanes and drives.
void Run::measure_machine(Session& session) {
  const auto measure = [&](const std::function<void(Recorder&)>& act) {
    if (!act || !session.goes_on()) return;
    if (const std::string wrong = session.on_rank_0([&] { act(*recorder_); }); !wrong.empty())
      throw AllAgree(wrong);
  };
  if (options_.calibrate) measure(machine_.device);
  if (!options_.storage.empty()) measure(machine_.storage);
  if (prints()) print(machine_text(recorder_->document("")));
}

bool Run::replay_plan(Session& session, const PlannedStep& step) {
  if (options_.plan.empty() || !session.goes_on()) return true;
  const bool right = replay(session, step);
  const Json replayed = recorder_->document("")["replay"];
  if (prints() && !replayed.is_null()) print("\n" + replay_text(replayed));
  return right;
}

void Run::deliver(const Session& session) {
  recorder_->write(session.stopped());
  if (options_.json)
    print(recorder_->document(session.stopped()).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (prints() && !options_.quiet) print(next_text(recorder_->document(""), options_.output));
  if (!session.stopped().empty()) warn(session.stopped() + ": what was measured so far is kept");
}

int Run::measure_all() {
  meet();
  PlannedStep step;
  agree(backend_.control(), [&] {
    if (!options_.plan.empty()) step = read_plan(options_.plan, backend_.control().size());
  });
  Session session(options_, backend_, watchdog_, *recorder_, names_);
  session.progress = warn, session.sent = machine_.sent;
  bool right = measure_collectives(session);
  measure_machine(session);
  right = replay_plan(session, step) && right;
  agree(backend_.control(), [&] {
    if (first_) deliver(session);
  });
  return right ? kDone : kFailed;
}

}  // namespace

int run(const Options& options, const std::vector<std::string>& arguments, Backend& backend,
        const Machine& machine) {
  int status = kDone;
  std::string wrong;
  try {
    status = Run(options, arguments, backend, machine).measure_all();
  } catch (const AllAgree& error) {
    wrong = error.what();
  } catch (const InputError& error) {
    wrong = error.what();
  }
  const bool first = backend.control().rank() == 0;
  if (!wrong.empty()) status = kBadInput;
  if (first && !wrong.empty()) std::fprintf(stderr, "zplan: %s\n", wrong.c_str());
  // Launchers end all ranks if one fails, so rank 0 alone returns a failure, and only after all are here.
  backend.control().barrier();
  return first ? status : kDone;
}

}  // namespace zplan::bench
