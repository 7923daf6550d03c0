"""Records what PyTorch's caching allocator does: python record.py [CASE …] writes CASE.json beside this file.

Every case is a process of its own, on a device of the case's size (NULLCUDA_MEM, read by the stand-in for the CUDA
runtime that is preloaded; see README.md) with the case's PYTORCH_ALLOC_CONF."""
import json, os, random, subprocess, sys

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))


class Recorder:
    """All requests to the allocator from here on, and its statistics at marks."""

    def __init__(self):
        import torch
        self.torch, self.notes = torch, []
        torch.cuda.init()
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=10_000_000)
        self.reset_peak = torch.cuda.reset_peak_memory_stats
        give_back = torch.cuda.empty_cache
        def empty_cache():
            self.note("empty cache")
            give_back()
        torch.cuda.empty_cache = torch.cuda.memory.empty_cache = empty_cache

    def note(self, what):
        s = self.torch.cuda.memory_stats()
        calls = s.get("allocation.all.allocated", 0) + s.get("allocation.all.freed", 0)
        self.notes.append((calls, s.get("num_ooms", 0), what))

    def mark(self, name, segments=False):
        """The statistics now; peaks are since the last mark. torch frees what another stream has used at its next
        allocation: one is made first, so that nothing waits."""
        try:
            self.torch.cuda.caching_allocator_delete(self.torch.cuda.caching_allocator_alloc(1))
        except self.torch.OutOfMemoryError:
            pass
        s = self.torch.cuda.memory_stats()
        at = {"mark": name}
        for key in ("requested", "allocated", "active", "reserved"):
            at[key] = [s[f"{key}_bytes.all.current"], s[f"{key}_bytes.all.peak"]]
        at["retries"] = s["num_alloc_retries"]
        if segments:
            at["segments"] = self.torch.cuda.memory_snapshot()
        self.note(at)
        self.reset_peak()

    def steps(self):
        """The calls between marks: N allocates N bytes and counts up, -K releases the K-th allocation, [N, S] is on
        stream S, [N, S, "out of memory"] failed, "empty cache" is torch.cuda.empty_cache()."""
        events = [e for e in self.torch.cuda.memory._snapshot()["device_traces"][0]
                  if e["action"] in ("alloc", "free_requested", "oom")]
        streams, number, steps, calls, done, failed, count = {0: 0}, {}, [], [], 0, 0, 0
        notes = iter(self.notes)
        note = next(notes)
        for e in events + [None]:
            while note and note[:2] == (done, failed):
                if note[2] == "empty cache":
                    calls.append(note[2])
                else:
                    for segment in note[2].get("segments", []):
                        segment["stream"] = streams.setdefault(segment["stream"], len(streams))
                    steps.append({"calls": calls, **note[2]})
                    calls = []
                note = next(notes, None)
            if e is None or note is None:
                break
            stream = streams.setdefault(e["stream"], len(streams))
            if e["action"] == "oom":
                calls.append([e["size"], stream, "out of memory"])
                failed += 1
            elif e["action"] == "alloc":
                calls.append([e["size"], stream] if stream else e["size"])
                count += 1
                number[e["addr"]] = count
                done += 1
            else:
                calls.append(-number.pop(e["addr"]))
                done += 1
        for step in steps:
            if "segments" in step:
                step["segments"] = [[s["stream"], s["segment_type"],
                                     *(b["size"] if b["state"] == "active_allocated" else -b["size"] for b in s["blocks"])]
                                    for s in sorted(step["segments"], key=lambda s: s["address"])]
        return steps


EDGES = [1, 511, 512, 513, MIB // 2, MIB - 511, MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 12 * MIB,
         19 * MIB, 20 * MIB, 21 * MIB, 30 * MIB]


def random_size(draw, largest):
    kind = draw.random()
    if kind < 0.35: return draw.randint(1, 4096)
    if kind < 0.55: return draw.randint(1, MIB)
    if kind < 0.75: return draw.choice(EDGES)
    return int(MIB * 2 ** draw.uniform(0, draw.uniform(0.5, largest)))


