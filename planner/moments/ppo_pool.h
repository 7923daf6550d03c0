#pragma once
// Memory that PyTorch's allocator reserves for PPOTrainer's own generation: keys and values that grow by a
// token leave gaps behind, and each step's scores stay among them. Measured: tests/reference/ppo.

#include "models/base/quantity.h"

namespace zplan {

struct Model;
struct Strategy;
struct Tape;
struct Training;

/// Over what is held when a generation begins; `prompt`: the forward over a chunk's prompts.
struct GenerationPool {
  Bytes reserved;  ///< taken from a device with memory to spare
  Bytes needed;    ///< the least that will do: wholly free segments are given back where memory ends
};
[[nodiscard]] GenerationPool generation_pool(const Model& model, const Training& training,
                                             const Strategy& strategy, const Tape& prompt);

}  // namespace zplan
