#include "planner/question/terms.h"

#include "planner/question/framework.h"

namespace zplan {

namespace {

constexpr std::string_view kZero = "DeepSpeed 0.19.8 runtime/zero, held bytes checked to the byte";
constexpr std::string_view kForms =
    "allocator measurements of transformers 5.23 on torch 2.11 (docs/activations.md)";

using enum Term;
constexpr std::array<TermInfo, kTerms> kTable{{
    {trained_parameters, MemoryPart::parameters, "trained parameters",
     "w·Ψ at ZeRO 0; w·⌈Ψ/2N⌉·2N at ZeRO 1-2; w·Σ⌈n/N⌉ at ZeRO 3", kZero},
    {frozen_parameters, MemoryPart::parameters, "frozen parameters",
     "w·F at ZeRO 0-2 (packed bytes under QLoRA); w·Σ⌈n/N⌉ at ZeRO 3", kZero},
    {persistent_parameters, MemoryPart::parameters, "small parameters kept whole",
     "w·Σ N·⌈n/N⌉ over tensors of at most the persistence threshold", kZero},
    {gathered_parameters, MemoryPart::parameters, "gathered parameters",
     "w·min(Ψ+F, max_reuse_distance), at least the largest layer",
     "DeepSpeed 0.19.8 partitioned_param_coordinator.py"},
    {gathered_experts, MemoryPart::parameters, "gathered experts kept by autograd",
     "w·(expert weights) per layer at ZeRO 3 without checkpointing", "whole steps of Qwen3-30B-A3B measured"},
    {gradients, MemoryPart::gradients, "gradients",
     "w·n per parameter until it is reduced; w·Ψ where that waits for the end",
     "DeepSpeed 0.19.8 stage_1_and_2.py, whole steps measured"},
    {gradient_partition, MemoryPart::gradients, "kept gradients",
     "w·(parameters touching the worst rank's slice) at ZeRO 1-2; w·Σ⌈n/N⌉ at ZeRO 3, held from the start",
     kZero},
    {fp32_gradients, MemoryPart::gradients, "fp32 gradients", "4·Ψ with fp32 accumulation at ZeRO 1", kZero},
    {placeholder_gradients, MemoryPart::gradients, "placeholders of gradients",
     "one weight of each shape, where products add to sums of gradients (Megatron-Core)",
     "Megatron-Core 0.19.2, whole steps recorded"},
    {master_weights, MemoryPart::optimizer_states, "fp32 master weights", "4·P", kZero},
    {optimizer_moments, MemoryPart::optimizer_states, "optimizer states",
     "8·P for AdamW (4·P Lion, 2·P + 8 B per 256 8-bit Adam)",
     "Rajbhandari et al. 2020, section 3.1; states measured for 15 optimizers"},
    {saved_activations, MemoryPart::activations, "saved activations",
     "L·S·T without checkpointing; 2·L·h·T with (each layer's input)", kForms},
    {model_inputs, MemoryPart::activations, "rotary tables, final norm, positions",
     "4·s·d + (8h+4)·T, + 8·s with checkpointing", kForms},
    {layer_working_set, MemoryPart::activations, "one layer's backward",
     "(S−6h−4)·T + max(4f·T, 2f·T + 2hf) with checkpointing", kForms},
    {logits, MemoryPart::loss, "logits", "2·V·T", kForms},
    {loss_temporaries, MemoryPart::loss, "cross-entropy",
     "8·V·T forward (fp32 logits, log-softmax), 12·V·T backward", kForms},
    {head_gradients, MemoryPart::loss, "output head's gradients", "2·V·h + 2·h·T", kForms},
    {gradient_bucket, MemoryPart::communication_buffers, "gradient bucket",
     "w·reduce_bucket_size, twice with overlap_comm at ZeRO 1-2",
     "DeepSpeed 0.19.8 stage_1_and_2.py, stage3.py"},
    {bucket_copy, MemoryPart::communication_buffers, "flat copy of a bucket",
     "w·(elements reduced), where the bucket spans several ranks' slices",
     "DeepSpeed 0.19.8 allreduce_bucket, reduce_scatter_coalesced"},
    {offload_staging, MemoryPart::temporaries, "offload staging", "w·(largest parameter)",
     "DeepSpeed 0.19.8 stage_1_and_2.py temp_grad_buffer"},
    {gradient_copy, MemoryPart::temporaries, "gradient copies in the optimizer step",
     "flat 16-bit copy 2·P and fp32 gradient 4·P (ZeRO 0 with FusedAdam: 8·Ψ)",
     "DeepSpeed 0.19.8, whole steps measured"},
    {norm_in_fp64, MemoryPart::temporaries, "gradient norm in fp64", "8·(largest piece of one parameter)",
     "DeepSpeed 0.19.8 get_grad_norm_direct"},
    {cublas_workspace, MemoryPart::framework_overhead, "cuBLAS workspaces",
     "2 × 8.125 MiB (forward and backward thread); 2 × 32 MiB from compute capability 9.0",
     "torch 2.11 CUDABlas.cpp; measured"},
    {allocator_rounding, MemoryPart::framework_overhead, "the allocator's rounding",
     "allocated − asked for: 512 B steps, and remainders too small to split off",
     "torch 2.11 CUDACachingAllocator.cpp, simulated (docs/allocator.md)"},
    {cuda_context, MemoryPart::framework_overhead, "CUDA context",
     "allowance per process, outside PyTorch's allocator",
     "0.3-0.6 GiB reported by nvidia-smi for an idle PyTorch process; unslothai/unsloth-zoo#1053"},
    {nccl_buffers, MemoryPart::framework_overhead, "NCCL buffers",
     "allowance per communicator, outside PyTorch's allocator",
     "NVIDIA/nccl#964 (A100); NCCL_BUFFSIZE 4 MiB per channel and direction (NCCL user guide)"},
    {nccl_connections, MemoryPart::framework_overhead, "NCCL's connections for all-to-alls",
     "allowance: 14 MiB per GPU of the node and channel (32 over NVLink, 2 over PCIe); 128 MiB between nodes",
     "NVIDIA/nccl#1685 (8 H100); NCCL 2.30 transport/p2p.cc, transport/net.cc, graph/paths.cc"},
    {engine, MemoryPart::framework_overhead, "the inference engine, awake",
     "vllm_gpu_memory_utilization · the GPU's memory, as it is given: weights, keys and values with it",
     "vLLM v1/worker/gpu_worker.py (docs/rl.md)"},
}};

static_assert(
    [] {
      for (std::size_t i = 0; i < kTerms; ++i)
        if (kTable[i].term != static_cast<Term>(i)) return false;
      return true;
    }(),
    "the table is indexed by Term");

}  // namespace

const TermInfo& info(Term term, Framework framework) {
  for (const TermInfo& own : spec(framework).terms)
    if (own.term == term) return own;
  return info(term);
}

const TermInfo& info(Term term) { return kTable[static_cast<std::size_t>(term)]; }

Bytes Composition::total() const {
  Bytes sum{};
  for (const Bytes each : terms) sum += each;
  return sum;
}

Bytes Composition::part(MemoryPart wanted) const {
  Bytes sum{};
  for (const TermInfo& each : kTable)
    if (each.part == wanted) sum += (*this)[each.term];
  return sum;
}

}  // namespace zplan
