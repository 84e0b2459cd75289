"""Memory of the library as numpy arrays, and arrays of others as memory for the library.

Arrays of others are anything with `__array_interface__` (numpy), the buffer protocol (bytes,
array.array, memoryview) or `__dlpack__` (PyTorch, JAX, CuPy). Nothing is copied. DLPack is read
here, since numpy knows no bfloat16."""
from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Tuple

from ._api import DType
from ._raw import ffi

if TYPE_CHECKING:
    import numpy

__all__ = ["Memory", "borrowed", "memory_of", "numpy_module"]


def numpy_module() -> Any:
    """numpy, or an error that says how to get it."""
    try:
        import numpy
    except ImportError as error:
        raise ImportError("this needs numpy: pip install 'promptcache[numpy]'") from error
    return numpy


# ---- Memory of the library

def borrowed(pointer: Any, shape: Tuple[int, ...], dtype: str, owner: Any) -> Any:
    """A numpy array over memory of the library, which cannot be written to. It holds `owner`."""
    numpy = numpy_module()
    kind = numpy.dtype(dtype)
    size = kind.itemsize
    for one in shape:
        size *= one
    if size == 0:
        return numpy.zeros(shape, kind).view(_borrowed_class())
    memory = ffi.buffer(ffi.gc(ffi.cast("char *", pointer), _Holder(owner)), size)
    base = numpy.frombuffer(memoryview(memory).toreadonly(), dtype=kind)
    return base.reshape(shape).view(_borrowed_class())


