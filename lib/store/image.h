/* The states of a segment as memory blocks, with everything that says what they are: what a record
 * is written from and read into (doc/format.md, "Records"). A view: all pointers are borrowed, from
 * the segment or from the record that filled it. */
#ifndef PC_STORE_IMAGE_H
#define PC_STORE_IMAGE_H

#include "base/digest.h"

typedef struct pc__image {
    /* what it is called */
    pc__id key;
    pc__id content; /* its tokens without what they saw (pc__cache_has_content) */
    uint32_t has_content;
    pc__id parent; /* key of the last segment that it saw */
    uint32_t has_parent;
    pc__id salt; /* pc__salt_digest of its tenant's salt; zeros in an image of what is wanted:
                    anybody's (the key says whose) */

    /* what may use it */
    uint8_t model[32];     /* fingerprint */
    char architecture[32]; /* NUL-terminated */
    uint32_t position_scheme, dtype, layout,
        encoding; /* PC_POSITION_…, PC_DTYPE_… as stored, PC_LAYOUT_…, PC_ENCODE_… */
    uint64_t regime;
    int64_t origin;                         /* where its start stood when it was computed */
    int32_t layers, kv_heads, k_dim, v_dim; /* zeros where the layout does not have them */
    uint32_t lossy;                         /* 1: not what was computed, but near it */
    char kernels[32]; /* that computed it (pc__kernels_class), NUL-terminated; "": not known. Other
                         kernels give other bits, within rounding */

    /* what eviction wants to know */
    double cost; /* seconds to compute it */
    int32_t priority;
    int64_t expires; /* seconds since 1970; 0: no end */
    double ttl;      /* a hit moves `expires` to then + ttl; 0: it does not */

    /* what it holds */
    size_t tokens;
    const int32_t *token_ids; /* [tokens] */
    const int64_t *relative;  /* [tokens] or NULL: 0, 1, 2 … */
    size_t block_count;       /* at most PC__MAX_BLOCKS */
    uint8_t *const
        *blocks; /* [block_count]; NULL in the image of a record that is only described */
    const uint64_t *block_bytes; /* [block_count]; NULL in an image of what is wanted: any (the
                                    owner checks them when it makes a payload) */
} pc__image;

enum { PC__MAX_BLOCKS = 65536 };

/* PC_ERR_MISMATCH names the first field in which `have` cannot stand for `want`: key, salt, model,
 * architecture, position scheme, dtype, layout, regime, origin, shape, tokens, relative positions,
 * number and sizes of blocks. Not looked at: lossy, kernels, cost, priority, times, and the sizes
 * if want->block_bytes is NULL. */
pc_status pc__image_match(const pc__image *want, const pc__image *have);

/* When something ends that lives for so many seconds from a date on (since 1970); at the end of all
 * dates, if it would be later. */
int64_t pc__date_after(int64_t date, double seconds);
/* When a record ends that said `expires` when it was written (0: never) and was last used on
 * `last`: every use moves the end, and leaves its date on the file. */
int64_t pc__end_after_use(int64_t expires, double ttl, int64_t last);

/* Digest by which records and quotas name a salt without telling it. */
pc__id pc__salt_digest(const void *salt, size_t size);

#endif
