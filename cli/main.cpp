// The process around run(): arguments, environment, streams, and the only catch.

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "cli/run.h"
#include "models/base/error.h"

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "zplan: %s\n", what);
  return zplan::kBadInput;
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::vector<std::string> arguments(values + (count > 0 ? 1 : 0), values + count);
    const int status = zplan::run(arguments, zplan::read_environment(), std::cout, std::cerr);
    if (!std::cout.flush()) return fail("stdout cannot be written");
    return status;
  } catch (const zplan::InputError& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail((std::string("internal error: ") + error.what()).c_str());
  }
}
