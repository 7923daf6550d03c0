// Every command.

#include "cli/options/options.h"

namespace zplan {

const std::vector<CommandSpec>& command_table() {
  using enum Command;
  static const std::vector<CommandSpec> table{
      {plan, "", "every strategy: memory, traffic, time, which fits, which to take and why (the default)"},
      {search, "",
       "the fastest config that fits, over everything that is not pinned, batch and checkpointing too",
       "zplan --ds-config FILE …, which decides what a search would"},
      {compare, "STRATEGY|FILE…",
       "pinned strategies or ds_configs side by side: zero3, tp8+zero1, zero3+offload-all, lora+zero2+b4; or "
       "the scenarios of a FILE.zplan",
       "in a strategy, as in tp8+zero1+offload-all, fsdp or FILE.json, or in a file of scenarios"},
      {fit, "",
       "the inverse: largest micro-batch, longest sequence, fewest GPUs, smallest GPU, biggest model; what "
       "helps against an out-of-memory error",
       "with the plan that fit names"},
      {check, "FILE|FOLDER…",
       "predictions against measurements: published or recorded runs, DeepSpeed and nccl-tests logs, memory "
       "snapshots",
       "--worst, --tolerance, --json, …"},
      {lint, "FILE…",
       "errors in DeepSpeed configs, how DeepSpeed reads them, and what to write instead; with "
       "--model whether they fit",
       "--fix, --json, --sarif, --model, --gpus, …"},
      {bench, "[OPTION…]",
       "real collectives on these machines (NCCL, or MPI where there is no GPU), a plan's calls replayed; "
       "its own options: zplan bench --help"},
      {gui, "[FILE… | OPTION…]",
       "the window: scenarios side by side, as options or from files (needs Qt 6); its own options: zplan "
       "gui --help"},
      {models,
       "[list | show NAME | search WORDS]",
       "the catalogue of models",
       "",
       {"list", "show", "search"}},
      {hardware,
       "[list | instances | show NAME | search WORDS | compare NAME… | import FILE…]",
       "the catalogue of GPUs, nodes, networks and cloud shapes; compare plans one question on several of "
       "them; "
       "import makes a GPU's profile of nccl-tests logs and zplan-bench results",
       "",
       {"list", "instances", "show", "search", "compare", "import"}},
      {completion, "bash | zsh | fish", "a completion script for your shell", "", {"bash", "zsh", "fish"}},
      {help,
       "[TOPIC | COMMAND]",
       "options of a topic or a command",
       "",
       {"model", "cluster", "strategy", "training", "rl", "output", "all"}},
  };
  return table;
}

}  // namespace zplan
