"""The collectives that a step issues, counted where the libraries call torch.distributed.

`watch()` comes before the libraries are imported, since they take the functions with them.
"""
import functools
import itertools
from dataclasses import asdict, dataclass

import torch
import torch.distributed
import torch.distributed.distributed_c10d as c10d

# name: (parameter that is sent, parameter that is received), as torch.distributed calls them, with their positions.
OPERATIONS = {
    "all_reduce": (("tensor", 0), ("tensor", 0)),
    "reduce": (("tensor", 0), ("tensor", 0)),
    "broadcast": (("tensor", 0), ("tensor", 0)),
    "all_gather": (("tensor", 1), ("tensor_list", 0)),
    "reduce_scatter": (("input_list", 1), ("output", 0)),
    "all_gather_into_tensor": (("input_tensor", 1), ("output_tensor", 0)),
    "reduce_scatter_tensor": (("input", 1), ("output", 0)),
    "all_to_all_single": (("input", 1), ("output", 0)),
}


@dataclass(frozen=True)
class Call:
    op: str
    dtype: str
    group: int
    n_in: int
    n_out: int


class Recorder:
    """The calls of one step by phase. A call that another one makes is part of it."""

    def __init__(self):
        self.recording, self.depth, self.open, self.calls = False, 0, [], []

    def start(self):
        self.recording, self.open, self.calls = True, [], []

    def end_phase(self, phase, micro):
        """What was issued since the last phase ended belongs to `phase` of micro-step `micro`."""
        self.calls += [(call, phase, micro) for call in self.open]
        self.open = []

    def stop(self):
        self.recording = False

    def collectives(self):
        """Sums by operation, type, group and phase."""
        sums = {}
        for call, phase, _ in self.calls:
            total = sums.setdefault((call.op, call.dtype, call.group, phase), [0, 0, 0])
            for place, value in enumerate((1, call.n_in, call.n_out)):
                total[place] += value
        return [{"op": op, "dtype": dtype, "group": group, "phase": phase, "count": count, "elements_in": sent, "elements_out": received}
                for (op, dtype, group, phase), (count, sent, received) in sums.items()]

    def sequence(self):
        """In order of issue, runs of equal calls folded."""
        return [asdict(call) | {"phase": phase, "micro": micro, "times": len(list(equal))}
                for (call, phase, micro), equal in itertools.groupby(self.calls)]


RECORDER = Recorder()


def elements(value):
    return value.numel() if torch.is_tensor(value) else sum(elements(each) for each in value)


def first_tensor(value):
    return value if torch.is_tensor(value) else value[0]


def watched(name, function):
    (sent, sent_at), (received, received_at) = OPERATIONS[name]

    @functools.wraps(function)
    def call(*args, **kwargs):
        if RECORDER.recording and RECORDER.depth == 0:
            source = kwargs[sent] if sent in kwargs else args[sent_at]
            target = kwargs[received] if received in kwargs else args[received_at]
            group = kwargs.get("group") or next((each for each in args if isinstance(each, c10d.ProcessGroup)), None)
            RECORDER.open.append(Call(name, str(first_tensor(source).dtype).removeprefix("torch."),
                                      torch.distributed.get_world_size(group), elements(source), elements(target)))
        RECORDER.depth += 1
        try:
            return function(*args, **kwargs)
        finally:
            RECORDER.depth -= 1

    return call


def watch():
    for name in OPERATIONS:
        function = watched(name, getattr(c10d, name))
        setattr(c10d, name, function)
        setattr(torch.distributed, name, function)
