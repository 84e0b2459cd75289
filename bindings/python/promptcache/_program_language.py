"""What a prompt program is written with: errors, kinds of parameters, and the calls that have a
meaning only in a program's source (text, turns, modules). The compiler knows these calls by
identity."""
from __future__ import annotations

import collections.abc
import enum
import re
import sys
import types
import typing
from dataclasses import dataclass
from typing import Any, ContextManager, Mapping, NoReturn

Values = Mapping[str, object]
"""Arguments of one prompt, by the names of the parameters."""

MOST_POSITIONS = 1 << 24
"""Longest parameter, as in lib/pml."""

_PML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True)
class Place:
    """Where something stands in a source file; columns count characters from 1."""

    filename: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class ProgramError(SyntaxError):
    """A program that cannot be compiled, or whose text PML cannot carry. `filename`, `lineno`,
    `offset` and `text` say where, as in every SyntaxError; `reason` says why. called: the reason
    names a place in a program that is called there."""

    def __init__(self, reason: str, place: Place, called: bool = False) -> None:
        details = (place.filename, place.line, place.column, place.text, place.end_line,
                   place.end_column)
        super().__init__(reason, details if sys.version_info >= (3, 10) else details[:4])
        self.reason = reason
        self.place = place
        self.called = called

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.place, self.called)


def is_pml_name(name: str) -> bool:
    """Whether PML takes it as a name of a schema or parameter; a module's is no tag, either."""
    return _PML_NAME.fullmatch(name) is not None


class Text:
    """Room for an argument of at most `length` tokens: `days: Text[4]`. Type checkers want
    `days: Annotated[str, Text(4)]`, which means the same. scaffold: text that stands there while
    the module is encoded."""

    def __init__(self, length: int, scaffold: str | None = None) -> None:
        if type(length) is not int or not 1 <= length <= MOST_POSITIONS:
            raise ValueError(f"Text: the length is a number of tokens from 1 to {MOST_POSITIONS}, "
                             f"not {length!r}")
        if scaffold is not None and not isinstance(scaffold, str):
            raise TypeError(f"Text: scaffold is a str, not {type(scaffold).__name__}")
        try:
            _checked_text(scaffold or "")
        except ValueError as error:
            raise ValueError(f"Text: scaffold {error}") from None
        self.length = length
        self.scaffold = scaffold

    def __class_getitem__(cls, length: int) -> Any:
        return typing.Annotated[str, cls(length)]

    def __repr__(self) -> str:
        more = "" if self.scaffold is None else f", scaffold={self.scaffold!r}"
        return f"Text({self.length}{more})"


# ---- Calls in the source of a program


def _outside(name: str) -> NoReturn:
    raise RuntimeError(f"{name}() has a meaning only in the source of a prompt program "
                       "(@prompt_program), which is compiled and never run")


def text(text: str, /) -> None:
    """Text, as a bare string is: also where that would be the docstring."""
    _outside("text")


def system(text: str = "", /) -> ContextManager[None]:
    """The system prompt: `system("...")` or `with system():`."""
    _outside("system")


def user(text: str = "", /) -> ContextManager[None]:
    """A turn of the user: `user(f"{question}")` or `with user():`."""
    _outside("user")


def assistant(text: str = "", /) -> ContextManager[None]:
    """An answer of the assistant: `assistant("...")` or `with assistant():`."""
    _outside("assistant")


def module(name: str, /, *, cache: bool = True) -> ContextManager[None]:
    """`with module("trip"):` is a module that every prompt uses. cache=False: its texts are
    computed at every request."""
    _outside("module")


def named(name: str | None = None, /, *, cache: bool = True, default: bool = False) -> None:
    """Says the name of the module that a branch or a loop's body becomes. default: it is the member
    of its union that stands in the default layout."""
    _outside("named")


def scaffold(*modules: str) -> None:
    """Modules, by their paths, that are encoded jointly for prompts that use all of them."""
    _outside("scaffold")


# ---- Kinds of parameters


def label(value: object) -> str:
    """How a value is named in names of modules and in messages."""
    if isinstance(value, enum.Enum):
        return value.name
    return str(value)


def is_same(a: object, b: object) -> bool:
    """Equal and of one type: True is not 1."""
    return type(a) is type(b) and a == b


def has(values: collections.abc.Sequence[object], value: object) -> bool:
    return any(is_same(value, known) for known in values)


@dataclass
class Kind:
    """What a parameter takes. check() returns the value that a prompt is made with, or raises a
    TypeError or ValueError whose text goes on behind the parameter's name."""

    def check(self, value: object) -> object:
        raise NotImplementedError


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"takes a str, not {type(value).__name__}")
    at = next((i for i, c in enumerate(value) if "\ud800" <= c <= "\udfff"), None)
    if at is not None:
        raise ValueError(f"has a lone surrogate (U+{ord(value[at]):04X}), which is no text")
    return str(value)


