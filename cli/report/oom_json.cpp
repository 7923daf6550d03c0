// `zplan fit --oom` for programs.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/report/oom_report.h"
#include "models/base/version.h"

namespace zplan {

namespace {

Json bytes_json(const std::optional<Bytes>& size) { return size ? Json(size->value) : Json(nullptr); }

template <class T>
Json number_json(const std::optional<T>& number) {
  return number ? Json(*number) : Json(nullptr);
}

Json reading_json(const OomReading& reading) {
  const OomMessage& m = reading.message;
  return {{"line", m.line},
          {"device", m.device},
          {"gpu", number_json(m.gpu)},
          {"rank", number_json(m.rank)},
          {"asked", m.asked.value},
          {"asked_text", m.asked_text},
          {"capacity", bytes_json(m.capacity)},
          {"free", bytes_json(m.free)},
          {"allowed", bytes_json(m.allowed)},
          {"allocated", bytes_json(m.allocated)},
          {"unallocated", bytes_json(m.unallocated)},
          {"private_pools", bytes_json(m.private_pools)},
          {"process", bytes_json(m.process)},
          {"outside_pytorch", bytes_json(reading.outside)},
          {"other_processes", bytes_json(reading.others)},
          {"cause", std::string(to_name(reading.cause))},
          {"sentences", reading.sentences}};
}

Json change_json(const OomChange& change) {
  Json out{{"change", change.what},
           {"options", change.options},
           {"launch", change.launch},
           {"fits", change.fits()},
           {"illegal", change.illegal}};
  if (!change.plan) return out;
  out["strategy"] = change.plan->id();
  out["frees"] = change.frees.value, out["required"] = change.plan->memory().required.value;
  out["host"] = change.plan->memory().host.total.value;
  out["tokens_per_second"] = change.plan->time.tokens_per_second, out["speed"] = change.speed;
  return out;
}

Json replay_json(const OomReport& report) {
  if (!report.replay) return nullptr;
  const OomReplay& replay = *report.replay;
  Json matches = Json::array();
  for (const OomMatch& each : replay.matches)
    matches.push_back({{"term", std::string(info(each.term).name)},
                       {"phase", std::string(to_name(each.phase))},
                       {"at", std::string(each.at)},
                       {"times", each.times},
                       {"bytes", each.size.value}});
  Json out{{"pool", replay.pool.value},
           {"completes", replay.completes},
           {"refused", nullptr},
           {"matches", std::move(matches)}};
  if (replay.refused)
    out["refused"] = {{"term", std::string(info(replay.refused->term).name)},
                      {"phase", std::string(to_name(replay.refused->phase))},
                      {"at", std::string(replay.refused->at)},
                      {"layer", replay.refused->layer >= 0 ? Json(replay.refused->layer) : Json(nullptr)},
                      {"bytes", replay.refused->size.value},
                      {"held", replay.refused->held.value}};
  return out;
}

}  // namespace

Json oom_json(const OomReport& report) {
  Json messages = Json::array(), changes = Json::array();
  for (const OomReading& each : report.readings) messages.push_back(reading_json(each));
  Json plan = nullptr;
  if (report.remedies) {
    const Plan& ran = report.remedies->plan;
    for (const OomChange& each : report.remedies->changes) changes.push_back(change_json(each));
    plan = {{"strategy", ran.id()},
            {"fits", ran.fits},
            {"required", ran.memory().required.value},
            {"available", available(report.question->cluster, report.question->headroom).value},
            {"tokens_per_second", ran.time.tokens_per_second},
            {"why", ran.why}};
  }
  return {{"schema", "zplan.fit/1"},
          {"zplan_version", std::string(version())},
          {"oom",
           {{"messages", std::move(messages)},
            {"plan", std::move(plan)},
            {"replay", replay_json(report)},
            {"changes", std::move(changes)}}},
          {"warnings", report.warnings}};
}

}  // namespace zplan
