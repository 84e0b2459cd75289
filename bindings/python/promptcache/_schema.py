"""Schema: documents that declare modules, and their layout."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Sequence, Union

from . import _api, _html
from ._core import (NULL, Handle, Options, c_string, c_text, check, make, new, ok, pointer_of,
                    strings, takes)
from ._model import Model
from ._raw import ffi, lib

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

    from ._cache import Cache

__all__ = ["Schema", "SchemaBuilder"]


class Items(Sequence[_api.Item]):
    """The layout of a schema in the order of the document."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def __len__(self) -> int:
        return int(lib.pc_schema_item_count(self._schema._pointer))

    def __getitem__(self, index: Any) -> Any:
        count = len(self)
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(count))]
        if index < 0:
            index += count
        if not 0 <= index < count:
            raise IndexError(f"item {index} of {count}")
        struct = new("pc_item")
        check(lib.pc_schema_get_item(self._schema._pointer, index, struct))
        return _api.Item(struct).copied()

    def __repr__(self) -> str:
        return f"<{len(self)} items>"


class Schema(Handle):
    """A schema, laid out with a model's tokenizer. It cannot be changed.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> schema = promptcache.Schema.parse(model, '''
    ...     <schema name="trip"><module name="city">The city is Rome.</module></schema>''')
    >>> schema.name
    'trip'
    >>> [item.path for item in schema.items if item.kind is promptcache.ItemKind.MODULE]
    ['city']
    """

    _free = "pc_schema_free"

    def __init__(self, *_: object) -> None:
        raise TypeError("a schema is made by Schema.load, parse, from_format or a SchemaBuilder")

    @classmethod
    def _from_pointer(cls, pointer: Any, model: Optional[Model], keep: Any = None) -> Schema:
        made = cls.__new__(cls)
        Handle.__init__(made, pointer, (model, keep))
        made.model = model
        return made

    model: Optional[Model]
    """The model that it was laid out for."""

    @classmethod
    @takes("pc_schema_options")
    def load(cls, model: Model, path: Union[str, PathLike[str]],
             **options: Unpack[_api.SchemaOptions]) -> Schema:
        """Parses a PML file. Raises PMLError with line and column."""
        made = Options("pc_schema_options", dict(options), call="load")
        return cls._from_pointer(make(lib.pc_schema_load, "pc_schema",
                                      pointer_of(model, "Model", "model"),
                                      c_string(path, "path"), made.c), model)

    @classmethod
    @takes("pc_schema_options")
    def parse(cls, model: Model, text: str, **options: Unpack[_api.SchemaOptions]) -> Schema:
        """Parses PML. Raises PMLError with line and column."""
        raw = c_text(text)
        made = Options("pc_schema_options", dict(options), call="parse")
        return cls._from_pointer(make(lib.pc_schema_parse, "pc_schema",
                                      pointer_of(model, "Model", "model"), raw, len(raw),
                                      made.c), model)

    @classmethod
    @takes("pc_system_format")
    def from_format(cls, model: Model, format: Optional[str] = None,
                    **options: Unpack[_api.FormatOptions]) -> Schema:
        """A schema of a format string with "{__SYS_PROMPT}" and "{__USR_PROMPT}": one shared
        system prompt, and a slot for each request (`Prompt.fill`).

        >>> import promptcache
        >>> model = promptcache.Model.load("models/demo/demo.gguf")
        >>> schema = promptcache.Schema.from_format(model, system="Answer briefly.")
        >>> schema.items[-1].kind
        <ItemKind.SLOT: 5>
        """
        made = Options("pc_system_format", dict(options), call="from_format")
        if format is not None:
            raw = c_text(format)
            made._point("format", ffi.new("char[]", raw))
            made.c.format_size = len(raw)
        return cls._from_pointer(make(lib.pc_schema_from_format, "pc_schema",
                                      pointer_of(model, "Model", "model"), made.c), model)

    @property
    def name(self) -> str:
        """Name of the schema."""
        return str(ffi.string(lib.pc_schema_name(self._pointer)).decode("utf-8", "replace"))

    @property
    def length(self) -> int:
        """Positions that it spans."""
        return int(lib.pc_schema_length(self._pointer))

    @property
    def items(self) -> Sequence[_api.Item]:
        """The layout: modules, unions, texts, parameters and slots, with their positions."""
        return Items(self)

    @takes("pc_encode_options")
    def encode(self, cache: Cache, **options: Unpack[_api.EncodeOptions]) -> bool:
        """Encodes all modules into the cache. Without this call each is encoded at its first use.

        Returns False if the budget has no room for all of it.
        """
        made = Options("pc_encode_options", dict(options), call="encode")
        made.interruptible()
        return ok(lib.pc_schema_encode(self._pointer, pointer_of(cache, "Cache", "cache"), made.c))

    @takes("pc_encode_options")
    def prefetch(self, cache: Cache, **options: Unpack[_api.EncodeOptions]) -> int:
        """Starts loading the schema's states from lower tiers into free RAM, without waiting.
        Returns the number of loads."""
        made = Options("pc_encode_options", dict(options), call="prefetch")
        started = ffi.new("uint64_t *")
        check(lib.pc_schema_prefetch(self._pointer, pointer_of(cache, "Cache", "cache"), made.c,
                                     started))
        return int(started[0])

    def __iter__(self) -> Iterator[_api.Item]:
        return iter(self.items)

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        return f"<promptcache.Schema {self.name!r}, {self.length} positions>"

    def _repr_svg_(self) -> str:
        return _html.layout_svg(self)


