"""Attention over your own queries, keys and values: segmented attention (RelayAttention, Hydragen)
over numpy arrays, buffers and DLPack tensors, without copies.

K and V lie in runs: packed ones (`Run`, or a layer of a `Segment`), or pages of your own paged
cache (`Pool`, `PoolRun`). A `Row` is one query token and says which runs it sees, and where these
stand. A `Plan` decides which rows read which runs together; one plan serves all layers.

>>> import numpy
>>> from promptcache import attention
>>> shape = attention.Shape(heads=4, kv_heads=2, k_dim=8)
>>> random = numpy.random.default_rng(1)
>>> k, v = (random.standard_normal((5, 2, 8), dtype="float32") for _ in range(2))
>>> run = attention.Run(shape, tokens=5)
>>> run.write(k, v)
>>> plan = attention.Plan(shape, [run], [attention.Row(position=5, spans=[(0, 0)])])
>>> q = random.standard_normal((1, 4, 8), dtype="float32")
>>> out, lse = plan.attend(q)
>>> scores = numpy.einsum("hd,thd->ht", q[0], numpy.repeat(k, 2, axis=1)) / 8 ** 0.5
>>> weights = numpy.exp(scores) / numpy.exp(scores).sum(axis=1, keepdims=True)
>>> expected = numpy.einsum("ht,thd->hd", weights, numpy.repeat(v, 2, axis=1))
>>> bool(abs(out[0] - expected).max() < 1e-5)
True
"""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _api
from ._array import Memory, dense, empty, host_memory, memory_of, numpy_module
from ._context import Context
from ._core import NULL, Handle, Options, check, integers, make, new, pointer_of, takes
from ._raw import ffi, lib
from ._segment import Pages, Segment, split_pages

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack

__all__ = ["Attended", "Plan", "Pool", "PoolRun", "Rope", "Row", "Run", "Shape", "merge"]

_ORDERS = {_api.KVOrder.NHD: "token, head", _api.KVOrder.HND: "head, token"}
_NAMES = {_api.DType.F32: "float32", _api.DType.BF16: "bfloat16", _api.DType.F16: "float16",
          _api.DType.I8: "int8"}


class Shape:
    """The shape of attention. dtype: of K and V ("f32", "bf16", "f16" or "i8")."""

    def __init__(self, heads: int, kv_heads: int, k_dim: int, v_dim: Optional[int] = None,
                 dtype: Union[_api.DType, str] = _api.DType.F32) -> None:
        self.heads, self.kv_heads, self.k_dim = heads, kv_heads, k_dim
        self.v_dim = k_dim if v_dim is None else v_dim
        self.dtype = _api.DType.of(dtype)
        self._c = Options("pc_attend_shape", {
            "heads": heads, "kv_heads": kv_heads, "k_dim": k_dim, "v_dim": self.v_dim,
            "dtype": self.dtype}).c

    def __repr__(self) -> str:
        return (f"Shape(heads={self.heads}, kv_heads={self.kv_heads}, k_dim={self.k_dim}, "
                f"v_dim={self.v_dim}, dtype={str(self.dtype)!r})")


