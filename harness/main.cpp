// The process around run(): arguments, bootstrap, and the only catch.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "harness/error.h"
#include "harness/net/environment.h"
#include "harness/parts.h"
#include "harness/run.h"
#include "harness/start.h"
#include "harness/watchdog.h"
#include "models/base/error.h"
#include "models/base/version.h"

namespace {

using namespace zplan;
using namespace zplan::bench;

int fail(const std::string& what, int status) {
  std::fprintf(stderr, "zplan: %s\n", what.c_str());
  std::fflush(stderr);
  return status;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? kDone : fail("stdout cannot be written", kBadInput);
}

int measure(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  if (options.help) return print(help_text());
  if (options.version) return print("zplan-bench " + std::string(version()) + "\n");
  if (options.topology) return print(topology_text(options.json));
  const Place place = read_place(process_variables());
  const BackendChoice choice = choose_backend(options);
  if (place.launcher == Launcher::none) return start_ranks(options, choice, arguments);
  const StopSignals signals;
  const std::unique_ptr<Backend> backend = make_backend(options, choice, place);
  return leave_status(run(options, arguments, *backend, machine_of(options, choice)));
}

/// hwloc, which MPI asks too, complains on stderr of hosts that it cannot read, as those without /sys: once
/// in every process. What is then missing stands in the host's notes. Processes that this one starts inherit
/// it.
void silence_hwloc() { setenv("HWLOC_HIDE_ERRORS", "2", 0); }

}  // namespace

int main(int count, char** values) {
  silence_hwloc();
  try {
    return measure({values + (count > 0 ? 1 : 0), values + count});
  } catch (const InputError& error) {
    return fail(error.what(), kBadInput);
  } catch (const ToldByAnother&) {
    return kFailed;
  } catch (const BenchError& error) {
    return fail(std::string("bench: ") + error.what(), kFailed);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", kFailed);
  } catch (const std::exception& error) {
    return fail(std::string("internal error: ") + error.what(), kBadInput);
  }
}
