#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cli/base/values.h"
#include "cli/options/command_line.h"
#include "cli/options/request.h"
#include "cli/recipes/recipe.h"
#include "models/base/json_reader.h"
#include "planner/question/framework.h"

namespace zplan {

namespace {

/// Options that a recipe may not set where the framework or a config is typed, and where stage or offload is.
constexpr std::array<std::string_view, 3> kOfFramework{"--zero", "--offload", "--ds-config"};
constexpr std::array<std::string_view, 1> kOfStages{"--ds-config"};
/// Options of frameworks with pipeline stages, of Megatron-Core alone and of torchtitan alone.
constexpr std::array<std::string_view, 2> kOfPipelines{"--pp", "--vpp"};
constexpr std::array<std::string_view, 2> kOfMegatron{"--etp", "--megatron"};
constexpr std::array<std::string_view, 2> kOfTorchtitan{"--torchtitan", "--pipeline-schedule"};
/// Options that a search decides.
constexpr std::array<std::string_view, 7> kSearched{
    "--framework", "--zero", "--offload", "--ds-config", "--checkpointing", "--micro-batch", "--grad-accum"};
/// Options that a search decides, too, under a framework with pipeline stages.
constexpr std::array<std::string_view, 5> kSearchedWithStages{"--tp", "--pp", "--vpp", "--ep", "--etp"};

/// Holds the largest size of a recipe, in bytes. Recipes that people write have some thousands.
constexpr std::int64_t kLargestRecipe = std::int64_t{16} << 20;

/// A setting of trainers that the command line has no option for: "on" or "off".
constexpr std::string_view kReentrant = "reentrant checkpointing";

template <std::size_t N>
bool among(const std::array<std::string_view, N>& all, std::string_view option) {
  return std::ranges::find(all, option) != all.end();
}

/// A setting's place among all recipes'.
struct Chosen {
  std::string option, value;
  std::size_t recipe{}, setting{};
};

class Applied {
 public:
  explicit Applied(Options& options) : options_(options), typed_(options.given) {}

  void read() {
    for (const std::string& file : options_.recipe_files) {
      RecipeAsked asked{
          .gpus = gpus(), .has_model = was_typed("--model"), .model = options_.model, .given = typed_};
      Recipe recipe = read_recipe(read_file(file, kLargestRecipe), file, asked);
      // Options of a launcher are set before those of the command that it starts.
      const std::vector<Recipe> launched_by = std::move(recipe.launched_by);
      const std::size_t place = options_.recipes.size();
      options_.recipes.push_back(std::move(recipe));
      for (const Recipe& each : launched_by) {
        options_.recipes.push_back(each);
        choose(options_.recipes.size() - 1);
      }
      choose(place);
    }
  }

  void set() {
    keep_together();
    if (options_.command == Command::fit) open_unknown();
    options_.command == Command::search ? open_search() : pin_strategy();
    for (const Chosen& each : chosen_) set(each);
    imply_trainers();
  }

 private:
  [[nodiscard]] bool was_typed(std::string_view option) const {
    return std::ranges::find(typed_, option) != typed_.end();
  }

  [[nodiscard]] const Chosen* find(std::string_view option) const {
    const auto at = std::ranges::find_if(chosen_, [&](const Chosen& each) { return each.option == option; });
    return at == chosen_.end() ? nullptr : &*at;
  }

  [[nodiscard]] std::optional<std::int64_t> gpus() const {
    if (was_typed("--gpus")) return options_.cluster.gpus;
    const Chosen* said = find("--gpus");
    if (said == nullptr) return std::nullopt;
    return parse_integer(place(*said), said->value, 1, kMostGpus);
  }

  [[nodiscard]] RecipeSetting& setting(const Chosen& each) const {
    return options_.recipes[each.recipe].settings[each.setting];
  }

  [[nodiscard]] std::string place(const Chosen& each) const {
    const RecipeSetting& from = setting(each);
    const std::string& file = from.file.empty() ? options_.recipes[each.recipe].file : from.file;
    return from.line == 0 ? fmt::format("{}: {} (default)", file, from.key)
                          : fmt::format("{}:{}: {}", file, from.line, from.key);
  }

  /// Keeps the later of two settings of an option; a default replaces no other file's setting.
  void choose(std::size_t recipe) {
    const auto& settings = options_.recipes[recipe].settings;
    for (std::size_t i = 0; i < settings.size(); ++i)
      for (const auto& [option, value] : settings[i].options) {
        const auto before = std::ranges::find_if(chosen_, [&, name = option](const Chosen& each) {
          return each.option == name && !adds_up(name);
        });
        if (before != chosen_.end() && settings[i].line == 0) continue;
        if (before != chosen_.end()) chosen_.erase(before);
        chosen_.push_back({option, value, recipe, i});
      }
  }

  void drop(const auto& is_dropped, const std::string& why) {
    for (const Chosen& each : chosen_)
      if (is_dropped(each)) {
        RecipeSetting& from = setting(each);
        std::erase_if(from.options, [&](const auto& option) { return option.first == each.option; });
        if (from.options.empty()) from.unused = why;
      }
    std::erase_if(chosen_, is_dropped);
  }

