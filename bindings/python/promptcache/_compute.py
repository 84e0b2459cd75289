"""Computing without sampling: embeddings, logits and states."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _api
from ._array import empty
from ._core import NULL, Options, check, integers, new, optional_pointer, pointer_of, takes
from ._model import Model, token_array
from ._prompt import Prompt
from ._raw import ffi, lib
from ._segment import Segment, Span, span_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._cache import Cache

__all__ = ["Embeddings", "Evaluated", "Lane", "Prefilled", "embed", "evaluate", "prefill"]


class Embeddings(NamedTuple):
    """What `embed` has computed."""

    vectors: NDArray[numpy.float32]
    """[prompt, hidden]"""
    stats: _api.EmbedStats


@takes("pc_embed_options")
def embed(prompts: Union[Prompt, Sequence[Prompt]], cache: Optional[Cache] = None,
          **options: Unpack[_api.EmbedOptions]) -> Embeddings:
    """Embeddings of prompts of one model, in as few passes as fit. Decoders reuse modules and
    beginnings that the cache has.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> prompts = [promptcache.Prompt.from_text(model, text) for text in ("A desk.", "A job.")]
    >>> promptcache.embed(prompts, normalize=True).vectors.shape
    (2, 256)
    """
    listed = [prompts] if isinstance(prompts, Prompt) else list(prompts)
    made = Options("pc_embed_options", dict(options), call="embed")
    made.interruptible()
    array = ffi.new("pc_prompt *[]", [pointer_of(prompt, "Prompt", f"prompt {index}")
                                      for index, prompt in enumerate(listed)])
    width = listed[0].model.info.hidden if listed else 0
    out, stats = empty((len(listed), width)), new("pc_embed_stats")
    check(lib.pc_embed(array, len(listed), optional_pointer(cache, "Cache", "cache"), made.c,
                       floats(out), stats))
    return Embeddings(out, _api.EmbedStats(stats))


def floats(array: Any) -> Any:
    """A new float32 array for the library to write to."""
    return ffi.from_buffer("float[]", array, require_writable=True)


# ---- Inputs without an answer

Input = Union[Sequence[int], Tuple[Sequence[int], Sequence[int]]]


def input_array(inputs: Sequence[Input]) -> Tuple[Any, List[Any]]:
    """Token ids of several inputs, or (token ids, token types), as an array of C."""
    keep: List[Any] = []
    array = ffi.new("pc_input[]", len(inputs)) if len(inputs) else NULL
    for index, one in enumerate(inputs):
        tokens, types = (one if isinstance(one, tuple) and len(one) == 2
                         and not isinstance(one[0], int) else (one, None))
        ids = token_array(tokens)
        keep.append(ids)
        array[index].tokens, array[index].count = ids, len(tokens)
        if types is not None:
            given = token_array(types, len(tokens))
            keep.append(given)
            array[index].types = given
    return array, keep


class Prefilled(NamedTuple):
    """What `prefill` has computed; what was not wanted is None."""

    embeddings: Optional[NDArray[numpy.float32]]
    """[input, hidden]"""
    logits: Optional[NDArray[numpy.float32]]
    """[input, vocab] of the next token; of an encoder with a head [input, class]."""
    segments: Optional[List[Segment]]
    results: List[_api.MemoResult]
    """What the memo did for each input."""
    stats: _api.PrefillStats


@takes("pc_prefill_options")
def prefill(model: Model, inputs: Sequence[Input], *, embeddings: bool = True,
            logits: bool = False, segments: bool = False,
            **options: Unpack[_api.PrefillOptions]) -> Prefilled:
    """Computes prompts that need no answer, all together. An input is a list of token ids, or a
    pair of these and token types. With `memo`, attention maps of similar prompts are reused.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> promptcache.prefill(model, [[5, 6, 7], [8, 9]], logits=True).logits.shape
    (2, 3030)
    """
    made = Options("pc_prefill_options", dict(options), call="prefill")
    made.interruptible()
    pointer = pointer_of(model, "Model", "model")
    array, keep = input_array(inputs)
    info, count = model.info, len(inputs)
    if options.get("map_layers") is not None and len(options["map_layers"]) != info.layers:
        raise ValueError(f"map_layers: {len(options['map_layers'])} of {info.layers} layers")
    hidden = empty((count, info.hidden)) if embeddings else None
    scores = empty((count, info.classes or info.vocab)) if logits else None
    given = ffi.new("pc_segment *[]", count) if segments else NULL
    results = ffi.new("pc_memo_result[]", count)
    c, stats = made.c, new("pc_prefill_stats")
    buffers = [floats(one) if one is not None else NULL for one in (hidden, scores)]
    c.embeddings, c.logits = buffers
    c.segments, c.results, c.result_stride = given, results, ffi.sizeof("pc_memo_result")
    check(lib.pc_prefill(pointer, array, ffi.sizeof("pc_input"), count, c, stats))
    del keep
    return Prefilled(hidden, scores,
                     [Segment._from_pointer(one, model) for one in given] if segments else None,
                     [_api.MemoResult(one, results) for one in results], _api.PrefillStats(stats))


# ---- One forward pass

class Lane(NamedTuple):
    """One sequence of `evaluate`: segments that it sees, then new tokens."""

    tokens: Sequence[int]
    positions: Optional[Sequence[int]] = None
    """None: behind each other, from 0."""
    spans: Sequence[Span] = ()
    types: Optional[Sequence[int]] = None


class Evaluated(NamedTuple):
    """What `evaluate` has computed of a lane; what was not wanted is None."""

    logits: Optional[NDArray[numpy.float32]]
    """[token, vocab]"""
    segment: Optional[Segment]


def evaluate(model: Model, lanes: Sequence[Union[Lane, Sequence[int]]], *, logits: bool = True,
             segments: bool = False,
             visibility: Union[_api.Visibility, str] = _api.Visibility.BY_POSITION,
             rope_regime_length: int = 0) -> List[Evaluated]:
    """One forward pass over several lanes; those that share segments share the reading of them. A
    lane is a `Lane` or a list of token ids.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> [first] = promptcache.evaluate(model, [[5, 6, 7]], segments=True)
    >>> lane = promptcache.Lane([8], positions=[3], spans=[promptcache.Span(first.segment, 0)])
    >>> promptcache.evaluate(model, [lane])[0].logits.shape
    (1, 3030)
    """
    pointer = pointer_of(model, "Model", "model")
    listed = [lane if isinstance(lane, Lane) else Lane(lane) for lane in lanes]
    array = ffi.new("pc_lane[]", len(listed)) if listed else NULL
    keep: List[Any] = []
    for index, lane in enumerate(listed):
        item, count = array[index], len(lane.tokens)
        spans, tokens = span_array(lane.spans), token_array(lane.tokens)
        positions = integers("int64_t[]", range(count) if lane.positions is None
                             else lane.positions, f"lane {index}: positions", count)
        types = NULL if lane.types is None else token_array(lane.types, count)
        keep += [spans, tokens, positions, types]
        item.spans, item.span_count, item.span_stride = (spans, len(lane.spans),
                                                         ffi.sizeof("pc_span"))
        item.tokens, item.positions, item.types, item.count = tokens, positions, types, count
    args = new("pc_eval_args")
    total = sum(len(lane.tokens) for lane in listed)
    scores = empty((total, model.info.vocab)) if logits else None
    buffer = floats(scores) if scores is not None else NULL
    given = ffi.new("pc_segment *[]", len(listed)) if segments else NULL
    args.lanes, args.lane_count, args.lane_stride = array, len(listed), ffi.sizeof("pc_lane")
    args.visibility = _api.Visibility.of(visibility)
    args.rope_regime_length, args.logits, args.segments = rope_regime_length, buffer, given
    check(lib.pc_eval(pointer, args))
    results, at = [], 0
    for index, lane in enumerate(listed):
        behind = at + len(lane.tokens)
        segment = Segment._from_pointer(given[index], model) if segments else None
        results.append(Evaluated(None if scores is None else scores[at:behind], segment))
        at = behind
    return results
