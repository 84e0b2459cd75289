package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// Cache stores segments in tiers. Any number of goroutines and models may use it at once.
type Cache struct{ *handle }

// NewCache opens a cache.
//
// C: pc_cache_new. Opens a cache and starts its I/O threads. Returns ErrIO or ErrState (the folder
// cannot be used), ErrUnsupported (the library was built without a tier's library). A server that
// does not answer is no error: the cache tries again. A disk without room for a new folder is
// logged, and DISK fails until there is room. So is a folder that another process keeps locked: it
// is read, and nothing is written until it is free. Handle: internally locked. One cache may serve
// many models.
//
//promptcache:doc pc_cache_new
func (c *Context) NewCache(options *CacheOptions) (*Cache, error) {
	a := &arena{}
	defer a.free()
	p, o := (*C.pc_context)(a.hold(c.handle)), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_cache
	if err := a.done(C.go_pc_cache_new(&out, p, o, &a.failure)); err != nil {
		return nil, err
	}
	return finalise(&Cache{newHandle("cache", unsafe.Pointer(out), a.keep(),
		func(p unsafe.Pointer) { C.pc_cache_free((*C.pc_cache)(p)) }, c.handle)}), nil
}

// Close gives the cache up. When no sequence needs it any more, pending writes are finished.
//
// C: pc_cache_free. Finishes pending writes, each within its deadline, then frees. If the folder was
// over its budget at opening, it also evicts what is still over, for at most 2 s. On a thread of
// the cache (in a callback) it returns at once, and that thread does all this when the callback
// has returned.
//
//promptcache:doc pc_cache_free
func (c *Cache) Close() error { return c.close() }

// handleOrNil is of a cache that may be nil.
func (c *Cache) handleOrNil() *handle {
	if c == nil {
		return nil
	}
	return c.handle
}

// cache holds a cache; nil is C's NULL.
func (a *arena) cache(c *Cache) *C.pc_cache {
	if c == nil {
		return nil
	}
	return (*C.pc_cache)(a.hold(c.handle))
}

// use makes a call of the cache.
func (c *Cache) use(call func(a *arena, p *C.pc_cache) C.pc_status) (C.pc_status, error) {
	a := &arena{}
	defer a.free()
	p := a.cache(c)
	if a.err != nil {
		return 0, a.err
	}
	status := call(a, p)
	if a.err != nil {
		return 0, a.err
	}
	return status, a.done(status)
}

// Flush waits until all entries have reached their tiers. all is false if some did not.
//
// C: pc_cache_flush. Waits until every entry that was stored before has reached its tiers or failed
// to. Blocks at most as long as the deadlines of the queue. Returns Miss if, since the last call
// or since the cache was opened, an entry did not get into a tier that it was to be written to:
// dropped, refused or failed of a tier below RAM has grown (TierStats). Of calls at the same time,
// one tells.
//
//promptcache:doc pc_cache_flush
func (c *Cache) Flush() (all bool, err error) {
	status, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_flush(p, &a.failure)
	})
	return status == C.PC_OK && err == nil, err
}

// Stats are the counters of the cache.
//
// C: pc_cache_get_stats. Counters now; other threads may go on. A tier that the cache does not have
// gives zeros. Returns ErrInvalid for an unknown tier.
//
//promptcache:doc pc_cache_get_stats
func (c *Cache) Stats() (stats CacheStats, err error) {
	got := C.pc_cache_stats{struct_size: C.sizeof_pc_cache_stats}
	_, err = c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_get_stats(p, &got, &a.failure)
	})
	stats.from(&got)
	return stats, err
}

// TierStats are the counters of one tier.
//
// C: pc_cache_get_tier_stats. Counters now; other threads may go on. A tier that the cache does not
// have gives zeros. Returns ErrInvalid for an unknown tier.
//
//promptcache:doc pc_cache_get_tier_stats
func (c *Cache) TierStats(tier Tier) (stats TierStats, err error) {
	got := C.pc_tier_stats{struct_size: C.sizeof_pc_tier_stats}
	_, err = c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_get_tier_stats(p, C.uint32_t(tier), &got, &a.failure)
	})
	stats.from(&got)
	return stats, err
}

// Prometheus writes all counters for Prometheus.
//
// C: pc_cache_prometheus. All counters as text [capacity] in the format of Prometheus, not
// NUL-terminated. *size gets its bytes, also with text nil, capacity 0, and with ErrLimit
// (capacity).
//
//promptcache:doc pc_cache_prometheus
func (c *Cache) Prometheus(options *PrometheusOptions) (string, error) {
	a := &arena{}
	defer a.free()
	p, o := a.cache(c), options.c(a)
	if a.err != nil {
		return "", a.err
	}
	return a.readText(func(text *C.char, room C.size_t, size *C.size_t) C.pc_status {
		return C.go_pc_cache_prometheus(p, text, room, size, o, &a.failure)
	})
}

