#include "cli/report/output_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"
#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/launch/accelerate_config.h"
#include "planner/frameworks/launch/launch.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"

namespace zplan {

std::string config_path(const Plan& plan, const Report& report) {
  const std::string& emit = report.options.emit;
  if (!emit.empty() && emit != "-") return emit;
  return std::string(spec(plan.framework).config_file);
}

namespace {

Json line_json(const std::string& line) { return line.empty() ? Json(nullptr) : Json(line); }

Launch lines_of(const Plan& plan, const Report& report) {
  return launch_lines(plan, question_of(plan, report), config_path(plan, report));
}

}  // namespace

Json ds_config_json(const Plan& plan, const Report& report) {
  if (!spec(plan.framework).reads_ds_config) return nullptr;
  const Options& options = report.options;
  return ds_config(plan, question_of(plan, report),
                   DsConfigOptions{.style = options.config_style, .nvme_path = options.nvme_path});
}

Json fsdp_config_json(const Plan& plan, const Report& report) {
  if (!spec(plan.framework).reads_accelerate_config) return nullptr;
  return accelerate_config(plan, question_of(plan, report));
}

std::string config_text(const Plan& plan, const Report& report) {
  const FrameworkSpec& about = spec(plan.framework);
  if (about.reads_ds_config) return json_text(ds_config_json(plan, report));
  if (!about.reads_accelerate_config) return {};
  const Json config = fsdp_config_json(plan, report);
  return report.options.emit.ends_with(".json") ? json_text(config) : yaml_text(config);
}

std::vector<std::string> config_notes(const Plan& plan, const Report& report) {
  return spec(plan.framework).config_notes(plan, question_of(plan, report));
}

std::string next_line(const Plan& plan, const Report& report) {
  return launcher(lines_of(plan, report), report.options.config_style).line;
}

Json launch_json(const Plan& plan, const Report& report) {
  const Launch launch = lines_of(plan, report);
  return {{"launcher", launcher(launch, report.options.config_style).name},
          {"deepspeed", line_json(launch.deepspeed)},
          {"torchrun", line_json(launch.torchrun)},
          {"swift", line_json(launch.swift)},
          {"accelerate", line_json(launch.accelerate)},
          {"torchtitan", line_json(launch.torchtitan)}};
}

}  // namespace zplan
