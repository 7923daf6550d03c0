"""Records the micro-steps of a model in the ways in which it may be trained."""

import contextlib
import gc

import torch

from zplan.trace import modules
from zplan.trace.fit import NotRecordable
from zplan.trace.hooks import Boundaries, GradientMarks, PartitionedHooks
from zplan.trace.loads import OpTrace
from zplan.trace.session import Trace


class Subject:
    """A model on the device: its layers, and of each parameter and module the part it belongs to (a layer, or −1
    around them) and its number there."""

    def __init__(self, model, config, layers_path=None):
        self.model, self.config = model, config
        if layers_path is None:
            self.path, self.layers = modules.decoder_layers(model, config)
        else:
            self.path, self.layers = layers_path, model.get_submodule(layers_path)
        if self.layers is None:
            raise NotRecordable("the model has no ModuleList of layers")
        self.embedding, self.head = modules.embeddings(model)
        self.idle = set()
        self.find_places()

    def find_places(self):
        self.places, self.listed = {}, [[] for _ in range(len(self.layers) + 1)]
        self.layer_of = {}
        for i, layer in enumerate(self.layers):
            for each in [*layer.modules(), *layer.parameters()]:
                self.layer_of.setdefault(id(each), i)
        for name, parameter in self.model.named_parameters():
            at = self.layer_of.get(id(parameter), -1)
            self.places[id(parameter)] = (at, len(self.listed[at]))
            self.listed[at].append((name, parameter))
        self.number_modules(self.model)

    def number_modules(self, root):
        self.numbers, self.module_list = {}, {}
        for path, module in root.named_modules():
            at = self.layer_of.get(id(module), -1)
            listed = self.module_list.setdefault(at, [])
            self.numbers[id(module)] = (at, len(listed))
            listed.append(module)

    def place_adapters(self, wrapped):
        """Adapters stand behind the parameters of their part, in the order of the weights that they adapt. Around
        the layers that is: tensors before, their adapters, tensors behind, theirs."""
        for i, layer in enumerate(self.layers):
            for each in [*layer.modules(), *layer.parameters()]:
                self.layer_of.setdefault(id(each), i)
        lora = {
            id(module.base_layer.weight): module
            for module in wrapped.modules()
            if hasattr(module, "lora_A") and hasattr(module, "base_layer")
        }
        for at, listed in enumerate([*self.listed[:-1], self.listed[-1]]):
            part = at if at < len(self.layers) else -1
            groups = [listed] if part >= 0 else [self.before(), self.behind()]
            number = 0
            for group in groups:
                for _, parameter in group:
                    self.places[id(parameter)] = (part, number)
                    number += 1
                for _, parameter in group:
                    module = lora.get(id(parameter))
                    if module is None:
                        continue
                    for pair in (module.lora_A, module.lora_B):
                        for adapter in pair.values():
                            self.places[id(adapter.weight)] = (part, number)
                            number += 1
        self.number_modules(wrapped)

    def before(self):
        """Tensors around the layers that named_parameters() lists before them."""
        first = self.first_of_layers()
        return [each for each in self.listed[-1] if self.order[id(each[1])] < first]

    def behind(self):
        first = self.first_of_layers()
        return [each for each in self.listed[-1] if self.order[id(each[1])] > first]

    def first_of_layers(self):
        if not hasattr(self, "order"):
            self.order = {id(p): i for i, (_, p) in enumerate(self.model.named_parameters())}
        return min(self.order[id(p)] for listed in self.listed[:-1] for _, p in listed)


def token_inputs(b, s):
    ids = torch.zeros(b, s, dtype=torch.long, device="cuda")
    return {"input_ids": ids, "labels": ids}


def loss_of(output):
    if torch.is_tensor(output):
        return output if output.dim() == 0 else output.float().mean()
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, (tuple, list)) and torch.is_tensor(output[0]):
        loss = loss_of(output[0])
    if loss is None:
        raise NotRecordable("the model returns neither a loss nor a tensor")
    return loss


class Recording:
    """Passes of one way to train. `call`: what runs, where that is a wrapper of the subject's model."""

    def __init__(self, subject, inputs=token_inputs, call=None, partitioned=False, autocast=False):
        self.subject, self.inputs, self.call = subject, inputs, call or subject.model
        self.partitioned, self.autocast = partitioned, autocast

    def run(self, points):
        """A pass at each point."""
        trace = Trace()
        with self.hooked(trace) as step:
            step(points[0])  # caches and workspaces are made
            step(points[0])
            passes = []
            for point in points:
                gc.collect()
                trace.start()
                step(point)
                passes.append(trace.stop())
        return passes

    def operations(self, points):
        """What is computed at each point, as passes of OpTrace."""
        logs = []
        for point in points:
            log = OpTrace()
            with self.hooked(log) as step:
                log.on = True
                with log:
                    step(point)
                log.on = False
            logs.append(log)
        return logs

    @contextlib.contextmanager
    def hooked(self, trace):
        subject = self.subject
        boundaries = Boundaries(trace, list(subject.layers), subject.head)
        boundaries.begin()
        partitioned = None
        if self.partitioned:
            partitioned = PartitionedHooks(trace, self.call, subject.places, subject.numbers)
            partitioned.begin()
        boundaries.begin_behind()
        marks = GradientMarks(trace, [(subject.places[id(p)], p) for p in self.call.parameters()])
        try:
            with partitioned.running() if partitioned else contextlib.nullcontext():
                yield lambda point: self.micro_step(trace, boundaries, point, partitioned)
        finally:
            marks.end()
            boundaries.end()
            if partitioned:
                partitioned.end()

    def micro_step(self, trace, boundaries, point, partitioned):
        boundaries.backward = False
        if partitioned:
            partitioned.backward = False
        trace.mark("phase", "forward")
        given = self.inputs(point[0], point[1])
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.autocast):
            loss = loss_of(self.call(**given))
        boundaries.backward = True
        if partitioned:
            partitioned.backward = True
        trace.mark("phase", "loss_backward")
        loss.backward()
        del loss
        trace.mark("phase", "end")
        del given
        for parameter in self.call.parameters():
            parameter.grad = None
        if partitioned:
            partitioned.reset()
