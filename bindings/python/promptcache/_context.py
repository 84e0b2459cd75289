"""Context: threads and backend."""
from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, List, Optional

from . import _api
from ._core import Callbacks, Handle, Options, check, make, new, takes
from ._raw import lib

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Context"]

_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}


class Context(Handle):
    """What computes, with its threads. Most programs need none of their own: `Model.load` and
    `Cache` use `Context.default()`, which has a thread for each core.

    >>> import promptcache
    >>> with promptcache.Context(threads=2) as context:
    ...     model = promptcache.Model.load("models/demo/demo.gguf", context=context)

    `log` gets lines of the log: a function of level and line, or a `logging.Logger`. Any thread
    may call it.
    """

    _free = "pc_context_free"
    _default: Optional[Context] = None
    _lock = threading.Lock()

    @takes("pc_context_options")
    def __init__(self, **options: Unpack[_api.ContextOptions]) -> None:
        keywords: Any = dict(options)
        log = keywords.get("log")
        if isinstance(log, logging.Logger):
            keywords["log"] = lambda level, line: log.log(_LEVELS.get(level, logging.DEBUG),
                                                          "%s", line)
        made = Options("pc_context_options", keywords, call="Context")
        self._callbacks: Optional[Callbacks] = made.callbacks
        #: Name of what computes: "cpu", "cuda", …
        self.backend: str = keywords.get("backend") or os.environ.get("PC_BACKEND") or "cpu"
        super().__init__(make(lib.pc_context_new, "pc_context", made.c))

    @classmethod
    def default(cls) -> Context:
        """The context of objects that were given none. It is made at its first use."""
        with Context._lock:
            if Context._default is None or Context._default.closed:
                Context._default = Context()
            return Context._default

    def costs(self) -> _api.Costs:
        """The costs by which this context plans attention (`promptcache bench calibrate`)."""
        struct = new("pc_costs")
        check(lib.pc_costs_get(self._pointer, struct))
        return _api.Costs(struct)


def plugins() -> List[_api.PluginInfo]:
    """The plug-in modules of the library (oneDNN, FAISS, servers, backends), with their state.

    >>> import promptcache
    >>> {plugin.name for plugin in promptcache.plugins()} >= {"onednn", "faiss", "remote"}
    True
    """
    found: List[_api.PluginInfo] = []
    struct = new("pc_plugin_info")
    while lib.pc_plugin_get(len(found), struct) == lib.PC_OK:
        found.append(_api.PluginInfo(struct))
        struct = new("pc_plugin_info")
    return found