// Clear removes everything from RAM and COMPRESSED.
//
// C: pc_cache_clear. Removes everything from RAM and COMPRESSED that is not in use or pinned.
//
//promptcache:doc pc_cache_clear
func (c *Cache) Clear() error {
	_, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_clear(p, &a.failure)
	})
	return err
}

// Trim evicts from RAM until at most so many bytes are left; reached is false if more are.
//
// C: pc_cache_trim. Evicts from RAM, lowest eviction score first, until at most `bytes` are left
// there. *freed (may be nil): bytes that were freed. Memory of entries that go to COMPRESSED is
// freed once they are written; Cache.Flush waits for that. Returns Miss if the rest is in use,
// pinned or being loaded.
//
//promptcache:doc pc_cache_trim
func (c *Cache) Trim(bytes uint64) (freed uint64, reached bool, err error) {
	var count C.uint64_t
	status, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_trim(p, C.uint64_t(bytes), &count, &a.failure)
	})
	return uint64(count), status == C.PC_OK && err == nil, err
}

// SetQuota limits a tenant's entries in a tier. salt is nil for entries without one.
//
// C: pc_cache_set_quota. Limits the bytes that one tenant's entries take in a tier: RAM, COMPRESSED
// or DISK. A tenant over its limit makes room among its own entries. In a folder, entries of all
// processes count; what is over goes in the background, and what other processes write counts
// within a second. salt: the cache's own or one of Salt; nil: no salt. bytes 0: tenant_share of
// the cache holds. Returns ErrUnsupported (REMOTE: the server chooses what it evicts), ErrInvalid
// (no such tier).
//
//promptcache:doc pc_cache_set_quota
func (c *Cache) SetQuota(tier Tier, salt []byte, bytes uint64) error {
	_, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_set_quota(p, C.uint32_t(tier), a.bytes(salt), C.size_t(len(salt)),
			C.uint64_t(bytes), &a.failure)
	})
	return err
}

// Pin keeps an entry in RAM; pinned is false if it is not there.
//
// C: pc_cache_pin. Pins an entry in RAM for an owner, until it is unpinned or `seconds` have passed
// (0: no end). Pinning again as the same owner sets the end anew. owner: any number of the
// application but UINT64_MAX. Returns Miss if the entry is not in RAM.
//
//promptcache:doc pc_cache_pin
func (c *Cache) Pin(key Key, owner uint64, d time.Duration) (pinned bool, err error) {
	status, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_pin(p, a.key(&key), C.uint64_t(owner), seconds(d), &a.failure)
	})
	return status == C.PC_OK && err == nil, err
}

// Unpin removes a pin; found is false if there is none.
//
// C: pc_cache_unpin. Pins an entry in RAM for an owner, until it is unpinned or `seconds` have
// passed (0: no end). Pinning again as the same owner sets the end anew. owner: any number of the
// application but UINT64_MAX. Returns Miss if the entry is not in RAM.
//
//promptcache:doc pc_cache_unpin
func (c *Cache) Unpin(key Key, owner uint64) (found bool, err error) {
	status, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_unpin(p, a.key(&key), C.uint64_t(owner), &a.failure)
	})
	return status == C.PC_OK && err == nil, err
}

// UnpinOwner removes all pins of an owner.
//
// C: pc_cache_unpin_owner. Removes all pins of an owner. OK also if there are none.
//
//promptcache:doc pc_cache_unpin_owner
func (c *Cache) UnpinOwner(owner uint64) error {
	_, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_unpin_owner(p, C.uint64_t(owner), &a.failure)
	})
	return err
}

// Put stores a segment. status is OK, Exists or Miss.
//
// C: pc_cache_put. Stores a segment. The cache takes a reference of its own. The tiers below RAM get
// it later, from a thread of the cache: Cache.Flush waits for that and tells if something was
// given up. Returns Exists if RAM has an entry under this key, which stays, and Miss if RAM has no
// room (lower tiers may still take it).
//
//promptcache:doc pc_cache_put
func (c *Cache) Put(key Key, segment *Segment, options *PutOptions) (status Status, err error) {
	got, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		s, o := a.segment(segment), options.c(a)
		if a.err != nil {
			return 0
		}
		return C.go_pc_cache_put(p, a.key(&key), s, o, &a.failure)
	})
	return Status(got), err
}

