/* What saving, loading and forgetting a sequence share: its names, its records in the cache.
 *
 * A head has two slots, which saves use in turn: the newer one counts (pc__saved_head.counter). So
 * a save that is broken off leaves the one before it. */
#ifndef PC_SERVE_SEQUENCE_SAVED_H
#define PC_SERVE_SEQUENCE_SAVED_H

#include <promptcache/batch.h>

#include "model/model.h"
#include "serve/sequence_head.h"
#include "store/cache.h"

/* Of one saved sequence. */
typedef struct pc__saved {
    const pc_model *model;
    pc_cache *cache;
    const char *call;
    pc_save_options options;
    pc__id base;  /* pc__base_key of model, formats and tenant */
    pc__id salt;  /* pc__salt_digest of the tenant */
    pc__id key;   /* the caller's */
    double until; /* pc__now clock */
    double ttl;   /* seconds, the cache's too; 0: it does not expire */
    /* A part that is there is not stored again, so it must outlive every save that finds it. Parts
     * of one ttl have other keys in each period, and live until the last save of theirs ends. */
    double period;   /* seconds, not below those of the ttl */
    uint64_t number; /* of the period in which this save is */
} pc__saved;

/* PC_ERR_UNSUPPORTED: an application's model, or one without order. */
pc_status pc__saved_check_model(const pc__saved *saved);
/* Checks arguments and options; of the model nothing. */
pc_status pc__saved_init(pc__saved *saved, const char *call, const pc_model *model, pc_cache *cache,
                         const uint8_t *key, const pc_save_options *options);

enum { PC__SAVED_SLOTS = 2 };
pc__id pc__saved_slot(const pc__saved *saved, uint64_t slot);
/* The image of a head, without blocks. */
void pc__saved_head_image(const pc__saved *saved, const pc__id *key, pc__image *image);
/* Waits for an entry that is on its way to the tiers below RAM. The deadline of `saved` is later by
 * as much. */
void pc__saved_await(pc__saved *saved, const pc__id *key);
/* The head in a slot, to be freed, on failure too. PC_MISS: *reason. */
pc_status pc__saved_read_slot(pc__saved *saved, uint64_t slot, pc__saved_head *head,
                              uint32_t *reason);
/* Both heads, to be freed, on failure too: heads[0] is the newer one, of slot *slot. PC_MISS: there
 * is none, *reason; counter 0: there is no such head. */
pc_status pc__saved_read(pc__saved *saved, pc__saved_head heads[PC__SAVED_SLOTS], uint64_t *slot,
                         uint32_t *reason);
/* The counter of a save behind one with this counter. It grows with the time, too: an older save
 * may be on a server that did not answer. */
uint64_t pc__saved_next_counter(uint64_t last);

/* The key of a part of a run: its bytes [layers][layer_bytes], and what names them beside the
 * bytes. `shared`: the same for all sequences of the tenant. */
typedef struct pc__saved_part {
    const pc__saved_run *run;
    size_t first, count; /* tokens */
    uint8_t **blocks;    /* [layers] */
    size_t layers;
    uint64_t layer_bytes;
} pc__saved_part;
/* ttl of the entry of a part, as in pc__entry_desc. */
double pc__saved_part_ttl(const pc__saved *saved);
pc__id pc__saved_part_key(const pc__saved *saved, const pc__saved_part *part);
/* The image of a part, without blocks. block_bytes [layers] get the size of each. */
void pc__saved_part_image(const pc__saved *saved, const pc__saved_head *head,
                          const pc__saved_run *run, size_t part, const pc__kv_shape *shape,
                          const pc__id *key, pc__image *image, uint64_t *block_bytes);
/* Tokens of a part, from *first on. */
size_t pc__saved_part_tokens(const pc__saved_head *head, const pc__saved_run *run, size_t part,
                             size_t *first);

#endif
