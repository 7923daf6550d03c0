#include "planner/sharding/rank_model.h"

#include <algorithm>
#include <array>

#include "planner/question/framework.h"
#include "planner/sharding/plan_split.h"

namespace zplan {

bool is_packed(const Training& training, const Tensor& tensor) {
  if (training.method != Method::qlora || !tensor.linear) return false;
  if (tensor.role == TensorRole::head) return training.modules.packs_head;
  return tensor.role != TensorRole::expert && tensor.role != TensorRole::router;
}

namespace {

using Words = std::vector<std::string_view>;

// The last is that of InternVL's own code.
constexpr std::array<std::string_view, 7> kTowerWords{"visual",    "vision", "audio", "projector",
                                                      "connector", "merger", "mlp1."};
constexpr std::size_t kVisionWords = 3;  ///< of them those of a tower; the others are the projector's

Words frozen_words(const Training& training) {
  Words words;
  const auto* const projector = kTowerWords.begin() + kVisionWords;
  if (training.freezes_vision) words = {kTowerWords.begin(), projector};
  if (training.freezes_projector) words.insert(words.end(), projector, kTowerWords.end());
  return words;
}

/// Returns the place of the first of `words` in `name`; std::string::npos where there is none.
template <class List>
std::size_t place_of(const List& words, const std::string& name) {
  std::size_t place = std::string::npos;
  for (const std::string_view word : words) place = std::min(place, name.find(word));
  return place;
}

}  // namespace

bool freezes(const Training& training, const Tensor& tensor) {
  return place_of(frozen_words(training), tensor.name) != std::string::npos;
}

bool trains(const Training& training, const Tensor& tensor, std::int64_t layer) {
  if (training.method != Method::full)
    return training.trains_tower && place_of(kTowerWords, tensor.name) != std::string::npos;
  const std::vector<std::int64_t>& layers = training.trained_layers;
  return !freezes(training, tensor) && (layers.empty() || std::ranges::find(layers, layer) != layers.end());
}

std::vector<std::string> frozen_paths(const Inventory& inventory, const Training& training) {
  const Words words = frozen_words(training);
  std::vector<std::string> paths;
  for_each_tensor(inventory, [&](const Tensor& tensor, int) {
    const std::size_t place = place_of(words, tensor.name);
    if (place == std::string::npos) return;
    std::string path = tensor.name.substr(0, tensor.name.find('.', place));
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(std::move(path));
  });
  return paths;
}

namespace {

class Collector {
 public:
  Collector(const Training& training, std::int64_t ranks, std::int64_t rank, bool ties)
      : training_(training), ranks_(ranks), rank_(rank), ties_(ties) {}

  void base(const Tensor& tensor, int layer) {
    const bool trainable = trains(training_, tensor, layer);
    const Elements here = elements_on_rank(training_, tensor, ranks_, rank_);
    const bool packed = is_packed(training_, tensor);
    const Bytes size = packed ? packed_size(training_.quantization, here, tensor.linear->out_features)
                              : here * (trainable ? unpacked_size() : frozen_size());
    RankTensor made{
        .elements = here, .layer = layer, .trainable = trainable, .stored = size, .packed = packed};
    if (packed) {
      const Quantization quantization = training_.quantization;
      made.values =
          packed_blocks(quantization, here, tensor.linear->out_features)[spec(quantization).values_block];
      made.number = storage_size(shards_packed(training_) ? training_.quant_storage : QuantStorage::uint8);
    }
    add(tensor, made);
    if (!trainable) model_.frozen += here, model_.frozen_size += size;
  }
  void adapter(const Tensor& tensor, int layer, bool trains) {
    const Elements here = elements_on_rank(training_, tensor, ranks_, rank_);
    const Bytes element = is_saved_copy(tensor) ? copy_size() : adapter_size(training_);
    const Bytes size = here * element;
    add(tensor, {.elements = here, .layer = layer, .trainable = trains, .stored = size, .added = true});
    if (!trains) model_.frozen += here, model_.frozen_size += size;
  }
  /// Adds a tensor of the model of values, which trains whole, in the type of the policy's weights.
  void value(const Tensor& tensor, int layer) {
    const Elements here = elements_on_rank(training_, tensor, ranks_, rank_);
    add(tensor, {.elements = here, .layer = layer, .stored = here * unpacked_size(), .of_values = true});
  }
  RankModel take() { return std::move(model_); }

