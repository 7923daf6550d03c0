#include "cli/options/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/document/table.h"
#include "cli/document/text.h"
#include "cli/options/options.h"
#include "models/base/error.h"
#include "models/base/format.h"
#include "models/base/version.h"
#include "models/catalogue/catalogue.h"

namespace zplan {

namespace {

constexpr std::size_t kNameWidth = 38;

constexpr std::string_view kIntroduction =
    "zplan plans the memory, traffic and time of training a language model: what fits on your GPUs, how fast "
    "it trains, which strategy to take, and why.";

constexpr std::string_view kExamples = R"(
Examples
  zplan --model 8B --gpus 5 --mem 44                           does it fit, and with which strategy
  zplan search --model Qwen/Qwen3-14B --gpus 4 --gpu A100-80GB the fastest config, over everything
  zplan --recipe qlora.yaml --gpus 2 --gpu RTX-4090-24GB       a trainer's own config
  zplan fit --model 8B --gpus 5 --mem 44                       largest batch, longest sequence, ...
  zplan fit --oom "CUDA out of memory. ..." --model 8B ...     why it ran out of memory
  zplan compare --model 70B --gpus 16 zero3 tp8+zero1          strategies side by side
  zplan lint ds_config.json --gpus 8 --fix                     errors of a DeepSpeed config, repaired
  zplan --model 8B --gpus 8 --gpu H100 --emit ds_config.json   the config of the plan
)";

constexpr std::string_view kStatus = R"(
Exit status
  0  a plan that fits was found, the check holds, or the configs have no errors
  1  nothing fits: the report says what would; the check fails; or a config has errors
  2  bad usage or input: one line on stderr
)";

/// An option of the first page; `about` stands for its help where that is long.
struct CommonOption {
  std::string_view name, about{};
};

/// The options that most people use, in the order of the first page.
constexpr std::array<CommonOption, 32> kCommon{
    {{"--model", "name, Hub id, config.json, or a size such as 8B"},
     {"--gpus"},
     {"--gpu", "GPU, such as H100 or RTX-4090 [a generic one]"},
     {"--mem"},
     {"--nodes"},
     {"--instance", "cloud shape, such as p5.48xlarge"},
     {"--host-mem"},
     {"--recipe", "config of axolotl, LLaMA-Factory, TRL, torchtune, ms-swift, …"},
     {"--ds-config"},
     {"--method", "what trains: all weights, or adapters on them [full]"},
     {"--lora-rank"},
     {"--objective"},
     {"--seq"},
     {"--micro-batch"},
     {"--grad-accum"},
     {"--global-batch"},
     {"--precision"},
     {"--optimizer", "optimizer; zplan help training names all [adamw]"},
     {"--checkpointing", "activations that the backward computes again [full]"},
     {"--fused-loss", "cross-entropy that never holds all logits (Liger, chunked)"},
     {"--kernels"},
     {"--framework", "deepspeed, fsdp, torch (DDP), megatron, torchtitan [deepspeed]"},
     {"--zero"},
     {"--tp"},
     {"--offload", "states on the host: none, optimizer, all [each is tried]"},
     {"--tokens", "tokens to train on: days and cost follow"},
     {"--price", "price of a GPU-hour"},
     {"--emit", "write the recommended config (- for stdout)"},
     {"--explain", "every figure with its formula, numbers and source"},
     {"--verbose", "the whole answer, not one screen of it"},
     {"--json", "the answer as JSON"},
     {"--markdown", "the table as Markdown"}}};

/// Options about answers to prompts and preferences, which stand among those of the model.
constexpr std::array<std::string_view, 14> kOfObjectives{
    "--objective",   "--reference",    "--generations",  "--completion-length", "--steps-per-generation",
    "--iterations",  "--rollout",      "--vllm-memory",  "--vllm-sleep",        "--vllm-tp",
    "--value-model", "--reward-model", "--mini-batches", "--rollout-batch"};

/// A page of `zplan help`: the groups of options that it has.
struct Topic {
  std::string_view name, about;
  std::vector<std::string_view> groups;
  bool has_objectives{};
};

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all{
      {"model", "the model, adapters, quantisation, images", {"Model"}},
      {"cluster", "GPUs, nodes, network, host memory", {"Cluster"}},
      {"strategy", "ZeRO, tensor and sequence parallelism, offload, frameworks, recipes", {"Strategies"}},
      {"training",
       "precision, optimizer, checkpointing, loss, batches, evaluation, saving",
       {"Training", "Batch", "Loading, evaluation, saving"}},
      {"rl", "preferences and reinforcement learning", {"Model"}, true},
      {"output", "formats, configs, time and cost", {"Time and cost", "Output"}}};
  return all;
}

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

std::string option_entry(const OptionSpec& spec, int width) {
  return entry(fmt::format("{} {}", spec.name, spec.value), spec.help, width);
}

/// Returns the options for which `is_shown` holds, by group.
std::string options_text(int width, const std::function<bool(const OptionSpec&)>& is_shown) {
  std::string out;
  std::string_view group;
  for (const OptionSpec& spec : option_table()) {
    if (!is_shown(spec)) continue;
    if (spec.group != group) out += fmt::format("\n{}\n", group = spec.group);
    out += option_entry(spec, width);
  }
  return out;
}

