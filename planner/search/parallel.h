#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

#include "planner/question/work.h"

namespace zplan {

/// Calls f(0) … f(n − 1) on as many threads as there are cores, all at the Work of this thread. Throws what f
/// throws, and begins no further call then.
template <class F>
void for_each_in_parallel(std::size_t n, const F& f) {
  std::atomic<std::size_t> next{0};
  Work* const work = Work::current();
  const auto some = [&] {
    const WorkOf here(work);
    try {
      for (std::size_t i = next++; i < n; i = next++) stop_if_asked(), f(i);
    } catch (...) {
      next = n;
      throw;
    }
  };
  const std::size_t threads = std::min<std::size_t>(n, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, some));
  some();
  for (std::future<void>& each : others) each.get();
}

/// Returns f of every element, in order.
template <class Element, class F>
[[nodiscard]] auto mapped_in_parallel(const std::vector<Element>& all, const F& f) {
  std::vector<decltype(f(all.front()))> results(all.size());
  for_each_in_parallel(all.size(), [&](std::size_t i) { results[i] = f(all[i]); });
  return results;
}

}  // namespace zplan
