"""Model: weights and tokenizer."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

from . import _api
from ._context import Context
from ._core import (NULL, Handle, Options, c_string, c_text, check, integers, make, new,
                    pointer_of, takes)
from ._raw import ffi, lib

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

__all__ = ["Model"]

# Constants and types, read once: these calls are short.
_SPECIAL, _BOS, _LIMIT = lib.PC_TOKENIZE_SPECIAL, lib.PC_TOKENIZE_BOS, lib.PC_ERR_LIMIT
_SIZE, _IDS, _TEXT = (ffi.typeof(one) for one in ("size_t *", "int32_t[]", "char[]"))


class Model(Handle):
    """A model. It cannot be changed, so any threads may use it at once.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> model.info.architecture
    'llama'
    >>> model.detokenize(model.tokenize("The desk of Anna Reed"))
    'The desk of Anna Reed'
    """

    _free = "pc_model_free"

    def __init__(self, *_: object) -> None:
        raise TypeError("a model is made by Model.load")

    @classmethod
    def _from_pointer(cls, pointer: Any, keep: Any = None) -> Model:
        """The model around a `pc_model *`, which it frees. keep: objects that must live as long."""
        made = cls.__new__(cls)
        Handle.__init__(made, pointer, keep)
        made._info = None
        return made

    @classmethod
    def _borrowed(cls, pointer: Any, owner: Any) -> Model:
        """The model around a pointer that `owner` keeps alive."""
        made = cls.__new__(cls)
        made._cdata, made._keep, made._info = pointer, owner, None
        return made

    _info: Optional[_api.ModelInfo]

    @classmethod
    @takes("pc_model_options")
    def load(cls, path: Union[str, PathLike[str]], *, context: Optional[Context] = None,
             **options: Unpack[_api.ModelOptions]) -> Model:
        """Loads a model: a GGUF file, a Hugging Face folder, or a llama2.c checkpoint.

        Raises NotFoundError, FormatError (with file and offset), UnsupportedError (what the
        library cannot compute exactly), CancelledError.
        """
        context = context or Context.default()
        made = Options("pc_model_options", dict(options), call="load")
        made.interruptible()
        pointer = make(lib.pc_model_load, "pc_model", pointer_of(context, "Context", "context"),
                       c_string(path, "path"), made.c)
        return cls._from_pointer(pointer, context)

    @property
    def info(self) -> _api.ModelInfo:
        """What the model is: shapes, special tokens, sizes."""
        if self._info is None:
            struct = new("pc_model_info")
            check(lib.pc_model_get_info(self._pointer, struct))
            self._info = _api.ModelInfo(struct).copied()
        return self._info

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> List[int]:
        """Text to token ids.

        special: the text of a special token becomes that token. bos: adds BOS and EOS by the
        model's convention.
        """
        raw = c_text(text)
        flags = (_SPECIAL if special else 0) | (_BOS if bos else 0)
        count = ffi.new(_SIZE)
        room = len(raw) + 16
        while True:
            tokens = ffi.new(_IDS, room)
            status = lib.pc_tokenize(self._pointer, raw, len(raw), flags, tokens, room, count)
            if status != _LIMIT or count[0] <= room:
                check(status)
                ids: List[int] = ffi.unpack(tokens, count[0])
                return ids
            room = count[0]

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Token ids to text. Special tokens are left out unless `special` is set."""
        return self.detokenize_bytes(tokens, special=special).decode("utf-8", "replace")

    def detokenize_bytes(self, tokens: Sequence[int], *, special: bool = False) -> bytes:
        """The same as bytes, which need not end with a whole character."""
        ids = token_array(tokens)
        flags = _SPECIAL if special else 0
        size = ffi.new(_SIZE)
        room = len(tokens) * 8 + 16
        while True:
            text = ffi.new(_TEXT, room)
            status = lib.pc_detokenize(self._pointer, ids, len(tokens), flags, text, room, size)
            if status != _LIMIT or size[0] <= room:
                check(status)
                return bytes(ffi.buffer(text, size[0]))
            room = size[0]

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        info = self.info
        return (f"<promptcache.Model {info.architecture}, {info.layers} layers, "
                f"{info.vocab} tokens, {info.weight_bytes / 1e6:.1f} MB>")


def token_array(tokens: Any, count: Optional[int] = None) -> Any:
    """Token ids as an array of C: a numpy array of int32 as it is, others copied. count: how many
    there must be."""
    if count is not None and len(tokens) != count:
        raise ValueError(f"token types: {len(tokens)} of {count} tokens")
    if getattr(tokens, "dtype", None) is not None:
        try:
            raw = memoryview(tokens)
        except TypeError:  # a tensor
            pass
        else:
            if raw.format == "i" and raw.contiguous and raw.ndim == 1 and len(raw):
                return ffi.from_buffer("int32_t[]", tokens)
        tokens = tokens.tolist()
    ids = integers("int32_t[]", tokens, "tokens", count)
    return ids if len(tokens) else NULL
