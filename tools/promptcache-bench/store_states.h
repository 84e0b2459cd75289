/* States that `bench store` moves through the tiers. */
#ifndef STORE_STATES_H
#define STORE_STATES_H

#include "bench_model.h"

#include <promptcache/extend.h>
#include <promptcache/cache.h>

/* The states of one segment in own memory, and the description that a cache is given. */
typedef struct store_state {
    pc_raw raw; /* borrows from the fields below and from the model */
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

/* Computes `count` segments of `tokens` tokens each: consecutive tokens of the text, or random ids
 * if text_file is NULL. An exit code. */
int make_states(store_states *s, const bench_model *b, const char *text_file, size_t count,
                size_t tokens);
/* The key of the states; each alias gives another one. 0: an error. */
int state_key(const store_state *s, const bench_model *b, uint64_t alias, uint8_t key[32]);
void free_states(store_states *s);
uint64_t sum_blocks(const pc_raw *raw); /* depends on every bit and its place */

#endif
