// The command of a script that trains: its launcher, its config and its flags.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/recipes/recipe_table.h"
#include "cli/recipes/recipe_text.h"
#include "cli/recipes/shell_script.h"
#include "models/base/error.h"

namespace zplan {

namespace {

using Fields = std::vector<ShellField>;

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

std::string program_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_config(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".json");
}

/// Returns what is open on one line of a message.
std::string on_one_line(std::string what) {
  constexpr std::size_t kLongest = 60;
  std::ranges::replace_if(
      what, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  if (what.size() <= kLongest) return what;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(what[end]) & 0xC0U) == 0x80U) --end;
  return what.substr(0, end) + "…";
}

RecipeValue scalar_of(const ShellField& word) {
  RecipeValue value;
  value.kind = word.text.empty() ? RecipeKind::nothing : RecipeKind::scalar;
  value.text = word.text, value.line = value.last_line = word.line, value.span = word.span;
  value.quoted = true;
  if (word.open) value.open = on_one_line(word.open->what);
  return value;
}

/// A part of a word behind its first `skipped` characters.
ShellField behind(const ShellField& word, std::size_t skipped) {
  ShellField rest = word;
  rest.text = word.text.substr(std::min(skipped, word.text.size()));
  if (rest.span.end > rest.span.begin) rest.span.begin = std::min(rest.span.begin + skipped, rest.span.end);
  return rest;
}

std::string key_of(std::string_view flag) {
  std::string key(flag.starts_with("--") ? flag.substr(2) : flag);
  std::ranges::replace(key, '-', '_');
  return key;
}

/// Adds an entry; the last of equal keys counts, as in argparse.
void put(RecipeValue& map, RecipeEntry entry) {
  std::erase_if(map.entries, [&](const RecipeEntry& each) { return each.key == entry.key; });
  map.entries.push_back(std::move(entry));
}

/// Returns a flag's value: true where no word follows, a list where several do.
RecipeValue value_of(const Fields& words, const ShellField& flag) {
  if (words.size() == 1) return scalar_of(words.front());
  RecipeValue value;
  value.line = value.last_line = flag.line, value.span = {flag.span.end, flag.span.end};
  if (words.empty()) {
    value.kind = RecipeKind::scalar, value.text = "true";
    return value;
  }
  value.kind = RecipeKind::list;
  for (const ShellField& each : words) value.items.push_back(scalar_of(each));
  value.span = {words.front().span.begin, words.back().span.end};
  if (words.back().span.end == words.back().span.begin) value.span = {};
  value.last_line = words.back().line;
  return value;
}

// ---- launchers

struct Launcher {
  std::string_view name;
  std::vector<std::string_view> without_value;  ///< flags that take no value
};

/// Source: torch 2.11 torch/distributed/run.py.
const Launcher& torchrun() {
  static const Launcher launcher{
      "torchrun",
      {"--standalone", "--no-python", "--no_python", "-m", "--module", "--run-path", "--run_path"}};
  return launcher;
}

/// Source: accelerate 1.15 commands/launch.py.
const Launcher& accelerate() {
  static const Launcher launcher{"accelerate",
                                 {"-q",
                                  "--quiet",
                                  "--cpu",
                                  "--multi_gpu",
                                  "--tpu",
                                  "--ipex",
                                  "--use_xpu",
                                  "--enable_cpu_affinity",
                                  "--dynamo_use_fullgraph",
                                  "--dynamo_use_dynamic",
                                  "--dynamo_use_regional_compilation",
                                  "--use_deepspeed",
                                  "--use_fsdp",
                                  "--use_parallelism_config",
                                  "--use_megatron_lm",
                                  "--same_network",
                                  "-m",
                                  "--module",
                                  "--no_python",
                                  "--tpu_cluster",
                                  "--no_tpu_cluster",
                                  "--tpu_use_sudo",
                                  "--downcast_bf16",
                                  "--fp8_use_autocast_during_eval",
                                  "--debug"}};
  return launcher;
}

/// Source: DeepSpeed 0.19 launcher/runner.py.
const Launcher& deepspeed() {
  static const Launcher launcher{
      "deepspeed",
      {"-m", "--module", "--no_python", "--no_local_rank", "--no_ssh", "--no_ssh_check", "--force_multi",
       "--save_pid", "--bind_cores_to_rank", "--quiet"}};
  return launcher;
}

const Launcher& python() {
  static const Launcher launcher{"python", {}};
  return launcher;
}

bool takes_no_value(const Launcher& launcher, const std::string& flag) {
  std::string plain = flag;
  if (plain.starts_with("--")) plain = "--" + key_of(plain);
  return std::ranges::any_of(launcher.without_value, [&](std::string_view each) {
    return each == flag || "--" + key_of(each) == plain;
  });
}

