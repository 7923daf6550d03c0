"""What zplan answers, as dataclasses with the keys of the command line's JSON.

Bytes are whole numbers of bytes, times seconds, ratios fractions, unless a name says otherwise. The fields follow from the JSON
schemas (`_schema.py`); what answers do beyond having fields is here.
"""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _fields
from ._read import Document as Document  # noqa: PLC0414
from ._read import Value, split
from ._words import shortened

if TYPE_CHECKING:
    import pandas

    from ._fields import *  # noqa: F403
    from ._fields import Finding
else:

    def __getattr__(name: str) -> Any:
        made = globals()[name] = getattr(_fields, name)
        return made


def __dir__() -> List[str]:
    return sorted({*globals(), *dir(_fields)})


def _frame(rows: Sequence[Mapping[str, Any]], index: Optional[str] = None) -> pandas.DataFrame:
    import pandas

    frame = pandas.DataFrame(list(rows))
    return frame if index is None or frame.empty else frame.set_index(index)


def _flat(value: Value) -> Dict[str, Any]:
    """Returns the fields that are numbers, text, true, false or None."""
    return {key: item for key, item in value.__dict__.items() if isinstance(item, (str, int, float, bool, type(None)))}


_SECONDS = {"compute", "products", "attention", "other_kernels", "launching", "communication", "exposed_communication",
            "exposed_tensor_parallel", "offload", "optimizer", "generation", "scoring"}


class Plan(_fields.Plan):
    """One strategy with its memory, traffic and time, and whether it fits."""

    def __repr__(self) -> str:
        verdict = "fits" if self.fits else "does not fit"
        return f"<Plan {self.id}: {verdict}, needs {self.memory.required / 2**30:.1f} GiB, {self.time.tokens_per_second:.0f} tokens/s>"

    def to_row(self) -> Dict[str, Any]:
        """The plan as one flat row: the columns of `--csv`, and the other figures of memory, traffic and time."""
        time = {("step_seconds" if key == "step" else f"{key}_seconds" if isinstance(value, float) and key in _SECONDS else key): value
                for key, value in _flat(self.time).items()}
        return {"id": self.id, "fits": self.fits, **_flat(self.strategy), **_flat(self.memory),
                **{key: value for key, value in _flat(self.communication).items() if key != "bytes"},
                "collective_bytes": self.communication.bytes, **time}

    def _repr_html_(self) -> str:
        from ._html import plans_html

        return plans_html([self], None)


class Report(_fields.Report):
    """The answer of `plan`, `compare`, `search` and `explain` (zplan.report/1)."""

    @classmethod
    def _from_text(cls, text: bytes, ok: bool) -> Report:
        short, schedule = split(text, "schedule")
        made = cls._from_json(json.loads(short))
        made.__dict__.update(_text=text, ok=ok)
        if schedule is not None:
            del made.__dict__["schedule"]
            made.__dict__["_schedule"] = schedule
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Reads the schedule, half of the document, when it is first asked for."""
            if name != "schedule" or "_schedule" not in self.__dict__:
                raise AttributeError(f"Report has no {name!r}")
            value = json.loads(self.__dict__["_schedule"])
            self.__dict__["schedule"] = made = None if value is None else _fields.Schedule._from_json(value)
            return made

    def __repr__(self) -> str:
        verdict = "nothing fits" if self.recommended is None else f"{self.recommended} is recommended"
        return f"<Report {shortened(self.model.name)} on {self.cluster.gpus} x {self.cluster.gpu}: {verdict} of {len(self.plans)} plans>"

    @property
    def fits(self) -> bool:
        """Whether any plan fits."""
        return self.ok

    @property
    def best(self) -> Optional[Plan]:
        """The recommended plan; None where nothing fits."""
        return None if self.recommended is None else self.plan(self.recommended)

    def plan(self, id: str) -> Plan:
        """The plan of this id; KeyError where there is none."""
        for plan in self.plans:
            if plan.id == id:
                return plan
        raise KeyError(f"no plan {id!r}; there are {', '.join(plan.id for plan in self.plans)}")

    def to_frame(self) -> pandas.DataFrame:
        """A line per plan, best first: bytes, seconds, fractions; the names of `--csv`. Needs pandas."""
        return _frame([plan.to_row() for plan in self.plans], "id")

    def page(self) -> str:
        """The page of `--html`: the whole answer for a browser or a printer, without scripts."""
        from ._engine import page

        return page(self.__dict__["_text"]).decode()

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the page where the name ends in .html, else the JSON of the report: the whole file, or InputError and the old one stays."""
        from .api import write_file

        is_page = os.fspath(path).endswith(".html")
        write_file(path, self.page().encode() if is_page else self.__dict__["_text"])

    def _repr_html_(self) -> str:
        from ._html import report_html

        return report_html(self)


class FitReport(_fields.FitReport):
    """The answer of `fit` (zplan.fit/1): `questions`, or `oom` where a message was to be explained."""

    @property
    def answer(self) -> Optional[int]:
        """Of the only question, or the first."""
        return self.questions[0].answer if self.questions else None

    def to_frame(self) -> pandas.DataFrame:
        """A line per unknown and strategy. Needs pandas."""
        return _frame([{"solve": question.solve, "unit": question.unit, **_flat(solution)}
                       for question in self.questions for solution in question.solutions])


class LintReport(_fields.LintReport):
    """The answer of `lint` (zplan.lint/1); `ok` is False where errors remain."""

    @property
    def findings(self) -> Tuple[Finding, ...]:
        """Of all files."""
        return tuple(finding for file in self.files for finding in file.findings)

    def to_frame(self) -> pandas.DataFrame:
        """A line per finding. Needs pandas."""
        return _frame([{"file": file.file, **_flat(finding)} for file in self.files for finding in file.findings])


class ModelCatalogue(_fields.ModelCatalogue):
    """The answer of `models` (zplan.models/1)."""

    def to_frame(self) -> pandas.DataFrame:
        """A line per model. Needs pandas."""
        return _frame([_flat(model) for model in self.models], "name")


class HardwareCatalogue(_fields.HardwareCatalogue):
    """The answer of `hardware` (zplan.hardware/1)."""

    def to_frame(self) -> pandas.DataFrame:
        """A line per profile. Needs pandas."""
        return _frame([{"kind": profile.kind, "name": profile.name, **{key: figure.value for key, figure in profile.figures.items()}}
                       for profile in (*self.gpus, *self.nodes, *self.networks, *self.instances)], "name")


class HardwareComparison(_fields.HardwareComparison):
    """The answer of `compare_hardware` (zplan.hardware-comparison/1)."""

    def to_frame(self) -> pandas.DataFrame:
        """A line per GPU or cloud shape. Needs pandas."""
        return _frame([{"name": one.name, "kind": one.kind, "fits": one.fits, "plan": one.plan, "tokens_per_second": one.tokens_per_second,
                        "tokens_per_gpu_hour": one.tokens_per_gpu_hour, "cost_per_million_tokens": one.cost_per_million_tokens}
                       for one in self.hardware], "name")


class Check(_fields.Check):
    """The answer of `check` (zplan.check/1)."""

    def to_frame(self) -> pandas.DataFrame:
        """A line per record. Needs pandas."""
        return _frame([_flat(record) for record in self.records], "id")
