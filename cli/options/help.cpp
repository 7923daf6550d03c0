#include "cli/options/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/document/text.h"
#include "cli/options/options.h"
#include "models/base/version.h"
#include "models/catalogue/catalogue.h"

namespace zplan {

namespace {

constexpr std::size_t kNameWidth = 38;

constexpr std::string_view kIntroduction =
    "zplan plans the memory, traffic and time of training a language model: every ZeRO stage, tensor "
    "parallelism and "
    "offload on your GPUs, which of them fits, and why.";

constexpr std::string_view kExamples = R"(
Examples
  zplan --model 8B --gpus 5 --mem 44
  zplan --model Qwen/Qwen3-8B --gpus 8 --gpu A100-SXM-80GB --micro-batch max --emit ds_config.json
  zplan compare --model 70B --gpus 16 --nodes 2 --gpu H100-SXM-80GB zero3 tp8+zero1
  zplan --model ./config.json --gpus 4 --mem 24 --method lora --zero 2,3 --json
  zplan search --model 8B --gpus 5 --mem 44 --global-batch 120
  zplan fit --solve micro-batch --model 8B --gpus 5 --mem 44
  zplan check run.json --worst 10
  zplan lint ds_config.json --gpus 8 --fix
  zplan models search qwen3

Exit status
  0  a plan that fits was found, the check holds, or the configs have no errors
  1  nothing fits: the report says what would; the check fails; or a config has errors
  2  bad usage or input: one line on stderr
)";

std::string entry(const std::string& name, std::string_view help, int width) {
  const std::string first = fmt::format("  {:<{}}", name, kNameWidth - 2);
  if (display_width(first) <= kNameWidth) return paragraph(first, help, width);
  return first + "\n" + paragraph(std::string(kNameWidth, ' '), help, width);
}

std::string commands_text(int width) {
  std::string out = "\nCommands\n";
  for (const CommandSpec& spec : command_table())
    out += entry(fmt::format("{} {}", to_name(spec.command), spec.arguments), spec.help, width);
  return out;
}

std::string options_text(int width) {
  std::string out;
  std::string_view group;
  for (const OptionSpec& spec : option_table()) {
    if (spec.group != group) out += fmt::format("\n{}\n", group = spec.group);
    out += entry(fmt::format("{} {}", spec.name, spec.value), spec.help, width);
  }
  return out;
}

Json condition_json(const Condition& condition) {
  return {{"options", condition.options},
          {"values", condition.words},
          {"excluded", condition.is_excluded},
          {"of", condition.of}};
}

std::vector<std::string> commands_of(const OptionSpec& option) {
  std::vector<std::string> names;
  for (const auto& [command, name] : EnumNames<Command>::table)
    if (option.commands.has(command)) names.emplace_back(name);
  return names;
}

/// The option's key where options are keyword arguments: "lora_rank".
std::string key_of(std::string_view option) {
  std::string key(option.substr(2));
  std::ranges::replace(key, '-', '_');
  return key;
}

Json option_json(const OptionSpec& option) {
  const OptionType& type = option.type;
  Json conditions = Json::array();
  for (const Condition& each : option.conditions) conditions.push_back(condition_json(each));
  return {{"name", option.name},        {"key", key_of(option.name)},
          {"letter", option.letter},    {"value", option.value},
          {"type", to_name(type.kind)}, {"list", type.is_list},
          {"words", type.words},        {"other_words", type.is_open},
          {"file", type.is_file},       {"default", type.show(Options{})},
          {"group", option.group},      {"label", option.label},
          {"help", option.help},        {"commands", commands_of(option)},
          {"conditions", conditions}};
}

}  // namespace

Json options_json() {
  Json options = Json::array();
  for (const OptionSpec& each : option_table()) options.push_back(option_json(each));
  return {{"schema", "zplan.options/1"}, {"options", std::move(options)}};
}

std::string help_text(int width) {
  return paragraph("", kIntroduction, width) +
         "\nUsage: zplan [COMMAND] --model NAME --gpus N [--mem GIB | --gpu NAME] [OPTIONS]\n" +
         commands_text(width) + options_text(width) + std::string(kExamples);
}

std::string version_text() {
  return fmt::format("zplan {} ({} models, {} GPUs)\n", version(), catalogue().size(),
                     built_in_profiles().gpus.size());
}

}  // namespace zplan
