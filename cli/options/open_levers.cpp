#include "cli/options/open_levers.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "cli/options/command_line.h"
#include "cli/options/request.h"
#include "models/base/error.h"
#include "planner/question/framework.h"

namespace zplan {

namespace {

/// True if none of the lever's options was typed; QLoRA is open beside a typed LoRA too, which it packs.
bool is_open(const Lever& lever, const std::vector<std::string>& arguments) {
  if (lever.kind == LeverKind::adapters && given_value(arguments, "--method") == to_name(Method::lora))
    return true;
  std::istringstream words{std::string(lever.option)};
  for (std::string word; words >> word;)
    if (word.starts_with("--") && given_value(arguments, word)) return false;
  return true;
}

struct Searched {
  Question question;
  Scope scope;
};

/// Returns what a search makes of `arguments`; nothing where it does not take all of them.
std::optional<Searched> as_search(std::vector<std::string> arguments, const Environment& environment) {
  std::erase(arguments, to_name(Command::plan));
  arguments.insert(arguments.begin(), std::string(to_name(Command::search)));
  try {
    const Options options = without_missing(with_recipes(parse_options(arguments)), environment);
    const Question question = make_request(options, environment).question;
    return Searched{.question = question, .scope = search_scope(options, question.space)};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

Scope search_scope(const Options& options, const SearchSpace& space) {
  Scope scope;
  scope.frameworks.clear();
  // Megatron-Core replaces both the model code and the training script, so only --framework selects it.
  for (const auto& [framework, name] : EnumNames<Framework>::table)
    if (!spec(framework).has_stages) scope.frameworks.push_back(framework);
  if (options.has("--framework"))
    scope.frameworks =
        options.frameworks.empty() ? std::vector{options.training.framework} : options.frameworks;
  if (options.has("--checkpointing"))
    scope.checkpointing = {space.checkpointing};
  else if (!options.recipes.empty())  // no trainer's config has another
    scope.checkpointing = {Checkpointing::none, Checkpointing::full};
  if (options.has("--buckets")) scope.buckets = {space.buckets};
  if (options.has("--micro-batch") && space.micro_batch_size)
    scope.micro_batch_sizes = {*space.micro_batch_size};
  if (space.gradient_accumulation_steps) scope.accumulations = {*space.gradient_accumulation_steps};
  scope.global_batch_size = space.global_batch_size;
  return scope;
}

Advice advice_for(const Options& options, const std::vector<std::string>& arguments, const Question& question,
                  const Environment& environment) {
  Question asked = question;
  OpenLevers open{.scope = search_scope(options, question.space)};
  Scope& scope = open.scope;
  const bool is_plan = options.command == Command::plan;
  if (is_plan && question.space.micro_batch_size && !scope.global_batch_size)
    scope.micro_batch_sizes = {*question.space.micro_batch_size};
  if (is_plan && !options.recipes.empty())
    if (std::optional<Searched> searched = as_search(arguments, environment))
      asked = std::move(searched->question), scope = std::move(searched->scope);
  if (asked.space.zero) scope.frameworks = {asked.training.framework};
  // Levers are settings of transformers' layers.
  for (const Lever& each : levers())
    if (!spec(asked.training.framework).has_stages && is_open(each, arguments)) open.levers.push_back(&each);
  return advise(asked, open);
}

}  // namespace zplan
