/* The cache: segments by key, in the RAM tier (store/ram/ram_tier.h) and in the tiers of records
 * below it (store/tier.h).
 *
 * A request looks in RAM with pc__cache_get_entry. On a miss it may start a load from the lower
 * tiers with pc__cache_lookup_async, or join one that is running. It waits a little and then
 * computes; whichever ends first is used (pc__entry_load_wait, polled from the encoder's
 * `cancelled`). So a slow or broken tier costs no more than that little waiting. */
#ifndef PC_STORE_CACHE_H
#define PC_STORE_CACHE_H

#include "store/estimate.h"
#include "store/key.h"
#include "store/ram/ram_tier.h"
#include "store/segment.h"

typedef struct pc__entry_load pc__entry_load;

/* PC_OK: *out is a new reference on a segment with these tokens. The caller checks whether it can
 * use the payload (pc__segment_serves). PC_MISS: *reason (may be NULL) as of pc__ram_tier_get. */
pc_status pc__cache_get_entry(pc_cache *cache, const pc__id *key, const int32_t *tokens,
                              size_t count, pc_segment **out, uint32_t *reason);
/* Of a miss in RAM and below it: what the tiers below know says more, if they know of the entry. */
static inline uint32_t pc__miss_reason(uint32_t in_ram, uint32_t below)
{
    return below == PC_REASON_FIRST_USE ? in_ram : below;
}

/* What a request wants from below RAM. The load starts only if it pays: by recent measurements
 * (store/estimate.h) it should end before the request would have computed the segment, and all
 * loads together should bring more than is computed meanwhile. A tier that is too slow or has
 * failed is probed now and then. */
typedef struct pc__load_request {
    /* What the segment must be, without blocks (pc__image_match), with key and tokens. Copied. */
    const pc__image *image;
    const pc__payload_ops *ops;     /* makes the payload */
    void *owner;                    /* of the payload */
    void (*ref_owner)(void *owner); /* takes a reference for as long as the load runs */
    uint64_t bytes;                 /* of the segment in RAM */
    const pc__entry_desc *desc;     /* of the entry in RAM */
    double cost;                    /* seconds that computing it should take; 0: unknown */
    double queue_cost;       /* seconds that the request computes before it needs the segment */
    const pc_allocator *mem; /* of the segment; NULL: the context's */
    uint32_t tiers;          /* bits 1 << PC_TIER_…: only these are asked; 0: all */
    double deadline;         /* pc__now clock; 0: by the cache's deadline */
} pc__load_request;
/* PC_OK: *out is a reference on a load. PC_MISS: no tier has it, or *reason says why a load does
 * not pay. */
pc_status pc__cache_lookup_async(pc_cache *cache, const pc__load_request *request,
                                 pc__entry_load **out, uint32_t *reason);
/* Waits until `until` (pc__now clock; 0: does not wait). PC_OK: *out is a new reference on the
 * complete segment; counts a hit, so call it once for each look-up. PC_AGAIN: not yet. PC_MISS: the
 * load has failed, *reason. */
pc_status pc__entry_load_wait(pc__entry_load *load, double until, pc_segment **out,
                              uint32_t *reason);
/* Waits only. 1: the load is done or, if `early`, pc__load_early would succeed. */
int pc__load_await(pc__entry_load *load, double until, int early);
/* The segment before all of its layers are there, for owners that can compute with it
 * (pc__payload_ops.set_layer_stream). Each layer is waited for until `until` at most. Keep the load
 * as long as the segment, or until it is done. PC_MISS: not yet, or too late. */
pc_status pc__load_early(pc__entry_load *load, double until, pc_segment **out, uint32_t *tier);
/* PC_REASON_… why a layer did not come in time; else NONE. */
uint32_t pc__load_stream_error(pc__entry_load *load);
/* 1: pc__entry_load_wait would give PC_OK. Any thread; does not wait. */
int pc__load_succeeded(const pc__entry_load *load);
/* 1: pc__entry_load_wait would not give PC_AGAIN. Any thread; does not wait. */
int pc__load_is_done(const pc__entry_load *load);
/* When it should be there, pc__now clock; earlier loads come first. */
double pc__load_due(const pc__entry_load *load);
/* The tier that it came from; until then, or after a failure, the tier that is asked first. */
uint32_t pc__load_tier(const pc__entry_load *load);
uint64_t pc__load_bytes(const pc__entry_load *load); /* read */
/* The caller no longer waits. A block that is being read is finished, and the segment goes into RAM
 * if there is room. NULL does nothing. */
void pc__load_drop(pc__entry_load *load);
/* Copies the states of one key into given memory, without a segment: from `segment` if that is not
 * NULL (the load takes the reference over, on failure too), else from the tiers of request->tiers
 * below RAM. Nothing of it gets into RAM. request->image has sizes of blocks; blocks [block_count]
 * are copied, their memory stays until pc__load_end. The request's ops, owner and desc are not
 * used. As pc__cache_lookup_async, but always a load of its own. */
pc_status pc__cache_load_into(pc_cache *cache, const pc__load_request *request,
                              uint8_t *const *blocks, pc_segment *segment, pc__entry_load **out,
                              uint32_t *reason);