 private:
  /// Returns the first dimension of the rank's part: a matrix divided by columns has fewer rows, one that is
  /// divided by rows, and a stack of experts, which is divided by width, all of them.
  [[nodiscard]] std::int64_t rows_of(const Tensor& tensor, Elements here) const {
    const TensorParallelSplit split = split_of(training_, tensor);
    const bool divides_rows = ranks_ > 1 && tensor.shape.size() <= 2 &&
                              split != TensorParallelSplit::replicated && split != TensorParallelSplit::row;
    const std::int64_t rows = tensor.shape.front();
    return divides_rows ? here.value / (tensor.elements().value / rows) : rows;
  }
  void add(const Tensor& tensor, RankTensor here) {
    if (here.elements.value == 0) return;
    here.role = tensor.role;
    here.idle = tensor.idle && here.trainable;
    here.divided = ranks_ > 1 && split_of(training_, tensor) != TensorParallelSplit::replicated;
    if (!tensor.shape.empty()) here.rows = rows_of(tensor, here.elements);
    if (tensor.shape.size() > 1) here.columns = tensor.shape.back();
    if (tensor.linear) here.copies = tensor.linear->copies;
    here.tied = ties_ && tensor.role == TensorRole::token_embedding;
    model_.tensors.push_back(here);
    model_.largest_tensor = std::max(model_.largest_tensor, here.elements);
    if (!here.trainable) return;
    model_.trainable += here.elements;
    model_.largest_trainable = std::max(model_.largest_trainable, here.elements);
    if (here.layer >= 0 && tensor.shape.size() > 1) model_.trainable_matrices += here.elements;
  }
  /// A trained copy has its module's type; accelerate makes fp32 of all that trains before FSDP2 shards it,
  /// but where bitsandbytes packed something. Source: accelerate 1.15 utils/fsdp_utils.py
  /// fsdp2_prepare_model.
  [[nodiscard]] Bytes copy_size() const {
    const bool widened = training_.fsdp_makes_shards && training_.method == Method::lora;
    return widened ? Bytes(4) : unpacked_size();
  }
  /// Layers that do not train stay as they are loaded, in the type that computes. Source: LLaMA-Factory 0.9.5
  /// model/adapter.py _setup_freeze_tuning, which makes fp32 of those that do.
  [[nodiscard]] Bytes frozen_size() const {
    return training_.trained_layers.empty() ? unpacked_size() : weight_size(training_);
  }
  /// DeepSpeed's engine casts what prepare_model_for_kbit_training made fp32 back to 16 bits.
  [[nodiscard]] Bytes unpacked_size() const {
    const bool prepared = widens_unpacked(training_) && !spec(training_.framework).casts_model;
    return prepared ? Bytes(4) : parameter_size(training_);
  }

