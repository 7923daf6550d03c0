// Words of the command line that the window shows, where lupdate finds them: helps and groups of options,
// which option_words looks up. A test compares them with the table of options.

#include "gui/translations/command_line_words.h"

#include <QtGlobal>

namespace zplan::gui {

const std::vector<const char*>& command_line_words() {
  static const std::vector<const char*> words{
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Model"),
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Cluster"),
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Strategies"),
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Training"),
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Batch"),
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Loading, evaluation, saving"),
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Time and cost"),
      QT_TRANSLATE_NOOP("zplan::gui::Options", "Config"),
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "catalogue name, size (8B), config.json, folder that holds one, or cached "
                        "Hub id"),  // --model
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "what is trained [full]"),  // --method
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "rank of the adapters [16]"),  // --lora-rank
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "modules with adapters: all-linear, q_v, or names such as q_proj,v_proj "
                        "[all-linear]"),  // --lora-targets
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "share of the adapters' inputs that drops out: 0 to 1 [0]"),  // --lora-dropout
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "of an image-text model, what is not trained: vision, projector"),  // --freeze
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "images in each sample, of an image-text model [none: text alone]"),  // --images
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "their size in pixels before the processor resizes or cuts them"),  // --image-size
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "tokens of each image in the sequence [by the processor's own rule]"),  // --image-tokens
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "of the frozen weights under qlora: nf4, nf4-double, int8, gptq-int4, "
                        "gptq-int8, awq, hqq, torchao-int8 [nf4]; torchao-int4 and mxfp4 do not "
                        "train: why is said"),  // --quantization
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "type that nf4's values are stored in: uint8, or bf16, fp16, fp32, which FSDP2 and "
                        "ZeRO-3 shard [uint8]"),  // --quant-storage
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "qlora through peft's prepare_model_for_kbit_training: fp32 embeddings, head and "
                        "norms"),  // --prepare-kbit
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "adapters in memory (peft's add_adapter), of which one trains and the others are "
                        "frozen [1]"),  // --adapters
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "adapters with magnitudes (DoRA)"),  // --dora
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "copies trained beside adapters: embed_tokens, lm_head"),  // --modules-to-save
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "one copy of tied embeddings (peft's ensure_weight_tying)"),  // --tie-saved-modules
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "adapters in the weights' type (peft's autocast_adapter_dtype=False)"),  // --no-autocast-adapters
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "what is trained for: next tokens, answers of pairs (dpo, orpo, simpo, reward) or single ones "
          "(kto), rewards of completions that it generates (grpo; ppo beside a model of values) "
          "[sft]"),  // --objective
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "what dpo, kto, grpo and ppo compare with: copy, adapters-off, adapter (a frozen copy of the "
          "adapters), precomputed, none (grpo) [adapters-off, without adapters copy; grpo: "
          "none]"),  // --reference
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "completions of each prompt under grpo [8]"),  // --generations
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "tokens of --seq that are generated under grpo and ppo; the others are the prompt [half of "
          "them]"),  // --completion-length
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "micro-steps that one generation feeds under grpo [as few optimizer steps' as hold "
                        "whole groups]"),  // --steps-per-generation
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "passes over what was generated (num_iterations; num_ppo_epochs) [1; ppo: 4]"),  // --iterations
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "what generates: vLLM beside each rank (colocate) or on GPUs of its own (server), or "
                        "the trainer itself (trainer) [colocate; ppo: trainer]"),  // --rollout
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "of each GPU's memory for colocated vLLM (vllm_gpu_memory_utilization) [0.3]"),  // --vllm-memory
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "while it trains colocated vLLM keeps all, its weights on the host, or nothing [0]"),  // --vllm-sleep
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "GPUs that divide vLLM's model (vllm_tensor_parallel_size) [1]"),  // --vllm-tp
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "under ppo the model that predicts values and trains beside the policy: as --model "
                        "[the policy's shape]"),  // --value-model
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "under ppo the frozen model that gives rewards: as --model [the policy's "
                        "shape]"),  // --reward-model
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "parts of what ppo generated, micro-steps of --grad-accum in each (num_mini_batches) "
                        "[1]"),  // --mini-batches
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "samples of a GPU that ppo generates and scores at once "
                        "(local_rollout_forward_batch_size) [64]"),  // --rollout-batch
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "GPUs in all [1]"),  // --gpus
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "hardware profile: zplan hardware lists them [a generic GPU]"),  // --gpu
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "cloud shape such as p5.48xlarge (zplan hardware instances): GPUs, links, host "
                        "memory, disks [none]"),  // --instance
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "memory per GPU in GiB as nvidia-smi reports it; wins over the profile's"),  // --mem
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "nodes that the GPUs are spread over [1]"),  // --nodes
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "how GPUs of a node are connected: nvswitch, pcie, … [the GPU's usual]"),  // --node
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "between nodes: 8x400g, 100g, … [the GPU's usual]"),  // --network
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "host memory per node in GiB [the node type's usual]"),  // --host-mem
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "how each GPU's slot is wired, such as 4x8 (nvidia-smi -q) [the GPU's own "
                        "generation, 16 lanes]"),  // --pcie
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "the longest way between two GPUs of a node, as nvidia-smi topo -m shows it [what "
                        "is usual]"),  // --topology
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "threads of each process on the host (OMP_NUM_THREADS), for offloaded optimizers "
                        "[its part of the cores]"),  // --host-threads
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "rated memory bandwidth of a node's processors [usual for the node "
                        "type]"),  // --host-bandwidth
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "what the drives of a node read, or write, for offload to NVMe [3]"),  // --disk-bandwidth
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "share of each GPU to leave free, in percent [10]"),  // --headroom
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "ZeRO stages to consider, such as 2,3 [0,1,2,3]"),  // --zero
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "tensor-parallel degrees, such as 1,4 [1 and powers of two up to a node]"),  // --tp
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "where optimizer states and parameters go: none, optimizer, all, … "
                        "[none,optimizer,all]"),  // --offload
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "bucket sizes: DeepSpeed's defaults, or HF's for \"auto\" [hf-auto]"),  // --buckets
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "plan exactly this DeepSpeed config; options fill what it leaves open"),  // --ds-config
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "configs of axolotl, LLaMA-Factory, TRL, torchtune, ms-swift, accelerate or "
                        "TrainingArguments, read as options; what is given besides wins"),  // --recipe
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "whose sharding is planned: deepspeed, fsdp (FSDP2), torch (DDP, or one GPU) "
                        "[deepspeed]"),  // --framework
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "release that the ds_config is for: 0.16 to 0.19, or one such as 0.18.3 "
                        "[0.19]"),  // --deepspeed-version
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "[bf16]"),  // --precision
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "adamw, adamw8bit, sgd, sgd-momentum, adafactor, lion, muon [adamw]"),  // --optimizer
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "no fp32 copy of 16-bit weights"),  // --no-master-weights
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "activation checkpointing [full]"),  // --checkpointing
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "attention kernel [flash]"),  // --attention
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "a fused or chunked cross-entropy (Liger and the like): no full logits"),  // --fused-loss
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "whose defaults fill what is not given: trl, transformers, swift, llama-factory, "
                        "axolotl, torchtune, litgpt; with a release as in trl@1.16 [none]"),  // --trainer
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "TRL's head without logits: log-probabilities by tiles, computed again in the "
                        "backward"),  // --fused-head
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "what the loss shifts: labels, as transformers since 4.49; a copy of the logits "
                        "before [labels]"),  // --loss-shift
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "PyTorch's operators; Liger-Kernel's norms, rotations and gated activations; "
                        "flash-linear-attention's gated delta rule [torch]"),  // --kernels
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "tokens of the data set's samples: one a line, or a length and how many have it; or "
                        "their mean, standard deviation and limit [all as --seq]"),  // --lengths
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "with --lengths: batches padded to their longest sample, of like lengths, or filled "
                        "rows [padded]"),  // --batching
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "cross-entropy over N slices of the tokens; logits stay whole [1]"),  // --loss-chunks
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "with --loss-chunks: the head runs slice by slice too, as torchtune's"),  // --sliced-head
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "whose layers run: transformers, litgpt, llm-foundry, torchtitan [transformers]"),  // --modules
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "sequence-parallel degrees (DeepSpeed Ulysses), such as 1,8 [1]"),  // --sp
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "expert-parallel degrees of a mixture (DeepSpeed AutoEP), such as 1,8 [1]"),  // --ep
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "rows of the first rank of an expert-parallel group, S times the mean [balanced]"),  // --routing
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "context-parallel degrees (ring attention with FSDP2), such as 1,8 [1]"),  // --cp
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "how the ring passes keys and values on [allgather]"),  // --cp-rotate
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "checkpointed inputs in host memory: ArcticTraining's patch, or DeepSpeed's hooks "
                        "[none]"),  // --checkpoint-offload
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "the feed-forward over N slices of the tokens (ALST) [whole]"),  // --tiled-mlp
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "head and loss over N slices of the tokens (ALST) [whole]"),  // --tiled-loss
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "PyTorch's allocator with expandable_segments:True"),  // --expandable-segments
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "tokens per sample [2048]"),  // --seq
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "samples per GPU and forward pass; max: the most that fit [1]"),  // --micro-batch
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "micro-batches per optimizer step [1]"),  // --grad-accum
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "samples per optimizer step over all GPUs [what the others make]"),  // --global-batch
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "from_pretrained's dtype [the checkpoint's, or fp32 where the weights are the "
                        "masters]"),  // --load-dtype
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "every rank reads the checkpoint at stage 3: no zero.Init"),  // --load-everywhere
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "weights gathered on one rank, or every rank's shards [what the plan's config says]"),  // --save
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "samples per GPU of an evaluation step [none is evaluated]"),  // --eval-batch
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "compute_metrics is given, so that the Trainer keeps the logits of all samples "
                        "[losses alone]"),  // --eval-logits
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "samples whose logits are kept"),  // --eval-samples
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "evaluation steps until kept logits move to the host [never before the end]"),  // --eval-accumulation
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "tokens generated behind each prompt of --seq tokens [none]"),  // --generate
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "samples of an epoch: how long the run takes"),  // --samples
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "the same in tokens"),  // --tokens
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "how often all of them are trained on [1]"),  // --epochs
      QT_TRANSLATE_NOOP(
          "zplan::gui::Options",
          "of a GPU and hour, in any currency: what the run costs; of hardware compare one for all or "
          "X,Y,… in the order of the names"),  // --price
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "on a local disk, for offload to NVMe [/local_nvme]"),  // --nvme-path
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "of the ds_config: plain, hf-auto (\"auto\" for the HF Trainer), ms-swift "
                        "[plain]"),  // --config-style
      QT_TRANSLATE_NOOP("zplan::gui::Options",
                        "unit of memory: 1024³ or 1000³ bytes [GiB]"),  // --units
  };
  return words;
}

}  // namespace zplan::gui