/// Flags of accelerate launch in the keys of its config. Source: accelerate 1.15 commands/launch.py,
/// commands/config/cluster.py.
std::string launch_key(const std::string& key) {
  constexpr std::array<std::string_view, 12> kDeepSpeed{"zero_stage",
                                                        "offload_optimizer_device",
                                                        "offload_param_device",
                                                        "offload_optimizer_nvme_path",
                                                        "offload_param_nvme_path",
                                                        "gradient_accumulation_steps",
                                                        "gradient_clipping",
                                                        "zero3_init_flag",
                                                        "zero3_save_16bit_model",
                                                        "deepspeed_config_file",
                                                        "deepspeed_hostfile",
                                                        "deepspeed_multinode_launcher"};
  if (std::ranges::find(kDeepSpeed, key) != kDeepSpeed.end()) return "deepspeed_config." + key;
  if (key.starts_with("fsdp_")) return "fsdp_config." + key;
  if (key.starts_with("parallelism_config_")) return "parallelism_config." + key;
  return key;
}

/// A command without what launches it.
struct Launched {
  std::vector<std::string> words;      ///< in front of the first flag, a config among them
  Fields rest;                         ///< the words behind the program's
  RecipeValue flags;                   ///< of the environment and of the launcher
  std::vector<std::string> launchers;  ///< programs in front of it
  std::vector<std::string> launcher;   ///< keys of the launcher among them
  RecipeValue launch;                  ///< as accelerate's config has them
  std::optional<RecipeValue> launch_config;
  std::size_t line{};
  std::size_t end{};  ///< where the last word in front of the flags ends
};

class Unwrapped {
 public:
  explicit Unwrapped(const ShellCall& call) : words_(call.words) {
    made_.flags.kind = made_.launch.kind = RecipeKind::map;
    made_.line = call.line;
    for (const auto& [name, value] : call.environment) variable(name, value);
  }

  std::optional<Launched> read() {
    if (!find_program()) return std::nullopt;
    while (at_ < words_.size() && launcher()) {
    }
    made_.line = at_ < words_.size() ? std::max(made_.line, words_[at_].line) : made_.line;
    for (; at_ < words_.size() && !is_flag(words_[at_].text); ++at_) {
      made_.words.push_back(words_[at_].text);
    }
    for (std::size_t i = 0; i < at_; ++i) made_.end = std::max(made_.end, words_[i].span.end);
    made_.rest.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    return std::move(made_);
  }

 private:
  void variable(const std::string& name, const ShellField& value) {
    put(made_.flags, {name, value.line, {}, scalar_of(value)});
  }

  /// Finds the trainer or its launcher behind "env", "nohup", "srun" and the like.
  bool find_program() {
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_].text;
      if (const std::size_t equals = word.find('=');
          equals != std::string::npos && equals > 0 && word[0] != '-') {
        variable(word.substr(0, equals), behind(words_[at_], equals + 1));
        continue;
      }
      if (launcher_of(at_) != nullptr || is_trainer()) return true;
    }
    at_ = 0;
    return !words_.empty();
  }

  [[nodiscard]] bool is_trainer() const {
    std::vector<std::string> ahead;
    for (std::size_t i = at_; i < words_.size() && i < at_ + 3; ++i) ahead.push_back(words_[i].text);
    const auto found = find_command(ahead);
    return found && program_of(ahead[0]) == found->command->words.substr(0, found->command->words.find(' '));
  }

  [[nodiscard]] const Launcher* launcher_of(std::size_t at) const {
    const std::string name = program_of(words_[at].text);
    const auto next = [&](std::string_view word) {
      return at + 1 < words_.size() && words_[at + 1].text == word;
    };
    if (name == "torchrun" || (name == "tune" && next("run"))) return &torchrun();
    if (name == "accelerate" || name == "accelerate-launch")
      return next("launch") || name != "accelerate" ? &accelerate() : nullptr;
    if (name == "deepspeed") return &deepspeed();
    if (name == "python" || name == "python3" || name.starts_with("python3.")) return &python();
    return nullptr;
  }

  /// Reads one launcher; false where the program begins.
  bool launcher() {
    const Launcher* found = launcher_of(at_);
    if (found == nullptr) return false;
    if (found == &python()) return of_python();
    const std::string name = program_of(words_[at_].text);
    at_ += name == "accelerate" ? 2U : 1U;
    if (name == "tune") {
      ++at_;
      made_.words = {"tune", "run"};
    }
    options(*found);
    return at_ < words_.size() && name != "tune";
  }

  bool of_python() {
    for (++at_; at_ < words_.size() && words_[at_].text.starts_with('-'); ++at_) {
      if (words_[at_].text != "-m") continue;
      ++at_;
      break;
    }
    if (at_ >= words_.size()) return false;
    const std::string& module = words_[at_].text;
    if (module == "torch.distributed.run" || module == "torch.distributed.launch")
      return launched_by(torchrun());
    if (module == "accelerate.commands.launch") return launched_by(accelerate());
    if (module == "deepspeed.launcher.runner") return launched_by(deepspeed());
    return false;
  }

  bool launched_by(const Launcher& launcher) {
    ++at_;
    options(launcher);
    return at_ < words_.size();
  }

  void options(const Launcher& launcher) {
    made_.launchers.emplace_back(launcher.name);
    while (at_ < words_.size() && words_[at_].text.starts_with('-')) {
      const ShellField flag = words_[at_++];
      const std::size_t equals = flag.text.find('=');
      const std::string name = flag.text.substr(0, equals);
      if (name == "--" || name == "-m") continue;
      ShellField value{.text = "true", .line = flag.line};
      if (equals != std::string::npos)
        value = behind(flag, equals + 1);
      else if (!takes_no_value(launcher, name) && at_ < words_.size())
        value = words_[at_++];
      option(launcher, key_of(name), flag, value);
    }
  }

  void option(const Launcher& launcher, const std::string& key, const ShellField& flag,
              const ShellField& value) {
    if (&launcher != &accelerate()) {
      put(made_.flags, {key, flag.line, flag.span, scalar_of(value)});
      made_.launcher.push_back(key);
      return;
    }
    if (key == "config_file") {
      made_.launch_config = scalar_of(value);
    } else if (key == "use_deepspeed" || key == "use_fsdp" || key == "multi_gpu" ||
               key == "use_megatron_lm") {
      ShellField type = value;
      type.text = key == "use_deepspeed" ? "DEEPSPEED"
                  : key == "use_fsdp"    ? "FSDP"
                  : key == "multi_gpu"   ? "MULTI_GPU"
                                         : "MEGATRON_LM";
      put(made_.launch, {"distributed_type", flag.line, flag.span, scalar_of(type)});
    } else {
      put_path(made_.launch, launch_key(key), {key, flag.line, flag.span, scalar_of(value)});
    }
  }

  const Fields& words_;
  std::size_t at_{};
  Launched made_;
};

