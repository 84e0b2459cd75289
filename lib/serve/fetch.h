/* Loads of segments from the tiers below RAM, beside what the request computes meanwhile.
 *
 * All segments that RAM does not have are looked up at once (pc__fetch_look_up). The request
 * computes the rest, and looks at the loads from the model's `cancelled`: the first result is used.
 *
 * Before that it may wait, once, and only for what should come in that time: for at most GRACE of
 * the time that computing all of it should take, times the trust in the tiers (store/estimate.h).
 * At full trust it may also begin to compute with the layers that are there, if the others should
 * come in time (may_stream). Either time is lost if the tier is slower than it was lately. Trust
 * then halves, and a request computes with streams again only after 128 requests that got what they
 * looked up. So a tier that is slow, stalled or broken costs
 *   - any request at most GRACE of its computing by waiting, and all requests in a row at most
 *     twice that together;
 *   - of 128 requests, one after the other, at most one a pass over its new tokens. */
#ifndef PC_SERVE_FETCH_H
#define PC_SERVE_FETCH_H

#include "serve/segment_image.h"
#include "store/cache.h"

typedef struct pc__fetch_item {
    pc__entry_load *load; /* NULL: not looked up, or handed over */
    uint32_t reason;      /* PC_REASON_… why it has not come; NONE: not looked up */
    uint8_t streamed;     /* handed over before all of its layers were there; its load stays */
    uint8_t counted;      /* the bytes of its load are in `bytes` */
} pc__fetch_item;

typedef struct pc__fetch {
    const pc_model *model;
    pc_cache *cache;
    size_t count; /* 0: nothing can be loaded */
    pc__fetch_item *items;
    double cost;    /* seconds that computing all items should take */
    size_t pending; /* items whose load has not been handed over */
    double beside;  /* seconds that the request computes anyway: layers may come meanwhile */
    uint32_t in_time, late; /* bits of tiers: that gave what was looked up; that cost time */
    uint64_t bytes;         /* read by the loads that were handed over */
    int may_stream;         /* segments may be handed over before all of their layers are there */
    double until;           /* when all waiting ends */
} pc__fetch;

/* Where the cache has no tiers below RAM this allocates nothing, and pc__fetch_get gives PC_MISS.
 */
pc_status pc__fetch_start(pc__fetch *fetch, const pc_model *model, pc_cache *cache, size_t count);
void pc__fetch_end(pc__fetch *fetch); /* zeroed: does nothing */

/* Starts the load of an item; `cost`: seconds of computing it. */
pc_status pc__fetch_look_up(pc__fetch *fetch, size_t index, const pc__segment_facts *facts,
                            double cost);
/* Waits, and returns the seconds waited. A second call has only the rest of the first one's time.
 * `computes`: the caller computes the items that have not come. Otherwise this waits as long as
 * computing them takes. */
double pc__fetch_wait(pc__fetch *fetch, int computes);
/* The same question without waiting: 1: pc__fetch_wait would wait now. */
int pc__fetch_waits(pc__fetch *fetch, int computes);
int pc__fetch_comes(const pc__fetch *fetch); /* 1: a load is under way */
/* PC_OK: *out is a reference, and *tier (may be NULL) says from where. PC_AGAIN: not there yet.
 * PC_MISS: it will not come. */
pc_status pc__fetch_get(pc__fetch *fetch, size_t index, pc_segment **out, uint32_t *tier);
/* At once, from any callback: looked up and not failed; there. */
int pc__fetch_is_pending(const pc__fetch *fetch, size_t index);
int pc__fetch_is_there(const pc__fetch *fetch, size_t index);
/* PC_REASON_FIRST_USE: no tier has it. PC_REASON_SLOW: computing was faster. */
uint32_t pc__fetch_reason(const pc__fetch *fetch, size_t index);

/* Layer streams. After pc__fetch_wait with may_stream: whether all pending items could be handed
 * over now, with at least one whose layers are still coming. */
int pc__fetch_can_stream(const pc__fetch *fetch);
/* PC_OK: *out is a reference whose layers may still be coming. The fetch has to live as long as
 * that segment is used, or until pc__fetch_finish_streams. */
pc_status pc__fetch_get_stream(pc__fetch *fetch, size_t index, pc_segment **out, uint32_t *tier);
/* PC_REASON_… why a layer did not come in time; NONE: all have. */
uint32_t pc__fetch_stream_failure(const pc__fetch *fetch);
/* All layers have come: waits until the loads are done with them. */
void pc__fetch_finish_streams(pc__fetch *fetch);

/* Starts to load without waiting. PC_OK: started; PC_MISS. */
pc_status pc__fetch_prefetch(const pc_model *model, pc_cache *cache,
                             const pc__segment_facts *facts);
/* Seconds that computing so many tokens in one call should take, as measured. Before anything is
 * measured: by the weights that the call reads and multiplies (pc_model_info), 0 if unknown. */
double pc__fetch_cost(const pc_model *model, pc_cache *cache, size_t tokens);

/* Stores a computed segment in RAM and in the tiers below (pc__cache_put_entry). `how` gives
 * cost, lifetime, priority and on_reuse; the rest of its fields come from the facts. */
pc_status pc__fetch_store(const pc_model *model, pc_cache *cache, const pc__segment_facts *facts,
                          const pc__entry_desc *how, pc_segment *segment, pc_segment **winner,
                          uint32_t *reason);

#endif