// PutCopy stores a copy of states. status is OK, Exists or Miss.
//
// C: pc_cache_put_copy. As Cache.Put, of a copy: nothing of raw is needed afterwards. Room is made
// before anything is copied, in RAM, or for what waits to be written; what is refused is not
// copied. Returns Exists and Miss as Cache.Put.
//
//promptcache:doc pc_cache_put_copy
func (c *Cache) PutCopy(key Key, raw *Raw, options *PutOptions) (status Status, err error) {
	got, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		r, o := raw.c(a), options.c(a)
		if a.err != nil {
			return 0
		}
		return C.go_pc_cache_put_copy(p, a.key(&key), r, o, &a.failure)
	})
	return Status(got), err
}

// Get finds a segment; it is nil if there is none, and info has the reason.
//
// C: pc_cache_get. Finds a segment. Blocks, at most for cost_seconds or until the deadline. *out: a
// reference for the caller. info may be nil. expect: model, position scheme, dtype, layout, shape,
// RoPE regime, tokens and block sizes must all agree; blocks are not read. Returns Miss, with a
// reason in info; the entry stays.
//
//promptcache:doc pc_cache_get
func (c *Cache) Get(key Key, expect *Raw, options *GetOptions) (segment *Segment, info GetInfo,
	err error) {
	got := C.pc_get_info{struct_size: C.sizeof_pc_get_info}
	var out *C.pc_segment
	_, err = c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		r, o := raw(expect, a), options.c(a)
		if a.err != nil {
			return 0
		}
		return C.go_pc_cache_get(&out, p, a.key(&key), r, o, &got, &a.failure)
	})
	if out != nil {
		segment = newSegment(out, c.handle)
	}
	info.from(&got)
	return segment, info, err
}

// entries checks what C cannot: sizes of blocks are as many as the expected ones.
func (a *arena) entries(expect *Raw, wanted []GetEntry) *C.pc_get_entry {
	for i := range wanted {
		bytes := wanted[i].BlockBytes
		if bytes != nil && (expect == nil || len(bytes) != len(expect.BlockBytes)) {
			a.fail(errorf(ErrInvalid, "entry %d has %d sizes of blocks", i, len(bytes)))
		}
	}
	return getEntryArray(a, wanted)
}

func raw(expect *Raw, a *arena) *C.pc_raw {
	if expect == nil {
		return nil
	}
	return expect.c(a)
}

// Find says how many of a chain of keys are in some tier, and in which each one is.
//
// C: pc_cache_find. How many of a chain of keys, from the first on, are in some tier. Loads nothing,
// counts no look-up and changes no eviction score. Costs a microsecond for each key, for keys that
// only DISK may have a look into its directory, and for REMOTE one round trip for each 512 keys
// and server. A record may still turn out damaged or evicted when it is read. keys: [count * 32]
// one behind the other. tiers: [count] Tier of each key (the first of RAM, COMPRESSED, DISK,
// REMOTE), also behind the first that is missing; TierNone: nowhere. May be nil. A server that
// does not answer has nothing.
//
//promptcache:doc pc_cache_find
func (c *Cache) Find(keys []Key, options *FindOptions) (found int, tiers []Tier, err error) {
	var count C.size_t
	tiers = make([]Tier, len(keys))
	_, err = c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_find(p, (*C.uint8_t)(first(keys)), C.size_t(len(keys)), &count,
			(*C.uint32_t)(first(tiers)), options.c(a), &a.failure)
	})
	return int(count), tiers, err
}

// Remove removes entries, and says how many keys some tier had.
//
// C: pc_cache_remove. Removes entries, also from what is on its way to a tier, and also if they are
// in use or pinned: users keep their references. *removed (may be nil): keys that some tier had.
// Returns an error of a tier that may still have one (ErrState: read-only; ErrIO); the rest is
// removed. keys: [count * 32].
//
//promptcache:doc pc_cache_remove
func (c *Cache) Remove(keys []Key, options *RemoveOptions) (removed int, err error) {
	var count C.size_t
	_, err = c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		return C.go_pc_cache_remove(p, (*C.uint8_t)(first(keys)), C.size_t(len(keys)), &count,
			options.c(a), &a.failure)
	})
	return int(count), err
}

// Prefetch starts loading entries into RAM, and says how many loads have begun.
//
// C: pc_cache_prefetch. Starts to load entries into free room of RAM, and does not wait. Their
// blocks are not used. *started (may be nil): how many loads have begun; others are in RAM, in no
// tier, or do not fit into the queue.
//
//promptcache:doc pc_cache_prefetch
func (c *Cache) Prefetch(expect *Raw, wanted []GetEntry, options *GetOptions) (started int,
	err error) {
	var count C.size_t
	_, err = c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		r, list, o := raw(expect, a), a.entries(expect, wanted), options.c(a)
		if a.err != nil {
			return 0
		}
		return C.go_pc_cache_prefetch(p, r, list, C.sizeof_pc_get_entry, C.size_t(len(wanted)), o,
			&count, &a.failure)
	})
	return int(count), err
}