bool is_of_objectives(const OptionSpec& spec) {
  return std::ranges::find(kOfObjectives, spec.name) != kOfObjectives.end();
}

/// Returns a line for an option: `about`, or its help up to the first break, and its default.
std::string short_entry(const OptionSpec& spec, std::string_view about, int width) {
  std::string_view help = about.empty() ? spec.help : about;
  const std::size_t bracket = help.rfind('[');
  const std::string_view otherwise =
      bracket == std::string_view::npos || !help.ends_with(']') ? "" : help.substr(bracket);
  if (about.empty())
    for (const std::string_view stop : {"; ", ": ", " (", " ["}) help = help.substr(0, help.find(stop));
  std::string text(help);
  if (about.empty() && !otherwise.empty() && otherwise.size() < 16) text += fmt::format(" {}", otherwise);
  const std::string name = fmt::format("  {} {}", spec.name, spec.value);
  const auto room = static_cast<std::size_t>(width);
  return shortened(fmt::format("{:<33} {}", shortened(name, 33), text), room) + "\n";
}

std::string common_text(int width) {
  std::string out = "\nOptions that most people use\n";
  for (const auto& [name, about] : kCommon) {
    const auto spec = std::ranges::find(option_table(), name, &OptionSpec::name);
    if (spec != option_table().end()) out += short_entry(*spec, about, width);
  }
  return out;
}

std::string topics_line() {
  std::vector<std::string_view> names;
  for (const Topic& each : topics()) names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// True of an option that a command takes, or its second word does (`hardware import`).
bool takes(Command command, const OptionSpec& option) {
  if (option.commands.has(command)) return true;
  return command == Command::hardware &&
         (option.commands.has(Command::hardware_import) || option.commands.has(Command::hardware_compare));
}

/// Returns the page of a command: what it does, and the options that few other commands take.
std::string command_page(const CommandSpec& spec, int width) {
  constexpr std::size_t kFew = 2;
  std::string out = fmt::format("Usage: zplan {} {} [OPTIONS]\n", to_name(spec.command), spec.arguments);
  out += paragraph("", std::string(spec.help), width);
  const auto is_own = [&](const OptionSpec& option) {
    std::size_t takers = 0;
    for (const CommandSpec& each : command_table())
      if (option.commands.has(each.command)) ++takers;
    return takes(spec.command, option) && takers <= kFew && option.group != "Output";
  };
  out += options_text(width, is_own);
  out += options_text(width, [&](const OptionSpec& option) {
    return option.commands.has(spec.command) && option.group == "Output";
  });
  const auto model = std::ranges::find(option_table(), "--model", &OptionSpec::name);
  if (model->commands.has(spec.command))
    out += fmt::format("\nIt takes the options of plans, too: zplan help {}\n", topics_line());
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

bool is_common(const OptionSpec& option) {
  return std::ranges::find(kCommon, option.name, &CommonOption::name) != kCommon.end();
}

Json options_json() {
  Json options = Json::array();
  for (const OptionSpec& each : option_table()) options.push_back(option_json(each));
  return {{"schema", "zplan.options/1"}, {"options", std::move(options)}};
}

std::string help_text(int width) {
  return paragraph("", kIntroduction, width) +
         "\nUsage: zplan [COMMAND] --model NAME --gpus N [--mem GIB | --gpu NAME] [OPTIONS]\n" +
         std::string(kExamples) + common_text(width) +
         fmt::format(
             "\nMore: zplan help TOPIC ({}; all), zplan help COMMAND\n"
             "Commands: {}\n",
             topics_line(), fmt::join(command_names(), ", "));
}

std::string whole_help(int width) {
  return paragraph("", kIntroduction, width) +
         "\nUsage: zplan [COMMAND] --model NAME --gpus N [--mem GIB | --gpu NAME] [OPTIONS]\n" +
         commands_text(width) + options_text(width, [](const OptionSpec&) { return true; }) +
         std::string(kExamples) + std::string(kStatus);
}

std::string help_page(std::string_view topic, int width) {
  if (topic.empty() || topic == "plan") return help_text(width);
  if (topic == "all") return whole_help(width);
  for (const Topic& each : topics())
    if (each.name == topic)
      return fmt::format("zplan help {}: {}\n", each.name, each.about) +
             options_text(width, [&](const OptionSpec& spec) {
               return std::ranges::find(each.groups, spec.group) != each.groups.end() &&
                      is_of_objectives(spec) == each.has_objectives;
             });
  if (const CommandSpec* command = find_command(topic)) return command_page(*command, width);
  std::vector<std::string> known{"all"};
  for (const Topic& each : topics()) known.emplace_back(each.name);
  for (const std::string& each : command_names()) known.push_back(each);
  throw InputError("help", in_quotes(topic), accepted_words(topic, known));
}

std::string version_text() {
  return fmt::format("zplan {} ({} models, {} GPUs)\n", version(), catalogue().size(),
                     built_in_profiles().gpus.size());
}

}  // namespace zplan