  [[nodiscard]] std::string method() const {
    if (was_typed("--method")) return std::string(to_name(options_.training.method));
    const Chosen* said = find("--method");
    return said == nullptr ? "full" : said->value;
  }

  [[nodiscard]] const FrameworkSpec& framework() const {
    const Chosen* said = was_typed("--framework") ? nullptr : find("--framework");
    return said == nullptr ? spec(options_.training.framework) : framework_of(*said);
  }
  [[nodiscard]] static const FrameworkSpec& framework_of(const Chosen& said) {
    return spec(parse_name<Framework>("--framework", said.value));
  }
  /// Every GPU holds everything: it has neither stages nor offload.
  [[nodiscard]] static bool replicates(const FrameworkSpec& about) {
    return about.sharded_instead.has_value();
  }

  /// Options that would contradict what was typed, or do nothing with it.
  void keep_together() {
    for (const std::string& option : typed_) drop_beside(option, option);
    // One follows from the other.
    drop_beside("--global-batch", "--grad-accum"), drop_beside("--grad-accum", "--global-batch");
    keep_sharding();
    drop_idle("--method");
    drop_idle("--samples");
    if (!framework().reads_accelerate_config)
      drop([&](const Chosen& each) { return each.option == "--save"; }, "of a run that FSDP shards");
    // The type in which a model is loaded is what trains in plain PyTorch alone; a search tries others too.
    if (!replicates(framework()) || (options_.command == Command::search && !was_typed("--framework")))
      drop([&](const Chosen& each) { return each.option == "--no-master-weights" && says_loading(each); },
           "FSDP and DeepSpeed make master weights of their own");
    if (!framework().reads_ds_config)
      drop([&](const Chosen& each) { return each.option == "--load-everywhere"; },
           "of a run under DeepSpeed");
    if (!framework().has_stages)
      drop([&](const Chosen& each) { return among(kOfPipelines, each.option); },
           "of a run with pipeline stages");
    if (&framework() != &megatron_spec())
      drop([&](const Chosen& each) { return among(kOfMegatron, each.option); },
           "of a run under Megatron-Core");
    if (&framework() != &torchtitan_spec())
      drop([&](const Chosen& each) { return among(kOfTorchtitan, each.option); },
           "of a run under torchtitan");
    // A config of DeepSpeed's says stage and offload by itself.
    if (find("--ds-config") != nullptr)
      drop([&](const Chosen& each) { return each.option == "--zero" || each.option == "--offload"; },
           "the DeepSpeed config says it");
    drop([&](const Chosen& each) { return !takes(each.option); },
         fmt::format("not an option of {}", to_name(options_.command)));
  }

  /// Drops an option that a typed one leaves nothing to say.
  void drop_beside(std::string_view typed, std::string_view option) {
    if (was_typed(typed))
      drop([&](const Chosen& each) { return each.option == option; }, fmt::format("{} is given", typed));
  }

  /// True if the setting says in which type weights are loaded.
  [[nodiscard]] bool says_loading(const Chosen& each) const {
    return std::ranges::any_of(setting(each).options,
                               [](const auto& option) { return option.first == "--load-dtype"; });
  }

  [[nodiscard]] Standing standing(std::string_view option) const {
    if (option == "--method") return {.words = {method()}};
    return {.words = {}, .is_given = was_typed(option) || find(option) != nullptr};
  }

  /// Drops options that could do nothing as `other` stands.
  void drop_idle(std::string_view other) {
    const StandingOf all = [this](std::string_view option) { return standing(option); };
    for (const OptionSpec& option : option_table()) {
      const Condition* first = unmet(option, {}, all);
      if (first != nullptr && first->options.front() == other)
        drop([&](const Chosen& each) { return each.option == option.name; }, unmet_text(*first, all));
    }
  }

  /// Stages and offload are a framework's; plain PyTorch has none.
  void keep_sharding() {
    for (const std::string_view option : {"--framework", "--ds-config"})
      if (was_typed(option))
        drop(
            [&](const Chosen& each) {
              return among(kOfFramework, each.option) || each.option == "--framework";
            },
            fmt::format("{} is given", option));
    for (const std::string_view option : {"--zero", "--offload"})
      if (was_typed(option))
        drop(
            [&](const Chosen& each) {
              return among(kOfStages, each.option) ||
                     (each.option == "--framework" && replicates(framework_of(each)));
            },
            fmt::format("{} is given", option));
  }

  [[nodiscard]] bool takes(std::string_view option) const {
    if (options_.command == Command::search && option == "--ds-config") return true;  // dropped below
    if (option == kReentrant) return true;
    const OptionSpec* spec = find_option(option);
    return spec != nullptr && spec->commands.has(options_.command);
  }

