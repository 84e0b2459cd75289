"""Cache: where states are stored between requests."""
from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING, Any, Optional

from . import _api
from ._context import Context
from ._core import Handle, Options, check, make, new, takes
from ._raw import lib

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Cache"]


class Cache(Handle):
    """States in memory, and if wanted compressed, in a folder and on a server. Any threads may use
    it at once, and one cache may serve many models.

    >>> import promptcache
    >>> with promptcache.Cache(ram_bytes=64 << 20) as cache:
    ...     cache.stats.segments
    0
    """

    _free = "pc_cache_free"

    @takes("pc_cache_options")
    def __init__(self, context: Optional[Context] = None,
                 **options: Unpack[_api.CacheOptions]) -> None:
        context = context or Context.default()
        made = Options("pc_cache_options", dict(options), call="Cache")
        super().__init__(make(lib.pc_cache_new, "pc_cache", context._pointer, made.c),
                         (context, made.callbacks))
        _open.add(self)

    @property
    def stats(self) -> _api.CacheStats:
        """Counters since it was opened."""
        struct = new("pc_cache_stats")
        check(lib.pc_cache_get_stats(self._pointer, struct))
        return _api.CacheStats(struct)

    def flush(self) -> bool:
        """Waits until every entry that was stored before has reached its tiers. Returns False if
        one did not get there."""
        return check(lib.pc_cache_flush(self._pointer)) == lib.PC_OK


_open: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Caches finish their writes before the interpreter ends, as in a program in C."""
    for cache in list(_open):
        cache.close()
