"""What happens around modules while a micro-step runs: marks where layers begin and end, where gradients are
ready, and, for ZeRO-3, what DeepSpeed's hooks do.

Source of the hooks' order and of what they wrap: DeepSpeed 0.19.8 runtime/zero/parameter_offload.py, linear.py."""

import contextlib

import torch
from torch import nn

# DeepSpeed 0.19.8 runtime/zero/leaf_module_config.py
LEAF_MODULES = {"MixtralSparseMoeBlock", "Qwen2MoeSparseMoeBlock", "Qwen3MoeSparseMoeBlock"}


def first_tensor(values):
    for value in values:
        if torch.is_tensor(value) and value.is_floating_point():
            return value
    return None


class Boundaries:
    """Marks where layers, head and backward of each layer begin."""

    def __init__(self, trace, layers, head):
        self.trace, self.layers, self.head = trace, layers, head
        self.backward = False
        self.handles = []

    def begin(self):
        for i, layer in enumerate(self.layers):
            self.handles.append(layer.register_forward_pre_hook(self._before(i), with_kwargs=True, prepend=True))
        if self.head is not None:
            self.handles.append(self.head.register_forward_pre_hook(self._head, prepend=True))

    def begin_behind(self):
        """Registered behind whatever else hooks modules."""
        for i, layer in enumerate(self.layers):
            self.handles.append(layer.register_forward_hook(self._behind(i)))

    def end(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def _before(self, i):
        def hook(module, args, kwargs):
            if self.backward:
                return
            hidden = first_tensor(args)
            if hidden is None:
                hidden = first_tensor([kwargs.get("hidden_states"), *kwargs.values()])
            self.trace.mark("layer", i)
            self._mark_gradient(hidden, i - 1)

        return hook

    def _behind(self, i):
        def hook(module, args, output):
            if self.backward:
                return
            self.trace.mark("layer_end", i)
            if i + 1 == len(self.layers):
                hidden = output if torch.is_tensor(output) else first_tensor(output)
                self._mark_gradient(hidden, i)

        return hook

    def _head(self, module, args):
        if self.backward or not self.trace.on:
            return
        self.trace.mark("phase", "loss")
        if args and args[0].requires_grad and torch.is_grad_enabled():
            args[0].register_hook(lambda gradient: self.trace.mark("phase", "backward"))

    def _mark_gradient(self, hidden, layer):
        if hidden is not None and hidden.requires_grad and torch.is_grad_enabled():
            hidden.register_hook(lambda gradient: self.trace.mark("backward_of", layer))


class GradientMarks:
    """Each parameter's gradient is the framework's as soon as it is there."""

    def __init__(self, trace, parameters):
        self.handles = []
        for place, parameter in parameters:
            if parameter.requires_grad:
                self.handles.append(parameter.register_post_accumulate_grad_hook(self._ready(trace, place)))

    @staticmethod
    def _ready(trace, place):
        def hook(parameter):
            trace.mark("grad", place, parameter.grad.untyped_storage().data_ptr())
            parameter.grad = None

        return hook

    def end(self):
        for handle in self.handles:
            handle.remove()


class PartitionedLinear(torch.autograd.Function):
    """torch.nn.functional.linear under zero.Init: input, weight and bias are kept whatever needs a gradient."""

    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        if x.dim() == 2 and bias is not None:
            return torch.addmm(bias, x, weight.t())
        result = x.matmul(weight.t())
        if bias is not None:
            result += bias
        return result

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = gradient.matmul(weight)
        if ctx.needs_input_grad[1]:
            if gradient.dim() > 2:
                rows = gradient.reshape(-1, gradient.shape[-1])
                of_weight = rows.t().matmul(x.reshape(-1, x.shape[-1]))
            else:
                of_weight = gradient.t().matmul(x)
        if bias is not None and ctx.needs_input_grad[2]:
            of_bias = gradient.sum([i for i in range(gradient.dim() - 1)])
        return of_x, of_weight, of_bias


class NotingParameters(dict):
    """A module's parameters; reading one that is not gathered gathers it for the module that runs."""

    def __init__(self, hooks, given):
        super().__init__(given)
        self.hooks = hooks

    def __getitem__(self, key):
        parameter = super().__getitem__(key)
        if parameter is not None and self.hooks.active:
            self.hooks.read(parameter)
        return parameter


class PartitionedHooks:
    """DeepSpeed's ZeRO-3 hooks: parameters are gathered where a module begins and released where it ends."""

    def __init__(self, trace, model, places, module_numbers):
        self.trace, self.model = trace, model
        self.places, self.numbers = places, module_numbers
        self.users = {}  # of a gathered parameter: the modules that need it
        self.data, self.shapes = {}, {}
        self.external = {}  # parameters that a module was seen to read from outside
        self.stack = []
        self.active = False
        self.backward = False  # frozen parameters that recomputation gathers stay until their module's backward
        self.handles = []

    # ---- gathering

    def own(self, module):
        leaf = type(module).__name__ in LEAF_MODULES
        own = list(module.parameters(recurse=leaf))
        return own + self.external.get(id(module), [])

    def gather(self, module, parameters):
        for parameter in parameters:
            users = self.users.setdefault(id(parameter), set())
            if not users:
                parameter.data = torch.empty(self.shapes[id(parameter)], dtype=parameter.dtype, device="cuda")
                self.trace.mark("gathered", self.places[id(parameter)], parameter.data_ptr())
            users.add(id(module))

    def release(self, module, parameters):
        for parameter in parameters:
            users = self.users.setdefault(id(parameter), set())
            if id(module) not in users:
                continue
            users.discard(id(module))
            if not users:
                self.drop(parameter)

    def drop(self, parameter):
        place = parameter.data_ptr()
        parameter.data = self.empty[parameter.dtype]
        self.trace.mark("dropped", self.places[id(parameter)], place)

    def read(self, parameter):
        if self.users.get(id(parameter)) or not self.stack:
            return
        module = self.stack[-1]
        self.external.setdefault(id(module), []).append(parameter)
        self.trace.mark("module", "read", self.numbers[id(module)], self.places[id(parameter)])
        self.gather(module, [parameter])

    # ---- hooks

    def begin(self):
        self.empty = {t: torch.empty(0, dtype=t, device="cuda") for t in {p.dtype for p in self.model.parameters()}}
        for parameter in self.model.parameters():
            self.data[id(parameter)], self.shapes[id(parameter)] = parameter.data, parameter.shape
            parameter.data = self.empty[parameter.dtype]
        self._hook(self.model)
        for module in self.model.modules():
            module._parameters = NotingParameters(self, module._parameters)
        self.stack = [self.model]

    def end(self):
        for handle in self.handles:
            handle.remove()
        for module in self.model.modules():
            module._parameters = dict(module._parameters.items())
        for parameter in self.model.parameters():
            parameter.data = self.data[id(parameter)]

    def reset(self):
        """Behind a micro-step: modules whose input needed no gradient were never left."""
        for parameter in self.model.parameters():
            if self.users.get(id(parameter)):
                parameter.data = self.empty[parameter.dtype]
        self.users = {}
        self.stack = [self.model]

    def _hook(self, module):
        if type(module).__name__ not in LEAF_MODULES:
            for child in module.children():
                self._hook(child)
        number = self.numbers[id(module)]
        state = {"before": 0, "behind": 0}
        hooks = self

        class BeforeBackward(torch.autograd.Function):
            @staticmethod
            def forward(outputs):
                return outputs.detach()

            @staticmethod
            def setup_context(ctx, inputs, output):
                state["before"] += 1

            @staticmethod
            def backward(ctx, *gradients):
                if state["before"] > 0:
                    hooks.trace.mark("module", "enter_backward", number)
                    hooks.gather(module, hooks.own(module))
                    state["before"] -= 1
                return gradients

        class BehindBackward(torch.autograd.Function):
            @staticmethod
            def forward(inputs):
                return inputs.detach()

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.counts = inputs[0].requires_grad
                if ctx.counts:
                    state["behind"] += 1

            @staticmethod
            def backward(ctx, *gradients):
                state["behind"] -= 1
                if state["behind"] == 0:
                    hooks.trace.mark("module", "leave_backward", number)
                    hooks.release(module, hooks.own(module))
                return gradients

        def enter(module, args):
            hooks.stack.append(module)
            hooks.trace.mark("module", "enter", number)
            hooks.gather(module, hooks.own(module))

        def leave(module, args, output):
            hooks.stack.pop()
            hooks.trace.mark("module", "leave", number)
            hooks.release(module, [p for p in hooks.own(module) if p.requires_grad or not hooks.backward])

        def wrap_inputs(module, args):
            state["behind"] = 0
            return over_tensors(BehindBackward.apply, args)

        def wrap_output(module, args, output):
            return over_tensors(BeforeBackward.apply, output)

        self.handles += [
            module.register_forward_pre_hook(enter),
            module.register_forward_hook(leave),
            module.register_forward_hook(wrap_output),
            module.register_forward_pre_hook(wrap_inputs),
        ]

    @contextlib.contextmanager
    def running(self):
        plain = nn.functional.linear
        nn.functional.linear = lambda x, weight, bias=None: PartitionedLinear.apply(x, weight, bias)
        self.active = True
        try:
            yield
        finally:
            self.active = False
            nn.functional.linear = plain


def over_tensors(call, value):
    """DeepSpeed applies its functions to tensors in tuples, lists and dicts, models' outputs among them."""
    if torch.is_tensor(value):
        return call(value)
    if isinstance(value, (tuple, list)):
        made = [over_tensors(call, each) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, dict):
        for key in value:
            value[key] = over_tensors(call, value[key])
        return value
    return value
