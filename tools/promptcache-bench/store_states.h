/* States that `bench store` moves through the tiers. */
#ifndef STORE_STATES_H
#define STORE_STATES_H

#include "bench_model.h"

/* One segment's states in memory of our own, and what a cache is asked for them. */
typedef struct store_state {
    pc_raw raw; /* borrows from below and from the model's description */
    int32_t *tokens;
    void **blocks;
    uint64_t *block_bytes;
    uint64_t bytes, sum; /* of all blocks */
} store_state;

typedef struct store_states {
    store_state *items;
    size_t count;
    uint64_t bytes, largest;
} store_states;

/* `count` segments of `tokens` tokens each, computed by the model: of the text's tokens, one after
 * the other, or of ids without meaning if there is none. An exit code. */
int make_states(store_states *s, const bench_model *b, const char *text_file, size_t count,
                size_t tokens);
/* The same states may stand under several names. 0: not to be had. */
int state_key(const store_state *s, const bench_model *b, uint64_t alias, uint8_t key[32]);
void free_states(store_states *s);
uint64_t sum_blocks(const pc_raw *raw); /* changes with every bit and place */

#endif
