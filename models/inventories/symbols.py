"""Numbers that remember how they were computed from a config's fields."""

import builtins

RAW = "raw "  # before a field's name: as the config says it, or by default
KNOWN = {}  # value: the expressions that had it while a model was made


def size_of(expression):
    return 1 + sum(size_of(each) for each in expression[1:]) if isinstance(expression, list) else 1


def expression_of(value):
    return value.expression if isinstance(value, (Whole, Real)) else value


def made(value, expression):
    """A number with its expression; other values as they are."""
    if isinstance(value, bool) or size_of(expression) > 40:
        return value
    if isinstance(value, builtins.int):
        return Whole(value, expression)
    return Real(value, expression) if isinstance(value, float) else value


def binary(sign, function):
    def forward(self, other):
        result = function(self, other)
        return result if result is NotImplemented else made(result, [sign, self.expression, expression_of(other)])

    def backward(self, other):
        result = function(other, self)
        return result if result is NotImplemented else made(result, [sign, expression_of(other), self.expression])

    return forward, backward


def with_arithmetic(cls):
    import operator

    signs = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%"}
    for name, sign in signs.items():
        plain = getattr(operator, name)

        def function(a, b, plain=plain):
            if not isinstance(b, (builtins.int, float)) or not isinstance(a, (builtins.int, float)):
                return NotImplemented
            return plain(bare(a), bare(b))

        forward, backward = binary(sign, function)
        setattr(cls, f"__{name}__", forward)
        setattr(cls, f"__r{name}__", backward)
    cls.__pow__ = lambda self, n, modulo=None: self * self if bare(n) == 2 else pow(bare(self), bare(n))
    return cls


def bare(value):
    if isinstance(value, Whole):
        return builtins.int.__int__(value)
    return float.__float__(value) if isinstance(value, Real) else value


@with_arithmetic
class Whole(builtins.int):
    plain = builtins.int

    def __new__(cls, value, expression):
        self = super().__new__(cls, value)
        self.expression = expression
        KNOWN.setdefault(builtins.int.__int__(self), {})[repr(expression)] = expression
        return self

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return (builtins.int, (bare(self),))

    def __ceil__(self):
        return self

    __floor__ = __trunc__ = __ceil__

    def __round__(self, digits=None):
        return self


@with_arithmetic
class Real(float):
    plain = float

    def __new__(cls, value, expression):
        self = super().__new__(cls, value)
        self.expression = expression
        return self

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return (float, (bare(self),))

    def __ceil__(self):
        return Whole(float.__ceil__(self), ["ceil", self.expression])

    def __floor__(self):
        return Whole(float.__floor__(self), ["floor", self.expression])

    def __trunc__(self):
        return Whole(float.__trunc__(self), ["floor", self.expression])

    def __round__(self, digits=None):
        return Whole(float.__round__(self), ["round", self.expression]) if digits is None else self

    def __int__(self):
        return bare(self.__trunc__())


class AnyInt(type):
    def __instancecheck__(cls, value):
        return isinstance(value, builtins.int)

    def __call__(cls, value=0, *rest):
        if isinstance(value, Whole):
            return value
        return value.__trunc__() if isinstance(value, Real) else builtins.int(value, *rest)


class int_(metaclass=AnyInt):  # stands for int in a module whose models are made
    pass


def evaluate(expression, fields, indexes=()):
    """The value of an expression; None where a field is missing or a division by 0 occurs."""
    try:
        return value_of(expression, fields, indexes)
    except (TypeError, ZeroDivisionError, KeyError, IndexError):
        return None


def value_of(expression, fields, indexes):
    if isinstance(expression, str):
        return indexes[builtins.int(expression[1:])] if expression.startswith("#") else fields[expression]
    if not isinstance(expression, list):
        return expression
    sign, *operands = expression
    if sign == "raw":
        return fields[RAW + operands[0]]
    if sign == "word":
        return operands[0]
    if sign == "null":
        return value_of(operands[0], fields, indexes) is None if isinstance(operands[0], list) else fields.get(operands[0]) is None
    if sign == "is":
        found = value_of(operands[0], fields, indexes)
        return isinstance(found, type(operands[1])) and found == operands[1]
    if sign == "if":
        return value_of(operands[1 if value_of(operands[0], fields, indexes) else 2], fields, indexes)
    a = value_of(operands[0], fields, indexes)
    if sign == "get":
        for name in operands[1].split("."):
            a = a[name] if a.get(name) is not None else None
            if a is None:
                return None
        return a
    if sign == "not":
        return not a
    if sign == "len":
        return len(a)
    if sign in ("ceil", "floor", "round"):
        import math

        return getattr(math, sign)(a) if sign != "round" else round(a)
    if sign == "on":
        return bool(a)
    b = value_of(operands[1], fields, indexes)
    if sign == "at":
        if not isinstance(a, list):  # one number for all layers
            return a
        return a[b] if 0 <= b < len(a) else None
    if sign == "in":
        return isinstance(a, list) and b in a
    if sign == "<" and (a is None or b is None):
        return False
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: a // b,
        "/": lambda: a / b,
        "%": lambda: a % b,
        "<": lambda: a < b,
        "==": lambda: a == b,
    }[sign]()
