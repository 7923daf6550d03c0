"""A training run beside its plan: what is predicted before the first step, what was measured after a few.

    with zplan.watch(model, training=arguments) as run:
        for batch in loader:
            ...
            optimizer.step()
            run.step()

Only the first steps are watched: each ends with the device idle, so that it can be timed, and the allocator's counters are read.
Then nothing of it is left in the loop but a comparison of two numbers.
"""
from __future__ import annotations

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, List, Optional, TextIO, Tuple, Type, cast

from . import api, results
from ._device import Device, Step
from ._run_row import run_row
from ._transformers import attention_option, deepspeed_config

if TYPE_CHECKING:
    from transformers import TrainingArguments
    from typing_extensions import Unpack

    from .options import ModelLike, Path, PlanOptions

_WARM_UP = 2  # steps in which states are made and kernels loaded
_NEAR = 0.05  # a part that is off by less of the whole is not named


@dataclass(frozen=True)
class Compared:
    """One figure of the plan beside the run's, in bytes or seconds."""

    name: str
    predicted: float
    measured: float
    part: bool  # of the totals, which the others are

    @property
    def difference(self) -> float:
        return self.measured - self.predicted


def _rank_and_world() -> Tuple[int, int]:
    import torch

    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _adapter_options(model: Any) -> Dict[str, Any]:
    """What peft has put into a model."""
    adapters = getattr(model, "peft_config", None)
    if not adapters:
        return {}
    config = next(iter(adapters.values()))
    quantised = any(getattr(model, f"is_loaded_in_{bits}bit", False) for bits in (4, 8))
    targets = config.target_modules
    return {"method": "qlora" if quantised else "lora", "lora_rank": config.r, "lora_dropout": config.lora_dropout or None,
            "lora_targets": sorted(targets) if isinstance(targets, (set, frozenset, list)) else targets}


