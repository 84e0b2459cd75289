#include "store/segment.h"

#include <string.h>

pc_status pc__segment_new(pc_segment **out, const pc_allocator *mem, const pc__payload_ops *ops, void *payload, void *owner,
                          uint64_t bytes, const int32_t *token_ids, size_t tokens)
{
    pc_segment *segment = pc__calloc(mem, 1, sizeof *segment);
    int32_t *ids = pc__calloc(mem, tokens, sizeof *ids);
    *out = NULL;
    if (!segment || !ids) {
        pc__free(mem, segment);
        pc__free(mem, ids);
        return PC_ERR_NOMEM;
    }
    if (tokens)
        memcpy(ids, token_ids, tokens * sizeof *ids);
    atomic_init(&segment->references, 1);
    segment->mem = *mem;
    atomic_init(&segment->wipe, 0);
    atomic_init(&segment->tier, PC_TIER_HOST);
    segment->ops = ops;
    segment->payload = payload;
    segment->owner = owner;
    segment->bytes = bytes;
    segment->tokens = tokens;
    segment->token_ids = ids;
    *out = segment;
    return PC_OK;
}

pc_segment *pc__segment_ref(pc_segment *segment)
{
    atomic_fetch_add_explicit(&segment->references, 1, memory_order_relaxed);
    return segment;
}

void pc__segment_unref(pc_segment *segment)
{
    if (!segment || atomic_fetch_sub_explicit(&segment->references, 1, memory_order_acq_rel) != 1)
        return;
    pc_allocator mem = segment->mem;
    void *owner = segment->owner;
    void (*drop_owner)(void *) = segment->ops->drop_owner;
    if (atomic_load_explicit(&segment->wipe, memory_order_relaxed) && segment->ops->wipe)
        segment->ops->wipe(owner, segment->payload);
    segment->ops->release(owner, segment->payload);
    pc__free(&mem, segment->token_ids);
    pc__free(&mem, segment);
    if (drop_owner)
        drop_owner(owner); /* last: it may take the allocator's owner with it */
}

int pc__segment_is_single(const pc_segment *segment)
{
    return atomic_load_explicit(&((pc_segment *)(uintptr_t)segment)->references, memory_order_acquire) == 1;
}

size_t pc_segment_tokens(const pc_segment *segment, const int32_t **tokens)
{
    if (tokens)
        *tokens = segment ? segment->token_ids : NULL;
    return segment ? segment->tokens : 0;
}

void pc_segment_free(pc_segment *segment)
{
    pc__segment_unref(segment);
}
