"""Models of Hugging Face Transformers that compute for promptcache.

`Host(model, tokenizer)` puts any causal language model of transformers with a `DynamicCache`
behind the library: prompts, modules, conversations, batches and all tiers work as with a model that
the library loads itself. What the model is, is measured when the Host is made; a model that would
not compute the same is refused (`Refused`) with the reason. See doc/transformers.md."""
from __future__ import annotations

from typing import Any, List, Optional

from .. import _core
from .._context import Context
from .._model import Model
from . import check, operations
from .errors import Refused
from .fingerprint import fingerprint as fingerprint_of
from .passes import Passes
from .text import Text

__all__ = ["Host", "Refused"]


class Host:
    """A model of transformers, and `model`: the same as a `promptcache.Model`.

    tokenizer: of transformers; without it prompts are token ids. chat_template: in place of the
    tokenizer's own. context_length: most positions, if fewer than the model's. fingerprint: 32
    bytes that name the weights; they are digested if it is None, at about a second for each GB.
    Weights must not change afterwards.

    stop_tokens: the end tokens that the model's generation_config names. The library knows the
    tokenizer's `eos_token` and those of the chat template without being told."""

    def __init__(self, model: Any, tokenizer: Any = None, context: Optional[Context] = None, *,
                 chat_template: Optional[str] = None, context_length: int = 0,
                 fingerprint: Optional[bytes] = None) -> None:
        passes = Passes(model)
        if passes.dtype not in operations.DTYPES:
            raise Refused(f"its numbers are {passes.dtype}: float32, bfloat16 or float16 are known")
        engine = check.prove(passes, context_length)
        text = None if tokenizer is None else Text(tokenizer)
        name = (fingerprint_of(model, passes.body) if fingerprint is None
                else _core.digest(fingerprint))
        own = operations.Own(engine, text, name)
        options = _core.Options("pc_model_options", {
            "chat_template": text.template(chat_template) if text else chat_template})
        context = context or Context.default()
        pointer = operations.model_of(own, context._pointer, options.c)
        self.model = Model._from_pointer(pointer, context)
        self._facts, self._passes, self._own = engine.facts, passes, own
        ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
        self.stop_tokens: List[int] = [ends] if isinstance(ends, int) else list(ends or ())

    @property
    def relocatable(self) -> bool:
        """Whether states may stand elsewhere than where they were computed."""
        return self._facts.relocatable

    @property
    def why_fixed(self) -> str:
        """Why they may not; "" if they may."""
        return self._facts.why_fixed

    @property
    def batches(self) -> bool:
        """Whether several sequences are computed in one pass."""
        return self._passes.batches

    def __repr__(self) -> str:
        return f"<promptcache.transformers.Host {self.model!r}>"
