"""What all classes of the package share: calls of the library, handles, options, callbacks.

Calls. The raw layer gives up the GIL during every call. An exception of a Python function that the
library calls is kept by `failed` until that call of the library returns, which raises it then. If
a thread of the library does the work, the exception waits for who asks how that ended.

Handles. A Handle owns one object of the library, which is freed with the last reference to its
cdata: by `close`, or by the garbage collector. A call that is under way in another thread holds a
reference, so `close` never takes an object away from it."""
from __future__ import annotations

import difflib
import inspect
import json
import os
import sys
import threading
import traceback
import types
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Type, TypeVar

from . import _api
from ._errors import ClosedError, error_of
from ._raw import ffi, lib

NULL = ffi.NULL
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Handle = TypeVar("_Handle", bound="Handle")

# ---- Exceptions of callbacks

_pending: Dict[Any, BaseException] = {}  # by thread, or by work of a thread of the library
#: Such work that is under way (_task.Step). `here` says whether this is one of its callbacks.
works: List[Any] = []


def _caller() -> Any:
    """Whose exceptions those of this thread are now. May change the error text of the thread."""
    for work in reversed(list(works)):  # the innermost first
        if work.here:
            return work
    return threading.get_ident()


def failed(kind: Any, error: BaseException, trace: Any) -> None:
    """A Python function that the library called has raised. The first exception is raised; the
    error of a sequence says its own."""
    _pending.setdefault(_caller(), error)
    said = f"{type(error).__name__}: {error}".replace("\0", " ")
    lib.pc_error_set(said.encode("utf-8", "replace"))


def unraisable(kind: Any, error: BaseException, trace: Any) -> None:
    """The same of a function whose caller takes no error, often in another thread. What ends the
    program (KeyboardInterrupt, SystemExit), in the thread that signals come to, is none of its
    errors: the call that this thread is in raises it."""
    thread = threading.get_ident()
    if not isinstance(error, Exception) and thread == threading.main_thread().ident:
        _pending.setdefault(thread, error)
        return
    message = "Exception ignored in a function that promptcache called"
    if sys.unraisablehook is sys.__unraisablehook__:  # which takes only what Python makes
        if sys.stderr is not None:
            print(message + ":", file=sys.stderr)
            traceback.print_exception(kind, error, trace)
        return
    said: Any = types.SimpleNamespace(exc_type=kind, exc_value=error, exc_traceback=trace,
                                      object=None, err_msg=message)
    sys.unraisablehook(said)


def extern(name: str, error: Optional[int] = None,
           onerror: Callable[[Any, BaseException, Any], None] = failed
           ) -> Callable[[_Function], _Function]:
    """Makes a function that one of the raw layer, which the library calls. error: what it returns
    if it raises."""
    def decorate(function: _Function) -> _Function:
        ffi.def_extern(name=name, error=error, onerror=onerror)(function)
        return function
    return decorate


def take_pending(caller: Any) -> Optional[BaseException]:
    """What a callback of this thread, or of this work, has raised."""
    error = _pending.pop(caller, None)
    if error is not None:
        lib.pcpy_poll_reset()
    return error


def raise_pending() -> None:
    """Raises what a callback of a call of this thread has raised."""
    error = take_pending(_caller()) if _pending else None
    if error is not None:
        raise error


def check(status: int) -> int:
    """The status of a call, if it is none of an error; else the exception."""
    failure = error_of(status) if status < 0 else None  # with the text of now
    if _pending:
        raise_pending()
    if failure is not None:
        raise failure
    return status


def ok(status: int) -> bool:
    """Whether a call did what it was to do; False is another normal outcome."""
    return bool(check(status) == lib.PC_OK)


# ---- Callbacks

class Callbacks:
    """The Python functions that one object of the library calls, by the field of the options. It
    lives as long as that object: `user` is what the library gives back."""

    def __init__(self) -> None:
        self.functions: Dict[str, Callable[..., Any]] = {}
        self.user = ffi.new_handle(self)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.functions[name]


def _functions(user: Any) -> Any:
    return ffi.from_handle(user)


def _answer(value: Any) -> int:
    """What a function returns that may stop: nothing or False goes on."""
    return 1 if value else 0


def _text(pointer: Any, size: int) -> str:
    return bytes(ffi.buffer(pointer, size)).decode("utf-8", "replace")


@extern("py_poll", 1)
def _poll() -> int:
    return 0  # Python has looked for signals on the way here


@extern("py_text_fn", lib.PC_ERR_INTERNAL)
def _on_text(user: Any, sample: int, text: Any, size: int) -> int:
    return _answer(_functions(user)["on_text"](sample, _text(text, size)))


