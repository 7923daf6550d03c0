// The process around run(): arguments, bootstrap, and the only catch.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "harness/error.h"
#include "harness/mpi/mpi_backend.h"
#include "harness/run.h"
#include "models/base/error.h"

namespace {

using namespace zplan;
using namespace zplan::bench;

int fail(const char* what, int status) {
  std::fprintf(stderr, "zplan: %s\n", what);
  std::fflush(stderr);
  return status;
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::vector<std::string> arguments(values + (count > 0 ? 1 : 0), values + count);
    const Options options = parse_options(arguments);
    if (options.help) return std::fputs(help_text().c_str(), stdout), kDone;
    const std::unique_ptr<Backend> backend = make_mpi_backend();
    return run(options, arguments, *backend);
  } catch (const InputError& error) {
    return fail(error.what(), kBadInput);
  } catch (const BenchError& error) {
    return fail((std::string("bench: ") + error.what()).c_str(), kFailed);
  } catch (const std::exception& error) {
    return fail((std::string("internal error: ") + error.what()).c_str(), kBadInput);
  }
}
