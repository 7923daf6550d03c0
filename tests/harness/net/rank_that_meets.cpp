// A rank that meets the others of its launch: exits with 0 if as many came as its environment says.

#include <cstdio>
#include <exception>

#include "harness/net/controls.h"

int main() {
  using namespace zplan::bench;
  try {
    const Place place = read_place(process_variables());
    if (place.launcher != Launcher::local) return 1;
    MemoryControl control(std::make_shared<SharedMemory>(place.memory, place.size), place.rank,
                          zplan::Seconds(60));
    return static_cast<int>(control.all_gather("x").size()) == place.size ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
