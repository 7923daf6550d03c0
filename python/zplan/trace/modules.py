"""The modules of a model as the planner names them: layers, parameters with their roles, linear layers."""

import re

from torch import nn


def decoder_layers(model, config):
    """The list of layers that holds most parameters, as (path, ModuleList); (None, None) where there is none."""
    wanted = said(text_config(config), "num_hidden_layers") if config is not None else None
    best, found = 0, (None, None)
    for path, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or len(module) == 0:
            continue
        size = sum(count(p) for p in module.parameters())
        if wanted is not None and len(module) == wanted:
            size *= 1 << 20  # what the config calls its layers counts for more than size
        inside_layer = found[0] is not None and path.startswith(found[0] + ".")
        if size > best and not inside_layer:
            best, found = size, (path, module)
    return found


def text_config(config):
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def said(config, name):
    """What a config says under `name`; None where it does not, or says something else for each layer."""
    try:
        return getattr(config, name, None)
    except Exception:  # transformers raises errors of its own for values that differ between layers
        return None


def count(parameter):
    return parameter.numel()


def embeddings(model):
    """The input embedding and the output head; None where the model does not tell."""
    found = []
    for getter in ("get_input_embeddings", "get_output_embeddings"):
        try:
            found.append(getattr(model, getter)())
        except (AttributeError, NotImplementedError, TypeError):
            found.append(None)
    if found[0] is None:
        tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
        found[0] = max(tables, key=lambda table: table.weight.numel(), default=None)
    if found[1] is None:
        found[1] = getattr(model, "lm_head", None)
    return found


def role_of(path, module, parameter, embedding, head):
    """What a tensor does, in the words of the planner's TensorRole."""
    if module is embedding:
        return "token_embedding"
    if module is head:
        return "head"
    if isinstance(module, nn.Embedding):
        return "position_embedding" if "pos" in path else "other"
    lowered = path.lower()
    kind = type(module).__name__.lower()
    if "norm" in kind or re.search(r"(^|[._])(layer)?norm\w*\.(weight|bias)$", lowered):
        return "norm"
    if "expert" in lowered and "shared" not in lowered:
        if parameter.dim() == 3 or re.search(r"experts\.\d+\.", lowered):
            return "expert"
        if parameter.dim() == 2 and re.search(r"experts\.\w+_bias$", lowered):
            return "expert"
    if "shared_expert" in lowered or "shared_mlp" in lowered:
        return "shared_expert"
    if "router" in kind or re.search(r"(^|\.)(router|gate)\.(weight|bias|e_score_correction_bias)$", lowered):
        return "router"
    if re.search(r"attn|attention", lowered):
        return "attention"
    if re.search(r"mlp|feed_forward|ffn|fc\d", lowered):
        return "mlp"
    return "other"


def tensors_of(module, prefix, embedding, head, seen, replace=None):
    """Parameters below `module` that are not in `seen` yet, in the order of named_parameters()."""
    listed = []
    for inner, owner in module.named_modules(prefix=prefix):
        for name, parameter in owner._parameters.items():
            if parameter is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            path = f"{inner}.{name}" if inner else name
            listed.append((path, owner, parameter))
    order = {id(p): i for i, (_, p) in enumerate(module.named_parameters(prefix=prefix))}
    listed.sort(key=lambda each: order.get(id(each[2]), len(order)))
    return listed


def describe(path, owner, parameter, embedding, head, name):
    """Returns one tensor of the file: name, shape, role, whether it is a linear layer's weight."""
    about = {"name": name, "shape": list(parameter.shape), "role": role_of(path, owner, parameter, embedding, head)}
    if isinstance(owner, nn.Linear) and path.endswith(".weight"):
        about["linear"] = True
    return about
