#pragma once
// On which GPUs a run completes.

#include <optional>

#include "planner/simulation/card_trial.h"
#include "planner/simulation/run.h"

namespace zplan {

/// GPUs by their usable memory. Each that is asked about is tried; what one taught is not tried again.
class Cards {
 public:
  /// `inputs`, whose `outside` is set, and `unlimited`, which simulate() made of it, outlive it.
  Cards(const RunInputs& inputs, const RunResult& unlimited);

  /// Whether the run completes on a GPU of `size`. One that fails as it starts (Flattening::failing) is not
  /// asked about.
  [[nodiscard]] bool completes_on(Bytes size);
  /// The same of `size`, or where such a GPU fails as it starts, of the next smaller one that does not.
  [[nodiscard]] bool completes_within(Bytes size);
  /// The smallest GPU on which the run completes, to 0.5 %: strides up from what is live at the worst
  /// moment, then bisection; at most what suffices where nothing cached is ever given back. Caution: sizes
  /// between that were not tried are taken as not running, and larger ones as running; of gaps neither need
  /// be so (docs/memory.md). `beyond`: a GPU on which it does not run; smaller ones are not asked for.
  [[nodiscard]] Bytes smallest(Bytes beyond = {});
  /// Whether smallest() is within `size`.
  [[nodiscard]] bool smallest_is_within(Bytes size);
  /// The run on GPUs that flatten weights on the host, with memory to spare.
  struct OnHost {
    AllocatorTrace asked;
    Bytes peak_allocated;  ///< of the steady step
    Bytes peak_reserved;   ///< of the whole run
  };
  [[nodiscard]] const OnHost& on_host();

 private:
  [[nodiscard]] bool flattens_on_host(Bytes size) const;
  [[nodiscard]] OnHost play_on_host() const;
  [[nodiscard]] bool tried(bool on_host, Bytes pool);
  /// What the smallest pool is known to lie between: it does not run with `fails`, and it runs with `runs`.
  struct Bracket {
    std::int64_t fails{}, runs{};
  };
  template <class Enough>
  [[nodiscard]] Bracket narrow(Bytes beyond, const Enough& enough);

  const RunInputs& inputs_;
  const RunResult& unlimited_;
  CardTrial trial_;
  std::optional<OnHost> on_host_;
  std::optional<CardTrial> trial_on_host_;
};

}  // namespace zplan
