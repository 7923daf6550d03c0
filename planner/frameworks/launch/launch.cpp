#include "planner/frameworks/launch/launch.h"

#include "hardware_profiles/cluster.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"

namespace zplan {

std::string shell_word(std::string_view word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string join(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

void add(Words& words, std::initializer_list<std::string> more) { words.insert(words.end(), more); }

Words torchrun_words(const Cluster& cluster) {
  Words words{"torchrun"};
  if (cluster.nodes > 1)
    add(words, {"--nnodes", std::to_string(cluster.nodes), "--node_rank", "$NODE_RANK", "--master_addr",
                "$MASTER_ADDR", "--master_port", std::string(kPort)});
  add(words, {"--nproc_per_node", std::to_string(cluster.gpus_per_node)});
  return words;
}

void add_meeting_place(Words& words, const Cluster& cluster) {
  if (cluster.nodes > 1)
    add(words, {"--machine_rank", "$NODE_RANK", "--main_process_ip", "$MASTER_ADDR", "--main_process_port",
                std::string(kPort)});
}

std::string_view ulysses_attention(Attention attention) {
  return attention == Attention::flash ? "flash_attention_2" : "sdpa";
}

double starting_learning_rate(const Training& training) {
  return training.method == Method::full ? 1e-5 : 1e-4;
}

Launcher launcher(const Launch& launch, ConfigStyle style) {
  if (launch.deepspeed.empty()) return {"accelerate", launch.accelerate};
  if (style == ConfigStyle::ms_swift) return {"swift", launch.swift};
  return {"deepspeed", launch.deepspeed};
}

Launch launch_lines(const Plan& plan, const Question& question, const std::string& config) {
  return spec(plan.framework).launch(plan, question, config);
}

}  // namespace zplan