// ---- flags

/// NAME=value without dashes, as OmegaConf takes overrides.
std::size_t assignment_in(const std::string& word) {
  const auto is_key = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '~' || c == '+';
  };
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return std::string::npos;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_key)
             ? equals
             : std::string::npos;
}

class FlagReader {
 public:
  FlagReader(Launched launched, const std::optional<FoundCommand>& command)
      : launched_(std::move(launched)), command_(command) {
    made_.root = std::move(launched_.flags);
    made_.launch = std::move(launched_.launch);
    made_.launcher = std::move(launched_.launcher), made_.launchers = std::move(launched_.launchers);
    made_.launch_config = std::move(launched_.launch_config);
    made_.command_line = launched_.line, made_.command_end = launched_.end;
  }

  RecipeText read() {
    words_in_front();
    const Fields& words = launched_.rest;
    for (std::size_t i = 0; i < words.size();) {
      const ShellField& flag = words[i++];
      if (flag.text == "--") break;
      if (!is_flag(flag.text)) {
        loose(flag);
        continue;
      }
      Fields values;
      const std::size_t equals = flag.text.find('=');
      if (equals != std::string::npos) {
        values.push_back(behind(flag, equals + 1));
      } else {
        while (i < words.size() && !is_flag(words[i].text) && words[i].text != "--") take(words[i++], values);
      }
      put_flag(flag, flag.text.substr(0, equals), values);
    }
    return std::move(made_);
  }

 private:
  void words_in_front() {
    for (const std::string& word : launched_.words) {
      const std::size_t equals = assignment_in(word);
      const ShellField field{.text = word, .line = launched_.line};
      if (equals != std::string::npos && !made_.command.empty())
        put_path(made_.root, word.substr(0, equals),
                 {word.substr(0, equals), launched_.line, {}, scalar_of(behind(field, equals + 1))});
      else if (names_config_first() && is_config(word) && !made_.config)
        made_.config = scalar_of(field);
      else
        made_.command.push_back(word);
    }
  }

  /// Scripts that no trainer's table has read a config in the same way.
  [[nodiscard]] bool names_config_first() const { return !command_ || command_->command->config == "first"; }
  [[nodiscard]] bool names_config(const std::string& flag) const {
    return command_ ? command_->command->config == flag : flag == "--config";
  }

  /// A value of a flag: an override of the config, a variable that may be no word, or a word.
  void take(const ShellField& word, Fields& values) {
    if (word.is_bare && !values.empty())
      made_.notes.push_back(
          {on_one_line(word.text), word.line, "the script does not set it: what it adds is not read"});
    else if (!values.empty() && (made_.config || is_config(values.front().text)) &&
             assignment_in(word.text) != std::string::npos)
      loose(word);
    else
      values.push_back(word);
  }

