#pragma once
// What is on this host.

#include <functional>
#include <optional>
#include <string>

#include "harness/machine/host.h"

namespace zplan::bench {

/// Where to look; the defaults are this host.
struct HostSources {
  std::string root{"/"};                  ///< folder with proc/ and sys/
  std::string nvml{"libnvidia-ml.so.1"};  ///< as dlopen(3) takes it
  /// Output of a command line; nothing where it cannot be run or fails.
  std::function<std::optional<std::string>(const std::string& command)> run{};
};

/// The default of HostSources::run: by the shell, without its errors.
[[nodiscard]] std::optional<std::string> output_of(const std::string& command);

/// Cards and links are asked of the driver (NVML), else of nvidia-smi, else the cards are read from the PCI
/// bus. What cannot be found out is left empty and noted; nothing here throws.
[[nodiscard]] Host read_host(const HostSources& sources = {});

}  // namespace zplan::bench
