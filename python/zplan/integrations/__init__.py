"""zplan in other libraries' training loops. Importing it imports transformers."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import transformers

from ..watching import Watch, watch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import Path, PlanOptions

__all__ = ["TrainerCallback"]

_SAMPLES = 64  # that are looked at for their length


def _longest(dataset: Any) -> Optional[int]:
    """Tokens of the longest of the first samples, where they lie there."""
    try:
        return max(len(dataset[place]["input_ids"]) for place in range(min(_SAMPLES, len(dataset))))
    except (TypeError, KeyError, IndexError, ValueError):
        return None


class TrainerCallback(transformers.TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Holds a Trainer's run against its plan: `Trainer(…, callbacks=[TrainerCallback()])`.

    Before the first step it prints what is predicted, and warns if it will not fit; after `steps` steps it compares, says which
    part differs, and adds a row to the file `row`. `options` are `zplan.plan`'s, over what the Trainer's arguments and its model
    say; without `seq` the longest of the first samples counts until batches are seen.
    """

    def __init__(self, *, steps: int = 5, row: Optional[Path] = "zplan-runs.json", **options: Unpack[PlanOptions]) -> None:
        self._steps, self._row, self._options = steps, row, options
        self.watch: Optional[Watch] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        options = dict(self._options)
        if "seq" not in options and getattr(args, "max_length", None) is None:
            loader = given.get("train_dataloader")
            length = _longest(getattr(loader, "dataset", None))
            if length is not None:
                options["seq"] = length
        self.watch = watch(given["model"], training=args, steps=self._steps, row=self._row, **options)  # type: ignore[arg-type]
        self.watch.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.watch is not None:
            self.watch.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.watch is not None:
            self.watch.finish()
