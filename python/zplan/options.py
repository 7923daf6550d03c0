"""The command line's options as keyword arguments: `--micro-batch 4` is `micro_batch=4`, a flag is True.

What each does is said by `zplan --help` and in docs/command-line.md. `options.pyi`, which python/generate_options.py writes, has their
types for editors and mypy; when a program runs, options are any dict.
"""
import os
from typing import Any, Dict, Mapping, Sequence, Union

Path = Union[str, "os.PathLike[str]"]
Config = Union[Path, Mapping[str, Any]]  # a DeepSpeed config: a file or a dict
ModelLike = Any  # a name, a size, a file, a folder, a Hub id in the cache; a dict or a config object of transformers
Integers = Union[int, Sequence[int]]
Names = Union[str, Sequence[str]]


def __getattr__(name: str) -> Any:
    if name.endswith("Options"):
        return Dict[str, Any]
    raise AttributeError(f"module 'zplan.options' has no attribute {name!r}")