  const Training& training_;
  std::int64_t ranks_, rank_;
  bool ties_;  ///< embedding and head are one tensor
  RankModel model_;
};

}  // namespace

namespace {

/// Weights in 32-bit words, zero points in the same form, fp16 scales; of GPTQ the group of each row.
std::vector<Bytes> grouped_blocks(const QuantizationSpec& about, Elements elements, std::int64_t out) {
  const std::int64_t in = elements.value / out, scales = share(Elements(in), about.group).value * out;
  std::vector<Bytes> blocks{Bytes(elements.value * about.bits / 8), Bytes(scales * about.bits / 8),
                            Bytes(2 * scales)};
  if (about.library == PackedBy::gptq) blocks.emplace_back(4 * in);
  return blocks;
}

std::vector<Bytes> bitsandbytes_blocks(const QuantizationSpec& about, Elements elements, std::int64_t out) {
  constexpr Bytes kTable{64}, kOffset{4}, kMap{1024};
  if (about.bits == 8) return {Bytes(4) * out, elements * Bytes(1)};
  const Elements blocks = share(elements, about.group);
  const Bytes values(share(elements, 2).value);
  if (!about.nested) return {blocks * Bytes(4), values, kTable};
  return {values, kTable, kOffset, share(blocks, 256) * Bytes(4), blocks * Bytes(1), kMap};
}

}  // namespace

std::vector<Bytes> packed_blocks(Quantization quantization, Elements elements, std::int64_t out_features) {
  const QuantizationSpec& about = spec(quantization);
  const Bytes values(share(elements, 2).value);
  // No training stores what these formats would need beside their values.
  if (!about.untrained.empty()) return {values};
  switch (about.library) {
    case PackedBy::bitsandbytes: return bitsandbytes_blocks(about, elements, out_features);
    case PackedBy::gptq:
    case PackedBy::awq: return grouped_blocks(about, elements, out_features);
    case PackedBy::hqq: {
      const Elements groups = share(elements, about.group);
      return {values, groups * Bytes(2), groups * Bytes(2)};
    }
    case PackedBy::torchao: return {Bytes(4) * out_features, Bytes(1) * out_features, elements * Bytes(1)};
    case PackedBy::transformers: break;
  }
  return {values};
}

Bytes packed_size(Quantization quantization, Elements elements, std::int64_t out_features) {
  Bytes sum{};
  for (const Bytes block : packed_blocks(quantization, elements, out_features)) sum += block;
  return sum;
}

namespace {

/// Returns the tensors of a frozen model beside the trained one: of a copy its own, of a teacher those of the
/// teacher, which is loaded in the type that computes.
std::vector<RankTensor> compared_tensors(const Model& model, const Training& training,
                                         std::int64_t tensor_parallel, std::int64_t rank,
                                         std::vector<RankTensor> own) {
  if (reference_of(training) != ReferenceModel::copy) return {};
  if (distils(training)) {
    Training of = training;
    of.method = Method::full, of.objective = Objective::sft, of.master_weights = false;
    own = rank_model(compared_model(model), of, tensor_parallel, rank).tensors;
  }
  std::erase_if(own, [](const RankTensor& each) { return each.added || each.of_values; });
  for (RankTensor& each : own) each.trainable = each.idle = false;
  return own;
}

}  // namespace

const RankTensor& compared_embedding(const RankModel& model) {
  const auto found = std::ranges::find(model.compared, TensorRole::token_embedding, &RankTensor::role);
  return found == model.compared.end() ? model.compared.front() : *found;
}

RankModel rank_model(const Model& model, const Training& training, std::int64_t tensor_parallel,
                     std::int64_t rank) {
  Collector collector(training, tensor_parallel, rank, model.shape.tied_embeddings);
  const int layers = static_cast<int>(model.inventory.layers.size());
  // A model of values has its layers behind the policy's, and the rest of it behind the policy's.
  const auto values = [&](bool of_layers) {
    if (!model.value || !trains_values(training)) return;
    for_each_tensor(model.value->inventory, [&](const Tensor& tensor, int layer) {
      if (of_layers == (layer >= 0)) collector.value(tensor, layer < 0 ? layer : layers + layer);
    });
  };
  // peft puts adapters inside the module they adapt; only the order among trainable tensors matters to ZeRO,
  // and that is the order of layers, so a layer's adapters follow its base tensors here.
  const std::int64_t held = held_adapters(training);
  const Inventory adapters = held > 0 ? added_tensors(model, adapters_of(training)) : Inventory{};
  // Those that do not train stand last, so that a tape's numbers are the same however many there are.
  const auto both = [&](const std::vector<Tensor>& base, const std::vector<Tensor>& adapted, int layer) {
    for (const Tensor& tensor : base) collector.base(tensor, layer);
    for (std::int64_t i = 0; i < held; ++i)
      for (const Tensor& tensor : adapted) collector.adapter(tensor, layer, i == 0);
  };
  const std::vector<Tensor> none;
  both(model.inventory.before, adapters.before, -1);
  for (std::size_t i = 0; i < model.inventory.layers.size(); ++i)
    both(model.inventory.kinds[model.inventory.layers[i]].tensors,
         held > 0 ? adapters.kinds[adapters.layers[i]].tensors : none, static_cast<int>(i));
  values(true);
  both(model.inventory.after, adapters.after, -1);
  values(false);
  RankModel made = collector.take();
  made.compared = compared_tensors(model, training, tensor_parallel, rank, made.tensors);
  return made;
}

}  // namespace zplan
