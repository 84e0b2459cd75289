"""Memo: attention maps of earlier prompts."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Sequence, Union

from . import _api
from ._compute import Input, input_array
from ._core import NULL, Handle, Options, c_string, check, new, pointer_of, takes
from ._errors import StateError
from ._model import Model
from ._raw import ffi, lib

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

__all__ = ["Memo"]


class Memo(Handle):
    """The attention maps of earlier prompts, in a folder. A prompt that resembles a stored one of
    the same length reuses its maps; the result is approximate and says so. Any threads may use it.

    >>> import promptcache, tempfile
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> with tempfile.TemporaryDirectory() as folder, promptcache.Memo(model, folder) as memo:
    ...     memo.add([[5, 6, 7, 8]])
    ...     [result] = promptcache.prefill(model, [[5, 6, 7, 8]], memo=memo).results
    ...     result.reuse
    <Reuse.OUTPUT: 2>
    """

    _free = "pc_memo_free"

    @takes("pc_memo_options")
    def __init__(self, model: Model, folder: Union[str, PathLike[str]],
                 **options: Unpack[_api.MemoOptions]) -> None:
        made = Options("pc_memo_options", dict(options), call="Memo")
        out = ffi.new("pc_memo **")
        status = check(lib.pc_memo_open(out, pointer_of(model, "Model", "model"),
                                        c_string(folder, "folder"), made.c))
        if status == lib.PC_AGAIN:
            raise StateError("another process is adding to this memo; read_only=True works",
                             lib.PC_ERR_STATE)
        self.model = model
        super().__init__(out[0], (model, made.callbacks))

    def _work(self, call: Any, inputs: Any, options: Any) -> None:
        made = Options("pc_memo_work", options, call="Memo")
        made.interruptible()
        if inputs is None:
            check(call(self._pointer, made.c))
            return
        array, keep = input_array(inputs)
        check(call(self._pointer, array, ffi.sizeof("pc_input"), len(inputs), made.c))
        del keep

    @takes("pc_memo_work")
    def add(self, inputs: Sequence[Input], **options: Unpack[_api.MemoWork]) -> None:
        """Computes inputs in full and stores their maps and outputs. An input is a list of token
        ids, or a pair of these and token types."""
        self._work(lib.pc_memo_add, inputs, dict(options))

    @takes("pc_memo_work")
    def train(self, **options: Unpack[_api.MemoWork]) -> None:
        """Trains the projectors of all buckets with at least 32 records."""
        self._work(lib.pc_memo_train, None, dict(options))

    @takes("pc_memo_work")
    def tune(self, inputs: Sequence[Input], **options: Unpack[_api.MemoWork]) -> None:
        """Sets each bucket's threshold so that the loss stays within `limit`. The inputs must not
        be among those stored."""
        self._work(lib.pc_memo_tune, inputs, dict(options))

    def tidy(self) -> None:
        """Compresses cold records and gives unused room back to the file system."""
        check(lib.pc_memo_tidy(self._pointer))

    @property
    def buckets(self) -> List[_api.MemoBucket]:
        """The buckets, by length of prompts."""
        found = []
        for index in range(lib.pc_memo_bucket_count(self._pointer)):
            struct = new("pc_memo_bucket")
            check(lib.pc_memo_get_bucket(self._pointer, index, struct))
            found.append(_api.MemoBucket(struct))
        return found

    def set_threshold(self, index: int, threshold: float, *,
                      loss: Union[_api.Loss, str] = _api.Loss.COSINE,
                      hit_limit: float = 0) -> None:
        """Sets a bucket's threshold by your own measure, and opens it; above 1 closes it.
        hit_limit: mean loss of verified hits above which it closes; 0: not watched."""
        check(lib.pc_memo_set_threshold(self._pointer, index, threshold, _api.Loss.of(loss),
                                        hit_limit, NULL))

    @property
    def stats(self) -> _api.MemoStats:
        """Counters since it was opened."""
        struct = new("pc_memo_stats")
        check(lib.pc_memo_get_stats(self._pointer, struct))
        return _api.MemoStats(struct)

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        return f"<promptcache.Memo {self.stats.live} records>"
