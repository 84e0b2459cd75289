/* Encodes the units of a schema that are missing in a store. */
#ifndef PC_SERVE_UNIT_ENCODE_H
#define PC_SERVE_UNIT_ENCODE_H

#include "serve/model_calls.h"
#include "serve/schema.h"
#include "serve/segment_image.h"

typedef struct pc__unit_work {
    const pc_model *model;
    const pc__recipe *recipe;
    const pc__unit_keys *keys;
    pc_cache *cache; /* NULL: nothing is kept */
    uint64_t rope_regime_length;
    int32_t (*cancelled)(void *user);
    void *cancel_user;
    pc_segment **made; /* [leaves] counted; made by pc__unit_work_start */
    uint8_t *unkept;   /* [leaves] PC_REASON_… why the store did not keep it in RAM; 0: it did. In
                          the memory of `made` */
    int refused;       /* for one of them since the work began */
    double ttl;        /* of what is kept; 0: the cache's */
    int32_t priority;
    uint64_t write_room; /* bytes kept before it waits until they have reached the tiers below RAM;
                            0: never waits */
    uint64_t behind;     /* kept since then */
} pc__unit_work;

pc_status pc__unit_work_start(pc__unit_work *work); /* allocates `made` if it is not there yet */
void pc__unit_work_end(pc__unit_work *work);

/* What a leaf is. Borrowed from the schema and the keys. */
pc__segment_facts pc__unit_facts(const pc__unit_work *work, size_t leaf);
/* Encodes a unit (and what it sees, if that is missing too) and keeps its leaves, also in `made`.
 */
pc_status pc__unit_encode(pc__unit_work *work, size_t unit);
/* A leaf that was made here or is in the store; PC_MISS. *out is borrowed from `made`. */
pc_status pc__unit_find(pc__unit_work *work, size_t leaf, pc_segment **out);

#endif
