#include <string>
#include <vector>

#include "cli/process.h"

int main(int count, char** values) {
  return zplan::run_process(std::vector<std::string>(values + (count > 0 ? 1 : 0), values + count));
}