class Run:
    """A packed run of tokens of one layer.

    memory: of the run, aligned to 64 bytes: any array, such as a block of a `Segment`, or memory
    of a device. None: a new one, zeroed. relative: positions minus the run's start; None: 0, 1, …
    """

    def __init__(self, shape: Shape, tokens: int, *, memory: Any = None,
                 relative: Optional[Sequence[int]] = None) -> None:
        self.shape, self.tokens, self.relative = shape, tokens, relative
        size = lib.pc_pages_bytes(shape._c, tokens)
        if size == 0 and tokens:
            raise ValueError(f"{shape} is no shape of attention")
        if memory is None:
            room = numpy_module().zeros(size + 63, "uint8")
            at = -room.__array_interface__["data"][0] % 64
            memory = room[at:at + size]
        self._memory = memory_of(memory, "memory")
        if self._memory.nbytes < size or not self._memory.contiguous:
            raise ValueError(f"memory: {self._memory.nbytes} bytes, {size} without gaps are needed")
        self.memory = memory

    @classmethod
    def of_segment(cls, segment: Segment, layer: int, heads: int) -> Run:
        """The run of one layer of a segment, over the segment's own memory. heads: of queries."""
        states = segment.states
        shape = Shape(heads, states.kv_heads, states.k_dim, states.v_dim, states.dtype)
        return cls(shape, len(segment.tokens), memory=segment.blocks[layer])

    @property
    def pages(self) -> Pages:
        """K and V as they lie in memory, as views."""
        shape = self.shape
        block = numpy_module().asarray(self.memory).reshape(-1).view("uint8")
        count = -(-self.tokens // _api.PAGE_TOKENS)
        return split_pages(block[:lib.pc_pages_bytes(shape._c, self.tokens)], count,
                           shape.kv_heads, shape.k_dim, shape.v_dim, shape.dtype)

    def _args(self, k: Any, v: Any, first: int, layout: Any, writable: bool) -> Tuple[Any, Any]:
        args = new("pc_pages_args")
        order = _api.KVOrder.of(layout)
        token, head = (0, 1) if order == _api.KVOrder.NHD else (1, 0)
        counts, keep = set(), []
        for name, array, dim in (("k", k, self.shape.k_dim), ("v", v, self.shape.v_dim)):
            if array is None:
                continue
            memory = host_memory(array, name, writable)
            if len(memory.shape) != 3 or memory.shape[2] != dim or (
                    memory.shape[head] != self.shape.kv_heads) or memory.strides[2] != 1:
                raise ValueError(f"{name}: shape {memory.shape} is not [{_ORDERS[order]}, {dim}] "
                                 f"with {self.shape.kv_heads} heads")
            setattr(args, name, memory.pointer)
            setattr(args, name + "_token_stride", memory.strides[token])
            setattr(args, name + "_head_stride", memory.strides[head])
            args.dtype = memory.kind(name)
            counts.add((memory.shape[token], memory.dtype))
            keep.append(memory)
        if self._memory.device not in (1, 3):
            raise ValueError("the run's memory lies on a device")
        if not counts:
            raise ValueError("k or v is needed")
        if len(counts) != 1:
            raise ValueError("k and v have different numbers of tokens, or formats")
        args.shape, args.pages, args.first = self.shape._c, self._memory.pointer, first
        args.count, args.layout = counts.pop()[0], order
        if first + args.count > self.tokens:
            raise ValueError(f"tokens up to {first + args.count} of a run of {self.tokens}")
        return args, keep

    def write(self, k: Any, v: Any, first: int = 0,
              layout: Union[_api.KVOrder, str] = _api.KVOrder.NHD) -> None:
        """Writes tokens from `first` on. k and v: [token, head, dim], or [head, token, dim] with
        layout "hnd"; float32, bfloat16 or float16, with any strides but for the last dimension."""
        if not self._memory.writable:
            raise ValueError("the run's memory cannot be written to")
        args, keep = self._args(k, v, first, layout, False)
        check(lib.pc_pages_write(args))
        del keep

    def read(self, first: int = 0, count: Optional[int] = None,
             layout: Union[_api.KVOrder, str] = _api.KVOrder.NHD
             ) -> Tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        """K and V of tokens, as new float32 arrays."""
        if not 0 <= first <= self.tokens:
            raise ValueError(f"first: token {first} of a run of {self.tokens}")
        count = self.tokens - first if count is None else count
        front = ((count, self.shape.kv_heads) if _api.KVOrder.of(layout) == _api.KVOrder.NHD
                 else (self.shape.kv_heads, count))
        k, v = empty(front + (self.shape.k_dim,)), empty(front + (self.shape.v_dim,))
        args, keep = self._args(k, v, first, layout, True)
        check(lib.pc_pages_read(args))
        del keep
        return k, v


class PoolRun(NamedTuple):
    """A run that lies in pages of a `Pool`, in this order."""

    tokens: int
    pages: Sequence[int]
    relative: Optional[Sequence[int]] = None


class Pool:
    """The pages of your own paged cache, in memory of the host, as they are.

    k and v: [page, token, head, dim], or [page, head, token, dim] with layout "hnd", with any
    strides but for the last dimension. Where a page holds both, give `kv[:, 0]` and `kv[:, 1]`.
    k_scales and v_scales: [head] of int8.
    """

    def __init__(self, k: Any, v: Any, layout: Union[_api.KVOrder, str] = _api.KVOrder.NHD, *,
                 k_scales: Any = None, v_scales: Any = None) -> None:
        self.layout = layout_of = _api.KVOrder.of(layout)
        self._k, self._v = memory_of(k, "k"), memory_of(v, "v")
        token, head = (1, 2) if self.layout == _api.KVOrder.NHD else (2, 1)
        for name, memory in (("k", self._k), ("v", self._v)):
            if len(memory.shape) != 4 or memory.strides[3] != 1:
                raise ValueError(f"{name}: shape {memory.shape} has no pages")
        if self._k.shape[:3] != self._v.shape[:3] or self._k.dtype != self._v.dtype:
            raise ValueError("k and v differ in shape or format")
        c = new("pc_pool")
        c.layout, c.page_tokens, c.page_count = (self.layout, self._k.shape[token],
                                                 self._k.shape[0])
        c.dtype = self._k.kind("k")
        for name, memory in (("k", self._k), ("v", self._v)):
            setattr(c, name + "_page_stride", memory.strides[0])
            setattr(c, name + "_token_stride", memory.strides[token])
            setattr(c, name + "_head_stride", memory.strides[head])
        self._c = c
        self._facts = (layout_of, self._k.shape, self._k.strides, self._v.shape, self._v.strides,
                       self._k.dtype)
        self._scales = [None if one is None else dense(one, "scales", (self._k.shape[head],),
                                                       "float32") for one in (k_scales, v_scales)]


    def _of(self, shape: Shape) -> int:
        """Tokens of a page, of a pool that has the heads of this shape."""
        head = 2 if self.layout == _api.KVOrder.NHD else 1
        for name, memory, dim in (("k", self._k, shape.k_dim), ("v", self._v, shape.v_dim)):
            if (memory.shape[head], memory.shape[3]) != (shape.kv_heads, dim):
                raise ValueError(f"pool: {name} has {memory.shape[head]} heads of "
                                 f"{memory.shape[3]}, and the shape {shape.kv_heads} of {dim}")
        return self._k.shape[3 - head]

    def _like(self, other: Pool) -> bool:
        """Whether plans of the other one serve this one, too."""
        return self._facts == other._facts


class Row(NamedTuple):
    """One query token: its position, and what it sees: (run, start) or (run, start, lo, hi), the
    run by its index in the plan; tokens [lo, hi), hi 0: all from lo on."""

    position: int
    spans: Sequence[Tuple[int, ...]]


class Rope:
    """Rotates queries by their distance to each span's start. frequency: of each pair of
    dimensions; factor: multiplies cosine and sine; interleaved: pairs are (2i, 2i + 1)."""

    def __init__(self, frequency: Sequence[float], *, interleaved: bool = False,
                 factor: float = 0) -> None:
        self._frequency = ffi.new("double[]", [float(one) for one in frequency])
        made = Options("pc_rope", {"dims": 2 * len(frequency), "interleaved": interleaved,
                                   "factor": factor})
        made.c.frequency = self._frequency
        self._c = made.c


class Attended(NamedTuple):
    """Results of `Plan.attend`."""

    out: Any
    """[row, head, v_dim]"""
    lse: Any
    """[row, head] natural log-sum-exp of the scores, or None."""


class Plan(Handle):
    """Which rows read which runs together. Make another one when runs have grown or rows changed.

    runs: each a `Run`, a `PoolRun`, or a number of tokens, whose memory `attend` is given. Runs of
    another number format than the shape's are taken as they are.
    """

    _free = "pc_plan_free"

    def __init__(self, shape: Shape, runs: Sequence[Union[Run, PoolRun, int]],
                 rows: Sequence[Union[Row, Tuple[int, Sequence[Tuple[int, ...]]]]], *,
                 pool: Optional[Pool] = None, context: Optional[Context] = None) -> None:
        context = context or Context.default()
        self.shape, self.runs, self.pool = shape, list(runs), pool
        self.rows = [Row(*row) for row in rows]
        self._context, self._lock = context, threading.Lock()
        args = new("pc_plan_args")
        keep: List[Any] = []
        page_tokens = None if pool is None else pool._of(shape)
        args.shape, args.row_count, args.run_count = shape._c, len(self.rows), len(self.runs)
        array = ffi.new("pc_run[]", max(1, len(self.runs)))
        dtypes = ffi.new("uint32_t[]", max(1, len(self.runs)))
        for index, run in enumerate(self.runs):
            self._run(array[index], run, page_tokens, keep)
            if isinstance(run, Run) and run.shape.dtype != shape.dtype:
                dtypes[index] = run.shape.dtype
        args.runs, args.run_stride, args.dtypes = array, ffi.sizeof("pc_run"), dtypes
        first, spans = [0], []
        for row in self.rows:
            spans += [tuple(span) + (0, 0, 0, 0)[len(span):] for span in row.spans]
            first.append(len(spans))
        listed = ffi.new("pc_row_span[]", max(1, len(spans)))
        for item, (run_index, start, lo, hi) in zip(listed, spans):
            item.run, item.start, item.lo, item.hi = run_index, start, lo, hi
        positions = ffi.new("int64_t[]", [row.position for row in self.rows])
        firsts = ffi.new("uint32_t[]", first)
        args.spans, args.span_stride, args.first = listed, ffi.sizeof("pc_row_span"), firsts
        args.positions = positions
        if pool is not None:
            args.pool = pool._c
        super().__init__(make(lib.pc_plan_new, "pc_plan", pointer_of(context, "Context", "context"),
                              args), context)

    @staticmethod
    def _run(item: Any, run: Union[Run, PoolRun, int], page_tokens: Optional[int],
             keep: List[Any]) -> None:
        if isinstance(run, int):
            item.tokens = run
            return
        item.tokens = run.tokens
        if run.relative is not None:
            relative = integers("int64_t[]", run.relative, "relative", run.tokens)
            keep.append(relative)
            item.relative = relative
        if isinstance(run, PoolRun):
            pages = integers("int32_t[]", run.pages, "pages",
                             None if page_tokens is None else -(-run.tokens // page_tokens))
            keep.append(pages)
            item.pages = pages

    @takes("pc_attend_args")
    def attend(self, q: Any, *, pages: Optional[Sequence[Any]] = None,
               pool: Optional[Pool] = None, out: Any = None, lse: Any = True,
               rope: Optional[Rope] = None, slopes: Any = None, sinks: Any = None,
               stream: int = 0, **options: Unpack[_api.AttendOptions]) -> Attended:
        """Attention of all rows of one layer.

        q: [row, head, k_dim], float32, bfloat16 or float16. pages: memory of each run in this
        layer; None: the runs' own. pool: this layer's pages; None: the plan's. out: an array
        [row, head, v_dim] for the results; None: a new one. lse: whether they are wanted, or an
        array [row, head] for them. slopes (of ALiBi) and sinks: [head], float32. stream: of CUDA,
        as a number.
        """
        shape, rows = self.shape, len(self.rows)
        if out is None:
            out = empty((rows, shape.heads, shape.v_dim))
        if lse is True:
            lse = empty((rows, shape.heads))
        made = Options("pc_attend_args", dict(options), call="attend")
        args = made.c
        queries = self._given(q, "q", (rows, shape.heads, shape.k_dim))
        results = self._given(out, "out", (rows, shape.heads, shape.v_dim), True)
        args.q, args.q_dtype = queries.pointer, queries.kind("q")
        args.out, args.out_dtype = results.pointer, results.kind("out")
        keep: List[Any] = [queries, results, rope]
        for name, array, dims in (("lse", lse, (rows, shape.heads)),
                                  ("slopes", slopes, (shape.heads,)),
                                  ("sinks", sinks, (shape.heads,))):
            if array is not None and array is not False:
                memory = self._given(array, name, dims, name == "lse", "float32")
                keep.append(memory)
                setattr(args, name, ffi.cast("float *", memory.address))
        if rope is not None:
            args.rope = rope._c
        if stream:
            args.stream = ffi.cast("void *", stream)
        keep += [self._pages(args, pages), self._in_pool(args, pool or self.pool)]
        with self._lock:
            check(lib.pc_attend(self._pointer, args))
        del keep
        return Attended(out, None if lse is False else lse)

    def _given(self, array: Any, name: str, shape: Tuple[int, ...], writable: bool = False,
               dtype: Optional[str] = None) -> Memory:
        memory = dense(array, name, shape, dtype, writable)
        backend = self._context.backend
        if memory.device not in (1, 3) and backend == "cpu":
            raise ValueError(f"{name} lies on a device, and the context's backend is the CPU")
        return memory

    def _pages(self, args: Any, pages: Optional[Sequence[Any]]) -> List[Any]:
        if pages is None:
            pages = [run.memory if isinstance(run, Run) else None for run in self.runs]
        if len(pages) != len(self.runs):
            raise ValueError(f"pages: {len(pages)} of {len(self.runs)} runs")
        memories = [None if one is None else dense(one, f"pages[{index}]")
                    for index, one in enumerate(pages)]
        for index, (memory, run) in enumerate(zip(memories, self.runs)):
            if memory is None:
                if isinstance(run, int):
                    raise ValueError(f"pages[{index}]: the run has no memory of its own")
                continue
            shape = run.shape if isinstance(run, Run) else self.shape
            tokens = run if isinstance(run, int) else run.tokens
            if memory.nbytes < lib.pc_pages_bytes(shape._c, tokens):
                raise ValueError(f"pages[{index}]: {memory.nbytes} bytes are too few")
        array = ffi.new("void *[]", [NULL if one is None else one.pointer for one in memories]
                        or [NULL])
        args.pages = array
        return [array, memories]

    def _in_pool(self, args: Any, pool: Optional[Pool]) -> Any:
        if pool is not None:
            if self.pool is None or not pool._like(self.pool):
                raise ValueError("pool: it is not as the plan's: pages, strides or format differ")
            args.pool_k, args.pool_v = pool._k.pointer, pool._v.pointer
            for name, memory in zip(("k_scales", "v_scales"), pool._scales):
                if memory is not None:
                    setattr(args, name, ffi.cast("float *", memory.address))
        return pool


def merge(outs: Sequence[Any], lses: Sequence[Any], *, base2: bool = False) -> Attended:
    """Joins partial results of the same queries over parts of their keys, by their log-sum-exp.
    outs: of each part [row, head, v_dim], lses: [row, head], float32. base2: LSEs are of base 2.

    >>> import numpy
    >>> from promptcache import attention
    >>> out = numpy.ones((1, 1, 2), "float32")
    >>> lse = numpy.zeros((1, 1), "float32")
    >>> merged = attention.merge([out, 3 * out], [lse, lse])
    >>> merged.out.tolist(), round(float(merged.lse[0, 0]), 3)
    ([[[2.0, 2.0]]], 0.693)
    """
    if not outs or len(outs) != len(lses):
        raise ValueError("as many outs as lses are needed, at least one")
    shape = memory_of(outs[0], "outs").shape
    if len(shape) != 3:
        raise ValueError(f"outs: shape {shape} is not [row, head, dim]")
    parts = [dense(one, "outs", shape, "float32") for one in outs]
    sums = [dense(one, "lses", shape[:2], "float32") for one in lses]
    out, lse = empty(shape), empty(shape[:2])
    args = new("pc_merge_args")
    pointers = [ffi.new("float *[]", [ffi.cast("float *", one.address) for one in listed])
                for listed in (parts, sums)]
    args.outs, args.lses = pointers
    args.part_count, args.row_count, args.heads, args.v_dim = len(parts), *shape
    buffers = [ffi.from_buffer("float[]", one, require_writable=True) for one in (out, lse)]
    args.out, args.lse = buffers
    args.flags = lib.PC_MERGE_BASE2 if base2 else 0
    check(lib.pc_merge(args))
    return Attended(out, lse)