@dataclass
class RoomKind(Kind):
    """Text of at most `length` tokens, in a module."""

    length: int
    scaffold: str | None

    def check(self, value: object) -> object:
        return _checked_text(value)


@dataclass
class NewTextKind(Kind):
    """Text of any length, behind all modules."""

    def check(self, value: object) -> object:
        return _checked_text(value)


@dataclass
class FlagKind(Kind):
    """True or False."""

    def check(self, value: object) -> object:
        if type(value) is not bool:
            raise TypeError(f"takes a bool, not {type(value).__name__}")
        return value


@dataclass
class ChoiceKind(Kind):
    """One of several values."""

    values: tuple[object, ...]

    def find(self, value: object) -> bool:
        return has(self.values, value)

    def check(self, value: object) -> object:
        if self.find(value):
            return value
        if not any(type(value) is type(known) for known in self.values):
            wanted = sorted({type(known).__name__ for known in self.values})
            raise TypeError(f"takes {' or '.join(wanted)}, not {type(value).__name__}")
        raise ValueError(f"cannot be {value!r}; there {listing(self.values)}")


@dataclass
class SetKind(Kind):
    """Any number of values. Without Literal or Enum, the values are those that the program asks
    for: `open` is true, and the compiler notes them."""

    values: list[object]
    open: bool = False
    member: str = "str"

    def find(self, value: object) -> bool:
        return has(self.values, value)

    def check(self, value: object) -> object:
        if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Iterable):
            raise TypeError(f"takes a collection of {self.member}, not {type(value).__name__}")
        members = tuple(value)
        for one in members:
            if not self.find(one):
                raise ValueError(f"cannot have {one!r}; there {listing(self.values)}")
        return tuple(known for known in self.values if has(members, known))


def listing(values: collections.abc.Sequence[object]) -> str:
    """'are 'a', 'b', ...' for messages."""
    shown = [repr(value) if not isinstance(value, enum.Enum) else str(value)
             for value in values[:12]]
    if len(values) > 12:
        shown.append("...")
    return ("are " if len(values) != 1 else "is ") + (", ".join(shown) or "none")


def _check_distinct(values: collections.abc.Sequence[object]) -> None:
    """Python's == and match could not tell 1 from True."""
    for at, value in enumerate(values):
        for other in values[:at]:
            if value == other:
                raise TypeError(f"has the values {other!r} and {value!r}, which are equal in "
                                "Python")


_COLLECTIONS = (list, set, frozenset, collections.abc.Set, collections.abc.Collection,
                collections.abc.Sequence, collections.abc.Iterable)
_SIMPLE = (str, int, bool, type(None), enum.Enum)


def _choices(annotation: Any) -> tuple[object, ...] | None:
    """The values of Literal[...] or of an Enum."""
    if typing.get_origin(annotation) is typing.Literal:
        values = typing.get_args(annotation)
        return values if all(isinstance(value, _SIMPLE) for value in values) else None
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return tuple(annotation)
    if typing.get_origin(annotation) in (typing.Union, getattr(types, "UnionType", None)):
        parts = [_choices(part) if part is not type(None) else (None,)
                 for part in typing.get_args(annotation)]
        if all(part is not None for part in parts):
            return tuple(value for part in parts if part is not None for value in part)
    return None


def _collection(annotation: Any) -> SetKind | None:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = arguments[:1]
    elif origin not in _COLLECTIONS or len(arguments) != 1:
        return None
    if arguments[0] is str:
        return SetKind([], open=True)
    values = _choices(arguments[0])
    if values is None:
        return None
    _check_distinct(values)
    return SetKind(list(values), member=getattr(arguments[0], "__name__", "Literal"))


def kind_of(annotation: Any) -> Kind:
    """The kind of parameter that an annotation says; TypeError with the reason if it says none."""
    if typing.get_origin(annotation) is typing.Annotated:
        first, *notes = typing.get_args(annotation)
        rooms = [note for note in notes if isinstance(note, Text)]
        if any(note is Text for note in notes):
            raise TypeError("has no length: write Text(16)")
        if len(rooms) > 1:
            raise TypeError("has several lengths")
        if not rooms:
            return kind_of(first)
        if first is not str:
            raise TypeError("has a length, so it is a str: Annotated[str, Text(16)]")
        return RoomKind(rooms[0].length, rooms[0].scaffold)
    if annotation is Text:
        raise TypeError("has no length: write Text[16]")
    if isinstance(annotation, Text):
        raise TypeError(f"write Text[{annotation.length}] or "
                        f"Annotated[str, Text({annotation.length})]")
    if annotation is str:
        return NewTextKind()
    if annotation is bool:
        return FlagKind()
    values = _choices(annotation)
    if values:
        _check_distinct(values)
        return ChoiceKind(values)
    collection = _collection(annotation)
    if collection is not None:
        return collection
    shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    raise TypeError(f"has the type {shown}; there are Text[length], str, bool, Literal[...], an "
                    "Enum, and collections of str, Literal or Enum")