@extern("py_token_fn", lib.PC_ERR_INTERNAL)
def _on_token(user: Any, token: Any) -> int:
    return _answer(_functions(user)["on_token"](_api.Token(token).copied()))


@extern("py_logits_fn", lib.PC_ERR_INTERNAL)
def _on_logits(user: Any, sample: int, logits: Any, count: int) -> int:
    function, floats = _functions(user)["on_logits"], ffi.buffer(logits, count * 4)
    given = bytearray(floats)  # the function's own: it may keep them, the library's memory goes
    answer = _answer(function(sample, float_array(given)))
    floats[:] = given
    return answer


def _cancelled(user: Any) -> int:
    return _answer(_functions(user)["cancelled"]())


for _name in ("generate_options", "embed_options", "prefill_options"):
    extern(f"py_{_name}_cancelled", 1)(_cancelled)


@extern("py_progress_fn", 1)
def _progress(user: Any, what: Any, done: int, total: int) -> int:
    function = _functions(user).functions.get("progress")
    return _answer(function and function(ffi.string(what).decode("utf-8", "replace"), done, total))


@extern("py_log_fn", onerror=unraisable)
def _log(user: Any, level: int, line: Any) -> None:
    _functions(user)["log"](_api.LogLevel(level), ffi.string(line).decode("utf-8", "replace"))


@extern("py_event_fn", onerror=unraisable)
def _on_event(user: Any, event: Any) -> None:
    _functions(user)["on_event"](_api.Event(event).copied())


@extern("py_cache_options_on_bytes", onerror=unraisable)
def _on_bytes(user: Any, tier: int, size: int, budget: int) -> None:
    _functions(user)["on_bytes"](_api.Tier(tier), size, budget)


@extern("py_memo_options_on_disabled", onerror=unraisable)
def _on_disabled(user: Any, bucket: int, loss: float, limit: float) -> None:
    _functions(user)["on_disabled"](bucket, loss, limit)


def float_array(memory: bytearray) -> Any:
    """Memory as a numpy array of floats, or as a memoryview where numpy is not installed."""
    try:
        import numpy
    except ImportError:
        return memoryview(memory).cast("f")
    return numpy.frombuffer(memory, dtype=numpy.float32)


# ---- Options

def c_string(value: Any, name: str = "text") -> bytes:
    """Text or a path as a string of C."""
    try:
        given = os.fspath(value)
    except TypeError:
        raise TypeError(f"{name}: a str is needed, not {type(value).__name__}") from None
    raw: bytes = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
    if b"\0" in raw:
        raise ValueError(f"{name}: has a NUL")
    return raw


def c_text(value: Any, name: str = "text") -> bytes:
    """Text that may have NULs, as bytes."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{name}: a str is needed, not {type(value).__name__}")


def integers(kind: str, values: Any, name: str, count: Optional[int] = None) -> Any:
    """A C array of whole numbers. count: how many it must have, since the library reads as many."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise TypeError(f"{name}: a list of int is needed, not {type(values).__name__}")
    if count is not None and len(values) != count:
        raise ValueError(f"{name}: {len(values)} numbers instead of {count}")
    try:
        return ffi.new(kind, list(values))
    except (TypeError, OverflowError) as error:
        raise type(error)(f"{name}: {error}") from None


def pointer_of(value: Any, kind: str, name: str) -> Any:
    """The pointer of an object of a class of this name. A wrong one gets an error that says so."""
    try:
        pointer = value._pointer
        if ffi.typeof(pointer) is _pointer_type(kind):
            return pointer
    except AttributeError:
        pass
    raise TypeError(f"{name}: a {kind} is needed, not {_article(value)}")


def optional_pointer(value: Any, kind: str, name: str) -> Any:
    """The same of an object that may be None."""
    return NULL if value is None else pointer_of(value, kind, name)


def _article(value: Any) -> str:
    return "None" if value is None else type(value).__name__


_pointer_types: Dict[str, Any] = {}


def _pointer_type(kind: str) -> Any:
    known = _pointer_types.get(kind)
    if known is None:
        known = _pointer_types[kind] = ffi.typeof(f"pc_{kind.lower()} *")
    return known


def raw_bytes(value: Any, name: str) -> bytes:
    """Bytes: not a number, of which bytes() makes zeros."""
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"{name}: bytes are needed, not {type(value).__name__}") from None


def digest(value: Any, name: str = "key") -> bytes:
    """32 bytes."""
    raw = raw_bytes(value, name)
    if len(raw) != 32:
        raise ValueError(f"{name}: {len(raw)} bytes instead of 32")
    return raw


