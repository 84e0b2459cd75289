/* The head of a saved sequence (pc_sequence_save): all but its states, and which records hold
 * these. doc/format.md, "A saved sequence", has the bytes.
 *
 * The states are runs of K and V. A run that the sequence reads, but did not compute, is one record
 * under a key of its own (shared): other sequences of the tenant that read the same states have the
 * same key. Other runs are records of chunk_pages pages each, under keys that derive from the
 * sequence's key. The bytes are part of every such key, so a record under it is the right one. */
#ifndef PC_SERVE_SEQUENCE_HEAD_H
#define PC_SERVE_SEQUENCE_HEAD_H

#include "attn/kv.h"
#include "base/digest.h"

enum {
    PC__RUN_SHARED = 1,
    PC__RUN_LOSSY = 2,
    PC__RUN_OTHER_KERNELS = 4,
    PC__RUN_HAS_VISIBILITY = 8,
    PC__RUN_FLAGS = 15
};

typedef struct pc__saved_run {
    uint32_t flags; /* PC__RUN_… */
    uint32_t dtype;
    uint64_t regime;
    int64_t origin;
    pc__id visibility;
    size_t tokens;
    int32_t *ids;      /* [tokens] */
    int64_t *relative; /* [tokens]; NULL: 0, 1, 2 … */
    pc__id *keys;      /* [pc__saved_keys] */
} pc__saved_run;

/* What the sequence reads, in its order. */
typedef struct pc__saved_span {
    uint32_t run, lo, hi;
    uint32_t own;   /* it has computed the run */
    uint32_t grows; /* and goes on in it */
    uint32_t reserved;
    int64_t start;
} pc__saved_span;

typedef struct pc__saved_head {
    /* numbers, in the order of the file */
    uint64_t version, counter, chunk_pages;
    uint64_t next_position, own_last; /* int64_t */
    uint64_t regime, regime_decided;
    uint64_t encoding, repair, repair_tokens, repair_percent, visibility, rope_regime_length;
    uint64_t exactness, lossy, other_kernels, tokens_memo;
    uint64_t finish, pending, turn, again, seed, random[4];
    uint64_t token_count, own_count, history_count, run_count, span_count;
    /* arrays */
    int32_t *tokens, *own, *history;
    pc__saved_run *runs;
    pc__saved_span *spans;
} pc__saved_head;

enum { PC__SAVED_VERSION = 1, PC__SAVED_MOST = 1 << 28 }; /* bytes of a head */

/* How many records a run is. */
size_t pc__saved_keys(const pc__saved_head *head, const pc__saved_run *run);

pc_status pc__saved_head_write(const pc__saved_head *head, pc__bytes *out);
/* Allocates the arrays; pc__saved_head_free frees them, on failure too. PC_ERR_FORMAT: the bytes
 * contradict themselves. Ids of tokens are not compared with any vocabulary. */
pc_status pc__saved_head_read(pc__saved_head *head, const pc_allocator *mem, const void *data,
                              size_t size);
void pc__saved_head_free(pc__saved_head *head, const pc_allocator *mem);

#endif
