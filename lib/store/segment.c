/* Reference counts and watching of segments (segment.h). */
#include "store/segment.h"

#include <sched.h>
#include <string.h>

pc_status pc__segment_new(pc_segment **out, const pc_allocator *mem, const pc__payload_ops *ops,
                          void *payload, void *owner, uint64_t bytes, const int32_t *token_ids,
                          size_t tokens)
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
    atomic_init(&segment->tier, PC_TIER_RAM);
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

/* Above the reference count lie the number of passive references and two flags. WATCHED: whoever
 * drops the last reference but the watcher's and the passive ones puts the segment into the
 * watcher's list. It drops its own reference after that, so that the segment lives. BUSY stands in
 * between; whoever takes segments or the list waits for it (a few instructions of the other
 * thread). */
#define WATCHED (UINT64_C(1) << 63)
#define BUSY (UINT64_C(1) << 62)
#define PASSIVE (UINT64_C(1) << 40) /* one of them */
#define COUNT (PASSIVE - 1)

static int has_others(uint64_t seen)
{
    return (seen & COUNT) > 1 + (seen & (BUSY - 1)) / PASSIVE;
}

static void put_into_list(pc_segment *segment)
{
    pc__releases *releases = atomic_load_explicit(&segment->watcher, memory_order_relaxed);
    pc_segment *first = atomic_load_explicit(&releases->first, memory_order_relaxed);
    do
        segment->next_release = first;
    while (!atomic_compare_exchange_weak_explicit(&releases->first, &first, segment,
                                                  memory_order_acq_rel, memory_order_relaxed));
}

/* Changes the references by `by`. If only the watcher's and passive references remain, tells the
 * watcher first, unless another thread is doing so. Returns the remaining count. */
static uint64_t change(pc_segment *segment, uint64_t by)
{
    uint64_t seen = atomic_load_explicit(&segment->references, memory_order_relaxed);
    for (;;) {
        int tells = (seen & (WATCHED | BUSY)) == WATCHED && !has_others(seen + by);
        uint64_t next = tells ? seen | BUSY : seen + by;
        if (!atomic_compare_exchange_weak_explicit(&segment->references, &seen, next,
                                                   memory_order_acq_rel, memory_order_relaxed))
            continue;
        if (!tells)
            return next & COUNT;
        put_into_list(segment);
        atomic_fetch_and_explicit(&segment->references, ~WATCHED, memory_order_acq_rel);
        return (atomic_fetch_add_explicit(&segment->references, by - BUSY, memory_order_acq_rel)
                - BUSY + by)
               & COUNT;
    }
}

void pc__segment_unref(pc_segment *segment)
{
    if (!segment || change(segment, (uint64_t)-1))
        return;
    pc_allocator mem = segment->mem;
    void *owner = segment->owner;
    void (*drop_owner)(void *) = segment->ops->drop_owner;
    if (atomic_load_explicit(&segment->zero_memory, memory_order_relaxed)
        && segment->ops->zero_memory)
        segment->ops->zero_memory(owner, segment->payload);
    if (atomic_load_explicit(&segment->free_to_system, memory_order_relaxed)
        && segment->ops->free_to_system)
        segment->ops->free_to_system(owner, segment->payload);
    segment->ops->release(owner, segment->payload);
    pc__free(&mem, atomic_load_explicit(&segment->description, memory_order_relaxed));
    pc__free(&mem, atomic_load_explicit(&segment->visibility, memory_order_relaxed));
    pc__free(&mem, segment->token_ids);
    pc__free(&mem, segment);
    if (drop_owner)
        drop_owner(owner); /* last: the allocator may go with it */
}

static pc_segment *segment_of(const pc_span *spans, size_t stride, size_t index)
{
    pc_segment *segment;
    memcpy(&segment, (const char *)spans + index * stride + offsetof(pc_span, segment),
           sizeof segment);
    return segment;
}

void pc__spans_hold(const pc_span *spans, size_t stride, size_t count)
{
    for (size_t i = 0; spans && i < count; i++)
        (void)pc__hold_pc_segment(segment_of(spans, stride, i));
}

void pc__spans_let_go(const pc_span *spans, size_t stride, size_t count)
{
    for (size_t i = 0; spans && i < count; i++)
        pc__segment_unref(segment_of(spans, stride, i));
}

