"""Records what DeepSpeed's ZeRO-3 gathers and lets go of: python record.py modules/CASE.json … fills in all but `run`.

Every case is a process of its own. N ranks are one process with torch.distributed's fake backend, on a stand-in for the
CUDA runtime that is preloaded; see README.md."""
import json, logging, multiprocessing, os, sys, textwrap, weakref

os.environ.setdefault("DS_ACCELERATOR", "cuda")
STEPS = 3
# Functions of partition_parameters.py that take memory for parameters.
TAKES = ("_all_gather_dtype", "_all_gather_sequential", "_all_gather_coalesced", "wait",
         "_allgather_params_coalesced", "_allgather_params_sequential")


# ---- DeepSpeed's coordinator, watched ---------------------------------------------------------------------------


class Watcher:
    """What happens, in order: letters are events of the tape (README.md), words are actions."""

    def __init__(self):
        self.log, self.on, self.model = [], False, None

    def note(self, *what):
        if self.on:
            self.log.append(what)

    def before(self, owner, name, what):
        function = getattr(owner, name)
        def wrapped(*a, **k):
            what(*a, **k)
            return function(*a, **k)
        setattr(owner, name, wrapped)

    def watch(self):
        import deepspeed.runtime.zero.parameter_offload as offload
        import deepspeed.runtime.zero.partition_parameters as partition
        from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator as coordinator
        note, before = self.note, self.before
        before(coordinator, "reset_step", lambda _: note("reset"))
        before(coordinator, "fetch_sub_module", lambda _, m, forward: note("f" if forward else "b", m.ds_id))
        before(coordinator, "release_sub_module",
               lambda _, m, forward=False: note("F" if forward else "B", m.ds_id))
        before(coordinator, "release_backward_leftovers", lambda _: note("leftovers"))
        before(coordinator, "release_and_reset_all", lambda *_: note("optimizer step"))
        before(offload, "register_external_parameter", lambda m, p: note("x", m.ds_id, p.ds_id))
        before(partition, "free_param", lambda p: note("release", p.ds_id))
        before(partition, "_dist_allgather_fn", lambda i, o, *_: note("call", i.numel(), o.numel()))
        for name in ("_allgather_params_coalesced", "_allgather_params_sequential"):
            before(partition.Init, name, lambda _, ps, *a, **k: ps and note("at once", [p.ds_id for p in ps]))
        self.handles(partition)
        self.recomputation()

    def handles(self, partition):
        kinds = {partition.AllGatherHandle: "alone", partition.AllGatherCoalescedHandle: "together",
                 partition.NoGatherHandle: "shard", partition.NoGatherCoalescedHandle: "shard",
                 partition.AllReduceCoalescedHandle: "reduced"}
        for kind, word in kinds.items():
            def init(this, *a, _init=kind.__init__, _word=word, **k):
                _init(this, *a, **k)
                given = [x for x in list(a) + list(k.values()) if isinstance(x, list) or hasattr(x, "ds_id")][0]
                this.ids = [p.ds_id for p in given] if isinstance(given, list) else [given.ds_id]
                self.note(_word, this.ids)
            def wait(this, *a, _wait=kind.wait, **k):
                if not getattr(this, "noted", False):
                    this.noted = True
                    self.note("wait", this.ids)
                return _wait(this, *a, **k)
            kind.__init__, kind.wait = init, wait

    def recomputation(self):
        """Detached tensors that recomputation saves of parameters: k when it does, d when they are gone."""
        from torch.utils import checkpoint
        init = checkpoint._recomputation_hook.__init__
        def hooked(hook, frame, group):
            init(hook, frame, group)
            pack = hook.pack_hook
            def packed(x):
                try:
                    return pack(x)
                finally:
                    self.saved(frame(), group, x)
            hook.pack_hook = packed
        checkpoint._recomputation_hook.__init__ = hooked

    def saved(self, frame, group, x):
        if not self.on or not x.requires_grad or not len(frame.recomputed[group]):
            return
        latest = list(frame.recomputed[group].values())[-1]
        for p in self.model.parameters():
            if p.data.numel() == p.ds_numel and p.data_ptr() == x.data_ptr() == latest.data_ptr():
                self.note("k", p.ds_id)
                weakref.finalize(latest, self.note, "d", p.ds_id)
                return


# ---- a run ------------------------------------------------------------------------------------------------------


def patch():
    """What reads values back from the device, where there are none."""
    import deepspeed.comm.torch
    import deepspeed.runtime.zero.partition_parameters as a, deepspeed.runtime.zero.partitioned_param_coordinator as b
    import deepspeed.runtime.zero.stage3 as c
    from transformers import masking_utils
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    masking_utils.find_packed_sequence_indices = lambda *a, **k: None
    for module in (a, b, c):
        module.assert_ints_same_as_other_ranks = lambda *a: None
    logging.disable(logging.WARNING)


