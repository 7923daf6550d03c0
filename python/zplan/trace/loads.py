"""What each part of a micro-step computes: matrix products by shape, attention by its operations, and the bytes
that all other kernels read and write."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from zplan.trace.fold import sections_of

aten = torch.ops.aten
ATTENTION = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention")


class OpTrace(TorchDispatchMode):
    """Stands in for Trace: marks, and between each two a list of what was computed."""

    def __init__(self):
        super().__init__()
        self.marks, self.stretches = [], [[]]
        self.on = False

    def mark(self, *what):
        if self.on:
            self.marks.append(what)
            self.stretches.append([])

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if self.on:
            made = computed(func, args, kwargs or {}, result)
            if made is not None:
                self.stretches[-1].append(made)
        return result


def computed(func, args, kwargs, result):
    """("product", batch, rows, inner, columns), ("attention", operations) or ("other", bytes); None for views."""
    name = func.overloadpacket.__name__
    if func in (aten.mm.default, aten.addmm.default):
        a, b = (args[0], args[1]) if func is aten.mm.default else (args[1], args[2])
        return ("product", 1, a.shape[0], a.shape[1], b.shape[1])
    if func in (aten.bmm.default, aten.baddbmm.default):
        a, b = (args[0], args[1]) if func is aten.bmm.default else (args[1], args[2])
        return ("product", a.shape[0], a.shape[1], a.shape[2], b.shape[2])
    if name in ("_grouped_mm", "grouped_mm"):
        a, b = args[0], args[1]
        if a.dim() == 2 and b.dim() == 3:  # rows of each expert times its weights
            return ("product", 1, a.shape[0], a.shape[1], b.shape[2])
        return ("product", b.shape[0] if b.dim() == 3 else 1, a.shape[-2], a.shape[-1], b.shape[-1])
    if any(word in name for word in ATTENTION):
        backward = "backward" in name
        q, k = (args[1], args[2]) if backward else (args[0], args[1])
        b, heads, s, d = q.shape[0], q.shape[1], q.shape[2], q.shape[3]
        causal = any(value is True for value in args) or kwargs.get("is_causal", False)
        operations = 4 * b * heads * s * k.shape[2] * d // (2 if causal else 1)
        return ("attention", operations * 5 // 2 if backward else operations)
    if func.is_view or name in ("detach", "alias", "lift_fresh", "empty", "empty_like", "empty_strided", "sym_size"):
        return None
    moved = sum(t.numel() * t.element_size() for t in tree_leaves((args, kwargs, result)) if torch.is_tensor(t))
    return ("other", moved)


def loads_of(logs, fitter, layers):
    """A load for each section, in the order of sections_of; None where nothing is computed."""
    sections = [sections_of(log.marks, log.stretches, layers) for log in logs]
    made = []
    for i in range(len(sections[0])):
        made.append(load([each[i].events for each in sections], fitter, i > layers))
    return made


def load(events_at, fitter, backward):
    ops = [[e for e in events if e[0] in ("product", "attention", "other")] for events in events_at]
    if not any(ops):
        return None
    made = {"kernels": max(sum(1 for e in each if e[0] == "other") for each in ops)}
    products = [[e for e in each if e[0] == "product"] for each in ops]
    if products[0]:
        made["products"] = fitted_products(products, fitter)
    attention = [sum(e[1] for e in each if e[0] == "attention") for each in ops]
    if any(attention):
        made["attention"] = fitter.fit(attention)
    moved = [sum(e[1] for e in each if e[0] == "other") for each in ops]
    if any(moved):
        made["moved"] = fitter.fit(moved)
    if backward:
        made["backward"] = True
    return made


def fitted_products(products, fitter):
    if len({len(each) for each in products}) == 1:
        counted = {}
        for same in zip(*products):
            key = tuple(fitter.fit([p[d] for p in same]) for d in (1, 2, 3, 4))
            counted[key] = counted.get(key, 0) + 1
        return [[*key, fitter.fit([n] * len(products))] for key, n in counted.items()]
    # Loops over chunks: as many products of one usual size as make the same number of operations.
    side = 64
    operations = [sum(p[1] * p[2] * p[3] * p[4] for p in each) for each in products]
    one = fitter.fit([side] * len(products))
    return [[fitter.fit([n // side**3 for n in operations]), one, one, one, fitter.fit([1] * len(products))]]
