"""Cache: where states are stored between requests."""
from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple
from typing import Union

from . import _api
from ._context import Context
from ._core import (NULL, Handle, Options, c_string, check, digest, integers, make, new, ok,
                    pointer_of, raw_bytes, takes, works)
from ._errors import MissError
from ._raw import ffi, lib
from ._segment import Segment, States, states_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Cache", "Load", "Wanted", "base_key", "segment_key"]


class Wanted(NamedTuple):
    """One entry that `Cache.get_many` is to load.

    into: arrays that its blocks are written to, one for each block; None: it becomes a segment.
    """

    key: bytes
    tokens: Sequence[int]
    into: Optional[Sequence[Any]] = None
    relative: Optional[Sequence[int]] = None


class Cache(Handle):
    """States in memory, and if wanted compressed, in a folder and on a server. Any threads may use
    it at once, and one cache may serve many models.

    >>> import promptcache
    >>> with promptcache.Cache(ram_bytes=64 << 20) as cache:
    ...     cache.stats.segments
    0

    Closing it, and the end of the program, finish pending writes. `on_event` and `on_bytes` are
    called by any thread.
    """

    _free = "pc_cache_free"

    @takes("pc_cache_options")
    def __init__(self, context: Optional[Context] = None,
                 **options: Unpack[_api.CacheOptions]) -> None:
        context = context or Context.default()
        made = Options("pc_cache_options", dict(options), call="Cache")
        self._context = context
        super().__init__(make(lib.pc_cache_new, "pc_cache",
                              pointer_of(context, "Context", "context"), made.c),
                         (context, made.callbacks))
        _open.add(self)

    # ---- Statistics

    @property
    def stats(self) -> _api.CacheStats:
        """Counters since it was opened."""
        struct = new("pc_cache_stats")
        check(lib.pc_cache_get_stats(self._pointer, struct))
        return _api.CacheStats(struct)

    def tier_stats(self, tier: Union[_api.Tier, str]) -> _api.TierStats:
        """Counters of one tier: "ram", "compressed", "disk" or "remote"."""
        struct = new("pc_tier_stats")
        check(lib.pc_cache_get_tier_stats(self._pointer, _api.Tier.of(tier), struct))
        return _api.TierStats(struct)

    def prometheus(self, labels: Optional[Dict[str, str]] = None) -> str:
        """All counters in the format of Prometheus, with these labels.

        >>> import promptcache
        >>> "promptcache" in promptcache.Cache().prometheus({"zone": "a"})
        True
        """
        options = new("pc_prometheus_options")
        if labels:
            escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                       for name, value in labels.items()}
            text = ffi.new("char[]", c_string(
                ",".join(f'{name}="{value}"' for name, value in escaped.items()), "labels"))
            options.labels = text
        size = ffi.new("size_t *")
        check(lib.pc_cache_prometheus(self._pointer, NULL, 0, size, options))
        while True:  # counters may have grown meanwhile
            room = size[0] + 64
            out = ffi.new("char[]", room)
            status = lib.pc_cache_prometheus(self._pointer, out, room, size, options)
            if status != lib.PC_ERR_LIMIT:
                check(status)
                return bytes(ffi.buffer(out, size[0])).decode("utf-8", "replace")

    # ---- Room

    def flush(self) -> bool:
        """Waits until every entry that was stored before has reached its tiers. Returns False if
        one did not get there."""
        return ok(lib.pc_cache_flush(self._pointer))

    def clear(self) -> None:
        """Removes everything from memory that is not in use or pinned."""
        check(lib.pc_cache_clear(self._pointer))

    def evict(self, to_bytes: int = 0) -> int:
        """Evicts from RAM, lowest eviction score first, until at most so many bytes are left
        there, or until the rest is in use or pinned. Returns the bytes that were freed."""
        freed = ffi.new("uint64_t *")
        check(lib.pc_cache_trim(self._pointer, to_bytes, freed))
        return int(freed[0])

    def set_quota(self, tier: Union[_api.Tier, str], bytes: int, salt: bytes = b"") -> None:
        """Limits the bytes that one tenant's entries take in a tier. 0: `tenant_share` holds."""
        memory = ffi.new("char[]", raw_bytes(salt, "salt"))
        check(lib.pc_cache_set_quota(self._pointer, _api.Tier.of(tier), memory if salt else NULL,
                                     len(salt), bytes))

    def pin(self, key: bytes, owner: int, seconds: float = 0) -> bool:
        """Pins an entry in RAM for an owner (a number of your choice), until it is unpinned or the
        time has passed (0: no end). Returns whether the entry is in RAM."""
        return ok(lib.pc_cache_pin(self._pointer, digest(key), owner, seconds))

    def unpin(self, key: bytes, owner: int) -> bool:
        """Removes a pin. Returns whether there was one."""
        return ok(lib.pc_cache_unpin(self._pointer, digest(key), owner))

    def unpin_owner(self, owner: int) -> None:
        """Removes all pins of an owner."""
        check(lib.pc_cache_unpin_owner(self._pointer, owner))

    # ---- By key

    @takes("pc_put_options")
    def put(self, key: bytes, states: Union[States, Segment],
            **options: Unpack[_api.PutOptions]) -> _api.Status:
        """Stores states under a key of yours (32 bytes): a copy of `States`, or a reference to a
        segment. Returns Status.OK, EXISTS (the entry that is there stays) or MISS (no room)."""
        made = Options("pc_put_options", dict(options), call="put")
        if isinstance(states, Segment):
            status = lib.pc_cache_put(self._pointer, digest(key), states._pointer, made.c)
        else:
            states_of(states, "states")._need_blocks()
            status = lib.pc_cache_put_copy(self._pointer, digest(key), states._c, made.c)
        return _api.Status(check(status))

    @takes("pc_get_options")
    def get(self, key: bytes, expect: States,
            **options: Unpack[_api.GetOptions]) -> Optional[Segment]:
        """The segment under a key, or None. What `expect` says of states, tokens and sizes of
        blocks must agree; its blocks are not read. `Segment.info` tells where it came from."""
        try:
            return self.load(key, expect, **options)
        except MissError:
            return None

    @takes("pc_get_options")
    def load(self, key: bytes, expect: States, **options: Unpack[_api.GetOptions]) -> Segment:
        """The same, but a miss raises MissError, with `reason`."""
        made = Options("pc_get_options", dict(options), call="get")
        info, out = new("pc_get_info"), ffi.new("pc_segment **")
        status = check(lib.pc_cache_get(out, self._pointer, digest(key),
                                        states_of(expect, "expect")._c, made.c, info))
        if status == lib.PC_MISS:
            raise _miss("this key", info)
        segment = Segment._from_pointer(out[0], self._context)
        segment.info = _api.GetInfo(info)
        return segment

    @takes("pc_get_options")
    def get_many(self, expect: States, wanted: Iterable[Union[Wanted, Tuple[Any, ...]]],
                 **options: Unpack[_api.GetOptions]) -> Load:
        """Starts to load many entries, in this order, into arrays or as segments. `expect` says
        what they are, but for tokens and blocks."""
        listed = [Wanted(*one) for one in wanted]
        states_of(expect, "expect")
        made = Options("pc_get_options", dict(options), call="get_many")
        array, keep = _entries(listed, expect)
        pointer = make(lib.pc_cache_get_many, "pc_load", self._pointer, expect._c, array,
                       ffi.sizeof("pc_get_entry"), len(listed), made.c)
        return Load(pointer, len(listed), (self, keep), self._context)

    @takes("pc_get_options")
    def prefetch(self, expect: States, wanted: Iterable[Union[Wanted, Tuple[Any, ...]]],
                 **options: Unpack[_api.GetOptions]) -> int:
        """Starts to load entries into free room of RAM, and does not wait. Returns how many loads
        have begun."""
        listed = [Wanted(*one)._replace(into=None) for one in wanted]
        states_of(expect, "expect")
        made = Options("pc_get_options", dict(options), call="prefetch")
        array, keep = _entries(listed, expect)
        started = ffi.new("size_t *")
        check(lib.pc_cache_prefetch(self._pointer, expect._c, array, ffi.sizeof("pc_get_entry"),
                                    len(listed), made.c, started))
        del keep
        return int(started[0])

    @takes("pc_find_options")
    def find(self, keys: Sequence[bytes],
             **options: Unpack[_api.FindOptions]) -> Tuple[int, List[_api.Tier]]:
        """How many of a chain of keys, from the first on, are in some tier; and the nearest tier of
        each. Loads nothing.

        >>> import promptcache
        >>> promptcache.Cache().find([bytes(32)])
        (0, [<Tier.NONE: 0>])
        """
        made = Options("pc_find_options", dict(options), call="find")
        found, tiers = ffi.new("size_t *"), ffi.new("uint32_t[]", len(keys))
        check(lib.pc_cache_find(self._pointer, b"".join(digest(key) for key in keys), len(keys),
                                found, tiers, made.c))
        return int(found[0]), [_api.Tier(tier) for tier in tiers]

    @takes("pc_remove_options")
    def remove(self, keys: Sequence[bytes], **options: Unpack[_api.RemoveOptions]) -> int:
        """Removes entries, also if they are in use or pinned. Returns how many there were."""
        made = Options("pc_remove_options", dict(options), call="remove")
        removed = ffi.new("size_t *")
        check(lib.pc_cache_remove(self._pointer, b"".join(digest(key) for key in keys), len(keys),
                                  removed, made.c))
        return int(removed[0])

    def __repr__(self) -> str:
        if self.closed:
            return super().__repr__()
        stats = self.stats
        return (f"<promptcache.Cache {stats.segments} segments, "
                f"{stats.segment_bytes / 1e6:.1f} of {stats.budget_bytes / 1e6:.1f} MB>")

    def _repr_html_(self) -> str:
        return self.stats._repr_html_()


