"""A recorded model as a zplan.model/1 document."""

import contextlib
import json
import re
import time
from math import gcd

import torch

from zplan.trace import adapters, depth, modules
from zplan.trace.fit import Fitter, NotRecordable, align
from zplan.trace.fold import fold, join_equal
from zplan.trace.hooks import LEAF_MODULES
from zplan.trace.loads import loads_of
from zplan.trace.record import Recording, Subject, token_inputs

FORMAT = "zplan.model/1"
FEW_TOKENS = 3072  # up to which torch's embedding backward sorts nothing. Source: torch 2.11 ATen/native/cuda/Embedding.cu
PACE_TOKENS, SLOW_SECONDS = 256, 4.0  # three micro-steps of 256 tokens take longer: the model loops over tokens
RANKS = (8, 16)  # of LoRA; sizes are linear in it
WAYS = ("full", "autocast", "lora")


# ---- tensors


class Inventory:
    """Every tensor of the whole model, before layers are left out."""

    def __init__(self, subject):
        self.path, self.layers = subject.path, len(subject.layers)
        self.buffers = buffers(subject.model)
        owners = owners_of(subject.model)
        about = lambda name, parameter: tensor(subject, owners[id(parameter)], name, parameter)
        self.before = [about(*each) for each in subject.before()]
        self.after = [about(*each) for each in subject.behind()]
        self.of_layer = []
        for i in range(self.layers):
            prefix, shown = f"{self.path}.{i}.", f"{self.path}.{{}}."
            self.of_layer.append([about(name.replace(prefix, shown, 1), p) for name, p in subject.listed[i]])

    def document(self, subject, kept):
        """`subject`: with the layers that were kept; `kept`: which of them each layer is."""
        marked = lambda part, listed, start=0: [
            each + ["idle"] if (part, start + i) in subject.idle else each for i, each in enumerate(listed)
        ]
        layers = [
            {"tensors": marked(kept.of_layer[i], listed), "modules": module_list(subject, kept.of_layer[i])}
            for i, listed in enumerate(self.of_layer)
        ]
        kinds, of_layer = join_equal(layers)
        return {
            "before": packed(marked(-1, self.before)),
            "modules": module_list(subject, -1),
            "kinds": kinds,
            "layers": of_layer,
            "after": packed(marked(-1, self.after, len(self.before))),
            **({"buffers": self.buffers} if self.buffers else {}),
        }


def buffers(model):
    """Bytes of tensors that are no parameters and lie on the device before a step begins: masks, tables."""
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in model.buffers() if each.is_cuda}
    return sum(storages.values())


def packed(listed):
    """Tensors of blocks that repeat (of a tower for images) once: their number stands as {} in their names."""
    groups = []  # (prefix, number, tensors)
    for each in listed:
        found = re.match(r"(.*?\.)(\d+)(\..*)", each[0])
        prefix, number = (found[1], int(found[2])) if found else (None, None)
        about = [found[1] + "{}" + found[3], *each[1:]] if found else each
        if groups and found and groups[-1][:2] == [prefix, number]:
            groups[-1][2].append(about)
        else:
            groups.append([prefix, number, [about]])
    made = []
    for prefix, number, tensors in groups:
        if prefix is None:
            made += tensors
        elif made and isinstance(made[-1], dict) and made[-1]["tensors"] == tensors and made[-1]["from"] + made[-1]["blocks"] == number:
            made[-1]["blocks"] += 1
        else:
            made.append({"from": number, "blocks": 1, "tensors": tensors})
    return made


def owners_of(model):
    owners = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), module)
    return owners


def tensor(subject, owner, name, parameter):
    """Returns one tensor of the file: name, shape, role and, where it holds, "linear"."""
    role = modules.role_of(name, owner, parameter, subject.embedding, subject.head)
    about = [name, list(parameter.shape), role]
    if isinstance(owner, torch.nn.Linear) and parameter.dim() == 2:
        about.append("linear")
    return about


