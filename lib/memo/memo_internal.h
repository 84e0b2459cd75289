/* What the memo_*.c share.
 *
 * A memo is a folder: maps/ (maps/map_store.h: maps and pooled inputs of the remembered prompts), a
 * projector per bucket ("projector-<most>.pcp"), and the head ("memo.pcm": model, buckets and their
 * tuning). Pooled inputs and projectors determine features and indexes. Where computing those takes
 * long, "index-<most>.pci" has a copy (memo_index.h). An index has prompts of one length. */
#ifndef PC_MEMO_MEMO_INTERNAL_H
#define PC_MEMO_MEMO_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/dir.h"
#include "base/hash_table.h"
#include "base/process.h"
#include "memo/memo.h"
#include "memo/train/projector.h"
#include "model/model.h"

enum {
    PC__MEMO_MOST_BUCKETS = 64,
    PC__MEMO_MOST_FILE = 64 << 20, /* bytes of head, projector or checkpoint */
    PC__MEMO_LEAST_RECORDS = 32    /* for training a projector */
};

typedef struct pc__bucket_facts {
    uint32_t least, most;     /* tokens */
    pc__projector *projector; /* random weights until it is trained; it pools inputs even so */
    size_t pooled;            /* its cells; training does not change their number */
    uint32_t trained;
    uint64_t sum;          /* XXH3 of the projector's file */
    pc_memo_bucket tuning; /* its result: open, reason, loss, and from threshold on */
    uint64_t records;
    double loss_sum; /* of the losses of hits verified since tuning */
    double loss_squares;
    uint64_t losses_over_limit; /* those above the limit of a single hit */
    uint64_t verified;
    /* Cost (pc__memo_index_cost) of what the index file lacks. */
    uint64_t unsaved_cost;
} pc__bucket_facts;

typedef struct pc__memo_head {
    pc__map_signature maps;
    uint32_t hidden, bucket_count;
    /* Stored of prompts that are added: PC_OUTPUT_…, PC_POOL_… */
    uint32_t outputs, output_pool;
    /* 1: a record has the pooled inputs of all layers, and each layer is looked up by its own
     * (AttnCache-f). */
    uint32_t layerwise;
} pc__memo_head;

/* A remembered prompt. The list is sorted, because ids ascend. */
typedef struct pc__memo_entry {
    pc__hash_link by_tokens;
    int64_t id;
    pc__id tokens_id;
    uint32_t tokens;      /* 0: the record is gone */
    uint32_t has_outputs; /* in its metadata */
    int is_linked;        /* by_tokens; else another entry has the same tokens */
} pc__memo_entry;

struct pc_memo {
    atomic_size_t references;
    pid_t process; /* that has opened it */
    pc_allocator mem;
    pc_model *model;
    pc_memo_options options; /* bucket_tokens is NULL */
    pc__dir dir;
    int is_open; /* opening succeeded */
    pc__memo_head head;
    pc__map_store *maps;
    pthread_mutex_t writer; /* one thread adds, trains or tunes; locked before `guard` */
    pthread_rwlock_t guard; /* of all below; never held during a callback */
    pc__bucket_facts *buckets;
    /* [most tokens of the last bucket + 1][pc__memo_indexed_layers]; NULL: no record of that length
     */
    pc__index **lengths;
    pc__hash_table by_tokens; /* of the entries that are not gone */
    pc__memo_entry **entries; /* [entry_count] */
    size_t entry_count, entry_capacity;
    uint64_t outputs;                                      /* entries that have outputs */
    uint64_t lookups, hits, output_hits, misses, verified; /* under `counting`, as is the next */
    double checks_due[PC__MEMO_MOST_BUCKETS];              /* hits to verify that are due */
    pthread_mutex_t counting;
};

/* Features of a prompt: one, or one per layer. */
static inline size_t pc__memo_indexed_layers(const pc_memo *memo)
{
    return memo->head.layerwise ? (size_t)memo->head.maps.layers : 1;
}

/* Locks `writer`. PC_ERR_STATE: this thread has it, so a callback asks. */
pc_status pc__memo_write_begin(pc_memo *memo);

/* ---- memo_head.c */
int pc__memo_outputs_valid(uint32_t outputs, uint32_t pool); /* 1: both values are valid */
pc_status pc__memo_head_write(const pc_memo *memo);
/* Writes a bucket's projector, before the head that names it by *sum. Until that head is written,
 * the old head names a file that is gone, and the bucket counts as untrained. */
