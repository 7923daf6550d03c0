#include "planner/time/clock.h"

namespace zplan {

void Clock::repeat(std::int64_t more) {
  if (pace_ == nullptr || more <= 0) return;
  const auto n = static_cast<double>(more);
  const Seconds elapsed = (device_ - micro_step_) * n;
  host_ += elapsed, device_ += elapsed, collectives_ += elapsed;
  const auto again = [&](auto member) { time_.*member += (time_.*member - before_.*member) * n; };
  for (const auto member : {&RunTime::products, &RunTime::attention, &RunTime::other, &RunTime::launching,
                            &RunTime::communication, &RunTime::exposed_tensor})
    again(member);
  for (std::size_t i = 0; i < kPhases; ++i) time_.exposed[i] += (time_.exposed[i] - before_.exposed[i]) * n;
}

}  // namespace zplan
