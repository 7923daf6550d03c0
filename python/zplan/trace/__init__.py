"""Records models for the planner: zplan trace.

`main` is the command; `trace` records a module that is at hand. Nothing of PyTorch is imported before it is
needed."""

import json

from zplan.api import write_file
from zplan.trace.command import main

__all__ = ["main", "trace"]


def trace(module, inputs=None, path=None, name="model", ways=("full",), layers=None):
    """Records `module`, which lies on a CUDA device (a GPU, or the stand-in: run the script by `zplan trace
    FILE.py:FUNCTION`), and writes a zplan.model/1 file to `path` where one is given.

    inputs(b, s): what the module is called with, as a dict, for a batch of b sequences of s tokens; token ids and
    labels where it is left out. The module returns its loss, a tensor, or something with a `loss`. `layers`: the
    path of its list of layers, where it is not the largest. Returns the document."""
    from zplan.trace import build, write

    build.patch()
    make = lambda: (module, getattr(module, "config", None))
    document = write.document(make, name, ways, inputs or write.token_inputs, layers)
    if path is not None:
        write_file(path, json.dumps(document, separators=(",", ":")).encode())
    return document
