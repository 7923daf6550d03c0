"""The command `zplan`: the same library's command line, and `zplan trace`, which is Python's own."""
from __future__ import annotations

import importlib
import signal
import sys
from typing import List, NoReturn


def _trace(words: List[str]) -> NoReturn:
    try:
        command = importlib.import_module("zplan.trace.command")
    except ModuleNotFoundError as missing:
        print(f"zplan: trace: {missing}; needed: pip install torch transformers", file=sys.stderr)
        sys.exit(2)
    sys.exit(command.main(words))


def main() -> NoReturn:
    words = sys.argv[1:]
    if words[:1] == ["trace"]:
        _trace(words[1:])
    from . import _engine

    # As a program has them, and not as Python does: Ctrl-C and a closed pipe end it at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _engine.run_command_line(words)


if __name__ == "__main__":
    main()
