"""Grammar: what an answer must match."""
from __future__ import annotations

from json import dumps
from typing import Any, Mapping, Union

from ._core import Handle, check, new, pointer_of
from ._model import Model
from ._raw import ffi, lib

__all__ = ["Grammar"]


class Grammar(Handle):
    """A JSON schema, a grammar or a regular expression, compiled for the tokens of a model. As the
    option `grammar` of a request it makes the answer match. Any number of requests may have it.
    The plug-in module xgrammar compiles it; without that module this raises UnsupportedError.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> try:
    ...     grammar = promptcache.Grammar.regex(model, "(yes|no)!")
    ...     answer = promptcache.Prompt.from_text(model, "Is it?").generate(grammar=grammar).text
    ... except promptcache.UnsupportedError:
    ...     answer = "no!"
    >>> answer in ("yes!", "no!")
    True
    """

    _free = "pc_grammar_free"

    def __init__(self, model: Model, kind: int, text: str, *, flags: int = 0, most_blanks: int = 0,
                 root: str = "") -> None:
        options: Any = new("pc_grammar_options")
        raw = text.encode()
        keep = ffi.new("char[]", raw), ffi.new("char[]", root.encode())
        options.kind, options.flags, options.most_blanks = kind, flags, most_blanks
        options.text, options.text_size = keep[0], len(raw)
        if root:
            options.root = keep[1]
        out = ffi.new("pc_grammar **")
        check(lib.pc_grammar_new(out, pointer_of(model, "Model", "model"), options))
        self.model = model
        super().__init__(out[0], (model,))

    @classmethod
    def schema(cls, model: Model, schema: Union[str, bool, Mapping[str, Any]], *,
               open: bool = False, one_line: bool = False, most_blanks: int = 0) -> Grammar:
        """JSON of a schema, which is its text or what json.loads makes of that. open: objects and
        arrays may have more than it names, as JSON Schema has it. one_line: `, ` and `: ` stand
        between parts, and nothing else; otherwise at most `most_blanks` blanks (0: 32)."""
        text = schema if isinstance(schema, str) else dumps(schema)
        flags = lib.PC_GRAMMAR_OPEN * bool(open) | lib.PC_GRAMMAR_ONE_LINE * bool(one_line)
        return cls(model, lib.PC_GRAMMAR_SCHEMA, text, flags=flags, most_blanks=most_blanks)

    @classmethod
    def json(cls, model: Model) -> Grammar:
        """Any JSON value."""
        return cls(model, lib.PC_GRAMMAR_JSON, "")

    @classmethod
    def ebnf(cls, model: Model, text: str, root: str = "root") -> Grammar:
        """Rules, `name ::= "text" [a-z]* (other | "")`, as llama.cpp's GBNF; answers match the
        rule `root`."""
        return cls(model, lib.PC_GRAMMAR_EBNF, text, root=root)

    @classmethod
    def regex(cls, model: Model, text: str) -> Grammar:
        """A regular expression that the whole answer matches."""
        return cls(model, lib.PC_GRAMMAR_REGEX, text)
