"""measure_cpu_adam.py OUT.json: what DeepSpeed's optimizer step on the host takes here, by size, type and threads.

Each figure is the least of several runs, in seconds of processor time over all threads, divided by their number: the machine may have
other work, and then wall time counts that, too. Beside DeepSpeedCPUAdam: what DeepSpeed does around it
(unscaling the gradient in place, the copy of the updated weights in 16 bits), torch's own AdamW, and how fast the same threads read and write
plain memory (STREAM's copy and triad, with the bytes that STREAM counts). Needs deepspeed (its cpu_adam is built on first use) and torch.
"""

import json
import os
import platform
import sys
import time

import deepspeed
import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam

SIZES = [1_000_000, 10_000_000, 100_000_000, 500_000_000]
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def least(call, seconds=3.0, most=30):
    """The shortest call within the given seconds, of at least three: processor time of a thread."""
    times, began = [], time.perf_counter()
    while len(times) < 3 or (len(times) < most and time.perf_counter() - began < seconds):
        start = time.process_time()
        call()
        times.append((time.process_time() - start) / torch.get_num_threads())
    return min(times)


def filled(size, dtype=torch.float32):
    return torch.full((size,), 0.01, dtype=dtype)


def cpu_adam(size, dtype):
    parameter = torch.nn.Parameter(filled(size, dtype))
    parameter.grad = filled(size, dtype)
    optimizer = DeepSpeedCPUAdam([parameter], lr=1e-4, weight_decay=0.01)
    return least(optimizer.step)


def torch_adamw(size, **how):
    parameter = torch.nn.Parameter(filled(size))
    parameter.grad = filled(size)
    optimizer = torch.optim.AdamW([parameter], lr=1e-4, weight_decay=0.01, **how)
    return least(optimizer.step)


def around(size):
    gradient, master, weights = filled(size), filled(size), filled(size, torch.bfloat16)
    return {"unscale": least(lambda: gradient.mul_(1.0)), "copy_to_16_bit": least(lambda: weights.copy_(master))}


def stream(size):
    a, b, c = filled(size), filled(size), filled(size)
    copy = least(lambda: c.copy_(a))
    triad = least(lambda: torch.add(a, b, alpha=3.0, out=c))
    return {"copy_bytes_per_second": 8 * size / copy, "triad_bytes_per_second": 12 * size / triad}


def processor():
    with open("/proc/cpuinfo") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    found = {key.strip(): value.strip() for key, value in lines.items()}
    flags = found["flags"].split()
    return {"model": found["model name"], "family": found["cpu family"], "model_number": found["model"], "cores": os.cpu_count(),
            "avx512": "avx512f" in flags, "avx2": "avx2" in flags}


def main():
    rows = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        row = {"threads": threads, **stream(200_000_000), "steps": []}
        for size in SIZES:
            step = {"elements": size, **{f"cpu_adam_{name}": cpu_adam(size, dtype) for name, dtype in TYPES.items()}, **around(size)}
            if size <= 100_000_000:
                step |= {"torch_adamw": torch_adamw(size, foreach=False), "torch_adamw_fused": torch_adamw(size, fused=True)}
            row["steps"].append(step)
            print(threads, step, flush=True)
        rows.append(row)
    result = {"schema": "zplan.cpu-adam/1", "deepspeed": deepspeed.__version__, "torch": torch.__version__, "python": platform.python_version(),
              "processor": processor(), "rows": rows}
    with open(sys.argv[1], "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


main()
