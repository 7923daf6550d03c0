// Stands in for libnvidia-ml.so.1 as far as the harness asks it.

#include <cstring>

extern "C" {
int nvmlInit_v2();
int nvmlShutdown();
int nvmlSystemGetDriverVersion(char* version, unsigned int length);

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  constexpr char text[] = "999.01.02";
  if (length < sizeof text) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
  std::memcpy(version, text, sizeof text);
  return 0;
}
}
