/* The store of segments by key: RAM (store/ram/ram_tier.h) and the tiers of records below it
 * (store/tier.h), asked in order.
 *
 * A request looks in RAM with pc__cache_get. What is not there it may seek below:
 * pc__cache_lookup_async starts a load on the cache's I/O threads, or joins one that is under way.
 * The request waits a little, and computes if that is not enough; whichever is there first is used
 * (pc__load_wait, polled from the encoder's `cancelled`). So a slow or broken tier never costs more
 * than the little waiting. */
#ifndef PC_STORE_CACHE_H
#define PC_STORE_CACHE_H

#include "store/key.h"
#include "store/ram/ram_tier.h"
#include "store/segment.h"

typedef struct pc__load pc__load;

/* PC_OK: *out is a new reference, and its tokens equal the given ones; whose payload it is the
 * caller has to look at (pc__segment_serves). PC_MISS. */
pc_status pc__cache_get(pc_cache *cache, const pc__id *key, const int32_t *tokens, size_t count,
                        pc_segment **out);

/* What a request seeks below RAM. Whether it is worth it is decided by what loading took lately
 * (store/estimate.h) against `cost`: it should be there by then, and all loads at once should bring
 * more than is computed meanwhile; a tier that seems too slow, or has failed, is tried again now
 * and then all the same. */
typedef struct pc__load_request {
    const pc__image *image; /* what it has to be, without blocks (pc__image_match); key and tokens
                               are part of it. Copied */
    const pc__payload_ops *ops; /* who makes a payload of it */
    void *owner; /* a reference is taken by pc__load as long as it runs: take_owner(owner) */
    void (*ref_owner)(void *owner);
    uint64_t bytes;             /* of the segment in RAM */
    const pc__entry_desc *desc; /* under which it goes into RAM */
    double cost;                /* seconds that computing it is expected to take; 0: unknown */
    double cost_ahead; /* and what the same request has to compute before it comes to this; the
                           load has that long, too */
    const pc_allocator *mem; /* of the segment; NULL: the cache's context's */
} pc__load_request;
/* PC_OK: *out is a reference on a load. PC_MISS: no tier has it, or *reason says why it is not
 * worth it. */
pc_status pc__cache_lookup_async(pc_cache *cache, const pc__load_request *request, pc__load **out,
                                 uint32_t *reason);
/* Until `until` (pc__now clock; 0: only looks). PC_OK: *out is a new reference on the segment,
 * complete (and the look-up that missed it in RAM was a hit after all, so that each seek ends with
 * one of these). PC_AGAIN: not yet. PC_MISS with *reason: it has failed. */
pc_status pc__load_wait(pc__load *load, double until, pc_segment **out, uint32_t *reason);
int pc__load_await(
    pc__load *load, double until,
    int early); /* only waits; 1: it is done or, if `early`, pc__load_early would give it */
/* The segment before all of its layers are there, for an owner whose payloads can be computed with
 * so (pc__payload_ops.set_layer_stream): who looks at a layer waits for it, at most until `until`.
 * The load has to be kept as long as the segment is, or until it is done. PC_MISS: not yet, or no
 * more. */
pc_status pc__load_early(pc__load *load, double until, pc_segment **out, uint32_t *tier);
uint32_t pc__load_stream_error(
    pc__load *load); /* PC_REASON_… why a layer did not come in time; else NONE */
int pc__load_succeeded(
    const pc__load *load); /* pc__load_wait would give PC_OK. Any thread, at once */
int pc__load_is_done(
    const pc__load *load); /* pc__load_wait would not give PC_AGAIN. Any thread, at once */
double pc__load_due(const pc__load *load); /* when it should be there, behind those that were begun
                                              before it; pc__now clock */
uint32_t pc__load_tier(const pc__load *load); /* that it came from; before, or if it failed: that it
                                                 was expected from first */
uint64_t pc__load_bytes(const pc__load *load); /* read */
/* Nobody here waits for it any more. What is already being read goes on and into RAM if there is
 * room. NULL does nothing. */
void pc__load_drop(pc__load *load);
/* Loads into free room, without anybody waiting. PC_OK: started; PC_MISS. */
pc_status pc__cache_prefetch(pc_cache *cache, const pc__load_request *request);
int pc__cache_has_lower(
    const pc_cache *cache); /* whether pc__cache_lookup_async could ever find anything */
uint64_t pc__cache_flags(const pc_cache *cache);
const char *pc__cache_own_kernels(
    const pc_cache *cache); /* the only ones whose states are taken; NULL: those of any */
double pc__cache_deadline(const pc_cache *cache); /* seconds */
/* How far requests may count on a tier, 0 … 1, and what one of them got of it: store/estimate.h. */
double pc__cache_trust(pc_cache *cache, uint32_t tier);
void pc__cache_update_trust(pc_cache *cache, uint32_t tier, int kept);
/* A request begins (+1) or ends (-1) to compute: threads of the cache that write behind keep still
 * meanwhile. */
void pc__cache_request_running(pc_cache *cache, int by);
/* What computing took, by the model's fingerprint, for decisions to come; and what so many tokens
 * in one call should take, 0: nothing is known yet. */
void pc__cache_report_compute(pc_cache *cache, const uint8_t model[32], size_t tokens,
                              double seconds);
double pc__cache_compute_cost(pc_cache *cache, const uint8_t model[32], size_t tokens);

/* Keeps a reference in RAM and writes behind to the tiers below. PC_MISS: not kept in RAM,
 * *reason (may be NULL) says why. A key that is already there keeps the first segment, and *winner
 * (if not NULL) gets a reference to the kept one, if that is of use to the owner of `segment` (else
 * NULL). `image`: what describes the segment beyond its payload (model, architecture, encoding …;
 * pc__payload_ops.describe adds shape and blocks); NULL: for RAM only. */
pc_status pc__cache_put(pc_cache *cache, const pc__entry_desc *desc, const pc__image *image,
                        pc_segment *segment, pc_segment **winner, uint32_t *reason);
/* An owner of segments (pc_segment.owner) has no memory for more: of its idle ones in RAM so many
 * bytes go, and their memory is free when this returns, unless a tier below is not done with them
 * within the cache's deadlines. Returns how many bytes; 0: none is idle. */
uint64_t pc__cache_free_for_owner(pc_cache *cache, const void *owner, uint64_t bytes);
/* Whether something with this content is kept, behind whatever prefix. Counts as no look-up. */
int pc__cache_has_content(pc_cache *cache, const pc__id *content);
/* Pins of the library's own, counted. PC_MISS: not there. */
pc_status pc__cache_pin(pc_cache *cache, const pc__id *key);
pc_status pc__cache_unpin(pc_cache *cache, const pc__id *key);
const void *pc__cache_salt(const pc_cache *cache, size_t *size);
pc_cache *pc__cache_ref(pc_cache *cache);
void pc__cache_unref(pc_cache *cache);

#endif