class SchemaBuilder(Handle):
    """Makes a schema of texts, without PML: nothing in a text has a meaning.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> builder = promptcache.SchemaBuilder(model, "trip")
    >>> with builder.module("city"):
    ...     _ = builder.text("The city is <Rome>.").parameter("days", 4)
    >>> builder.schema()
    <promptcache.Schema 'trip', 14 positions>
    """

    _free = "pc_schema_builder_free"

    @takes("pc_schema_options")
    def __init__(self, model: Model, name: str, **options: Unpack[_api.SchemaOptions]) -> None:
        made = Options("pc_schema_options", dict(options), call="SchemaBuilder")
        self.model = model
        super().__init__(make(lib.pc_schema_builder_new, "pc_schema_builder",
                              pointer_of(model, "Model", "model"), c_string(name, "name"),
                              made.c), model)

    def text(self, text: str, *, special: bool = False) -> SchemaBuilder:
        """Adds text to what is open, the schema itself at first."""
        raw = c_text(text)
        check(lib.pc_schema_builder_add_text(self._pointer, raw, len(raw),
                                             lib.PC_PROMPT_SPECIAL if special else 0))
        return self

    def module(self, name: str, *, uncached: bool = False) -> Open:
        """Opens a module; the end of the `with` closes it."""
        check(lib.pc_schema_builder_begin_module(self._pointer, c_string(name, "name"),
                                                 lib.PC_ITEM_UNCACHED if uncached else 0))
        return Open(self)

    def union(self, scaffold: Optional[str] = None) -> Open:
        """Opens a union of modules. scaffold: its member in the default layout."""
        check(lib.pc_schema_builder_begin_union(
            self._pointer, NULL if scaffold is None else c_string(scaffold, "scaffold")))
        return Open(self)

    def turn(self, role: str) -> Open:
        """Opens a turn of a conversation: "system", "user" or "assistant"."""
        check(lib.pc_schema_builder_begin_turn(self._pointer, c_string(role, "role")))
        return Open(self)

    def parameter(self, name: str, length: int, scaffold: Optional[str] = None) -> SchemaBuilder:
        """Adds room for an argument of `length` tokens to the open module. scaffold: text that
        stands there while the module is encoded."""
        raw = NULL if scaffold is None else c_text(scaffold)
        check(lib.pc_schema_builder_add_parameter(self._pointer, c_string(name, "name"), length,
                                                  raw, 0 if scaffold is None else len(raw)))
        return self

    def scaffold(self, modules: Sequence[str]) -> SchemaBuilder:
        """Modules that are encoded jointly, for prompts that use all of them."""
        keep: List[Any] = []
        check(lib.pc_schema_builder_add_scaffold(self._pointer, strings(modules, keep),
                                                 len(modules)))
        return self

    def _end(self) -> None:
        check(lib.pc_schema_builder_end(self._pointer))

    def schema(self) -> Schema:
        """The schema of what the builder has; it may go on afterwards."""
        return Schema._from_pointer(make(lib.pc_schema_from_builder, "pc_schema", self._pointer),
                                    self.model)


class Open:
    """A module, union or turn of a builder that is open: the end of the `with` closes it."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def __enter__(self) -> Any:
        return self._builder

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self._builder._end()
