def c(id, cause, model, options, ran, memory=None, **k):
    return dict(id=id, cause=cause, model=model, options=options, ran=ran, memory=memory, **k)


def step(model, b=1, s=2048, **k):
    return dict(kind="step", model=model, b=b, s=s, **k)


def ds(model, zero, gpus, b=1, s=2048, **k):
    return step(model, b, s, zero=zero, gpus=gpus, **k)


def single(model, b=1, s=2048, **k):
    return step(model, b, s, framework="single", **k)


def fsdp(model, gpus, b=1, s=2048, **k):
    return step(model, b, s, framework="fsdp", gpus=gpus, **k)


T = "--framework torch --zero 0 --no-master-weights"
CASES = [
    c("length-1", "length", "Qwen/Qwen3-0.6B", T + " --seq 2048", single("Qwen3-0.6B", s=16384, ckpt=True), 24207),
    c("length-2", "length", "Qwen/Qwen3-4B", "--gpus 4 --zero 3 --buckets default", ds("Qwen3-4B", 3, 4, s=12000, ckpt=True), 40336),
    c(
        "length-3",
        "length",
        "meta-llama/Llama-3.2-1B",
        "--gpus 2 --zero 2 --buckets default --checkpointing none --seq 1024",
        ds("Llama-3.2-1B", 2, 2, s=4096),
        18432,
        nvml=False,
    ),
    c(
        "length-4",
        "length",
        "Qwen/Qwen3-8B",
        "--gpus 4 --framework fsdp --zero 3 --seq 4096",
        fsdp("Qwen3-8B", 4, s=16384, ckpt=True, precision="amp"),
        48640,
    ),
    c(
        "length-5",
        "length",
        "meta-llama/Llama-3.1-8B",
        "--framework torch --zero 0 --method lora --seq 2048",
        single("Llama-3.1-8B", s=6000, lora=True, ckpt=True),
        24207,
    ),
    c("batch-1", "batch", "Qwen/Qwen3-0.6B", T + " --seq 1024 --micro-batch 4", single("Qwen3-0.6B", b=16, s=1024, ckpt=True), 24207),
    c(
        "batch-2",
        "batch",
        "Qwen/Qwen2.5-1.5B",
        "--gpus 4 --zero 2 --buckets default --micro-batch 1",
        ds("Qwen2.5-1.5B", 2, 4, b=8, ckpt=True),
        24207,
    ),
    c("batch-3", "batch", "Qwen/Qwen3-8B", "--gpus 8 --zero 3 --buckets default --micro-batch 2", ds("Qwen3-8B", 3, 8, b=6, ckpt=True), 40336),
    c(
        "batch-4",
        "batch",
        "Qwen/Qwen3-1.7B",
        T + " --micro-batch 2 --checkpointing none --seq 1024",
        single("Qwen3-1.7B", b=6, s=1024),
        28672,
        nvml=False,
    ),
    c("zero-1", "zero_off", "Qwen/Qwen3-4B", "--gpus 4 --zero 3 --buckets default", ds("Qwen3-4B", 0, 4, ckpt=True), 40336),
    c("zero-2", "zero_off", "meta-llama/Llama-3.2-3B", "--gpus 8 --zero 3 --buckets default", single("Llama-3.2-3B", ckpt=True), 22589),
    c("zero-3", "zero_off", "Qwen/Qwen2.5-1.5B", "--gpus 4 --zero 2 --buckets default", ds("Qwen2.5-1.5B", 0, 4, ckpt=True), 16151, nvml=False),
    c("zero-4", "zero_off", "Qwen/Qwen3-8B", "--gpus 8 --zero 3 --buckets default", ds("Qwen3-8B", 2, 8, ckpt=True), 40336),
    c("zero-5", "zero_off", "Qwen/Qwen3-4B", "--gpus 4 --zero 3 --buckets default --seq 4096", ds("Qwen3-4B", 3, 1, s=4096, ckpt=True), 48640),
    c(
        "eval-1",
        "evaluation",
        "Qwen/Qwen3-0.6B",
        T + " --seq 2048",
        {"kind": "evaluate", "model": "Qwen3-0.6B", "b": 1, "s": 2048, "ckpt": True},
        24207,
        nvml=False,
    ),
    c(
        "eval-2",
        "evaluation",
        "Qwen/Qwen2.5-1.5B",
        T + " --seq 1024",
        {"kind": "evaluate", "model": "Qwen2.5-1.5B", "b": 1, "s": 1024, "ckpt": True, "metrics": True, "eval_batch": 4},
        24207,
    ),
    c(
        "eval-3",
        "evaluation",
        "meta-llama/Llama-3.1-8B",
        "--framework torch --zero 0 --method lora --seq 2048",
        {"kind": "evaluate", "model": "Llama-3.1-8B", "b": 1, "s": 2048, "lora": True, "ckpt": True},
        32510,
    ),
    c(
        "eval-4",
        "evaluation",
        "Qwen/Qwen3-1.7B",
        T + " --seq 2048 --micro-batch 2",
        {"kind": "evaluate", "model": "Qwen3-1.7B", "b": 2, "s": 2048, "ckpt": True, "eval_batch": 16},
        40336,
    ),
    c(
        "frag-1",
        "fragmentation",
        "Qwen/Qwen3-0.6B",
        T + " --seq 4096 --micro-batch 2 --checkpointing none",
        {"kind": "varied", "model": "Qwen3-0.6B", "b": 2, "lengths": [256, 4096], "batches": 60, "seed": 1},
        34700,
    ),
    c(
        "frag-2",
        "fragmentation",
        "Qwen/Qwen2.5-0.5B",
        T + " --seq 4096 --micro-batch 2 --checkpointing none",
        {"kind": "varied", "model": "Qwen2.5-0.5B", "b": 2, "lengths": [256, 4096], "batches": 60, "seed": 2},
        29380,
    ),
    c(
        "frag-3",
        "fragmentation",
        "meta-llama/Llama-3.2-1B",
        T + " --seq 4096 --micro-batch 2 --checkpointing none",
        {"kind": "varied", "model": "Llama-3.2-1B", "b": 2, "lengths": [256, 4096], "batches": 60, "seed": 3},
        35254,
    ),
    c(
        "dtype-1",
        "dtype",
        "meta-llama/Llama-3.2-3B",
        "--framework torch --zero 0 --method lora",
        single("Llama-3.2-3B", lora=True, precision="fp32", ckpt=True),
        16151,
    ),
    c("dtype-2", "dtype", "Qwen/Qwen3-1.7B", T, single("Qwen3-1.7B", precision="amp", ckpt=True), 24207),
    c(
        "dtype-3",
        "dtype",
        "Qwen/Qwen2.5-1.5B",
        "--gpus 4 --zero 2 --buckets default",
        ds("Qwen2.5-1.5B", 2, 4, precision="fp32", ckpt=True, overlap=True),
        16151,
    ),
    c("ckpt-1", "checkpointing_off", "Qwen/Qwen3-1.7B", T + " --seq 4096", single("Qwen3-1.7B", s=4096), 24207),
    c(
        "ckpt-2",
        "checkpointing_off",
        "Qwen/Qwen3-8B",
        "--gpus 8 --zero 3 --buckets default --seq 4096",
        ds("Qwen3-8B", 3, 8, s=4096),
        48640,
        nvml=False,
    ),
    c(
        "ckpt-3",
        "checkpointing_off",
        "meta-llama/Llama-3.1-8B",
        "--framework torch --zero 0 --method lora --seq 2048",
        single("Llama-3.1-8B", lora=True),
        24207,
    ),
    c("other-1", "other_processes", "Qwen/Qwen3-1.7B", T, single("Qwen3-1.7B", ckpt=True), 24207, others={"4711": 10240}),
    c(
        "other-2",
        "other_processes",
        "Qwen/Qwen3-8B",
        "--gpus 8 --zero 3 --buckets default",
        ds("Qwen3-8B", 3, 8, ckpt=True),
        40336,
        others={"9120": 18432},
    ),
    c(
        "other-3",
        "other_processes",
        "meta-llama/Llama-3.1-8B",
        "--framework torch --zero 0 --method lora --seq 2048",
        single("Llama-3.1-8B", lora=True, ckpt=True),
        24207,
        others={"3307": 6144},
        nvml=False,
    ),
]
