"""Aligned events as parts of a tape: what stands around the layers, and each kind of layer once.

A part names its blocks 0, 1, … in the order in which they are made. What one part makes and another frees is
named by that part's place: its distance in layers, or, where the events stand around the layers, counted from
the first (0, 1, …) or the last layer (−1, −2, …)."""

from zplan.trace.fit import NotRecordable

MODEL = "model"


class Section:
    def __init__(self, layer):
        self.layer, self.events = layer, []


def sections_of(marks, stretches, layers):
    """The stretches dealt out to sections: before the layers, each layer forward, head, each layer backward,
    behind."""
    start, head, end = Section(-1), Section(-1), Section(-1)
    forward, backward = [Section(i) for i in range(layers)], [Section(i) for i in range(layers)]
    current, lowest = start, layers
    for i, events in enumerate(stretches):
        if i > 0:
            mark = marks[i - 1]
            if mark[0] == "layer":
                if current is head or (current is not start and mark[1] != current.layer + 1):
                    raise NotRecordable("layers run in another order than they are listed, or more than once")
                current = forward[mark[1]]
            elif mark[0] == "layer_end" and mark[1] == layers - 1:
                current = head
            elif mark[0] == "backward_of" and mark[1] < lowest:
                if ("phase", "backward") not in marks and lowest == layers:
                    head.events.append(("m", i - 1, ("phase", "backward")))
                lowest = mark[1]
                current = end if lowest < 0 else backward[lowest]
            elif mark[0] in ("phase", "grad", "module"):
                current.events.append(("m", i - 1, mark))
        current.events += events
    return [start, *forward, head, *reversed(backward), end]


def fold(marks, stretches, adopted, layers, loads=None):
    """The part around the layers and a part for each layer, with events as the file has them. `loads`: what each
    section computes, or None; they are numbered without the Nones."""
    sections = sections_of(marks, stretches, layers)
    names, made = {}, {}
    for section in sections:
        for event in section.events:
            if event[0] == "a":
                number = made.get(section.layer, 0)
                made[section.layer] = number + 1
                names[event[1]] = (section.layer, number)
    written = [Writer(section, names, adopted, layers).events() for section in sections]
    numbers = number_loads(loads or [])
    for events, number in zip(written, numbers):
        if number is not None:
            events.insert(0, ["compute", number])
    model = {"forward": written[0], "head": written[layers + 1], "backward": written[-1], "blocks": made.get(-1, 0)}
    parts = [
        {"forward": written[1 + i], "backward": written[-2 - i], "blocks": made.get(i, 0)} for i in range(layers)
    ]
    return model, parts


def number_loads(loads):
    """The number of each load among the distinct ones, which `loads` keeps in place of the others."""
    known, numbers = {}, []
    for i, load in enumerate(loads):
        if load is None:
            numbers.append(None)
            continue
        key = repr(load)
        if key in known:
            loads[i] = None
        else:
            known[key] = len(known)
        numbers.append(known[key])
    return numbers


class Writer:
    """Events of one section, in the file's form: n allocates a block of size n, −1 − k frees the part's own
    block k, everything else is a list that begins with its name."""

    def __init__(self, section, names, adopted, layers):
        self.section, self.names, self.adopted, self.layers = section, names, adopted, layers

    def place(self, layer):
        own = self.section.layer
        if layer == own:
            return None
        if layer == -1:
            return MODEL
        if own >= 0:
            return layer - own
        return layer if 2 * layer < self.layers else layer - self.layers

    def events(self):
        written = []
        for event in self.section.events:
            if event[0] == "a":
                written.append(event[2])
            elif event[0] == "f":
                layer, number = self.names[event[1]]
                at = self.place(layer)
                written.append(-1 - number if at is None else ["free", number, at])
            elif event[0] in "kl":
                layer, index = event[1]
                written.append(["keep" if event[0] == "k" else "let_go", index, self.place(layer)])
            elif event[2][0] == "phase":
                if event[2][1] in ("loss", "loss_backward", "backward"):
                    written.append([event[2][1]])
            elif event[2][0] == "grad":
                written.append(self.gradient(event[1], event[2]))
            else:
                written.append(self.module(event[2]))
        return written

    def gradient(self, at, mark):
        layer, index = mark[1]
        key = self.adopted.get(at)
        if key not in self.names:
            raise NotRecordable(f"the gradient of parameter {index} of layer {layer} has no memory of its own")
        of, number = self.names[key]
        return ["gradient", index, self.place(layer), number, self.place(of)]

    def module(self, mark):
        layer, index = mark[2]
        if mark[1] != "read":
            return [mark[1], index, self.place(layer)]
        of, parameter = mark[3]
        if of != layer:
            raise NotRecordable("a module reads a parameter of another layer, which ZeRO-3 would gather there")
        return ["read", index, self.place(layer), parameter]


def join_equal(parts):
    """Each distinct part once, and which of them each layer is."""
    kinds, of_layer, known = [], [], {}
    for part in parts:
        key = repr(part)
        if key not in known:
            known[key] = len(kinds)
            kinds.append(part)
        of_layer.append(known[key])
    return kinds, of_layer
