#include "harness/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "harness/error.h"
#include "harness/measure.h"
#include "harness/replay.h"
#include "harness/report.h"
#include "models/base/error.h"
#include "models/base/version.h"

namespace zplan::bench {

namespace {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// What all ranks must have been told alike. --output is rank 0's own business.
Json agreed(std::vector<std::string> arguments) {
  for (auto at = arguments.begin(); at != arguments.end();) {
    const bool named = *at == "-o" || *at == "--output";
    at = named ? arguments.erase(at, std::min(at + 2, arguments.end())) : at + 1;
  }
  return {{"version", std::string(version())}, {"arguments", std::move(arguments)}};
}

/// Ranks that were started differently would wait for each other's calls.
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

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

/// One entry per host, in the order of their first ranks.
Json hosts_json(const std::vector<std::string>& names, const std::vector<std::string>& descriptions) {
  Json hosts = Json::array();
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const Json& each) { return each["name"] == names[rank]; });
    if (known != hosts.end()) {
      (*known)["ranks"].push_back(rank);
      continue;
    }
    Json host = {{"name", names[rank]}, {"ranks", {rank}}};
    host.update(Json::parse(descriptions[rank]));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Json head(const std::vector<std::string>& arguments, const Identity& identity,
          const std::vector<std::string>& names, const Json& hosts) {
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
          {"hosts", hosts}};
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// A line on stderr: over the one before where it is a terminal.
void warn(const std::string& line) { std::fprintf(stderr, "zplan: bench: %s\n", line.c_str()); }

}  // namespace

int run(const Options& options, const std::vector<std::string>& arguments, Backend& backend) {
  Control& control = backend.control();
  const bool first = control.rank() == 0;
  std::unique_ptr<Recorder> recorder;
  // Which rank speaks first where all wait for one: a little apart, so that one line is printed.
  Watchdog watchdog(options.timeout, Seconds(0.5 * control.rank()), [&](const std::string& reason) {
    const bool asked = StopSignals::asked() != StopSignals::Asked::nothing;
    warn(asked ? reason : fmt::format("rank {} on {}: {}", control.rank(), host_name(), reason));
    if (first && recorder != nullptr) try {
        recorder->write(asked ? "interrupted" : reason);
      } catch (const std::exception& error) {
        warn(error.what());
      }
    backend.abort();
    _exit(kFailed);
  });
  if (first && !options.output.empty()) check_writable(options.output);
  watchdog.begin("meeting the other ranks");
  fail_if_ranks_differ(control, arguments);
  const std::vector<std::string> names = control.all_gather(host_name());
  const Json hosts = hosts_json(names, control.all_gather(Json::object().dump()));
  recorder = std::make_unique<Recorder>(head(arguments, backend.identity(), names, hosts),
                                        first ? options.output : "");
  Session session(options, backend, watchdog, *recorder, names);
  session.progress = warn;
  const bool prints = first && !options.json;
  if (prints) print(opening_text(recorder->document("")));
  bool right = true;
  if (!options.measured_operations().empty()) {
    if (prints) print("\n" + table_head());
    right = sweep(session, [&](const Measurement& found) {
      if (prints) print(table_line(found));
    });
  }
  if (!options.plan.empty() && session.goes_on()) {
    right = replay(session, read_plan(options.plan, control.size())) && right;
    if (const Json replayed = recorder->document("")["replay"]; prints && !replayed.is_null())
      print("\n" + replay_text(replayed));
  }
  if (!first) return right ? kDone : kFailed;
  recorder->write(session.stopped());
  if (options.json)
    print(recorder->document(session.stopped()).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!session.stopped().empty()) warn(session.stopped() + ": what was measured so far is kept");
  return right ? kDone : kFailed;
}

}  // namespace zplan::bench
