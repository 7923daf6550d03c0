"""LoRA as peft puts it on a model."""

import contextlib

import torch
from torch import nn

from zplan.trace import modules
from zplan.trace.fit import NotRecordable


def adapted(subject):
    """Linear layers that all-linear means: every one but the head and routers."""
    names = []
    for path, module in subject.model.named_modules():
        if isinstance(module, nn.Linear) and module is not subject.head:
            role = modules.role_of(path + ".weight", module, module.weight, subject.embedding, subject.head)
            if role not in ("router", "expert"):
                names.append(path)
    return names


@contextlib.contextmanager
def exact_names():
    """peft takes names of experts' projections for stacks of experts, which are parameters and no modules."""
    from peft.utils import transformers_weight_conversion as conversion

    converts = conversion.convert_peft_config_for_transformers
    conversion.convert_peft_config_for_transformers = lambda *args, **kwargs: None
    try:
        yield
    finally:
        conversion.convert_peft_config_for_transformers = converts


def wrap(subject, rank, fp32, checkpointed):
    """The model with adapters, and what takes them off again. Adapters get the places that they have among their
    part's parameters."""
    try:
        import peft
    except ImportError as missing:
        raise NotRecordable("LoRA needs peft, which is not installed") from missing
    trained = [p for p in subject.model.parameters() if p.requires_grad]
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=adapted(subject))
    with torch.device("cuda"), exact_names():
        wrapped = peft.LoraModel(subject.model, config, "default")
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name and fp32:
            parameter.data = parameter.data.float()
    wrapped.train()
    if checkpointed:
        subject.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    subject.place_adapters(wrapped)

    def undo():
        wrapped.unload()
        for parameter in trained:
            parameter.requires_grad_(True)
        subject.find_places()

    return wrapped, undo
