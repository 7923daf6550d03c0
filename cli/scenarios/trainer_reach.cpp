#include "cli/scenarios/trainer_reach.h"

#include <algorithm>
#include <utility>

#include "cli/options/request.h"
#include "models/base/error.h"
#include "planner/question/trainers.h"
#include "planner/search/inverse.h"

namespace zplan {

namespace {

/// Returns the largest value that fits; nothing where none does, or the question is not legal.
std::optional<std::int64_t> largest(const OpenQuestion& open, Solve solve) {
  try {
    const Inverse found = zplan::solve(open, solve);
    const Solution* best = found.best();
    if (best == nullptr) return std::nullopt;
    return best->rounded ? best->rounded : best->value;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

TrainerReach reach_of(const TrainerChoice& trainer, const OpenQuestion& open, const Plan& plan) {
  return {.trainer = trainer,
          .fits = plan.fits,
          .required = plan.memory().required,
          .step = plan.time.step,
          .largest_micro_batch = largest(open, Solve::micro_batch),
          .longest_sequence = largest(open, Solve::sequence)};
}

/// Returns the trainer that the script of --trainer runs without its library; empty: none.
std::string_view beside_of(const Options& options) {
  if (options.trainers.empty()) return {};
  const auto row = std::ranges::find(trainers(), options.trainers.front().trainer, &Trainer::name);
  return row == trainers().end() ? std::string_view() : row->beside;
}

/// Returns the options under `trainer`, with the framework and the optimizer of the question, without the
/// file of --emit, which is for the trainer that was asked for.
Options under(const TrainerChoice& trainer, Options options, const Question& question) {
  options.trainers = {trainer};
  options.emit.clear(), std::erase(options.given, "--emit");
  options.training.framework = question.training.framework;
  options.training.optimizer = question.training.optimizer;
  for (const char* each : {"--framework", "--optimizer"})
    if (!options.has(each)) options.given.emplace_back(each);
  return options;
}

}  // namespace

bool has_trainer_beside(const Options& options) { return !beside_of(options).empty(); }

std::vector<TrainerReach> trainer_reaches(const Options& options, const Question& question,
                                          const Answer& answer, const Environment& environment) {
  const std::string_view name = beside_of(options);
  if (name.empty()) return {};
  const TrainerChoice asked = options.trainers.front();
  const HardwareProfiles hardware = with_user_profiles(user_hardware_folder(environment));
  std::vector<TrainerReach> all{
      reach_of(asked, open_question(options, question, hardware), answer.plans.front())};
  const TrainerChoice other = parse_trainer("--trainer", name);
  const Options beside = under(other, options, question);
  try {
    const Question q = make_request(beside, environment).question;
    all.push_back(reach_of(other, open_question(beside, q, hardware), draft_answer(q).plans.front()));
  } catch (const InputError&) {
    // The other trainer refuses the question: its row is left out.
  }
  return all;
}

}  // namespace zplan
