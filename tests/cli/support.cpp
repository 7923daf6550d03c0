#include "tests/cli/support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "models/base/error.h"

namespace zplan::test {

namespace {

/// A file descriptor read to its end.
std::string drained(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(descriptor, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  close(descriptor);
  return text;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

[[noreturn]] void become_program(const std::string& program, std::vector<std::string> arguments,
                                 std::vector<std::string> variables, int out, int err) {
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  arguments.insert(arguments.begin(), program);
  variables.emplace_back("HF_HUB_OFFLINE=1");  // no test leaves this machine
  execve(program.c_str(), pointers(arguments).data(), pointers(variables).data());
  _exit(127);
}

}  // namespace

std::vector<std::string> split(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Result in_process(const std::vector<std::string>& arguments, const Environment& environment) {
  std::ostringstream out, err;
  Result result;
  try {
    result.status = run(arguments, environment, out, err);
  } catch (const InputError& error) {
    result.status = kBadInput;
    err << "zplan: " << error.what() << "\n";
  }
  result.out = out.str(), result.err = err.str();
  return result;
}

Result in_process(const std::string& line) { return in_process(split(line)); }

Result in_detail(const std::string& line) { return in_detail(split(line)); }
Result in_detail(std::vector<std::string> arguments, const Environment& environment) {
  arguments.emplace_back("--verbose");
  return in_process(arguments, environment);
}

Result as_process(const std::vector<std::string>& arguments, const std::vector<std::string>& variables,
                  const std::string& stdout_to, const std::string& program) {
  std::array<int, 2> out{}, err{};
  if (pipe(out.data()) != 0 || pipe(err.data()) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) {
    if (!stdout_to.empty()) out[1] = open(stdout_to.c_str(), O_WRONLY);
    become_program(program.empty() ? ZPLAN_PROGRAM : program, arguments, variables, out[1], err[1]);
  }
  close(out[1]), close(err[1]);
  Result result;
  std::thread reader([&] { result.err = drained(err[0]); });
  result.out = drained(out[0]);
  reader.join();
  int status = 0;
  waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

namespace {

bool gives_advice(const std::string& line) {
  return line.starts_with("-") || line.starts_with("plan ") || line.starts_with("search ");
}

}  // namespace

json report(const std::string& line) {
  return advised_report(gives_advice(line) ? line + " --no-advice" : line);
}

json advised_report(const std::string& line) {
  const Result result = in_process(line + " --json");
  EXPECT_NE(result.status, kBadInput) << line << ": " << result.err;
  return json::parse(result.out);
}

const json& plan_of(const json& report, const std::string& id) {
  for (const json& plan : report.at("plans"))
    if (plan.at("id") == id) return plan;
  throw std::runtime_error("no plan " + id);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "zplan-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::string Folder::path(const std::string& name) const { return name.empty() ? path_ : path_ + "/" + name; }
std::string Folder::write(const std::string& name, const std::string& text) const {
  std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

}  // namespace zplan::test