pc_status pc__segment_set_description(pc_segment *segment, const pc__image *image)
{
    pc__image header = *image, *description, *none = NULL;
    if (atomic_load_explicit(&segment->description, memory_order_acquire))
        return PC_OK;
    header.tokens = segment->tokens;
    header.token_ids = NULL; /* the segment's own */
    header.block_count = 0;
    header.block_bytes = NULL;
    description = pc__image_copy(&segment->mem, &header);
    if (!description)
        return PC_ERR_NOMEM;
    if (!atomic_compare_exchange_strong_explicit(&segment->description, &none, description,
                                                 memory_order_acq_rel, memory_order_acquire))
        pc__free(&segment->mem, description);
    return PC_OK;
}

const pc__id *pc__segment_visibility(const pc_segment *segment)
{
    return atomic_load(&segment->visibility);
}

pc_status pc__segment_set_visibility(pc_segment *segment, const pc__id *visibility)
{
    pc__id *noted, *none = NULL;
    if (pc__segment_visibility(segment))
        return PC_OK;
    if (!(noted = pc__alloc(&segment->mem, sizeof *noted)))
        return PC_ERR_NOMEM;
    *noted = *visibility;
    if (!atomic_compare_exchange_strong_explicit(&segment->visibility, &none, noted,
                                                 memory_order_acq_rel, memory_order_acquire))
        pc__free(&segment->mem, noted);
    return PC_OK;
}

int pc__payload_serves(const pc__payload_ops *ops, const void *owner,
                       const pc__payload_ops *other_ops, const void *other)
{
    return ops == other_ops && (owner == other || (ops->serves && ops->serves(owner, other)));
}

int pc__segment_serves(const pc_segment *segment, const pc__payload_ops *ops, const void *owner)
{
    return pc__payload_serves(segment->ops, segment->owner, ops, owner);
}

int pc__segment_claim(pc_segment *segment, pc__releases *releases, void *tag)
{
    pc__releases *nobody = NULL;
    if (!atomic_compare_exchange_strong_explicit(&segment->watcher, &nobody, releases,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return 0;
    segment->watch_tag = tag;
    return 1;
}

void pc__segment_disclaim(pc_segment *segment)
{
    atomic_store_explicit(&segment->watcher, NULL, memory_order_release);
}

void pc__segment_set_passive(pc_segment *segment)
{
    change(segment, PASSIVE);
}

void pc__segment_set_active(pc_segment *segment)
{
    atomic_fetch_sub_explicit(&segment->references, PASSIVE, memory_order_acq_rel);
}

int pc__segment_is_idle(const pc_segment *segment)
{
    return !has_others(atomic_load(&segment->references));
}

int pc__segment_watch(pc_segment *segment)
{
    uint64_t seen = atomic_load_explicit(&segment->references, memory_order_acquire);
    while (has_others(seen))
        if (atomic_compare_exchange_weak_explicit(&segment->references, &seen, seen | WATCHED,
                                                  memory_order_acq_rel, memory_order_acquire))
            return 1;
    return 0;
}

/* Waits until the thread that adds it to the list is done. */
static uint64_t when_not_busy(pc_segment *segment)
{
    uint64_t seen = atomic_load_explicit(&segment->references, memory_order_acquire);
    for (; seen & BUSY; seen = atomic_load_explicit(&segment->references, memory_order_acquire))
        sched_yield();
    return seen;
}

int pc__segment_is_busy(const pc_segment *segment)
{
    return (atomic_load_explicit(&segment->references, memory_order_acquire) & BUSY) != 0;
}

int pc__segment_unwatch(pc_segment *segment)
{
    for (uint64_t seen = when_not_busy(segment); seen & WATCHED; seen = when_not_busy(segment))
        if (atomic_compare_exchange_weak_explicit(&segment->references, &seen, seen & ~WATCHED,
                                                  memory_order_acq_rel, memory_order_relaxed))
            return 1;
    return 0;
}

pc_segment *pc__releases_take(pc__releases *releases)
{
    pc_segment *list = atomic_exchange_explicit(&releases->first, NULL, memory_order_acq_rel);
    for (pc_segment *s = list; s; s = s->next_release)
        when_not_busy(s);
    return list;
}

const int32_t *pc_segment_tokens(const pc_segment *segment, size_t *count)
{
    if (count)
        *count = segment ? segment->tokens : 0;
    return segment ? segment->token_ids : NULL;
}

void pc_segment_free(pc_segment *segment)
{
    pc__segment_unref(segment);
}
