"""Segments: immutable K and V of a run of tokens; and states of other runtimes as memory."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _api
from ._array import borrowed, dense, empty
from ._context import Context
from ._core import (NULL, Handle, Options, c_function, check, extern, new, pointer_of, takes,
                    unraisable)
from ._raw import ffi, lib

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack

__all__ = ["Pages", "Segment", "Span", "States"]


class Span(NamedTuple):
    """Tokens [lo, hi) of a segment that stands at position `start` of a sequence. hi 0: all."""

    segment: Segment
    start: int
    lo: int = 0
    hi: int = 0


class Pages(NamedTuple):
    """K and V of one layer as they lie in memory: numpy arrays over the library's memory.

    A page has 64 tokens. float32: k [page, head, k_dim, 64], v [page, head, 64, v_dim]. float16,
    and bfloat16 as uint16: k [page, head, k_dim / 2, 64, 2], v [page, head, 32, v_dim, 2]. int8:
    k [page, head, k_dim / 4, 64, 4], v [page, head, 16, v_dim, 4], with bfloat16 scales
    k_scales [page, head, k_dim] and v_scales [page, head, 64]. v is None of latent states.
    """

    k: NDArray[Any]
    v: Optional[NDArray[Any]]
    k_scales: Optional[NDArray[Any]] = None
    v_scales: Optional[NDArray[Any]] = None


class Segment(Handle):
    """K and V of a run of tokens, all layers, at positions relative to its start. It cannot be
    changed. Segments come from `Cache.get`, `Sequence.spans`, `evaluate` and `prefill`.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> [result] = promptcache.evaluate(model, [[5, 6, 7]], segments=True)
    >>> k, v = result.segment.read(layer=0)
    >>> k.shape, result.segment.tokens
    ((2, 3, 64), [5, 6, 7])
    """

    _free = "pc_segment_free"
    info: Optional[_api.GetInfo] = None
    """Of a segment from a cache: which tier it came from, and how."""

    def __init__(self, *_: object) -> None:
        raise TypeError("a segment is made by Segment.wrap, Cache.get, Sequence.spans, evaluate "
                        "or prefill")

    @classmethod
    def _from_pointer(cls, pointer: Any, keep: Any = None) -> Segment:
        made = cls.__new__(cls)
        Handle.__init__(made, pointer, keep)
        return made

    @classmethod
    def wrap(cls, states: States, context: Optional[Context] = None) -> Segment:
        """A segment around the memory of `states`, for a cache: nothing is copied. The arrays are
        held until the last reference to the segment, also the cache's, is gone."""
        context = context or Context.default()
        states._need_blocks()
        handle = ffi.new_handle(states)
        address = int(ffi.cast("uintptr_t", handle))
        _wrapped[address] = (handle, states)
        out = ffi.new("pc_segment **")
        status = lib.pc_segment_wrap(out, context._pointer, states._c,
                                     c_function("py_segment_wrap_release"), handle)
        if status < 0:
            del _wrapped[address]
            check(status)
        return cls._from_pointer(out[0], context)

    def _raw(self) -> Any:
        struct = new("pc_raw")
        check(lib.pc_segment_raw(self._pointer, struct))
        return struct

    @property
    def tokens(self) -> List[int]:
        """Its token ids."""
        count = ffi.new("size_t *")
        tokens = lib.pc_segment_tokens(self._pointer, count)
        return list(ffi.unpack(tokens, count[0])) if count[0] else []

    @property
    def states(self) -> _api.StatesInfo:
        """What its states are: model, number format, shape."""
        return _api.StatesInfo(self._raw(), self._pointer)

    @property
    def blocks(self) -> List[NDArray[numpy.uint8]]:
        """Its memory, as bytes: of our models one block for each layer. Nothing is copied."""
        raw = self._raw()
        return [borrowed(raw.blocks[index], (raw.block_bytes[index],), "uint8", self._pointer)
                for index in range(raw.block_count)]

    def pages(self, layer: int) -> Pages:
        """K and V of one layer as they lie in memory. Nothing is copied."""
        raw = self._raw()
        if raw.layout not in (lib.PC_LAYOUT_PAGES, lib.PC_LAYOUT_LATENT):
            raise TypeError(f"states of layout {_api.Layout(raw.layout)} have no pages")
        if not 0 <= layer < raw.block_count:
            raise IndexError(f"layer {layer} of {raw.block_count}")
        block = borrowed(raw.blocks[layer], (raw.block_bytes[layer],), "uint8", self._pointer)
        latent = raw.layout == lib.PC_LAYOUT_LATENT
        return split_pages(block, -(-raw.token_count // _api.PAGE_TOKENS), raw.kv_heads, raw.k_dim,
                           0 if latent else raw.v_dim, raw.dtype)

    def read(self, layer: int, start: int = 0) -> Tuple[NDArray[numpy.float32],
                                                        NDArray[numpy.float32]]:
        """K and V of one layer as placed at `start`: two new arrays [kv_head, token, head_dim] in
        float32."""
        raw = self._raw()
        shape = (raw.kv_heads, raw.token_count, max(raw.k_dim, raw.v_dim))
        if raw.layout == lib.PC_LAYOUT_LATENT and isinstance(self._keep, Handle):
            info = self._keep.info  # type: ignore[attr-defined]
            shape = (info.kv_heads, raw.token_count, info.head_dim)
        k, v = empty(shape), empty(shape)
        check(lib.pc_segment_read(self._pointer, layer, start,
                                  ffi.from_buffer("float[]", k, require_writable=True),
                                  ffi.from_buffer("float[]", v, require_writable=True)))
        return k, v

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        return f"<promptcache.Segment {len(self.tokens)} tokens>"


def split_pages(block: Any, pages: int, heads: int, k_dim: int, v_dim: int, dtype: int) -> Pages:
    """Views of a packed run."""
    tokens = _api.PAGE_TOKENS
    width = {lib.PC_DTYPE_F32: 1, lib.PC_DTYPE_BF16: 2, lib.PC_DTYPE_F16: 2,
             lib.PC_DTYPE_I8: 4}[dtype]
    kind = {lib.PC_DTYPE_F32: "float32", lib.PC_DTYPE_BF16: "uint16", lib.PC_DTYPE_F16: "float16",
            lib.PC_DTYPE_I8: "int8"}[dtype]
    groups = -(-k_dim // width)
    size = 4 // width
    rows = block.reshape(pages, heads, -1)

    def part(first: int, count: int, dtype: str, shape: Tuple[int, ...]) -> Any:
        return rows[:, :, first:first + count].view(dtype).reshape((pages, heads) + shape)

    k_shape: Tuple[int, ...] = (groups, tokens) + ((width,) if width > 1 else ())
    v_shape: Tuple[int, ...] = (tokens // width, v_dim) + ((width,) if width > 1 else ())
    at = groups * tokens * width * size
    k = part(0, at, kind, k_shape)
    k_scales = v_scales = None
    if dtype == lib.PC_DTYPE_I8:
        k_scales = part(at, k_dim * 2, "uint16", (k_dim,))
        at += -(-k_dim * 2 // 64) * 64
    if not v_dim:
        return Pages(k, None, k_scales)
    v = part(at, tokens * v_dim * size, kind, v_shape)
    if dtype == lib.PC_DTYPE_I8:
        v_scales = part(at + tokens * v_dim, tokens * 2, "uint16", (tokens,))
    return Pages(k, v, k_scales, v_scales)


_wrapped: Dict[int, Any] = {}  # by address of the handle, until the library releases them


@extern("py_segment_wrap_release", onerror=unraisable)
def _release(user: Any) -> None:
    _wrapped.pop(int(ffi.cast("uintptr_t", user)), None)


class States:
    """K and V of another runtime as memory: one block for each layer, or as you like. A block is
    any array: numpy, a buffer, or one with `__dlpack__`; nothing is copied here. In `Cache.get`,
    where blocks are only expected, give `block_bytes` instead.

    >>> import numpy, promptcache
    >>> states = promptcache.States([numpy.zeros(128, "uint8")], model=bytes(32), layers=1,
    ...                             kv_heads=1, k_dim=8, v_dim=8, tokens=[1, 2], dtype="f32",
    ...                             layout=promptcache.Layout.APPLICATION)
    >>> cache = promptcache.Cache()
    >>> key = bytes(32)
    >>> str(cache.put(key, states))
    'ok'
    >>> cache.get(key, states).blocks[0].nbytes
    128
    """

    @takes("pc_raw")
    def __init__(self, blocks: Sequence[Any] = (), *, block_bytes: Sequence[int] = (),
                 **options: Unpack[_api.StatesOptions]) -> None:
        made = Options("pc_raw", dict(options), call="States")
        self._made, self._c = made, made.c
        self._memories = [dense(block, f"block {index}", host=True)
                          for index, block in enumerate(blocks)]
        sizes = [memory.nbytes for memory in self._memories] or list(block_bytes)
        if self._memories:
            made._point("blocks", ffi.new("void *[]", [one.pointer for one in self._memories]))
        made._point("block_bytes", ffi.new("uint64_t[]", sizes))
        made.c.block_count = len(sizes)

    def _need_blocks(self) -> None:
        if not self._memories:
            raise ValueError("states without blocks can only be expected, not stored")

    @property
    def block_bytes(self) -> List[int]:
        """Bytes of each block."""
        return list(self._c.block_bytes[0:self._c.block_count])


def span_array(spans: Sequence[Union[Span, Tuple[Any, ...]]]) -> Any:
    """Spans as an array of C."""
    array = ffi.new("pc_span[]", len(spans)) if spans else NULL
    for index, span in enumerate(spans):
        span = Span(*span)
        item = array[index]
        item.segment = pointer_of(span.segment, "Segment", f"span {index}")
        item.start = span.start
        item.lo, item.hi = span.lo, span.hi
    return array


def adopt_segment(pointer: Any, keep: Any) -> Segment:
    """A segment that the library has given a reference of."""
    return Segment._from_pointer(ffi.cast("pc_segment *", pointer), keep)


def states_of(given: Any, name: str) -> States:
    """An argument that must be States."""
    if not isinstance(given, States):
        raise TypeError(f"{name}: States are needed, not {type(given).__name__}")
    return given