  void loose(const ShellField& word) {
    const std::size_t equals = assignment_in(word.text);
    if (equals == std::string::npos) return;
    std::string key = word.text.substr(0, equals);
    key.erase(0, key.find_first_not_of("~+"));
    put_path(made_.root, key, {key, word.line, word.span, scalar_of(behind(word, equals + 1))});
  }

  void put_flag(const ShellField& flag, const std::string& name, const Fields& values) {
    made_.command_end = std::max(made_.command_end, flag.span.end);
    for (const ShellField& each : values) made_.command_end = std::max(made_.command_end, each.span.end);
    if (names_config(name) && values.size() == 1 && !made_.config) {
      made_.config = scalar_of(values.front());
      return;
    }
    const std::string key = key_of(name);
    put_path(made_.root, key, {key, flag.line, flag.span, value_of(values, flag)});
  }

  Launched launched_;
  const std::optional<FoundCommand>& command_;
  RecipeText made_;
};

/// Keys that no script has but one that trains.
bool trains_by_keys(const Launched& launched) {
  constexpr std::array<std::string_view, 5> kTelling{"per_device_train_batch_size",
                                                     "gradient_accumulation_steps", "model_name_or_path",
                                                     "num_train_epochs", "deepspeed"};
  return std::ranges::any_of(launched.rest, [&](const ShellField& word) {
    if (!is_flag(word.text)) return false;
    const std::string key = key_of(word.text.substr(0, word.text.find('=')));
    return std::ranges::find(kTelling, key) != kTelling.end();
  });
}

bool has_flags(const Launched& launched) {
  const bool overrides = launched.words.size() > 1 && assignment_in(launched.words[1]) != std::string::npos;
  return !launched.words.empty() && launched.words[0] != "-" && !launched.words[0].ends_with(':') &&
         (overrides || !launched.rest.empty());
}

bool names_config(const Launched& launched) {
  return launched.words.size() > 1 && launched.words[0] != "-" && !launched.words[0].ends_with(':') &&
         std::ranges::any_of(launched.words, is_config) && find_command(launched.words).has_value();
}

/// YAML's documents begin so, and its entries have a colon.
bool looks_like_yaml(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r\xef\xbb\xbf"), line.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
    return word == "---" || word.ends_with(':');
  }
  return true;
}

enum class Rank { none, flags, known, trains };

/// Says how well a command stands for a recipe.
Rank rank_of(const Launched& launched) {
  const auto found = find_command(launched.words);
  if (found && found->command->does.empty())
    return has_flags(launched) || names_config(launched) ? Rank::trains : Rank::none;
  if (found) return Rank::known;
  if (trains_by_keys(launched)) return Rank::trains;
  return has_flags(launched) ? Rank::flags : Rank::none;
}

}  // namespace

void put_path(RecipeValue& map, std::string_view path, RecipeEntry entry) {
  constexpr std::size_t kDeepest = 20;
  RecipeValue* at = &map;
  for (std::size_t depth = 0; depth < kDeepest; ++depth) {
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos) break;
    const std::string name(path.substr(0, dot));
    auto found = std::ranges::find_if(at->entries, [&](const RecipeEntry& each) { return each.key == name; });
    if (found == at->entries.end() || found->value.kind != RecipeKind::map) {
      if (found != at->entries.end()) at->entries.erase(found);
      RecipeEntry section{.key = name, .line = entry.line, .key_span = {}, .value = {}};
      section.value.kind = RecipeKind::map, section.value.line = entry.line;
      at->entries.push_back(std::move(section));
      found = at->entries.end() - 1;
    }
    at = &found->value;
    path.remove_prefix(dot + 1);
  }
  entry.key = path;
  put(*at, std::move(entry));
}

std::optional<RecipeText> read_shell_script(std::string_view text, const std::string& file) {
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return std::nullopt;
  if (looks_like_yaml(text) && !file.ends_with(".sh")) return std::nullopt;
  const auto launched_in = [](const ShellCall& call) { return Unwrapped(call).read(); };
  const ShellScript script = follow_shell(text, file, [&](const ShellCall& call) {
    const auto launched = launched_in(call);
    return launched && rank_of(*launched) == Rank::trains;
  });
  std::optional<Launched> best;
  Rank rank = Rank::none;
  for (const ShellCall& each : script.calls) {
    auto launched = launched_in(each);
    if (!launched) continue;
    const Rank now = rank_of(*launched);
    // The first of several commands that train nothing says what the script is for, of unknown ones the last.
    if (now == Rank::none || now < rank || (now == rank && now == Rank::known)) continue;
    best = std::move(launched), rank = now;
  }
  if (!best) return std::nullopt;
  const auto command = find_command(best->words);
  RecipeText made = FlagReader(std::move(*best), command).read();
  made.files = script.files;
  return made;
}

}  // namespace zplan