def module_list(subject, at):
    """The parameters that each module of the part holds itself, or, a leaf of ZeRO-3's, all below it."""
    listed = []
    for module in subject.module_list.get(at, []):
        leaf = type(module).__name__ in LEAF_MODULES
        held = list(module.parameters()) if leaf else [p for p in module._parameters.values() if p is not None]
        own = [subject.places[id(p)][1] for p in held if subject.places[id(p)][0] == at]
        listed.append({"own": own, "leaf": True} if leaf else own)
    return listed


# ---- shape


def first_of(config, names, default=0):
    for name in names:
        value = modules.said(config, name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return default


def shape(subject, config):
    """Sizes in the words of config.json; what it does not say is read off the tensors."""
    text = modules.text_config(config) if config is not None else None
    table = getattr(subject.embedding, "weight", None)
    hidden = first_of(text, ("hidden_size", "n_embd", "d_model", "dim"), table.shape[1] if table is not None else 1)
    heads = first_of(text, ("num_attention_heads", "n_head", "num_heads"), 1)
    found = {
        "hidden_size": hidden,
        "intermediate_size": first_of(text, ("intermediate_size", "ffn_dim", "n_inner", "d_ff"), 4 * hidden),
        "attention_heads": heads,
        "key_value_heads": first_of(text, ("num_key_value_heads",), heads),
        "head_size": first_of(text, ("head_dim",), max(1, hidden // heads)),
        "vocabulary_size": table.shape[0] if table is not None else 1,
        "max_positions": first_of(text, ("max_position_embeddings", "n_positions")),
        "tied_embeddings": table is not None and getattr(subject.head, "weight", None) is table,
    }
    experts = first_of(text, ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"))
    per_token = first_of(text, ("num_experts_per_tok", "moe_k", "num_experts_per_token", "moe_topk", "top_k_experts"))
    if experts > 1 and per_token:
        size = first_of(text, ("moe_intermediate_size", "expert_ffn_hidden_size"), found["intermediate_size"])
        per_token = min(per_token, experts)
        found["experts"] = {"experts": experts, "experts_per_token": per_token, "intermediate_size": size}
    return found


# ---- sizes to record at


def windows_of(config):
    """Sequence lengths at which what runs changes: attention looks back no further."""
    text = modules.text_config(config) if config is not None else None
    names = ("sliding_window", "attention_chunk_size", "sliding_window_size", "local_attention_window_size")
    values = [modules.said(text, name) for name in names]
    return sorted({v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 512})


def regimes(config):
    """(least sequence, sequence behind the last, sequences to record of a batch of one and of more). The last
    one of each is to check at. None of a list lies on another side of FEW_TOKENS than the others."""
    found, low = [], 1
    for edge in [*windows_of(config), None]:
        if edge is None:
            start = low if low > 1 else 1024
            start += -start % 256
            single = [start, 2 * start, 3 * start, start + start // 2]
            several = [max(start, 2048) + i * max(start, 1024) for i in (0, 1, 2)]
            several.append(several[0] + max(start, 1024) // 2)
        elif edge >= 1024:
            step = edge // 8 - (edge // 8) % 64
            single = several = [4 * step, 5 * step, 6 * step, 7 * step]
            if 2 * 4 * step <= FEW_TOKENS < 3 * 7 * step:
                several = [6 * step, 13 * step // 2, 7 * step, 27 * step // 4]
            if 4 * step <= FEW_TOKENS < 7 * step:
                single = [step * k for k in (2, 4, 6, 5)]
        else:
            low = edge if low == 1 else low
            continue
        found.append((low if found or low > 512 else 1, edge, single, several))
        low = edge or low
    return found


# ---- tapes


class Tapes:
    """Records one way to train after the other."""

    def __init__(self, subject, kept, inputs=token_inputs):
        self.subject, self.kept, self.inputs = subject, kept, inputs
        self.listed, self.notes, self.logs, self.failed = [], [], {}, False
        self.divide = None

    def record(self, about, ranks=(0,), wrap=None, **how):
        """`wrap`: of a rank, what is called instead of the model, and its undoing."""
        for low, high, single, several in self.sizes():
            for batch, sequences, batches in ((1, single, (1,)), (2, several, (2, 3))):
                points = [(b, s) for b in batches for s in sequences[:3]]
                checks = [(batches[0], sequences[3])]
                key = (about.get("adapters"), about["checkpointing"], batch, low)
                try:
                    tape = self.tape(points, checks, ranks, wrap, how, key)
                except NotRecordable as reason:
                    self.note(about, reason)
                    return
                except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError, KeyError, IndexError) as error:
                    self.note(about, f"{type(error).__name__}: {str(error).splitlines()[0][:300]}")
                    self.failed = True
                    return
                self.listed.append({**about, "batch": batch, "sequence": [low, high], **tape})

    def sizes(self):
        """Regimes; models that loop over the tokens are recorded at short lengths, where they have no window."""
        if self.divide is None:
            started = time.monotonic()
            with contextlib.suppress(Exception):  # failures are reported where the module is recorded
                Recording(self.subject, self.inputs).run([(1, PACE_TOKENS)])
            self.divide = 8 if time.monotonic() - started > SLOW_SECONDS else 1
        found = regimes(self.subject.config)
        if self.divide > 1 and len(found) == 1:
            low, high, single, several = found[0]
            found = [(low, high, [s // self.divide for s in single], [s // self.divide for s in several])]
        return found

    def note(self, about, reason):
        way = ", ".join(f"{key} {value}" if not isinstance(value, bool) else key for key, value in about.items() if value)
        self.notes.append(f"{way or 'full'}: {reason}")

    def tape(self, points, checks, ranks, wrap, how, key):
        passes, logs, own_modules, layers = [], [], None, len(self.subject.layers)
        for rank in ranks:
            call, undo = wrap(rank) if wrap else (None, lambda: None)
            try:
                recording = Recording(self.subject, self.inputs, call, **how)
                passes += recording.run(points)
                if rank == ranks[-1]:
                    passes_to_check = recording.run(checks)
                if not how.get("partitioned"):
                    logs += recording.operations(points)
                elif wrap:
                    own_modules = [module_list(self.subject, i) for i in range(-1, layers)]
            finally:
                undo()
        fitter = Fitter([(b, s, r) for r in ranks for b, s in points], [(b, s, ranks[-1]) for b, s in checks])
        events, adopted, aggregated = align(passes + passes_to_check, fitter)
        if not wrap:
            note_idle(self.subject, passes[0])
        misfit = int(fitter.misfit)
        logs = self.logs.setdefault(key, logs)  # partitioned, the same is computed
        loads = loads_of(logs, fitter, layers) if logs else None
        around, parts = fold(passes[0].marks, events, adopted, layers, loads)
        if own_modules:
            around["modules"] = own_modules[0]
            for part, own in zip(parts, own_modules[1:]):
                part["modules"] = own
        for a, b in self.kept.alike:
            if parts[a] != parts[b]:
                raise NotAlike()
        kinds, of_kept = join_equal(parts)
        tape = {"misfit": misfit, "aggregated": aggregated, "sizes": [compact(c) for c in fitter.table]}
        tape.update(around=around, kinds=kinds, layers=[of_kept[i] for i in self.kept.of_layer])
        if loads:
            tape["loads"] = [each for each in loads if each is not None]
        return tape


class NotAlike(Exception):
    """Layers that were taken to be alike were not recorded so: the whole depth is needed."""


def note_idle(subject, recorded):
    """Parameters that train, but whose gradient never came."""
    reached = {mark[1] for mark in recorded.marks if mark[0] == "grad"}
    trained = {subject.places[id(p)] for p in subject.model.parameters() if p.requires_grad}
    subject.idle = trained - reached


class Sections:
    """Every distinct list of events once; tapes name them by number."""

    def __init__(self):
        self.listed, self.known = [], {}

    def number(self, events):
        key = repr(events)
        if key not in self.known:
            self.known[key] = len(self.listed)
            self.listed.append(events)
        return self.known[key]

    def take(self, tape):
        for part in [tape["around"], *tape["kinds"]]:
            for name in ("forward", "head", "backward"):
                if name in part:
                    part[name] = self.number(part[name])


def compact(coefficients):
    """[1, s, s², b, bs, bs², …], over one denominator where they are not whole; zeros at the end are left
    out."""
    over = 1
    for each in coefficients:
        over = over * each.denominator // gcd(over, each.denominator)
    numbers = [int(each * over) for each in coefficients]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return numbers if over == 1 else {"over": over, "of": numbers}


# ---- the document


def checkpointing(model, on):
    if on:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    elif hasattr(model, "gradient_checkpointing_disable"):
        model.gradient_checkpointing_disable()


def record_all(tapes, ways, make_fp32=None):
    """Every way of `ways`, with and without checkpointing where the model can checkpoint."""
    model = tapes.subject.model
    can = getattr(model, "supports_gradient_checkpointing", False)
    if not can:
        tapes.notes.append("checkpointing: the model has none")
    for on in (False, True) if can else (False,):
        checkpointing(model, on)
        about = {"checkpointing": "full" if on else "none"}
        if "full" in ways:
            tapes.record({**about, "partitioned": False})
            tapes.record({**about, "partitioned": True}, partitioned=True)
        if "lora" in ways:
            for dtype, partitioned in (("bf16", False), ("fp32", False), ("fp32", True)):
                wrap = lambda rank, dtype=dtype: adapters.wrap(tapes.subject, rank, dtype == "fp32", on)
                way = {"method": "lora", "adapters": dtype, **about, "partitioned": partitioned}
                tapes.record(way, RANKS, wrap, partitioned=partitioned)
        checkpointing(model, False)
    if "autocast" in ways:
        model.float()
        for on in (False, True) if can else (False,):
            checkpointing(model, on)
            tapes.record({"autocast": True, "checkpointing": "full" if on else "none", "partitioned": False}, autocast=True)
        checkpointing(model, False)


def document(make, name, ways=WAYS, inputs=token_inputs, layers_path=None):
    """The whole file. `make()`: the model on the device, and its config (None where it has none)."""
    model, config = make()
    whole = Subject(model, config, layers_path)
    inventory, sizes = Inventory(whole), shape(whole, config)
    said = json.loads(config.to_json_string(use_diff=False)) if hasattr(config, "to_json_string") else {}
    if said:
        said["architectures"] = [type(model).__name__]
    path, layers = whole.path, len(whole.layers)
    signatures = depth.signatures_of(list(whole.layers), config)
    del whole
    tapes = None
    for kept in (depth.reduced(signatures), depth.whole(layers)):
        try:
            if model is None:
                model, config = make()
            depth.keep_layers(model, config, path, kept)
            subject = Subject(model, config, path)
            tapes = Tapes(subject, kept, inputs)
            record_all(tapes, ways)
            if not tapes.failed or len(kept.kept) == layers:
                break
        except NotAlike:
            pass
        model = config = None
    sections = Sections()
    for tape in tapes.listed:
        sections.take(tape)
    return {
        "format": FORMAT,
        "name": name,
        "architecture": getattr(config, "model_type", "") or type(model).__name__,
        "class": type(model).__name__,
        "recorded_with": versions(),
        "config": said,
        "shape": sizes,
        "inventory": inventory.document(subject, kept),
        "sections": sections.listed,
        "tapes": tapes.listed,
        "notes": tapes.notes,
    }


def versions():
    found = {"torch": torch.__version__.split("+")[0]}
    for package in ("transformers", "peft"):
        with contextlib.suppress(ImportError):
            found[package] = __import__(package).__version__
    return found