class Watch:
    """One run. `plan` is its plan, `compared` what was found; made by `watch`."""

    def __init__(self, model: ModelLike, *, training: Optional[TrainingArguments] = None, steps: int = 5,
                 row: Optional[Path] = "zplan-runs.json", out: Optional[TextIO] = None, **options: Any) -> None:
        if steps <= _WARM_UP:
            raise api.InputError(f'steps: "{steps}"; accepted: a whole number above {_WARM_UP}, which are not timed')
        self._model, self._training, self._given = model, training, options
        self._last, self._row, self._out = steps, row, out if out is not None else sys.stderr
        self._rank, self._world = _rank_and_world()
        self._device: Optional[Device] = None
        self._hook: Any = None
        self._shape: Optional[Tuple[int, int]] = None  # samples and tokens of the largest batch that the model saw
        self._began = 0.0
        self._allocated = self._available = 0
        self.steps: List[Step] = []
        self.report: Optional[results.Report] = None
        self.compared: List[Compared] = []
        self.done = False

    # ---- the plan ----

    def _options(self) -> Dict[str, Any]:
        """What the process knows of itself, and over it what was given."""
        from ._transformers import training_options

        assert self._device is not None
        nodes = max(1, self._world // int(os.environ.get("LOCAL_WORLD_SIZE", self._world)))
        found: Dict[str, Any] = {"gpus": self._world, "nodes": nodes, "gpu": self._device.name}
        found.update(attention_option(getattr(self._model, "config", self._model)))
        found.update(_adapter_options(self._model))
        if self._training is not None:
            found.update(training_options(self._training, self._given))
            if deepspeed_config(self._training) is None and "ds_config" not in self._given:
                found.setdefault("framework", "torch")
        if "mem" in self._given and "gpu" not in self._given:
            del found["gpu"]
        return {**found, **self._given}

    def _predict(self, **changes: Any) -> results.Report:
        options = {**self._options(), **changes}
        if "ds_config" in options:  # the micro-batch that was seen stands in it
            for name in changes:
                if name == "micro_batch":
                    options.pop(name)
        model = getattr(self._model, "config", self._model)
        try:
            return api.plan(model, **cast("PlanOptions", options))
        except api.InputError as error:
            if "gpu" in self._given or not str(error).startswith("--gpu:"):
                raise
        assert self._device is not None  # a GPU that is not in the catalogue
        del options["gpu"]
        options["mem"] = self._device.total / 2**30
        return api.plan(model, **cast("PlanOptions", options))

    @property
    def plan(self) -> results.Plan:
        """The plan of the run: the recommended one where the options leave several."""
        assert self.report is not None
        return self.report.best or self.report.plans[0]

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def _announce(self) -> None:
        assert self.report is not None and self._device is not None
        plan, memory = self.plan, self.plan.memory
        self._say(f"zplan: {plan.id} of {self.report.model.name} on {self.report.cluster.gpus} x {self._device.name}: predicted "
                  f"{_gib(memory.peak_allocated)} allocated, {_gib(memory.peak_reserved)} reserved, {_gib(memory.required)} needed of "
                  f"{_gib(self._available)} available per GPU; {plan.time.step:.3g} s per step, {plan.time.tokens_per_second:,.0f} tokens/s")
        short = memory.required - self._available
        if short > 0:
            self._say(f"zplan: warning: it will not fit: {_gib(short)} short per GPU; the peak is in the {memory.peak_phase}")
        elif not plan.fits_host:
            self._say(f"zplan: warning: it will not fit on the host: {_gib(memory.host)} needed per node")
        elif short > -self._available * self.report.cluster.headroom:
            self._say(f"zplan: warning: it is near the edge: {_gib(-short)} to spare per GPU")

    # ---- the run ----

    def start(self) -> None:
        """Predicts, says so, and begins to watch. On ranks other than 0 nothing is done."""
        if self._rank != 0:
            self.done = True
            return
        self._device = Device()
        self._available = self._device.available()
        self.report = self._predict()
        self._announce()
        if hasattr(self._model, "register_forward_pre_hook"):
            self._hook = self._model.register_forward_pre_hook(self._see, with_kwargs=True)
        self._begin_step()

    def _see(self, _: Any, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> None:
        ids = named.get("input_ids", arguments[0] if arguments else None)
        shape = tuple(getattr(ids, "shape", ()))
        if len(shape) == 2 and (self._shape is None or shape[0] * shape[1] > self._shape[0] * self._shape[1]):
            self._shape = (int(shape[0]), int(shape[1]))

    def _begin_step(self) -> None:
        assert self._device is not None
        self._allocated = self._device.start_peaks()
        self._began = time.perf_counter()

    def step(self) -> None:
        """To be called behind every optimizer step."""
        if self.done:
            return
        assert self._device is not None
        self._device.synchronize()
        seconds = time.perf_counter() - self._began
        allocated, reserved = self._device.peaks()
        number = len(self.steps) + 1
        device = self._device.used() if number == self._last else None
        self.steps.append(Step(number, self._allocated, allocated, reserved, seconds, device))
        if number == self._last:
            self.finish()
        else:
            self._begin_step()

    def finish(self) -> None:
        """Compares what was seen so far, once."""
        if self.done:
            return
        self._unhook()
        if len(self.steps) <= _WARM_UP:
            self._say(f"zplan: {len(self.steps)} steps are too few to compare: more than {_WARM_UP} are needed")
            return
        self._predict_what_ran()
        self.compared = compare_run(self.plan, self.steps)
        self._say(comparison_text(self.compared, len(self.steps)))
        self._write("ran")

    def _predict_what_ran(self) -> None:
        """Batches are seen only as they come: where they differ from what was planned, the plan follows."""
        assert self.report is not None
        planned = (self.plan.strategy.micro_batch_size, self.report.training.sequence_length)
        if self._shape is None or self._shape == planned:
            return
        samples, tokens = self._shape
        self._say(f"zplan: the largest batch had {samples} x {tokens} tokens, not {planned[0]} x {planned[1]}: planned again")
        self.report = self._predict(seq=tokens, micro_batch=samples)

    def _unhook(self) -> None:
        self.done = True
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _write(self, outcome: str) -> None:
        assert self.report is not None and self._device is not None
        if self._row is None:
            return
        config = deepspeed_config(self._training) if self._training is not None else None
        config = self._given.get("ds_config", config)
        row = run_row(self.report, self.plan, self._model, self._training, config, self.steps, self._available, outcome)
        card = {"name": self._device.name, "compute_capability": self._device.compute_capability, "total_bytes": self._device.total}
        path = os.fspath(self._row)
        append_row(path, card, self._device.versions(), row)
        self._say(f"zplan: wrote {path}: zplan check {path}")

    def _explain_failure(self, error: BaseException) -> None:
        """An out-of-memory error is a measurement too."""
        if self.done or self.report is None or "out of memory" not in str(error):
            return
        self._unhook()
        self._say(f"zplan: out of memory in step {len(self.steps) + 1}; predicted: {_gib(self.plan.memory.required)} needed of "
                  f"{_gib(self._available)} available; zplan fit --oom says what helps")
        self._write("out_of_memory")

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is None:
            self.finish()
        else:
            self._explain_failure(error)
            self._unhook()


def watch(model: ModelLike, *, training: Optional[TrainingArguments] = None, steps: int = 5,
          row: Optional[Path] = "zplan-runs.json", out: Optional[TextIO] = None, **options: Unpack[PlanOptions]) -> Watch:
    """Holds a real run against its plan: a context manager, whose `step()` is called behind every optimizer step.

    `model`: the model that is trained, or what `plan` takes. Ranks, nodes, the GPU, adapters and the attention kernel are those of
    the process, batch and DeepSpeed config those of `training`; `options`, `plan`'s, say the rest and win. After `steps` steps,
    the first two not counted, peak allocated and reserved memory, NVML's figure and the step time are compared with the plan on
    `out` [stderr], and a `zplan.runs/1` row for `zplan check` is added to the file `row` (None: not written).
    """
    return Watch(model, training=training, steps=steps, row=row, out=out, **options)


# ---- comparing ----


def compare_run(plan: results.Plan, steps: List[Step]) -> List[Compared]:
    """The steady step, as far as both say something of it: what is held between steps, what a step adds, what the allocator
    cannot use, what lies outside PyTorch, and the time."""
    memory, last = plan.memory, steps[-1]
    held = memory.timeline[0].bytes if memory.timeline else 0
    found = [
        Compared("held between steps", held, last.allocated_before, True),
        Compared("added by a step", memory.peak_allocated - held, last.peak_allocated - last.allocated_before, True),
        Compared("allocated peak", memory.peak_allocated, last.peak_allocated, False),
        Compared("allocator slack", memory.peak_reserved - memory.peak_allocated, last.peak_reserved - last.peak_allocated, True),
        Compared("reserved peak", memory.peak_reserved, last.peak_reserved, False),
    ]
    if last.device_bytes is not None:
        outside = memory.peak - memory.peak_allocated
        found += [Compared("outside PyTorch", outside, last.device_bytes - last.peak_reserved, True),
                  Compared("device", memory.peak_reserved + outside, last.device_bytes, False)]
    seconds = statistics.median(step.seconds for step in steps if step.number > _WARM_UP)
    return [*found, Compared("seconds per step", plan.time.step, seconds, False)]


def _gib(value: float) -> str:
    return f"{value / 2**30:.2f} GiB"


def _line(each: Compared) -> str:
    seconds = each.name == "seconds per step"
    show = (lambda value: f"{value:.3g} s") if seconds else _gib
    share = f"{each.difference / each.predicted:+.1%}" if each.predicted else ""
    return f"  {'  ' if each.part else ''}{each.name:<{28 - 2 * each.part}}{show(each.predicted):>12}{show(each.measured):>12}{share:>9}"


def what_differs(compared: List[Compared]) -> str:
    """The part of memory that is furthest off, and the time where it is; "" where nothing is."""
    parts = [each for each in compared if each.part]
    totals = [each for each in compared if not each.part]
    whole = max((each.predicted for each in totals if each.name != "seconds per step"), default=0.0)
    worst = max(parts, key=lambda each: abs(each.difference), default=None)
    said = []
    if worst is not None and whole and abs(worst.difference) > _NEAR * whole:
        said.append(f"{worst.name}: {_gib(abs(worst.difference))} {'more' if worst.difference > 0 else 'less'} than predicted")
    time_of = next((each for each in totals if each.name == "seconds per step"), None)
    if time_of is not None and time_of.predicted and abs(time_of.difference) > 0.2 * time_of.predicted:
        ratio = time_of.measured / time_of.predicted
        said.append(f"a step takes {ratio:.2g} times what is predicted")
    return "; ".join(said)


def comparison_text(compared: List[Compared], steps: int) -> str:
    head = f"zplan: after {steps} steps{'':<13}{'predicted':>12}{'measured':>12}"
    differs = what_differs(compared)
    last = f"zplan: what differs: {differs}" if differs else f"zplan: every part of memory is within {_NEAR:.0%} of the whole"
    return "\n".join([head, *map(_line, compared), last])


# ---- the file of rows ----


def append_row(path: str, card: Dict[str, Any], versions: Dict[str, str], row: Dict[str, Any]) -> None:
    """Adds a row to a file of runs on this GPU, or makes one. A reader never sees half of it."""
    document: Dict[str, Any] = {"schema": "zplan.runs/1", "card": card, "versions": versions, "rows": []}
    if os.path.exists(path):
        known = _known_rows(path)
        if known.get("schema") != "zplan.runs/1" or known.get("card") != card:
            raise api.InputError(f"{path}: not runs on {card['name']}; accepted: another file (row=)")
        document = known
    document["rows"] = [each for each in document["rows"] if each["id"] != row["id"]] + [row]
    api.write_file(path, json.dumps(document, indent=1).encode())


def _known_rows(path: str) -> Dict[str, Any]:
    """What a file of runs holds; {} where it holds something else."""
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            known = json.load(file)
        except ValueError:
            return {}
    rows = known.get("rows") if isinstance(known, dict) else None
    return known if isinstance(rows, list) and all(isinstance(each, dict) and "id" in each for each in rows) else {}
