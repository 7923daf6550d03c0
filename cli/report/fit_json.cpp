// `zplan fit` for programs.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/report/fit_report.h"
#include "models/base/version.h"

namespace zplan {

namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json figures_json(const Plan& plan) {
  return {{"strategy", plan.id()},
          {"required", plan.memory().required.value},
          {"host", plan.memory().host.total.value},
          {"step", plan.time.step.value},
          {"tokens_per_second", plan.time.tokens_per_second}};
}

Json solution_json(const Solution& solution) {
  Json out = figures_json(solution.plan);
  out["value"] = or_null(solution.value);
  out["next"] = or_null(solution.next);
  out["limit"] = std::string(to_name(solution.limit));
  out["reason"] = solution.reason;
  return out;
}

Json rejected_json(const std::vector<Rejection>& rejected) {
  Json out = Json::array();
  for (const Rejection& each : rejected)
    out.push_back({{"id", strategy_id(each.strategy)}, {"reasons", each.reasons}});
  return out;
}

std::string_view unit_key(Solve solve) {
  switch (solve) {
    case Solve::micro_batch: return "samples";
    case Solve::sequence: return "tokens";
    case Solve::gpus: return "gpus";
    case Solve::model: return "parameters";
    case Solve::memory:
    case Solve::host_memory: return "gib";
  }
  return "";
}

Json ladder_json(const std::vector<Rung>& ladder) {
  Json out = Json::array();
  for (const Rung& each : ladder) {
    Json rung = figures_json(each.plan);
    rung["means"] = each.step, rung["options"] = each.options;
    rung["value"] = or_null(each.tokens);
    rung["gained"] = each.gained, rung["kept"] = each.kept;
    out.push_back(std::move(rung));
  }
  return out;
}

Json question_json(const SolvedQuestion& solved) {
  const Inverse& inverse = solved.inverse;
  Json solutions = Json::array(), cards = Json::array(), models = Json::array();
  for (const Solution& each : inverse.solutions) solutions.push_back(solution_json(each));
  for (const CardFit& each : solved.cards) {
    Json card = figures_json(*each.plan);
    card["name"] = each.name, card["memory_bytes"] = each.memory.value;
    cards.push_back(std::move(card));
  }
  for (const ModelFit& each : solved.models) {
    Json model = figures_json(each.plan);
    model["name"] = each.name, model["parameters"] = each.size.value;
    models.push_back(std::move(model));
  }
  Json out{{"solve", std::string(to_name(inverse.solve))},
           {"unit", std::string(unit_key(inverse.solve))},
           {"answer", inverse.fits() ? or_null(inverse.best()->value) : Json(nullptr)},
           {"strategy", inverse.fits() ? Json(inverse.best()->plan.id()) : Json(nullptr)},
           {"why", inverse.solutions.front().plan.why},
           {"solutions", std::move(solutions)},
           {"rejected", rejected_json(inverse.rejected)},
           {"cards", std::move(cards)},
           {"models", std::move(models)}};
  if (!solved.ladder.empty()) out["ladder"] = ladder_json(solved.ladder);
  return out;
}

}  // namespace

Json fit_json(const FitReport& report) {
  Json questions = Json::array();
  for (const SolvedQuestion& each : report.solved) questions.push_back(question_json(each));
  return {{"schema", "zplan.fit/1"},
          {"zplan_version", std::string(version())},
          {"questions", std::move(questions)},
          {"warnings", report.warnings}};
}

}  // namespace zplan
