/* What the files of the memo share.
 *
 * A memo is a folder: maps/ (map_store.h: maps and pooled inputs of the remembered prompts), a
 * projector a bucket ("projector-<most>.pcp") and the head ("memo.pcm": which model, which buckets,
 * what they were tuned to). Features and indexes are what notes and projectors make; where that
 * takes long, "index-<most>.pci" keeps a copy of them (memo_index.h). An index holds one length. */
#ifndef PC_MEMO_MEMO_BODY_H
#define PC_MEMO_MEMO_BODY_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/dir.h"
#include "memo/memo.h"
#include "memo/train/projector.h"
#include "model/model.h"

enum {
    PC__MEMO_MOST_BUCKETS = 64,
    PC__MEMO_LEAST_RECORDS = 32 /* that a projector is trained from */
};

typedef struct pc__memo_bucket {
    uint32_t least, most;     /* tokens */
    pc__projector *projector; /* random until trained: pools all the same */
    uint32_t trained;
    uint64_t sum; /* XXH3 of its projector's file */
    pc__memo_tuning tuning;
    uint64_t records;
    double loss_sum; /* of the losses since it was tuned, */
    double loss_squares;
    uint64_t losses_over_limit; /* of those: above the limit of one hit */
    uint64_t verified;
    uint64_t
        unsaved_cost; /* what the bucket's file does not have of its indexes, as pc__memo_index_cost */
} pc__memo_bucket;

typedef struct pc__memo_head {
    pc__id model;
    uint32_t causal, layers, heads, hidden, map_format;
    uint32_t bucket_count;
    uint32_t outputs, output_pool; /* of prompts that are added: PC_OUTPUT_…, PC_POOL_… */
    uint32_t layerwise; /* 1: a note has the pooled inputs of all layers, and each layer is sought
                           for itself (AttnCache-f) */
} pc__memo_head;

/* A remembered prompt; ids ascend, so the list is sorted. */
typedef struct pc__memo_entry {
    int64_t id;
    pc__id tokens_id;
    uint32_t tokens;      /* 0: it has gone */
    uint32_t has_outputs; /* in its note */
} pc__memo_entry;

/* Tokens of the remembered prompts -> record, open addressing. */
typedef struct pc__token_hash {
    pc__id *ids;      /* [capacity] */
    int64_t *records; /* PC__NO_NEIGHBOUR: free; -2: was used */
    size_t capacity, used;
} pc__token_hash;

struct pc_memo {
    atomic_size_t references;
    pc_allocator mem;
    pc_model *model;
    pc_memo_options options; /* bucket_tokens is not kept */
    pc__dir dir;
    int is_open; /* all of it was */
    pc__memo_head head;
    pc__map_store *maps;
    pthread_mutex_t writer; /* adding, training, tuning: one at a time; taken before `guard` */
    pthread_rwlock_t guard; /* all below; never held while a callback runs */
    pc__memo_bucket *buckets;
    pc__index *
        *lengths; /* [most tokens of the last bucket + 1][units]; NULL: nothing of that length */
    pc__token_hash known;
    pc__memo_entry *entries;
    size_t entry_count, entry_capacity;
    uint64_t outputs;                                      /* entries that have some */
    uint64_t lookups, hits, output_hits, misses, verified; /* under `counting`, as is the next */
    double checks_due[PC__MEMO_MOST_BUCKETS];              /* share of hits not checked so far */
    pthread_mutex_t counting;
};

/* Inputs of a prompt that are sought for themselves: one, or one a layer. */
static inline size_t pc__memo_indexed_layers(const pc_memo *memo)
{
    return memo->head.layerwise ? memo->head.layers : 1;
}

/* memo_head.c */
int pc__memo_outputs_valid(uint32_t outputs, uint32_t pool); /* 1: such values there are */
pc_status pc__memo_head_write(const pc_memo *memo);
/* A bucket's projector into its file, before the head that names it by *sum; until then the old
 * head's is gone, and the bucket counts as untrained: nothing wrong is ever used. */
pc_status pc__memo_projector_write(const pc_memo *memo, const pc__projector *projector,
                                   uint64_t *sum);
/* PC_MISS: there is none. Fills head and buckets (projectors are read too). */
pc_status pc__memo_head_read(pc_memo *memo);

/* A whole file of the memo's folder, to be freed. */
pc_status pc__memo_file_read(const pc_memo *memo, const char *name, uint8_t **data, size_t *size);

/* memo_index_save.c: what the files of indexes lack is written, where that is worth it. Under
 * `writer`. What fails is told in the log, too: a memo works without them. */
pc_status pc__memo_index_save(pc_memo *memo);

/* memo_token_hash.c */
pc_status pc__token_hash_set(pc__token_hash *known, const pc_allocator *mem, const pc__id *id,
                             int64_t record);
int64_t pc__token_hash_get(const pc__token_hash *known, const pc__id *id);
void pc__token_hash_remove(pc__token_hash *known, const pc__id *id);
pc__id pc__input_digest(const pc_input *input);

/* memo_entries.c; all under `guard` for writing */
pc_status pc__memo_entry_add(pc_memo *memo, int64_t id, const pc__id *tokens_id, uint32_t tokens,
                             size_t metadata_size);
const pc__memo_entry *pc__memo_entry_find(
    const pc_memo *memo, int64_t id); /* NULL: no such record since it was opened. Under `guard` */
/* A record that has gone from the store is found no more. Takes `guard` itself. */
void pc__memo_entry_remove(pc_memo *memo, int64_t id);

/* memo_index.c: indexes by length, of the records of a bucket as a projector sees them; from the
 * bucket's file as far as it goes, from notes where `kept` is NULL. *unkept: what the file does not
 * have. */
pc_status pc__memo_index_build(const pc_memo *memo, const pc__projector *projector,
                               const pc__memo_bucket *kept,
                               pc__index **by_length /* [most - least + 1][units] */,
                               uint64_t *unsaved_cost);
void pc__memo_index_free(pc__index **by_length, size_t count);
/* A record of `tokens` tokens more; `guard` is held for writing. */
pc_status pc__memo_index_add(pc_memo *memo, size_t tokens, const float *features /* [units] */,
                             int64_t record);

/* memo_input.c: the pooled input of the first layer. */
pc_status pc__memo_pool(pc_memo *memo, const pc_input *input, uint32_t bucket, float *pooled);
pc_status pc__memo_pool_layer(pc_memo *memo, const float *x, size_t tokens, uint32_t bucket,
                              float *pooled); /* of what a layer is given */
/* As it is kept beside the maps: fp16. */
void pc__memo_pooled_put(const float *pooled, size_t count, uint16_t *metadata);
void pc__memo_pooled_get(const uint16_t *metadata, size_t count, float *pooled);

#endif
