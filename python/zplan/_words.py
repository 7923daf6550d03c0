"""Options as keyword arguments → the words that one would type."""
from __future__ import annotations

import json
import math
import os
from enum import Enum
from types import TracebackType
from typing import Any, Iterable, List, Mapping, Optional, Type


def _value(value: Any) -> str:
    """A value as it is typed: lists are separated by commas, enums are their values."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, Iterable):
        return ",".join(_value(each) for each in value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def shortened(name: str, most: int = 60) -> str:
    """A name for a line of text: those of files may be as long as the file."""
    return name if len(name) <= most else name[:most] + "…"


def option_words(options: Mapping[str, Any]) -> List[str]:
    """`micro_batch=4` is --micro-batch=4, `fused_loss=True` --fused-loss; None and False are not given."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={_value(value)}")
    return words


def as_json(value: Any) -> Any:
    """`value` as JSON has it: the Trainer writes steps_per_print = infinity into a ds_config, for which JSON has no number, and which
    an absent key means as well; dtypes and the like are their names."""
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items() if not (isinstance(each, float) and not math.isfinite(each))}
    if isinstance(value, (list, tuple)):
        return [as_json(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


class Documents:
    """Configs that are given as objects, as files for the engine, which names them without their folder."""

    def __init__(self) -> None:
        self._folder: Optional[str] = None

    def __enter__(self) -> Documents:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._folder is not None:
            import shutil

            shutil.rmtree(self._folder, ignore_errors=True)

    def write(self, name: str, document: Mapping[str, Any], folder: str = "") -> str:
        """The path of a new file with `document`, in `folder` of the temporary one; of one name there may be several."""
        if self._folder is None:
            import tempfile

            self._folder = tempfile.mkdtemp(prefix="zplan-")
        stem, ending = os.path.splitext(name)
        path, tries = os.path.join(self._folder, folder, name), 1
        os.makedirs(os.path.dirname(path), exist_ok=True)
        while os.path.exists(path):
            tries += 1
            path = os.path.join(self._folder, folder, f"{stem}-{tries}{ending}")
        try:
            text = json.dumps(as_json(document))
        except RecursionError:
            raise ValueError(f"{name}: too many levels, or an object that holds itself; accepted: what JSON can say") from None
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def without_folder(self, text: bytes) -> bytes:
        return text if self._folder is None else text.replace(os.fsencode(self._folder + os.sep), b"")
