/* A counted reference to the attention states of a run of tokens. Immutable, but for layers that a
 * load is still writing (pc__payload_ops.set_layer_stream). */
#ifndef PC_STORE_SEGMENT_H
#define PC_STORE_SEGMENT_H

#include "attn/kv.h"
#include "base/context.h"
#include "store/image.h"

#include <promptcache/extend.h>
#include <promptcache/cache.h>

/* What the owner of a payload can do with it. All but `release` may be NULL. */
typedef struct pc__payload_ops {
    void (*release)(void *owner, void *payload); /* frees it */
    void (*drop_owner)(void *owner);             /* drops its reference on the owner */
    /* Describes the payload as an image: blocks borrowed from the payload; names, cost and times
     * untouched. *release_me (may stay NULL): memory to be freed with pc__free after the image, for
     * pointer tables or bytes that an application exported. */
    pc_status (*describe)(void *owner, void *payload, pc__image *image, void **release_me);
    /* Makes memory for the states that `image` describes (without blocks): *payload, and in blocks
     * [image->block_count] where to write each. `finish` makes it usable; `release` frees it in any
     * case. PC_ERR_MISMATCH: this owner cannot use such states. */
    pc_status (*create)(void *owner, const pc__image *image, void **payload, uint8_t **blocks);
    /* The same around existing blocks. They stay until the payload is released, which calls
     * release_memory(memory_owner). A block is complete when `block_ready` is called for it. That
     * call may write zeros into it; nothing else is written. */
    pc_status (*wrap_memory)(void *owner, const pc__image *image, const void *const *blocks,
                             void *memory_owner, void (*release_memory)(void *memory_owner),
                             void **payload);
    /* Block `index` is written, or checked in place. Called for each block before `finish`, by the
     * thread that has done it. */
    void (*block_ready)(void *owner, void *payload, size_t index);
    /* Of owners that can compute with some blocks (one a layer) while others are still being read:
     * before a block is used, the stream is asked. NULL: all blocks are there. The stream lives as
     * long as the payload is used with it. */
    void (*set_layer_stream)(void *owner, void *payload, pc__layer_stream *stream);
    /* All blocks are written. May replace the payload. After a failure the payload is still to be
     * released. NULL: nothing is left to do. */
    pc_status (*finish)(void *owner, const pc__image *image, void **payload);
    /* Zeroes the states; nobody reads them any more. */
    void (*zero_memory)(void *owner, void *payload);
    /* From now on `release` returns the memory to the system, not to the heap. */
    void (*free_to_system)(void *owner, void *payload);
    /* 1: the holder of `other` can use payloads of `owner`. NULL: only the owner itself can. */
    int (*serves)(const void *owner, const void *other);
    /* The payload as applications see it, all but tokens and lossy; pointers are borrowed from the
     * payload. NULL or PC_ERR_UNSUPPORTED: it is shown to no application. */
    pc_status (*raw)(void *owner, void *payload, pc_raw *raw);
} pc__payload_ops;

/* A lock-free list of segments of which only the watcher holds a reference. */
typedef struct pc__releases {
    _Atomic(pc_segment *) first;
} pc__releases;

enum { PC__NOT_ADMITTED = 1 }; /* pc_segment.not_written */

