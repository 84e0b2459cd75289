"""Attention states that are computed once and reused: the Python package of promptcache.

>>> import promptcache
>>> model = promptcache.Model.load("models/demo/demo.gguf")
>>> schema = promptcache.Schema.load(model, "examples/pml/employees.pml")
>>> prompt = promptcache.Prompt.load(schema, "examples/pml/employees-prompt.pml")
>>> cache = promptcache.Cache()
>>> for text in prompt.stream(cache):
...     print(text, end="")
The desk of Peter Novak is 368.
"""
from . import _api, _errors, attention
from ._admin import Folder, ModelFile, Systems
from ._api import *  # noqa: F403
from ._batch import Batch, Sequence, forget_sequence
from ._cache import Cache, Load, Wanted, base_key, segment_key
from ._compute import Embeddings, Evaluated, Lane, Prefilled, embed, evaluate, prefill
from ._context import Context, plugins
from ._errors import *  # noqa: F403
from ._generate import Answer, Stream
from ._grammar import Grammar
from ._memo import Memo
from ._messages import Message
from ._model import Model
from ._prompt import Prompt, PromptBuilder, format_chat
from ._raw import ffi as _ffi
from ._raw import lib as _lib
from ._schema import Schema, SchemaBuilder
from ._segment import Pages, Segment, Span, States
from .programs import Program, ProgramError, ProgramPrompt, prompt_program

__version__: str = _ffi.string(_lib.pc_version()).decode()

__all__ = [
    "Answer", "Batch", "Cache", "Context", "Embeddings", "Evaluated", "Folder", "Grammar", "Lane",
    "Load", "Memo", "Message", "Model", "ModelFile", "Pages", "Prefilled", "Program",
    "ProgramError", "ProgramPrompt", "Prompt", "PromptBuilder", "Schema", "SchemaBuilder",
    "Segment", "Sequence", "Span", "States", "Stream", "Systems", "Wanted", "attention", "base_key",
    "embed", "evaluate", "forget_sequence", "format_chat", "plugins", "prefill", "prompt_program",
    "segment_key",
    *_api.__all__, *_errors.__all__,
]
