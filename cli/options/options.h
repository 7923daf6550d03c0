#pragma once
// The table of options, the table of commands, and parsing by them. Parsing, --help, completion, the man
// page, Python's signatures and the window's fields all follow from them.

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/document/document.h"
#include "cli/hub/hub_site.h"
#include "cli/recipes/recipe.h"
#include "hardware_profiles/cluster.h"
#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/question/question.h"
#include "planner/search/inverse.h"

namespace zplan {

enum class Command {
  plan,
  search,
  compare,
  fit,
  check,
  lint,
  bench,
  gui,
  models,
  hardware,
  hardware_import,
  hardware_compare,
  completion,
  help
};
template <>
struct EnumNames<Command> {
  static constexpr std::array<std::pair<Command, std::string_view>, 14> table{
      {{Command::plan, "plan"},
       {Command::search, "search"},
       {Command::compare, "compare"},
       {Command::fit, "fit"},
       {Command::check, "check"},
       {Command::lint, "lint"},
       {Command::bench, "bench"},
       {Command::gui, "gui"},
       {Command::models, "models"},
       {Command::hardware, "hardware"},
       {Command::hardware_import, "hardware import"},
       {Command::hardware_compare, "hardware compare"},
       {Command::completion, "completion"},
       {Command::help, "help"}}};
};

/// In what order hardware or scenarios are listed. What fits is ahead of what does not.
enum class ListOrder {
  given,
  fastest,  ///< by tokens per second
  cheapest  ///< by money per token, or of the run
};
template <>
struct EnumNames<ListOrder> {
  static constexpr std::array<std::pair<ListOrder, std::string_view>, 3> table{
      {{ListOrder::given, "given"}, {ListOrder::fastest, "fastest"}, {ListOrder::cheapest, "cheapest"}}};
};

/// Some of the commands: `Command::plan | Command::search`.
class CommandSet {
 public:
  constexpr CommandSet(Command one) : bits_(1U << static_cast<unsigned>(one)) {}
  [[nodiscard]] constexpr bool has(Command command) const { return (bits_ & CommandSet(command).bits_) != 0; }
  [[nodiscard]] constexpr bool is_one() const { return std::has_single_bit(bits_); }
  friend constexpr CommandSet operator|(CommandSet a, CommandSet b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  unsigned bits_;
};
constexpr CommandSet operator|(Command a, Command b) { return CommandSet(a) | CommandSet(b); }

/// A value for each option. The planner's own structs hold the defaults; what was typed is in `given`.
struct Options {
  Command command{Command::plan};
  std::vector<std::string> words;  ///< what follows the command: strategies, names
  bool help{}, version{};

  std::string model;
  std::optional<std::string> model_config;  ///< its config.json, where a recipe makes one
  HubSite hub{HubSite::huggingface};        ///< where models are looked for that nothing here knows
  bool offline{};                           ///< no hub is asked
  std::string value_model, reward_model;    ///< of PPO; empty: the policy's shape
  std::string teacher;                      ///< of gkd; empty: none is named
  std::int64_t expanded_blocks{};           ///< layers added to the model, which train alone
  std::string trained_layers;               ///< numbers, or "last:2" and the like; empty: everything trains
  ImageRequest images;                      ///< of each sample
  std::string lengths;  ///< of the data set's samples: a file, or mean, spread and limit; empty: all alike
  Batching batching{Batching::padded};
  std::vector<TrainerChoice> trainers;  ///< whose defaults fill what is not given
  ClusterRequest cluster;
  Training training;
  std::vector<Framework> frameworks;  ///< that a search compares; empty: not given
  SearchSpace space;
  std::optional<PipelineSchedule> pipeline_schedule;  ///< of torchtitan, by its own option
  Headroom headroom;
  ByteUnit unit{ByteUnit::gib};
  Budget budget;
  std::vector<double> prices;  ///< of hardware compare: of a GPU-hour, one or as many as names; as typed
  ListOrder order{ListOrder::given};

  std::string ds_config;                      ///< file to plan; empty: none
  std::optional<std::string> ds_config_text;  ///< of it, where it is not what the file holds

  std::vector<std::string> recipe_files;  ///< trainers' configs that say options
  std::vector<Recipe> recipes;            ///< what was read of them (with_recipes)
  std::string recipe_out;  ///< where the first goes with the recommended change; empty: nowhere

  std::string baseline;  ///< of compare: the strategy or file that differences are from; empty: the first
  bool differences{};    ///< of compare: lines in which all are alike are left out
  bool slide{};          ///< of compare: a title and five lines

  std::optional<Solve> solve;     ///< of fit: what is asked for; absent: all that is left open
  std::optional<Seconds> within;  ///< of fit: the time in which the whole run is to end
  std::string oom;                ///< of fit: an out-of-memory message, a file with such lines, or "-"

  bool fit_efficiency{};             ///< of a check: what measured speeds say of their GPUs
  std::optional<std::size_t> worst;  ///< of a check: show only so many records
  std::optional<double> tolerance;   ///< of a check: the largest median error that holds, as a fraction