struct pc_segment {
    /* The count; above it the number of passive references and the two flags of pc__segment_watch.
     */
    _Atomic(uint64_t) references;
    pc_allocator mem;
    const pc__payload_ops *ops;
    void *payload;  /* the owner's */
    void *owner;    /* model, or context */
    uint64_t bytes; /* counted against budgets */
    size_t tokens;
    int32_t *token_ids; /* [tokens] compared on a hit */
    uint32_t lossy;     /* a codec has rounded its states */
    /* Kernels of another class than ours have computed its states. */
    uint32_t other_kernels;
    atomic_uint zero_memory; /* zero before release */
    /* It has left a tier, or was refused: its memory returns to the system. */
    atomic_uint free_to_system;
    atomic_uint tier; /* PC_TIER_… that it came from last; RAM if it was computed here */
    /* Header of its records, without blocks and tokens; NULL: it is in no record. */
    _Atomic(pc__image *) description;
    /* What its tokens have seen (serve/visibility.h); NULL: unknown. */
    _Atomic(pc__id *) visibility;
    /* What the lower tiers get at its next use: PC__NOT_ADMITTED: all of them; or bits 1 <<
     * PC_TIER_… of those on whose way there was no room. */
    atomic_uint not_written;
    _Atomic(pc__releases *) watcher; /* NULL: nobody watches it */
    void *watch_tag;                 /* the watcher's own */
    pc_segment *next_release;        /* in pc__releases */
};

/* On success takes `payload` (released with the last reference) and, through drop_owner, one
 * reference on `owner`. Copies the ids. */
pc_status pc__segment_new(pc_segment **out, const pc_allocator *mem, const pc__payload_ops *ops,
                          void *payload, void *owner, uint64_t bytes, const int32_t *token_ids,
                          size_t tokens);
pc_segment *pc__segment_ref(pc_segment *segment);
/* Never under a lock that `release` or `drop_owner` could take. NULL does nothing. */
void pc__segment_unref(pc_segment *segment);
PC__HOLDABLE(pc_segment, pc__segment_ref, pc__segment_unref)
/* Counts the segments of spans (of them NULL: none) up or down, as PC__HOLD does. The array may be
 * a caller's: `stride` is the bytes from one span to the next. */
void pc__spans_hold(const pc_span *spans, size_t stride, size_t count);
void pc__spans_let_go(const pc_span *spans, size_t stride, size_t count);
/* Keeps a copy of `image` (names, model, times, relative positions); only the first call has an
 * effect. */
pc_status pc__segment_set_description(pc_segment *segment, const pc__image *image);
/* Notes what its tokens have seen; only the first call has an effect. */
pc_status pc__segment_set_visibility(pc_segment *segment, const pc__id *visibility);
const pc__id *pc__segment_visibility(const pc_segment *segment);
/* 1: payloads of one owner serve another. A key says what the states are, not who holds them in
 * which form. */
int pc__payload_serves(const pc__payload_ops *ops, const void *owner,
                       const pc__payload_ops *other_ops, const void *other);
int pc__segment_serves(const pc_segment *segment, const pc__payload_ops *ops, const void *owner);

/* Watching: a tier that keeps a segment learns when nobody else uses it. Only the watcher calls
 * these; it has a reference, and one thread calls at a time. */

/* 1: the caller is the watcher now; 0: there is another one. */
int pc__segment_claim(pc_segment *segment, pc__releases *releases, void *tag);
/* For a tier that is not the watcher: its reference is passive, which is no use, so that several
 * tiers with one segment do not wait for each other. Undo with pc__segment_set_active before
 * dropping the reference or claiming the segment. */
void pc__segment_set_passive(pc_segment *segment);
void pc__segment_set_active(pc_segment *segment);
/* 1: only the watcher's and passive references are left. */
int pc__segment_is_idle(const pc_segment *segment);
/* 1: others use it. It will be in `releases` once, when the last of them has dropped it (it may be
 * in use again by then). 0: nobody else uses it. */
int pc__segment_watch(pc_segment *segment);
/* 1: a thread is just moving it to `releases`; the next three wait for that. After fork() the
 * thread is not there. */
int pc__segment_is_busy(const pc_segment *segment);
/* Undoes pc__segment_watch before the watcher goes. 0: it is in `releases` already and must be
 * taken from there first. */
int pc__segment_unwatch(pc_segment *segment);
void pc__segment_disclaim(pc_segment *segment); /* neither watched nor in `releases` */
/* Takes all segments, linked by next_release. */
pc_segment *pc__releases_take(pc__releases *releases);

#endif