def _miss(which: str, info: Any) -> MissError:
    reason = _api.Reason(info.reason)
    miss = MissError(f"nothing usable under {which}: {reason}")
    miss.reason = reason
    return miss


def _entries(wanted: List[Wanted], expect: States) -> Tuple[Any, List[Any]]:
    from ._array import dense
    keep: List[Any] = [wanted, expect]
    array = ffi.new("pc_get_entry[]", len(wanted)) if wanted else NULL
    for item, one in zip(array if wanted else (), wanted):
        key = ffi.new("uint8_t[32]", digest(one.key))
        tokens = integers("int32_t[]", one.tokens, "tokens")
        keep += [key, tokens]
        item.key, item.tokens, item.token_count = key, tokens, len(one.tokens)
        if one.relative is not None:
            relative = integers("int64_t[]", one.relative, "relative", len(one.tokens))
            keep.append(relative)
            item.relative = relative
        if one.into is not None:
            memories = [dense(block, f"block {index}", writable=True, host=True)
                        for index, block in enumerate(one.into)]
            sizes = ffi.new("uint64_t[]", [memory.nbytes for memory in memories])
            blocks = ffi.new("void *[]", [memory.pointer for memory in memories])
            if len(memories) != expect._c.block_count:
                raise ValueError(f"into: {len(memories)} blocks instead of "
                                 f"{expect._c.block_count}")
            keep += [memories, sizes, blocks]
            item.blocks, item.block_bytes = blocks, sizes
    return array, keep


