// Completion scripts, made from the tables of options and commands.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/options/help.h"
#include "cli/options/options.h"
#include "models/catalogue/catalogue.h"

namespace zplan {

namespace {

template <class List>
std::vector<std::string> names_in(const List& list) {
  std::vector<std::string> names;
  for (const auto& each : list) names.push_back(each.name);
  return names;
}

/// Returns the names that `hardware compare` accepts.
std::vector<std::string> compared_names() {
  std::vector<std::string> names = names_in(built_in_profiles().gpus);
  for (const Instance& instance : built_in_instances()) names.push_back(instance.name);
  return names;
}

/// Words that complete an option's value; empty where there are none.
std::vector<std::string> values_of(const OptionSpec& spec) {
  switch (spec.type.names) {
    case NamesOf::models: return names_in(catalogue());
    case NamesOf::gpus: return names_in(built_in_profiles().gpus);
    case NamesOf::instances: return names_in(built_in_instances());
    case NamesOf::nodes: return names_in(built_in_profiles().nodes);
    case NamesOf::networks: return names_in(built_in_networks());
    case NamesOf::nothing: break;
  }
  return spec.type.words;
}

/// Commands whose words may be files, as a pattern of bash and zsh.
constexpr std::string_view kTakeFiles = "check|compare|gui|lint";

std::string words(const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, " ")); }

std::vector<std::string> options_of(Command command) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : option_table())
    if (spec.commands.has(command)) names.emplace_back(spec.name);
  return names;
}

/// Commands that take the option, each as the shell quotes it.
std::vector<std::string> takers_of(const OptionSpec& spec, std::string (*quoted)(std::string_view)) {
  std::vector<std::string> names;
  for (const auto& [command, name] : EnumNames<Command>::table)
    if (spec.commands.has(command)) names.push_back(quoted(name));
  return names;
}

std::string quoted_for_zsh(std::string_view name) {
  std::string out(name);
  if (const std::size_t blank = out.find(' '); blank != std::string::npos) out.insert(blank, "\\");
  return out;
}

std::string quoted_for_fish(std::string_view name) {
  return name.find(' ') == std::string_view::npos ? std::string(name) : fmt::format("'{}'", name);
}

std::string bash() {
  std::string cases, options;
  for (const OptionSpec& spec : option_table()) {
    if (spec.value.empty()) continue;
    const std::string files = spec.type.is_file ? " $(compgen -f -- \"$current\")" : "";
    cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\"){}); return ;;\n", spec.name,
                         words(values_of(spec)), files);
  }
  for (const CommandSpec& spec : command_table())
    if (!spec.words.empty())
      cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                           to_name(spec.command), words(spec.words));
  cases += "    import) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n";
  const std::string compared = words(compared_names());
  for (const auto& [command, name] : EnumNames<Command>::table)
    if (command != Command::plan)
      options += fmt::format("    \"{}\") options=\"{}\" ;;\n", name, words(options_of(command)));
  return fmt::format(R"script(# zplan completion for bash: eval "$(zplan completion bash)"
_zplan() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}} options="{}"
  case $previous in
{}  esac
  [[ $command == hardware && ${{COMP_WORDS[2]-}} == @(import|compare) ]] && command+=" ${{COMP_WORDS[2]}}"
  case $command in
{}  esac
  if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W "{}" -- "$current"))
  elif [[ $command == "hardware compare" ]]; then COMPREPLY=($(compgen -W "{}" -- "$current"))
  elif [[ ${{COMP_WORDS[1]}} == @({}) || ${{COMP_WORDS[2]}} == import ]]; then COMPREPLY=($(compgen -f -- "$current")); fi
}}
complete -F _zplan zplan
)script",
                     words(options_of(Command::plan)), cases, options, words(command_names()), compared,
                     kTakeFiles);
}

/// Text inside single quotes, with the characters that _arguments reads escaped.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

std::string zsh_value(const OptionSpec& spec) {
  if (spec.value.empty()) return "";
  const std::vector<std::string> list = values_of(spec);
  const std::string action = spec.type.is_file && list.empty() ? "_files" : fmt::format("({})", words(list));
  return fmt::format(":{}:{}", zsh_text(spec.value), list.empty() && !spec.type.is_file ? " " : action);
}

std::string zsh() {
  std::string options;
  for (const OptionSpec& spec : option_table())
    options += fmt::format("  [[ $command == ({}) ]] && options+=('{}[{}]{}')\n",
                           fmt::join(takers_of(spec, quoted_for_zsh), "|"), spec.name, zsh_text(spec.help),
                           zsh_value(spec));
  std::string cases;
  for (const CommandSpec& spec : command_table())
    if (!spec.words.empty())
      cases += fmt::format("      {}) compadd {} ;;\n", to_name(spec.command), words(spec.words));
  return fmt::format(R"script(#compdef zplan
# zplan completion for zsh: zplan completion zsh > "${{fpath[1]}}/_zplan"
_zplan_words() {{
  if (( CURRENT == 2 )); then compadd {}; return; fi
  if [[ $words[2] == hardware && $words[3] == compare ]]; then compadd {}; return; fi
  if [[ $words[2] == ({}) || $words[3] == import ]]; then _files; return; fi
  if (( CURRENT == 3 )); then
    case $words[2] in
{}    esac
  fi
}}
_zplan() {{
  local command=plan
  local -a options
  [[ $words[2] == ({}) ]] && command=$words[2]
  [[ $command == hardware && $words[3] == (import|compare) ]] && command+=" $words[3]"
{}  _arguments $options '*: :_zplan_words'
}}
if [[ $funcstack[1] == _zplan ]]; then _zplan "$@"; else compdef _zplan zplan; fi
)script",
                     words(command_names()), words(compared_names()), kTakeFiles, cases,
                     fmt::join(command_names(), "|"), options);
}

std::string fish_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string fish() {
  std::string out = fmt::format(
      R"script(# zplan completion for fish: zplan completion fish > ~/.config/fish/completions/zplan.fish
function __zplan_is
  set -l command plan
  for word in (commandline -opc)[2..-1]
    if contains -- $word {}
      set command $word
      break
    end
  end
  if test $command = hardware
    for word in import compare
      if contains -- $word (commandline -opc)
        set command "hardware $word"
      end
    end
  end
  contains -- $command $argv
end
)script",
      words(command_names()));
  for (const CommandSpec& spec : command_table()) {
    out += fmt::format("complete -c zplan -n __fish_use_subcommand -f -a {} -d '{}'\n", to_name(spec.command),
                       fish_text(spec.help));
    if (!spec.words.empty())
      out += fmt::format("complete -c zplan -n '__fish_seen_subcommand_from {}' -f -a '{}'\n",
                         to_name(spec.command), words(spec.words));
  }
  out += fmt::format("complete -c zplan -n \"__zplan_is 'hardware compare'\" -f -a '{}'\n",
                     words(compared_names()));
  for (const OptionSpec& spec : option_table()) {
    const std::string value = spec.value.empty() ? ""
                                                 : fmt::format(" {} -a '{}'", spec.type.is_file ? "-r" : "-x",
                                                               words(values_of(spec)));
    out += fmt::format("complete -c zplan -n \"__zplan_is {}\" -l {} -d '{}'{}\n",
                       fmt::join(takers_of(spec, quoted_for_fish), " "), spec.name.substr(2),
                       fish_text(spec.help), value);
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  throw InputError("completion", in_quotes(shell), accepted_words(shell, {"bash", "zsh", "fish"}));
}

}  // namespace zplan
