"""Tensors of a model without recorded micro-steps: what is there where nothing can be run."""

import json

import torch

from zplan.trace import build, depth
from zplan.trace.record import Subject
from zplan.trace.write import FORMAT, Inventory, shape, versions

IDLE = {"architectures", "dtype", "torch_dtype", "id2label", "label2id", "initializer_range", "use_cache"}
IDLE |= {"transformers_version", "problem_type", "return_dict", "auto_map", "rope_parameters", "rope_theta", "rope_scaling"}


def told(config):
    """A config without what changes neither tensors nor what runs."""
    if not isinstance(config, dict):
        return config
    return {
        k: told(v)
        for k, v in config.items()
        if not (k in IDLE or k.startswith("_") or k.endswith(("_token_id", "_token_index", "_eps", "epsilon")) or v is None or isinstance(v, float))
    }


def document(config, name):
    """The tensors of a config's model, which is made on the meta device."""
    with torch.device("meta"):
        model = build.model_class(config).from_config(config)
    subject = Subject(model, config)
    kept = depth.whole(len(subject.layers))
    inventory = Inventory(subject).document(subject, kept)
    inventory["modules"] = []
    for kind in inventory["kinds"]:
        kind["modules"] = []
    said = json.loads(config.to_json_string(use_diff=False))
    return {
        "format": FORMAT,
        "name": name,
        "architecture": config.model_type,
        "class": type(model).__name__,
        "recorded_with": {k: v for k, v in versions().items() if k != "peft"},
        "config": told(said),
        "shape": shape(subject, config),
        "inventory": inventory,
        "sections": [],
        "tapes": [],
        "notes": ["only tensors were recorded"],
    }