def random_calls(recorder, seed, calls=1200, marks=12, streams=2, largest=6.0, palette=0.5, live=120, empty=0.002):
    """Allocations and frees of many sizes, some of them often, in waves: the live set swings between nothing and `live`."""
    torch, draw = recorder.torch, random.Random(seed)
    on = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(streams - 1)]
    usual = [random_size(draw, largest) for _ in range(12)]
    held, wanted = [], 0
    for i in range(calls):
        if i % 50 == 0: wanted = draw.choice([0, draw.randint(0, live), live])
        grow = draw.random() < (0.8 if len(held) < wanted else 0.2)
        if grow or not held:
            size = draw.choice(usual) if draw.random() < palette else random_size(draw, largest)
            try:
                held.append(torch.cuda.caching_allocator_alloc(size, stream=draw.choices(on, [4] + [1] * (streams - 1))[0]))
            except torch.OutOfMemoryError:
                pass
        else:
            which = draw.choice([0, -1, draw.randrange(len(held))])
            torch.cuda.caching_allocator_delete(held.pop(which))
        if draw.random() < empty: torch.cuda.empty_cache()
        if i % (calls // marks) == calls // marks - 1: recorder.mark(f"call {i + 1}", segments=i + 1 == calls)
    for pointer in held: torch.cuda.caching_allocator_delete(pointer)


def llama(layers, hidden=1024, feed_forward=2816, heads=16, key_value_heads=4, vocabulary=32000, **more):
    import transformers
    from transformers import masking_utils
    masking_utils.find_packed_sequence_indices = lambda *a, **k: None  # reads the device's memory; None: not packed
    config = transformers.LlamaConfig(hidden_size=hidden, intermediate_size=feed_forward, num_hidden_layers=layers,
                                      num_attention_heads=heads, num_key_value_heads=key_value_heads,
                                      vocab_size=vocabulary, use_cache=False, **more)
    import torch
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)


def train_llama(recorder, steps=2, layers=4, batch=2, length=512):
    """AdamW in bf16 on one GPU."""
    torch = recorder.torch
    with torch.device("cuda"):
        model = llama(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True)
    recorder.mark("model")
    for step in range(1, steps + 1):
        ids = torch.zeros(batch, length, dtype=torch.long, device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        recorder.mark(f"forward {step}")
        loss.backward()
        recorder.mark(f"backward {step}", segments=step == 1)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recorder.mark(f"step {step}", segments=step == steps)


def train_deepspeed(recorder, stage, layers, steps=2, gpus=5, length=2048, empty_cache=False):
    """One rank of a Llama of 8B's width; the other ranks answer with nothing (torch's 'fake' process group)."""
    torch = recorder.torch
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(gpus), LOCAL_SIZE=str(gpus), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29999", DS_ACCELERATOR="cuda")
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.distributed.init_process_group("fake", rank=0, world_size=gpus, store=FakeStore())
    import deepspeed
    from deepspeed.runtime.zero import stage3, partition_parameters, partitioned_param_coordinator, utils
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    for module in (stage3, partition_parameters, partitioned_param_coordinator, utils):
        module.assert_ints_same_as_other_ranks = lambda *a: None  # compares what the device holds
    deepspeed.init_distributed(dist_backend="fake", verbose=False)
    config = dict(train_micro_batch_size_per_gpu=1, bf16=dict(enabled=True), gradient_clipping=1.0,
                  zero_optimization=dict(stage=stage), zero_allow_untested_optimizer=True)
    wide = dict(hidden=4096, feed_forward=14336, heads=32, key_value_heads=8, vocabulary=128256)
    if stage == 3:
        with deepspeed.zero.Init(config_dict_or_path=config, dtype=torch.bfloat16):
            model = llama(layers, **wide)
    else:
        with torch.device("cuda"):
            model = llama(layers, **wide)
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)
    recorder.mark("engine")
    for step in range(1, steps + 1):
        ids = torch.zeros(1, length, dtype=torch.long, device="cuda")
        loss = engine(input_ids=ids, labels=ids).loss
        recorder.mark(f"forward {step}")
        engine.backward(loss)
        recorder.mark(f"backward {step}", segments=step == 1)
        engine.step()
        if empty_cache: torch.cuda.empty_cache()
        recorder.mark(f"step {step}", segments=step == steps)


EXPANDABLE = "expandable_segments:True"
# name: what, how it is run, the device in bytes, PYTORCH_ALLOC_CONF
CASES = {}


def case(name, about, run, device=None, conf=""):
    CASES[name] = (about, run, device, conf)


