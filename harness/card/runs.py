"""The training runs whose memory and time are measured. The order matters: what is cut short by the clock is the end."""
from run import Run

QWEN, LLAMA_1B, LLAMA_3B, LLAMA_8B = "Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-3B", "meta-llama/Meta-Llama-3-8B"


def one_rank():
    stages = range(4)
    return [
        *(Run(QWEN, zero=z) for z in stages),
        *(Run(LLAMA_1B, zero=z, seq=2048) for z in stages),
        *(Run(QWEN, framework=f) for f in ("single", "fsdp")),
        *(Run(LLAMA_8B, zero=z, seq=2048, lora=True) for z in (0, 2, 3)),
        *(Run(QWEN, zero=z, checkpointing=False) for z in stages),
        *(Run(LLAMA_3B, zero=z, seq=2048) for z in (1, 2, 3)),
        *(Run(QWEN, zero=2, seq=s) for s in (512, 2048, 8192)),
        *(Run(LLAMA_1B, zero=z, offload="optimizer", optimizer="ds_cpu") for z in (1, 2, 3)),
        Run(LLAMA_1B, zero=3, offload="optimizer+param", optimizer="ds_cpu"),
        *(Run(QWEN, zero=z, grad_accum=4) for z in (1, 2, 3)),
        *(Run(QWEN, zero=z, seq=4096) for z in (0, 1, 3)),
        *(Run(LLAMA_1B, zero=z, micro_batch=4, seq=512, checkpointing=False) for z in (2, 3)),
        *(Run(LLAMA_3B, zero=z, seq=1024, lora=True) for z in (2, 3)),
        Run(QWEN, framework="single", precision="amp"),
        Run(LLAMA_1B, framework="fsdp", seq=2048),
        Run(LLAMA_8B, framework="single", seq=4096, lora=True),
        Run(LLAMA_8B, zero=2, seq=8192, lora=True),
        Run("Qwen/Qwen2.5-7B", framework="single", seq=2048, lora=True),
        Run("Qwen/Qwen3-0.6B", zero=2, seq=2048),
        Run("HuggingFaceTB/SmolLM2-1.7B", zero=3, seq=2048),
        Run("Qwen/Qwen3-1.7B", zero=1, micro_batch=2, seq=1024),
        Run(QWEN, zero=2, precision="fp16"),
        Run(QWEN, zero=2, optimizer="torch_foreach"),
        Run(LLAMA_3B, zero=3, offload="optimizer", optimizer="ds_cpu"),
        Run(LLAMA_1B, framework="single", seq=2048, precision="amp"),
        Run(LLAMA_1B, zero=2, micro_batch=8, seq=1024),
    ]


def several_ranks():
    """Their time says little, since they take turns on one GPU; their memory and their collectives are those of ranks."""
    short = {"steps": 3}
    return [
        *(Run(QWEN, zero=z, ranks=2, **short) for z in range(4)),
        *(Run(QWEN, zero=z, ranks=4, seq=512, **short) for z in (1, 2, 3)),
        *(Run(QWEN, zero=z, ranks=2, lora=True, **short) for z in (2, 3)),
        Run(QWEN, framework="fsdp", ranks=2, **short),
        *(Run(LLAMA_1B, zero=z, ranks=2, **short) for z in (1, 2, 3)),
        *(Run(QWEN, zero=z, ranks=2, offload="optimizer", optimizer="ds_cpu", **short) for z in (2, 3)),
        Run(QWEN, framework="fsdp", ranks=4, seq=512, **short),
        Run(QWEN, zero=3, ranks=4, seq=512, lora=True, **short),
    ]


def verdict_runs():
    """Each is run with a little more and a little less memory than zplan says it needs."""
    return [
        Run(QWEN, zero=1, seq=1024, steps=3),
        Run(QWEN, zero=2, seq=4096, steps=3),
        Run(QWEN, zero=3, seq=2048, checkpointing=False, steps=3),
        Run(LLAMA_1B, zero=0, seq=2048, steps=3),
        Run(LLAMA_1B, zero=2, micro_batch=2, seq=2048, steps=3),
        Run(LLAMA_3B, framework="single", seq=2048, lora=True, steps=3),
        Run(LLAMA_8B, zero=3, seq=2048, lora=True, steps=3),
        Run(QWEN, framework="fsdp", seq=4096, steps=3),
        Run(LLAMA_1B, zero=3, offload="optimizer", optimizer="ds_cpu", seq=4096, steps=3),
        Run(QWEN, zero=2, grad_accum=2, micro_batch=4, seq=1024, steps=3),
    ]
