/* What a request seeks below RAM, beside what it computes meanwhile.
 *
 * All that RAM does not have is sought at once (pc__fetch_look_up). What is not there the request
 * computes, and looks at the loads from the model's `cancelled`: whichever comes first is used.
 *
 * Before that it may wait, once, and only for what should come in that time: for at most GRACE of
 * what computing all of it is expected to take, times the trust in the tiers (store/estimate.h). At
 * full trust it may also begin to compute with layers that are there while others should come in
 * time (may_flow). Either is lost if the tier does not keep to what it did lately; trust then
 * halves, and such a pass begins only again after 128 requests that got what they sought. So a tier
 * that is slow, stalled or broken costs
 *   - any request at most GRACE of its computing by waiting, and all requests in a row at most
 * twice that together;
 *   - of 128 requests, one after the other, at most one a pass over its new tokens. */
#ifndef PC_SERVE_FETCH_H
#define PC_SERVE_FETCH_H

#include "serve/segment_image.h"
#include "store/cache.h"

typedef struct pc__fetch {
    const pc_model *model;
    pc_cache *cache;
    size_t count;
    pc__load **loads;    /* [count] NULL: not sought, or taken */
    uint32_t *reasons;   /* [count] PC_REASON_… why it has not come; NONE: not sought */
    double cost;         /* seconds that computing all that was sought should take */
    size_t pending;      /* loads that have not been taken */
    double beside;       /* seconds that the request computes anyway: layers may come meanwhile */
    uint32_t kept, lost; /* bit of a tier: it gave what was sought in time; time was lost by it */
    uint64_t bytes;      /* that the loads which were taken have read */
    int may_flow;        /* segments may be taken before all of their layers are there */
    double until;        /* when all waiting ends */
    uint8_t *early;      /* [count] taken so: its load is still here */
    uint8_t *told;       /* [count] what its load has read is in `bytes` */
} pc__fetch;

/* Nothing is sought where the cache has no tiers below RAM: then it costs nothing and
 * pc__fetch_get says PC_MISS. */
pc_status pc__fetch_start(pc__fetch *fetch, const pc_model *model, pc_cache *cache, size_t count);
void pc__fetch_end(pc__fetch *fetch); /* zeroed: does nothing */

/* Item `index`, by what it has to be; `cost`: seconds of computing it. */
pc_status pc__fetch_look_up(pc__fetch *fetch, size_t index, const pc__segment_facts *facts,
                            double cost);
/* Waits; a second time what is left of the first. Returns the seconds that it took. */
double pc__fetch_wait(pc__fetch *fetch);
/* The same without computing beside it: as long as that would take. */
double pc__fetch_wait_long(pc__fetch *fetch);
/* PC_OK: *out is a reference. PC_AGAIN: not there yet. PC_MISS: it will not come. */
pc_status pc__fetch_get(pc__fetch *fetch, size_t index, pc_segment **out);
/* After pc__fetch_wait, with may_flow: all that is pending could be taken early, and some has to
 * be. */
int pc__fetch_can_stream(const pc__fetch *fetch);
/* PC_OK: *out is a reference whose layers may still be coming; the fetch has to live as long as it
 * is used, or until pc__fetch_finish_streams. */
pc_status pc__fetch_get_stream(pc__fetch *fetch, size_t index, pc_segment **out, uint32_t *tier);
uint32_t pc__fetch_stream_failure(const pc__fetch *fetch); /* a layer of what was taken early did
                                                     not come in time: PC_REASON_… why; else NONE */
void pc__fetch_finish_streams(
    pc__fetch *fetch); /* all layers have come: waits for what the loads still have to do */
/* At once, from any callback. */
int pc__fetch_is_pending(const pc__fetch *fetch, size_t index); /* sought, and not failed so far */
int pc__fetch_is_there(const pc__fetch *fetch, size_t index);   /* pc__fetch_get would give it */
/* Why it was not there: PC_REASON_FIRST_USE if nobody has it, PC_REASON_SLOW if computing was
 * faster. */
uint32_t pc__fetch_reason(const pc__fetch *fetch, size_t index);

/* Starts to load without waiting. PC_OK: started; PC_MISS. */
pc_status pc__fetch_prefetch(const pc_model *model, pc_cache *cache,
                             const pc__segment_facts *facts);

/* Seconds that computing so many tokens in one call should take: as measured; before anything was,
 * by the weights that they read and multiply (pc_model_info), 0 where those are not known. */
double pc__fetch_cost(const pc_model *model, pc_cache *cache, size_t tokens);

/* What heads the records of such a segment, for pc__cache_put; NULL: it can go to no record. */
const pc__image *pc__fetch_image(pc__image *image, const pc_model *model, const pc_cache *cache,
                                 const pc__segment_facts *facts);

#endif
