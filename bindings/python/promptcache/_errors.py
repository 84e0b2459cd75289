"""Errors of the library as exceptions."""
from __future__ import annotations

from typing import Any, Dict, Optional, Type

from ._raw import ffi, lib

__all__ = ["Error", "InvalidError", "OutOfMemoryError", "IOFailedError", "FormatError",
           "UnsupportedError", "NotFoundError", "PMLError", "LimitError", "CancelledError",
           "StateError", "MismatchError", "InternalError", "DeadError", "MissError",
           "ClosedError"]


class Error(Exception):
    """A call of the library failed. The text names place and cause in one line.

    >>> import promptcache
    >>> try:
    ...     promptcache.Model.load("no such file.gguf")
    ... except promptcache.Error as error:
    ...     print(error.status, "|", error.name)
    -6 | PC_ERR_NOT_FOUND
    """

    status: int = 0
    """Code of the library (PC_ERR_…)."""
    line: Optional[int] = None
    """Line of the document that the error is about, from 1; None: there is none."""
    column: Optional[int] = None
    """Column in characters, from 1."""
    answer: Any = None
    """Of a `generate` that failed: the Answer so far."""

    def __init__(self, text: str, status: Optional[int] = None, line: Optional[int] = None,
                 column: Optional[int] = None) -> None:
        super().__init__(text)
        if status is not None:
            self.status = status
        self.line = line
        self.column = column

    @property
    def name(self) -> str:
        """Name of the code: "PC_ERR_IO"."""
        return str(ffi.string(lib.pc_status_name(self.status)).decode())

    @property
    def cause(self) -> str:
        """What the code means: "input or output failed"."""
        return str(ffi.string(lib.pc_status_text(self.status)).decode())


class InvalidError(Error, ValueError):
    """An argument that means nothing: a fault of the calling program."""


class OutOfMemoryError(Error, MemoryError):
    """The allocator failed."""


class IOFailedError(Error, OSError):
    """The system refused to open, read or write a file."""


class FormatError(Error, ValueError):
    """A file is damaged, or contradicts its format."""


class UnsupportedError(Error, NotImplementedError):
    """Well formed, but not for this library, model or build."""


class NotFoundError(Error, LookupError):
    """No such file, schema, item or record."""


class PMLError(Error, ValueError):
    """A fault of a schema or prompt, at `line` and `column`."""


class LimitError(Error):
    """Longer than the model's context, or more than a limit allows."""


class CancelledError(Error):
    """Cancelled: by a function that was given, by `cancel`, or by a deadline."""


class StateError(Error):
    """Too early, too late or twice."""


class MismatchError(Error, ValueError):
    """Objects that do not belong together, such as a schema and another model."""


class InternalError(Error):
    """A fault of the library, of the model, or of a function that was given."""


class DeadError(Error):
    """The device is lost; objects on it can only be closed."""


class MissError(Error, KeyError):
    """Nothing usable is in the cache under this key; `reason` says why."""

    status = 1
    reason: Any = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ClosedError(Error, ValueError):
    """The object was closed."""

    status = -10


_CLASSES: Dict[int, Type[Error]] = {
    lib.PC_ERR_INVALID: InvalidError, lib.PC_ERR_NOMEM: OutOfMemoryError,
    lib.PC_ERR_IO: IOFailedError, lib.PC_ERR_FORMAT: FormatError,
    lib.PC_ERR_UNSUPPORTED: UnsupportedError, lib.PC_ERR_NOT_FOUND: NotFoundError,
    lib.PC_ERR_PML: PMLError, lib.PC_ERR_LIMIT: LimitError, lib.PC_ERR_CANCELLED: CancelledError,
    lib.PC_ERR_STATE: StateError, lib.PC_ERR_MISMATCH: MismatchError,
    lib.PC_ERR_INTERNAL: InternalError, lib.PC_ERR_DEAD: DeadError,
}


def error_of(status: int, text: Optional[str] = None) -> Error:
    """The exception for a code that this thread's last call has returned."""
    line, column = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    if text is None:
        lib.pc_error_place(line, column)
        text = ffi.string(lib.pc_error_text()).decode("utf-8", "replace")
    kind = _CLASSES.get(status, Error)
    return kind(text, status, line[0] or None, column[0] or None)
