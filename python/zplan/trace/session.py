"""One recorded pass: what the caching allocator hands out and takes back, with marks for what the model is at."""

import torch


class Trace:
    """The allocator's own history. A mark is a block on a stream of its own, so that it stands in the history
    exactly where it was made."""

    def __init__(self):
        self._stream_object = torch.cuda.Stream()
        self.stream = self._stream_object.cuda_stream
        self.marks = []
        self.on = False

    def mark(self, *what):
        if not self.on:
            return
        self.marks.append(what)
        block = torch._C._cuda_cudaCachingAllocator_raw_alloc(512, self.stream)
        torch._C._cuda_cudaCachingAllocator_raw_delete(block)

    def start(self):
        self.marks = []
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=50_000_000)
        self.on = True

    def stop(self):
        self.on = False
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
        torch.cuda.memory._record_memory_history(enabled=None)
        return read_history(entries, self.stream, self.marks)


class Block:
    __slots__ = ("stretch", "number", "size", "death", "adopted", "parameter")

    def __init__(self, stretch, number, size):
        self.stretch, self.number, self.size = stretch, number, size
        self.death = None  # the stretch in which it is freed
        self.adopted = None  # the mark at which it became a gradient
        self.parameter = None  # it is the memory that this parameter was gathered into


class Pass:
    """Marks, and between each two a stretch of events: ("a", block) and ("f", block)."""

    def __init__(self, marks, stretches):
        self.marks, self.stretches = marks, stretches


def read_history(entries, stream, marks):
    stretches, live, at = [[]], {}, 0
    for entry in entries:
        action = entry["action"]
        if entry.get("stream") == stream:
            if action == "alloc":
                handle_mark(marks[at], at, live, stretches)
                at += 1
                stretches.append([])
            continue
        if action == "alloc":
            stretch = len(stretches) - 1
            block = Block(stretch, None, entry["size"])
            live[entry["addr"]] = block
            stretches[-1].append(("a", block))
        elif action == "free_requested":
            block = live.pop(entry["addr"], None)
            if block is None or block.adopted is not None:
                continue
            block.death = len(stretches) - 1
            stretches[-1].append(("f", block))
    assert at == len(marks), "marks are missing in the allocator's history"
    clean(stretches)
    return Pass(marks, stretches)


def handle_mark(mark, at, live, stretches):
    """Marks that carry an address say what a block is."""
    if mark[0] == "grad":
        block = live.get(mark[-1])
        if block is not None:
            block.adopted = at
    elif mark[0] == "gathered":
        block = live.get(mark[-1])
        if block is not None:
            block.parameter = mark[1]
    elif mark[0] == "dropped":
        block = live.get(mark[-1])
        if block is not None and block.parameter == mark[1]:
            stretches[-1].append(("k", block))


def clean(stretches):
    """Reports memory that parameters are gathered into only where autograd keeps it: it is the framework's."""
    kept = {id(e[1]) for stretch in stretches for e in stretch if e[0] == "k"}
    for i, stretch in enumerate(stretches):
        events = []
        for kind, block in stretch:
            if block.parameter is None:
                events.append((kind, block))
            elif id(block) in kept and kind != "a":
                events.append(("l" if kind == "f" else "k", block))
        number = 0
        for kind, block in events:
            if kind == "a":
                block.number = number
                number += 1
        stretches[i] = events
