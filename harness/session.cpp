#include "harness/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <set>

#include "harness/control.h"
#include "models/base/error.h"
#include "models/base/format.h"

namespace zplan::bench {

std::vector<double> slowest(const std::vector<std::vector<double>>& by_rank) {
  std::vector<double> all(by_rank.front().size());
  for (const std::vector<double>& each : by_rank)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], each[i]);
  return all;
}

Team& Session::team(const Groups& groups, std::string_view place) {
  const auto known =
      std::find_if(teams_.begin(), teams_.end(), [&](const Team& each) { return each.groups == groups; });
  if (known != teams_.end()) return *known;
  watchdog.begin("making the " + name_of(groups));
  std::vector<int> of_group = members(groups, ranks(), control().rank(), place);
  std::set<std::string> nodes;
  for (const int rank : of_group) nodes.insert(hosts.at(static_cast<std::size_t>(rank)));
  std::unique_ptr<Communicator> communicator = backend.split(of_group.front(), control().rank());
  teams_.push_back({.groups = groups,
                    .ranks = std::move(of_group),
                    .communicator = std::move(communicator),
                    .at_once = at_once(groups, ranks()),
                    .nodes = static_cast<std::int64_t>(nodes.size())});
  return teams_.back();
}

Arena Session::arena(Bytes size) {
  constexpr Bytes kLeast = kKiB;
  const Bytes wanted = std::max(size, kLeast);
  for (Bytes tried = wanted;; tried = Bytes(tried.value / 2)) {
    watchdog.begin("allocating messages of " + format_bytes(tried));
    Arena arena;
    std::string lacks;
    try {
      arena = {backend.allocate(tried), backend.allocate(tried)};
    } catch (const OutOfMemory& error) {
      lacks = error.what();
    }
    const std::vector<std::string> all = control().all_gather(lacks);
    const auto first =
        std::find_if(all.begin(), all.end(), [](const std::string& each) { return !each.empty(); });
    if (first == all.end()) {
      if (tried < wanted)
        recorder.add("notes",
                     fmt::format("the largest message is {} instead of {}: there is no memory for more",
                                 format_bytes(tried), format_bytes(size)));
      return arena;
    }
    if (tried <= kLeast) throw OutOfMemory(*first);
    if (is_first() && tried == wanted) progress(*first + ": trying smaller messages");
  }
}

std::string Session::reason_to_stop() const {
  if (StopSignals::asked() != StopSignals::Asked::nothing) return "interrupted";
  const double spent = std::chrono::duration<double>(Clock::now() - started_).count();
  if (options.budget && spent > options.budget->value)
    return fmt::format("the budget of {:g} s is used up", options.budget->value);
  return "";
}

bool Session::goes_on() {
  if (!stopped_.empty()) return false;
  watchdog.begin("waiting for rank 0");
  stopped_ = control().broadcast(is_first() ? reason_to_stop() : "");
  return stopped_.empty();
}

std::optional<Seconds> Session::share_of_budget(std::int64_t parts) const {
  if (!options.budget) return std::nullopt;
  const double spent = std::chrono::duration<double>(Clock::now() - started_).count();
  return Seconds(std::max(0.0, options.budget->value - spent) /
                 static_cast<double>(std::max<std::int64_t>(parts, 1)));
}

std::string Session::on_rank_0(const std::function<void()>& act) {
  const std::string kBusy = "busy", kFinished = "done", kBad = "bad ";
  std::future<void> work;
  if (is_first()) work = std::async(std::launch::async, act);
  while (true) {
    watchdog.begin("waiting for rank 0");
    std::string state = kBusy;
    if (is_first() && work.wait_for(std::chrono::seconds(1)) == std::future_status::ready) try {
        work.get();
        state = kFinished;
      } catch (const InputError& error) {
        state = kBad + error.what();
      }
    state = control().broadcast(state);
    if (state == kFinished) return "";
    if (state != kBusy) return state.substr(kBad.size());
  }
}

std::vector<std::vector<double>> Session::exchange(const std::vector<double>& samples) {
  std::string bytes(samples.size() * sizeof(double), '\0');
  if (!samples.empty()) std::memcpy(bytes.data(), samples.data(), bytes.size());
  std::vector<std::vector<double>> all;
  for (const std::string& each : control().all_gather(bytes)) {
    if (each.size() != bytes.size()) throw BenchError("ranks measured different numbers of calls");
    std::vector<double> theirs(samples.size());
    if (!theirs.empty()) std::memcpy(theirs.data(), each.data(), each.size());
    all.push_back(std::move(theirs));
  }
  return all;
}

}  // namespace zplan::bench
