#include "gui/editors/option_words.h"

#include <QCoreApplication>
#include <algorithm>
#include <array>

namespace zplan::gui {

namespace {

constexpr char kContext[] = "zplan::gui::Options";

struct Label {
  std::string_view option;
  const char* text;
};

constexpr std::array kLabels{
    Label{"--model", QT_TRANSLATE_NOOP("zplan::gui::Options", "Model")},
    Label{"--method", QT_TRANSLATE_NOOP("zplan::gui::Options", "Method")},
    Label{"--lora-rank", QT_TRANSLATE_NOOP("zplan::gui::Options", "LoRA rank")},
    Label{"--lora-targets", QT_TRANSLATE_NOOP("zplan::gui::Options", "LoRA targets")},
    Label{"--lora-dropout", QT_TRANSLATE_NOOP("zplan::gui::Options", "LoRA dropout")},
    Label{"--freeze", QT_TRANSLATE_NOOP("zplan::gui::Options", "Frozen parts")},
    Label{"--images", QT_TRANSLATE_NOOP("zplan::gui::Options", "Images per sample")},
    Label{"--image-size", QT_TRANSLATE_NOOP("zplan::gui::Options", "Image size")},
    Label{"--image-tokens", QT_TRANSLATE_NOOP("zplan::gui::Options", "Tokens per image")},
    Label{"--prepare-kbit", QT_TRANSLATE_NOOP("zplan::gui::Options", "Prepared for k-bit")},
    Label{"--quantization", QT_TRANSLATE_NOOP("zplan::gui::Options", "Quantization")},
    Label{"--quant-storage", QT_TRANSLATE_NOOP("zplan::gui::Options", "Stored as")},
    Label{"--adapters", QT_TRANSLATE_NOOP("zplan::gui::Options", "Adapters in memory")},
    Label{"--dora", QT_TRANSLATE_NOOP("zplan::gui::Options", "DoRA")},
    Label{"--modules-to-save", QT_TRANSLATE_NOOP("zplan::gui::Options", "Trained copies")},
    Label{"--tie-saved-modules", QT_TRANSLATE_NOOP("zplan::gui::Options", "One copy of tied ones")},
    Label{"--no-autocast-adapters", QT_TRANSLATE_NOOP("zplan::gui::Options", "Adapters in 16 bits")},
    Label{"--objective", QT_TRANSLATE_NOOP("zplan::gui::Options", "Objective")},
    Label{"--reference", QT_TRANSLATE_NOOP("zplan::gui::Options", "Reference model")},
    Label{"--generations", QT_TRANSLATE_NOOP("zplan::gui::Options", "Completions per prompt")},
    Label{"--completion-length", QT_TRANSLATE_NOOP("zplan::gui::Options", "Completion length")},
    Label{"--steps-per-generation", QT_TRANSLATE_NOOP("zplan::gui::Options", "Steps per generation")},
    Label{"--iterations", QT_TRANSLATE_NOOP("zplan::gui::Options", "Passes per generation")},
    Label{"--rollout", QT_TRANSLATE_NOOP("zplan::gui::Options", "What generates")},
    Label{"--vllm-memory", QT_TRANSLATE_NOOP("zplan::gui::Options", "vLLM's memory share")},
    Label{"--vllm-sleep", QT_TRANSLATE_NOOP("zplan::gui::Options", "vLLM's sleep level")},
    Label{"--vllm-tp", QT_TRANSLATE_NOOP("zplan::gui::Options", "vLLM's tensor parallel")},
    Label{"--value-model", QT_TRANSLATE_NOOP("zplan::gui::Options", "Value model")},
    Label{"--reward-model", QT_TRANSLATE_NOOP("zplan::gui::Options", "Reward model")},
    Label{"--mini-batches", QT_TRANSLATE_NOOP("zplan::gui::Options", "Mini-batches")},
    Label{"--rollout-batch", QT_TRANSLATE_NOOP("zplan::gui::Options", "Generated at once")},
    Label{"--gpus", QT_TRANSLATE_NOOP("zplan::gui::Options", "GPUs")},
    Label{"--gpu", QT_TRANSLATE_NOOP("zplan::gui::Options", "GPU type")},
    Label{"--instance", QT_TRANSLATE_NOOP("zplan::gui::Options", "Cloud shape")},
    Label{"--mem", QT_TRANSLATE_NOOP("zplan::gui::Options", "Memory (GiB)")},
    Label{"--nodes", QT_TRANSLATE_NOOP("zplan::gui::Options", "Nodes")},
    Label{"--node", QT_TRANSLATE_NOOP("zplan::gui::Options", "Node type")},
    Label{"--network", QT_TRANSLATE_NOOP("zplan::gui::Options", "Network")},
    Label{"--host-mem", QT_TRANSLATE_NOOP("zplan::gui::Options", "Host memory (GiB)")},
    Label{"--pcie", QT_TRANSLATE_NOOP("zplan::gui::Options", "PCIe slots")},
    Label{"--topology", QT_TRANSLATE_NOOP("zplan::gui::Options", "Way between GPUs")},
    Label{"--host-threads", QT_TRANSLATE_NOOP("zplan::gui::Options", "Threads of a process")},
    Label{"--host-bandwidth", QT_TRANSLATE_NOOP("zplan::gui::Options", "Host bandwidth (GB/s)")},
    Label{"--disk-bandwidth", QT_TRANSLATE_NOOP("zplan::gui::Options", "Disk bandwidth (GB/s)")},
    Label{"--headroom", QT_TRANSLATE_NOOP("zplan::gui::Options", "Headroom (%)")},
    Label{"--zero", QT_TRANSLATE_NOOP("zplan::gui::Options", "ZeRO stages")},
    Label{"--tp", QT_TRANSLATE_NOOP("zplan::gui::Options", "Tensor parallel")},
    Label{"--sp", QT_TRANSLATE_NOOP("zplan::gui::Options", "Sequence parallel")},
    Label{"--ep", QT_TRANSLATE_NOOP("zplan::gui::Options", "Expert parallel")},
    Label{"--routing", QT_TRANSLATE_NOOP("zplan::gui::Options", "Routing of tokens")},
    Label{"--cp", QT_TRANSLATE_NOOP("zplan::gui::Options", "Context parallel")},
    Label{"--cp-rotate", QT_TRANSLATE_NOOP("zplan::gui::Options", "Ring rotation")},
    Label{"--checkpoint-offload", QT_TRANSLATE_NOOP("zplan::gui::Options", "Checkpoints on the host")},
    Label{"--tiled-mlp", QT_TRANSLATE_NOOP("zplan::gui::Options", "Tiled MLP")},
    Label{"--tiled-loss", QT_TRANSLATE_NOOP("zplan::gui::Options", "Tiled loss")},
    Label{"--offload", QT_TRANSLATE_NOOP("zplan::gui::Options", "Offload")},
    Label{"--buckets", QT_TRANSLATE_NOOP("zplan::gui::Options", "Bucket sizes")},
    Label{"--recipe", QT_TRANSLATE_NOOP("zplan::gui::Options", "Trainer's config")},
    Label{"--ds-config", QT_TRANSLATE_NOOP("zplan::gui::Options", "DeepSpeed config")},
    Label{"--framework", QT_TRANSLATE_NOOP("zplan::gui::Options", "Framework")},
    Label{"--deepspeed-version", QT_TRANSLATE_NOOP("zplan::gui::Options", "DeepSpeed release")},
    Label{"--precision", QT_TRANSLATE_NOOP("zplan::gui::Options", "Precision")},
    Label{"--optimizer", QT_TRANSLATE_NOOP("zplan::gui::Options", "Optimizer")},
    Label{"--no-master-weights", QT_TRANSLATE_NOOP("zplan::gui::Options", "No fp32 master weights")},
    Label{"--checkpointing", QT_TRANSLATE_NOOP("zplan::gui::Options", "Checkpointing")},
    Label{"--attention", QT_TRANSLATE_NOOP("zplan::gui::Options", "Attention")},
    Label{"--fused-loss", QT_TRANSLATE_NOOP("zplan::gui::Options", "Fused loss")},
    Label{"--fused-head", QT_TRANSLATE_NOOP("zplan::gui::Options", "Fused head")},
    Label{"--loss-shift", QT_TRANSLATE_NOOP("zplan::gui::Options", "What the loss shifts")},
    Label{"--kernels", QT_TRANSLATE_NOOP("zplan::gui::Options", "Kernels of layers")},
    Label{"--trainer", QT_TRANSLATE_NOOP("zplan::gui::Options", "Trainer's defaults")},
    Label{"--lengths", QT_TRANSLATE_NOOP("zplan::gui::Options", "Sample lengths")},
    Label{"--batching", QT_TRANSLATE_NOOP("zplan::gui::Options", "Batching")},
    Label{"--loss-chunks", QT_TRANSLATE_NOOP("zplan::gui::Options", "Loss in slices")},
    Label{"--sliced-head", QT_TRANSLATE_NOOP("zplan::gui::Options", "Head in slices")},
    Label{"--modules", QT_TRANSLATE_NOOP("zplan::gui::Options", "Library of layers")},
    Label{"--expandable-segments", QT_TRANSLATE_NOOP("zplan::gui::Options", "Expandable segments")},
    Label{"--seq", QT_TRANSLATE_NOOP("zplan::gui::Options", "Sequence length")},
    Label{"--micro-batch", QT_TRANSLATE_NOOP("zplan::gui::Options", "Micro-batch")},
    Label{"--grad-accum", QT_TRANSLATE_NOOP("zplan::gui::Options", "Gradient accumulation")},
    Label{"--global-batch", QT_TRANSLATE_NOOP("zplan::gui::Options", "Global batch")},
    Label{"--load-dtype", QT_TRANSLATE_NOOP("zplan::gui::Options", "Load as")},
    Label{"--load-everywhere", QT_TRANSLATE_NOOP("zplan::gui::Options", "Every rank loads")},
    Label{"--save", QT_TRANSLATE_NOOP("zplan::gui::Options", "Saved model")},
    Label{"--eval-batch", QT_TRANSLATE_NOOP("zplan::gui::Options", "Evaluation batch")},
    Label{"--eval-logits", QT_TRANSLATE_NOOP("zplan::gui::Options", "Logits are kept")},
    Label{"--eval-samples", QT_TRANSLATE_NOOP("zplan::gui::Options", "Samples evaluated")},
    Label{"--eval-accumulation", QT_TRANSLATE_NOOP("zplan::gui::Options", "Steps until moved")},
    Label{"--generate", QT_TRANSLATE_NOOP("zplan::gui::Options", "Tokens generated")},
    Label{"--samples", QT_TRANSLATE_NOOP("zplan::gui::Options", "Samples")},
    Label{"--tokens", QT_TRANSLATE_NOOP("zplan::gui::Options", "Tokens")},
    Label{"--epochs", QT_TRANSLATE_NOOP("zplan::gui::Options", "Epochs")},
    Label{"--price", QT_TRANSLATE_NOOP("zplan::gui::Options", "Price of a GPU-hour")},
    Label{"--nvme-path", QT_TRANSLATE_NOOP("zplan::gui::Options", "NVMe path")},
    Label{"--config-style", QT_TRANSLATE_NOOP("zplan::gui::Options", "Config style")},
    Label{"--units", QT_TRANSLATE_NOOP("zplan::gui::Options", "Unit of memory")},
};

QString translated(const std::string& text) { return QCoreApplication::translate(kContext, text.c_str()); }

}  // namespace

QString option_label(const OptionSpec& spec) {
  const auto at = std::ranges::find(kLabels, spec.name, &Label::option);
  if (at != kLabels.end()) return QCoreApplication::translate(kContext, at->text);
  return QString::fromStdString(std::string(spec.name.substr(2))).replace(QLatin1Char('-'), QLatin1Char(' '));
}

QString option_help(const OptionSpec& spec) {
  if (spec.help.starts_with('['))
    return option_label(spec) + QLatin1Char(' ') + translated(std::string(spec.help));
  return translated(std::string(spec.help));
}

QString option_usage(const OptionSpec& spec) {
  std::string usage(spec.name);
  if (!spec.value.empty()) (usage += ' ') += spec.value;
  return QString::fromStdString(usage);
}

QString group_label(std::string_view group) { return translated(std::string(group)); }

}  // namespace zplan::gui