def configuration(run):
    zero = {"stage": 3, "reduce_bucket_size": 10_000_000, **run.get("zero", {})}
    if run.get("offload"):
        zero["offload_param"] = zero["offload_optimizer"] = {"device": "cpu"}
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": run.get("accumulation", 1),
            "zero_optimization": zero, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
            **({} if run.get("fp32") else {"bf16": {"enabled": True}})}


def build(run):
    import copy, deepspeed, peft, torch
    from transformers import AutoConfig, AutoModelForCausalLM
    config = AutoConfig.for_model(**run["config"])
    dtype = torch.float32 if run.get("fp32") else torch.bfloat16
    make = lambda: AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    if run.get("zero_init", True):
        with deepspeed.zero.Init(config_dict_or_path=configuration(run), dtype=dtype):
            model = make()
    else:
        with torch.device("cuda"):
            model = make()
    if "lora" in run:
        with torch.device("cuda"):
            model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"),
                                        autocast_adapter_dtype=run["lora"] == "fp32")
    model.train()
    model.config.use_cache = False
    if "checkpointing" in run:
        model.gradient_checkpointing_enable({"use_reentrant": run["checkpointing"] == "reentrant"})
    trained = [p for p in model.parameters() if p.requires_grad]
    return deepspeed.initialize(model=model, model_parameters=trained, config=configuration(run),
                                optimizer=torch.optim.SGD(trained, lr=1e-5), dist_init_required=False)[0]


def train(run, watcher):
    import torch
    engine = build(run)
    watcher.model = engine.module
    taken_before = len(torch.cuda.memory._snapshot()["device_traces"][0])
    watcher.on = True
    for _ in range(STEPS):
        watcher.note("step")
        for _ in range(run.get("accumulation", 1)):
            ids = torch.zeros(1, 64, dtype=torch.long, device="cuda")
            engine.backward(engine(input_ids=ids, labels=ids).loss)
            engine.step()
    return engine, torch.cuda.memory._snapshot()["device_traces"][0][taken_before:]


# ---- what is written --------------------------------------------------------------------------------------------


def ranges(numbers):
    """1,3,5-7"""
    text, i = [], 0
    while i < len(numbers):
        j = i
        while j + 1 < len(numbers) and numbers[j + 1] == numbers[j] + 1:
            j += 1
        text.append(str(numbers[i]) if i == j else f"{numbers[i]}-{numbers[j]}")
        i = j + 1
    return ",".join(text)


