/* A counted reference to the attention states of a run of tokens, whoever computed them. Immutable. */
#ifndef PC_STORE_SEGMENT_H
#define PC_STORE_SEGMENT_H

#include "base/context.h"

struct pc_segment {
    atomic_size_t references;
    pc_allocator mem;
    void *payload;                                /* the model's handle */
    void (*release)(void *owner, void *payload);  /* gives it back */
    void (*drop_owner)(void *owner);              /* and the reference on the owner; may be NULL */
    void *owner;
    uint64_t bytes;                               /* counted against budgets */
    size_t tokens;
    int32_t *token_ids;                           /* [tokens] compared on a hit */
};

/* Takes `payload` (released with the last reference) and, through drop_owner, one reference on `owner`, on success only.
 * Copies the ids. */
pc_status pc__segment_new(pc_segment **out, const pc_allocator *mem, void *payload, void (*release)(void *, void *),
                          void (*drop_owner)(void *), void *owner, uint64_t bytes, const int32_t *token_ids, size_t tokens);
pc_segment *pc__segment_ref(pc_segment *segment);
/* Not while a lock is held that `release` or `drop_owner` could need. NULL does nothing. */
void pc__segment_unref(pc_segment *segment);
/* Nobody but the caller holds it. */
int pc__segment_is_single(const pc_segment *segment);

#endif
