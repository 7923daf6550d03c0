"""What a GPU reaches, and what it holds besides PyTorch's allocator.

It reaches: matrix products in the shapes of the catalogue's models, attention, operations that only read and
write, AdamW, copies over PCIe. One entry each with its work, its bytes and its median time.

Inputs are random, since products of zeros draw less power and run faster; medians of seven groups of calls between
device events, each group ten milliseconds or longer.
"""
import statistics
import time

import torch
import torch.distributed
import torch.nn.functional as F

from run import catalogue

MODELS = ("Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-1B", "HuggingFaceTB/SmolLM2-1.7B", "meta-llama/Llama-3.2-3B", "Qwen/Qwen3-4B",
          "meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-14B", "Qwen/Qwen2.5-32B", "meta-llama/Meta-Llama-3-70B")
TOKENS = (512, 2048, 8192)
GROUPS, LEAST_SECONDS = 7, 0.01


def seconds_of(call):
    """Median seconds of a call on the device, and the spread: (median, lowest, highest)."""
    for _ in range(3):
        call()
    once = timed(call, 3)
    times = max(3, min(200, int(LEAST_SECONDS / max(once, 1e-7))))
    groups = sorted(timed(call, times) for _ in range(GROUPS))
    return statistics.median(groups), groups[0], groups[-1]


def timed(call, times):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / times


def entry(kind, call, *, flops=0, moved=0, **what):
    """`flops` of a call, multiplications and additions; `moved` bytes that it reads and writes at least."""
    median, low, high = seconds_of(call)
    return {"kind": kind, **what, "flops": flops, "bytes": moved, "seconds": median, "seconds_low": low, "seconds_high": high,
            "tflops": flops / median / 1e12 if median else None, "gb_per_s": moved / median / 1e9 if median else None}


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def products_of(name):
    """(part, inputs, outputs) of a decoder's matrix products."""
    config = catalogue()[name]
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    keys = config.get("num_key_value_heads", heads) * width
    return {("queries, output", hidden, heads * width), ("keys, values", hidden, keys), ("gate, up", hidden, config["intermediate_size"]),
            ("down", config["intermediate_size"], hidden), ("head", hidden, config["vocab_size"])}


def matrix_products():
    shapes = {}
    for name in MODELS:
        for part, inputs, outputs in products_of(name):
            shapes.setdefault((inputs, outputs), f"{name.split('/')[-1]}, {part}")
    for (inputs, outputs), example in sorted(shapes.items()):
        for tokens in TOKENS:
            x, w, y = random(tokens, inputs), random(outputs, inputs), random(tokens, outputs)
            work = {"flops": 2 * tokens * inputs * outputs, "moved": 2 * (x.numel() + w.numel() + y.numel()),
                    "example": example, "tokens": tokens, "inputs": inputs, "outputs": outputs, "dtype": "bfloat16"}
            yield entry("matrix product, forward", lambda: F.linear(x, w), **work)
            yield entry("matrix product, gradient of the input", lambda: y @ w, **work)
            yield entry("matrix product, gradient of the weight", lambda: y.t() @ x, **work)


def attention():
    for heads, keys, width in ((14, 2, 64), (32, 8, 64), (32, 8, 128), (64, 8, 128)):
        for length in (512, 2048, 8192, 16384):
            q = random(1, heads, length, width).requires_grad_()
            k, v = (random(1, keys, length, width).requires_grad_() for _ in range(2))
            kernel = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            what = {"heads": heads, "key_heads": keys, "head_size": width, "length": length, "dtype": "bfloat16"}
            # Half of the square is masked and not work; the backward makes five products of the forward's two.
            work = 2 * heads * length * length * width
            yield entry("attention, forward", kernel, flops=work, **what)
            out = kernel()
            gradient = torch.randn_like(out)
            yield entry("attention, backward", lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), flops=work * 5 // 2, **what)


def memory_bound():
    tokens = 8192
    for hidden in (2048, 4096, 8192):
        x, gate = random(tokens, hidden), random(tokens, hidden)
        one = x.numel() * 2
        weight = random(hidden)

        def norm():
            wide = x.float()
            return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

        yield entry("copy", lambda: x.clone(), moved=2 * one, width=hidden)
        yield entry("sum of two", lambda: x + gate, moved=3 * one, width=hidden)
        yield entry("silu and product", lambda: F.silu(gate) * x, moved=5 * one, width=hidden)
        yield entry("cast to float32", lambda: x.float(), moved=3 * one, width=hidden)
        # As transformers writes it: cast (1+2), square (2+2), mean (2), scale (2+2), cast (2+1), weight (1+1), in units of `one`.
        yield entry("RMSNorm of transformers", norm, moved=18 * one, width=hidden)
    for vocabulary in (32000, 151936):
        logits = random(2048, vocabulary, dtype=torch.float32)
        targets = torch.randint(vocabulary, (2048,), device="cuda")
        yield entry("cross-entropy", lambda: F.cross_entropy(logits, targets), moved=2 * logits.numel() * 4, width=vocabulary)