class Load(Handle):
    """Loads of many entries, as `Cache.get_many` has started them."""

    _free = "pc_load_free"

    def __init__(self, pointer: Any, count: int, keep: Any, context: Context) -> None:
        self._count = count
        self._context = context
        super().__init__(pointer, keep)

    def __len__(self) -> int:
        return self._count

    @property
    def done(self) -> int:
        """How many entries from the first on are done. Does not wait."""
        done = ffi.new("size_t *")
        check(lib.pc_load_poll(self._pointer, done))
        return int(done[0])

    def wait(self, seconds: float = float("inf")) -> bool:
        """Waits until all entries are done, but no longer than so many seconds. Returns whether
        all are done."""
        left = seconds
        while True:  # in pieces, so that Ctrl-C works
            piece = min(left, 0.1)
            if check(lib.pc_load_wait(self._pointer, piece)) == lib.PC_OK:
                return True
            left -= piece
            if left <= 0:
                return False

    def __getitem__(self, index: int) -> Optional[Segment]:
        """The segment of an entry; None for one with arrays, which are filled then. Raises
        MissError, with `reason`; waits until the entry is done."""
        if not 0 <= index < self._count:
            raise IndexError(f"entry {index} of {self._count}")
        out, info = ffi.new("pc_segment **"), new("pc_get_info")
        status = check(lib.pc_load_result(self._pointer, index, out, info))
        while status == lib.PC_AGAIN:
            check(lib.pc_load_wait(self._pointer, 0.01))
            status = check(lib.pc_load_result(self._pointer, index, out, info))
        if status == lib.PC_MISS:
            raise _miss(f"the key of entry {index}", info)
        if out[0] == NULL:
            return None
        segment = Segment._from_pointer(out[0], self._context)
        segment.info = _api.GetInfo(info)
        return segment


@takes("pc_key_parts")
def base_key(**parts: Unpack[_api.KeyParts]) -> bytes:
    """The base key: digest of everything but tokens that can change K and V.

    >>> import promptcache
    >>> len(promptcache.base_key(model=bytes(32)))
    32
    """
    made = Options("pc_key_parts", dict(parts), call="base_key")
    out = ffi.new("uint8_t[32]")
    check(lib.pc_key_base(out, made.c))
    return bytes(out)


def segment_key(base: bytes, tokens: Sequence[int], *, parent: Optional[bytes] = None,
                distance: int = 0, offset: int = 0,
                relative: Optional[Sequence[int]] = None) -> bytes:
    """The key of a segment.

    parent: key of the last segment that it saw, and `distance` from that one's start to this one's.
    offset: where it was computed, if it cannot be moved. relative: positions minus the first one's.

    >>> import promptcache
    >>> base = promptcache.base_key(model=bytes(32))
    >>> promptcache.segment_key(base, [1, 2]) == promptcache.segment_key(base, [1, 2])
    True
    """
    args = new("pc_key_segment_args")
    keep = [ffi.new("uint8_t[32]", digest(base, "base")), integers("int32_t[]", tokens, "tokens")]
    args.base, args.tokens, args.count = keep[0], keep[1], len(tokens)
    args.distance, args.offset = distance, offset
    if parent is not None:
        keep.append(ffi.new("uint8_t[32]", digest(parent, "parent")))
        args.parent = keep[-1]
    if relative is not None:
        keep.append(integers("int64_t[]", relative, "relative", len(tokens)))
        args.relative = keep[-1]
    out = ffi.new("uint8_t[32]")
    check(lib.pc_key_segment(out, args))
    return bytes(out)


_open: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Steps that nobody waits for come to their end: their callbacks need the interpreter. Caches
    finish their writes before it ends, as in a program in C. Threads of what
    still holds one call no function of Python from then on."""
    for work in list(works):
        work.wait()
    for cache in list(_open):
        cache.close()
    lib.pcpy_end()