  std::string profile_name;  ///< of hardware import: what the profile is called; empty: the GPU's name says
  std::string output;        ///< of hardware import: file to write, "-" for stdout; empty: stdout

  bool fix{};    ///< of a lint: repair the files
  bool sarif{};  ///< of a lint: SARIF instead of text

  OutputFormat format{OutputFormat::text};
  bool explain{}, verbose{}, no_advice{}, no_color{};
  std::string emit;                   ///< file to write the config to, "-" for stdout; empty: none
  std::string snapshot, trace, html;  ///< files to write the leading plan's memory, its step and the page to
  ConfigStyle config_style{ConfigStyle::plain};
  std::string nvme_path{"/local_nvme"};  ///< for the ds_config

  std::vector<std::string> given;  ///< options that were typed: "--gpus"
  [[nodiscard]] bool has(std::string_view option) const;
};

/// The kind of a value. `config`: a DeepSpeed config, in Python also a dict.
enum class OptionKind { flag, integer, number, word, text, path, config };
template <>
struct EnumNames<OptionKind> {
  static constexpr std::array<std::pair<OptionKind, std::string_view>, 7> table{
      {{OptionKind::flag, "flag"},
       {OptionKind::integer, "integer"},
       {OptionKind::number, "number"},
       {OptionKind::word, "word"},
       {OptionKind::text, "text"},
       {OptionKind::path, "path"},
       {OptionKind::config, "config"}}};
};

/// The names that a value may be one of.
enum class NamesOf { nothing, models, gpus, instances, nodes, networks };

/// Says which values an option accepts and which field of Options keeps them.
struct OptionType {
  OptionKind kind{};
  bool is_list{};                    ///< several values, separated by commas
  std::vector<std::string> words{};  ///< that it may be; beside numbers: words in the place of a number
  bool is_open{};                    ///< other words are accepted, too
  NamesOf names{NamesOf::nothing};
  bool is_file{};  ///< it may be a file
  /// Reads `text` into the options. Throws InputError that names `option`.
  std::function<void(Options& options, std::string_view option, const std::string& text)> set;
  /// The value as it would be typed; empty: not set.
  std::function<std::string(const Options&)> show{[](const Options&) { return std::string(); }};
};

/// Something that must hold beside an option: it is refused where it could do nothing.
struct Condition {
  std::vector<std::string_view> options;  ///< one of them is given; or
  std::vector<std::string> words{};       ///< the only one has one of these values
  bool is_excluded{};                     ///< the only one is not given
  std::string_view of{};                  ///< counts for this value of the option alone; empty: for any
  std::string_view because{};             ///< ends the sentence: ", which generates its samples"
};

struct OptionSpec {
  std::string_view name;   ///< "--gpus"
  std::string_view value;  ///< what its value is called: "N"; empty: a flag
  std::string_view group;  ///< heading of --help
  CommandSet commands;     ///< that take it
  std::string_view label;  ///< what the window calls it; empty: the window has no field for it
  std::string_view help;   ///< one sentence, the unit in it and the default in brackets
  OptionType type;
  std::vector<Condition> conditions{};
  std::string_view letter{};          ///< its short form: "-o"
  std::optional<CommandSet> alone{};  ///< commands in which it counts though no model is planned
  /// Present if the option must be given: beside another option, or always where that is empty.
  struct Needed {
    std::string_view beside, why;
  };
  std::optional<Needed> needed{};
};
[[nodiscard]] const std::vector<OptionSpec>& option_table();
/// The option of this name or letter; null where there is none.
[[nodiscard]] const OptionSpec* find_option(std::string_view name);

struct CommandSpec {
  Command command;
  std::string_view arguments;  ///< "STRATEGY STRATEGY…"
  std::string_view help;
  std::string_view instead{};        ///< of an option that it does not take; empty: those that it takes
  std::vector<std::string> words{};  ///< what the first argument can be, where that is a fixed list
};
[[nodiscard]] const std::vector<CommandSpec>& command_table();
/// The command of this name; null where there is none.
[[nodiscard]] const CommandSpec* find_command(std::string_view name);
[[nodiscard]] std::vector<std::string> command_names();

/// Arguments (without the program's name) → options. Throws InputError for whatever cannot be meant, with the
/// nearest word that can.
[[nodiscard]] Options parse_options(const std::vector<std::string>& arguments);

/// Holds an option's values, typed or by default; is_given is true if they differ from the default.
struct Standing {
  std::vector<std::string> words;
  bool is_given{};
};
using StandingOf = std::function<Standing(std::string_view option)>;

/// The first condition of the option that does not hold; null where all do. `own` are the option's values.
[[nodiscard]] const Condition* unmet(const OptionSpec& option, const std::vector<std::string>& own,
                                     const StandingOf& standing);
/// "--method lora or qlora": what the condition asks for.
[[nodiscard]] std::string needed_text(const Condition& condition);
/// "does nothing with --method full"
[[nodiscard]] std::string unmet_text(const Condition& condition, const StandingOf& standing);

/// Throws InputError for the first given option that could do nothing beside the others.
void check_conditions(const Options& options);

}  // namespace zplan
