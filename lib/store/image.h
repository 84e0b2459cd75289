/* The states of a segment as blocks of memory, with all that describes them: a record is written
 * from an image and read into one (doc/format.md, "Records"). All pointers are borrowed, from the
 * segment or from the record. */
#ifndef PC_STORE_IMAGE_H
#define PC_STORE_IMAGE_H

#include <promptcache/extend.h>
#include <promptcache/cache.h>

#include "attn/kv.h"
#include "base/digest.h"

/* Whether the blocks of a layout are pages of states that our kernels have computed (attn/kv.h). */
static inline int pc__layout_is_ours(uint32_t layout)
{
    return layout == PC_LAYOUT_PAGES || layout == PC_LAYOUT_LATENT;
}
/* Whether they are pages, perhaps of an application's model. */
static inline int pc__layout_has_pages(uint32_t layout)
{
    return pc__layout_is_ours(layout) || layout == PC_LAYOUT_MODEL_PAGES;
}

/* What the states are; all of it must match. */
typedef struct pc__image_form {
    uint8_t model[32];     /* fingerprint */
    char architecture[32]; /* NUL-terminated */
    uint32_t position_scheme, layout;
    uint64_t regime;
    int64_t origin;     /* position of its start when it was computed */
    pc__kv_shape shape; /* the dtype as stored; other fields: zeros where the layout has none */
} pc__image_form;

typedef struct pc__image {
    /* names */
    pc__id key;
    pc__id content; /* its tokens without their parent (pc__cache_has_content) */
    uint32_t has_content;
    pc__id parent; /* key of the last segment that it saw */
    uint32_t has_parent;
    /* pc__salt_digest of the tenant's salt; zeros in an image of what is wanted: any tenant,
     * because the key names the tenant too. */
    pc__id salt;

    pc__image_form form;
    pc__id visibility; /* pc_segment.visibility */
    uint32_t has_visibility;
    uint32_t encoding; /* PC_ENCODE_… */
    uint32_t lossy;    /* 1: near to what was computed, not equal */
    /* Class of the kernels that computed it (pc__kernels_class); "": unknown. Other kernels give
     * other bits, within rounding. */
    char kernels[32];

    /* for eviction */
    double cost; /* seconds to compute it */
    int32_t priority;
    int64_t expires; /* seconds since 1970; 0: never */
    double ttl;      /* a hit moves `expires` to then + ttl; 0: `expires` is fixed */

    /* content */
    size_t tokens;
    const int32_t *token_ids; /* [tokens] */
    const int64_t *relative;  /* [tokens] or NULL: 0, 1, 2 … */
    size_t block_count;       /* at most PC__MAX_BLOCKS */
    /* [block_count]; NULL if the image only describes a record. */
    uint8_t *const *blocks;
    /* Instead of blocks, of states that are read one block at a time, in order: *data is valid
     * until the next call. NULL: there are blocks. */
    pc_status (*fetch)(void *fetch_from, size_t index, const void **data);
    void *fetch_from;
    /* [block_count]; NULL in an image of what is wanted: any sizes up to most_block. */
    const uint64_t *block_bytes;
    uint64_t most_block; /* only in an image of what is wanted: bytes of a block; 0: any */
} pc__image;

enum { PC__MAX_BLOCKS = 65536 };

/* Names and eviction data of an entry. */
typedef struct pc__entry_desc {
    pc__id key;
    const pc__id *content; /* of the tokens without their parent; NULL: none */
    const pc__id *parent;  /* NULL: none. Evicted after this entry, which is useless without it */
    const pc__id *salt;    /* pc__salt_digest, for quotas; NULL: the cache's */
    double cost;           /* seconds that computing it took */
    double ttl;            /* seconds from the last hit; 0: the cache's */
    double ttl_left;       /* of an evicted entry: seconds that are left; 0: all */
    /* Bytes of pc__ram_tier_reserve; the put returns them. */
    uint64_t reserved;
    int32_t priority;
    /* 1: written to the lower tiers at its second use. */
    uint32_t write_on_reuse;
    /* 1: the put waits for room on the way to the lower tiers, rather than drop the entry. */
    uint32_t wait_for_room;
    uint32_t tiers; /* bits 1 << PC_TIER_… of those that may have it; 0: all */
} pc__entry_desc;

/* Whether `tiers` (0: all) holds a tier. */
static inline int pc__tiers_have(uint32_t tiers, uint32_t tier)
{
    return !tiers || (tiers >> tier & 1);
}

/* Sets the fields of an image that the description of an entry holds; salt: if it names none. */
void pc__image_set_entry(pc__image *image, const pc__entry_desc *desc, const pc__id *salt);

/* A copy in one block of memory, with all that it points to but blocks. NULL: no memory. */
pc__image *pc__image_copy(const pc_allocator *mem, const pc__image *image);
uint64_t pc__image_bytes(const pc__image *image); /* of all blocks */

/* PC_ERR_MISMATCH names the first field of `have` that differs from `want`: key, salt, model,
 * architecture, position scheme, dtype, layout, regime, origin, shape, tokens, relative positions,
 * number and sizes of blocks (of want->block_bytes NULL: at most want->most_block). Not compared:
 * lossy, kernels, cost, priority, times. */
pc_status pc__image_match(const pc__image *want, const pc__image *have);

/* Dates are whole seconds since 1970. The first one by which so many seconds have passed since any
 * moment of the second `date`: what ends then has lived at least so long. INT64_MAX at most. */
int64_t pc__date_after(int64_t date, double seconds);
/* The end of a record that was written with `expires` (0: never) and last used on `last`. Every use
 * moves the end and sets the file's date. */
int64_t pc__end_after_use(int64_t expires, double ttl, int64_t last);

/* Digest that names a salt in records and quotas without revealing it. */
pc__id pc__salt_digest(const void *salt, size_t size);

#endif
