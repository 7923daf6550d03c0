"""zplan trace: records a model for the planner."""

import argparse
import json
import os
import sys
import time

from zplan.api import InputError, write_file
from zplan.trace import stand_in

EPILOG = """MODEL is a config.json, a folder that holds one, a Hub id in the local cache, or FILE.py:FUNCTION, where
FUNCTION returns a module, or a module and inputs(b, s), a dict of what it is called with for b sequences of s tokens.
Neither a GPU nor weights are needed; PyTorch's CUDA build and a C compiler are."""


def parser():
    made = argparse.ArgumentParser(prog="zplan trace", description=__doc__, epilog=EPILOG)
    made.add_argument("model", metavar="MODEL")
    made.add_argument("-o", "--output", metavar="FILE", help="where the recorded model goes [NAME.zplan-model.json]")
    made.add_argument("--name", help="what the model is called [as MODEL says]")
    made.add_argument("--ways", default="full,autocast,lora", help="ways to train to record [%(default)s]")
    made.add_argument("--attention", default="sdpa", choices=("sdpa", "eager", "flash_attention_2"), help="attention kernels [%(default)s]")
    made.add_argument("--layers", metavar="PATH", help="the list of layers, where it is not the largest")
    return made


def main(arguments=None):
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    given = parser().parse_args(arguments)
    ways = given.ways.split(",")
    for way in ways:
        if way not in ("full", "autocast", "lora"):
            return fail(f'--ways: "{way}"; accepted: full, autocast, lora')
    if not stand_in.is_running():
        try:
            return stand_in.run_with(["-m", "zplan.trace", *arguments])
        except stand_in.Missing as missing:
            return fail(f"zplan trace needs {missing}")
    return trace(given, ways)


def fail(reason):
    """One line, as long as a line may be."""
    text = " ".join(str(reason).split())
    print(f"zplan: {text if len(text) <= 400 else text[:400] + '…'}", file=sys.stderr)
    return 2


def trace(given, ways):
    import warnings

    warnings.filterwarnings("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from zplan.trace import build, write
    from zplan.trace.fit import NotRecordable

    started = time.monotonic()
    build.patch()
    name = given.name or name_of(given.model)
    try:
        inputs = write.token_inputs
        if ".py:" in given.model:
            found = build.from_function(given.model)
            make = build.module_maker(found)
            made = found() if callable(found) else None
            if isinstance(made, tuple):
                inputs = on_device(made[1])
        else:
            make = build.maker(build.config_of(given.model), given.attention)
        document = write.document(make, name, ways, inputs, given.layers)
    except (build.NoModel, NotRecordable) as reason:
        return fail(f"{given.model}: {reason}")
    target = given.output or name.replace("/", "_") + ".zplan-model.json"
    text = json.dumps(document, separators=(",", ":"))
    try:
        write_file(target, (text + "\n").encode())
    except InputError as reason:
        return fail(reason)
    for note in document["notes"]:
        print(f"not recorded: {note}")
    recorded = len(document["tapes"])
    print(f"{target}: {document['class']}, {recorded} tapes, {len(text) // 1000} KB, {time.monotonic() - started:.0f} s")
    return 0 if recorded else 1


def on_device(inputs):
    def made(b, s):
        return {key: value.to("cuda") if hasattr(value, "to") else value for key, value in inputs(b, s).items()}

    return made


def name_of(source):
    path = source.split(":")[0].rstrip("/")
    base = os.path.basename(path)
    if base == "config.json":
        return os.path.basename(os.path.dirname(os.path.abspath(path))) or "model"
    return base.rsplit(".", 1)[0] if base.endswith((".json", ".py")) else source
