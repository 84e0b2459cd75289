/* A counted reference to the attention states of a run of tokens, whoever computed them. Immutable,
 * but for what a load still has to write (pc__payload_ops.set_layer_stream). */
#ifndef PC_STORE_SEGMENT_H
#define PC_STORE_SEGMENT_H

#include "attn/kv.h"
#include "base/context.h"
#include "store/image.h"

#include <promptcache/extend.h>

/* What its owner can do with a payload. All but `release` may be NULL. */
typedef struct pc__payload_ops {
    void (*release)(void *owner, void *payload); /* gives it back */
    void (*drop_owner)(void *owner);             /* and the reference on the owner */
    /* The payload as an image (blocks borrowed from the payload; names, cost and times are left
     * alone). *release_me (may stay NULL): memory that the caller frees with pc__free when it is
     * done with the image: pointer tables, or bytes that a host exported. */
    pc_status (*describe)(void *owner, void *payload, pc__image *image, void **release_me);
    /* Memory for the states that `image` describes (without blocks): *payload, and in blocks
     * [image->block_count] where each is to be written. The payload becomes usable with `finish`;
     * `release` gives it back in any case. PC_ERR_MISMATCH: this owner cannot use such states. */
    pc_status (*create)(void *owner, const pc__image *image, void **payload, uint8_t **blocks);
    /* The same around blocks that stay where they are until the payload is released and
     * drop_lender(lender) is called. They hold what they shall when `settle` is called for them,
     * which may write zeros there; nothing else is written. */
    pc_status (*wrap_memory)(void *owner, const pc__image *image, const void *const *blocks,
                             void *memory_owner, void (*release_memory)(void *memory_owner),
                             void **payload);
    /* Block `index` is written, or in its place and checked. Called for each before `finish`, by
     * whichever thread has done that. */
    void (*block_ready)(void *owner, void *payload, size_t index);
    /* Only of owners that can compute with some blocks (one a layer) while others are still being
     * read: whoever does asks the flow first. NULL: all blocks are there. The flow lives as long as
     * anybody uses the payload under it. */
    void (*set_layer_stream)(void *owner, void *payload, pc__layer_stream *stream);
    /* All blocks are written. May replace the payload. On failure the payload stays to be released.
     */
    pc_status (*finish)(void *owner, const pc__image *image, void **payload);
    void (*zero_memory)(void *owner,
                        void *payload); /* overwrites the states; nobody reads them any more */
    void (*free_to_system)(void *owner, void *payload); /* `release` is to give the memory back to
                                                      the system, not to keep it in the heap */
    /* Can who has `other` use payloads of `owner`? NULL: nobody but the owner itself. */
    int (*serves)(const void *owner, const void *other);
    /* The payload as a host sees it, all but tokens and lossy; pointers are borrowed from the
     * payload. NULL, PC_ERR_UNSUPPORTED: it shows it to nobody. */
    pc_status (*raw)(void *owner, void *payload, pc_raw *raw);
} pc__payload_ops;

/* Segments of which a watcher holds the last reference, put there by whoever gave up the last but
 * one. Nobody needs a lock for it. */
typedef struct pc__releases {
    _Atomic(pc_segment *) first;
} pc__releases;

struct pc_segment {
    _Atomic(uint64_t) references; /* the count and, above it, how many of them are kept, and the two
                                     flags of pc__segment_watch */
    pc_allocator mem;
    const pc__payload_ops *ops;
    void *payload;  /* the owner's handle */
    void *owner;    /* model, or context */
    uint64_t bytes; /* counted against budgets */
    size_t tokens;
    int32_t *token_ids; /* [tokens] compared on a hit */
    uint32_t lossy;     /* its states went through a codec that does not give back every bit */
    uint32_t
        other_kernels; /* … or were computed elsewhere with kernels of another class than ours */
    atomic_uint zero_memory; /* overwrite before release */
    atomic_uint
        free_to_system; /* it has left a tier, or was refused: its memory goes back to the system */
    atomic_uint tier;   /* PC_TIER_… that it last came from; RAM if it was computed here */
    _Atomic(pc__image *) description; /* how records of it are headed, without blocks and tokens;
                                   NULL: it goes to no record */
    _Atomic(pc__id *)
        visibility; /* what its tokens have seen (serve/visibility.h); NULL: nobody knows */
    atomic_uint not_written;         /* 1: the tiers below get it when it is used once more */
    _Atomic(pc__releases *) watcher; /* who may watch it; NULL: anybody */
    void *watch_tag;                 /* the watcher's own */
    pc_segment *next_release;        /* in pc__releases */
};

/* Takes `payload` (released with the last reference) and, through drop_owner, one reference on
 * `owner`, on success only. Copies the ids. */
pc_status pc__segment_new(pc_segment **out, const pc_allocator *mem, const pc__payload_ops *ops,
                          void *payload, void *owner, uint64_t bytes, const int32_t *token_ids,
                          size_t tokens);
pc_segment *pc__segment_ref(pc_segment *segment);
/* Not while a lock is held that `release` or `drop_owner` could need. NULL does nothing. */
void pc__segment_unref(pc_segment *segment);
/* Keeps a copy of `image` (names, model, times, relative positions) with the segment, for the first
 * caller; later ones change nothing. */
pc_status pc__segment_set_description(pc_segment *segment, const pc__image *image);
/* Notes what its tokens have seen, for the first caller; later ones change nothing. NULL: nobody
 * has. */
pc_status pc__segment_set_visibility(pc_segment *segment, const pc__id *visibility);
const pc__id *pc__segment_visibility(const pc_segment *segment);
/* Whether payloads of one owner are of use to another: a key says what states are, not who has them
 * in which form. */
int pc__payload_serves(const pc__payload_ops *ops, const void *owner,
                       const pc__payload_ops *other_ops, const void *other);
int pc__segment_serves(const pc_segment *segment, const pc__payload_ops *ops, const void *owner);
/* Nobody but the caller holds it. */
int pc__segment_is_single(const pc_segment *segment);

/* Who keeps a segment for others, and wants to know when they are done with it without looking
 * again and again, watches it. All of these are called by the watcher, who has a reference and lets
 * nobody else call them at the same time. */

/* 1: this one may watch from now on; 0: another one does already. */
int pc__segment_claim(pc_segment *segment, pc__releases *releases, void *tag);
/* Whom another one was faster than keeps it: its reference does not count as somebody's who holds
 * it, so that of several who keep one segment none waits for the others. Undone by
 * pc__segment_unkeep, before the reference is given up or the segment is claimed. */
void pc__segment_keep(pc_segment *segment);
void pc__segment_unkeep(pc_segment *segment);
int pc__segment_is_idle(
    const pc_segment *segment); /* now nobody has it but who watches and who keeps it */
/* 1: others hold it; it will be in `releases`, once, when the last of them has given it back
 * (perhaps it has been taken up again by then). 0: nobody else does. */
int pc__segment_watch(pc_segment *segment);
/* Before a watcher goes: undoes pc__segment_watch. 0: it is in `releases` by now, and has to be
 * taken from there first. */
int pc__segment_unwatch(pc_segment *segment);
void pc__segment_disclaim(pc_segment *segment); /* neither watched nor in `releases` */
/* What is in the list, linked by next_release; it is empty then. */
pc_segment *pc__releases_take(pc__releases *releases);

#endif
