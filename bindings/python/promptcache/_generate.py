"""Answers: all at once, or as a stream of text."""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from . import _api, _html
from ._core import check, raise_pending
from ._errors import CancelledError
from ._raw import ffi, lib

if TYPE_CHECKING:
    import asyncio  # at run time only where it is used: importing it takes 20 ms

    from ._cache import Cache
    from ._prompt import Prompt

__all__ = ["Answer", "Stream"]

#: A piece of a stream has the tokens of this time, of small models several.
WAIT_US = 4000


class Answer:
    """What a prompt was answered. `str(answer)` is its text."""

    def __init__(self, pieces: List[List[str]], tokens: List[_api.Token],
                 stats: _api.Stats) -> None:
        self._pieces = pieces
        #: Drawn tokens with their log-probabilities; empty unless `top_logprobs` or `on_token` is
        #: among the options.
        self.tokens = tokens
        #: Where the tokens came from, and what took how long.
        self.stats = stats

    @property
    def text(self) -> str:
        """The text of the first sample."""
        return "".join(self._pieces[0])

    @property
    def texts(self) -> List[str]:
        """The texts of all samples."""
        return ["".join(pieces) for pieces in self._pieces]

    @property
    def finish(self) -> _api.Finish:
        """Why the first sample ended."""
        return self.stats.finish

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return (f"<promptcache.Answer {self.text!r}, {self.stats.tokens_cached} of "
                f"{self.stats.tokens_prompt} tokens from the cache, {self.finish}>")

    def _repr_html_(self) -> str:
        return _html.answer_html(self)


class _Run:
    """The sequence of a stream, in a batch of its own. What a thread of the stream holds."""

    step = staticmethod(lib.pcpy_stream)

    def __init__(self, prompt: Prompt, cache: Optional[Cache], keywords: Dict[str, Any]) -> None:
        from ._batch import Batch, Sequence
        if (keywords.get("samples") or 1) != 1:
            raise ValueError("samples: a stream has one; use generate, or fork a sequence")
        self.lock = threading.RLock()
        self.sequence = Sequence(prompt, cache, **keywords)
        self.batch = Batch(prompt.model)
        self.batch.add(self.sequence)
        self.done = 0  # bytes of the text that somebody has got
        self.stepping = self.closing = False
        self.said = ""
        self.stats: Optional[_api.Stats] = None
        self.error: Optional[BaseException] = None

    def pieces(self) -> Iterator[str]:
        """The text, piece by piece."""
        lock, step, buffer = self.lock, self.step, ffi.buffer
        text, size = ffi.new("char **"), ffi.new("size_t *")
        while self.stats is None:
            with lock:
                if self.stats is not None:  # closed by another thread
                    break
                done, self.stepping = self.done, True
                status = step(self.batch._cdata, self.sequence._cdata, done, text, size, WAIT_US)
                now = size[0]
                piece = buffer(text[0], now)[done:] if now > done else b""
                self.done, self.stepping = now, False
                if status or self.closing:
                    self._end(status)
            if piece:
                yield piece.decode("utf-8", "replace")
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _end(self, status: int) -> None:
        try:
            if not status:  # closed within a step that has not seen that
                status = lib.pc_batch_step(self.batch._pointer)
            check(status)
            error: Optional[BaseException] = self.sequence.error
        except BaseException as raised:
            error = raised
        self._finish(None if self.closing and isinstance(error, CancelledError) else error)

    def _finish(self, error: Optional[BaseException]) -> None:
        self.said = self.sequence.text
        self.stats = self.sequence.stats
        self.error = error
        self.batch.close()
        self.sequence.close()

    def text(self) -> str:
        with self.lock:
            if self.stats is None:
                text: str = self.sequence.text
                return text
            return self.said

    def cancel(self) -> None:
        sequence = self.sequence._cdata
        if sequence is not None:
            lib.pc_sequence_cancel(sequence)

    def close(self) -> None:
        self.cancel()
        with self.lock:
            if self.stepping:  # by a function that the step calls: it ends behind it
                self.closing = True
            elif self.stats is None:
                lib.pc_batch_step(self.batch._pointer)  # which only sees that it was cancelled
                self._finish(None)
                raise_pending()


def _pump(run: _Run, loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[Any]) -> None:
    """The thread of `async for`: gives pieces to the loop."""
    def give(item: Any) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, item)
        except RuntimeError:  # the loop was closed: nobody waits any more
            run.cancel()
    try:
        for piece in run.pieces():
            give(piece)
        give(None)
    except BaseException as error:
        give(error)


class Stream:
    """An answer as it is computed: iterate over it, with `for` or `async for`.

    The prompt is computed with the first piece, which is the first token's text. Tokens that come
    within 4 ms are one piece. Leaving the loop early and dropping the stream,
    `close`, or the end of a `with` end the work. Of several answers at a time, `Batch` computes
    more in the same time.
    """

    def __init__(self, prompt: Prompt, cache: Optional[Cache], keywords: Dict[str, Any]) -> None:
        self._run = _Run(prompt, cache, keywords)
        self._pieces = self._run.pieces()
        self._queue: Optional[asyncio.Queue[Any]] = None

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def __next__(self) -> str:
        return next(self._pieces)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        import asyncio
        if self._queue is None:
            self._queue = asyncio.Queue()
            threading.Thread(target=_pump, daemon=True, name="promptcache stream",
                             args=(self._run, asyncio.get_running_loop(), self._queue)).start()
        try:
            piece = await self._queue.get()
        except asyncio.CancelledError:
            self._run.cancel()
            raise
        if piece is None or isinstance(piece, BaseException):
            self._queue.put_nowait(None)  # so that later calls end, too
        if isinstance(piece, BaseException):
            raise piece
        if piece is None:
            raise StopAsyncIteration
        return str(piece)

    @property
    def text(self) -> str:
        """The text so far."""
        return self._run.text()

    @property
    def stats(self) -> _api.Stats:
        """Statistics so far."""
        with self._run.lock:
            return self._run.stats or self._run.sequence.stats

    @property
    def finish(self) -> _api.Finish:
        """Why it ended; NONE while it runs."""
        return self.stats.finish

    def cancel(self) -> None:
        """Ends it soon, from any thread. The loop over it then raises CancelledError."""
        self._run.cancel()

    def close(self) -> None:
        """Ends it; the loop over it then ends."""
        self._run.close()

    async def aclose(self) -> None:
        """The same for `async`."""
        import asyncio
        self._run.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._run.close)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self.__dict__.get("_queue") is not None:  # a thread computes for nobody
            self._run.cancel()

    def __repr__(self) -> str:
        return f"<promptcache.Stream {self.text!r}, {self.finish}>"