_structs: Dict[str, Tuple[Any, int]] = {}  # type and size, by name
_new = ffi.new


def new(struct: str) -> Any:
    """A struct with its defaults: zeros, and its size in front, as its init function writes."""
    known = _structs.get(struct)
    if known is None:
        known = _structs[struct] = (ffi.typeof(struct + " *"), ffi.sizeof(struct))
    made = _new(known[0])
    made.struct_size = known[1]
    return made


def strings(texts: Any, keep: List[Any], name: str = "strings") -> Any:
    """An array of strings of C."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{name}: a list of str is needed, not one str")
    made = [ffi.new("char[]", c_string(text, name)) for text in texts]
    array = ffi.new("char *[]", made)
    keep += [made, array]
    return array


def c_function(name: str) -> Any:
    """The C function that calls a Python function: of those that any thread may call, the one that
    stops when the interpreter ends."""
    guard = "pc" + name
    return ffi.addressof(lib, guard) if hasattr(lib, guard) else getattr(lib, name)


class Options:
    """A struct of options, with what its pointers point to. `c` is the pointer."""

    def __init__(self, struct: str, keywords: Dict[str, Any], *, call: str = "",
                 callbacks: Optional[Callbacks] = None, near: Iterable[str] = ()) -> None:
        """near: keywords that the call takes besides those of the struct."""
        self.c = new(struct)
        self.keep: List[Any] = []
        self._counts: Dict[str, Tuple[str, int]] = {}
        self.callbacks = callbacks
        takes = _api.TAKES[struct]
        for keyword, value in keywords.items():
            if keyword not in takes:
                raise TypeError(f"{call or struct}() got an unexpected keyword argument "
                                f"{keyword!r}{_meant(keyword, [*takes, *near])}")
            if value is not None:
                try:
                    self._set(keyword, takes[keyword][0], value)
                except (TypeError, OverflowError, ValueError) as error:
                    said = str(error)
                    if isinstance(error, (ClosedError, UnicodeError)) or said.startswith(keyword):
                        raise
                    raise type(error)(f"{keyword}: {said}") from None

    def _set(self, keyword: str, how: Tuple[Any, ...], value: Any) -> None:
        c, kind, field = self.c, how[0], how[1]
        if kind == "number":
            setattr(c, field, value)
        elif kind == "flag":
            if value:
                setattr(c, field, getattr(c, field) | how[2])
        elif kind == "enum":
            setattr(c, field, how[2].of(value))
        elif kind == "handle":
            setattr(c, field, pointer_of(value, how[2], keyword))
            self.keep.append(value)
        elif kind == "call":
            self._call(keyword, how, value)
        elif kind == "name":
            raw = c_string(value, keyword)
            if len(raw) >= how[2]:
                raise ValueError(f"{keyword}: {len(raw)} bytes, at most {how[2] - 1}")
            setattr(c, field, raw)
        elif kind == "double":
            self._point(field, ffi.new("double *", value))
        elif kind in ("text", "json"):
            if kind == "json" and not isinstance(value, str):
                value = json.dumps(value, ensure_ascii=False)
            self._point(field, ffi.new("char[]", c_string(value, keyword)))
        else:
            self._set_array(keyword, how, value)

    def _point(self, field: str, memory: Any) -> None:
        setattr(self.c, field, memory)
        self.keep.append(memory)

    def _set_array(self, keyword: str, how: Tuple[Any, ...], value: Any) -> None:
        c, kind, field = self.c, how[0], how[1]
        if kind == "sized":
            raw = c_text(value, keyword)
            self._point(field, ffi.new("char[]", raw))
            setattr(c, how[2], len(raw))
        elif kind == "bytes":
            raw = raw_bytes(value, keyword)
            self._point(field, ffi.new("char[]", raw))
            setattr(c, how[2], len(raw))
        elif kind == "digest":
            self._point(field, ffi.new("uint8_t[32]", digest(value, keyword)))
        elif kind == "strings":
            setattr(c, field, strings(value, self.keep, keyword))
            setattr(c, how[2], len(value))
        elif kind == "array":
            self._point(field, integers(how[3], value, keyword))
            if how[2]:
                self._count(keyword, how[2], len(value))
        elif kind == "salts":
            array = ffi.new("pc_salt[]", len(value))
            for item, one in zip(array, value):
                if not isinstance(one, (tuple, list)) or len(one) != 2:
                    raise TypeError("pairs of a first position and bytes are needed")
                raw = raw_bytes(one[1], "the second of a pair")
                memory = ffi.new("char[]", raw)
                self.keep.append(memory)
                item.first, item.data, item.size = one[0], memory if raw else NULL, len(raw)
            self._point(field, array)
            c.salt_stride, c.salt_count = ffi.sizeof("pc_salt"), len(value)
        elif kind == "bias":
            if not isinstance(value, Mapping):
                raise TypeError("a mapping of token ids to numbers is needed")
            self._point("bias_tokens", integers("int32_t[]", list(value), keyword))
            self._point("bias_values", ffi.new("float[]", [float(v) for v in value.values()]))
            c.bias_count = len(value)

    def _count(self, keyword: str, field: str, count: int) -> None:
        """The length of an array, of which several may have one: the library reads them all."""
        known = self._counts.setdefault(field, (keyword, count))
        if known[1] != count:
            raise ValueError(f"{keyword}: {count} numbers, but {known[1]} of {known[0]}")
        setattr(self.c, field, count)

    def _call(self, keyword: str, how: Tuple[Any, ...], function: Any) -> None:
        if not callable(function):
            raise TypeError(f"a function is needed, not {type(function).__name__}")
        if self.callbacks is None:
            self.callbacks = Callbacks()
        self.callbacks.functions[keyword] = function
        setattr(self.c, how[1], c_function(how[3]))
        setattr(self.c, how[2], self.callbacks.user)

    def interruptible(self) -> None:
        """Ctrl-C ends the call that these options are for."""
        if hasattr(self.c, "cancelled"):
            if self.c.cancelled == NULL:
                self.c.cancelled = POLL
        elif self.c.progress == NULL:
            self.callbacks = self.callbacks or Callbacks()
            self.c.progress = lib.py_progress_fn
            self.c.progress_user = self.callbacks.user


def _meant(keyword: str, known: Iterable[str]) -> str:
    """The keyword that a wrong one was meant to be, for the error."""
    near = difflib.get_close_matches(keyword, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


POLL = ffi.addressof(lib, "pcpy_poll")


def split(keywords: Dict[str, Any], struct: str) -> Dict[str, Any]:
    """Takes the keywords of one struct out of those of several."""
    takes = _api.TAKES[struct]
    return {name: keywords.pop(name) for name in list(keywords) if name in takes}


def takes(*structs: str) -> Callable[[_Function], _Function]:
    """Gives a function with **options the keywords of these structs: in its signature, and with
    the comments of the interface in its documentation."""
    def decorate(function: _Function) -> _Function:
        parameters = [one for one in inspect.signature(function).parameters.values()
                      if one.kind is not inspect.Parameter.VAR_KEYWORD]
        lines = []
        seen = {one.name for one in parameters}
        for struct in structs:
            for keyword, (_, annotation, comment) in _api.TAKES[struct].items():
                if keyword in seen:
                    continue
                seen.add(keyword)
                parameters.append(inspect.Parameter(keyword, inspect.Parameter.KEYWORD_ONLY,
                                                    default=None, annotation=annotation))
                lines.append(f"    {keyword}: {annotation}")
                lines += ["        " + line for line in comment.split("\n") if line]
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            parameters, return_annotation=inspect.signature(function).return_annotation)
        function.__doc__ = (inspect.cleandoc(function.__doc__ or "") + "\n\nOptions:\n"
                            + "\n".join(lines) + "\n")
        return function
    return decorate


# ---- Handles

class Handle:
    """An object of the library. It is closed by `close`, at the end of a `with`, or with its last
    reference; closing twice does nothing. Objects may be closed in any order."""

    _free: str = ""  # name of the function that frees it

    def __init__(self, pointer: Any, keep: Any = None) -> None:
        self._cdata = ffi.gc(pointer, self._destructor())
        self._keep = keep

    def _destructor(self) -> Any:
        return getattr(lib, self._free)

    @property
    def _pointer(self) -> Any:
        pointer = self._cdata
        if pointer is None:
            raise ClosedError(f"this {type(self).__name__} was closed")
        return pointer

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._cdata is None

    def close(self) -> None:
        """Frees it now. A call that is under way in another thread goes on to its end."""
        self._cdata = None

    def __enter__(self: _Handle) -> _Handle:
        self._pointer
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<promptcache.{type(self).__name__}{' (closed)' if self._cdata is None else ''}>"


def make(call: Any, kind: str, *arguments: Any) -> Any:
    """The pointer that call(&out, ...) makes."""
    out = ffi.new(kind + " **")
    check(call(out, *arguments))
    return out[0]