class _Holder:
    """Holds an object until memory of it is no longer used."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __call__(self, pointer: Any) -> None:
        self.owner = None


_class: Any = None


def _borrowed_class() -> Any:
    """The class of arrays over the library's memory. Its DLPack works also before numpy 2.1, which
    refuses memory that cannot be written to; whoever takes it must only read."""
    global _class
    if _class is None:
        numpy = numpy_module()

        class BorrowedArray(numpy.ndarray):  # type: ignore[misc,name-defined]
            def __dlpack__(self, **options: Any) -> Any:
                try:
                    return super().__dlpack__(**options)
                except BufferError:
                    address = self.__array_interface__["data"][0]
                    size = self.nbytes if self.flags.c_contiguous else 0
                    if not size:
                        raise
                    memory = ffi.gc(ffi.cast("char *", address), _Holder(self))
                    plain = numpy.frombuffer(ffi.buffer(memory, size), dtype=self.dtype)
                    return plain.reshape(self.shape).__dlpack__()

            def __reduce__(self) -> Any:
                """Another process gets a plain array."""
                return numpy.array(self, subok=False).__reduce__()

        _class = BorrowedArray
    return _class


# ---- Arrays of others

class Memory(NamedTuple):
    """Where an array lies and how."""

    address: int
    dtype: str
    """"float32", "float16", "bfloat16", "int8", "int32", …"""
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    """In elements."""
    itemsize: int
    device: int
    """DLPack's kind of device: 1 is the CPU, 2 CUDA."""
    writable: bool
    keep: Any

    @property
    def pointer(self) -> Any:
        """Its address for C."""
        return ffi.cast("void *", self.address)

    @property
    def contiguous(self) -> bool:
        """Whether it has no gaps, in the order of C."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != step:
                return False
            step *= size
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        count = self.itemsize
        for size in self.shape:
            count *= size
        return count

    def kind(self, name: str) -> DType:
        """The number format of the library."""
        try:
            return _KINDS[self.dtype]
        except KeyError:
            raise TypeError(f"{name}: {self.dtype} is none of " + ", ".join(_KINDS)) from None


_KINDS = {"float32": DType.F32, "bfloat16": DType.BF16, "float16": DType.F16, "int8": DType.I8}


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32),
                ("dtype", _DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(array: Any) -> Memory:
    capsule = array.__dlpack__()  # stays as it is: its end gives the tensor back
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        strides = tuple(tensor.strides[: tensor.ndim])
    else:
        strides = _dense(shape)
    kind = tensor.dtype
    if kind.lanes != 1 or kind.code not in _CODES:
        raise TypeError(f"a DLPack tensor of code {kind.code} with {kind.lanes} lanes")
    return Memory((tensor.data or 0) + tensor.byte_offset, f"{_CODES[kind.code]}{kind.bits}",
                  shape, strides, kind.bits // 8, tensor.device.type, True, (array, capsule))


def _dense(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _of_numpy(array: Any) -> Memory:
    if array.dtype.hasobject:
        raise TypeError("an array of Python objects has no numbers")
    facts = array.__array_interface__
    size = array.dtype.itemsize
    name = array.dtype.name if array.dtype.isnative else array.dtype.str
    return Memory(facts["data"][0], name, tuple(facts["shape"]),
                  _elements(facts["strides"], facts["shape"], size), size, 1,
                  not facts["data"][1], array)


def _elements(strides: Any, shape: Tuple[int, ...], size: int) -> Tuple[int, ...]:
    """Strides in elements, of strides in bytes; None: without gaps."""
    if strides is None:
        return _dense(shape)
    if not size or any(stride % size for stride in strides):
        raise ValueError(f"strides of {tuple(strides)} bytes are no multiples of an element's "
                         f"{size}; copy the array")
    return tuple(stride // size for stride in strides)


_FORMATS = {"f": "float32", "d": "float64", "e": "float16", "b": "int8", "B": "uint8", "c": "int8",
            "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "q": "int64", "Q": "uint64",
            "l": "int64", "L": "uint64"}


def _of_buffer(array: Any) -> Memory:
    view = memoryview(array)
    address = int(ffi.cast("uintptr_t", ffi.from_buffer(array))) if view.nbytes else 0
    shape = tuple(view.shape or ())
    kind = view.format.lstrip("@=<" if sys.byteorder == "little" else "@=>!")
    return Memory(address, _FORMATS.get(kind, view.format), shape,
                  _elements(view.strides, shape, view.itemsize), view.itemsize, 1,
                  not view.readonly, (array, view))


def host_memory(array: Any, name: str = "array", writable: bool = False) -> Memory:
    """The memory of an array that the library reads or writes by itself."""
    memory = memory_of(array, name, writable)
    if memory.device not in (1, 3):
        raise ValueError(f"{name}: the array lies on a device; copy it to the host")
    return memory


def memory_of(array: Any, name: str = "array", writable: bool = False) -> Memory:
    """Where an array lies: numpy's, a buffer, or any with `__dlpack__`."""
    if hasattr(array, "__array_interface__") and hasattr(array, "dtype"):
        memory = _of_numpy(array)
    elif hasattr(array, "__dlpack__"):
        memory = _of_dlpack(array)
    else:
        try:
            memory = _of_buffer(array)
        except TypeError:
            raise TypeError(f"{name}: an array is needed (numpy, a buffer, or DLPack), not "
                            f"{type(array).__name__}") from None
    if any(stride < 0 for stride in memory.strides):
        raise ValueError(f"{name}: the array runs backwards")
    if writable and not memory.writable:
        raise ValueError(f"{name}: the array cannot be written to")
    return memory


def dense(array: Any, name: str, shape: Optional[Tuple[int, ...]] = None,
          dtype: Optional[str] = None, writable: bool = False, host: bool = False) -> Memory:
    """The memory of an array without gaps, of this shape and format."""
    memory = (host_memory if host else memory_of)(array, name, writable)
    if not memory.contiguous:
        raise ValueError(f"{name}: the array has gaps; make it contiguous")
    if shape is not None and memory.shape != shape:
        raise ValueError(f"{name}: its shape is {memory.shape} instead of {shape}")
    if dtype is not None and memory.dtype != dtype:
        raise TypeError(f"{name}: {memory.dtype} instead of {dtype}")
    return memory


def empty(shape: Tuple[int, ...], dtype: str = "float32") -> numpy.ndarray[Any, Any]:
    """A new numpy array."""
    made: numpy.ndarray[Any, Any] = numpy_module().empty(shape, dtype)
    return made