  /// A search is about how a step is divided, not about how large it is.
  void open_search() {
    const auto count = [&](std::string_view option, std::int64_t most) -> std::int64_t {
      const Chosen* said = find(option);
      return said == nullptr ? 1 : parse_integer(place(*said), said->value, 1, most);
    };
    const bool divided =
        was_typed("--micro-batch") || was_typed("--grad-accum") || was_typed("--global-batch");
    // Ranks of one group of these process the same samples.
    const std::int64_t together = count("--cp", kMostDegree) * count("--tp", kMostDegree) *
                                  (framework().has_stages ? count("--pp", kMostDegree) : 1);
    const std::int64_t ranks = gpus().value_or(1) / together;
    const std::int64_t samples = count("--micro-batch", kMostMicroBatch) * count("--grad-accum", kMostSteps) *
                                 std::max<std::int64_t>(1, ranks);
    const bool says_batch = find("--global-batch") == nullptr &&
                            (find("--micro-batch") != nullptr || find("--grad-accum") != nullptr);
    // The search leaves out frameworks that the trainer does not have.
    const bool has_stages = framework().has_stages;
    const auto is_open = [&](const Chosen& each) {
      const RecipeFormat format = options_.recipes[each.recipe].format;
      if (each.option == "--framework" && (has_stages || format == RecipeFormat::torchtune)) return false;
      return among(kSearched, each.option) || (has_stages && among(kSearchedWithStages, each.option));
    };
    drop(is_open, "the search decides it");
    if (!divided && says_batch) give("--global-batch", std::to_string(samples));
  }

  /// Drops the recipe's value of what `fit` solves for, by default the micro-batch.
  void open_unknown() {
    constexpr std::array<std::pair<Solve, std::string_view>, 4> kUnknown{
        {{Solve::micro_batch, "--micro-batch"},
         {Solve::sequence, "--seq"},
         {Solve::model, "--model"},
         {Solve::gpus, "--gpus"}}};
    for (const auto& [solve, option] : kUnknown)
      if (options_.solve.value_or(Solve::micro_batch) == solve)
        drop([&, name = option](const Chosen& each) { return each.option == name; }, "it is solved for");
  }

  /// Pins tensor parallelism and offload that the recipe does not mention to none.
  void pin_strategy() {
    const Chosen* sharding = find("--framework");
    if (sharding == nullptr || find("--ds-config") != nullptr) return;
    const auto pin = [&](std::string_view option, const std::string& value) {
      if (was_typed(option) || find(option) != nullptr) return;
      chosen_.push_back({std::string(option), value, sharding->recipe, sharding->setting});
    };
    const FrameworkSpec& about = framework_of(*sharding);
    if (about.splits_layers) pin("--tp", "1");
    sharding = find("--framework");  // pin() moves what it points to
    if (!replicates(about) && find("--zero") != nullptr) pin("--offload", "none");
  }

  void give(std::string_view option, const std::string& value) {
    options_.given.emplace_back(option);
    if (option == kReentrant)
      options_.training.reentrant_checkpointing = value == "on";
    else
      find_option(option)->type.set(options_, option, value);
  }

  /// Returns the value with those that settings before it add to its list. "none" is an empty list.
  [[nodiscard]] std::string whole_value(const Chosen& setting) const {
    if (!adds_up(setting.option)) return setting.value == kFlagGiven ? std::string() : setting.value;
    std::string list;
    for (const Chosen& each : chosen_) {
      if (each.option == setting.option && each.value != "none")
        list += (list.empty() ? "" : ",") + each.value;
      if (&each == &setting) break;
    }
    return list.empty() ? "none" : list;
  }

  void set(const Chosen& each) {
    const std::string value = whole_value(each);
    try {
      give(each.option, value);
    } catch (const InputError& error) {
      throw InputError(place(each), error.found(), error.accepted());
    }
    const auto& inside = options_.recipes[each.recipe].ds_config;
    if (each.option == "--ds-config" && inside) options_.ds_config_text = inside;
    if (each.option == "--model") options_.model_config = options_.recipes[each.recipe].model_config;
  }

  void imply_trainers() {
    if (was_typed("--trainer") || !takes("--trainer")) return;
    for (const Recipe& recipe : options_.recipes)
      if (const std::string_view trainers = trainers_of(recipe.format);
          !trainers.empty() && options_.trainers.empty())
        give("--trainer", std::string(trainers));
  }

  Options& options_;
  std::vector<std::string> typed_;
  std::vector<Chosen> chosen_;
};

}  // namespace

Options with_recipes(Options typed) {
  if (typed.recipe_files.empty()) return typed;
  Applied applied(typed);
  applied.read();
  applied.set();
  return typed;
}

InputError at_recipe(const Options& options, const InputError& error) {
  for (const Recipe& recipe : options.recipes)
    for (const RecipeSetting& setting : recipe.settings)
      for (const auto& [option, value] : setting.options)
        if (setting.line > 0 && option == error.place())
          return {fmt::format("{}:{}: {} ({})", setting.file.empty() ? recipe.file : setting.file,
                              setting.line, setting.key, option),
                  error.found(), error.accepted()};
  return error;
}

}  // namespace zplan
