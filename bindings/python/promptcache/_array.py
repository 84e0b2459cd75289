"""Memory of the library as numpy arrays, and arrays of others as memory for the library."""
from __future__ import annotations

from typing import Any, Tuple

from ._raw import ffi

try:
    import numpy
except ImportError as _error:  # pragma: no cover
    raise ImportError("this needs numpy: pip install 'promptcache[numpy]'") from _error


def borrowed(pointer: Any, shape: Tuple[int, ...], dtype: str, owner: Any) -> Any:
    """A numpy array over memory of the library, which cannot be written to. It holds `owner`."""
    kind = numpy.dtype(dtype)
    size = kind.itemsize
    for one in shape:
        size *= one
    memory = ffi.gc(ffi.cast("char *", pointer), _Holder(owner), 0)
    array = numpy.frombuffer(ffi.buffer(memory, size), dtype=kind).reshape(shape)
    array.flags.writeable = False
    return array


class _Holder:
    """Holds an object until memory of it is no longer used."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __call__(self, pointer: Any) -> None:
        self.owner = None
