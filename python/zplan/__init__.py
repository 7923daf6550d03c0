"""Plans the training of large language models: memory, communication and time per strategy, before it is run.

    >>> import zplan
    >>> report = zplan.plan("Qwen/Qwen3-8B", gpus=5, mem=44)
    >>> report.recommended, report.best.memory.required < 44 * 2**30
    ('zero3', True)

The options are those of the command line, by name; sizes are bytes, times seconds.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import results
from .api import InputError, check, compare, compare_hardware, explain, fit, hardware, lint, model, models, plan, search
from .results import Plan, Report

if TYPE_CHECKING:
    from .watching import Watch, watch

__all__ = ["InputError", "Plan", "Report", "Watch", "check", "compare", "compare_hardware", "explain", "fit", "hardware", "lint",
           "model", "models", "plan", "results", "search", "watch"]


def __getattr__(name: str) -> Any:
    """Imports parts that few need on first use."""
    if name in ("watch", "Watch"):
        from . import watching

        return getattr(watching, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("zplan")
    raise AttributeError(f"module 'zplan' has no attribute {name!r}")
