// What the tests of the launcher start: ranks that end in all kinds of ways, and launchers to be killed.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "harness/net/environment.h"
#include "harness/net/local_launcher.h"
#include "harness/net/tcp_control.h"

namespace {

using namespace zplan::bench;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "-" : value;
}

/// For ever, as far as a test is concerned; not longer than one may take.
int sleep_on() {
  for (int i = 0; i < 1200; ++i) usleep(100'000);
  return 99;
}

/// Leaves "<folder>/<rank>" with its process number: it runs, and what follows is in place.
void announce(const std::string& folder) {
  const std::string path = folder + "/" + variable("RANK");
  std::ofstream(path + ".part") << getpid() << "\n";
  (void)std::rename((path + ".part").c_str(), path.c_str());
}

volatile sig_atomic_t seen = 0;

int catch_signals(const std::string& folder) {
  struct sigaction action {};
  action.sa_handler = [](int signal) { seen = signal; };
  for (const int each : {SIGINT, SIGTERM, SIGUSR1}) (void)sigaction(each, &action, nullptr);
  announce(folder);
  for (int i = 0; i < 1200 && seen == 0; ++i) usleep(100'000);
  return seen;
}

int ignore_signals(const std::string& folder) {
  for (const int each : {SIGINT, SIGTERM, SIGUSR1}) (void)signal(each, SIG_IGN);
  announce(folder);
  return sleep_on();
}

int meet() {
  TcpControl control(tcp_options(read_place(process_variables())));
  return static_cast<int>(control.all_gather("x").size());
}

int launch(std::vector<std::string> command, int ranks) {
  return run_local({.ranks = ranks,
                    .command = std::move(command),
                    .grace = std::chrono::milliseconds(200),
                    .on_failure = [](const Ending& ending) { std::cout << describe(ending) << std::endl; }});
}

int command(std::vector<std::string> command) {
  return run_command({.command = std::move(command),
                      .interrupt_signal = SIGUSR1,
                      .end_signal = SIGTERM,
                      .grace = std::chrono::milliseconds(200)});
}

/// This program again, with what follows.
std::vector<std::string> again(char** arguments, int count, int from) {
  std::vector<std::string> words{arguments[0]};
  words.insert(words.end(), arguments + from, arguments + count);
  return words;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "", word = count > 2 ? arguments[2] : "";
  const std::string rank = variable("RANK");
  if (what == "exit") return std::stoi(word);
  if (what == "die") return raise(std::stoi(word));
  if (what == "rank-exits") return rank == word ? std::stoi(arguments[3]) : sleep_on();
  if (what == "rank-dies") return rank == word ? raise(std::stoi(arguments[3])) : sleep_on();
  if (what == "sleep") return announce(word), sleep_on();
  if (what == "catch") return catch_signals(word);
  if (what == "ignore") return ignore_signals(word);
  if (what == "meet") return meet() == std::stoi(word) ? 0 : 1;
  if (what == "variables") {
    std::ofstream(word + "/" + rank) << variable("WORLD_SIZE") << " " << variable("LOCAL_RANK") << " "
                                     << variable("LOCAL_WORLD_SIZE") << " " << variable("MASTER_ADDR") << " "
                                     << (std::stoi(variable("MASTER_PORT")) > 0) << " "
                                     << variable("ZPLAN_LAUNCHED") << " " << variable("EXTRA") << " "
                                     << (getpgid(0) == getpgid(getppid())) << "\n";
    return 0;
  }
  if (what == "launch") return launch(again(arguments, count, 3), std::stoi(word));
  if (what == "command") return command(again(arguments, count, 2));
  return 98;
}
