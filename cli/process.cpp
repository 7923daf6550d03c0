// The process around run(): environment, streams, and the only catch.

#include "cli/process.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "cli/run.h"
#include "models/base/error.h"

namespace zplan {

namespace {

int fail(const char* what, const char* kind = "") {
  std::fprintf(stderr, "zplan: %s%s\n", kind, what);
  return kBadInput;
}

}  // namespace

int run_process(const std::vector<std::string>& arguments) noexcept {
  try {
    const int status = run(arguments, read_environment(), std::cout, std::cerr);
    if (!std::cout.flush()) return fail("stdout cannot be written");
    return status;
  } catch (const InputError& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what(), "internal error: ");
  }
}

}  // namespace zplan
