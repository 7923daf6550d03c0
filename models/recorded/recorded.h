#pragma once
// A model that was recorded while PyTorch ran it (zplan trace, a file of zplan.model/1), for architectures
// without a descriptor. Besides its tensors it holds the events of a micro-step for each way to train that
// was recorded, with sizes as polynomials in the batch and the sequence length. docs/any-model.md describes
// how it is made.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// The part of the model that a block, a parameter or a module belongs to, relative to the part that names
/// it: a distance in layers or, from around the layers, a layer counted from the first (0, 1, …) or the last
/// (−1, −2, …).
inline constexpr std::int32_t kOwnPart = std::numeric_limits<std::int32_t>::min();
inline constexpr std::int32_t kAroundLayers = kOwnPart + 1;

/// A size in bytes: Σ cᵢ·mᵢ / over with the monomials 1, s, s², b, bs, bs², and the same times LoRA's rank.
struct RecordedSize {
  std::int64_t over{1};
  std::vector<std::int64_t> coefficients;

  [[nodiscard]] Bytes at(std::int64_t b, std::int64_t s, std::int64_t rank) const;
  bool operator==(const RecordedSize&) const = default;
};

struct RecordedEvent {
  enum class Kind : std::uint8_t {
    allocate,
    free,
    gradient,
    enter,
    leave,
    enter_backward,
    leave_backward,
    read,
    keep,
    let_go,
    loss,
    loss_backward,
    backward,
    compute,
  };
  Kind kind{Kind::allocate};
  std::int32_t index{-1};  ///< size, parameter, module or load
  std::int32_t index_part{kOwnPart};
  std::int32_t block{-1};  ///< block, or what a module reads
  std::int32_t block_part{kOwnPart};
  bool operator==(const RecordedEvent&) const = default;
};
using RecordedEvents = std::vector<RecordedEvent>;

/// A module: the parameters of its part that it holds itself (of a leaf of ZeRO-3's: all below it).
struct RecordedModule {
  std::vector<std::int32_t> own;
  bool leaf{};
  bool operator==(const RecordedModule&) const = default;
};

/// Sections by their number among those of the file.
struct RecordedPart {
  std::size_t forward{}, backward{}, head{};
  std::int32_t blocks{};
  std::optional<std::vector<RecordedModule>> modules{};  ///< where they are not the model's: adapters'
  bool operator==(const RecordedPart&) const = default;
};

/// A product's dimensions, or floating-point operations or bytes, as polynomials by number.
struct RecordedLoad {
  struct Product {
    std::int32_t batch, rows, inner, columns, times;
    bool operator==(const Product&) const = default;
  };
  std::vector<Product> products;
  std::int32_t attention{-1};  ///< operations of fused attention; −1: none
  std::int32_t moved{-1};      ///< bytes that other kernels read and write
  std::int64_t kernels{};
  bool backward{};
  bool operator==(const RecordedLoad&) const = default;
};

enum class RecordedMethod : std::uint8_t { full, lora };

/// The events of a micro-step, trained in one way.
struct RecordedTape {
  RecordedMethod method{RecordedMethod::full};
  bool fp32_adapters{};  ///< lora
  bool checkpointed{};
  bool partitioned{};  ///< with ZeRO-3's hooks around modules
  bool autocast{};     ///< fp32 weights under torch.autocast
  std::int64_t images{};
  std::int64_t batch{1};  ///< 1, or 2: this and more
  std::int64_t from{1};   ///< least sequence length
  std::int64_t below{};   ///< sequence lengths below this; 0: all
  std::vector<RecordedSize> sizes;
  RecordedPart around;
  std::vector<RecordedPart> kinds;
  std::vector<std::size_t> layers;  ///< the kind of each layer
  std::vector<RecordedLoad> loads;
  bool operator==(const RecordedTape&) const = default;
};

struct Recorded {
  std::string recorded_with;  ///< "torch 2.11.0, transformers 5.23.0"
  std::vector<RecordedEvents> sections;
  std::vector<RecordedTape> tapes;
  std::vector<RecordedModule> modules;                     ///< around the layers
  std::vector<std::vector<RecordedModule>> layer_modules;  ///< by kind of layer of the inventory
  std::vector<std::string> notes;                          ///< what could not be recorded, and why
  bool operator==(const Recorded&) const = default;
};

}  // namespace zplan
