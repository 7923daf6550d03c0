"""Deep models are recorded with fewer layers: the first ones, the last ones and a few between, where those
repeat. Every layer that is left out is one of those that are kept."""

from torch import nn

from zplan.trace import modules

LONGEST_PERIOD, LONGEST_START, LONGEST_END = 12, 8, 4
PERIODS = 4  # that are kept: the first, two that must be recorded alike, the last
DEEP = 12  # layers; up to this many are all recorded


class Depth:
    """Which layers are kept, and of which of them each layer of the whole model is one."""

    def __init__(self, layers, kept, of_layer, alike):
        self.layers, self.kept, self.of_layer = layers, kept, of_layer
        self.alike = alike  # pairs of kept layers whose recordings must be equal


def whole(layers):
    return Depth(layers, list(range(layers)), list(range(layers)), [])


def reduced(signatures):
    """The shallowest model whose layers stand for all."""
    n = len(signatures)
    best = whole(n)
    if n <= DEEP:
        return best
    for period in range(1, LONGEST_PERIOD + 1):
        for start in range(LONGEST_START + 1):
            for end in range(LONGEST_END + 1):
                found = cut(signatures, n, period, start, end)
                if found is not None and len(found.kept) < len(best.kept):
                    best = found
    return best


def cut(signatures, n, period, start, end):
    repeating = n - start - end
    removed = (repeating - PERIODS * period) // period * period
    if removed <= 0:
        return None
    if any(signatures[i] != signatures[i + period] for i in range(start, n - end - period)):
        return None
    at = start + (PERIODS - 1) * period
    kept = [*range(at), *range(at + removed, n)]
    of_layer = [i if i < at else i - removed if i >= at + removed else at - period + (i - at) % period for i in range(n)]
    alike = [(i - period, i) for i in range(at - period, at)]
    return Depth(n, kept, of_layer, alike)


def signatures_of(layers, config):
    """What a layer is made of, and what the config lists for it."""
    n = len(layers)
    listed = lists_of(modules.text_config(config), n) if config is not None else {}
    found = []
    for i, layer in enumerate(layers):
        tensors = tuple((name, tuple(p.shape)) for name, p in layer.named_parameters())
        named = tuple(repr(getattr(layer, name, None)) for name in ("layer_type", "attention_type", "is_sliding"))
        inner = tuple(type(module).__name__ for module in layer.modules())
        found.append((tensors, named, inner, tuple(repr(values[i]) for values in listed.values())))
    return found


def lists_of(config, n):
    return {k: v for k, v in vars(config).items() if isinstance(v, (list, tuple)) and len(v) == n}


def keep_layers(model, config, path, depth):
    """Drops the layers that are not kept."""
    if len(depth.kept) == depth.layers:
        return
    parent = model.get_submodule(path.rpartition(".")[0]) if "." in path else model
    name = path.rpartition(".")[2]
    layers = getattr(parent, name)
    setattr(parent, name, nn.ModuleList([layers[i] for i in depth.kept]))
    if config is None:
        return
    configs = {id(c): c for c in (modules.text_config(config), *(getattr(m, "config", None) for m in model.modules())) if c is not None}
    for each in configs.values():
        for key, values in lists_of(each, depth.layers).items():
            each.__dict__[key] = type(values)(values[i] for i in depth.kept)
        for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
            if each.__dict__.get(key) == depth.layers:
                each.__dict__[key] = len(depth.kept)
