#include "harness/sent.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/json_reader.h"

namespace zplan::bench {

SentBytes grown(const SentBytes& before, const SentBytes& after) {
  SentBytes more;
  for (const auto& [name, bytes] : after)
    if (const auto was = before.find(name); was != before.end() && bytes > was->second)
      more[name] = bytes - was->second;
  return more;
}

SentMeter::SentMeter(Control& control, const std::vector<std::string>& hosts, SentCounter counter)
    : control_(control), counter_(std::move(counter)) {
  const auto mine = hosts.begin() + control.rank();
  reads_ = std::find(hosts.begin(), mine, *mine) == mine;
  before_ = read_between_barriers();
}

/// Reads the counter while no rank sends.
SentBytes SentMeter::read_between_barriers() {
  control_.barrier();
  SentBytes read;
  if (reads_ && counter_) read = counter_();
  control_.barrier();
  return read;
}

std::optional<SentBytes> SentMeter::total() {
  const SentBytes mine = grown(before_, read_between_barriers());
  // "null": this host counts nothing; "": another rank of this host reads.
  std::string text;
  if (reads_) text = before_.empty() ? "null" : Json(mine).dump();
  SentBytes sum;
  bool counted = true;
  for (const std::string& each : control_.all_gather(text)) {
    if (each.empty()) continue;
    const Json theirs = Json::parse(each);
    counted = counted && !theirs.is_null();
    for (const auto& [name, bytes] : theirs.items()) sum[name] += bytes.get<std::int64_t>();
  }
  return counted ? std::optional(sum) : std::nullopt;
}

}  // namespace zplan::bench
