"""Model files before they are loaded, folders of records, system prompts by name."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Sequence, Union

from . import _api
from ._context import Context
from ._core import (NULL, Handle, Options, c_string, c_text, check, digest, make, new, ok,
                    pointer_of, takes)
from ._errors import Error, NotFoundError, error_of
from ._model import Model, token_array
from ._raw import ffi, lib
from ._schema import Schema

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

    from ._cache import Cache

__all__ = ["Folder", "ModelFile", "Systems"]


class ModelFile(Handle):
    """A model's file or folder: what it is, and what loading it would make of it. Weights are not
    read.

    >>> import promptcache
    >>> file = promptcache.ModelFile("models/demo/demo.gguf")
    >>> file.info.parameters > 3e6, file.refusal
    (True, None)
    >>> [one.name for one in file.types]
    ['BF16', 'F32']
    """

    _free = "pc_model_file_free"

    @takes("pc_model_options")
    def __init__(self, path: Union[str, PathLike[str]], *, context: Optional[Context] = None,
                 **options: Unpack[_api.ModelOptions]) -> None:
        context = context or Context.default()
        made = Options("pc_model_options", dict(options), call="ModelFile")
        made.interruptible()
        super().__init__(make(lib.pc_model_file_open, "pc_model_file", context._pointer,
                              c_string(path, "path"), made.c), context)

    @property
    def info(self) -> _api.ModelFileInfo:
        """More than `Model.info` says."""
        struct = new("pc_model_file_info")
        check(lib.pc_model_file_get_info(self._pointer, struct))
        info = _api.ModelFileInfo(struct, self._pointer)
        info.copied()
        return info

    @property
    def refusal(self) -> Optional[Error]:
        """What `Model.load` would raise, as far as can be seen; None: nothing."""
        info = self.info
        return error_of(info.refusal, info.reason) if info.refusal < 0 else None

    @property
    def types(self) -> List[_api.ModelFileType]:
        """Number formats of its tensors, most bytes first."""
        found = []
        for index in range(lib.pc_model_file_type_count(self._pointer)):
            struct = new("pc_model_file_type")
            check(lib.pc_model_file_get_type(self._pointer, index, struct))
            found.append(_api.ModelFileType(struct).copied())
        return found

    @property
    def model(self) -> Model:
        """Its vocabulary, for `tokenize` and schemas."""
        return Model._borrowed(lib.pc_model_file_model(self._pointer), self._pointer)


class Folder(Handle):
    """The records of a cache's folder. Caches may use it at the same time. It iterates over the
    records: `RecordInfo`, or the error of one that cannot be read.

    >>> import promptcache, tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     cache = promptcache.Cache(disk_path=path)
    ...     cache.close()
    ...     len(promptcache.Folder(path))
    0
    """

    _free = "pc_folder_free"

    def __init__(self, path: Union[str, PathLike[str]], *, seal_key: Optional[bytes] = None,
                 context: Optional[Context] = None) -> None:
        context = context or Context.default()
        options = new("pc_folder_options")
        key = None if seal_key is None else ffi.new("uint8_t[32]", digest(seal_key, "seal_key"))
        if key is not None:
            options.seal_key = key
        super().__init__(make(lib.pc_folder_open, "pc_folder", context._pointer,
                              c_string(path, "path"), options), context)

    def __len__(self) -> int:
        return int(lib.pc_folder_count(self._pointer))

    def __getitem__(self, index: int) -> _api.RecordInfo:
        """A record as it was when the folder was opened. Raises FormatError, UnsupportedError or
        IOFailedError."""
        if not 0 <= index < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        struct = new("pc_record_info")
        check(lib.pc_folder_get(self._pointer, index, struct))
        return _api.RecordInfo(struct)

    def __iter__(self) -> Iterator[Union[_api.RecordInfo, Error]]:
        for index in range(len(self)):
            try:
                yield self[index]
            except Error as error:
                yield error

    def tokens(self, index: int) -> List[int]:
        """Tokens of a record."""
        count = ffi.new("size_t *")
        check(lib.pc_folder_tokens(self._pointer, index, NULL, 0, count))
        tokens = ffi.new("int32_t[]", count[0])
        check(lib.pc_folder_tokens(self._pointer, index, tokens, count[0], count))
        return list(tokens)

    def verify(self, index: int) -> None:
        """Reads a whole record and checks everything that can be checked. Raises FormatError (it
        names the fault) or UnsupportedError (key or codec is missing for the states)."""
        check(lib.pc_folder_verify(self._pointer, index))

    def remove(self, index: int) -> None:
        """Removes a record."""
        check(lib.pc_folder_remove(self._pointer, index))

    def trim(self, to_bytes: int) -> int:
        """Evicts records until at most so many bytes are left. Returns the bytes that were
        freed."""
        freed = ffi.new("uint64_t *")
        check(lib.pc_folder_trim(self._pointer, to_bytes, NULL, freed))
        return int(freed[0])


class Systems(Handle):
    """System prompts by name. A name's schema is encoded when it is filled in, and pinned in the
    cache while it is listed. Any threads may use it.

    >>> import promptcache
    >>> model = promptcache.Model.load("models/demo/demo.gguf")
    >>> systems = promptcache.Systems(model, promptcache.Cache())
    >>> systems.fill("brief", "Answer briefly.")
    True
    >>> promptcache.Prompt.fill(systems["brief"], "What is the desk of Anna?").tokens[:2] == (
    ...     model.tokenize("Answer briefly.")[:2])
    True
    >>> list(systems)
    ['brief']
    """

    _free = "pc_systems_free"

    @takes("pc_systems_options")
    def __init__(self, model: Model, cache: Cache, format: Optional[str] = None,
                 **options: Unpack[_api.SystemsOptions]) -> None:
        made = Options("pc_systems_options", dict(options), call="Systems")
        if format is not None:
            raw = c_text(format)
            made._point("format", ffi.new("char[]", raw))
            made.c.format_size = len(raw)
        self.model = model
        super().__init__(make(lib.pc_systems_new, "pc_systems", pointer_of(model, "Model", "model"),
                              pointer_of(cache, "Cache", "cache"), made.c), (model, cache))

    def fill(self, name: str, system: Union[str, Sequence[int], Schema]) -> bool:
        """Adds a name or replaces its schema: by a text, by the tokens of everything before the
        user slot, or by any schema. Returns False if the cache has no room for all of it."""
        raw_name = c_string(name, "name")
        if isinstance(system, Schema):
            return ok(lib.pc_systems_fill_schema(self._pointer, raw_name, system._pointer))
        if isinstance(system, str):
            raw = c_text(system)
            return ok(lib.pc_systems_fill(self._pointer, raw_name, raw, len(raw)))
        return ok(lib.pc_systems_fill_tokens(self._pointer, raw_name, token_array(system),
                                             len(system)))

    def __getitem__(self, name: str) -> Schema:
        """The schema of a name. Raises KeyError."""
        try:
            pointer = make(lib.pc_systems_find, "pc_schema", self._pointer,
                           c_string(name, "name"))
        except NotFoundError as error:
            raise KeyError(str(error)) from None
        return Schema._from_pointer(pointer, self.model)

    def __delitem__(self, name: str) -> None:
        try:
            check(lib.pc_systems_drop(self._pointer, c_string(name, "name")))
        except NotFoundError as error:
            raise KeyError(str(error)) from None

    def __len__(self) -> int:
        return int(lib.pc_systems_count(self._pointer))

    def __iter__(self) -> Iterator[str]:
        return iter([info.name for info in self.infos])

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    @property
    def infos(self) -> List[_api.SystemInfo]:
        """The list, in the order in which names were added."""
        found: List[Any] = []
        struct = new("pc_system_info")
        while lib.pc_systems_get(self._pointer, len(found), struct) == lib.PC_OK:
            found.append(_api.SystemInfo(struct))
            struct = new("pc_system_info")
        return found

    def clear(self) -> None:
        """Removes all names."""
        check(lib.pc_systems_clear(self._pointer))
