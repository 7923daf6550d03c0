// Asks random questions and says which laws their answers break.
//   random_questions [--seed S] [--count N] [--from K] [--list]
// Question number K of a seed is the same whatever N is.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/options/request.h"
#include "cli/report/report.h"
#include "cli/run.h"
#include "laws.h"
#include "planner/plan/plan.h"
#include "planner/question/work.h"
#include "planner/search/search.h"
#include "question.h"

namespace zplan::test {
namespace {

/// Steps that one question may take: about five times what the dearest of 400 took.
constexpr std::int64_t kBudget = 20'000;

struct Tally {
  std::int64_t answered{}, refused{}, fitting{}, steps{}, most_steps{}, broken{};
  std::string dearest;
  LargerCards cards;
};

struct Told {
  int status{kBadInput};
  LargerCards cards;
  std::vector<Broken> broken;
};

void check_printed(const std::vector<std::string>& words, Told& told) {
  std::vector<std::string> typed = words;
  typed.emplace_back("--json");
  std::ostringstream out, err;
  told.status = run(typed, {}, out, err);
  check_figures(Json::parse(out.str()), told.broken);
}

void check_plans(const std::vector<std::string>& words, Random& random, Told& told) {
  const Options options = parse_options(words);
  const Request request = make_request(options, {});
  const Question& q = request.question;
  const Answer all = answer(q);
  told.status = all.fits() ? kFits : kNothingFits;
  check_figures(report_json({q, all, options, words, {}}), told.broken);
  check_required(all.plans, told.broken);
  const Plan& plan = random.of(all.plans);
  check_sameness({words, options, q, all}, plan, random, told.broken);
  check_cards(q, plan, random, told.cards, told.broken);
  check_sizes(q, plan, random, told.broken);
}

/// One question, answered or refused in one line.
Told ask(const std::vector<std::string>& words, Random& random) {
  Told told;
  try {
    if (words.front().starts_with("--"))
      check_plans(words, random, told);
    else
      check_printed(words, told);
  } catch (const InputError& error) {
    told.status = kBadInput;
    if (std::string(error.what()).find('\n') != std::string::npos)
      told.broken.push_back({"what is refused is refused in one line", error.what()});
  } catch (const OverBudget&) {
    told.broken.push_back({"a question takes no more steps than its budget", fmt::format("{}", kBudget)});
  } catch (const std::exception& error) {
    told.broken.push_back({"nothing but bad input is an error", error.what()});
  }
  return told;
}

std::string typed(const std::vector<std::string>& words) {
  std::string line = "zplan";
  for (const std::string& each : words)
    line += each.find(' ') == std::string::npos ? " " + each : fmt::format(" \"{}\"", each);
  return line;
}

void add(Tally& tally, const Told& told, std::int64_t steps, const std::string& line) {
  ++(told.status == kBadInput ? tally.refused : tally.answered);
  tally.fitting += told.status == kFits ? 1 : 0;
  tally.cards.between += told.cards.between, tally.cards.without_room += told.cards.without_room;
  tally.steps += steps, tally.broken += static_cast<std::int64_t>(told.broken.size());
  if (steps > tally.most_steps) tally.most_steps = steps, tally.dearest = line;
}

struct Asked {
  std::uint64_t seed{1}, from{0}, count{100};
  bool list{};
};

Asked parse(int count, char** values) {
  Asked asked;
  for (int i = 1; i < count; ++i) {
    const std::string word = values[i];
    const auto value = [&] { return i + 1 < count ? std::strtoull(values[++i], nullptr, 10) : 0ULL; };
    if (word == "--seed") asked.seed = value();
    if (word == "--count") asked.count = value();
    if (word == "--from") asked.from = value();
    if (word == "--list") asked.list = true;
  }
  return asked;
}

int ask_all(const Asked& asked) {
  Tally tally;
  for (std::uint64_t number = asked.from; number < asked.from + asked.count; ++number) {
    Random random = stream_of(asked.seed, number);
    const std::vector<std::string> words = random_question(random);
    const std::string line = typed(words);
    if (asked.list) std::cout << number << ": " << line << std::endl;
    Work work(nullptr, kBudget);
    const Told told = ask(words, random);
    if (asked.list) std::cout << "  " << told.status << ", " << work.steps() << " steps" << std::endl;
    for (const Broken& each : told.broken)
      std::cout << fmt::format("question {}: {}\n  broken: {}\n  {}\n", number, line, each.law, each.what)
                << std::flush;
    add(tally, told, work.steps(), line);
  }
  std::cout << fmt::format(
      "seed {}: {} questions, {} answered ({} with a plan that fits), {} refused, {} laws broken\n"
      "{} steps, at most {} of {} by one question: {}\n"
      "{} of {} GPUs just above one that fits have less memory available (docs/memory.md, Larger GPUs)\n",
      asked.seed, asked.count, tally.answered, tally.fitting, tally.refused, tally.broken, tally.steps,
      tally.most_steps, kBudget, tally.dearest, tally.cards.without_room, tally.cards.between);
  return tally.broken == 0 && tally.answered > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace zplan::test

int main(int count, char** values) { return zplan::test::ask_all(zplan::test::parse(count, values)); }