def training_cases():
    about = "two steps of a 4-layer Llama, AdamW in bf16"
    case("llama", about, train_llama)
    case("llama_expandable", about, train_llama, 64 << 30, EXPANDABLE)
    case("llama_tight", about + "; the smallest device that runs it", train_llama, LLAMA_RUNS)
    case("llama_out_of_memory", about + "; a device 2 MiB too small", train_llama, LLAMA_RUNS - 2 * MIB)
    case("llama_expandable_tight", about + "; the smallest device that runs it", train_llama, LLAMA_RUNS_EXPANDABLE, EXPANDABLE)
    case("llama_expandable_out_of_memory", about + "; a device 2 MiB too small", train_llama,
         LLAMA_RUNS_EXPANDABLE - 2 * MIB, EXPANDABLE)
    deepspeed = "rank 0 of 5 GPUs, DeepSpeed ZeRO-{}, two steps of Llama 3 8B with {} layers"
    for stage in (1, 2):
        case(f"zero{stage}", deepspeed.format(stage, 8), lambda r, stage=stage: train_deepspeed(r, stage, 8))
    case("zero3", deepspeed.format(3, 32), lambda r: train_deepspeed(r, 3, 32))
    case("zero3_empty_cache", deepspeed.format(3, 4) + ", cache emptied after each", lambda r: train_deepspeed(r, 3, 4, empty_cache=True))
    case("zero3_tight", deepspeed.format(3, 4) + "; the smallest device that runs it", lambda r: train_deepspeed(r, 3, 4), ZERO3_RUNS)


# By bisection over whole runs.
LLAMA_RUNS = 683 * 2 * MIB
LLAMA_RUNS_EXPANDABLE = 619 * 2 * MIB
ZERO3_RUNS = 6794 * 2 * MIB


def random_cases():
    about = "random calls on {} streams"
    def calls(*seed, **k): return lambda r: random_calls(r, *seed, **k)
    case("random", about.format(3), calls(1, streams=3))
    case("random_tight", about.format(2), calls(2), 160 * MIB)
    case("random_very_tight", about.format(2), calls(3, largest=4.0), 66 * MIB)
    case("random_expandable", about.format(3), calls(4, streams=3), 64 << 30, EXPANDABLE)
    case("random_expandable_tight", about.format(2), calls(5), 160 * MIB, EXPANDABLE)
    case("random_expandable_very_tight", about.format(2), calls(6, largest=4.0), 66 * MIB, EXPANDABLE)
    case("random_max_split", about.format(2), calls(7, empty=0.01), None, "max_split_size_mb:20")
    case("random_max_split_tight", about.format(2), calls(8, largest=6.5), 240 * MIB, "max_split_size_mb:20")
    case("random_max_split_expandable", about.format(2), calls(9), 200 * MIB, "max_split_size_mb:24," + EXPANDABLE)


def options(recorder, device, conf):
    """As the allocator sees them: what else takes device memory (kernels' constants) is no capacity."""
    free, total = recorder.torch.cuda.mem_get_info()
    outside = total - free - recorder.torch.cuda.memory_reserved()
    split = [int(o.split(":")[1]) for o in conf.split(",") if o.startswith("max_split_size_mb")]
    return dict(capacity=device and device - outside, expandable_segments=EXPANDABLE in conf,
                max_split_size=split[0] * MIB if split else None)


def rows(calls, width=118):
    """`calls` as JSON, in lines."""
    lines, line = [], ""
    for call in calls:
        text = json.dumps(call, separators=(",", ":")) + ","
        if len(line) + len(text) > width:
            lines.append(line)
            line = ""
        line += text
    return "[" + "\n".join(lines + [line]).rstrip(",") + "]"


def write(path, about, options, steps):
    import torch
    head = json.dumps(dict(about=about, torch=torch.__version__, options=options))
    text = []
    for step in steps:
        rest = {k: v for k, v in step.items() if k not in ("calls", "segments")}
        text.append('{"calls":' + rows(step["calls"]) + ",\n" + json.dumps(rest)[1:-1])
        if "segments" in step: text[-1] += ',\n"segments":' + rows(step["segments"])
        text[-1] += "}"
    with open(path, "w") as f:
        f.write(head[:-1] + ', "steps": [\n' + ",\n".join(text) + "\n]}\n")


def record(name):
    about, run, device, conf = CASES[name]
    recorder = Recorder()
    try:
        run(recorder)
    except recorder.torch.OutOfMemoryError:
        recorder.mark("out of memory")
    steps = recorder.steps()
    write(os.path.join(HERE, name + ".json"), about, options(recorder, device, conf), steps)
    print(name, sum(len(s["calls"]) for s in steps), "calls,", steps[-1]["mark"], "retries", steps[-1]["retries"],
          [(s["mark"], s["active"], s["allocated"]) for s in steps if s["active"] != s["allocated"]])


if __name__ == "__main__":
    training_cases()
    random_cases()
    if sys.argv[1:2] == ["--here"]:
        record(sys.argv[2])
    else:
        for name in sys.argv[1:] or CASES:
            _, _, device, conf = CASES[name]
            limits = dict(NULLCUDA_MEM=str(device)) if device else {}
            subprocess.run([sys.executable, __file__, "--here", name], check=True,
                           env={**os.environ, "PYTORCH_ALLOC_CONF": conf, **limits})
