#include "python/engine/engine.h"

#include <atomic>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/environment.h"
#include "cli/commands/commands.h"
#include "cli/report/html_page.h"
#include "cli/run.h"
#include "models/base/error.h"
#include "models/base/files.h"
#include "models/base/json_reader.h"
#include "planner/question/work.h"
#include "planner/search/search.h"

struct zplan_question {
  std::string output, messages;
  std::atomic<bool> stop{false};
};

namespace {

using Words = std::vector<std::string>;

/// Returns the environment without its terminal, which a library does not write to.
zplan::Environment library_environment() {
  zplan::Environment environment = zplan::read_environment();
  environment.output_is_terminal = environment.errors_are_terminal = environment.owns_process = false;
  return environment;
}

void refuse_programs(const Words& words) {
  if (zplan::is_program(words))
    throw zplan::InputError(words.front(), "a program of its own",
                            "accepted: zplan " + words.front() + " in a shell");
}

int ask(zplan_question& question, const Words& words) {
  std::ostringstream out, err;
  refuse_programs(words);
  const zplan::Work work(&question.stop);
  const int status = zplan::run(words, library_environment(), out, err);
  question.output = std::move(out).str();
  question.messages = std::move(err).str();
  return status;
}

/// Nothing may be thrown through C.
int answer(zplan_question& question, const char* const* words, size_t count) {
  question.output.clear();
  question.messages.clear();
  try {
    return ask(question, Words(words, words + count));
  } catch (const zplan::InputError& error) {
    question.messages = error.what();
    return zplan::kBadInput;
  } catch (const zplan::Stopped& stopped) {
    question.messages = stopped.what();
    return ZPLAN_STOPPED;
  } catch (const std::exception& error) {
    question.messages = error.what();
    return ZPLAN_FAILED;
  }
}

int page(zplan_question& question, std::string_view report) {
  question.output.clear();
  question.messages.clear();
  try {
    question.output = zplan::html_page(zplan::parse_json(report, "report"));
    return zplan::kFits;
  } catch (const nlohmann::json::exception& error) {
    question.messages = error.what();
    return zplan::kBadInput;
  } catch (const zplan::InputError& error) {
    question.messages = error.what();
    return zplan::kBadInput;
  } catch (const std::exception& error) {
    question.messages = error.what();
    return ZPLAN_FAILED;
  }
}

int write(zplan_question& question, const std::string& path, const std::string& text) {
  question.output.clear();
  question.messages.clear();
  try {
    zplan::write_file(path, text, path);
    return zplan::kFits;
  } catch (const zplan::InputError& error) {
    question.messages = error.what();
    return zplan::kBadInput;
  } catch (const std::exception& error) {
    question.messages = error.what();
    return ZPLAN_FAILED;
  }
}

const char* text_of(const std::string& text, size_t* length) {
  *length = text.size();
  return text.c_str();
}

}  // namespace

zplan_question* zplan_question_new(void) { return new (std::nothrow) zplan_question; }

void zplan_question_delete(zplan_question* question) { delete question; }

int zplan_question_ask(zplan_question* question, const char* const* words, size_t count) {
  try {
    return answer(*question, words, count);
  } catch (const std::exception&) {  // no memory for the sentence
    return ZPLAN_FAILED;
  }
}

int zplan_question_page(zplan_question* question, const char* report, size_t length) {
  try {
    return page(*question, std::string_view(report, length));
  } catch (const std::exception&) {  // no memory for the sentence
    return ZPLAN_FAILED;
  }
}

int zplan_question_write(zplan_question* question, const char* path, const char* text, size_t length) {
  try {
    return write(*question, path, std::string(text, length));
  } catch (const std::exception&) {  // no memory for the sentence
    return ZPLAN_FAILED;
  }
}

void zplan_question_stop(zplan_question* question) { question->stop.store(true); }

const char* zplan_question_output(const zplan_question* question, size_t* length) {
  return text_of(question->output, length);
}

const char* zplan_question_messages(const zplan_question* question, size_t* length) {
  return text_of(question->messages, length);
}

int zplan_main(const char* const* words, size_t count) {
  return zplan::run_process(Words(words, words + count));
}

int zplan_engine_version(void) { return ZPLAN_ENGINE_VERSION; }
