"""What the enums and results of _api.py are made of."""
from __future__ import annotations

import enum
from html import escape
from typing import Any, ClassVar, Dict, Iterable, Tuple, Type, TypeVar, Union

from ._raw import ffi

_Enum = TypeVar("_Enum", bound="OpenEnum")


class OpenEnum(enum.IntEnum):
    """An enum that takes numbers of later releases of the library, too."""

    @classmethod
    def _missing_(cls: Type[_Enum], value: object) -> Any:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}"
        member._value_ = value
        return member

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self._value_,)

    def __str__(self) -> str:
        return self._name_.lower().strip("_")

    @classmethod
    def of(cls: Type[_Enum], value: Union[_Enum, str, int]) -> _Enum:
        """The member of this name (in any case) or number."""
        if isinstance(value, str):
            for member in cls:
                if member.name.strip("_") == value.upper():
                    return member
            raise ValueError(f"{value!r} is no {cls.__name__}: "
                             + ", ".join(str(member) for member in cls))
        if isinstance(value, enum.Enum) and not isinstance(value, cls):
            raise TypeError(f"{value!r} is no {cls.__name__}")
        return cls(value)


class OpenFlag(enum.IntFlag):
    """Flags that may be given as names, and as several names."""

    @classmethod
    def of(cls, value: Union[int, str, Iterable[Union[int, str]]]) -> int:
        """The union of members that are given by themselves, by name, or as several of these."""
        if isinstance(value, enum.Enum) and not isinstance(value, cls):
            raise TypeError(f"{value!r} is no {cls.__name__}")
        if isinstance(value, int):
            return value
        if isinstance(value, str):
            try:
                return cls[value.upper()]
            except KeyError:
                raise ValueError(f"{value!r} is no {cls.__name__}: "
                                 + ", ".join(str(m.name).lower() for m in cls)) from None
        flags = 0
        for one in value:
            flags |= cls.of(one)
        return flags


def text_of(pointer: Any, size: int = -1) -> str:
    """A string of the library."""
    if pointer == ffi.NULL:
        return ""
    raw: bytes = ffi.string(pointer) if size < 0 else ffi.buffer(pointer, size)[:]
    return raw.decode("utf-8", "replace")


def _read(struct: Any, name: str, how: Tuple[Any, ...]) -> Any:
    kind = how[0]
    if kind == "sized":
        return text_of(getattr(struct, name), getattr(struct, how[1]))
    if kind == "array":
        count = getattr(struct, how[1])
        return tuple(ffi.unpack(getattr(struct, name), count)) if count else ()
    if kind == "flags":
        return bool(getattr(struct, how[1]) & how[2])
    value = getattr(struct, name)
    if kind == "enum":
        return how[1](value)
    if kind == "bool":
        return bool(value)
    if kind in ("text", "string"):
        return text_of(value)
    if kind == "bytes":
        return bytes(ffi.buffer(value))
    if kind == "digest":
        return b"" if value == ffi.NULL else bytes(ffi.buffer(value, 32))
    return tuple(value) if kind == "row" else value


class Record:
    """A result of the library. Attributes are read from its struct when they are asked for."""

    _struct: ClassVar[str]
    _fields: ClassVar[Dict[str, Tuple[Any, ...]]]

    def __init__(self, struct: Any, keep: Any = None) -> None:
        attributes = self.__dict__
        attributes["_c"] = struct
        attributes["_keep"] = keep

    def __getattr__(self, name: str) -> Any:
        how = type(self)._fields.get(name)
        if how is None or "_c" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = _read(self._c, name, how)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __dir__(self) -> Iterable[str]:
        return sorted(set(object.__dir__(self)) | set(self._fields))

    def copied(self) -> Any:
        """Reads all attributes now, from a struct that is about to go."""
        for name in self._fields:
            getattr(self, name)
        del self.__dict__["_c"]
        return self

    def __getstate__(self) -> Dict[str, Any]:
        """Another process gets the values."""
        return self.as_dict()

    def __setstate__(self, values: Dict[str, Any]) -> None:
        self.__dict__.update(values)

    def as_dict(self) -> Dict[str, Any]:
        """All attributes by name."""
        return {name: getattr(self, name) for name in self._fields}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return isinstance(other, Record) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def _shown(self) -> Iterable[Tuple[str, str]]:
        for name, value in self.as_dict().items():
            if isinstance(value, enum.IntEnum):
                if value:
                    yield name, str(value)
            elif isinstance(value, float):
                if value:
                    yield name, f"{value:.4g}"
            elif isinstance(value, tuple):
                if any(value):
                    yield name, repr(value) if len(value) < 20 else f"({len(value)} numbers)"
            elif isinstance(value, bytes):
                yield name, value.hex()[:16] + "…"
            elif value:
                yield name, repr(value)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={text}" for name, text in self._shown())
        return f"{type(self).__name__}({inner})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>"
                       for name, text in self._shown())
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"
