// `zplan hardware import`: measurements → a GPU's profile.

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/report/report.h"
#include "hardware_profiles/profiles.h"
#include "models/base/json_reader.h"
#include "planner/calibration/import_profile.h"

namespace zplan {

namespace {

std::vector<check::Document> documents_of(const Options& options) {
  std::vector<check::Document> documents;
  for (const std::string& path : options.words) documents.push_back(check::recognised(read_file(path), path));
  if (documents.empty())
    throw InputError("hardware import", "no file", "needed: nccl-tests logs or zplan-bench results");
  return documents;
}

/// What is handed out must be what the program reads.
std::string profile_text(const Gpu& gpu) {
  const std::string text = json_text(write_gpu(gpu));
  const Json json = parse_json(text, gpu.name);
  (void)read_profiles(JsonReader(json, gpu.name));
  return text;
}

}  // namespace

void hardware_import(const Options& options, const Environment& environment, std::ostream& out,
                     std::ostream& err) {
  const HardwareProfiles hardware = with_user_profiles(user_hardware_folder(environment));
  const check::ImportedProfile imported =
      check::import_profile(documents_of(options), {.hardware = hardware,
                                                    .gpu = options.cluster.gpu,
                                                    .node = options.cluster.node,
                                                    .network = options.cluster.network,
                                                    .name = options.profile_name});
  const std::string text = profile_text(imported.gpu);
  for (const std::string& note : imported.notes) err << fmt::format("zplan: note: {}\n", note);
  if (options.output.empty() || options.output == "-") {
    out << text;
    return;
  }
  write_file(options.output, text, "--output");
  err << fmt::format("zplan: wrote {}: zplan --gpu {} …\n", options.output, options.output);
}

}  // namespace zplan