// Load is many entries on their way to segments. Goroutines wait for each other.
type Load struct{ *owned }

// GetMany starts to load many entries.
//
// C: pc_cache_get_many. Starts to load many entries [count], in this order. expect: what they must
// be, as of Cache.Get, but for tokens, relative, token_count and blocks, which are the entries'.
// All is copied; memory of an entry's blocks stays until the entry is done, or the load is freed.
// What goes into the caller's blocks is read or decoded there, by threads of the cache, and does
// not get into RAM; what RAM has is copied. At most 8192 loads of a cache wait at a time: further
// entries are Miss with ReasonSlow. Handle: one thread at a time.
//
//promptcache:doc pc_cache_get_many
func (c *Cache) GetMany(expect *Raw, wanted []GetEntry, options *GetOptions) (*Load, error) {
	var out *C.pc_load
	_, err := c.use(func(a *arena, p *C.pc_cache) C.pc_status {
		r, list, o := raw(expect, a), a.entries(expect, wanted), options.c(a)
		if a.err != nil {
			return 0
		}
		return C.go_pc_cache_get_many(&out, p, r, list, C.sizeof_pc_get_entry,
			C.size_t(len(wanted)), o, &a.failure)
	})
	if err != nil {
		return nil, err
	}
	return finalise(&Load{newOwned("load", unsafe.Pointer(out), c.handle,
		func(p unsafe.Pointer) { C.pc_load_free((*C.pc_load)(p)) })}), nil
}

// Close gives up what is not done.
//
// C: pc_load_free. Gives up what is not done. When it returns, nothing is written to the caller's
// blocks any more: it waits for the blocks that are being read at this moment.
//
//promptcache:doc pc_load_free
func (l *Load) Close() error { return l.close() }

// use makes a call of the load.
func (l *Load) use(call func(a *arena, p *C.pc_load) C.pc_status) (C.pc_status, error) {
	a := &arena{}
	defer a.free()
	p := (*C.pc_load)(l.lock(a))
	defer l.unlock()
	if a.err != nil {
		return 0, a.err
	}
	status := call(a, p)
	return status, a.done(status)
}

// Wait waits for all entries, or until ctx is done.
//
// C: pc_load_wait. Waits until all entries are done, but no longer than `seconds` (0: not at all).
// Returns OK, or Again: some are not done yet. Every entry is done soon after the deadline.
//
//promptcache:doc pc_load_wait
func (l *Load) Wait(ctx context.Context) error {
	const slice = 20 * time.Millisecond // between two looks at ctx
	for {
		if err := ctx.Err(); err != nil {
			return cancelled(err)
		}
		status, err := l.use(func(a *arena, p *C.pc_load) C.pc_status {
			return C.go_pc_load_wait(p, seconds(slice), &a.failure)
		})
		if err != nil || status == C.PC_OK {
			return err
		}
	}
}

// Poll says how many entries from the first on are done.
//
// C: pc_load_poll. Does not wait. *done (may be nil): how many entries from the first on are done.
// Returns as Load.Wait.
//
//promptcache:doc pc_load_poll
func (l *Load) Poll() (done int, err error) {
	var count C.size_t
	_, err = l.use(func(a *arena, p *C.pc_load) C.pc_status {
		return C.go_pc_load_poll(p, &count, &a.failure)
	})
	return int(count), err
}

// Result is one entry: status is OK, Again or Miss.
//
// C: pc_load_result. The result of one entry: OK; Again: it is not done; Miss, with a reason in
// info, and blocks of any contents. *segment: a reference for the caller, nil for an entry with
// blocks and of a miss. segment and info may be nil. Returns ErrNotFound: there is no such entry.
//
//promptcache:doc pc_load_result
func (l *Load) Result(index int) (segment *Segment, info GetInfo, status Status, err error) {
	got := C.pc_get_info{struct_size: C.sizeof_pc_get_info}
	var out *C.pc_segment
	result, err := l.use(func(a *arena, p *C.pc_load) C.pc_status {
		return C.go_pc_load_result(p, C.size_t(index), &out, &got, &a.failure)
	})
	if out != nil {
		segment = newSegment(out, l.needs)
	}
	info.from(&got)
	return segment, info, Status(result), err
}
