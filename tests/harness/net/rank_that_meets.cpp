// A rank that meets the others of its launch: exits with 0 where as many came as its environment says.

#include <chrono>
#include <cstdio>
#include <exception>

#include "harness/net/environment.h"
#include "harness/net/tcp_control.h"

int main() {
  using namespace std::chrono_literals;
  try {
    const zplan::bench::Place place = zplan::bench::read_place(zplan::bench::process_variables());
    if (place.launcher != zplan::bench::Launcher::local) return 1;
    return static_cast<int>(zplan::bench::TcpControl(place, 60s).all_gather("x").size()) == place.size ? 0
                                                                                                       : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
