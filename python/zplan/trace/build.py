"""Models to record, made of a config without their weights."""

import contextlib
import json
import os
import pathlib

import torch

from zplan.trace.fit import NotRecordable


class NoModel(Exception):
    """Raised where no such model can be made; the message says why."""


def patch():
    """What reads values off the device, which are all zeros here, or builds kernels at run time."""
    torch.erfinv = lambda x: torch.empty_like(x)  # a kernel built by NVRTC; the same allocation
    with contextlib.suppress(ImportError):
        from transformers import masking_utils

        masking_utils.find_packed_sequence_indices = lambda *args, **kwargs: None  # sequences are not packed


def number(said):
    """transformers writes infinity as an object."""
    return float(said["__float__"]) if set(said) == {"__float__"} else said


def config_of(source):
    """The config of a config.json, of a folder that holds one, or of a Hub id in the local cache."""
    from transformers import AutoConfig

    path = pathlib.Path(source).expanduser()
    if path.is_dir():
        path = path / "config.json"
    if path.suffix == ".json":
        if not path.exists():
            raise NoModel(f"there is no file {path}")
        try:
            said = json.loads(path.read_text(), object_hook=number)
        except ValueError as error:
            raise NoModel(f"{path} is not JSON: {error}") from error
        if not isinstance(said, dict) or "model_type" not in said:
            raise NoModel(f"{path} has no model_type")
        kind = said.pop("model_type")
        try:
            return AutoConfig.for_model(kind, **said)
        except (ValueError, TypeError, KeyError) as error:
            raise NoModel(str(error).splitlines()[0][:200]) from error
    try:
        return AutoConfig.from_pretrained(source, local_files_only=True)
    except (OSError, ValueError) as error:
        raise NoModel(f"no config of {source} in the local Hub cache ({str(error).splitlines()[0]})") from error


def model_class(config):
    """The class that the config's `architectures` names; else the causal one where there is one."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    known = [each for each in (AutoModelForCausalLM, AutoModelForImageTextToText) if type(config) in each._model_mapping]
    if not known:
        raise NoModel(f"transformers has no causal or image-text model of {config.model_type}")
    named = set(config.architectures or ())
    for each in known:
        classes = each._model_mapping[type(config)]
        classes = classes if isinstance(classes, (list, tuple)) else [classes]
        if named & {c.__name__ for c in classes}:
            return each
    return known[0]


def maker(config, attention="sdpa"):
    """A function that makes the model on the device, ready to train, and its config."""
    from transformers.initialization import no_init_weights

    said = config.to_dict()

    def make():
        made = None
        fallbacks = [(attention, "grouped_mm"), (attention, None), ("eager", "grouped_mm"), ("eager", None), (None, None)]
        for kernel, experts in fallbacks:
            own = type(config).from_dict(dict(said))
            options = {"dtype": torch.bfloat16}
            if kernel:
                options["attn_implementation"] = kernel
            if experts:
                options["experts_implementation"] = experts
            try:
                with torch.device("cuda"), no_init_weights():
                    made = model_class(own).from_config(own, **options)
                break
            except (ValueError, TypeError, ImportError, AttributeError) as error:
                reason = error
        if made is None:
            raise NotRecordable(f"transformers cannot make it: {str(reason).splitlines()[0][:300]}")
        made.tie_weights()
        made.train()
        for each in {id(c): c for c in (made.config, made.config.get_text_config())}.values():
            each.use_cache = False
        return made, made.config

    return make


def from_function(source):
    """`FILE.py:FUNCTION`, which returns a module, or a module and a function of its inputs: inputs(b, s) → a dict
    of what its forward is called with."""
    import runpy

    path, _, name = source.rpartition(":")
    if not os.path.exists(path):
        raise NoModel(f"there is no file {path}")
    found = runpy.run_path(path).get(name)
    if not callable(found):
        raise NoModel(f"{path} has no function {name}")
    return found


def module_maker(found):
    def make():
        with torch.device("cuda"):
            made = found()
        module = made[0] if isinstance(made, tuple) else made
        module = module.to(device="cuda", dtype=torch.bfloat16)
        module.train()
        return module, getattr(module, "config", None)

    return make
