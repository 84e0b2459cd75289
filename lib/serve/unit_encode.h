/* Encodes units of a schema and stores their leaves. */
#ifndef PC_SERVE_UNIT_ENCODE_H
#define PC_SERVE_UNIT_ENCODE_H

#include "serve/encode_call.h"
#include "serve/model_calls.h"
#include "serve/schema.h"
#include "serve/segment_image.h"

typedef struct pc__unit_work {
    const pc_model *model;
    const pc__recipe *recipe;
    pc__unit_keys *keys; /* counted */
    pc_cache *cache;     /* NULL: nothing is stored */
    uint64_t rope_regime_length;
    const uint8_t *adapter; /* this and the next: for the model's functions */
    uint64_t tag;
    int32_t (*cancelled)(void *user);
    void *cancel_user;
    pc_segment **made;   /* [leaves] counted; allocated by pc__unit_work_start */
    uint8_t *not_stored; /* [leaves] PC_REASON_… why it is not in RAM; 0: it is */
    int refused;         /* RAM has refused a leaf since the work began */
    double ttl;          /* of stored segments; 0: the cache's */
    int32_t priority;
    uint32_t wait_for_room; /* pc__entry_desc */
} pc__unit_work;

/* The units of a schema in a cache, with the tenants that `owners` give. Fields that are not set
 * here are the caller's. To be ended, on failure too. */
pc_status pc__unit_work_init(pc__unit_work *work, const pc_schema *schema, pc_cache *cache,
                             uint32_t encoding, const pc__request_regime *regime,
                             const pc__request_owners *owners);
void pc__unit_work_end(pc__unit_work *work);        /* zeroed: does nothing */
void pc__unit_work_drop(pc__unit_work *work);       /* drops all of `made` */
pc_status pc__unit_work_start(pc__unit_work *work); /* allocates `made` if it is not there yet */

/* Borrowed from the schema and the keys. */
pc__segment_facts pc__unit_facts(const pc__unit_work *work, size_t leaf);
/* The next encode call for a unit, to be ended in any case: its own, or that of the leading texts
 * if it sees them and they are missing. *which: the unit that it computes. */
pc_status pc__unit_prepare(pc__unit_work *work, size_t unit, pc__encode_call *call, size_t *which);
/* Stores the leaves of a unit, computed by its call, in the cache and in `made`. */
pc_status pc__unit_take(pc__unit_work *work, size_t unit, const pc__encode_call *call,
                        double token_seconds);
/* The error of its call, with its name. */
pc_status pc__unit_failed(const pc__unit_work *work, size_t unit, pc_status status);
/* All calls for a unit, one after the other. */
pc_status pc__unit_encode(pc__unit_work *work, size_t unit);
/* A leaf that was made here or is in RAM; PC_MISS. *out is borrowed from `made`. */
pc_status pc__unit_find(pc__unit_work *work, size_t leaf, pc_segment **out);

/* PC_CACHE_PREFETCH: the other members of unions that the prompt has used, and the modules behind
 * the last one used (schema_prefetch.c). Loads go into free room without waiting; failures do not
 * matter. */
void pc__prefetch_around(const pc__unit_work *work, const pc_prompt *prompt);

#endif
