"""JSON of the engine as the dataclasses of `results`.

An object's keys are its attributes. What is read further (an object inside, a list) stands in the class's `_parts`; keys that
later releases add are kept and do no harm, and fields that may be absent have a default.
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, NoReturn, Optional, Tuple, Type, TypeVar

T = TypeVar("T", bound="Value")
Reader = Callable[[Any], Any]


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414
else:

    def dataclass(**_):
        """The classes are made dataclasses when somebody asks for their fields: doing so for all takes longer than a plan."""
        return lambda cls: cls


class _Fields:
    """`__dataclass_fields__` of a class that is not a dataclass yet."""

    def __get__(self, _: Any, cls: type) -> Any:
        import dataclasses

        return dataclasses.dataclass(init=False, repr=False, eq=False)(cls).__dict__["__dataclass_fields__"]


class Value:
    """What every result is: a dataclass, read from a JSON object and never changed."""

    _parts: ClassVar[Dict[str, Reader]] = {}

    def __init_subclass__(cls) -> None:
        """Each class of its own: a base's fields would do for a class that has more."""
        setattr(cls, "__dataclass_fields__", _Fields())  # noqa: B010

    def _fields(self) -> Dict[str, Any]:
        import dataclasses

        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._fields().items())})"

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if type(self) is type(other) and isinstance(other, Value) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._fields().values()))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    @classmethod
    def _from_json(cls: Type[T], data: Dict[str, Any]) -> T:
        """Takes `data` over."""
        for key, reader in cls._parts.items():
            value = data.get(key)
            if value is not None:
                data[key] = reader(value)
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", data)
        return made


def one(cls: Type[Value]) -> Reader:
    return cls._from_json


def each(cls: Type[Value]) -> Reader:
    """A list of objects, as a tuple. Those with nothing to read further are many, and made at once."""

    def read(values: List[Dict[str, Any]]) -> Tuple[Any, ...]:
        if cls._parts:
            return tuple(map(cls._from_json, values))
        new, put, made = object.__new__, object.__setattr__, []
        for value in values:
            item = new(cls)
            put(item, "__dict__", value)
            made.append(item)
        return tuple(made)

    return read


_NEXT_KEY = re.compile(rb'\n  "')  # several times as fast as bytes.find, which every deeper key holds up


def split(text: bytes, key: str) -> Tuple[bytes, Optional[bytes]]:
    """A printed document without the value of one of its top-level keys, and that value; None where it is not there.

    The engine indents by two, and a string has no line's end in it, so a line that begins with two spaces and a quote is a
    top-level key. Values that are long and seldom asked for are read when they are.
    """
    mark = f'\n  "{key}": '.encode()
    begin = text.find(mark)
    behind = _NEXT_KEY.search(text, begin + len(mark))
    if begin < 0 or behind is None:
        return text, None
    end = behind.start()
    return text[: begin + len(mark)] + b"null," + text[end:], text[begin + len(mark) : end].rstrip(b",")
