"""Values that are read from the JSON of the engine: an object's keys are attributes.

Keys that later releases add are kept and do no harm.
"""
from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, NoReturn, Optional, Tuple, Type, TypeVar

T = TypeVar("T", bound="Value")
D = TypeVar("D", bound="Document")
Reader = Callable[[Any], Any]


class _Fields:
    """`__dataclass_fields__` of a class that is made a dataclass when somebody asks for its fields: for all it takes longer than a plan."""

    def __get__(self, _: Any, cls: type) -> Any:
        import dataclasses

        return dataclasses.dataclass(init=False, repr=False, eq=False)(cls).__dict__["__dataclass_fields__"]


class Value:
    """A dataclass that is read from a JSON object and never changed."""

    _parts: ClassVar[Dict[str, Tuple[str, str]]] = {}  # how fields are read that are more than a number or text: _READERS, a class

    def __init_subclass__(cls) -> None:
        """Gives each class fields of its own: a base's would do for a class that has more."""
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
    def _readers(cls) -> Dict[str, Reader]:
        """Returns what reads each part, looked up once for a class."""
        known: Optional[Dict[str, Reader]] = cls.__dict__.get("_known_readers")
        if known is None:
            from . import results

            known = {key: _READERS[how](getattr(results, name) if name else Value) for key, (how, name) in cls._parts.items()}
            setattr(cls, "_known_readers", known)  # noqa: B010
        return known

    @classmethod
    def _from_json(cls: Type[T], data: Dict[str, Any]) -> T:
        """Makes a value of `data`, which becomes its own."""
        for key, reader in cls._readers().items():
            value = data.get(key)
            if value is not None:
                data[key] = reader(value)
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", data)
        return made


def _each(cls: Type[Value]) -> Reader:
    """Reads a list of objects as a tuple. Objects without parts are many, and made at once."""

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


def _named(cls: Type[Value]) -> Reader:
    return lambda values: {name: cls._from_json(value) for name, value in values.items()}


_READERS: Dict[str, Callable[[Type[Value]], Reader]] = {
    "one": lambda cls: cls._from_json, "each": _each, "named": _named, "tuple": lambda _: tuple}


class Document(Value):
    """An answer: a document with a schema, its text, and whether the command line would end with status 0."""

    if TYPE_CHECKING:
        ok: bool  # something fits; of `lint`: no errors; of `check`: it holds

    @classmethod
    def _from_text(cls: Type[D], text: bytes, ok: bool) -> D:
        made = cls._from_json(json.loads(text))
        made.__dict__.update(_text=text, ok=ok)
        return made

    @property
    def json(self) -> str:
        """The document as the command line prints it."""
        text: bytes = self.__dict__["_text"]
        return text.decode()

    def to_dict(self) -> Dict[str, Any]:
        """The document as plain dicts and lists."""
        document: Dict[str, Any] = json.loads(self.__dict__["_text"])
        return document


_NEXT_KEY = re.compile(rb'\n  "')  # several times as fast as bytes.find, which every deeper key holds up


def split(text: bytes, key: str) -> Tuple[bytes, Optional[bytes]]:
    """Returns a printed document without the value of one of its top-level keys, and that value; None where the key is absent.

    The engine indents by two, and a string has no line's end in it, so a line that begins with two spaces and a quote is a
    top-level key.
    """
    mark = f'\n  "{key}": '.encode()
    begin = text.find(mark)
    behind = _NEXT_KEY.search(text, begin + len(mark))
    if begin < 0 or behind is None:
        return text, None
    end = behind.start()
    return text[: begin + len(mark)] + b"null," + text[end:], text[begin + len(mark) : end].rstrip(b",")
