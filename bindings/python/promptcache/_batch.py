"""Sequences that are stepped together, continued, branched and saved."""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union
from typing import Sequence as Seq

from . import _api
from ._core import (NULL, Callbacks, Handle, Options, check, digest, make, new, ok,
                    optional_pointer, pointer_of, takes, unraisable)
from ._errors import Error, MissError, StateError, error_of
from ._messages import Message, message_array
from ._model import Model, token_array
from ._prompt import Prompt, generate_options
from ._raw import ffi, lib
from ._segment import Span, adopt_segment
from ._record import text_of
from ._task import Step

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._cache import Cache

__all__ = ["Batch", "Sequence", "forget_sequence"]

_END = lib.PC_END
_UNDER_WAY = "a step of the batch is under way: a step_async that was not awaited to its end"


class _Lock:
    """One thread at a time uses a batch and its sequences: all of them have its lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


class Sequence(Handle):
    """A request that is stepped in a batch. With `keep=True` it keeps its states when it finishes,
    and can be pushed to, truncated, forked and saved.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> prompt = promptcache.Prompt.from_text(model, "The desk of Anna Reed")
    >>> batch = promptcache.Batch(model)
    >>> sequence = batch.add(promptcache.Sequence(prompt, keep=True, max_tokens=3))
    >>> batch.run()
    >>> len(sequence.tokens), str(sequence.finish)
    (3, 'length')
    """

    _free = "pc_sequence_free"

    @takes("pc_generate_options", "pc_sampling")
    def __init__(self, prompt: Prompt, cache: Optional[Cache] = None,
                 **options: Unpack[_api.GenerateOptions]) -> None:
        made = generate_options(dict(options), "Sequence")
        self._keeps = bool(options.get("keep"))
        pointer = make(lib.pc_sequence_new, "pc_sequence", pointer_of(prompt, "Prompt", "prompt"),
                       optional_pointer(cache, "Cache", "cache"), made.c)
        self._begin(pointer, prompt.model, made.callbacks, (prompt, cache, made))

    def _begin(self, pointer: Any, model: Model, callbacks: Optional[Callbacks],
               keep: Any) -> None:
        self._shared = _Lock()
        self._batch: Optional[Batch] = None
        self._raw = pointer  # its address: a key of the batch's table
        self._callbacks = callbacks
        self._size = ffi.new("size_t *")  # where calls write a count, under the lock
        self.model = model
        super().__init__(pointer, keep)

    @classmethod
    def _wrap(cls, pointer: Any, model: Model, callbacks: Optional[Callbacks],
              keep: Any) -> Sequence:
        made = cls.__new__(cls)
        made._keeps = True  # forks and loaded ones
        made._begin(pointer, model, callbacks, keep)
        return made

    @property
    def batch(self) -> Optional[Batch]:
        """The batch that it is in."""
        return self._batch

    def _must_be_idle(self) -> None:
        """With the lock, where the library has said that there is nothing, which it says also while
        a thread of its own does a step."""
        if self._batch is not None:
            self._batch._must_be_idle()

    def _finish(self) -> int:
        finish: int = lib.pc_sequence_finish(self._pointer)
        if not finish and self._batch is not None and self._batch._step is not None:
            with self._shared.lock:
                self._must_be_idle()
                finish = lib.pc_sequence_finish(self._pointer)
        return finish

    # ---- What it has

    @property
    def tokens(self) -> List[int]:
        """Tokens behind the prompt so far, sampled and pushed."""
        with self._shared.lock:
            tokens = lib.pc_sequence_tokens(self._pointer, self._size)
            count = self._size[0]
            if not count:
                self._must_be_idle()
                return []
            ids: List[int] = ffi.unpack(tokens, count)
            return ids

    @property
    def text(self) -> str:
        """The final text of tokens that were sampled since the last push."""
        with self._shared.lock:
            text = lib.pc_sequence_text(self._pointer, self._size)
            size = self._size[0]
            if not size:
                self._must_be_idle()
                return ""
            return text_of(text, size)

    @property
    def finish(self) -> _api.Finish:
        """Why it ended; NONE while it runs."""
        return _api.Finish(self._finish())

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return bool(self._finish())

    @property
    def error(self) -> Optional[Error]:
        """The error that has finished it, or None."""
        with self._shared.lock:
            text = ffi.new("char **")
            status = lib.pc_sequence_error(self._pointer, text)
            if status == lib.PC_ERR_STATE:
                self._must_be_idle()
            return error_of(status, text_of(text[0])) if status < 0 else None

    @property
    def stats(self) -> _api.Stats:
        """Statistics of the request so far."""
        struct = new("pc_stats")
        with self._shared.lock:
            check(lib.pc_sequence_get_stats(self._pointer, struct))
        return _api.Stats(struct)

    @property
    def logits(self) -> Optional[NDArray[numpy.float32]]:
        """Logits behind all tokens but the last sampled one: the library's own memory, as a numpy
        array that cannot be written to. Read or copy it before the next step. None without
        `logits=True`, and before the first step."""
        from ._array import borrowed
        count = ffi.new("size_t *")
        with self._shared.lock:
            pointer = lib.pc_sequence_logits(self._pointer, count)
            if pointer == NULL:
                self._must_be_idle()
                return None
        logits: NDArray[numpy.float32] = borrowed(pointer, (count[0],), "float32", self._pointer)
        return logits

    # ---- What can be done with it

    def push(self, tokens: Union[str, Seq[int]] = ()) -> None:
        """Appends tokens, or text: forced ones, or a further turn. The next step computes them and
        samples behind them. A finished sequence that keeps its states goes on."""
        if isinstance(tokens, str):
            tokens = self.model.tokenize(tokens)
        with self._shared.lock:
            check(lib.pc_sequence_push(self._pointer, token_array(tokens), len(tokens)))

    @takes("pc_chat_options")
    def push_messages(self, messages: Seq[Message], **options: Unpack[_api.ChatOptions]) -> None:
        """Appends messages behind the answer so far, and opens the next answer."""
        array, count, keep = message_array(messages)
        made = Options("pc_chat_options", dict(options), call="push_messages")
        with self._shared.lock:
            check(lib.pc_sequence_push_messages(self._pointer, array, ffi.sizeof("pc_message"),
                                                count, made.c))
        del keep

    def truncate(self, count: int) -> None:
        """Drops all but the first `count` tokens behind the prompt. The next step samples behind
        the rest, as if there had never been more."""
        with self._shared.lock:
            check(lib.pc_sequence_truncate(self._pointer, count))

    @takes("pc_sampling")
    def fork(self, **sampling: Unpack[_api.Sampling]) -> Sequence:
        """A second continuation of everything so far, over the same memory. It joins the batch of
        this one. Its options are those of this one, but for sampling."""
        struct = new("pc_fork_options")
        drawn = None
        if sampling:
            drawn = Options("pc_sampling", dict(sampling), call="fork")
            struct.sampling = drawn.c
        with self._shared.lock:
            pointer = make(lib.pc_sequence_fork, "pc_sequence", self._pointer, struct)
            copy = Sequence._wrap(pointer, self.model, self._callbacks, (self._keep, drawn))
            copy._keeps = self._keeps
            if self._batch is not None:
                self._batch.add(copy)
        return copy

    @takes("pc_generate_options", "pc_sampling")
    def set_options(self, **options: Unpack[_api.GenerateOptions]) -> None:
        """Replaces sampling, limits, stops, callbacks, priority and deadline. Other options must
        be as they were, or left out; before the first step, those that are left out become the
        default, but for `keep`."""
        keywords: Any = dict(options)
        with self._shared.lock:
            if keywords.get("keep") is None:
                keywords["keep"] = self._keeps
            keeps = bool(keywords["keep"])
            made = generate_options(keywords, "set_options")
            check(lib.pc_sequence_set_options(self._pointer, made.c))
            self._keeps = keeps
            self._keep = (self._keep[0], self._keep[1], made)
            self._callbacks = made.callbacks

    def spans(self) -> List[Span]:
        """Its states as segments in place, so that other prompts can share them: all but tokens
        that are not computed yet."""
        with self._shared.lock:
            count = ffi.new("size_t *")
            check(lib.pc_sequence_spans(self._pointer, NULL, ffi.sizeof("pc_span"), 0, count))
            array = ffi.new("pc_span[]", count[0])
            check(lib.pc_sequence_spans(self._pointer, array, ffi.sizeof("pc_span"), count[0],
                                        count))
        return [Span(adopt_segment(item.segment, self.model), item.start, item.lo, item.hi)
                for item in array]

    def cancel(self) -> None:
        """Ends the turn soon, from any thread. The next push takes that back."""
        check(lib.pc_sequence_cancel(self._pointer))

    # ---- Saved under a key

    @takes("pc_save_options")
    def save(self, cache: Cache, key: bytes, **options: Unpack[_api.SaveOptions]) -> bool:
        """Saves tokens and states under a key of 32 bytes; saving again stores only what is new.
        Returns False if something had no room; the save before stays then."""
        made = Options("pc_save_options", dict(options), call="save")
        with self._shared.lock:
            return ok(lib.pc_sequence_save(self._pointer, pointer_of(cache, "Cache", "cache"),
                                           digest(key), made.c))

    @classmethod
    @takes("pc_generate_options", "pc_sampling")
    def load(cls, model: Model, cache: Cache, key: bytes, *,
             save: Optional[_api.SaveOptions] = None,
             **options: Unpack[_api.GenerateOptions]) -> Sequence:
        """The sequence that was saved under a key. Raises MissError, with `reason`.

        save: where to look for it (`salt`, `tiers`, `deadline_seconds`).
        """
        made = generate_options(dict(options), "load")
        saved = Options("pc_save_options", dict(save or {}), call="load")
        out, reason = ffi.new("pc_sequence **"), ffi.new("uint32_t *")
        status = check(lib.pc_sequence_load(out, pointer_of(model, "Model", "model"),
                                            pointer_of(cache, "Cache", "cache"), digest(key),
                                            made.c, saved.c, reason))
        if status == lib.PC_MISS:
            miss = MissError(f"no sequence is saved under this key: {_api.Reason(reason[0])}")
            miss.reason = _api.Reason(reason[0])
            raise miss
        return cls._wrap(out[0], model, made.callbacks, (None, cache, made))

    def close(self) -> None:
        """Removes it from its batch and frees it. Cancels it, and waits, if a `step_async` of the
        batch is under way."""
        while True:
            batch, pointer = self._batch, self._cdata
            step = batch._step if batch is not None else None
            if step is not None and pointer is not None and not step.done:
                lib.pc_sequence_cancel(pointer)
                step.wait()  # without the lock, which its callbacks may need
            with self._shared.lock:
                if self._batch is None or self._batch._may_close():
                    self._close()
                    return

    def _close(self) -> None:
        if self._batch is not None and self._cdata is not None:
            self._batch._sequences.pop(self._raw, None)
            batch = self._batch._cdata
            if batch is not None:  # an array over its logits may hold the object longer
                lib.pc_batch_remove(batch, self._cdata)
            self._batch = None
        super().close()

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        batch = self._batch
        if batch is not None and batch._step is not None:
            return "<promptcache.Sequence in a step>"
        return f"<promptcache.Sequence {self.text!r}, {self.finish}>"


class Batch(Handle):
    """Sequences of one model that are stepped together. States that several of them hold are read
    once for all. It holds its sequences until they are removed or closed; those that finish and do
    not keep their states leave it by themselves.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> batch = promptcache.Batch(model)
    >>> for name in ("Anna Reed", "Peter Novak"):
    ...     prompt = promptcache.Prompt.from_text(model, f"The desk of {name}")
    ...     _ = batch.add(promptcache.Sequence(prompt, max_tokens=3, keep=True))
    >>> while batch.step():
    ...     pass
    >>> [len(sequence.tokens) for sequence in batch.sequences]
    [3, 3]
    """

    _free = "pc_batch_free"

    @takes("pc_batch_options")
    def __init__(self, model: Model, **options: Unpack[_api.BatchOptions]) -> None:
        made = Options("pc_batch_options", dict(options), call="Batch")
        self._shared = _Lock()
        self._sequences: Dict[Any, Sequence] = {}
        self._changed: List[Sequence] = []
        self._step: Optional[Step] = None  # under way, or nobody has looked at its end yet
        self._count = ffi.new("size_t *")
        self.model = model
        super().__init__(make(lib.pc_batch_new, "pc_batch", pointer_of(model, "Model", "model"),
                              made.c), model)

    @property
    def sequences(self) -> List[Sequence]:
        """The sequences in it, in the order of joining."""
        with self._shared.lock:
            return list(self._sequences.values())

    def add(self, sequence: Sequence) -> Sequence:
        """Adds a sequence, and returns it."""
        pointer_of(sequence, "Sequence", "sequence")
        if sequence._batch not in (None, self):  # nobody ever waits with a batch's lock for another
            raise StateError("the sequence is in another batch: remove it there first",
                             lib.PC_ERR_STATE)
        with self._shared.lock, sequence._shared.lock:
            check(lib.pc_batch_add(self._pointer, sequence._pointer))
            sequence._shared.lock = self._shared.lock
            sequence._batch = self
            self._sequences[sequence._raw] = sequence
        return sequence

    def remove(self, sequence: Sequence) -> None:
        """Removes a sequence, which may go on in another batch."""
        pointer_of(sequence, "Sequence", "sequence")
        with self._shared.lock:
            check(lib.pc_batch_remove(self._pointer, sequence._pointer))
            self._forget(sequence)

    def _forget(self, sequence: Sequence) -> None:
        self._sequences.pop(sequence._raw, None)
        sequence._batch = None
        sequence._shared.lock = threading.RLock()

    def step(self) -> bool:
        """Computes one token for every unfinished sequence. Returns whether some go on. An error of
        a sequence finishes that one alone: see `changed` and `Sequence.error`. What a function of
        a sequence raises comes out of this call, when the step is over."""
        with self._shared.lock:
            if self._step is not None:
                raise StateError(_UNDER_WAY, lib.PC_ERR_STATE)
            status = lib.pc_batch_step(self._pointer)
            if self._cdata is not None:  # no callback has closed it
                self._settle()
        return bool(check(status) != _END)

    async def step_async(self) -> bool:
        """`step` for asyncio: a thread of the library does it, and the event loop goes on. Returns
        what `step` returns, and raises what it raises.

        Until the await is over, calls of the batch and of its sequences raise StateError. There are
        exceptions: `Sequence.cancel`, `sequences`, and `close`, which waits for the step (that of a
        sequence cancels it first). Functions of the sequences are called on the library's thread;
        in them the batch may be used as within `step`.

        If the task that awaits is cancelled, it waits for the rest of the step all the same: the
        batch is whole then, and can go on. Cancel sequences to have that end sooner.

        >>> import asyncio, promptcache
        >>> model = promptcache.Model.load("models/demo/demo.gguf")
        >>> async def main():
        ...     batch = promptcache.Batch(model)
        ...     prompt = promptcache.Prompt.from_text(model, "The desk of Anna Reed")
        ...     sequence = batch.add(promptcache.Sequence(prompt, max_tokens=3, keep=True))
        ...     while await batch.step_async():
        ...         pass  # here the sequence may be read and changed
        ...     return len(sequence.tokens)
        >>> asyncio.run(main())
        3
        """
        import asyncio  # only where it is used: importing it takes 20 ms
        step = self._start()
        cancelled: Optional[asyncio.CancelledError] = None
        try:
            while not cancelled or not step.done:
                try:
                    await step.ready()
                    break
                except asyncio.CancelledError as error:
                    cancelled = cancelled or error
        except BaseException:  # GeneratorExit: nobody will know how the step ends
            status, failure = self._end(step)
            if failure is not None:
                unraisable(type(failure), failure, failure.__traceback__)
            raise
        status, failure = self._end(step)
        if cancelled is not None:
            raise cancelled from failure
        if failure is not None:
            raise failure
        return bool(status != _END)

    def _start(self) -> Step:
        with self._shared.lock:
            if self._step is not None:
                raise StateError(_UNDER_WAY, lib.PC_ERR_STATE)
            self._step = step = Step()
            try:
                step.start(self._pointer)
            except BaseException:
                self._step = None
                raise
        return step

    def _end(self, step: Step) -> Tuple[int, Optional[BaseException]]:
        step.wait()
        with self._shared.lock:
            if self._cdata is not None:
                self._settle()
            self._step = None
        return step.end()

    def _must_be_idle(self) -> None:
        """Raises StateError while a step is under way, but in its callbacks."""
        step = self._step
        if step is not None and not step.here:
            raise StateError(_UNDER_WAY, lib.PC_ERR_STATE)

    def _settle(self) -> None:
        """Behind a step: what has changed, and who leaves."""
        array = lib.pc_batch_changed(self._cdata, self._count)
        count = self._count[0]
        found = [self._sequences.get(one) for one in ffi.unpack(array, count)] if count else []
        self._changed = [one for one in found if one is not None]
        for sequence in self._changed:
            if not sequence._keeps and lib.pc_sequence_finish(sequence._raw):
                lib.pc_batch_remove(self._cdata, sequence._raw)
                self._forget(sequence)

    def _may_close(self) -> bool:
        """With the lock: whether no step is under way, or this is a callback of it."""
        return self._step is None or self._step.done

    @property
    def changed(self) -> List[Sequence]:
        """The sequences that got a token or finished in the last step."""
        self._must_be_idle()
        return list(self._changed)

    def run(self) -> None:
        """Steps until all sequences are finished."""
        while self.step():
            pass

    async def run_async(self) -> None:
        """`run` for asyncio. From its first step to its last, only functions of the sequences can
        add further ones: a server awaits `step_async` in a loop, and adds between steps."""
        while await self.step_async():
            pass

    @property
    def stats(self) -> _api.BatchStats:
        """What the next step reads."""
        struct = new("pc_batch_stats")
        with self._shared.lock:
            check(lib.pc_batch_get_stats(self._pointer, struct))
        return _api.BatchStats(struct)

    def close(self) -> None:
        """Frees it; its sequences stay, in no batch. Waits for a `step_async` that is under way."""
        while True:
            step = self._step
            if step is not None:
                step.wait()  # without the lock, which its callbacks may need
            with self._shared.lock:
                if self._may_close():
                    for sequence in list(self._sequences.values()):
                        sequence._batch = None
                    self._sequences.clear()
                    self._changed = []
                    super().close()
                    return

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        return f"<promptcache.Batch {len(self._sequences)} sequences>"


@takes("pc_save_options")
def forget_sequence(model: Model, cache: Cache, key: bytes,
                    **options: Unpack[_api.SaveOptions]) -> bool:
    """Removes what was saved under a key. Returns whether there was something."""
    made = Options("pc_save_options", dict(options), call="forget_sequence")
    return ok(lib.pc_sequence_forget(pointer_of(model, "Model", "model"),
                                     pointer_of(cache, "Cache", "cache"), digest(key), made.c))
