"""Prompt: what is to be answered, and of which parts it is made."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple, Union

from . import _api, _html
from ._core import (Callbacks, Handle, Options, c_string, c_text, check, make, new,
                    optional_pointer, pointer_of, split, takes)
from ._generate import Answer, Stream
from ._messages import Message, message_array
from ._model import Model, token_array
from ._raw import ffi, lib
from ._schema import Open, Schema
from ._segment import Span, span_array

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

    from ._cache import Cache

__all__ = ["Prompt", "PromptBuilder", "format_chat"]


def _schema_array(schemas: Union[Schema, Sequence[Schema]]) -> Tuple[Any, List[Schema]]:
    listed: Any = list(schemas) if isinstance(schemas, (list, tuple)) else [schemas]
    return ffi.new("pc_schema *[]", [pointer_of(schema, "Schema", "schema")
                                     for schema in listed]), listed


class Prompt(Handle):
    """A prompt. It cannot be changed, so any threads may answer it at once.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> schema = promptcache.Schema.load(model, "examples/pml/employees.pml")
    >>> prompt = promptcache.Prompt.load(schema, "examples/pml/employees-prompt.pml")
    >>> prompt.generate().text
    'The desk of Peter Novak is 368.'
    """

    _free = "pc_prompt_free"
    model: Model
    """The model that answers it."""
    schema: Optional[Schema]
    """A schema that its modules may come from; None: it has none."""

    def __init__(self, *_: object) -> None:
        raise TypeError("a prompt is made by Prompt.load, parse, fill, from_text, from_tokens, "
                        "from_messages, from_spans or a PromptBuilder")

    @classmethod
    def _from_pointer(cls, pointer: Any, model: Any, schema: Optional[Schema] = None,
                      keep: Any = None) -> Prompt:
        made = cls.__new__(cls)
        Handle.__init__(made, pointer, keep)
        made.model = model
        made.schema = schema
        return made

    # ---- Made of PML

    @classmethod
    @takes("pc_prompt_options")
    def load(cls, schema: Union[Schema, Sequence[Schema]], path: Union[str, PathLike[str]],
             **options: Unpack[_api.PromptOptions]) -> Prompt:
        """Parses a PML file. schema: the one that the prompt names, or several to choose from.
        Raises PMLError with line and column."""
        array, listed = _schema_array(schema)
        made = Options("pc_prompt_options", dict(options), call="load")
        pointer = make(lib.pc_prompt_load, "pc_prompt", array, len(listed),
                       c_string(path, "path"), made.c)
        return cls._from_pointer(pointer, listed[0].model, listed[0], listed)

    @classmethod
    @takes("pc_prompt_options")
    def parse(cls, schema: Union[Schema, Sequence[Schema]], text: str,
              **options: Unpack[_api.PromptOptions]) -> Prompt:
        """Parses PML. Raises PMLError with line and column.

        >>> import promptcache
        >>> model = promptcache.Model.load("models/demo/demo.gguf")
        >>> schema = promptcache.Schema.parse(
        ...     model, '<schema name="s"><module name="a">One.</module></schema>')
        >>> try:
        ...     promptcache.Prompt.parse(schema, '<prompt schema="s"><b/></prompt>')
        ... except promptcache.PMLError as error:
        ...     print(error.line, error.column)
        1 20
        """
        array, listed = _schema_array(schema)
        raw = c_text(text)
        made = Options("pc_prompt_options", dict(options), call="parse")
        pointer = make(lib.pc_prompt_parse, "pc_prompt", array, len(listed), raw, len(raw), made.c)
        return cls._from_pointer(pointer, listed[0].model, listed[0], listed)

    # ---- Made without PML

    @classmethod
    def fill(cls, schema: Schema, text: Union[str, Sequence[int]]) -> Prompt:
        """A prompt of a schema without PML: its anonymous texts, then this text (or these tokens)
        in the user slot, or at the end if there is none."""
        if isinstance(text, (str, bytes)):
            raw = c_text(text)
            pointer = make(lib.pc_prompt_fill, "pc_prompt", pointer_of(schema, "Schema", "schema"),
                           raw, len(raw), Options("pc_prompt_options", {}).c)
        else:
            pointer = make(lib.pc_prompt_fill_tokens, "pc_prompt",
                           pointer_of(schema, "Schema", "schema"),
                           token_array(text), len(text), Options("pc_prompt_options", {}).c)
        return cls._from_pointer(pointer, schema.model, schema)

    @classmethod
    def from_text(cls, model: Model, text: str, *, special: bool = False,
                  bos: bool = True) -> Prompt:
        """A prompt of text. It reuses any beginning that an earlier prompt has in common with it.

        special: the text of a special token becomes that token; not for text that others have
        written. bos: BOS and EOS are added by the model's convention.
        """
        raw = c_text(text)
        made = Options("pc_prompt_options", {"special": special, "no_bos": not bos})
        return cls._from_pointer(make(lib.pc_prompt_from_text, "pc_prompt",
                                      pointer_of(model, "Model", "model"), raw, len(raw),
                                      made.c), model)

    @classmethod
    def from_tokens(cls, model: Model, tokens: Sequence[int]) -> Prompt:
        """A prompt of token ids, as they are."""
        made = Options("pc_prompt_options", {})
        return cls._from_pointer(make(lib.pc_prompt_from_tokens, "pc_prompt",
                                      pointer_of(model, "Model", "model"), token_array(tokens),
                                      len(tokens), made.c), model)

    @classmethod
    @takes("pc_chat_options")
    def from_messages(cls, model: Model, messages: Sequence[Message],
                      **options: Unpack[_api.ChatOptions]) -> Prompt:
        """A conversation, by the model's chat template. Messages may name modules of `schema`,
        whose texts then stand in front of their content, from the cache.

        >>> import promptcache
        >>> model = promptcache.Model.load("models/demo/demo.gguf")
        >>> schema = promptcache.Schema.load(model, "examples/pml/employees.pml")
        >>> names = [item.path for item in schema.items
        ...          if item.kind is promptcache.ItemKind.MODULE]
        >>> prompt = promptcache.Prompt.from_messages(model, [
        ...     {"role": "system", "content": "", "modules": names},
        ...     {"role": "user", "content": "What is the desk of Anna Reed?"}], schema=schema)
        >>> prompt.generate().text.startswith("The desk of Anna Reed is ")
        True
        """
        array, count, keep = message_array(messages)
        made = Options("pc_chat_options", dict(options), call="from_messages")
        pointer = make(lib.pc_prompt_from_messages, "pc_prompt",
                       pointer_of(model, "Model", "model"), array, ffi.sizeof("pc_message"), count,
                       made.c)
        del keep
        return cls._from_pointer(pointer, model, options.get("schema"))

    @classmethod
    def from_spans(cls, model: Model, spans: Sequence[Union[Span, Tuple[Any, ...]]], start: int,
                   tokens: Sequence[int] = ()) -> Prompt:
        """A prompt of given segments and new tokens, which stand at `start`, behind all spans.

        >>> import promptcache
        >>> model = promptcache.Model.load("models/demo/demo.gguf")
        >>> tokens = model.tokenize("The desk of Anna Reed")
        >>> [result] = promptcache.evaluate(model, [tokens], logits=False, segments=True)
        >>> spans = [promptcache.Span(result.segment, start=0)]
        >>> prompt = promptcache.Prompt.from_spans(model, spans, len(tokens))
        >>> plain = promptcache.Prompt.from_tokens(model, tokens)
        >>> prompt.generate(max_tokens=4).text == plain.generate(max_tokens=4).text
        True
        """
        made = Options("pc_prompt_options", {})
        array = span_array(spans)
        pointer = make(lib.pc_prompt_from_spans, "pc_prompt", pointer_of(model, "Model", "model"),
                       array, ffi.sizeof("pc_span"), len(spans), start, token_array(tokens),
                       len(tokens), made.c)
        return cls._from_pointer(pointer, model)

    # ---- What it is made of

    @property
    def parts(self) -> List[_api.Part]:
        """Tokens by where they come from, in the order of positions."""
        parts = []
        for index in range(lib.pc_prompt_part_count(self._pointer)):
            struct = new("pc_part")
            check(lib.pc_prompt_get_part(self._pointer, index, struct))
            parts.append(_api.Part(struct).copied())
        return parts

    @property
    def tokens(self) -> List[int]:
        """All tokens, in the order of parts."""
        return [token for part in self.parts for token in part.tokens]

    # ---- Answers

    @takes("pc_generate_options", "pc_sampling")
    def generate(self, cache: Optional[Cache] = None,
                 **options: Unpack[_api.GenerateOptions]) -> Answer:
        """Answers it: looks its modules up in the cache, encodes missing ones, computes the new
        tokens and samples until a stop.

        What a function raises that was given as an option comes out of this call. So does
        KeyboardInterrupt, soon after Ctrl-C.

        >>> import promptcache
        >>> model = promptcache.Model.load("models/demo/demo.gguf")
        >>> prompt = promptcache.Prompt.from_text(model, "The desk of Anna Reed")
        >>> answer = prompt.generate(promptcache.Cache(), max_tokens=4, temperature=0.5, seed=1)
        >>> answer.stats.tokens_generated, str(answer.stats.finish)
        (4, 'length')
        """
        return generate(self, cache, dict(options))

    @takes("pc_generate_options", "pc_sampling")
    def stream(self, cache: Optional[Cache] = None,
               **options: Unpack[_api.GenerateOptions]) -> Stream:
        """As `generate`, but gives the text piece by piece: `for text in prompt.stream():` and
        `async for text in prompt.stream():`.

        >>> import promptcache
        >>> model = promptcache.Model.load("models/demo/demo.gguf")
        >>> prompt = promptcache.Prompt.from_text(model, "The desk of Anna Reed")
        >>> stream = prompt.stream(max_tokens=4)
        >>> text = "".join(stream)
        >>> text == stream.text, stream.stats.tokens_generated
        (True, 4)
        """
        return Stream(self, cache, dict(options))

    def astream(self, cache: Optional[Cache] = None,
                **options: Unpack[_api.GenerateOptions]) -> Stream:
        """The same as `stream`, for those who look for this name: `async for`."""
        return Stream(self, cache, dict(options))

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        return f"<promptcache.Prompt {sum(len(part.tokens) for part in self.parts)} tokens>"

    def _repr_svg_(self) -> str:
        return _html.prompt_svg(self)


def generate(prompt: Prompt, cache: Optional[Cache], keywords: Any) -> Answer:
    """Prompt.generate."""
    texts: List[List[str]] = [[]]
    tokens: List[_api.Token] = []
    told, told_token = keywords.get("on_text"), keywords.get("on_token")
    for name, function in (("on_text", told), ("on_token", told_token)):
        if function is not None and not callable(function):
            raise TypeError(f"{name}: a function is needed, not {type(function).__name__}")

    def room(sample: int) -> None:
        while len(texts) <= sample:
            texts.append([])

    def on_text(sample: int, text: str) -> Any:
        room(sample)
        texts[sample].append(text)
        return told(sample, text) if told else None

    def on_token(token: _api.Token) -> Any:
        tokens.append(token)
        return told_token(token) if told_token else None

    keywords["on_text"] = on_text
    if told_token or keywords.get("top_logprobs"):
        keywords["on_token"] = on_token
    made = generate_options(keywords, "generate")
    stats = new("pc_stats")
    answer = Answer(texts, tokens, _api.Stats(stats))
    try:
        check(lib.pc_generate(prompt._pointer, optional_pointer(cache, "Cache", "cache"), made.c,
                              stats))
        room(int(made.c.samples) - 1)
    except Exception as error:
        if hasattr(error, "answer"):
            error.answer = answer
        raise
    return answer


def generate_options(keywords: Any, call: str, callbacks: Optional[Callbacks] = None) -> Options:
    """Options of pc_generate and of sequences, with those of sampling."""
    sampling = split(keywords, "pc_sampling")
    made = Options("pc_generate_options", keywords, call=call, callbacks=callbacks,
                   near=_api.TAKES["pc_sampling"])
    if sampling:
        drawn = Options("pc_sampling", sampling, call=call)
        made.keep.append(drawn)
        made.c.sampling = drawn.c
    made.interruptible()
    return made


class PromptBuilder(Handle):
    """Makes a prompt of a schema without PML.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> schema = promptcache.Schema.load(model, "examples/pml/employees.pml")
    >>> modules = [item.path for item in schema.items
    ...            if item.kind is promptcache.ItemKind.MODULE]
    >>> builder = promptcache.PromptBuilder(schema)
    >>> prompt = builder.use(modules[0]).text("Who is this?").prompt()
    >>> modules[0] in [part.path for part in prompt.parts]
    True
    """

    _free = "pc_prompt_builder_free"

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        super().__init__(make(lib.pc_prompt_builder_new, "pc_prompt_builder",
                              pointer_of(schema, "Schema", "schema")))

    def use(self, module: str, **arguments: str) -> PromptBuilder:
        """Uses a module (a path: "trip/hotel"), with arguments for its parameters."""
        check(lib.pc_prompt_builder_use(self._pointer, c_string(module, "module")))
        for name, text in arguments.items():
            self.argument(name, text)
        return self

    def argument(self, parameter: str, text: str) -> PromptBuilder:
        """An argument for a parameter of the module that was used last."""
        raw = c_text(text)
        check(lib.pc_prompt_builder_add_argument(self._pointer, c_string(parameter, "parameter"),
                                                 raw, len(raw)))
        return self

    def text(self, text: str, *, special: bool = False) -> PromptBuilder:
        """Adds text. special: the text of a special token becomes that token."""
        raw = c_text(text)
        check(lib.pc_prompt_builder_add_text(self._pointer, raw, len(raw),
                                             lib.PC_PROMPT_SPECIAL if special else 0))
        return self

    def turn(self, role: str) -> Open:
        """Opens a turn: "system", "user" or "assistant"; the end of the `with` closes it."""
        check(lib.pc_prompt_builder_begin_turn(self._pointer, c_string(role, "role")))
        return Open(self)

    def _end(self) -> None:
        check(lib.pc_prompt_builder_end(self._pointer))

    def prompt(self, *, overlap: bool = False) -> Prompt:
        """The prompt of what the builder has; it may go on afterwards. overlap: several members of
        a union at once."""
        made = Options("pc_prompt_options", {"overlap": overlap})
        return Prompt._from_pointer(make(lib.pc_prompt_from_builder, "pc_prompt", self._pointer,
                                         made.c), self.schema.model, self.schema)


@takes("pc_chat_options")
def format_chat(model: Model, messages: Sequence[Message],
                **options: Unpack[_api.ChatOptions]) -> str:
    """The text of a conversation as the model's chat template writes it.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> "Hello" in promptcache.format_chat(model, [{"role": "user", "content": "Hello"}])
    True
    """
    array, count, keep = message_array(messages)
    made = Options("pc_chat_options", dict(options), call="format_chat")
    size = ffi.new("size_t *")
    arguments = (pointer_of(model, "Model", "model"), array, ffi.sizeof("pc_message"), count,
                 made.c)
    check(lib.pc_chat_format(*arguments, ffi.NULL, 0, size))
    text = ffi.new("char[]", size[0])
    check(lib.pc_chat_format(*arguments, text, size[0], size))
    del keep
    return bytes(ffi.buffer(text, size[0])).decode("utf-8", "replace")