/* Of such a load that is done: PC_OK, with lossy and other_kernels as of a segment; PC_MISS,
 * *reason. */
pc_status pc__load_filled(pc__entry_load *load, uint32_t *lossy, uint32_t *other_kernels,
                          uint32_t *reason);
/* Nobody waits for such a load any more. NULL does nothing. */
void pc__load_give_up(pc__entry_load *load);
/* Gives up and drops it; when it returns, nothing is written to the given memory any more. It waits
 * for one block at most, and not for a load that has not begun. NULL does nothing. */
void pc__load_end(pc__entry_load *load);
/* Loads into free room; nobody waits. PC_OK: started; PC_MISS. */
pc_status pc__cache_prefetch_entry(pc_cache *cache, const pc__load_request *request);
/* Of `tiers` (0: all): bits of the tiers of this cache that outlive the process and may be written
 * to. */
uint32_t pc__cache_persistent(const pc_cache *cache, uint32_t tiers);
/* Waits for entries that are on their way to the tiers below RAM, if one of this key is among them.
 */
void pc__cache_await_key(pc_cache *cache, const pc__id *key);
/* 1: there are tiers below RAM. */
int pc__cache_has_lower(const pc_cache *cache);
uint64_t pc__cache_flags(const pc_cache *cache);
/* The class of kernels whose states alone are used; NULL: any. */
const char *pc__cache_own_kernels(const pc_cache *cache);
double pc__cache_deadline(const pc_cache *cache); /* seconds */
double pc__cache_ttl(const pc_cache *cache);      /* seconds; 0: entries do not expire */
pc__estimate *pc__cache_estimate(pc_cache *cache);
/* A request begins (+1) or ends (-1) to compute. Meanwhile the background thread pauses.
 * NULL: nothing happens. */
void pc__cache_request_running(pc_cache *cache, int by);

/* Stores a reference in RAM and writes behind to the lower tiers. PC_MISS: not stored in RAM,
 * *reason (may be NULL) says why. PC_EXISTS: RAM has the key already, the first segment stays;
 * *winner (may be NULL) gets a reference to the stored one if it serves the owner of `segment`,
 * else NULL. `image` describes the segment beyond its payload (model, architecture, encoding …);
 * pc__payload_ops.describe adds shape and blocks. NULL: for RAM only. */
pc_status pc__cache_put_entry(pc_cache *cache, const pc__entry_desc *desc, const pc__image *image,
                              pc_segment *segment, pc_segment **winner, uint32_t *reason);
/* Of a segment in RAM: waits for room and writes it to the lower tiers that it was dropped from. */
void pc__cache_write_dropped(pc_cache *cache, const pc__id *key, pc_segment *segment);
/* An owner of payloads (pc_segment.owner) needs memory: evicts so many bytes of its idle segments
 * from RAM. Their memory is free on return, unless a lower tier is still writing them at its
 * deadline. If none is idle, it waits for those that are still being written, and returns 1.
 * Returns the bytes; 0: there is nothing of the owner's to give back. */
uint64_t pc__cache_free_for_owner(pc_cache *cache, const void *owner, uint64_t bytes);
/* Bits 1 << PC_TIER_… of the tiers of `tiers` (0: all) that have each key, into has [count]. Counts
 * no look-up. A tier that does not answer before the deadline (pc__now clock) has nothing. */
pc_status pc__cache_find_keys(pc_cache *cache, const pc__id *keys, size_t count, uint32_t tiers,
                              double deadline, uint32_t *has);
/* Removes an entry from the tiers of `tiers` (0: all), also from those on the way there. PC_MISS:
 * none had it. An error of a tier: the others have removed it. */
pc_status pc__cache_remove_entry(pc_cache *cache, const pc__id *key, uint32_t tiers);
/* As pc__cache_put_entry without a segment: copies the states that `image` (with blocks) describes,
 * if they may stay in RAM or on the way to a lower tier. Nothing is copied otherwise. PC_EXISTS:
 * RAM has the key. PC_MISS: *reason. */
pc_status pc__cache_put_entry_copy(pc_cache *cache, const pc__entry_desc *desc,
                                   const pc__image *image, uint32_t *reason);
/* PC_ERR_INVALID: NULL. PC_ERR_STATE: a child after fork() has it from its parent. */
pc_status pc__cache_check(const pc_cache *cache, const char *call);
/* PC_ERR_INVALID: `tiers` (0: all) has bits of no tier, or of none that the cache has. */
pc_status pc__cache_check_tiers(const pc_cache *cache, uint64_t tiers, const char *call);
/* 1: a segment with this content is in some tier, whatever its parent. Counts no look-up. */
int pc__cache_has_content(pc_cache *cache, const pc__id *content);
/* The library's own pins, counted. PC_MISS: not there. */
pc_status pc__cache_pin_entry(pc_cache *cache, const pc__id *key);
pc_status pc__cache_unpin_entry(pc_cache *cache, const pc__id *key);
const void *pc__cache_salt(const pc_cache *cache, size_t *size);
pc_cache *pc__cache_ref(pc_cache *cache);
void pc__cache_unref(pc_cache *cache);
PC__HOLDABLE(pc_cache, pc__cache_ref, pc__cache_unref)

#endif