class Recording:
    def __init__(self, run, engine, log, trace):
        self.run, self.model, self.trace = run, engine.module, trace
        self.zero = engine._config.zero_config
        self.parameters = sorted(self.model.parameters(), key=lambda p: p.ds_id)
        self.number = {p.ds_id: i for i, p in enumerate(self.parameters)}
        self.modules = {m.ds_id: m for m in self.model.modules() if hasattr(m, "ds_id")}
        self.steps = self.split(log)
        self.tape = self.steps[0][0]["tape"]
        used = sorted({event[1] for event in self.tape if event[0] in "fFbBx"})
        self.used = {m: i for i, m in enumerate(used)}

    def split(self, log):
        """By step and micro-step: the tape, and actions by the place on it at which they happen."""
        steps = []
        for word, *rest in log:
            if word == "step":
                steps.append([])
            elif word == "reset":
                micro = {"tape": [], "actions": {}}
                steps[-1].append(micro)
                place = 0
            elif len(word) == 1:
                self.extend(micro["tape"], word, rest)
                place = len(micro["tape"]) - 1 if word in "fFbBx" else place
            elif word == "leftovers":
                place = len(micro["tape"])
            elif word == "optimizer step":
                place = word
            else:
                micro["actions"].setdefault(place, []).append((word, *rest))
        return steps

    def extend(self, tape, letter, rest):
        if letter in "kd":
            return tape.append((letter, self.number[rest[0]]))
        module = self.modules[rest[0]]
        if letter in "FB" and self.leaf(module) and "checkpointing" not in self.run:
            # Operands of the grouped matrix product are not the parameters themselves: autograd holds their memory.
            stacks = [self.number[p.ds_id] for p in module.parameters() if len(p.ds_shape) == 3]
            tape.extend(("k" if letter == "F" else "d", p) for p in stacks)
        tape.append((letter, rest[0]) if letter != "x" else (letter, rest[0], self.number[rest[1]]))

    @staticmethod
    def leaf(module):
        return getattr(module, "_z3_leaf", False)

    def names(self, ids):
        return ranges([self.number[i] for i in ids])

    def text(self, actions, at_step=False):
        gathers, waits, released, persistent, calls = [], [], [], "", []
        for word, *rest in actions:
            if word == "call":
                calls.append(rest)
            elif word in ("alone", "together"):
                sent, received = calls.pop(0)
                gathers.append(f"{word} {self.names(rest[0])} of {received} on {received // sent}")
            elif word == "release":
                released.append(self.number[rest[0]])
            elif word == "at once" and at_step:
                persistent = "persistent " + self.names(rest[0])
            elif word == "wait":
                waits.append("wait " + self.names(rest[0]))
            else:
                gathers.append(f"{word} {self.names(rest[0])}")
        if persistent:
            gathers, waits = [], []
        return "; ".join(gathers + sorted(waits) + (["release " + ranges(sorted(released))] if released else []) +
                         ([persistent] if persistent else []))

    def micro_step(self, micro):
        # Parameters are read outside their modules in the first micro-step only: after it they are gathered before.
        reads = len(micro["tape"]) == len(self.tape)
        places = [i for i, event in enumerate(self.tape) if reads or event[0] != "x"]
        assert [self.tape[i] for i in places] == micro["tape"], "the tape changes"
        places.append(len(self.tape))
        return [f"{places[place]} {self.text(micro['actions'][place])}"
                for place in sorted(p for p in micro["actions"] if p != "optimizer step")]

    def step(self, micros):
        return {"micro_steps": [self.micro_step(each) for each in micros],
                "optimizer_step": self.text(micros[-1]["actions"].get("optimizer step", []), True)}

    def blocks(self):
        """Runs of memory taken and given back for whole parameters, sizes sorted in a run."""
        runs, live = [], {}
        for e in self.trace:
            if e["action"] == "alloc" and self.takes(e["frames"]):
                live[e["addr"]] = (e["size"], "g" if e["stream"] else "c")
                self.add(runs, "+", live[e["addr"]])
            elif e["action"] == "free_requested" and e["addr"] in live:
                self.add(runs, "-", live.pop(e["addr"]))
        return [f"{sign} " + " ".join(f"{size}{stream}" for size, stream in sorted(each)) for sign, each in runs]

    @staticmethod
    def add(runs, sign, block):
        if not runs or runs[-1][0] != sign:
            runs.append((sign, []))
        runs[-1][1].append(block)

    @staticmethod
    def takes(frames):
        for f in frames:
            if f["filename"].endswith("partition_parameters.py"):
                if f["name"] in TAKES or f["name"] == "__init__" and f["line"] < 110:  # NoGather(Coalesced)Handle
                    return True
        return False

    def described(self, p):
        return " ".join([str(p.ds_numel), str(p.ds_tensor.dtype)[6:]] + ["frozen"] * (not p.requires_grad) +
                        ["persistent"] * p.ds_persist)

    def module(self, m, leaves):
        own = self.names(sorted(p.ds_id for p in m.parameters(recurse=False)))
        if not leaves:
            return own
        subtree = self.names(sorted(p.ds_id for p in m.parameters()))
        return {"own": own, "subtree": subtree, **({"leaf": True} if self.leaf(m) else {})}

    def event(self, letter, *rest):
        if letter in "kd":
            return f"{letter}{rest[0]}"
        return ":".join([f"{letter}{self.used[rest[0]]}", *map(str, rest[1:])])

    def json(self):
        z, run = self.zero, self.run
        leaves = any(map(self.leaf, self.modules.values()))
        named = [self.number[p.ds_id] for p in self.model.parameters()]
        first, second, third = map(self.step, self.steps)
        assert second == third, "not steady from the second step on"
        return {
            "run": run,
            "options": {
                "data_parallel": run["ranks"], "micro_steps": run.get("accumulation", 1),
                "prefetch_bucket_size": z.prefetch_bucket_size, "max_live_parameters": z.max_live_parameters,
                "max_reuse_distance": z.max_reuse_distance, "persistence_threshold": z.param_persistence_threshold,
                "model_persistence_threshold": z.model_persistence_threshold, "overlap_comm": z.overlap_comm,
                "offloaded": bool(run.get("offload")), "allgather_sequential": z.allgather_sequential,
                "use_all_reduce": z.use_all_reduce_for_fetch_params,
                "secondary_partition": z.zero_hpz_partition_size},
            "parameters": [self.described(p) for p in self.parameters],
            **({"named": ranges(named)} if named != sorted(named) else {}),
            "modules": [self.module(self.modules[m], leaves) for m in self.used],
            "events": textwrap.wrap(" ".join(self.event(*e) for e in self.tape), 100),
            "first": first, "steady": second, "blocks": self.blocks()}


def record(path):
    import torch, torch.distributed
    import deepspeed
    from torch.testing._internal.distributed.fake_pg import FakeStore
    run = json.load(open(path))["run"]
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(run["ranks"]), LOCAL_SIZE=str(run["ranks"]))
    patch()
    torch.cuda.set_device(0)
    torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=4_000_000)
    torch.distributed.init_process_group("fake", rank=0, world_size=run["ranks"], store=FakeStore())
    deepspeed.init_distributed("fake", verbose=False)
    watcher = Watcher()
    watcher.watch()
    engine, trace = train(run, watcher)
    watcher.on = False
    recorded = Recording(run, engine, watcher.log, trace).json()
    with open(path, "w") as out:
        out.write(json.dumps(recorded, indent=0) + "\n")


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    for path in sys.argv[1:]:
        process = multiprocessing.Process(target=record, args=(path,))
        process.start()
        process.join()
        print(path, "recorded" if process.exitcode == 0 else "FAILED", flush=True)