pc_status pc__memo_projector_write(const pc_memo *memo, const pc__projector *projector,
                                   uint64_t *sum);
/* Reads head, buckets and their projectors. PC_MISS: there is no head. */
pc_status pc__memo_head_read(pc_memo *memo);

/* ---- memo_buckets.c: a copy, made under `guard` */
pc__bucket_facts pc__memo_bucket_now(const pc_memo *memo, size_t index);
/* Sets the tuning, and forgets losses verified before. Under `guard` for writing. */
void pc__memo_retune(pc__bucket_facts *bucket, const pc_memo_bucket *tuning);

/* ---- memo_index_file.c: writes index files where they lack enough to be worth it. Under `writer`.
 * An error is logged, too: a memo works without them. */
pc_status pc__memo_index_save(pc_memo *memo);

/* ---- memo_entries.c; all under `guard` for writing */
pc_status pc__memo_entry_add(pc_memo *memo, int64_t id, const pc__id *tokens_id, uint32_t tokens,
                             size_t metadata_size);
/* NULL: no such record since the memo was opened. Under `guard`. */
pc__memo_entry *pc__memo_entry_find(const pc_memo *memo, int64_t id);
/* NULL: no record of these tokens. Under `guard`. */
pc__memo_entry *pc__memo_entry_by_tokens(const pc_memo *memo, const pc__id *tokens_id);
/* Forgets a record that is gone from the store. Locks `guard`. */
void pc__memo_entry_remove(pc_memo *memo, int64_t id);

void pc__memo_entries_free(pc_memo *memo);

/* ---- memo_index.c: builds the indexes of a bucket's records, for a projector, by length. It reads
 * them from the bucket's index file as far as they are there, unless `saved` is NULL; the rest is
 * computed from pooled inputs. *unsaved_cost: of what the file lacks. */
pc_status pc__memo_index_build(const pc_memo *memo, const pc__projector *projector,
                               const pc__bucket_facts *saved,
                               pc__index **by_length /* [most - least + 1][indexed layers] */,
                               uint64_t *unsaved_cost);
void pc__memo_index_free(pc__index **by_length, size_t count);
/* Adds one record; `guard` is held for writing. features: [indexed layers][PC__FEATURE_DIM]. */
pc_status pc__memo_index_add(pc_memo *memo, size_t tokens, const float *features, int64_t record);

/* ---- memo_metadata.c: what a record has beside its maps */
pc__id pc__input_digest(const pc_input *input); /* of its tokens and types */
/* Pools the input of the first layer. */
pc_status pc__memo_pool(pc_memo *memo, const pc_input *input, uint32_t bucket, float *pooled);
/* Pools the input x of a layer. */
pc_status pc__memo_pool_layer(pc_memo *memo, const float *x, size_t tokens, uint32_t bucket,
                              float *pooled);
/* Pooled inputs are stored as fp16. */
void pc__memo_pooled_put(const float *pooled, size_t count, uint16_t *metadata);
void pc__memo_pooled_get(const uint16_t *metadata, size_t count, float *pooled);

/* Outputs of a remembered prompt, stored behind its pooled input (doc/format.md, "A memo"): its
 * embedding by one pool, its logits, or both, in floats; 0: none. They come from a full
 * computation, and count only where the number formats (of weights, of K and V) and kernels are the
 * same. So a request for the same prompt gets the same bits. */
typedef struct pc__output_sizes {
    size_t embedding, logits;
} pc__output_sizes;
pc__output_sizes pc__memo_output_sizes(const pc_memo *memo, size_t tokens);
/* Bytes of the pooled inputs; of all metadata. */
size_t pc__memo_metadata_base(const pc_memo *memo, uint32_t bucket);
size_t pc__memo_metadata_bytes(size_t base, pc__output_sizes sizes);
/* 1: `bytes` is a size of metadata that this model can have: the pooled inputs, without or with
 * outputs. */
int pc__memo_metadata_fits(const pc_memo *memo, size_t base, size_t bytes);
/* Writes the outputs behind the base of `metadata`. values: embedding, then logits. */
void pc__memo_output_put(const pc_memo *memo, uint8_t *metadata, size_t base,
                         pc__output_sizes sizes, const float *values);
/* 1: the record has outputs of these sizes. Reads its metadata. */
int pc__memo_output_has(pc_memo *memo, const pc__memo_entry *entry, pc__output_sizes sizes);

#endif
