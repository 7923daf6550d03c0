"""The classes of the JSON schemas; `_fields.pyi`, which python/generate_results.py writes, has their fields."""
from typing import Any, List

from . import _schema


def __getattr__(name: str) -> Any:
    """Makes a class when it is first asked for."""
    made = globals()[name] = _schema.make(name)
    return made


def __dir__() -> List[str]:
    return _schema.names()
