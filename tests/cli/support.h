#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run.h"

namespace zplan::test {

using nlohmann::json;

/// Status and output of a run.
struct Result {
  int status{};
  std::string out, err;
};

/// "--model 8B --gpus 5" → its words.
std::vector<std::string> split(const std::string& line);

/// Calls run() in this process, without home and cache, at 100 columns. Bad input gives status 2 and its message, as in
/// main.
Result in_process(const std::vector<std::string>& arguments, const Environment& environment = {});
Result in_process(const std::string& line);
/// Calls run() with --verbose: the whole answer, not one screen of it.
Result in_detail(const std::string& line);
Result in_detail(std::vector<std::string> arguments, const Environment& environment = {});

/// The program itself, in an environment with nothing but what `variables` names ("NO_COLOR=1").
/// `program`: another in its place.
Result as_process(const std::vector<std::string>& arguments, const std::vector<std::string>& variables = {},
                  const std::string& stdout_to = {}, const std::string& program = {});

/// The report of a question as JSON, without advice, which takes most of the time; fails the test where it
/// is none.
json report(const std::string& line);
/// The same with advice.
json advised_report(const std::string& line);
const json& plan_of(const json& report, const std::string& id);

std::string read_text(const std::string& path);

/// A folder that is gone with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name = {}) const;
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace zplan::test