def adamw():
    for elements in (10**8, 10**9):
        for kind, settings in (("fused", {"fused": True}), ("foreach", {})):
            p = torch.zeros(elements, device="cuda", requires_grad=True)
            p.grad = torch.ones_like(p)
            optimizer = torch.optim.AdamW([p], lr=1e-5, **settings)
            # Fused: four tensors read, three written, in fp32. foreach passes over them again and again.
            yield entry("AdamW", optimizer.step, moved=28 * elements, kernel=kind, elements=elements, dtype="float32")
            del p, optimizer
            torch.cuda.empty_cache()


def copies():
    for size in (1 << 20, 16 << 20, 256 << 20, 1 << 30):
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        for pinned in (True, False):
            host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned).fill_(1)
            what = {"size": size, "pinned": pinned}
            yield entry("copy to the device", lambda: device.copy_(host, non_blocking=True), moved=size, **what)
            yield entry("copy to the host", lambda: host.copy_(device, non_blocking=True), moved=size, **what)


PARTS = (matrix_products, attention, memory_bound, adamw, copies)


def measure_efficiency(_place, _phases, deadline):
    """The entries, as many as there is time for."""
    torch.cuda.set_device(0)
    torch.manual_seed(0)
    entries = []
    for part in PARTS:
        for each in part():
            entries.append(each)
            if time.time() > deadline:
                return {"entries": entries, "complete": False}
        torch.cuda.empty_cache()
    return {"entries": entries, "complete": True}


def stages_of_one(place, _):
    seen = Stages(place)
    for dtype in (torch.bfloat16, torch.float32):
        a = torch.ones(4096, 4096, dtype=dtype, device="cuda", requires_grad=True)
        (a @ a).sum().backward()  # the forward's thread and autograd's each have a workspace
        seen.add(f"matrix products in {str(dtype).removeprefix('torch.')}")
    x = torch.ones(1, 8, 512, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
    seen.add("attention")
    weights = torch.nn.Linear(512, 512, device="cuda")
    torch.nn.functional.cross_entropy(weights(torch.ones(8, 512, device="cuda")), torch.zeros(8, dtype=torch.long, device="cuda")).backward()
    optimizer = torch.optim.AdamW(weights.parameters(), fused=True)
    optimizer.step()
    seen.add("loss and fused AdamW")
    return {"stages": seen.rows}


def stages_of_a_group(place, _):
    seen = Stages(place)
    import training
    training.join("torch", place)
    data = torch.ones(1 << 20, device="cuda")
    torch.distributed.all_reduce(data)
    seen.add("communicator and all_reduce")
    out = torch.empty(place.ranks << 20, device="cuda")
    torch.distributed.all_gather_into_tensor(out, data)
    torch.distributed.reduce_scatter_tensor(data, out)
    seen.add("all_gather and reduce_scatter")
    second = torch.distributed.new_group(list(range(place.ranks)))
    torch.distributed.all_reduce(data, group=second)
    seen.add("second communicator")
    return {"stages": seen.rows}


class Stages:
    """What the device holds besides PyTorch's allocator (context, kernels, cuBLAS, communicators): of each stage what the device
    lost in it, less what the allocator took."""

    def __init__(self, place):
        self.place, self.rows = place, []
        self.device = self.reserved = 0
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")
        self.add("context and first kernel")

    def add(self, name):
        torch.cuda.synchronize()
        device, reserved = self.place.device_bytes(), torch.cuda.memory_reserved()
        self.rows.append({"stage": name, "device_bytes": device, "reserved": reserved,
                          "outside_allocator": device - reserved,
                          "added_outside": device - self.device - (reserved - self.reserved)})
        self.device, self.reserved = device, reserved


def measure_overheads(watcher, log, *, fake=False):
    """Returns rows of one process, and of 2, 4 and 8 ranks."""
    import ranks
    found = []
    for count, stages in ((1, stages_of_one), (2, stages_of_a_group), (4, stages_of_a_group), (8, stages_of_a_group)):
        answers, _ = ranks.run_ranks(stages, count, watcher, log, fake=fake, limit=90)
        found.append({"ranks": count, **answers[0]})
    return found
